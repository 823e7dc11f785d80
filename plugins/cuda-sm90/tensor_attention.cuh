/* SPDX-License-Identifier: MIT
 * tensor_attention.cuh - paged_attn_decode on tensor cores, over the same segments and merges as
 * split_attention, within a segment in another order.
 *
 * A block is a run of segments of one KV head and four of its query heads; a wave has 64
 * neighbouring positions of each segment, in four slots of 16 rows that hold K and then V.  Scores
 * are q * K^T: q's rows are the heads' upper halves, then their lower ones, each of the cache's
 * type, so that q counts with twice the cache's precision.  The weights lie as the second product,
 * V^T * weights, wants them, again as upper and lower halves.  One maximum a wave and segment. */
#ifndef OPREG_SM90_TENSOR_ATTENTION_CUH
#define OPREG_SM90_TENSOR_ATTENTION_CUH

#include "split_finish.cuh"

template <int DIM> struct __align__(128) tensor_shared {
    uint8_t slots[TENSOR_WAVES][4][16][2 * DIM + 16]; /* 16 more bytes a row: no two in one bank */
    split_exchange<DIM, TENSOR_HEADS, TENSOR_WAVES> exchange;
    uint32_t k_at[TENSOR_WAVES][64], v_at[TENSOR_WAVES][64];
};

template <uint32_t KV> DEVICE uint32_t pack_pair(float low, float high) {
    uint32_t pair;
    if (KV == OPREG_BF16) {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    } else {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    }
    return pair;
}

template <uint32_t KV> DEVICE void unpack_pair(uint32_t pair, float *low, float *high) {
    if (KV == OPREG_BF16) {
        *low = __uint_as_float(pair << 16);
        *high = __uint_as_float(pair & 0xffff0000u);
    } else {
        asm("cvt.f32.f16 %0, %1;" : "=f"(*low) : "h"((unsigned short)pair));
        asm("cvt.f32.f16 %0, %1;" : "=f"(*high) : "h"((unsigned short)(pair >> 16)));
    }
}

/* Two values as a pair of the cache's type, or as what that leaves of them. */
template <uint32_t KV> DEVICE uint32_t half_of_pair(float low, float high, bool rest) {
    float a, b;
    uint32_t pair = pack_pair<KV>(low, high);
    unpack_pair<KV>(pair, &a, &b);
    return rest ? pack_pair<KV>(low - a, high - b) : pair;
}

template <uint32_t KV>
DEVICE void multiply16(float *d, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                       uint32_t b1) {
    if (KV == OPREG_BF16) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    } else {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
}

/* Four blocks of 8 rows by 16 bytes; a lane gives one row's address. */
DEVICE void load_blocks(uint32_t *a, uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(address)
                 : "memory");
}
DEVICE void load_blocks_transposed(uint32_t *a, uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(address)
                 : "memory");
}

/* 16 rows into a slot that all lanes have read; keys has a bit a row that is there. */
template <int DIM>
DEVICE void bring_tile(uint32_t slot, const uint8_t *from, const uint32_t *at, uint32_t keys,
                       bool aligned) {
    constexpr int PIECES = DIM / 8, ROWS = 32 / PIECES; /* rows of one copy of the wave */
    uint32_t lane = lane_index(), row = lane / PIECES, piece = lane % PIECES;
    if (!aligned) {
#pragma unroll 1
        for (uint32_t r = row; r < 16u; r += ROWS) {
            const uint16_t *source = (const uint16_t *)(from + (uint64_t)(at[r] + piece * 2u) * 8u);
            uint32_t w[4] = {0u, 0u, 0u, 0u};
            if (keys >> r & 1u) {
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    w[i / 2] |= (uint32_t)source[i] << 16 * (i & 1);
                }
            }
            asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(
                             slot + r * (2 * DIM + 16) + piece * 16u),
                         "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
                         : "memory");
        }
        return;
    }
#pragma unroll 4
    for (int i = 0; i < 16 / ROWS; i++) {
        uint32_t r = row + (uint32_t)(i * ROWS);
        copy_later<16>(slot + r * (2 * DIM + 16) + piece * 16u,
                       from + (uint64_t)(at[r] + piece * 2u) * 8u, (keys & 1u << r) != 0u);
    }
}

template <uint32_t TYPE> DEVICE float query_element(const void *q, int64_t at) {
    float value;
    if (TYPE == OPREG_F32) {
        return ((const float *)q)[at];
    }
    if (TYPE == OPREG_BF16) {
        return bf16_to_f32(((const uint16_t *)q)[at]);
    }
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(((const uint16_t *)q)[at]));
    return value;
}

/* q of the lane's head: elements 16k + 2t, + 1, + 8, + 9 as pairs.  f16 has q scaled by a power of
 * two that keeps it in range; the scores are to be multiplied by what is returned. */
