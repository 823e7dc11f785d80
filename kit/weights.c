/* SPDX-License-Identifier: MIT
 * weights.c - random valid weights of every format: any bytes, then scale fields that the format
 * admits.  All codes, grid indices and sub-scales are hit because the bytes are random. */
#include <stdlib.h>
#include <string.h>

#include "formats/format.h"
#include "formats/formats.h"
#include "formats/tables/gqh2h_grid.h"
#include "formats/tables/gqh3_grid.h"
#include "formats/tables/gqh4_grid.h"
#include "job.h"

typedef enum field_code {
    FIELD_NONE = 0,
    FIELD_F16,  /* any finite                                                                       */
    FIELD_UE,   /* UE4M3 half scale: 0..0x7e                                                        */
    FIELD_UEX,  /* the same, and bit 7 where the dialect or the mode gives it a meaning             */
    FIELD_BYTE, /* NVFP4: every byte has a meaning                                                  */
    FIELD_E8M0, /* not 0xff                                                                         */
    FIELD_E4M3, /* not NaN                                                                          */
    FIELD_IQ1M, /* f16 scattered over the top nibbles of four words                                 */
    FIELD_REAL  /* the block is one float of its own dtype                                          */
} field_code;

typedef struct scale_fields {
    uint32_t format;
    float typical; /* a scale that makes weights about 1 in size                                    */
    struct {
        uint16_t code, at;
    } fields[4];
} scale_fields;

static const scale_fields scales[] = {
    {OPREG_F32, 1.0f, {{FIELD_REAL, 0}}},
    {OPREG_F16, 1.0f, {{FIELD_REAL, 0}}},
    {OPREG_BF16, 1.0f, {{FIELD_REAL, 0}}},
    {OPREG_Q8_0, 0x1p-6f, {{FIELD_F16, 0}}},
    {OPREG_Q4_0, 0x1p-3f, {{FIELD_F16, 0}}},
    {OPREG_Q4_1, 0x1p-3f, {{FIELD_F16, 0}, {FIELD_F16, 2}}},
    {OPREG_Q5_0, 0x1p-4f, {{FIELD_F16, 0}}},
    {OPREG_Q5_1, 0x1p-4f, {{FIELD_F16, 0}, {FIELD_F16, 2}}},
    {OPREG_Q2_K, 0x1p-4f, {{FIELD_F16, 80}, {FIELD_F16, 82}}},
    {OPREG_Q3_K, 0x1p-6f, {{FIELD_F16, 108}}},
    {OPREG_Q4_K, 0x1p-9f, {{FIELD_F16, 0}, {FIELD_F16, 2}}},
    {OPREG_Q5_K, 0x1p-10f, {{FIELD_F16, 0}, {FIELD_F16, 2}}},
    {OPREG_Q6_K, 0x1p-11f, {{FIELD_F16, 208}}},
    {OPREG_IQ4_NL, 0x1p-6f, {{FIELD_F16, 0}}},
    {OPREG_IQ4_XS, 0x1p-10f, {{FIELD_F16, 0}}},
    {OPREG_Q2_0, 1.0f, {{FIELD_F16, 0}}},
    {OPREG_Q1_0, 1.0f, {{FIELD_F16, 0}}},
    {OPREG_MXFP4, 0x1p-2f, {{FIELD_E8M0, 0}}},
    {OPREG_NVFP4, 0x1p-2f, {{FIELD_BYTE, 0}, {FIELD_BYTE, 1}, {FIELD_BYTE, 2}, {FIELD_BYTE, 3}}},
    {OPREG_IQ1_S, 0x1p-3f, {{FIELD_F16, 0}}},
    {OPREG_IQ1_M, 0x1p-3f, {{FIELD_IQ1M, 48}}},
    {OPREG_IQ2_XXS, 0x1p-6f, {{FIELD_F16, 0}}},
    {OPREG_IQ2_XS, 0x1p-6f, {{FIELD_F16, 0}}},
    {OPREG_IQ2_S, 0x1p-6f, {{FIELD_F16, 0}}},
    {OPREG_IQ3_XXS, 0x1p-7f, {{FIELD_F16, 0}}},
    {OPREG_IQ3_S, 0x1p-7f, {{FIELD_F16, 0}}},
    {OPREG_ROCMFP4, 0x1p-2f, {{FIELD_UEX, 16}, {FIELD_UEX, 17}}},
    {OPREG_ROCMFP4_FAST, 0x1p-2f, {{FIELD_UEX, 16}}},
    {OPREG_ROCMFP6, 0x1p-4f, {{FIELD_UE, 24}, {FIELD_UE, 25}}},
    {OPREG_ROCMFP8, 0x1p-6f, {{FIELD_UE, 32}}},
    {OPREG_ROCMFP3, 0x1p-1f, {{FIELD_UE, 12}, {FIELD_UE, 13}}},
    {OPREG_ROCMFP2, 1.0f, {{FIELD_UEX, 8}, {FIELD_UEX, 9}}},
    {OPREG_ROCMFP3_MIX, 1.0f, {{FIELD_UEX, 12}, {FIELD_UEX, 13}}},
    {OPREG_ROCMFP2_MIX, 1.0f, {{FIELD_UEX, 8}, {FIELD_UEX, 9}}},
    {OPREG_GQH3, 1.0f, {{FIELD_E4M3, 0}}},
    {OPREG_GQH2_H, 1.0f, {{FIELD_E4M3, 0}}},
    {OPREG_GQH2_C, 1.0f, {{FIELD_F16, 0}}},
    {OPREG_GQH4, 1.0f, {{FIELD_E4M3, 0}}},
};

