/* SPDX-License-Identifier: MIT
 * qdot.cuh - matrix kernels in which the lanes of a wave share units of 256 weights, with the bits of
 * the canonical order.
 *
 * Eight lanes, an octet, take the eight slices of a superblock, so a wave has four superblocks at
 * work.  Lane 8 o + c is lane c of octet o: of superblocks 32 g + 4 i + o it takes slice c.  Integer
 * sums are added inside the octet, in any order; lane c then keeps those of i = c, and after eight
 * superblocks of its octet forms the one float term of superblock 32 g + 4 c + o, which it adds to
 * accumulator 4 c + o: units ascending, as the order asks.  Units of 32 weights need no sharing. */
#ifndef OPREG_PLUGINS_QDOT_CUH
#define OPREG_PLUGINS_QDOT_CUH

#include "baseline_slices.cuh"
#include "eight.cuh"
#include "qdot_args.h"
#include "quantize.cuh"

/* What a lane reads of x for one slice. */
struct slice_of_x {
    uint32_t codes[8];
    int32_t sums[2];
};

DEVICE void load_slice(const activation_row &x, uint32_t slice, slice_of_x *out) {
    load_words<8>((const uint8_t *)x.x + slice * SLICE_WEIGHTS, out->codes);
    load_sums((const uint8_t *)x.sums + slice * 4u, out->sums);
}

DEVICE float scale_of_x(const activation_row &x, uint32_t unit) {
    uint32_t bits;
    load_words<1>((const uint8_t *)x.scales + unit * 4u, &bits);
    return float_of(bits);
}

/* The same of a row that the block quantized to its shared memory. */
struct shared_row {
    uint32_t *codes, *sums; /* four codes, two sums to a word                                      */
    float *scales;
};

DEVICE void load_slice(const shared_row &x, uint32_t slice, slice_of_x *out) {
    uint32_t pair = x.sums[slice];
#pragma unroll
    for (uint32_t i = 0; i < 8u; i++) {
        out->codes[i] = x.codes[slice * 8u + i];
    }
    out->sums[0] = (int16_t)pair;
    out->sums[1] = (int32_t)pair >> 16;
}

DEVICE float scale_of_x(const shared_row &x, uint32_t unit) { return x.scales[unit]; }

DEVICE int32_t octet_sum(int32_t value) {
    value += wave_xor(value, 1);
    value += wave_xor(value, 2);
    return value + wave_xor(value, 4);
}

/* The sums of one superblock's slices for ROWS rows, in all lanes of the octet. */
template <class F, int SUMS, int ROWS, class X>
DEVICE void octet_superblock(const uint8_t *const *rows, const X &x, uint32_t sb,
                             uint32_t units, const opreg_side *side, int32_t (*n)[2]) {
    uint32_t c = lane_index() & 7u;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        n[r][0] = n[r][1] = 0;
    }
    if (sb < units) {
        slice_of_x part;
        load_slice(x, sb * 8u + c, &part);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            F::slice(rows[r] + sb * (uint32_t)F::bytes, (int)c, part.codes, part.sums, side, n[r]);
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        n[r][0] = octet_sum(n[r][0]);
        if (SUMS == 2) {
            n[r][1] = octet_sum(n[r][1]);
        }
    }
}

