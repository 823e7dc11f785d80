/* SPDX-License-Identifier: MIT
 * cases_dense.c - cases of quantize_act, matmul_bt_quant and moe_combine. */
#include "cases.h"
#include "cases_far.h"
#include "formats/formats.h"

/* K in steps of a block: the block, the 32 accumulators, more than 128 and more than 1,024 blocks. */
static const int64_t k_small[] = {1, 2, 3, 4, 5, 7, 8, 9, 12};
static const int64_t k_edges[] = {15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 130, 1025, 1031};
/* K of formats that admit any */
static const int64_t k_any[] = {1, 7, 8, 9, 31, 33, 63, 64, 65, 255, 256, 257, 300, 511};
static const int64_t k_any_long[] = {1023, 1024, 1025, 1031, 2056, 8191, 8192, 8193, 8200};

static int64_t at_most(int64_t value, int64_t most) { return value < most ? value : most; }

int case_make_quantize(const case_key *key, job *out) {
    static const int64_t acts[] = {OPREG_Q8_0, OPREG_Q8_K};
    static const int64_t pads[] = {0, 1, 3, 32};
    opreg_quantize_act *p = &out->problem.quantize;
    random_state random = case_random(key, 1);
    int64_t blocks;
    out->data = case_data(key);
    p->struct_size = sizeof *p;
    p->q_dtype = (uint32_t)acts[key->index % 2];
    p->x_dtype = (uint32_t)float_dtypes[key->index / 2 % 3];
    p->m = PICK(key, "m", m_edges);
    blocks = key->index % 18 >= 12 ? PICK(key, "long k", k_edges) : PICK(key, "k", k_small);
    p->m = blocks > 200 ? at_most(p->m, 3) : p->m;
    p->k = blocks * (p->q_dtype == OPREG_Q8_K ? 256 : 32);
    if (is_far(key)) {
        far_quantize(key, p);
        blocks = p->k / (p->q_dtype == OPREG_Q8_K ? 256 : 32);
    }
    p->x_stride = p->k + PICK(key, "pad", pads);
    case_dtypes(out, p->x_dtype, p->q_dtype);
    for (uint32_t i = OPREG_QUANTIZE_CODES; i <= OPREG_QUANTIZE_SUMS; i++) {
        static const uint32_t dtypes[] = {JOB_I8, OPREG_F32, JOB_I16};
        int64_t per = i == OPREG_QUANTIZE_CODES ? 1 : i == OPREG_QUANTIZE_SUMS ? 16 : p->k / blocks;
        if (!job_buffer_set(out, i, JOB_OUTPUT, dtypes[i], (uint64_t)(p->m * p->k / per))) {
            return 0;
        }
        out->bufs[i].align = 16;
    }
    return case_rows(&random, out, OPREG_QUANTIZE_X, p->x_dtype, p->m, p->k, p->x_stride);
}

static void matmul_shape(const case_key *key, const format_info *info, opreg_matmul_bt_quant *p) {
    int64_t step = weight_k_step(key->format), most;
    int is_long = key->index % 4 == 3;
    int64_t blocks = key->index == 3   ? 1025 /* these two for every format */
                     : key->index == 7 ? 129
                                       : PICK(key, "long k", k_edges);
    case_key among = *key; /* the long ones have few rows: the others go through all of M */
    among.index -= key->index > 0 ? (key->index + 1) / 4 + 1 : 0;
    p->m = PICK(&among, "m", m_edges);
    p->n = PICK(key, "n", n_edges);
    if (info->values == 1) {
        p->k = is_long ? PICK(key, "long k", k_any_long) : PICK(key, "k", k_any);
    } else {
        p->k = step * (is_long ? blocks : PICK(key, "k", k_small));
    }
    if (key->index == 0) {
        p->m = 17;
        p->n = 33;
        p->k = step * (info->values == 1 ? 264 : 2);
    }
    /* about a million products a case: the reference is scalar */
    if (p->k > 4096) {
        p->m = at_most(p->m, 2);
    }
    most = 1000000 / (p->k * (p->m > 0 ? p->m : 1));
    p->n = at_most(p->n, most > 1 ? most : 1);
    if (key->index % 27 == 26) {
        p->n = 0;
    }
}

