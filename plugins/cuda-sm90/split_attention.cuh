/* SPDX-License-Identifier: MIT
 * split_attention.cuh - paged_attn_decode over segments of 256 positions, canonical order.
 *
 * A block is a run of segments of one KV head and up to four of its query heads; a strand is DIM /
 * 8 lanes with eight elements each.  A lane has its eight columns of its strand's rows for itself:
 * it copies them to four slots of shared memory (K, K, V, V: halves of a step), each refilled for
 * the next step as soon as it is in registers.  A dot's tree is a transposition without selections:
 * a level halves the heads, then the keys, that a lane is answerable for, and the lane holds them
 * from the start in the order that puts what it keeps first.
 *
 * A masked key has a row of zeros and the weight -0: products of -0, which change no sum. */
#ifndef OPREG_SM90_SPLIT_ATTENTION_CUH
#define OPREG_SM90_SPLIT_ATTENTION_CUH

#include "split_finish.cuh"

/* Eight elements of a cache row, as they are stored. */
template <uint32_t KV> struct cache8 {
    static const int element = KV == OPREG_F32 ? 4 : KV == OPREG_F8_E4M3 ? 1 : 2;
    static const int words = 2 * element;
    uint32_t w[words];
    __device__ __forceinline__ void load(const uint8_t *at) {
        if (words == 2) {
            uint2 v = *(const uint2 *)at;
            w[0] = v.x;
            w[1] = v.y;
        } else {
#pragma unroll
            for (int i = 0; i + 3 < words; i += 4) {
                uint4 v = *(const uint4 *)(at + 4 * i);
                w[i] = v.x;
                w[i + 1] = v.y;
                w[i + 2] = v.z;
                w[i + 3] = v.w;
            }
        }
    }
    __device__ __forceinline__ void values(float *out) const {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (KV == OPREG_F32) {
                out[2 * i] = __uint_as_float(w[2 * i % words]);
                out[2 * i + 1] = __uint_as_float(w[(2 * i + 1) % words]);
            } else if (KV == OPREG_BF16) {
                out[2 * i] = __uint_as_float(w[i % words] << 16);
                out[2 * i + 1] = __uint_as_float(w[i % words] & 0xffff0000u);
            } else {
                uint32_t pair = w[i % words];
                if (KV == OPREG_F8_E4M3) {
                    unsigned short two = (unsigned short)(w[i / 2] >> 16 * (i & 1));
                    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(two));
                }
                asm("cvt.f32.f16 %0, %1;" : "=f"(out[2 * i]) : "h"((unsigned short)pair));
                asm("cvt.f32.f16 %0, %1;"
                    : "=f"(out[2 * i + 1])
                    : "h"((unsigned short)(pair >> 16)));
            }
        }
    }
};

template <int DIM, int HEADS, uint32_t KV> struct split_shape {
    static const int levels = DIM == 64    ? 3
                              : DIM == 128 ? 4
                                           : 5; /* of a dot between lanes          */
    static const int lanes = DIM / 8;           /* of a strand                     */
    static const int strands = 32 / lanes;      /* of a wave                       */
    static const int waves = DIM / 32;
    static const int head_bits = HEADS == 4 ? 2 : HEADS - 1;
    static const int row = DIM * cache8<KV>::element;
    static const int key_levels = levels - head_bits < 2 ? levels - head_bits : 2;
    static const int keys = 4 >> key_levels; /* of a half that a lane is answerable for           */
    static const bool halves = levels > head_bits + 2; /* a lane is answerable for one half alone */
    static const int scores = halves ? 1 : 2 * keys;
};

template <int DIM, int HEADS, uint32_t KV> struct __align__(128) split_shared {
    using shape = split_shape<DIM, HEADS, KV>;
    uint8_t slots[shape::waves][4][4 * shape::strands][shape::row]; /* by strand, key of the half */
    /* by strand: head * 8 + key, then what the step takes off what was there */
    float weights[shape::waves][shape::strands][HEADS * 8 + 4];
    split_exchange<DIM, HEADS, shape::waves> exchange;
    uint32_t k_at[shape::waves][shape::strands][8], v_at[shape::waves][shape::strands][8];
    split_place places[shape::waves]; /* the block's, for every wave: it takes no registers there */
};

