/* SPDX-License-Identifier: MIT
 * cases.c - how many cases there are, and what their makers share. */
#include "cases.h"
#include "cases_far.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/format.h"
#include "opreg/opreg_test.h"

const int64_t float_dtypes[3] = {OPREG_F32, OPREG_F16, OPREG_BF16};
const int64_t m_edges[14] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 39, 64};
const int64_t n_edges[18] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129};

uint32_t cases_count(opreg_op op, uint32_t format, uint32_t flags) {
    /* by operator: the sample, the whole, a few */
    static const uint32_t counts[OPREG_OP_COUNT + 1][3] = {
        {0, 0, 0},      {36, 400, 12}, {32, 400, 12}, {132, 800, 40}, {14, 160, 6},
        {14, 160, 6},   {10, 120, 6},  {40, 400, 12}, {5, 60, 3},     {160, 2000, 40},
    };
    uint32_t column = flags & OPREG_KIT_FULL ? 1 : flags & OPREG_KIT_QUICK ? 2 : 0;
    (void)format;
    return (uint32_t)op <= OPREG_OP_COUNT ? counts[op][column] : 0;
}

int case_make(const case_key *key, job *out) {
    int ok = 0;
    memset(out, 0, sizeof *out);
    out->op = key->op;
    out->seed = key->seed;
    out->format = key->format != 0 ? opreg_dtype_name(key->format) : "-";
    switch (key->op) {
    case OPREG_OP_QUANTIZE_ACT: ok = case_make_quantize(key, out); break;
    case OPREG_OP_MATMUL_BT_QUANT: ok = case_make_matmul(key, out); break;
    case OPREG_OP_MOE_ROUTE: ok = case_make_route(key, out); break;
    case OPREG_OP_MOE_MATMUL:
    case OPREG_OP_MOE_GLU:
    case OPREG_OP_MOE_DOWN: ok = case_make_moe(key, out); break;
    case OPREG_OP_MOE_COMBINE: ok = case_make_combine(key, out); break;
    case OPREG_OP_MOE_FFN: ok = case_make_ffn(key, out); break;
    case OPREG_OP_PAGED_ATTN_DECODE: ok = case_make_attention(key, out); break;
    }
    if (!ok) {
        job_clear(out);
    }
    return ok;
}

static uint64_t axis_seed(const case_key *key, const char *axis) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *axis != '\0'; axis++) {
        hash = (hash ^ (uint8_t)*axis) * 0x100000001b3u;
    }
    return hash ^ key->seed ^ (uint64_t)key->op << 48 ^ (uint64_t)key->format << 32;
}

int64_t edge_pick(const case_key *key, const char *axis, const int64_t *list, size_t count) {
    int32_t order[64];
    uint32_t length = (uint32_t)(count < 64 ? count : 64);
    random_state random = random_start(axis_seed(key, axis), key->index / length);
    for (uint32_t i = 0; i < length; i++) {
        order[i] = (int32_t)i;
    }
    random_shuffle(&random, order, (int32_t)length);
    return list[order[key->index % length]];
}

random_state case_random(const case_key *key, int with_salt) {
    return random_start(axis_seed(key, with_salt ? "data" : "shape"),
                        with_salt ? (uint64_t)key->salt << 32 | key->index : key->index);
}

random_state case_random_weights(const case_key *key, random_state shape) {
    return key->salt == CASE_OTHER_WEIGHTS ? random_start(axis_seed(key, "other weights"), key->index)
                                           : shape;
}

data_kind case_data(const case_key *key) {
    static const int64_t kinds[] = {DATA_GAUSSIAN, DATA_HEAVY,   DATA_OUTLIER,  DATA_EXTREME,
                                    DATA_SUBNORMAL, DATA_CODES, DATA_NONFINITE, DATA_GAUSSIAN};
    return key->index == 0 || is_far(key) ? DATA_GAUSSIAN : (data_kind)PICK(key, "data kind", kinds);
}

int case_rows(random_state *random, job *out, uint32_t index, uint32_t dtype, int64_t rows,
              int64_t columns, int64_t stride) {
    uint64_t count = rows > 0 && columns > 0 ? (uint64_t)((rows - 1) * stride + columns) : 0;
    if (!job_buffer_set(out, index, JOB_INPUT, dtype, count)) {
        return 0;
    }
    if (count == 0) {
        return 1;
    }
    data_rows(random, out->data, &out->bufs[index], rows, columns, stride);
    return buffer_loose_gaps(&out->bufs[index], rows, columns, stride);
}

