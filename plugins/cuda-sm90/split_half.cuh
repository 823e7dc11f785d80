/* SPDX-License-Identifier: MIT
 * split_half.cuh - paged_attn_decode for calls of few segments: a block is four strands of one
 * segment and up to four query heads of a KV head, canonical order.
 *
 * Two waves share a strand.  First each has the scores of half of its keys, in lanes as in
 * split_attention.cuh; then the weights of two heads, a lane a key; then half of the columns of V.
 * All rows of K and half of those of V are asked for at the start, the others of V when there is
 * room.  The next launch starts before this one waits: its merge, and the blocks of the call
 * behind.
 *
 * A masked key has a row of zeros and the weight -0. */
#ifndef OPREG_SM90_SPLIT_HALF_CUH
#define OPREG_SM90_SPLIT_HALF_CUH

#include "split_attention.cuh"

/* Elements of a row that a lane has of V: four, as they are stored. */
template <uint32_t KV> DEVICE void half_values(const uint8_t *at, float *out) {
    if constexpr (KV == OPREG_F8_E4M3) {
        uint32_t four = *(const uint32_t *)at;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t pair;
            asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)(four >> 16 * i)));
            asm("cvt.f32.f16 %0, %1;" : "=f"(out[2 * i]) : "h"((unsigned short)pair));
            asm("cvt.f32.f16 %0, %1;" : "=f"(out[2 * i + 1]) : "h"((unsigned short)(pair >> 16)));
        }
    } else {
        uint2 four = *(const uint2 *)at;
        uint32_t pairs[2] = {four.x, four.y};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (KV == OPREG_BF16) {
                out[2 * i] = __uint_as_float(pairs[i] << 16);
                out[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000u);
            } else {
                asm("cvt.f32.f16 %0, %1;" : "=f"(out[2 * i]) : "h"((unsigned short)pairs[i]));
                asm("cvt.f32.f16 %0, %1;"
                    : "=f"(out[2 * i + 1])
                    : "h"((unsigned short)(pairs[i] >> 16)));
            }
        }
    }
}

/* Of a strand: scores, then weights; what each step takes off what was there. */
struct half_weights {
    float key[4][40]; /* by head; rows lie apart in the banks */
    float factor[4][4];
};

template <uint32_t KV> struct __align__(128) half_shared {
    static const int row = 256 * cache8<KV>::element;
    uint8_t keys[8][16][row];       /* by wave; then rows 16 on of V, and the outputs */
    uint8_t values[8][16][row / 2]; /* by wave: rows 0 to 15 of its strand             */
    half_weights weights[4];
    float m[4][4], l[4][4];
    int any[4];
};

/* Two waves. */
DEVICE void pair_barrier(int strand) {
    switch (strand) { /* numbers that are not constants would take all barriers there are */
    case 0:
        asm volatile("bar.sync 1, 64;" ::: "memory");
        break;
    case 1:
        asm volatile("bar.sync 2, 64;" ::: "memory");
        break;
    case 2:
        asm volatile("bar.sync 3, 64;" ::: "memory");
        break;
    default:
        asm volatile("bar.sync 4, 64;" ::: "memory");
        break;
    }
}