/* Four rows of the strand, the lane's columns of them; keys has a bit a row that is there. */
template <int ROW, int PIECE>
DEVICE void bring_pieces(uint32_t to, const uint8_t *from, const uint32_t *at, uint32_t column,
                         uint32_t keys) {
    uint4 four = *(const uint4 *)at;
    uint32_t rows[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const uint8_t *row = from + (uint64_t)(rows[j] + column) * 8u;
#pragma unroll
        for (int i = 0; i < PIECE; i += 16) {
            copy_later<(PIECE < 16 ? PIECE : 16)>(to + (uint32_t)(j * ROW + i), row + i,
                                                  (keys & 1u << j) != 0u);
        }
    }
}

/* Eight elements of q; by vectors where they lie so. */
DEVICE void load_query(const void *q, int64_t at, uint32_t dtype, float *out) {
    if (dtype == OPREG_F32) {
        const float *from = (const float *)q + at;
        if (((uintptr_t)from & 15u) == 0u) {
            float4 x = ((const float4 *)from)[0], y = ((const float4 *)from)[1];
            out[0] = x.x, out[1] = x.y, out[2] = x.z, out[3] = x.w;
            out[4] = y.x, out[5] = y.y, out[6] = y.z, out[7] = y.w;
        } else {
#pragma unroll
            for (int e = 0; e < 8; e++) {
                out[e] = from[e];
            }
        }
    } else {
        __align__(16) uint16_t bits[8];
        const uint16_t *from = (const uint16_t *)q + at;
        if (((uintptr_t)from & 15u) == 0u) {
            *(uint4 *)bits = *(const uint4 *)from;
        } else {
#pragma unroll
            for (int e = 0; e < 8; e++) {
                bits[e] = from[e];
            }
        }
#pragma unroll
        for (int e = 0; e < 8; e++) {
            float half;
            asm("cvt.f32.f16 %0, %1;" : "=f"(half) : "h"(bits[e]));
            out[e] = dtype == OPREG_BF16 ? bf16_to_f32(bits[e]) : half;
        }
    }
}

DEVICE int lane_bit(uint32_t lane, int bit) {
    return (int)(lane >> bit & 1u);
}

/* A dot's part in this lane: eight elements, in accumulators of DIM / 32. */
template <int DIM> DEVICE float dot8(const float *q, const float *key) {
    constexpr int EACH = DIM / 32, PARTS = 8 / EACH;
    float sums[PARTS];
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
        sums[p] = 0.0f;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            sums[p] = __fmaf_rn(q[p * EACH + e], key[p * EACH + e], sums[p]);
        }
    }
    if constexpr (PARTS == 4) {
        return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    } else if constexpr (PARTS == 2) {
        return sums[0] + sums[1];
    } else {
        return sums[0];
    }
}