int case_planes(random_state *random, job *out, const uint32_t index[3], uint32_t act, int64_t rows,
                int64_t k) {
    int64_t block = act == OPREG_Q8_K ? 256 : 32;
    job_buffer floats;
    int ok;
    memset(&floats, 0, sizeof floats);
    floats.dtype = OPREG_F32;
    floats.bytes = (uint64_t)(rows * k) * 4;
    floats.data = calloc(floats.bytes + 1, 1);
    ok = floats.data != NULL &&
         job_buffer_set(out, index[0], JOB_INPUT, JOB_I8, (uint64_t)(rows * k)) &&
         job_buffer_set(out, index[1], JOB_INPUT, OPREG_F32, (uint64_t)(rows * k / block)) &&
         job_buffer_set(out, index[2], JOB_INPUT, JOB_I16, (uint64_t)(rows * k / 16));
    if (ok && rows > 0) {
        data_rows(random, out->data, &floats, rows, k, k);
        for (int64_t row = 0; row < rows; row++) {
            activation_quantize(act, (const float *)(const void *)floats.data + row * k, k,
                                (int8_t *)out->bufs[index[0]].data + row * k,
                                (float *)(void *)out->bufs[index[1]].data + row * (k / block),
                                (int16_t *)(void *)out->bufs[index[2]].data + row * (k / 16));
        }
    }
    for (int i = 0; i < 3; i++) {
        out->bufs[index[i]].align = 16;
    }
    free(floats.data);
    return ok;
}

int case_output(job *out, uint32_t index, uint32_t dtype, int64_t rows, int64_t columns,
                int64_t stride) {
    uint64_t count = rows > 0 && columns > 0 ? (uint64_t)((rows - 1) * stride + columns) : 0;
    return job_buffer_set(out, index, JOB_OUTPUT, dtype, count) &&
           (count == 0 || buffer_own_rows(&out->bufs[index], rows, columns, stride));
}

uint32_t case_dialect(const case_key *key, uint32_t format) {
    static const int64_t fp2[] = {OPREG_DIALECT_DEFAULT, OPREG_DIALECT_ROCMFP2_PLAIN,
                                  OPREG_DIALECT_ROCMFP2_SIGNBIT, OPREG_DIALECT_ROCMFP2_AFFINE,
                                  OPREG_DIALECT_ROCMFP2_S40};
    static const int64_t nvfp4[] = {OPREG_DIALECT_DEFAULT, OPREG_DIALECT_NVFP4_HOST,
                                    OPREG_DIALECT_NVFP4_SIGNED};
    static const int64_t fp4[] = {OPREG_DIALECT_DEFAULT, OPREG_DIALECT_ROCMFP4_HIP};
    switch (format) {
    case OPREG_ROCMFP2: return (uint32_t)PICK(key, "dialect", fp2);
    case OPREG_NVFP4: return (uint32_t)PICK(key, "dialect", nvfp4);
    case OPREG_ROCMFP4:
    case OPREG_ROCMFP4_FAST: return (uint32_t)PICK(key, "dialect", fp4);
    default: return OPREG_DIALECT_DEFAULT;
    }
}

void case_glu(random_state *random, uint32_t glu, float *alpha, float *limit) {
    *alpha = glu == OPREG_GLU_SWIGLU_OAI ? 1.25f + 0.5f * (float)random_unit(random) : 0.0f;
    *limit = glu == OPREG_GLU_SWIGLU_OAI || glu == OPREG_GLU_SILU_CLAMPED
                 ? 1.0f + 6.0f * (float)random_unit(random)
                 : 0.0f;
}

void case_dtypes(job *out, uint32_t from, uint32_t to) {
    snprintf(out->dtypes, sizeof out->dtypes, "%s->%s", opreg_dtype_name(from),
             opreg_dtype_name(to));
}

void case_weight_place(random_state *random, job_weight *weight) {
    static const uint8_t shifts[] = {0, 0, 1, 2, 4, 8, 16, 18, 32, 127};
    weight->shift = shifts[random_below(random, sizeof shifts)];
    if (random_below(random, 3) == 0) {
        weight->slack_before = random_below(random, 3) * 16;
        weight->slack_after = random_below(random, 5) * 64;
    }
}
