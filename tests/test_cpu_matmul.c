/* SPDX-License-Identifier: MIT
 * test_cpu_matmul.c - matmul_bt_quant and quantize_act of the CPU backend: against the order said
 * again by hand, bit by bit, and against double precision. */
#include "cpu_harness.h"

#include "formats/act.h"

/* One call: x [m, x_stride] f32 values (rounded to x_dtype), y [m, y_stride] with a NaN fill. */
typedef struct matmul_case {
    opreg_matmul_bt_quant problem;
    test_weight weights[2];
    float *values; /* x after rounding to its dtype, [m, k] */
    void *x, *y;
    float *bias;
    int8_t *codes;
    float *scales;
    int16_t *sums;
} matmul_case;

static matmul_case case_make(const format_info *format, int64_t m, int64_t n, int64_t k) {
    matmul_case c = {.problem = {.struct_size = sizeof c.problem,
                                 .x_dtype = OPREG_F32,
                                 .b_dtype = format->id,
                                 .y_dtype = OPREG_F32,
                                 .m = m,
                                 .n = n,
                                 .k = k,
                                 .x_stride = k,
                                 .y_stride = n}};
    c.weights[0] = weight_make(format, 1, n, k);
    c.weights[1] = weight_make(format, 1, n, k);
    c.values = malloc((size_t)(m * k + 1) * sizeof(float));
    c.bias = malloc((size_t)(n + 1) * sizeof(float));
    for (int64_t i = 0; i < m * k; i++) {
        c.values[i] = random_gaussian();
    }
    for (int64_t i = 0; i < n; i++) {
        c.bias[i] = random_gaussian();
    }
    return c;
}

static void case_free(matmul_case *c) {
    weight_free(&c->weights[0]);
    weight_free(&c->weights[1]);
    free(c->values);
    free(c->x);
    free(c->y);
    free(c->bias);
    free(c->codes);
    free(c->scales);
    free(c->sums);
}

static uint64_t y_bytes(const matmul_case *c) {
    const opreg_matmul_bt_quant *p = &c->problem;
    return (uint64_t)(p->m * p->y_stride) * element_size(p->y_dtype);
}

/* Fills x from values in the problem's dtype (rounding values too) and runs. */
static void case_run(matmul_case *c) {
    const opreg_matmul_bt_quant *p = &c->problem;
    const opreg_weight_view *views[2] = {&c->weights[0].view, &c->weights[1].view};
    opreg_buf bufs[OPREG_MATMUL_BUFS] = {{NULL, 0}};
    int planes = p->x_dtype == OPREG_Q8_0 || p->x_dtype == OPREG_Q8_K;
    free(c->y);
    c->y = malloc((size_t)y_bytes(c) + 1);
    memset(c->y, 0xff, (size_t)y_bytes(c));
    if (!planes) {
        free(c->x);
        c->x = malloc((size_t)(p->m * p->x_stride + 1) * 4);
        memset(c->x, 0xff, (size_t)(p->m * p->x_stride) * 4);
        for (int64_t i = 0; i < p->m * p->k; i++) {
            int64_t at = i / p->k * p->x_stride + i % p->k;
            canonical_store(c->x, at, p->x_dtype, c->values[i]);
            c->values[i] = canonical_load(c->x, at, p->x_dtype);
        }
    }
    bufs[OPREG_MATMUL_Y].ptr = c->y;
    bufs[OPREG_MATMUL_X].ptr = planes ? (void *)c->codes : c->x;
    bufs[OPREG_MATMUL_X_SCALES].ptr = c->scales;
    bufs[OPREG_MATMUL_X_SUMS].ptr = c->sums;
    bufs[OPREG_MATMUL_BIAS].ptr = c->bias;
    run_baseline(OPREG_OP_MATMUL_BT_QUANT, p, bufs, OPREG_MATMUL_BUFS, views,
                 p->glu == OPREG_GLU_NONE ? 1 : 2);
}