template <int DIM, uint32_t KV, uint32_t TYPE>
DEVICE float load_queries(const void *q, int64_t at, bool rest, uint32_t (*pairs)[2]) {
    int t = (int)(lane_index() & 3u);
    float back = 1.0f, to = 1.0f, values[DIM / 16][4];
#pragma unroll
    for (int k = 0; k < DIM / 16; k++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            values[k][i] = query_element<TYPE>(q, at + 16 * k + 2 * t + (i & 1) + 8 * (i / 2));
        }
    }
    if (KV == OPREG_F16 && TYPE != OPREG_F16) {
        float most = 0.0f;
#pragma unroll
        for (int i = 0; i < DIM / 4; i++) {
            most = fmaxf(most, fabsf(values[i / 4][i & 3]));
        }
        most = fmaxf(most, wave_xor(most, 1));
        most = fmaxf(most, wave_xor(most, 2));
        uint32_t exponent = bits_of(most) >> 23;
        if (exponent > 30u && exponent < 225u) {
            back = float_of(exponent << 23);
            to = float_of((254u - exponent) << 23);
        }
    }
#pragma unroll
    for (int k = 0; k < DIM / 16; k++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            pairs[k][i] = half_of_pair<KV>(values[k][2 * i] * to, values[k][2 * i + 1] * to, rest);
        }
    }
    return back;
}

/* The run's segments that have keys. */
template <int DIM, uint32_t KV>
DEVICE void attend_run(const split_args &args, const split_place &place, tensor_shared<DIM> &shared,
                       thread_part<DIM / 32> *part) {
    constexpr uint32_t ROW = 2 * DIM + 16, SLOT = 16 * ROW;
    const attention_args &a = args.base;
    bool aligned = args.aligned != 0;
    uint32_t lane = lane_index(), wave = wave_index(), g = lane >> 2, t = lane & 3u;
    const uint8_t *k_from = (const uint8_t *)a.k, *v_from = (const uint8_t *)a.v;
    uint32_t *k_at = shared.k_at[wave], *v_at = shared.v_at[wave];
    uint32_t slots = shared_address(shared.slots[wave]);
    /* a lane finds two rows of a segment, one segment ahead */
    int32_t position = place.first * CANONICAL_SEGMENT + (int32_t)(64u * wave + lane), page[2];
    uint32_t mask[2], next_mask[2] = {0u, 0u};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        page[i] = page_in_view(args, place.keys, position + 32 * i);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        row_offsets rows = rows_at(args, place.kv_head, position + 32 * i, page[i]);
        k_at[lane + 32 * i] = rows.k;
        v_at[lane + 32 * i] = rows.v;
        mask[i] = wave_ballot(page[i] >= 0);
    }
    wave_barrier();
#pragma unroll
    for (int c = 0; c < 4; c++) {
        bring_tile<DIM>(slots + c * SLOT, k_from, k_at + 16 * c, mask[c / 2] >> 16 * (c & 1),
                        aligned);
        close_copies();
    }
    bool rest = g >= 4u; /* the lane's row of q, and column of weights, is of lower halves */
    int64_t head = place.first_head + (int32_t)(g & 3u);
    head = head < place.last_head ? head : place.last_head;
    uint32_t q[DIM / 16][2];
    int64_t q_at = place.token * a.q_stride + head * DIM;
    float back = a.q_dtype == OPREG_F32    ? load_queries<DIM, KV, OPREG_F32>(a.q, q_at, rest, q)
                 : a.q_dtype == OPREG_BF16 ? load_queries<DIM, KV, OPREG_BF16>(a.q, q_at, rest, q)
                                           : load_queries<DIM, KV, OPREG_F16>(a.q, q_at, rest, q);
    /* the row and the half of 16 columns whose address the lane gives */
    uint32_t block = slots + ((lane & 7u) + (lane >> 4) * 8u) * ROW + (lane >> 3 & 1u) * 16u;