/* Dots of ROWS rows with one row of x, before the last factor; every lane has them. */
template <class F, int SUMS, int ROWS, class X>
DEVICE void qdot_rows(const uint8_t *const *rows, const X &x, uint32_t units,
                      const opreg_side *side, float *out) {
    uint32_t lane = lane_index(), octet = lane >> 3, c = lane & 7u;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        out[r] = 0.0f;
    }
    if (F::unit == 256) {
        for (uint32_t first = 0; first < units; first += 32u) {
            int32_t kept[ROWS][2], n[ROWS][2];
            uint32_t left = units - first, steps = left >= 32u ? 8u : (left + 3u) / 4u;
            uint32_t mine = first + 4u * c + octet;
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                kept[r][0] = kept[r][1] = 0;
            }
            for (uint32_t i = 0; i < steps; i++) {
                octet_superblock<F, SUMS, ROWS>(rows, x, first + 4u * i + octet, units, side, n);
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    kept[r][0] = i == c ? n[r][0] : kept[r][0];
                    kept[r][1] = i == c ? n[r][1] : kept[r][1];
                }
            }
            if (mine < units) {
                float yd = scale_of_x(x, mine);
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    out[r] = out[r] + F::term(rows[r] + mine * (uint32_t)F::bytes, 0, kept[r], yd,
                                              side);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) { /* accumulators 16, 8, 4, 2, 1 apart */
            out[r] = out[r] + wave_xor(out[r], 4);
            out[r] = out[r] + wave_xor(out[r], 2);
            out[r] = out[r] + wave_xor(out[r], 1);
            out[r] = out[r] + wave_xor(out[r], 16);
            out[r] = out[r] + wave_xor(out[r], 8);
        }
    } else {
        for (uint32_t u = lane; u < units; u += WAVE) {
            slice_of_x part;
            float yd = scale_of_x(x, u);
            load_slice(x, u, &part);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                int32_t n[2] = {0, 0};
                const uint8_t *block = rows[r] + u * (uint32_t)F::bytes;
                F::slice(block, 0, part.codes, part.sums, side, n);
                out[r] = out[r] + F::term(block, 0, n, yd, side);
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            out[r] = wave_tree(out[r]);
        }
    }
}

/* ---- outputs -------------------------------------------------------------------------------------- */

/* Rows n .. n + ROWS - 1 of one weight, those past the last one repeating it. */
template <int ROWS>
DEVICE void rows_at(const matmul_args &a, int which, int64_t expert, uint32_t n,
                    const uint8_t **rows) {
    const uint8_t *base = a.data[which] + expert * a.expert_stride[which];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        uint32_t row = n + (uint32_t)r < (uint32_t)a.n ? n + (uint32_t)r : (uint32_t)a.n - 1u;
        rows[r] = base + row * a.row_bytes;
    }
}

/* Writes outputs n .. n + ROWS - 1 of one row of y. */
template <class F, int SUMS, int ROWS, class X>
DEVICE void qdot_outputs(const matmul_args &a, int64_t expert, uint32_t n, const X &x,
                         int64_t y_row) {
    const uint8_t *rows[ROWS];
    float value[ROWS], up[ROWS];
    uint32_t units = (uint32_t)(a.k / F::unit);
    rows_at<ROWS>(a, 0, expert, n, rows);
    qdot_rows<F, SUMS, ROWS>(rows, x, units, a.side[0] + expert, value);
    if (a.pair) {
        rows_at<ROWS>(a, 1, expert, n, rows);
        qdot_rows<F, SUMS, ROWS>(rows, x, units, a.side[1] + expert, up);
    }
    float mine = value[0], mine_up = a.pair ? up[0] : 0.0f; /* lane r finishes output n + r      */
#pragma unroll
    for (uint32_t r = 1; r < ROWS; r++) {
        mine = lane_index() == r ? value[r] : mine;
        mine_up = lane_index() == r && a.pair ? up[r] : mine_up;
    }
    uint32_t row = n + lane_index();
    if (lane_index() < ROWS && row < (uint32_t)a.n) {
        mine = F::last(mine);
        if (a.pair) {
            mine = canonical_glu(a.glu, mine, F::last(mine_up), a.glu_alpha, a.glu_limit);
        } else if (a.bias != 0) {
            mine = mine + a.bias[row];
        }
        canonical_store(a.y, y_row * a.y_stride + row, a.y_dtype, mine);
    }
}

/* Dense and pair calls: grid (rows of W / outputs, rows of x). */
template <class F, int SUMS> DEVICE void qdot_dense(const matmul_args &a) {
    uint32_t n = wave_uniform((block_x() * (QDOT_THREADS / WAVE) + wave_index()) * QDOT_ROWS);
    if (n >= (uint32_t)a.n) {
        return;
    }
    for (int64_t row = block_y(); row < a.m; row += grid_y()) {
        qdot_outputs<F, SUMS, QDOT_ROWS>(a, 0, n, activations(a, row, F::unit), row);
    }
}

