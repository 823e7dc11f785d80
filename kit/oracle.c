/* SPDX-License-Identifier: MIT
 * oracle.c - comparison of results, the band, and the oracle of the dense operators. */
#include "oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dot.h"

static uint32_t element_bits(uint32_t dtype, const uint8_t *at, int exact) {
    uint32_t size = element_bytes(dtype), bits = 0;
    for (uint32_t i = 0; i < size; i++) {
        bits |= (uint32_t)at[i] << 8 * i;
    }
    if (!exact && (dtype == OPREG_F32 || dtype == OPREG_F16 || dtype == OPREG_BF16) &&
        isnan(element_load(dtype, at))) {
        return 0x7fc00000u;
    }
    return bits;
}

int outputs_equal(const job *of, uint8_t *const a[JOB_BUFS], uint8_t *const b[JOB_BUFS],
                  char detail[320]) {
    for (uint32_t i = 0; i < of->num_bufs; i++) {
        const job_buffer *buffer = &of->bufs[i];
        uint32_t size = element_bytes(buffer->dtype);
        uint64_t wrong = 0, checked = 0, first = 0;
        if (buffer->role != JOB_OUTPUT || memcmp(a[i], b[i], buffer->bytes) == 0) {
            continue;
        }
        for (uint64_t at = 0; at + size <= buffer->bytes; at += size) {
            if (buffer->owned != NULL && buffer->owned[at] != 1) {
                continue;
            }
            checked++;
            if (element_bits(buffer->dtype, a[i] + at, (int)buffer->exact) !=
                element_bits(buffer->dtype, b[i] + at, (int)buffer->exact)) {
                first = wrong == 0 ? at : first;
                wrong++;
            }
        }
        if (wrong > 0) {
            snprintf(detail, 320,
                     "output %u: %llu of %llu elements differ, first element %llu: 0x%x (%g) and "
                     "0x%x (%g)",
                     i, (unsigned long long)wrong, (unsigned long long)checked,
                     (unsigned long long)(first / size),
                     element_bits(buffer->dtype, a[i] + first, 1),
                     (double)element_load(buffer->dtype, a[i] + first),
                     element_bits(buffer->dtype, b[i] + first, 1),
                     (double)element_load(buffer->dtype, b[i] + first));
            return 0;
        }
    }
    return 1;
}

void element_check(uint32_t dtype, double got, double exact, double bound, const char *check,
                   int64_t row, int64_t column, finding *f) {
    double reach = fabs(exact) + bound;
    if (dtype == OPREG_F16) {
        bound += reach * 0x1p-11 + 0x1p-25;
    } else if (dtype == OPREG_BF16) {
        bound += reach * 0x1p-8 + 0x1p-134;
    }
    if ((dtype == OPREG_F16 && reach > 65000.0) || reach > 0x1p127) {
        return; /* may round to infinity */
    }
    if (!(fabs(got - exact) <= bound)) {
        finding_set(f, check, "y[%lld,%lld] is %.9g, exact %.9g: off by %.3g, at most %.3g is "
                              "admitted",
                    (long long)row, (long long)column, got, exact, fabs(got - exact), bound);
    }
}

/* y = act(gate) * factor(up), gate and up clamped. */
typedef struct glu_parts {
    double gate, act, factor;
} glu_parts;

static glu_parts split_glu(uint32_t glu, double alpha, double limit, double gate, double up) {
    const double c = 0.7978845608028654;
    glu_parts parts;
    if (glu == OPREG_GLU_SILU_CLAMPED || glu == OPREG_GLU_SWIGLU_OAI) {
        gate = fmin(gate, limit);
        up = fmax(fmin(up, limit), -limit);
    }
    parts.gate = gate;
    parts.factor = glu == OPREG_GLU_SWIGLU_OAI ? up + 1 : up;
    switch (glu) {
    case OPREG_GLU_GELU_TANH:
        parts.act = 0.5 * gate * (1 + tanh(c * gate * (1 + 0.044715 * gate * gate)));
        break;
    case OPREG_GLU_SWIGLU_OAI: parts.act = gate / (1 + exp(-alpha * gate)); break;
    default: parts.act = gate / (1 + exp(-gate)); break;
    }
    return parts;
}