template <uint32_t KV> DEVICE void split_half(const split_args &args) {
    constexpr int DIM = 256, HEADS = 4, ELEMENT = cache8<KV>::element, ROW = DIM * ELEMENT;
    constexpr int PIECE = 8 * ELEMENT;                             /* a lane's part of a row of K */
    constexpr int V_PIECES = ROW / 2 / 16, V_ROWS = 32 / V_PIECES; /* rows of a copy of the wave */
    extern __shared__ __align__(128) uint8_t split_memory[];
    half_shared<KV> &shared = *(half_shared<KV> *)split_memory;
    const attention_args &a = args.base;
    int32_t lane = (int32_t)lane_index(), wave = (int32_t)wave_index();
    int32_t strand = wave >> 1, side = wave & 1;
    int32_t token = (int32_t)block_z(), part = (int32_t)block_y();
    int32_t group = a.q_heads / a.kv_heads, chunks = (group + HEADS - 1) / HEADS;
    int32_t kv_head = (int32_t)block_x() / chunks;
    int32_t first_head = kv_head * group + (int32_t)block_x() % chunks * HEADS;
    int32_t last_head = kv_head * group + group - 1;
    visible_keys keys = keys_of_token(a, token);
    int32_t segment = (part >> 1) * CANONICAL_SEGMENT;
    if (segment + CANONICAL_SEGMENT <= keys.begin || segment >= keys.end) {
        let_next_launch_start();
        wait_for_launch_ahead();
        return;
    }
    /* a lane finds the rows of key `lane` of the strand */
    int32_t position = segment + (part & 1) * 4 + strand + 8 * lane;
    int32_t page = page_in_view(args, keys, position);
    row_offsets rows = rows_at(args, kv_head, position, page);
    uint32_t there = wave_ballot(page >= 0);
    if (args.chained != 0u && segment + CANONICAL_SEGMENT > keys.end - a.max_q) {
        wait_for_launch_ahead();
    }
    uint8_t *k_memory = shared.keys[wave][0], *v_memory = shared.values[wave][0];
    uint32_t k_slot = shared_address(k_memory) + (uint32_t)(lane * PIECE);
    const uint8_t *k_from = (const uint8_t *)a.k + lane * PIECE;
#pragma unroll
    for (int i = 0; i < 16; i++) {
        uint32_t row = wave_read(rows.k, side * 16 + i);
        copy_later<(PIECE < 16 ? PIECE : 16)>(k_slot + (uint32_t)(i * ROW),
                                              k_from + (uint64_t)row * 8u,
                                              (there >> (side * 16 + i) & 1u) != 0u);
        if (i % 8 == 7) {
            close_copies();
        }
    }
    const uint8_t *v_from = (const uint8_t *)a.v + side * (ROW / 2) + lane % V_PIECES * 16;
    uint32_t v_own = (uint32_t)(lane / V_PIECES * (ROW / 2) + lane % V_PIECES * 16);
#pragma unroll
    for (int i = 0; i < 16; i += V_ROWS) {
        int key = i + lane / V_PIECES;
        uint32_t row = wave_read(rows.v, key);
        copy_later<16>(shared_address(v_memory) + v_own + (uint32_t)(i * (ROW / 2)),
                       v_from + (uint64_t)row * 8u, (there >> key & 1u) != 0u);
        if ((i + V_ROWS) % 8 == 0) {
            close_copies();
        }
    }
    let_next_launch_start();
    wait_for_launch_ahead();

    /* the head and the key of eight that a lane's dots end in */
    int head = lane_bit((uint32_t)lane, 0) << 1 | lane_bit((uint32_t)lane, 1);
    int key = lane_bit((uint32_t)lane, 2) << 2 | lane_bit((uint32_t)lane, 3) << 1 |
              lane_bit((uint32_t)lane, 4);
    float q[HEADS][8];
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
        int64_t of = first_head + (h ^ head);
        of = of < last_head ? of : last_head;
        load_query(a.q, token * a.q_stride + of * DIM + lane * 8, a.q_dtype, q[h]);
    }
    float k_scale = KV == OPREG_F8_E4M3 ? a.k_scale[kv_head] : 1.0f;
    half_weights &weights = shared.weights[strand];
#pragma unroll
    for (int b = 0; b < 2; b++) {
        float r[8];
        if (b == 0) {
            wait_for_copies<3>();
        } else {
            wait_for_copies<4>();
        }
#pragma unroll
        for (int g = 0; g < 8; g += 4) {
            cache8<KV> k[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                k[j].load(k_memory + b * 8 * ROW + ((g + j) ^ key) * ROW + lane * PIECE);
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float value[8], v[HEADS];
                k[j].values(value);
#pragma unroll
                for (int h = 0; h < HEADS; h++) {
                    v[h] = dot8<DIM>(q[h], value);
                }
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    v[h] = v[h] + wave_xor(v[h + 2], 1);
                }
                r[g + j] = v[0] + wave_xor(v[1], 2);
            }
        }
        if (b == 0) { /* the rest of V, where those keys were */
            wave_barrier();
#pragma unroll
            for (int i = 0; i < 16; i += V_ROWS) {
                int of = 16 + i + lane / V_PIECES;
                uint32_t row = wave_read(rows.v, of);
                copy_later<16>(shared_address(k_memory) + v_own + (uint32_t)(i * (ROW / 2)),
                               v_from + (uint64_t)row * 8u, (there >> of & 1u) != 0u);
                if ((i + V_ROWS) % 8 == 0) {
                    close_copies();
                }
            }
        }
