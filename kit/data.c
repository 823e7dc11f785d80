/* SPDX-License-Identifier: MIT
 * data.c - activations of every data kind, and the kit's own activation quantizer. */
#include <math.h>
#include <string.h>

#include "formats/format.h"
#include "job.h"

static float heavy_tail(random_state *random) {
    float g = random_gauss(random);
    float tail = random_gauss(random);
    return g * (1.0f + tail * tail * tail * tail * 0.25f);
}

/* Values whose Q8 codes run through all of -127..127 and through ties, as the block maximum is 127
 * times a power of two. */
static float code_value(random_state *random, int64_t column, float unit) {
    int64_t in_block = column % 32;
    if (in_block == 0) {
        return 127.0f * unit;
    }
    float code = (float)((int32_t)random_below(random, 255) - 127);
    if (in_block % 4 == 3 && fabsf(code) < 126.5f) {
        code += 0.5f;
    }
    return code * unit;
}

static float row_value(random_state *random, data_kind kind, uint32_t dtype, int64_t column) {
    float g;
    switch (kind) {
    case DATA_HEAVY: return heavy_tail(random);
    case DATA_SUBNORMAL:
        g = random_gauss(random);
        return random_below(random, 3) == 0 ? g * (dtype == OPREG_F16 ? 0x1p-20f : 0x1p-130f)
                                            : g * (dtype == OPREG_F16 ? 0x1p-15f : 0x1p-122f);
    case DATA_CODES: return code_value(random, column, 0x1p-6f);
    default: return random_gauss(random);
    }
}

void data_rows(random_state *random, data_kind kind, job_buffer *buffer, int64_t rows,
               int64_t columns, int64_t stride) {
    uint32_t size = element_bytes(buffer->dtype);
    for (int64_t row = 0; row < rows; row++) {
        uint8_t *at = buffer->data + (uint64_t)(row * stride) * size;
        int64_t special = (int64_t)random_below(random, (uint32_t)columns);
        for (int64_t column = 0; column < columns; column++) {
            float value = row_value(random, kind, buffer->dtype, column);
            /* in the codes kind, some whole blocks are zeros of both signs */
            if (kind == DATA_CODES && (column / 32 + row) % 5 == 4) {
                value = column & 1 ? -0.0f : 0.0f;
            }
            if (kind == DATA_EXTREME && (column / 32 + row) % 7 == 3) {
                value *= 0x1p-14f;
            }
            if (kind == DATA_OUTLIER && column == special) {
                value = (random_below(random, 2) ? 1.0f : -1.0f) *
                        (buffer->dtype == OPREG_F16 ? 60000.0f : 1e30f);
            }
            if (kind == DATA_NONFINITE && column == special && row % 3 == 0) {
                value = row % 2 ? INFINITY : float_of(0x7fc00000u);
            }
            element_store(buffer->dtype, at + (uint64_t)column * size, value);
        }
    }
}

void data_rows_shrink(job_buffer *buffer, int64_t rows, int64_t columns, int64_t stride) {
    uint32_t size = element_bytes(buffer->dtype);
    float factor = 1.0f / sqrtf((float)columns);
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t column = 0; column < columns; column++) {
            uint8_t *at = buffer->data + (uint64_t)(row * stride + column) * size;
            element_store(buffer->dtype, at, element_load(buffer->dtype, at) * factor);
        }
    }
}

static void no_codes(int64_t count, int8_t *codes, int16_t *sums) {
    memset(codes, 0, (size_t)count);
    memset(sums, 0, (size_t)(count / 16) * sizeof *sums);
}

static void quantize_block_32(const float *x, int8_t *codes, float *scale, int16_t *sums) {
    float largest = 0, d;
    int bad = 0;
    for (int i = 0; i < 32; i++) {
        bad |= !isfinite(x[i]);
        largest = fmaxf(largest, fabsf(x[i]));
    }
    d = largest / 127.0f;
    if (bad || d == 0 || isinf(1.0f / d)) {
        no_codes(32, codes, sums);
        *scale = bad ? float_of(0x7fc00000u) : 0.0f;
        return;
    }
    for (int i = 0; i < 32; i++) {
        codes[i] = (int8_t)roundf(x[i] * (1.0f / d));
    }
    *scale = f16_to_f32(f32_to_f16(d));
}

static void quantize_block_256(const float *x, int8_t *codes, float *scale, int16_t *sums) {
    float largest = 0, inverse;
    int bad = 0;
    for (int i = 0; i < 256; i++) {
        bad |= !isfinite(x[i]);
        if (fabsf(x[i]) > fabsf(largest)) {
            largest = x[i];
        }
    }
    inverse = largest != 0 ? -127.0f / largest : INFINITY;
    if (bad || isinf(inverse)) {
        no_codes(256, codes, sums);
        *scale = bad ? float_of(0x7fc00000u) : 0.0f;
        return;
    }
    for (int i = 0; i < 256; i++) {
        float code = rintf(inverse * x[i]);
        codes[i] = (int8_t)fminf(127.0f, code);
    }
    *scale = 1.0f / inverse;
}

void activation_quantize(uint32_t act, const float *x, int64_t k, int8_t *codes, float *scales,
                         int16_t *sums) {
    int64_t block = act == OPREG_Q8_K ? 256 : 32;
    for (int64_t b = 0; b < k / block; b++) {
        (act == OPREG_Q8_K ? quantize_block_256 : quantize_block_32)(
            x + b * block, codes + b * block, scales + b, sums + b * block / 16);
    }
    for (int64_t j = 0; j < k / 16; j++) {
        int sum = 0;
        for (int i = 0; i < 16; i++) {
            sum += codes[16 * j + i];
        }
        sums[j] = (int16_t)sum;
    }
}