/* |act'| of every kind; a clamp has at most 1. */
#define ACT_SLOPE 1.13

double glu_exact(uint32_t glu, double alpha, double limit, double gate, double up) {
    glu_parts parts = split_glu(glu, alpha, limit, gate, up);
    return parts.act * parts.factor;
}

double glu_power(uint32_t glu, double alpha, double limit, const double value[2],
                 const double power[2], double limit_of_band) {
    glu_parts parts = split_glu(glu, alpha, limit, value[0], value[1]);
    double slope = ACT_SLOPE * ACT_SLOPE;
    return 2 * (slope * parts.factor * parts.factor * power[0] + parts.act * parts.act * power[1]) +
           2 * slope * limit_of_band * power[0] * power[1];
}

double glu_bound(uint32_t glu, double alpha, double limit, const double value[2],
                 const double bound[2]) {
    glu_parts parts = split_glu(glu, alpha, limit, value[0], value[1]);
    double gate = fabs(parts.gate) + bound[0], factor = fabs(parts.factor) + bound[1];
    if (bound[0] < 0 || bound[1] < 0) {
        return -1;
    }
    return ACT_SLOPE * bound[0] * factor + fabs(parts.act) * bound[1] + 0x1p-19 * gate * factor +
           0x1p-120 * (1 + gate) * (1 + factor);
}

/* ---- quantize_act ------------------------------------------------------------------------------ */

void oracle_quantize(const job *of, uint8_t *const outputs[JOB_BUFS], finding *f) {
    const opreg_quantize_act *p = &of->problem.quantize;
    uint32_t format = p->q_dtype == OPREG_Q8_K ? OPREG_Q4_K : OPREG_Q4_0;
    int64_t blocks = p->k / (p->q_dtype == OPREG_Q8_K ? 256 : 32);
    dot_x x;
    uint8_t *want[JOB_BUFS] = {NULL};
    char detail[320];
    if (dot_x_floats(format, &of->bufs[OPREG_QUANTIZE_X], p->m, p->k, p->x_stride, &x)) {
        want[OPREG_QUANTIZE_CODES] = (uint8_t *)x.codes;
        want[OPREG_QUANTIZE_SCALES] = (uint8_t *)x.scales;
        want[OPREG_QUANTIZE_SUMS] = (uint8_t *)x.sums;
        if (!outputs_equal(of, outputs, want, detail)) {
            finding_set(f, "oracle", "quantized activations (0 codes, 1 scales, 2 sums; %lld "
                                     "blocks a row): %s",
                        (long long)blocks, detail);
        }
    }
    dot_x_clear(&x);
}

/* ---- matmul ------------------------------------------------------------------------------------- */

static int matmul_x(const job *of, dot_x *x) {
    const opreg_matmul_bt_quant *p = &of->problem.matmul;
    if (p->x_dtype == OPREG_Q8_0 || p->x_dtype == OPREG_Q8_K) {
        return dot_x_planes(p->b_dtype, &of->bufs[OPREG_MATMUL_X],
                            &of->bufs[OPREG_MATMUL_X_SCALES], &of->bufs[OPREG_MATMUL_X_SUMS], p->m,
                            p->k, x);
    }
    return dot_x_floats(p->b_dtype, &of->bufs[OPREG_MATMUL_X], p->m, p->k, p->x_stride, x);
}

void compare_output(banded *b, const dots d[2], int pair, const glu_kind *glu, opreg_level level,
                    int64_t row, int64_t column, int64_t at, double bias, double got, finding *f) {
    double exact = d[0].exact[at], raw = d[0].raw[at], power = d[0].power[at], bound;
    bound = level == OPREG_LEVEL_CANONICAL ? d[0].bound[at] : d[0].loose[at];
    if (isnan(exact) || (pair && isnan(d[1].exact[at]))) {
        return; /* the bits say what NaN and Inf give */
    }
    if (pair) {
        const double exacts[2] = {exact, d[1].exact[at]}, raws[2] = {raw, d[1].raw[at]};
        const double powers[2] = {power, d[1].power[at]};
        const double bounds[2] = {
            bound, level == OPREG_LEVEL_CANONICAL ? d[1].bound[at] : d[1].loose[at]};
        bound = glu_bound(glu->kind, glu->alpha, glu->limit, exacts, bounds);
        power = glu_power(glu->kind, glu->alpha, glu->limit, raws, powers, b->limit);
        exact = glu_exact(glu->kind, glu->alpha, glu->limit, exacts[0], exacts[1]);
        raw = glu_exact(glu->kind, glu->alpha, glu->limit, raws[0], raws[1]);
    }
    if (bound >= 0 && level >= OPREG_LEVEL_INT) {
        element_check(b->dtype, got, exact + bias, bound + 0x1p-24 * fabs(bias), "oracle", row,
                      column, f);
    }
    /* the bias adds one rounding */
    banded_add(b, row, column, got, raw + bias, power + bias * bias * 0x1p-48 / b->limit);
}

