/* SPDX-License-Identifier: MIT
 * encode_rocmfp.c - f32 weights to the ROCmFP and MIX formats: of a few scale bytes, the one whose
 * squared error is least. */
#include <math.h>
#include <string.h>

#include "formats/encode.h"
#include "formats/formats.h"
#include "formats/mix.h"
#include "formats/scales.h"
#include "formats/tables/rocmfp2_levels.h"
#include "formats/tables/rocmfp3_levels.h"
#include "formats/tables/rocmfp4_codebook.h"
#include "formats/tables/rocmfp6_levels.h"

/* Scale bytes that are tried around the first that reaches the largest weight: two octaves below,
 * and one above, where the levels are denser. */
#define SCALES_BELOW 16
#define SCALES_ABOVE 8

/* Weights that share a scale, at most. */
#define SHARE 32

typedef struct fit {
    uint32_t scale; /* byte */
    double error; /* sum of squares                                                               */
    uint8_t codes[SHARE];
} fit;

static uint8_t nearest(float w, float scale, const float *levels, int count) {
    int best = 0;
    for (int c = 1; c < count; c++) {
        if (fabsf(w - scale * levels[c]) < fabsf(w - scale * levels[best])) {
            best = c;
        }
    }
    return (uint8_t)best;
}

static fit fit_at(uint32_t scale_byte, const float *w, int share, const float *levels, int count) {
    fit f = {.scale = scale_byte, .error = 0.0};
    float scale = ue4m3_half(scale_byte);
    for (int i = 0; i < share; i++) {
        f.codes[i] = nearest(w[i], scale, levels, count);
        double off = (double)w[i] - (double)(scale * levels[f.codes[i]]);
        f.error += off * off;
    }
    return f;
}

static fit best_fit(const float *w, int share, const float *levels, int count) {
    float extreme = fabsf(encode_extreme(w, share)), top = fabsf(encode_extreme(levels, count));
    uint32_t last = 0, scale;
    while (last < 0x7eu && top * ue4m3_half(last) < extreme) {
        last++;
    }
    scale = last > SCALES_BELOW ? last - SCALES_BELOW : 0;
    last = last + SCALES_ABOVE < 0x7e ? last + SCALES_ABOVE : 0x7e;
    fit best = fit_at(scale, w, share, levels, count);
    for (scale++; scale <= last; scale++) {
        fit other = fit_at(scale, w, share, levels, count);
        best = other.error < best.error ? other : best;
    }
    return best;
}

static void put_codes(uint8_t *at, int first, int count, const uint8_t *codes, int width) {
    for (int i = 0; i < count; i++) {
        int bit = (first + i) * width;
        uint32_t code = (uint32_t)codes[i] << (bit & 7);
        at[bit >> 3] = (uint8_t)(at[bit >> 3] | code);
        if (code > 255u) {
            at[(bit >> 3) + 1] = (uint8_t)(at[(bit >> 3) + 1] | code >> 8);
        }
    }
}

static void put_nibbles(uint8_t *at, int high, const uint8_t codes[16]) {
    for (int i = 0; i < 16; i++) {
        at[i] = (uint8_t)(at[i] | codes[i] << (high ? 4 : 0));
    }
}

static void widen(const int8_t *levels, int count, float *out) {
    for (int c = 0; c < count; c++) {
        out[c] = (float)levels[c];
    }
}

void encode_rocmfp4(const float *w, uint8_t *block) {
    float levels[16];
    widen(rocmfp4_codebook, 16, levels);
    for (int half = 0; half < 2; half++) {
        fit f = best_fit(w + 16 * half, 16, levels, 16);
        put_nibbles(block, half, f.codes);
        block[16 + half] = (uint8_t)f.scale;
    }
}

void encode_rocmfp4_fast(const float *w, uint8_t *block) {
    float levels[16];
    widen(rocmfp4_codebook, 16, levels);
    fit f = best_fit(w, 32, levels, 16);
    put_nibbles(block, 0, f.codes);
    put_nibbles(block, 1, f.codes + 16);
    block[16] = (uint8_t)f.scale;
}

/* Codes of `width` bits, then two scales. */
static void encode_halves(const float *w, const int8_t *table, int width, uint8_t *block) {
    float levels[64];
    widen(table, 1 << width, levels);
    for (int half = 0; half < 2; half++) {
        fit f = best_fit(w + 16 * half, 16, levels, 1 << width);
        put_codes(block, 16 * half, 16, f.codes, width);
        block[4 * width + half] = (uint8_t)f.scale;
    }
}

void encode_rocmfp6(const float *w, uint8_t *block) {
    encode_halves(w, rocmfp6_levels, 6, block);
}

void encode_rocmfp3(const float *w, uint8_t *block) {
    encode_halves(w, rocmfp3_levels, 3, block);
}

/* Never sets bit 7 of a scale, so that the plain and the sign bit reading agree. */
void encode_rocmfp2(const float *w, uint8_t *block) {
    encode_halves(w, rocmfp2_levels, 2, block);
}

/* The smallest scale that reaches the largest weight: 255 levels need no search. */
void encode_rocmfp8(const float *w, uint8_t *block) {
    float extreme = fabsf(encode_extreme(w, 32));
    uint32_t scale = 0;
    while (scale < 0x7eu && 127.0f * ue4m3_half(scale) < extreme) {
        scale++;
    }
    for (int i = 0; i < 32; i++) {
        block[i] = (uint8_t)(encode_step(w[i], ue4m3_half(scale), -127, 127) & 255);
    }
    block[32] = (uint8_t)scale;
}

/* Each half takes the better of its two codebooks. */
static void encode_mix(const opreg_side *side, int width, const float *w, uint8_t *block) {
    int count = 1 << width;
    for (int half = 0; half < 2; half++) {
        uint32_t book = 0;
        fit f = best_fit(w + 16 * half, 16, side->levels, count);
        if (side->mode == 1) {
            fit other = best_fit(w + 16 * half, 16, side->levels + count, count);
            book = other.error < f.error;
            f = book ? other : f;
        }
        put_codes(block, 16 * half, 16, f.codes, width);
        block[4 * width + half] = (uint8_t)(f.scale | book << 7);
    }
}

int format_encode_mix(uint32_t format, const opreg_side *side, const float *weights, int64_t count,
                      uint8_t *blocks) {
    const format_info *info = format_by_id(format);
    if (format != OPREG_ROCMFP3_MIX && format != OPREG_ROCMFP2_MIX) {
        return 0;
    }
    for (int64_t b = 0; b < count / info->values; b++) {
        uint8_t *block = blocks + b * info->bytes;
        memset(block, 0, (size_t)info->bytes);
        encode_mix(side, format == OPREG_ROCMFP3_MIX ? 3 : 2, weights + b * info->values, block);
    }
    return 1;
}