/* Activations of one row as the format sees them. */
typedef struct row_codes {
    int8_t codes[37 * 256];
    int16_t sums[37 * 16];
    float scales[37 * 8];
} row_codes;

static void quantize_row(const format_info *format, const float *x, int64_t k, row_codes *out) {
    int64_t block = format->act_dtype == OPREG_Q8_K ? 256 : 32;
    for (int64_t b = 0; b < k / block; b++) {
        out->scales[b] = block == 256
                             ? act_q8_k(x + b * 256, out->codes + b * 256, out->sums + b * 16)
                             : act_q8_0(x + b * 32, out->codes + b * 32, out->sums + b * 2);
    }
}

/* The f32 dot by the order, from all terms at once. */
static float dot_by_hand(const test_weight *w, int64_t n, const float *x) {
    const format_info *f = w->format;
    const uint8_t *row = w->data + n * w->view.row_bytes;
    int64_t k = w->view.k, units = (k + f->unit - 1) / f->unit;
    float lanes[32], y;
    static row_codes q;
    if (f->kind == FORMAT_SUMS) {
        quantize_row(f, x, k, &q);
    }
    for (int64_t lane = 0; lane < 32; lane++) {
        lanes[lane] = 0.0f;
        for (int64_t u = lane; u < units; u += 32) {
            int64_t first = u * f->unit;
            const uint8_t *block = row + first / f->values * f->bytes;
            int part = f->values == 1 ? 0 : (int)(first % f->values / f->unit);
            int32_t sums[2] = {0, 0};
            if (f->kind == FORMAT_SUMS) {
                f->sums(block, part, q.codes + first, q.sums + first / 16, w->side, sums);
                lanes[lane] = lanes[lane] + f->term(block, part, sums, q.scales[u], w->side);
            } else if (f->values == 1) {
                for (int64_t i = first; i < k && i < first + 8; i++) {
                    lanes[lane] = fmaf((float)weight_value(w, 0, n, i), x[i], lanes[lane]);
                }
            } else {
                lanes[lane] = f->fold(block, part, x + first, f->unit, lanes[lane], w->side);
            }
        }
    }
    y = tree_from(lanes, 0, 1);
    y = f->final_factor == 1.0f ? y : y * f->final_factor;
    return f->side == FORMAT_SIDE_SCALE ? y * w->side->tensor_scale : y;
}

static void expect_bits(const void *y, int64_t at, uint32_t dtype, float expected,
                        const matmul_case *c) {
    uint32_t element[1];
    canonical_store(element, 0, dtype, expected);
    if (element_bits(y, at, dtype) != element_bits(element, 0, dtype)) {
        fail_msg("%s k %lld: element %lld is %a, by hand %a", c->weights[0].format->name,
                 (long long)c->problem.k, (long long)at, (double)canonical_load(y, at, dtype),
                 (double)expected);
    }
}

static void expect_case_by_hand(const matmul_case *c) {
    const opreg_matmul_bt_quant *p = &c->problem;
    for (int64_t m = 0; m < p->m; m++) {
        for (int64_t n = 0; n < p->n; n++) {
            float y = dot_by_hand(&c->weights[0], n, c->values + m * p->k);
            if (p->glu != OPREG_GLU_NONE) {
                y = canonical_glu(p->glu, y, dot_by_hand(&c->weights[1], n, c->values + m * p->k),
                                  p->glu_alpha, p->glu_limit);
            }
            if ((p->flags & OPREG_PF_BIAS) != 0) {
                y = y + c->bias[n];
            }
            expect_bits(c->y, m * p->y_stride + n, p->y_dtype, y, c);
        }
    }
}

/* K of one block, of an odd number of blocks past 32 units, and for float weights of any K. */
static void every_format_has_the_bits_of_the_order_by_hand(void **state) {
    (void)state;
    random_state = 1;
    for (size_t i = 0; i < format_count(); i++) {
        const format_info *format = format_at(i);
        int64_t ks[3] = {format->values, 37 * format->values, 3 * 256};
        if (format->values == 1) {
            ks[1] = 611;
        }
        for (int j = 0; j < 3; j++) {
            matmul_case c = case_make(format, 3, 5, ks[j]);
            case_run(&c);
            expect_case_by_hand(&c);
            case_free(&c);
        }
    }
}