static const scale_fields *fields_of(uint32_t format) {
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        if (scales[i].format == format) {
            return &scales[i];
        }
    }
    return NULL;
}

static uint32_t f16_scale(random_state *random, data_kind kind, float typical) {
    static const uint16_t edges[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400,
                                     0x8400, 0x7bff, 0xfbff, 0x3c00, 0x2e66, 0x0000};
    float sign = random_below(random, 4) == 0 ? -1.0f : 1.0f;
    if (kind == DATA_EXTREME) {
        return edges[random_below(random, sizeof edges / sizeof edges[0])];
    }
    if (kind == DATA_SUBNORMAL) {
        return random_below(random, 2) ? random_below(random, 0x400) : 0x8000u;
    }
    return f32_to_f16(sign * typical * (0.5f + (float)random_unit(random)));
}

static uint8_t ue_scale(random_state *random, data_kind kind, float typical) {
    static const uint8_t edges[] = {0x00, 0x01, 0x07, 0x08, 0x7d, 0x7e};
    uint8_t code = 0;
    if (kind == DATA_EXTREME) {
        return edges[random_below(random, sizeof edges)];
    }
    if (kind == DATA_SUBNORMAL) {
        return (uint8_t)random_below(random, 8);
    }
    /* 8 * 2^(x - 11) is about the typical scale */
    for (float value = 0x1p-7f; value < typical && code < 13; value *= 2.0f) {
        code++;
    }
    return (uint8_t)((uint32_t)(code + 1) << 3 | random_below(random, 8));
}

static void write_scale(random_state *random, data_kind kind, const scale_fields *row, int i,
                        const opreg_side *side, uint8_t *block) {
    uint8_t *at = block + row->fields[i].at;
    uint32_t bits;
    float value;
    switch ((field_code)row->fields[i].code) {
    case FIELD_F16:
        bits = f16_scale(random, kind, row->typical);
        at[0] = (uint8_t)bits;
        at[1] = (uint8_t)(bits >> 8);
        break;
    case FIELD_UEX:
        at[0] = ue_scale(random, kind, row->typical);
        if (side->mode == 1 || side->dialect == OPREG_DIALECT_ROCMFP2_SIGNBIT ||
            side->dialect == OPREG_DIALECT_ROCMFP4_HIP) {
            at[0] |= (uint8_t)(random_below(random, 2) << 7);
        }
        break;
    case FIELD_UE: at[0] = ue_scale(random, kind, row->typical); break;
    case FIELD_BYTE:
        at[0] = kind == DATA_EXTREME ? (uint8_t)random_next(random)
                                     : ue_scale(random, kind, row->typical);
        break;
    case FIELD_E8M0:
        at[0] = (uint8_t)(kind == DATA_EXTREME     ? random_below(random, 255)
                          : kind == DATA_SUBNORMAL ? random_below(random, 4)
                                                   : 124u + random_below(random, 4));
        break;
    case FIELD_E4M3:
        at[0] = (uint8_t)(kind == DATA_EXTREME     ? random_below(random, 127)
                          : kind == DATA_SUBNORMAL ? random_below(random, 8)
                                                   : 0x34u + random_below(random, 8));
        at[0] |= (uint8_t)(random_below(random, 4) == 0 ? 0x80 : 0);
        break;
    case FIELD_IQ1M:
        bits = f16_scale(random, kind, row->typical);
        for (int t = 0; t < 4; t++) {
            at[2 * t + 1] = (uint8_t)((at[2 * t + 1] & 15u) | (bits >> 4 * t & 15u) << 4);
        }
        break;
    case FIELD_REAL:
        value = random_gauss(random);
        if (kind == DATA_EXTREME) {
            value *= random_below(random, 2) ? 0x1p13f : 0x1p-14f;
        } else if (kind == DATA_SUBNORMAL) {
            value *= row->format == OPREG_F16 ? 0x1p-15f : 0x1p-126f;
        }
        element_store(row->format, at, value);
        break;
    default: break;
    }
}