/* The run's segments that have keys. */
template <int DIM, int HEADS, uint32_t KV>
DEVICE void attend_run(const split_args &args, const split_place &place,
                       split_shared<DIM, HEADS, KV> &shared, thread_part<HEADS> *part) {
    using shape = split_shape<DIM, HEADS, KV>;
    constexpr int LANES = shape::lanes, LEVELS = shape::levels, BITS = shape::head_bits;
    constexpr int ELEMENT = cache8<KV>::element, ROW = shape::row, PIECE = 8 * ELEMENT;
    constexpr int SLOT = 4 * shape::strands * ROW;
    const attention_args &a = args.base;
    uint32_t lane = lane_index(), wave = wave_index();
    int strand = (int)lane / LANES, in_strand = (int)lane % LANES;
    uint32_t *k_at = shared.k_at[wave][0], *v_at = shared.v_at[wave][0];
    const uint32_t *own_k = k_at + 8 * strand, *own_v = v_at + 8 * strand;
    const uint8_t *k_from = (const uint8_t *)a.k, *v_from = (const uint8_t *)a.v;
    uint32_t column = (uint32_t)in_strand * (PIECE / 8u);
    /* the lane's columns of its strand's rows, from the first slot */
    uint8_t *memory = shared.slots[0][0][0];
    uint32_t own = wave * 4u * SLOT + (uint32_t)(strand * 4 * ROW + in_strand * PIECE);
    uint32_t slot = shared_address(memory) + own;
    /* a lane finds the rows of key `lane % 8` of strand `lane / 8`, a step ahead */
    bool finds = lane < 8u * shape::strands;
    int32_t position = place.first * CANONICAL_SEGMENT + 8 * (int32_t)(lane & 7u) +
                       (int32_t)(wave * shape::strands + lane / 8u);
    int32_t page = finds ? page_in_view(args, place.keys, position) : -1;
    /* keys of the step that are there, and from bit 8 of the step after it */
    uint32_t mask = wave_ballot(page >= 0) >> 8 * strand & 255u;
    if (finds) {
        row_offsets rows = rows_at(args, place.kv_head, position, page);
        k_at[lane] = rows.k;
        v_at[lane] = rows.v;
    }
    wave_barrier();
#pragma unroll
    for (int i = 0; i < 4; i++) {
        bring_pieces<ROW, PIECE>(slot + i * SLOT, i < 2 ? k_from : v_from,
                                 (i < 2 ? own_k : own_v) + 4 * (i & 1), column,
                                 mask >> 4 * (i & 1));
        close_copies();
    }
    page = finds ? page_in_view(args, place.keys, position + 64) : -1;
    wait_for_launch_ahead();

    /* the head that this lane's dots end in, and the order in which it holds heads and keys */
    int head = 0, key = 0, slot_head = 0;
#pragma unroll
    for (int i = 0; i < BITS; i++) {
        head |= lane_bit(lane, i) << (BITS - 1 - i);
        slot_head |= LEVELS + i < 5 ? lane_bit(lane, LEVELS + i) << (BITS - 1 - i) : 0;
    }
#pragma unroll
    for (int t = 0; t < shape::key_levels; t++) {
        key |= lane_bit(lane, BITS + t) << (1 - t);
    }
    constexpr int LOW =
        (HEADS >> (5 - LEVELS)) > 0 ? (HEADS >> (5 - LEVELS)) - 1 : 0; /* not in slot_head */
    float q[HEADS][8];
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
        int64_t of = place.first_head + (h ^ head);
        of = of < place.last_head ? of : place.last_head;
        load_query(a.q, place.token * a.q_stride + of * DIM + in_strand * 8, a.q_dtype, q[h]);
    }
    float k_scale = KV == OPREG_F8_E4M3 ? a.k_scale[place.kv_head] : 1.0f;
    float *weights = shared.weights[wave][strand];
    part_sums sums = {float_of(0xff800000u), 0.0f, false};
    float o[HEADS][8];
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
#pragma unroll
        for (int e = 0; e < 8; e++) {
            o[h][e] = 0.0f;
        }
    }
    for (int32_t segment = place.first;; segment++) {
        bool last = segment + 1 == place.end;
#pragma unroll 1
        for (int c = 0; c < 4; c++) {
            bool more = c < 3 || !last;
            if (last && c == 1) { /* late enough that the merge's code stays near until it is needed */
                let_next_launch_start();
            }
            position += 64;
            int finder = computed_here((int)lane);
            mask |= (wave_ballot(page >= 0) >> 8 * (finder / LANES) & 255u) << 8;
            if (finder < 8 * shape::strands) {
                row_offsets rows = rows_at(args, place.kv_head, position, page);
                k_at[finder] = rows.k;
                v_at[finder] = rows.v;
            }
            wave_barrier();
            page = finder < 8 * shape::strands ? page_in_view(args, place.keys, position + 64) : -1;

            float dots[2][shape::keys];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                cache8<KV> k[4];
                wait_for_copies<3>();
                /* anew for each half: kept, the rows of the keys would take three registers */
                uint32_t rows = own ^ (uint32_t)(key * ROW);
                rows = DIM == 256 ? rows : (uint32_t)computed_here((int32_t)rows);
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    k[j].load(memory + (rows ^ (uint32_t)(j * ROW)) + half * SLOT);
                }
                if (more) {
                    bring_pieces<ROW, PIECE>(slot + half * SLOT, k_from, own_k + 4 * half, column,
                                             mask >> (8 + 4 * half));
                }
                close_copies();
                float r[4];
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    float value[8], v[HEADS];
                    k[j].values(value);
#pragma unroll
                    for (int h = 0; h < HEADS; h++) {
                        v[h] = dot8<DIM>(q[h], value);
                    }
#pragma unroll
                    for (int i = 0; i < BITS; i++) {
#pragma unroll
                        for (int h = 0; h < HEADS >> (i + 1); h++) {
                            v[h] = v[h] + wave_xor(v[h + (HEADS >> (i + 1))], 1 << i);
                        }
                    }
                    r[j] = v[0];
                }