static void every_dtype_pair_widens_x_exactly_and_rounds_y_once(void **state) {
    const uint32_t formats[] = {OPREG_Q4_K, OPREG_Q8_0, OPREG_F16};
    (void)state;
    random_state = 2;
    for (int i = 0; i < 27; i++) {
        matmul_case c = case_make(format_by_id(formats[i % 3]), 3, 7, 512);
        c.problem.x_dtype = float_dtypes[i / 3 % 3];
        c.problem.y_dtype = float_dtypes[i / 9];
        c.problem.x_stride = 515;
        c.problem.y_stride = 11;
        case_run(&c);
        expect_case_by_hand(&c);
        case_free(&c);
    }
}

static void gaps_between_rows_of_y_are_not_written(void **state) {
    (void)state;
    random_state = 3;
    for (int d = 0; d < 3; d++) {
        matmul_case c = case_make(format_by_id(OPREG_Q5_0), 4, 17, 64);
        size_t size = element_size(float_dtypes[d]);
        c.problem.y_dtype = float_dtypes[d];
        c.problem.y_stride = 20;
        case_run(&c);
        for (int64_t i = 0; i < 4 * 20 * (int64_t)size; i++) {
            if (i / (int64_t)size % 20 >= 17) {
                assert_int_equal(((uint8_t *)c.y)[i], 0xff);
            }
        }
        case_free(&c);
    }
}

static void bias_is_added_before_the_one_rounding(void **state) {
    (void)state;
    random_state = 4;
    for (int d = 0; d < 3; d++) {
        matmul_case c = case_make(format_by_id(OPREG_Q6_K), 2, 9, 256);
        c.problem.y_dtype = float_dtypes[d];
        c.problem.flags = OPREG_PF_BIAS;
        case_run(&c);
        expect_case_by_hand(&c);
        case_free(&c);
    }
}

static void the_pair_form_gates_the_f32_results(void **state) {
    (void)state;
    random_state = 5;
    for (uint32_t glu = OPREG_GLU_SILU; glu <= OPREG_GLU_SWIGLU_OAI; glu++) {
        matmul_case c = case_make(format_by_id(OPREG_Q4_1), 3, 18, 96);
        c.problem.glu = glu;
        c.problem.y_dtype = OPREG_BF16;
        c.problem.glu_alpha = glu == OPREG_GLU_SWIGLU_OAI ? 1.702f : 0.0f;
        c.problem.glu_limit =
            glu == OPREG_GLU_SWIGLU_OAI || glu == OPREG_GLU_SILU_CLAMPED ? 2.5f : 0.0f;
        case_run(&c);
        expect_case_by_hand(&c);
        case_free(&c);
    }
}

/* Quantizes the case's x through quantize_act and switches the problem to planes. */
static void to_planes(matmul_case *c, uint32_t q_dtype) {
    opreg_matmul_bt_quant *p = &c->problem;
    const opreg_quantize_act quantize = {.struct_size = sizeof quantize,
                                         .x_dtype = p->x_dtype,
                                         .q_dtype = q_dtype,
                                         .m = p->m,
                                         .k = p->k,
                                         .x_stride = p->x_stride};
    int64_t count = p->m * p->k;
    opreg_buf bufs[OPREG_QUANTIZE_BUFS];
    c->codes = malloc((size_t)count);
    c->scales = malloc((size_t)count / 8);
    c->sums = malloc((size_t)count / 8);
    bufs[OPREG_QUANTIZE_CODES].ptr = c->codes;
    bufs[OPREG_QUANTIZE_SCALES].ptr = c->scales;
    bufs[OPREG_QUANTIZE_SUMS].ptr = c->sums;
    bufs[OPREG_QUANTIZE_X].ptr = c->x;
    run_baseline(OPREG_OP_QUANTIZE_ACT, &quantize, bufs, OPREG_QUANTIZE_BUFS, NULL, 0);
    p->x_dtype = q_dtype;
    p->x_stride = p->k;
}