/* Grouped calls: grid (rows of W / outputs, groups). */
template <class F, int SUMS> DEVICE void qdot_grouped(const matmul_args &a) {
    uint32_t n = wave_uniform((block_x() * (QDOT_THREADS / WAVE) + wave_index()) * QDOT_ROWS);
    if (n >= (uint32_t)a.n) {
        return;
    }
    for (uint32_t g = block_y(); g < a.route.cap_groups; g += grid_y()) {
        group_range range = group_of(a, g);
        for (int32_t e = range.begin; e < range.end; e++) {
            int32_t token = a.route.entry_token[e], dst = a.route.entry_dst[e];
            if (dst < 0 || dst >= (int32_t)a.route.cap_entries) {
                continue;
            }
            if (range.expert >= 0 && token >= 0 && token < a.tokens) {
                qdot_outputs<F, SUMS, QDOT_ROWS>(
                    a, range.expert, n, activations(a, a.by_dst ? dst : token, F::unit), dst);
            } else if (lane_index() < QDOT_ROWS && n + lane_index() < (uint32_t)a.n) {
                canonical_store(a.y, (int64_t)dst * a.y_stride + n + lane_index(), a.y_dtype, 0.0f);
            }
        }
    }
}

/* ---- x quantized by the block ---------------------------------------------------------------------- */

#ifndef EXTERN_SHARED /* dynamic shared memory as an array */
#define EXTERN_SHARED(type, name) extern __shared__ type name[]
#endif

/* One row of x to shared memory, a wave a run of 256 values. */
template <int UNIT, uint32_t X>
DEVICE void quantize_row(const uint8_t *from, uint32_t k, const shared_row &to) {
    for (uint32_t run = wave_index(); run * 256u < k; run += QDOT_FUSED_THREADS / WAVE) {
        uint32_t first = run * 256u + lane_index() * 8u;
        float v[8];
        quantized8 out;
        int32_t pair;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            v[i] = 0.0f;
        }
        if (first < k) {
            eight_elements<X> values;
            load_eight(from + first / 8u * (uint32_t)eight_elements<X>::bytes, &values);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                v[i] = element_of(values, i);
            }
        }
        out = UNIT == 32 ? quantize_q8_0(v) : quantize_q8_k(v);
        pair = out.sum + wave_xor(out.sum, 1); /* of 16 codes, in lanes 2 i and 2 i + 1            */
        uint32_t sums = ((uint32_t)pair & 0xffffu) | (uint32_t)wave_xor(pair, 2) << 16;
        if (first < k) {
            to.codes[first / 4u] = out.low;
            to.codes[first / 4u + 1u] = out.high;
            if ((lane_index() & 3u) == 0u) {
                to.sums[first / SLICE_WEIGHTS] = sums;
            }
            if (lane_index() % (UNIT / 8u) == 0u) {
                to.scales[first / UNIT] = out.scale;
            }
        }
    }
}

/* Grid as of qdot_dense; shared memory QDOT_FUSED_SHARED. */
template <class F, int SUMS> DEVICE void qdot_fused(const matmul_args &a) {
    EXTERN_SHARED(uint32_t, qdot_planes);
    uint32_t n = wave_uniform((block_x() * (QDOT_FUSED_THREADS / WAVE) + wave_index()) * QDOT_ROWS);
    uint32_t k = (uint32_t)a.k;
    shared_row x;
    x.codes = qdot_planes;
    x.sums = qdot_planes + k / 4u;
    x.scales = (float *)(qdot_planes + k / 4u + k / 32u);
    for (int64_t row = block_y(); row < a.m; row += grid_y()) {
        const uint8_t *from = (const uint8_t *)activations(a, row, F::unit).x;
        block_barrier(); /* the row before has been read */
#define QUANTIZE_ROW(type) quantize_row<F::unit, type>(from, k, x)
        FOR_ELEMENT_TYPE(a.x_dtype, QUANTIZE_ROW)
#undef QUANTIZE_ROW
        block_barrier();
        if (n < (uint32_t)a.n) {
            qdot_outputs<F, SUMS, QDOT_ROWS>(a, 0, n, x, row);
        }
    }
}

/* ---- K across the waves of a block ------------------------------------------------------------------ */

/* Accumulators of the rows of one or two weights, before their tree. */
typedef float splitk_shared[2][QDOT_ROWS][WAVE];

/* Wave `part` takes superblocks 4 (part + 8 i) + o in octet o: all are of accumulator 4 part + o, for
 * with fewer than eight waves there is no second i.  Every lane of an octet has the integer sums of
 * all rows; lane c goes on with row c. */