/* ---- side data ---------------------------------------------------------------------------------- */

static const float *gqh_grid(uint32_t format, uint32_t code, uint32_t *levels) {
    switch (format) {
    case OPREG_GQH3: *levels = 8; return gqh3_grid[code];
    case OPREG_GQH4: *levels = 16; return gqh4_grid[code];
    case OPREG_GQH2_H: *levels = 4; return gqh2h_grid[code];
    default: *levels = 0; return NULL;
    }
}

static int make_gqh_side(random_state *random, data_kind kind, uint32_t format, job_weight *out) {
    uint32_t levels, code = random_below(random, 12);
    float tensor_scale = kind == DATA_SUBNORMAL ? 0x1p-125f : 0.5f + (float)random_unit(random);
    const float *grid = gqh_grid(format, code, &levels);
    out->side_bytes = 5;
    out->side = malloc(5);
    if (out->side == NULL) {
        return 0;
    }
    memcpy(out->side, &tensor_scale, 4);
    out->side[4] = (uint8_t)code;
    for (int64_t e = 0; e < out->experts; e++) {
        out->records[e].tensor_scale = tensor_scale;
        memcpy(out->records[e].levels, grid, levels * sizeof *grid);
    }
    return 1;
}

static const float mix_fixed_8[8] = {0, 1, 2, 4, -0.0f, -1, -2, -4};
static const float mix_fixed_4[4] = {-1, 0, 1, 2};

/* One mode byte an expert, then two ascending books of bf16 levels an expert. */
static int make_mix_side(random_state *random, uint32_t levels, job_weight *out) {
    uint64_t experts = (uint64_t)out->experts, books = 2 * levels;
    out->side_bytes = experts * (1 + 2 * books);
    out->side = malloc(out->side_bytes);
    if (out->side == NULL) {
        return 0;
    }
    for (uint64_t e = 0; e < experts; e++) {
        opreg_side *record = &out->records[e];
        uint8_t *book = out->side + experts + e * 2 * books;
        out->side[e] = (uint8_t)(random_below(random, 4) != 0);
        record->mode = out->side[e];
        for (uint32_t i = 0; i < books; i++) {
            float step = 0.25f + (float)random_unit(random);
            float level = i % levels == 0 ? -(float)levels / 4.0f - step
                                          : bf16_to_f32(load_u16(book + 2 * (i - 1))) + step;
            uint32_t bits = f32_to_bf16(level);
            book[2 * i] = (uint8_t)bits;
            book[2 * i + 1] = (uint8_t)(bits >> 8);
            record->levels[i] = record->mode == 1 ? bf16_to_f32(bits)
                                : levels == 8     ? mix_fixed_8[i % levels]
                                                  : mix_fixed_4[i % levels];
        }
    }
    return 1;
}

static uint32_t dialect_reading(uint32_t format, uint32_t dialect) {
    if (dialect == OPREG_DIALECT_DEFAULT && format == OPREG_ROCMFP2) {
        return OPREG_DIALECT_ROCMFP2_SIGNBIT;
    }
    if (dialect == OPREG_DIALECT_DEFAULT && format == OPREG_NVFP4) {
        return OPREG_DIALECT_NVFP4_HOST;
    }
    return dialect;
}

/* ---- whole weights -------------------------------------------------------------------------------- */

int64_t weight_k_step(uint32_t format) {
    const format_info *info = format_by_id(format);
    if (info == NULL) {
        return 0;
    }
    return format == OPREG_ROCMFP2_MIX ? 128 : info->values;
}