static void quantized_planes_give_the_bits_of_raw_x(void **state) {
    (void)state;
    random_state = 6;
    for (size_t i = 0; i < format_count(); i++) {
        const format_info *format = format_at(i);
        matmul_case c;
        void *raw;
        if (format->kind != FORMAT_SUMS) {
            continue;
        }
        c = case_make(format, 5, 4, 768);
        c.problem.x_dtype = float_dtypes[i % 3];
        c.problem.x_stride = 773;
        case_run(&c);
        raw = c.y;
        c.y = NULL;
        to_planes(&c, format->act_dtype);
        case_run(&c);
        assert_memory_equal(raw, c.y, y_bytes(&c));
        free(raw);
        case_free(&c);
    }
}

static void a_row_does_not_depend_on_the_width_of_the_call(void **state) {
    const uint32_t formats[] = {OPREG_Q4_K, OPREG_MXFP4, OPREG_BF16};
    (void)state;
    random_state = 7;
    for (int f = 0; f < 3; f++) {
        matmul_case wide = case_make(format_by_id(formats[f]), 67, 19, 256), one;
        case_run(&wide);
        one = wide;
        one.x = one.y = NULL;
        one.problem.m = 1;
        for (int64_t m = 0; m < 67; m += 11) {
            one.values = wide.values + m * 256;
            case_run(&one);
            assert_memory_equal(one.y, (float *)wide.y + m * 19, 19 * sizeof(float));
        }
        free(one.x);
        free(one.y);
        case_free(&wide);
    }
}

static void threads_and_their_order_change_no_bit(void **state) {
    (void)state;
    random_state = 8;
    for (int f = 0; f < 2; f++) {
        matmul_case c = case_make(format_by_id(f == 0 ? OPREG_Q4_K : OPREG_F16), 9, 50, 512);
        void *first;
        c.problem.x_dtype = OPREG_BF16;
        case_run(&c);
        first = c.y;
        for (int order = HOST_DESCENDING; order <= HOST_THREADS; order++) {
            c.y = NULL;
            current_order = (host_order)order;
            case_run(&c);
            assert_memory_equal(first, c.y, y_bytes(&c));
            free(c.y);
        }
        current_order = HOST_ASCENDING;
        c.y = first;
        case_free(&c);
    }
}

static void inf_and_nan_poison_their_own_row_alone(void **state) {
    const uint32_t formats[] = {OPREG_Q4_0, OPREG_Q6_K, OPREG_F32};
    (void)state;
    random_state = 9;
    for (int f = 0; f < 3; f++) {
        matmul_case c = case_make(format_by_id(formats[f]), 3, 8, 512);
        float *clean;
        case_run(&c);
        clean = c.y;
        c.y = NULL;
        c.values[1 * 512 + 300] = f == 1 ? INFINITY : NAN;
        case_run(&c);
        for (int64_t i = 0; i < 24; i++) {
            if (i / 8 == 1) {
                assert_true(isnan(((float *)c.y)[i]));
            } else {
                assert_int_equal(bits_of(((float *)c.y)[i]), bits_of(clean[i]));
            }
        }
        free(clean);
        case_free(&c);
    }
}

/* |scale part| and |min part| of weight i of a unit: the term of one code that is 1. */
static double parts_of(const format_info *f, const uint8_t *block, int part, int i,
                       const opreg_side *side) {
    int8_t one[256] = {0};
    int16_t sums[16] = {0};
    int32_t n[2] = {0, 0}, scaled[2], shifted[2];
    one[i] = 1;
    sums[i / 16] = 1;
    f->sums(block, part, one, sums, side, n);
    scaled[0] = n[0];
    shifted[0] = scaled[1] = 0;
    shifted[1] = n[1];
    return fabs((double)f->term(block, part, scaled, 1.0f, side)) +
           fabs((double)f->term(block, part, shifted, 1.0f, side));
}

