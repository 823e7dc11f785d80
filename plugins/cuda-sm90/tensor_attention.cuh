/* SPDX-License-Identifier: MIT
 * tensor_attention.cuh - paged_attn_decode on tensor cores, over the same segments and merges as
 * split_attention, within a segment in another order.
 *
 * A block is a run of segments of one KV head and four of its query heads; a wave has 64
 * neighbouring positions of each segment, in four slots of 16 rows that hold K and then V.  Scores
 * are q * K^T: q's rows are the heads' upper halves, then their lower ones, each of the cache's
 * type, so that q counts with twice the cache's precision.  The weights lie as the second product,
 * V^T * weights, wants them, again as upper and lower halves.  One maximum a wave and segment.
 *
 * A cache of fp8 becomes f16, exactly, between shared memory and the products.  Two neighbours are one
 * element of a loaded block then, so that a lane's elements of a row are four neighbours, and rows g
 * and g + 8 of an output are neighbouring columns of V. */
#ifndef OPREG_SM90_TENSOR_ATTENTION_CUH
#define OPREG_SM90_TENSOR_ATTENTION_CUH

#include "split_finish.cuh"

template <int DIM, int ELEMENT> struct __align__(128) tensor_shared {
    uint8_t slots[TENSOR_WAVES][4][16][TENSOR_ROW(ELEMENT * DIM)];
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

/* Two of fp8 to f16. */
DEVICE uint32_t widen_pair(uint32_t two) {
    uint32_t pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)two));
    return pair;
}

/* How a cache's rows become operands: their type there, bytes of an element, elements of 32 bytes. */
template <uint32_t KV> struct tensor_cache {
    static const bool small = KV == OPREG_F8_E4M3;
    static const uint32_t operand = small ? (uint32_t)OPREG_F16 : KV;
    static const int element = small ? 1 : 2, steps = small ? 2 : 1;
};

/* Where a piece of 16 bytes of a row lies in it. */
template <int BYTES> DEVICE uint32_t piece_at(uint32_t row, uint32_t piece) {
    return TENSOR_ROW(BYTES) == 128 ? (piece ^ (row & 7u)) * 16u : piece * 16u;
}

/* And the piece so many bytes behind that at `first`, a multiple of 32. */
template <int BYTES> DEVICE uint32_t pair_at(uint32_t first, int bytes) {
    return TENSOR_ROW(BYTES) == 128 ? first ^ (uint32_t)bytes : first + (uint32_t)bytes;
}

/* 16 rows into a slot that all lanes have read; keys has a bit a row that is there. */
template <int BYTES>
DEVICE void bring_tile(uint32_t slot, const uint8_t *from, const uint32_t *at, uint32_t keys,
                       bool aligned) {
    constexpr int PIECES = BYTES / 16, ROWS = 32 / PIECES; /* rows of one copy of the wave */
    uint32_t lane = lane_index(), row = lane / PIECES, piece = lane % PIECES;
    if (!aligned) {
#pragma unroll 1
        for (uint32_t r = row; r < 16u; r += ROWS) {
            const uint8_t *source = from + (uint64_t)(at[r] + piece * 2u) * 8u;
            uint32_t w[4] = {0u, 0u, 0u, 0u};
            if (keys >> r & 1u) {
#pragma unroll
                for (int i = 0; i < 16; i++) {
                    w[i / 4] |= (uint32_t)source[i] << 8 * (i & 3);
                }
            }
            asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(
                             slot + r * TENSOR_ROW(BYTES) + piece_at<BYTES>(r, piece)),
                         "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
                         : "memory");
        }
        return;
    }
#pragma unroll 4
    for (int i = 0; i < 16 / ROWS; i++) {
        uint32_t r = row + (uint32_t)(i * ROWS);
        copy_later<16>(slot + r * TENSOR_ROW(BYTES) + piece_at<BYTES>(r, piece),
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

/* q of the lane's head: elements 16k + 2t, + 1, + 8, + 9 as pairs, or with fp8 16k + 4t .. + 3.  f16 has
 * q scaled by a power of two that keeps it in range; the scores are to be multiplied by what is
 * returned. */
template <int DIM, uint32_t KV, uint32_t TYPE>
DEVICE float load_queries(const void *q, int64_t at, bool rest, uint32_t (*pairs)[2]) {
    constexpr uint32_t OPERAND = tensor_cache<KV>::operand;
    constexpr bool SMALL = tensor_cache<KV>::small;
    int t = (int)(lane_index() & 3u);
    float back = 1.0f, to = 1.0f, values[DIM / 16][4];
#pragma unroll
    for (int k = 0; k < DIM / 16; k++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int of = SMALL ? 4 * t + i : 2 * t + (i & 1) + 8 * (i / 2);
            values[k][i] = query_element<TYPE>(q, at + 16 * k + of);
        }
    }
    if (OPERAND == OPREG_F16 && TYPE != OPREG_F16) {
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
            pairs[k][i] = half_of_pair<OPERAND>(values[k][2 * i] * to, values[k][2 * i + 1] * to, rest);
        }
    }
    return back;
}