template <class F, int SUMS>
DEVICE void splitk_rows(const matmul_args &a, int which, uint32_t n, const activation_row &x,
                        uint32_t part, splitk_shared &shared) {
    const uint8_t *rows[QDOT_ROWS];
    uint32_t units = (uint32_t)(a.k / F::unit), octet = lane_index() >> 3, c = lane_index() & 7u;
    float sum = 0.0f;
    rows_at<QDOT_ROWS>(a, which, 0, n, rows);
    const uint8_t *mine = rows[0];
#pragma unroll
    for (uint32_t r = 1; r < QDOT_ROWS; r++) {
        mine = c == r ? rows[r] : mine;
    }
    for (uint32_t sb = 4u * part + octet; sb - octet < units; sb += WAVE) {
        int32_t sums[QDOT_ROWS][2];
        octet_superblock<F, SUMS, QDOT_ROWS>(rows, x, sb, units, a.side[which], sums);
#pragma unroll
        for (uint32_t r = 1; r < QDOT_ROWS; r++) {
            sums[0][0] = c == r ? sums[r][0] : sums[0][0];
            sums[0][1] = c == r ? sums[r][1] : sums[0][1];
        }
        if (sb < units) {
            sum = sum + F::term(mine + sb * (uint32_t)F::bytes, 0, sums[0], scale_of_x(x, sb),
                                a.side[which]);
        }
    }
    if (c < QDOT_ROWS) {
        shared[which][c][4u * part + octet] = sum;
    }
}

/* Grid: (rows of W / QDOT_ROWS, rows of x); QDOT_SPLITK_WAVES waves. */
template <class F, int SUMS> DEVICE void qdot_splitk(const matmul_args &a) {
    __shared__ splitk_shared shared;
    uint32_t waves = thread_count() / WAVE, part = wave_uniform(wave_index());
    uint32_t n = block_x() * QDOT_ROWS, lane = lane_index();
    for (int64_t row = block_y(); row < a.m; row += grid_y()) {
        activation_row x = activations(a, row, F::unit);
        if (row != block_y()) {
            block_barrier(); /* the row before has been read */
        }
        splitk_rows<F, SUMS>(a, 0, n, x, part, shared);
        if (a.pair) {
            splitk_rows<F, SUMS>(a, 1, n, x, part, shared);
        }
        block_barrier();
        for (uint32_t r = part; r < QDOT_ROWS && n + r < (uint32_t)a.n; r += waves) {
            bool held = lane < 4u * waves; /* accumulators beyond are of no superblock */
            float value = F::last(wave_tree(held ? shared[0][r][lane] : 0.0f));
            if (a.pair) {
                float up = F::last(wave_tree(held ? shared[1][r][lane] : 0.0f));
                value = canonical_glu(a.glu, value, up, a.glu_alpha, a.glu_limit);
            } else if (a.bias != 0) {
                value = value + a.bias[n + r];
            }
            if (lane == 0u) {
                canonical_store(a.y, row * a.y_stride + n + r, a.y_dtype, value);
            }
        }
    }
}

/* The kernels of one format. */
#define QDOT_SPLITK_KERNEL(name, sums)                                                             \
    KERNEL KERNEL_THREADS_UP_TO(32 * QDOT_SPLITK_MOST_WAVES)                                       \
    qdot_splitk_##name(const matmul_args a) {                                                      \
        qdot_splitk<name##_format, sums>(a);                                                       \
    }
#define QDOT_KERNELS(name, sums)                                                                   \
    KERNEL KERNEL_THREADS(QDOT_THREADS) qdot_gemv_##name(const matmul_args a) {                    \
        qdot_dense<name##_format, sums>(a);                                                        \
    }                                                                                              \
    KERNEL KERNEL_THREADS(QDOT_FUSED_THREADS) qdot_fused_##name(const matmul_args a) {             \
        qdot_fused<name##_format, sums>(a);                                                        \
    }                                                                                              \
    KERNEL KERNEL_THREADS(QDOT_THREADS) qdot_grouped_##name(const matmul_args a) {                 \
        qdot_grouped<name##_format, sums>(a);                                                      \
    }

#endif /* OPREG_PLUGINS_QDOT_CUH */