#pragma unroll
        for (int t = 0; t < 3; t++) {
#pragma unroll
            for (int j = 0; j < 4 >> t; j++) {
                r[j] = r[j] + wave_xor(r[j + (4 >> t)], 4 << t);
            }
        }
        weights.key[head][side * 16 + b * 8 + key] = r[0];
    }
    pair_barrier(strand);
    /* weights of two heads, a lane a key */
    uint32_t before = there & ((1u << (lane & 24)) - 1u), here = there >> (lane & 24) & 255u;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int h = side * 2 + i;
        float score = canonical_score(weights.key[h][lane], k_scale, a.scale, a.softcap);
        bool seen = (there >> lane & 1u) != 0u;
        score = seen ? score : float_of(0xff800000u);
        float m = fmaxf(score, float_of(0xff800000u)); /* a NaN is never the maximum */
        m = fmaxf(m, wave_xor(m, 1));
        m = fmaxf(m, wave_xor(m, 2));
        m = fmaxf(m, wave_xor(m, 4));
        float ahead = wave_read(m, lane - 8);
        m = lane >= 8 ? fmaxf(m, ahead) : m;
        ahead = wave_read(m, lane - 16);
        m = lane >= 16 ? fmaxf(m, ahead) : m;
        ahead = wave_read(m, lane - 8);
        float factor = here != 0u ? exp_below(ahead - m) : 1.0f;
        factor = before != 0u ? factor : 1.0f;
        float weight = seen ? exp_below(score - m) : -0.0f;
        weights.key[h][lane] = weight;
        if ((lane & 7) == 0) {
            weights.factor[lane >> 3][h] = factor;
        }
        if (lane == 31) {
            shared.m[strand][h] = m;
        }
    }
    pair_barrier(strand);
    float o[HEADS][4], l = 0.0f;
    int own = lane & 3;
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            o[h][e] = 0.0f;
        }
    }
#pragma unroll 1
    for (int c = 0; c < 4; c++) {
        const uint8_t *from =
            (c < 2 ? v_memory : k_memory) + (c & 1) * 8 * (ROW / 2) + lane * (4 * ELEMENT);
        if (c == 0) {
            wait_for_copies<3>();
        } else if (c == 1) {
            wait_for_copies<2>();
        } else if (c == 2) {
            wait_for_copies<1>();
        } else {
            wait_for_copies<0>();
        }
        wave_barrier();
        float4 four = *(const float4 *)weights.factor[c];
        float factor[HEADS] = {four.x, four.y, four.z, four.w};
        l = l * weights.factor[c][own];
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                o[h][e] = o[h][e] * factor[h];
            }
        }
#pragma unroll
        for (int g = 0; g < 8; g += 4) {
            float w[HEADS][4], mine[4];
#pragma unroll
            for (int h = 0; h < HEADS; h++) {
                *(float4 *)w[h] = *(const float4 *)&weights.key[h][c * 8 + g];
            }
            *(float4 *)mine = *(const float4 *)&weights.key[own][c * 8 + g];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float value[4];
                half_values<KV>(from + (g + j) * (ROW / 2), value);
                l = l + mine[j];
#pragma unroll
                for (int h = 0; h < HEADS; h++) {
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        o[h][e] = __fmaf_rn(w[h][j], value[e], o[h][e]);
                    }
                }
            }
        }
    }
    /* the strands' parts; the wave's columns lie where its keys were, behind the rows of V */
    float *to = (float *)(k_memory + 8 * ROW);
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
        *(float4 *)(to + h * 128 + lane * 4) = make_float4(o[h][0], o[h][1], o[h][2], o[h][3]);
    }
    if (side == 0 && lane < 4) {
        shared.l[strand][lane] = l;
        shared.any[strand] = there != 0u;
    }
    block_barrier();
    int32_t thread = (int32_t)thread_index(), of = thread / 64, column = thread % 32;
    int32_t leaf = thread & 3, first = lane & ~3;
    __align__(16) float v[4][4];
#pragma unroll
    for (int s = 0; s < 4; s++) {
        const float *from =
            (const float *)(shared.keys[2 * s + (thread >> 5 & 1)][8]) + of * 128 + column * 4;
        *(float4 *)v[s] = *(const float4 *)from;
    }
    part_sums sums = {shared.m[leaf][of], shared.l[leaf][of], shared.any[leaf] != 0};
    float factors[2];
    merge_lanes<2>(&sums, factors);
#pragma unroll
    for (int u = 0; u < 2; u++) {
#pragma unroll
        for (int s = 0; s < 4; s += 2 << u) {
            float left = wave_read(factors[u], first | s);
            float right = wave_read(factors[u], first | (s + (1 << u)));
#pragma unroll
            for (int e = 0; e < 4; e++) {
                v[s][e] = merged_value(v[s][e], v[s + (1 << u)][e], left, right);
            }
        }
    }
    if (first_head + of <= last_head) {
        int64_t at = ((int64_t)token * a.q_heads + first_head + of) * args.parts + part;
        *(float4 *)(args.o + at * DIM + thread % 64 * 4) =
            make_float4(v[0][0], v[0][1], v[0][2], v[0][3]);
        if (thread % 64 == 0) {
            args.m[at] = sums.any ? sums.m : float_of(0x7fc00000u);
            args.l[at] = sums.l;
        }
    }
}

#endif /* OPREG_SM90_SPLIT_HALF_CUH */
