/* SPDX-License-Identifier: MIT
 * tensor_operands.cuh - rows of the caches and of q as operands of tensor cores: copies, halves,
 * blocks.
 *
 * A cache of fp8 becomes f16, exactly, between shared memory and the products.  Two neighbours are
 * one element of a loaded block then, so that a lane's elements of a row are four neighbours, and
 * rows g and g + 8 of an output are neighbouring columns of V. */
#ifndef OPREG_SM90_TENSOR_OPERANDS_CUH
#define OPREG_SM90_TENSOR_OPERANDS_CUH

#include "split_finish.cuh"

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
/* The same, each block turned: rows become columns. */
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

/* How a cache's rows become operands: their type there, bytes of an element, elements of 32 bytes.
 */
template <uint32_t KV> struct tensor_cache {
    static const bool small = KV == OPREG_F8_E4M3;
    static const uint32_t operand = small ? (uint32_t)OPREG_F16 : KV;
    static const int element = small ? 1 : 2, steps = small ? 2 : 1;
};

/* A block of 8 by 8, turned: row and column change places. */
DEVICE uint32_t turned_block(uint32_t rows) {
    uint32_t columns;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(columns) : "r"(rows));
    return columns;
}

/* e^x, to 2 units in the last place. */
DEVICE float power_below(float x) {
    float value;
    asm("ex2.approx.f32 %0, %1;" : "=f"(value) : "f"(x * 0x1.715476p0f));
    return value;
}

/* What a part counts beside the maximum of all; one without a key has the maximum -infinity. */
DEVICE float part_factor(float m, float most) {
    return m == float_of(0xff800000u) ? 0.0f : power_below(m - most);
}

/* 16 bytes from any address; zeros where `there` is false, and nothing is read. */
DEVICE void copy_now(uint32_t to, const uint8_t *from, bool there) {
    uint32_t w[4] = {0u, 0u, 0u, 0u};
    if (there) {
#pragma unroll 1
        for (int i = 0; i < 4; i++) {
            w[0] = w[1], w[1] = w[2], w[2] = w[3];
            w[3] = (uint32_t)from[4 * i] | (uint32_t)from[4 * i + 1] << 8 |
                   (uint32_t)from[4 * i + 2] << 16 | (uint32_t)from[4 * i + 3] << 24;
        }
    }
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(w[0]), "r"(w[1]),
                 "r"(w[2]), "r"(w[3])
                 : "memory");
}

/* 16 rows into a tile that all lanes have read; `at` lies with the lane of the key, whose number in
 * its group is `first` for the first row.  Those not `there` become zeros. */
template <int BYTES, bool ALIGNED>
DEVICE void bring_rows(uint32_t tile, const uint8_t *from, uint32_t at, uint32_t first,
                       uint32_t there) {
    constexpr uint32_t PIECES = BYTES / 16, ROWS = 32 / PIECES; /* rows of one copy of the wave */
    uint32_t lane = lane_index(), piece = lane % PIECES;
    uint32_t to = tile + lane / PIECES * TENSOR_ROW(BYTES) + piece * 16u;
    from += piece * 16u;
    if constexpr (!ALIGNED) {
#pragma unroll 1
        for (uint32_t i = 0; i < 16; i += ROWS) {
            uint32_t key = first + i + lane / PIECES;
            copy_now(to + i * TENSOR_ROW(BYTES), from + (uint64_t)wave_read(at, (int)key) * 8u,
                     (there >> key & 1u) != 0u);
        }
    } else {
#pragma unroll
        for (uint32_t i = 0; i < 16; i += ROWS) {
            uint32_t key = first + i + lane / PIECES;
            copy_later<16>(to + i * TENSOR_ROW(BYTES),
                           from + (uint64_t)wave_read(at, (int)key) * 8u,
                           (there >> key & 1u) != 0u);
        }
    }
}

template <uint32_t TYPE, int COUNT>
DEVICE void query_elements(const void *q, int64_t at, float *out) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        if constexpr (TYPE == OPREG_F32) {
            out[i] = ((const float *)q)[at + i];
        } else {
            uint16_t bits = ((const uint16_t *)q)[at + i];
            out[i] = TYPE == OPREG_BF16 ? bf16_to_f32(bits) : half_to_float(bits);
        }
    }
}

/* A head's q by a wave: upper halves to one row, lower ones to the next.  f16 has q scaled by a
 * power of two that keeps it in range; *back takes that off the scores.  For fp8, of 16 neighbours
 * those lie first that are the lower half of four. */
template <int DIM, uint32_t KV>
DEVICE void prepare_query(const attention_args &a, int64_t at, uint8_t *row, float *back) {
    constexpr uint32_t OPERAND = tensor_cache<KV>::operand;
    constexpr int COUNT = DIM / 32;
    uint32_t lane = lane_index();
    float value[COUNT], from = 1.0f, to = 1.0f;
    at += lane * COUNT;
    if (a.q_dtype == OPREG_F32) {
        query_elements<OPREG_F32, COUNT>(a.q, at, value);
    } else if (a.q_dtype == OPREG_BF16) {
        query_elements<OPREG_BF16, COUNT>(a.q, at, value);
    } else {
        query_elements<OPREG_F16, COUNT>(a.q, at, value);
    }
    if (OPERAND == OPREG_F16 && a.q_dtype != OPREG_F16) {
        float most = 0.0f;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            most = fmaxf(most, fabsf(value[i]));
        }
#pragma unroll
        for (int i = 1; i < 32; i <<= 1) {
            most = fmaxf(most, wave_xor(most, i));
        }
        uint32_t exponent = bits_of(most) >> 23;
        if (exponent > 30u && exponent < 225u) {
            from = float_of(exponent << 23);
            to = float_of((254u - exponent) << 23);
        }
    }
#pragma unroll
    for (int i = 0; i < COUNT; i += 2) {
        uint32_t place = lane * COUNT + (uint32_t)i;
        if constexpr (tensor_cache<KV>::small) {
            place = (place & ~15u) | (place >> 1 & 1u) << 3 | (place >> 2 & 3u) << 1;
        }
        uint32_t *words = (uint32_t *)(row + 2u * place);
        words[0] = half_of_pair<OPERAND>(value[i] * to, value[i + 1] * to, false);
        words[TENSOR_ROW(2 * DIM) / 4] =
            half_of_pair<OPERAND>(value[i] * to, value[i + 1] * to, true);
    }
    if (lane == 0u) {
        *back = from;
    }
}

#endif /* OPREG_SM90_TENSOR_OPERANDS_CUH */