static void matmul_compare(const job *of, const opreg_kernel_row *variant, const dots d[2],
                           const dot_x *x, const uint8_t *y, finding *f) {
    const opreg_matmul_bt_quant *p = &of->problem.matmul;
    const glu_kind glu = {p->glu, (double)p->glu_alpha, (double)p->glu_limit};
    uint32_t size = element_bytes(p->y_dtype);
    banded b;
    if (!banded_open(&b, p->y_dtype, band_admitted(variant, p->b_dtype), p->m, p->n)) {
        return;
    }
    for (int64_t m = 0; m < p->m; m++) {
        for (int64_t n = 0; n < p->n; n++) {
            double got = (double)element_load(p->y_dtype, y + (uint64_t)(m * p->y_stride + n) * size);
            double bias = 0;
            if (p->flags & OPREG_PF_BIAS) {
                bias = (double)element_load(OPREG_F32, of->bufs[OPREG_MATMUL_BIAS].data + 4 * n);
            }
            compare_output(&b, d, p->glu != OPREG_GLU_NONE, &glu, (opreg_level)variant->level, m, n,
                           m * p->n + n, bias, got, f);
        }
    }
    banded_close(&b, of->data == DATA_GAUSSIAN && x->raw_known ? f : NULL);
}

void oracle_matmul(const job *of, const opreg_kernel_row *variant, uint8_t *const outputs[JOB_BUFS],
                   finding *f) {
    const opreg_matmul_bt_quant *p = &of->problem.matmul;
    int pair = p->glu != OPREG_GLU_NONE;
    dots d[2];
    dot_x x;
    int64_t *rows, *experts;
    if (p->m == 0 || p->n == 0) {
        return; /* x may be absent then */
    }
    rows = calloc((size_t)p->m, sizeof *rows);
    experts = calloc((size_t)p->m, sizeof *experts);
    memset(d, 0, sizeof d);
    if (rows != NULL && experts != NULL && matmul_x(of, &x)) {
        for (int64_t m = 0; m < p->m; m++) {
            rows[m] = m;
        }
        if (dots_make(&of->weights[0], &x, p->m, rows, experts, &d[0]) &&
            (!pair || dots_make(&of->weights[1], &x, p->m, rows, experts, &d[1]))) {
            matmul_compare(of, variant, d, &x, outputs[OPREG_MATMUL_Y], f);
        }
        dots_clear(&d[0]);
        dots_clear(&d[1]);
        dot_x_clear(&x);
    }
    free(rows);
    free(experts);
}

/* ---- dispatch ------------------------------------------------------------------------------------- */

int oracle_check(const job *of, const opreg_kernel_row *variant, uint8_t *const outputs[JOB_BUFS],
                 finding *f) {
    switch (of->op) {
    case OPREG_OP_QUANTIZE_ACT: oracle_quantize(of, outputs, f); break;
    case OPREG_OP_MATMUL_BT_QUANT: oracle_matmul(of, variant, outputs, f); break;
    case OPREG_OP_MOE_ROUTE: oracle_route(of, outputs, f); break;
    case OPREG_OP_MOE_MATMUL:
    case OPREG_OP_MOE_GLU:
    case OPREG_OP_MOE_DOWN: oracle_moe(of, variant, outputs, f); break;
    case OPREG_OP_MOE_COMBINE: oracle_combine(of, outputs, f); break;
    case OPREG_OP_MOE_FFN: oracle_ffn(of, outputs, f); break;
    case OPREG_OP_PAGED_ATTN_DECODE: oracle_attention(of, outputs, f); break;
    }
    return f->check == NULL;
}