#pragma unroll
                for (int t = 0; t < shape::key_levels; t++) {
#pragma unroll
                    for (int j = 0; j < 4 >> (t + 1); j++) {
                        r[j] = r[j] + wave_xor(r[j + (4 >> (t + 1))], 1 << (BITS + t));
                    }
                }
#pragma unroll
                for (int j = 0; j < shape::keys; j++) {
                    dots[half][j] = r[j];
                }
            }
            /* scores of the lane's head: number i is of key at[i] */
            float scores[shape::scores];
            int at[shape::scores], own_key = computed_here(key);
            if constexpr (shape::halves) {
                bool upper = lane_bit(lane, BITS + 2) != 0;
                float send = upper ? dots[0][0] : dots[1][0],
                      keep = upper ? dots[1][0] : dots[0][0];
                scores[0] = keep + wave_xor(send, 1 << (BITS + 2));
                at[0] = (upper ? 4 : 0) + own_key;
#pragma unroll
                for (int i = BITS + 3; i < LEVELS; i++) {
                    scores[0] = scores[0] + wave_xor(scores[0], 1 << i);
                }
            } else {
#pragma unroll
                for (int i = 0; i < shape::scores; i++) {
                    scores[i] = dots[i / shape::keys][i % shape::keys];
                    at[i] = i / shape::keys * 4 + ((i % shape::keys) ^ own_key);
                }
            }
            float before = sums.m;
#pragma unroll
            for (int i = 0; i < shape::scores; i++) {
                float s = canonical_score(scores[i], k_scale, a.scale, a.softcap);
                scores[i] = mask >> at[i] & 1u ? s : float_of(0xff800000u);
                sums.m = fmaxf(sums.m, scores[i]);
            }
#pragma unroll
            for (int i = BITS; i < LEVELS && i < BITS + 3; i++) {
                sums.m = fmaxf(sums.m, wave_xor(sums.m, 1 << i));
            }
            float factor = (mask & 255u) != 0u ? exp_below(before - sums.m) : 1.0f;
            factor = sums.any ? factor : 1.0f; /* the first step begins from zeros */
#pragma unroll
            for (int i = 0; i < shape::scores; i++) {
                float weight = mask >> at[i] & 1u ? exp_below(scores[i] - sums.m) : -0.0f;
                if (LEVELS <= BITS + 3 || in_strand >> (BITS + 3) == 0) {
                    weights[head * 8 + at[i]] = weight;
                }
            }
            if (in_strand >> BITS == 0) {
                weights[HEADS * 8 + computed_here(head)] = factor;
            }
            wave_barrier();
            int heads_of_o = DIM == 64 ? computed_here(slot_head) : slot_head;
            sums.l = sums.l * factor;
            sums.any |= (mask & 255u) != 0u;
            __align__(16) float added[8];
            copy_floats<8>(weights + head * 8, added);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                sums.l = sums.l + added[j];
            }
#pragma unroll
            for (int h = 0; h < HEADS; h++) {
                float off = weights[HEADS * 8 + ((h & ~LOW) ^ heads_of_o) + (h & LOW)];
#pragma unroll
                for (int e = 0; e < 8; e++) {
                    o[h][e] = o[h][e] * off;
                }
            }
#pragma unroll
            for (int half = 0; half < 2; half++) {
                cache8<KV> v[4];
                float w[HEADS][4];
                wait_for_copies<3>();
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    v[j].load(memory + own + (2 + half) * SLOT + j * ROW);
                }
                if (more) {
                    bring_pieces<ROW, PIECE>(slot + (2 + half) * SLOT, v_from, own_v + 4 * half,
                                             column, mask >> (8 + 4 * half));
                }
                close_copies();