#pragma unroll 1
    for (int32_t segment = place.first; segment < place.end; segment++) {
        bool more = segment + 1 < place.end;
        position += CANONICAL_SEGMENT;
        page[0] = more ? page_in_view(args, place.keys, position) : -1;
        page[1] = more ? page_in_view(args, place.keys, position + 32) : -1;
        float s[4][4];
#pragma unroll
        for (int c = 0; c < 4; c++) {
            float d[2][4] = {{0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f}};
            wait_for_copies<3>();
            wave_barrier();
#pragma unroll
            for (int k = 0; k < DIM / 16; k++) {
                uint32_t b[4];
                load_blocks(b, block + c * SLOT + k * 32);
                multiply16<KV>(d[0], q[k][0], 0u, q[k][1], 0u, b[0], b[1]);
                multiply16<KV>(d[1], q[k][0], 0u, q[k][1], 0u, b[2], b[3]);
            }
            wave_barrier();
            bring_tile<DIM>(slots + c * SLOT, v_from, v_at + 16 * c, mask[c / 2] >> 16 * (c & 1),
                            aligned);
            close_copies();
#pragma unroll
            for (int i = 0; i < 4; i++) {
                s[c][i] = d[i / 2][i & 1] + wave_xor(d[i / 2][i & 1], 16);
            }
        }
        wave_barrier(); /* the rows of V are asked for */
#pragma unroll
        for (int i = 0; i < 2; i++) {
            row_offsets rows = rows_at(args, place.kv_head, position + 32 * i, page[i]);
            k_at[lane + 32 * i] = rows.k;
            v_at[lane + 32 * i] = rows.v;
            next_mask[i] = wave_ballot(page[i] >= 0);
        }
        /* weights: key 16c + 8 (i / 2) + 2t + (i & 1) */
        part_sums sums = {float_of(0xff800000u), 0.0f, (mask[0] | mask[1]) != 0u};
        uint32_t weights[4][2];
        if (a.softcap != 0.0f) {
#pragma unroll
            for (int i = 0; i < 16; i++) {
                s[i / 4][i & 3] = canonical_score(s[i / 4][i & 3], 1.0f, a.scale * back, a.softcap);
            }
        } else {
#pragma unroll
            for (int i = 0; i < 16; i++) {
                s[i / 4][i & 3] *= a.scale * back;
            }
        }
#pragma unroll
        for (int c = 0; c < 4; c++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                bool there = mask[c / 2] >> (16 * (c & 1) + 8 * (i / 2) + 2 * t + (i & 1)) & 1u;
                s[c][i] = there ? s[c][i] : float_of(0xff800000u);
                sums.m = fmaxf(sums.m, s[c][i]);
            }
        }
        sums.m = fmaxf(sums.m, wave_xor(sums.m, 1));
        sums.m = fmaxf(sums.m, wave_xor(sums.m, 2));
#pragma unroll
        for (int c = 0; c < 4; c++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float weight;
                asm("ex2.approx.f32 %0, %1;"
                    : "=f"(weight)
                    : "f"((s[c][i] - sums.m) * 0x1.715476p0f));
                s[c][i] = mask[c / 2] >> (16 * (c & 1) + 8 * (i / 2) + 2 * t + (i & 1)) & 1u
                              ? weight
                              : 0.0f;
                sums.l = sums.l + s[c][i];
            }
            weights[c][0] = half_of_pair<KV>(s[c][0], s[c][1], rest);
            weights[c][1] = half_of_pair<KV>(s[c][2], s[c][3], rest);
        }
        sums.l = sums.l + wave_xor(sums.l, 1);
        sums.l = sums.l + wave_xor(sums.l, 2);
        wave_barrier(); /* the rows of the next K are known */
        float o[DIM / 16][4];
#pragma unroll
        for (int n = 0; n < DIM / 16; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                o[n][i] = 0.0f;
            }
        }
#pragma unroll
        for (int c = 0; c < 4; c++) {
            wait_for_copies<3>();
            wave_barrier();
#pragma unroll
            for (int n = 0; n < DIM / 16; n++) {
                uint32_t v[4];
                load_blocks_transposed(v, block + c * SLOT + n * 32);
                multiply16<KV>(o[n], v[0], v[1], v[2], v[3], weights[c][0], weights[c][1]);
            }
            wave_barrier();
            if (more) {
                bring_tile<DIM>(slots + c * SLOT, k_from, k_at + 16 * c,
                                next_mask[c / 2] >> 16 * (c & 1), aligned);
            }
            close_copies();
        }
        split_exchange<DIM, TENSOR_HEADS, TENSOR_WAVES> &x = shared.exchange;
        block_barrier(); /* the segment ahead is read */
        bool upper = t >= 2u;
#pragma unroll
        for (int n = 0; n < DIM / 16; n++) {
#pragma unroll
            for (int i = 0; i < 2; i++) { /* both halves of a head's weights */
                float keep = upper ? o[n][2 + i] : o[n][i], send = upper ? o[n][i] : o[n][2 + i];
                x.o[wave][2u * (t & 1u) + (uint32_t)i][16u * (uint32_t)n + g + (upper ? 8u : 0u)] =
                    keep + wave_xor(send, 2);
            }
        }
        if (t == 0u && g < 4u) {
            x.m[wave][g] = sums.m;
            x.l[wave][g] = sums.l;
        }
        if (lane == 0u) {
            x.any[wave] = sums.any;
        }
        block_barrier();
        merge_waves<DIM, TENSOR_HEADS, TENSOR_WAVES>(x, part);
        add_to_run<DIM, TENSOR_HEADS, TENSOR_WAVES>(x, segment - place.run, place.first - place.run,
                                                    !more, part);
        mask[0] = next_mask[0];
        mask[1] = next_mask[1];
    }
}

template <int DIM, uint32_t KV> DEVICE void tensor_part(const split_args &args) {
    extern __shared__ __align__(128) uint8_t split_memory[];
    tensor_shared<DIM> &shared = *(tensor_shared<DIM> *)split_memory;
    split_place place;
    thread_part<DIM / 32> part;
    let_next_launch_start();
    if (find_place<TENSOR_HEADS>(args, &place)) {
        attend_run<DIM, KV>(args, place, shared, &part);
    } else {
        part.clear();
    }
    finish<DIM, TENSOR_HEADS, TENSOR_WAVES>(args, place, part);
}

#endif /* OPREG_SM90_TENSOR_ATTENTION_CUH */