int weight_make(random_state *random, data_kind kind, uint32_t format, uint32_t dialect,
                int64_t experts, int64_t n, int64_t k, job_weight *out) {
    const format_info *info = format_by_id(format);
    const scale_fields *row = fields_of(format);
    uint64_t gap;
    if (info == NULL || row == NULL) {
        return 0;
    }
    memset(out, 0, sizeof *out);
    out->format = format;
    out->dialect = dialect;
    out->experts = experts;
    out->n = n;
    out->k = k;
    out->row_bytes = k / info->values * info->bytes;
    gap = experts > 1 && random_below(random, 3) == 0 ? 32 : 0;
    out->expert_stride = n * out->row_bytes + (int64_t)gap;
    out->bytes = experts > 0 ? (uint64_t)(out->expert_stride * experts) - gap : 0;
    out->records = calloc((size_t)(experts > 0 ? experts : 1), sizeof *out->records);
    out->data = malloc(out->bytes > 0 ? out->bytes : 1);
    if (out->records == NULL || out->data == NULL) {
        return 0;
    }
    for (int64_t e = 0; e < experts; e++) {
        out->records[e].tensor_scale = 1.0f;
        out->records[e].dialect = dialect_reading(format, dialect);
    }
    if (info->side == FORMAT_SIDE_SCALE && random_below(random, 2)) {
        out->tensor_scale = 0.5f + (float)random_unit(random);
        for (int64_t e = 0; e < experts; e++) {
            out->records[e].tensor_scale = out->tensor_scale;
        }
    }
    if ((info->side == FORMAT_SIDE_GQH && !make_gqh_side(random, kind, format, out)) ||
        (info->side == FORMAT_SIDE_MIX8 && !make_mix_side(random, 8, out)) ||
        (info->side == FORMAT_SIDE_MIX4 && !make_mix_side(random, 4, out))) {
        return 0;
    }
    random_bytes(random, out->data, out->bytes);
    if (gap > 0) {
        out->loose = calloc(out->bytes, 1);
        if (out->loose == NULL) {
            return 0;
        }
    }
    for (int64_t e = 0; e < experts; e++) {
        uint8_t *block = out->data + e * out->expert_stride;
        for (int64_t b = 0; b < n * out->row_bytes / info->bytes; b++, block += info->bytes) {
            for (int i = 0; i < 4 && row->fields[i].code != FIELD_NONE; i++) {
                write_scale(random, kind, row, i, &out->records[e], block);
            }
            if (info->invalid(block, &out->records[e]) != NULL) {
                return 0; /* the table above disagrees with the format's own rule */
            }
        }
        if (gap > 0 && e + 1 < experts) {
            memset(out->loose + (e + 1) * out->expert_stride - (int64_t)gap, 1, gap);
        }
    }
    return 1;
}

void weight_clear(job_weight *weight) {
    free(weight->data);
    free(weight->side);
    free(weight->loose);
    free(weight->records);
    memset(weight, 0, sizeof *weight);
}

/* ---- decode for the oracle ------------------------------------------------------------------------- */

/* The block without its min part: |w - value(this)| is the size of the min part. */
static int drop_min(uint32_t format, uint32_t dialect, uint8_t *block) {
    switch (format) {
    case OPREG_Q4_1:
    case OPREG_Q5_1:
    case OPREG_Q4_K:
    case OPREG_Q5_K: memset(block + 2, 0, 2); return 1;
    case OPREG_Q2_K: memset(block + 82, 0, 2); return 1;
    case OPREG_ROCMFP2: block[9] = 0; return dialect == OPREG_DIALECT_ROCMFP2_AFFINE;
    default: return 0;
    }
}

/* IQ1: w = s * (grid + delta), |delta| = 1/8, grid -1 0 1.  The size of both parts follows from the
 * scale of the sub-block. */
static double iq1_size(uint32_t format, const uint8_t *block, int i, double value) {
    int g = i >> 5, half = i >> 4 & 1;
    uint32_t scale16 = load_u16(block), s3;
    if (format == OPREG_IQ1_S) {
        s3 = load_u16(block + 34 + 2 * g) >> 12 & 7u;
    } else {
        scale16 = 0;
        for (int t = 0; t < 4; t++) {
            scale16 |= (load_u16(block + 48 + 2 * t) >> 12) << 4 * t;
        }
        s3 = load_u16(block + 48 + 2 * (g >> 1)) >> (6 * (g & 1) + 3 * half) & 7u;
    }
    double scale = fabs((double)f16_to_f32(scale16)) * (2.0 * s3 + 1.0);
    return scale * (fabs(value) > scale * 0.5 ? 1.125 : 0.125);
}

void weight_row(const job_weight *weight, int64_t expert, int64_t row, double *values,
                double *sizes) {
    const format_info *info = format_by_id(weight->format);
    const opreg_side *side = &weight->records[expert];
    const uint8_t *block = weight->data + expert * weight->expert_stride + row * weight->row_bytes;
    uint8_t plain[256];
    for (int64_t k = 0; k < weight->k; k += info->values, block += info->bytes) {
        memcpy(plain, block, (size_t)info->bytes);
        int shifted = drop_min(weight->format, side->dialect, plain);
        for (int i = 0; i < info->values; i++) {
            double value = (double)info->value(block, i, side);
            values[k + i] = value;
            sizes[k + i] = fabs(value);
            if (shifted) {
                double scaled = (double)info->value(plain, i, side);
                sizes[k + i] = fabs(scaled) + fabs(value - scaled);
            } else if (weight->format == OPREG_IQ1_S || weight->format == OPREG_IQ1_M) {
                sizes[k + i] = iq1_size(weight->format, block, i, value);
            }
        }
    }
}
