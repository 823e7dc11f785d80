/* SPDX-License-Identifier: MIT
 * job.c - host memory of a case, and what its bytes mean. */
#include "job.h"

#include <stdlib.h>
#include <string.h>

#include "formats/format.h"

const char *const data_names[DATA_KINDS] = {"gaussian", "heavy",  "outlier",  "extreme",
                                            "subnormal", "codes", "nonfinite"};

void job_clear(job *j) {
    for (uint32_t i = 0; i < JOB_BUFS; i++) {
        free(j->bufs[i].data);
        free(j->bufs[i].owned);
        free(j->bufs[i].loose);
    }
    for (uint32_t i = 0; i < JOB_WEIGHTS; i++) {
        weight_clear(&j->weights[i]);
    }
    free(j->extra);
    memset(j, 0, sizeof *j);
}

int job_buffer_set(job *j, uint32_t index, job_role role, uint32_t dtype, uint64_t count) {
    job_buffer *buffer = &j->bufs[index];
    buffer->role = role;
    buffer->dtype = dtype;
    buffer->align = element_bytes(dtype);
    buffer->bytes = count * element_bytes(dtype);
    buffer->data = calloc(buffer->bytes > 0 ? buffer->bytes : 1, 1);
    if (j->num_bufs <= index) {
        j->num_bufs = index + 1;
    }
    return buffer->data != NULL;
}

uint32_t element_bytes(uint32_t dtype) {
    switch (dtype) {
    case OPREG_F32:
    case JOB_I32: return 4;
    case OPREG_F16:
    case OPREG_BF16:
    case JOB_I16: return 2;
    default: return 1;
    }
}

static uint32_t e4m3_nearest(float value) {
    uint32_t sign = bits_of(value) >> 31 << 7, best = 0;
    float magnitude = fabsf(value), gap = INFINITY;
    if (isnan(value)) {
        return sign | 0x7f;
    }
    for (uint32_t code = 0; code < 0x7f; code++) {
        uint8_t byte = (uint8_t)code;
        float distance = fabsf(element_load(OPREG_F8_E4M3, &byte) - magnitude);
        if (distance < gap) {
            gap = distance;
            best = code;
        }
    }
    return sign | best;
}

void element_store(uint32_t dtype, void *at, float value) {
    uint32_t bits = bits_of(value);
    uint16_t half;
    switch (dtype) {
    case OPREG_F16:
    case OPREG_BF16:
        half = (uint16_t)(dtype == OPREG_F16 ? f32_to_f16(value) : f32_to_bf16(value));
        memcpy(at, &half, sizeof half);
        break;
    case OPREG_F8_E4M3: *(uint8_t *)at = (uint8_t)e4m3_nearest(value); break;
    default: memcpy(at, &bits, sizeof bits); break;
    }
}

float element_load(uint32_t dtype, const void *at) {
    const uint8_t *p = at;
    uint32_t code, exponent;
    float value;
    switch (dtype) {
    case OPREG_F16: return f16_to_f32(load_u16(p));
    case OPREG_BF16: return bf16_to_f32(load_u16(p));
    case OPREG_F8_E4M3:
        code = p[0];
        exponent = code >> 3 & 15u;
        if ((code & 0x7fu) == 0x7fu) {
            return float_of(0x7fc00000u);
        }
        value = exponent == 0 ? (float)(code & 7u) * 0x1p-9f
                              : ldexpf((float)(8u + (code & 7u)), (int)exponent - 10);
        return code & 0x80u ? -value : value;
    default: return float_of(load_u32(p));
    }
}

void loose_fill(uint32_t dtype, uint8_t *data, const uint8_t *loose, uint64_t bytes,
                uint32_t fill) {
    static const struct {
        uint32_t dtype;
        uint32_t pattern[2]; /* NaN or -1; the largest */
    } rows[] = {
        {OPREG_F32, {0x7fc00000u, 0x7f7fffffu}}, {OPREG_F16, {0x7e00u, 0x7bffu}},
        {OPREG_BF16, {0x7fc0u, 0x7f7fu}},        {OPREG_F8_E4M3, {0x7fu, 0x7eu}},
        {JOB_I32, {0xffffffffu, 0x7fffffffu}},   {JOB_I16, {0xffffu, 0x7fffu}},
        {JOB_I8, {0x80u, 0x7fu}},
    };
    uint32_t size = element_bytes(dtype), pattern = 0;
    if (loose == NULL) {
        return;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].dtype == dtype) {
            pattern = rows[i].pattern[fill & 1u];
        }
    }
    for (uint64_t i = 0; i < bytes; i++) {
        if (loose[i]) {
            data[i] = (uint8_t)(pattern >> 8 * (i % size));
        }
    }
}

static uint8_t *mark_rows(const job_buffer *buffer, int64_t rows, int64_t columns, int64_t stride,
                          int inside) {
    uint32_t size = element_bytes(buffer->dtype);
    uint8_t *marks = malloc(buffer->bytes > 0 ? buffer->bytes : 1);
    if (marks == NULL) {
        return NULL;
    }
    memset(marks, !inside, buffer->bytes);
    for (int64_t row = 0; row < rows; row++) {
        memset(marks + (uint64_t)(row * stride) * size, inside, (uint64_t)columns * size);
    }
    return marks;
}

int buffer_own_rows(job_buffer *buffer, int64_t rows, int64_t columns, int64_t stride) {
    buffer->owned = mark_rows(buffer, rows, columns, stride, 1);
    return buffer->owned != NULL;
}

int buffer_loose_gaps(job_buffer *buffer, int64_t rows, int64_t columns, int64_t stride) {
    buffer->loose = mark_rows(buffer, rows, columns, stride, 0);
    return buffer->loose != NULL;
}