#pragma unroll
                for (int h = 0; h < HEADS; h++) {
                    *(float4 *)w[h] = *(const float4 *)(weights + ((h & ~LOW) ^ heads_of_o) * 8 +
                                                        (h & LOW) * 8 + 4 * half);
                }
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    float value[8];
                    v[j].values(value);
#pragma unroll
                    for (int h = 0; h < HEADS; h++) {
#pragma unroll
                        for (int e = 0; e < 8; e++) {
                            o[h][e] = __fmaf_rn(w[h][j], value[e], o[h][e]);
                        }
                    }
                }
            }
            wave_barrier(); /* the weights are read */
            mask >>= 8;
        }
        /* the end of a segment: strands of the wave, waves of the block, the run */
        int place_of = computed_here((int)lane), turned = computed_here(slot_head);
        int source = place_of & ~(LANES - 1), column_of = place_of % LANES * 8;
#pragma unroll
        for (int u = 0; u < 5 - LEVELS; u++) {
            float mine = merge_sums(&sums, LANES << u), theirs = wave_xor(mine, LANES << u);
            constexpr int ALL = HEADS;
            const int now = ALL >> u > 0 ? ALL >> u : 1, left = now > 1 ? now / 2 : 1;
#pragma unroll
            for (int h = 0; h < left; h++) {
                int of = h ^ turned, from = source; /* a lane that has that head's factors */
#pragma unroll
                for (int i = 0; i < BITS; i++) {
                    from |= (of >> (BITS - 1 - i) & 1) << i;
                }
                float own = wave_read(mine, from), other = wave_read(theirs, from);
#pragma unroll
                for (int e = 0; e < 8; e++) {
                    float sent = now > 1 ? o[(h + left) % HEADS][e] : o[h][e];
                    o[h][e] = merged_value(o[h][e], wave_xor(sent, LANES << u), own, other);
                }
            }
        }
        split_exchange<DIM, HEADS, shape::waves> &x = shared.exchange;
        block_barrier(); /* the segment ahead is read */
        constexpr int KEPT = HEADS >> (5 - LEVELS) > 0 ? HEADS >> (5 - LEVELS) : 1;
        if (LEVELS + BITS >= 5 || place_of >> (LEVELS + BITS) == 0) {
#pragma unroll
            for (int h = 0; h < KEPT; h++) {
                float *to = &x.o[wave][h ^ turned][column_of];
                *(float4 *)to = make_float4(o[h][0], o[h][1], o[h][2], o[h][3]);
                *(float4 *)(to + 4) = make_float4(o[h][4], o[h][5], o[h][6], o[h][7]);
            }
        }
        if (place_of < 1 << BITS) {
            x.m[wave][head] = sums.m;
            x.l[wave][head] = sums.l;
        }
        if (place_of == 0) {
            x.any[wave] = sums.any;
        }
        block_barrier();
        merge_waves<DIM, HEADS, shape::waves>(x, part);
        add_to_run<DIM, HEADS, shape::waves>(x, segment - place.run, place.first - place.run, last,
                                             part);
        if (last) {
            break;
        }
        sums = {float_of(0xff800000u), 0.0f, false};
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
#pragma unroll
            for (int e = 0; e < 8; e++) {
                o[h][e] = 0.0f;
            }
        }
    }
}

template <int DIM, int HEADS, uint32_t KV> DEVICE void split_part(const split_args &args) {
    using shape = split_shape<DIM, HEADS, KV>;
    extern __shared__ __align__(128) uint8_t split_memory[];
    split_shared<DIM, HEADS, KV> &shared = *(split_shared<DIM, HEADS, KV> *)split_memory;
    split_place found;
    thread_part<HEADS> part;
    bool any = find_place<HEADS>(args, &found);
    split_place &place = shared.places[wave_index()];
    if (lane_index() == 0u) {
        place = found;
    }
    wave_barrier();
    if (any) {
        wait_where_new(args, found, 64);
        attend_run<DIM, HEADS, KV>(args, place, shared, &part);
    } else {
        part.clear();
        let_next_launch_start();
        wait_for_launch_ahead();
    }
    finish<DIM, HEADS, shape::waves>(args, place, part);
}

#endif /* OPREG_SM90_SPLIT_ATTENTION_CUH */