int case_make_matmul(const case_key *key, job *out) {
    static const int64_t pads[] = {0, 0, 1, 5, 16};
    static const int64_t pairs[] = {0, 0, 0, 0, 1, 2, 3, 4};
    static const int64_t sources[] = {0, 0, 1, 1, 2, 2, 3};
    static const uint32_t planes[] = {OPREG_MATMUL_X, OPREG_MATMUL_X_SCALES, OPREG_MATMUL_X_SUMS};
    opreg_matmul_bt_quant *p = &out->problem.matmul;
    const format_info *info = format_by_id(key->format);
    random_state shape = case_random(key, 0), data = case_random(key, 1);
    int64_t source = PICK(key, "x", sources);
    if (info == NULL) {
        return 0;
    }
    out->data = case_data(key);
    p->struct_size = sizeof *p;
    p->b_dtype = key->format;
    p->b_dialect = case_dialect(key, key->format);
    p->layout = OPREG_LAYOUT_STORED;
    if (is_far(key)) {
        far_matmul(key, weight_k_step(key->format), p);
    } else {
        matmul_shape(key, info, p);
    }
    /* the first nine cases are the nine combinations; index 0 is f32 to f32 */
    p->x_dtype = (uint32_t)float_dtypes[key->index < 9 ? key->index % 3 : (uint32_t)source % 3];
    p->y_dtype = (uint32_t)float_dtypes[key->index < 9 ? key->index / 3 : key->index % 3];
    if (info->act_dtype != OPREG_F32 && key->index >= 9 && source == 3) {
        p->x_dtype = info->act_dtype;
    }
    p->glu = key->index == 0 ? OPREG_GLU_NONE : (uint32_t)PICK(key, "glu", pairs);
    case_glu(&shape, p->glu, &p->glu_alpha, &p->glu_limit);
    if (p->glu == OPREG_GLU_NONE && key->index % 3 == 1) {
        p->flags |= OPREG_PF_BIAS;
    }
    p->x_stride = p->k;
    p->y_stride = p->n + PICK(key, "y pad", pads);
    case_dtypes(out, p->x_dtype, p->y_dtype);
    out->num_weights = p->glu == OPREG_GLU_NONE ? 1 : 2;
    shape = case_random_weights(key, shape);
    for (uint32_t i = 0; i < out->num_weights; i++) {
        if (!weight_make(&shape, out->data, key->format, p->b_dialect, 1, p->n, p->k,
                         &out->weights[i])) {
            return 0;
        }
        case_weight_place(&shape, &out->weights[i]);
    }
    int64_t rows = p->n == 0 ? 0 : p->m;
    if (p->x_dtype == OPREG_Q8_0 || p->x_dtype == OPREG_Q8_K) {
        if (!case_planes(&data, out, planes, p->x_dtype, rows, p->k)) {
            return 0;
        }
    } else {
        p->x_stride += PICK(key, "x pad", pads);
        if (!case_rows(&data, out, OPREG_MATMUL_X, p->x_dtype, rows, p->k, p->x_stride)) {
            return 0;
        }
        if (p->glu != OPREG_GLU_NONE && out->data == DATA_GAUSSIAN) {
            data_rows_shrink(&out->bufs[OPREG_MATMUL_X], rows, p->k, p->x_stride);
        }
    }
    if (p->flags & OPREG_PF_BIAS) {
        data_kind kind = out->data;
        int ok;
        out->data = DATA_GAUSSIAN;
        ok = case_rows(&data, out, OPREG_MATMUL_BIAS, OPREG_F32, 1, p->n, p->n);
        out->data = kind;
        if (!ok) {
            return 0;
        }
    }
    return case_output(out, OPREG_MATMUL_Y, p->y_dtype, p->m, p->n, p->y_stride);
}

int case_make_combine(const case_key *key, job *out) {
    static const int64_t pads[] = {0, 0, 1, 7};
    static const int64_t slots[] = {1, 2, 3, 4, 6, 8, 10};
    static const int64_t tokens[] = {0, 1, 2, 3, 5, 8, 17, 33};
    opreg_moe_combine *p = &out->problem.combine;
    random_state data = case_random(key, 1);
    data_kind kind = case_data(key);
    p->struct_size = sizeof *p;
    p->x_dtype = (uint32_t)float_dtypes[key->index % 3];
    p->y_dtype = (uint32_t)float_dtypes[key->index / 3 % 3];
    p->top_k = (int32_t)PICK(key, "slots", slots);
    p->tokens = PICK(key, "tokens", tokens);
    p->n = PICK(key, "n", n_edges);
    if (is_far(key)) {
        far_combine(key, p);
    }
    p->x_stride = p->n + PICK(key, "x pad", pads);
    p->y_stride = p->n + PICK(key, "y pad", pads);
    p->weights_stride = p->top_k + PICK(key, "weights pad", pads);
    case_dtypes(out, p->x_dtype, p->y_dtype);
    out->data = kind;
    if (!case_rows(&data, out, OPREG_COMBINE_ROWS, p->x_dtype, p->tokens * p->top_k, p->n,
                   p->x_stride)) {
        return 0;
    }
    out->data = DATA_GAUSSIAN;
    if (!case_rows(&data, out, OPREG_COMBINE_WEIGHTS, OPREG_F32, p->tokens, p->top_k,
                   p->weights_stride)) {
        return 0;
    }
    out->data = kind;
    return case_output(out, OPREG_COMBINE_Y, p->y_dtype, p->tokens, p->n, p->y_stride);
}