/* The run's segments that have keys. */
template <int DIM, uint32_t KV>
DEVICE void attend_run(const split_args &args, const split_place &place,
                       tensor_shared<DIM, tensor_cache<KV>::element> &shared,
                       thread_part<DIM / 32> *part) {
    typedef tensor_cache<KV> cache;
    constexpr uint32_t OPERAND = cache::operand;
    constexpr int BYTES = cache::element * DIM;
    constexpr uint32_t ROW = TENSOR_ROW(BYTES), SLOT = 16 * ROW;
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
    wait_where_new(args, place, 64 * (int32_t)(wave + 1u));
#pragma unroll
    for (int c = 0; c < 4; c++) {
        bring_tile<BYTES>(slots + c * SLOT, k_from, k_at + 16 * c, mask[c / 2] >> 16 * (c & 1),
                        aligned);
        close_copies();
    }
    wait_for_launch_ahead();
    bool rest = g >= 4u; /* the lane's row of q, and column of weights, is of lower halves */
    int64_t head = place.first_head + (int32_t)(g & 3u);
    head = head < place.last_head ? head : place.last_head;
    uint32_t q[DIM / 16][2];
    int64_t q_at = place.token * a.q_stride + head * DIM;
    float back = a.q_dtype == OPREG_F32    ? load_queries<DIM, KV, OPREG_F32>(a.q, q_at, rest, q)
                 : a.q_dtype == OPREG_BF16 ? load_queries<DIM, KV, OPREG_BF16>(a.q, q_at, rest, q)
                                           : load_queries<DIM, KV, OPREG_F16>(a.q, q_at, rest, q);
    float scale = a.scale * back;
    if constexpr (cache::small) {
        scale = scale * a.k_scale[place.kv_head];
    }
    /* the row and the half of 32 bytes whose address the lane gives; of piece pairs from the first on */
    uint32_t block = slots + ((lane & 7u) + (lane >> 4) * 8u) * ROW;
    uint32_t first = piece_at<BYTES>(lane, lane >> 3 & 1u);
#pragma unroll 1
    for (int32_t segment = place.first; segment < place.end; segment++) {
        bool more = segment + 1 < place.end;
        if (!more) {
            let_next_launch_start();
        }
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
            for (int k = 0; k < DIM / 16; k += cache::steps) {
                uint32_t b[4];
                load_blocks(b, block + c * SLOT + pair_at<BYTES>(first, k * (32 / cache::steps)));
                if constexpr (cache::small) {
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        multiply16<OPERAND>(d[i / 2], q[k + i % 2][0], 0u, q[k + i % 2][1], 0u,
                                            widen_pair(b[i]), widen_pair(b[i] >> 16));
                    }
                } else {
                    multiply16<OPERAND>(d[0], q[k][0], 0u, q[k][1], 0u, b[0], b[1]);
                    multiply16<OPERAND>(d[1], q[k][0], 0u, q[k][1], 0u, b[2], b[3]);
                }
            }
            wave_barrier();
            bring_tile<BYTES>(slots + c * SLOT, v_from, v_at + 16 * c, mask[c / 2] >> 16 * (c & 1),
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
                s[i / 4][i & 3] = canonical_score(s[i / 4][i & 3], 1.0f, scale, a.softcap);
            }
        } else {
#pragma unroll
            for (int i = 0; i < 16; i++) {
                s[i / 4][i & 3] *= scale;
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
            weights[c][0] = half_of_pair<OPERAND>(s[c][0], s[c][1], rest);
            weights[c][1] = half_of_pair<OPERAND>(s[c][2], s[c][3], rest);
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
            for (int n = 0; n < DIM / 16; n += cache::steps) {
                uint32_t v[4];
                load_blocks_transposed(
                    v, block + c * SLOT + pair_at<BYTES>(first, n * (32 / cache::steps)));
                if constexpr (cache::small) {
#pragma unroll
                    for (int i = 0; i < 4; i++) { /* a column's two keys beside each other */
                        v[i] = __byte_perm(v[i], 0u, 0x3120u);
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        multiply16<OPERAND>(o[n + i], widen_pair(v[i]), widen_pair(v[i] >> 16),
                                            widen_pair(v[2 + i]), widen_pair(v[2 + i] >> 16),
                                            weights[c][0], weights[c][1]);
                    }
                } else {
                    multiply16<OPERAND>(o[n], v[0], v[1], v[2], v[3], weights[c][0], weights[c][1]);
                }
            }
            wave_barrier();
            if (more) {
                bring_tile<BYTES>(slots + c * SLOT, k_from, k_at + 16 * c,
                                next_mask[c / 2] >> 16 * (c & 1), aligned);
            }
            close_copies();
        }
        split_exchange<DIM, TENSOR_HEADS, TENSOR_WAVES> &x = shared.exchange;
        block_barrier(); /* the segment ahead is read */
        bool upper = t >= 2u;
        uint32_t column = cache::small ? 2u * g + (upper ? 1u : 0u) : g + (upper ? 8u : 0u);
#pragma unroll
        for (int n = 0; n < DIM / 16; n++) {
#pragma unroll
            for (int i = 0; i < 2; i++) { /* both halves of a head's weights */
                float keep = upper ? o[n][2 + i] : o[n][i], send = upper ? o[n][i] : o[n][2 + i];
                x.o[wave][2u * (t & 1u) + (uint32_t)i][16u * (uint32_t)n + column] =
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
    typedef tensor_shared<DIM, tensor_cache<KV>::element> memory;
    memory &shared = *(memory *)split_memory;
    split_place place;
    thread_part<DIM / 32> part;
    if (find_place<TENSOR_HEADS>(args, &place)) {
        attend_run<DIM, KV>(args, place, shared, &part);
    } else {
        part.clear();
        let_next_launch_start();
        wait_for_launch_ahead();
    }
    finish<DIM, TENSOR_HEADS, TENSOR_WAVES>(args, place, part);
}

#endif /* OPREG_SM90_TENSOR_ATTENTION_CUH */