/* |y - exact| <= (units / 32 + 12) * 2^-24 * S, exact and S over the dequantized activations. */
static void integer_dots_keep_the_bound_of_the_order(void **state) {
    static row_codes q;
    (void)state;
    random_state = 10;
    for (size_t i = 0; i < format_count(); i++) {
        const format_info *f = format_at(i);
        const int64_t k = 1536, n_count = 6;
        matmul_case c;
        if (f->kind != FORMAT_SUMS) {
            continue;
        }
        c = case_make(f, 1, n_count, k);
        c.values[77] = 4000.0f; /* an outlier: the oracle asks for any data */
        case_run(&c);
        quantize_row(f, c.values, k, &q);
        for (int64_t n = 0; n < n_count; n++) {
            const test_weight *w = &c.weights[0];
            double exact = 0.0, s = 0.0, factor = (double)f->final_factor, units, bound;
            factor *= f->side == FORMAT_SIDE_SCALE ? (double)w->side->tensor_scale : 1.0;
            for (int64_t j = 0; j < k; j++) {
                int64_t first = j / f->unit * f->unit;
                double x = (double)q.codes[j] * (double)q.scales[j / f->unit];
                exact += weight_value(w, 0, n, j) * x;
                s += factor * fabs(x) *
                     parts_of(f, w->data + n * w->view.row_bytes + j / f->values * f->bytes,
                              (int)(first % f->values / f->unit), (int)(j - first), w->side);
            }
            units = (double)(k / f->unit);
            bound = (units / 32.0 + 12.0) * 0x1p-24 * s;
            if (!(fabs((double)((float *)c.y)[n] - exact) <= bound)) {
                fail_msg("%s: %.9g, exact %.9g, bound %.3g", f->name, (double)((float *)c.y)[n],
                         exact, bound);
            }
        }
        case_free(&c);
    }
}

/* NMSE of 256 outputs against double precision of raw activations: quantized activations within
 * 5e-4 (2e-3 for IQ1), f32 activations within 1e-10. */
static void gaussian_data_stays_in_the_band(void **state) {
    (void)state;
    random_state = 11;
    for (size_t i = 0; i < format_count(); i++) {
        const format_info *f = format_at(i);
        int iq1 = f->id == OPREG_IQ1_S || f->id == OPREG_IQ1_M;
        double band = f->kind == FORMAT_FOLD ? 1e-10 : iq1 ? 2e-3 : 5e-4;
        double error = 0.0, power = 0.0;
        matmul_case c = case_make(f, 8, 32, 512);
        case_run(&c);
        for (int64_t m = 0; m < 8; m++) {
            for (int64_t n = 0; n < 32; n++) {
                double exact = 0.0, difference;
                for (int64_t k = 0; k < 512; k++) {
                    exact += weight_value(&c.weights[0], 0, n, k) * (double)c.values[m * 512 + k];
                }
                difference = (double)((float *)c.y)[m * 32 + n] - exact;
                error += difference * difference;
                power += exact * exact;
            }
        }
        if (!(error <= band * power)) {
            fail_msg("%s: NMSE %.3g is over %.0e", f->name, error / power, band);
        }
        case_free(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_has_the_bits_of_the_order_by_hand),
        cmocka_unit_test(every_dtype_pair_widens_x_exactly_and_rounds_y_once),
        cmocka_unit_test(gaps_between_rows_of_y_are_not_written),
        cmocka_unit_test(bias_is_added_before_the_one_rounding),
        cmocka_unit_test(the_pair_form_gates_the_f32_results),
        cmocka_unit_test(quantized_planes_give_the_bits_of_raw_x),
        cmocka_unit_test(a_row_does_not_depend_on_the_width_of_the_call),
        cmocka_unit_test(threads_and_their_order_change_no_bit),
        cmocka_unit_test(inf_and_nan_poison_their_own_row_alone),
        cmocka_unit_test(integer_dots_keep_the_bound_of_the_order),
        cmocka_unit_test(gaussian_data_stays_in_the_band),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
