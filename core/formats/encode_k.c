/* SPDX-License-Identifier: MIT
 * encode_k.c - f32 weights to the formats of 256 weights with integer sub-scales. */
#include <math.h>

#include "formats/encode.h"
#include "formats/tables/kvalues_iq4nl.h"

/* Or-s a field into a byte. */
static void put(uint8_t *p, int bits, int shift) {
    *p = (uint8_t)(*p | bits << shift);
}

/* ---- Q2_K, Q4_K, Q5_K: w = d * scale * q - dmin * min -------------------------------------------
 */

typedef struct ranges {
    int scale[16], min[16]; /* integers of each sub-block */
    float d, dmin;
} ranges;

/* Scales and mins of `subs` sub-blocks for codes of 0..steps, as integers up to `limit`. */
static void find_ranges(const float *w, int subs, int steps, int limit, uint8_t *d_at,
                        uint8_t *dmin_at, ranges *r) {
    float scale[16], min[16], top_scale = 0.0f, top_min = 0.0f;
    int size = 256 / subs;
    for (int j = 0; j < subs; j++) {
        float low = 0.0f, high = w[j * size]; /* a min is never negative */
        for (int i = j * size; i < (j + 1) * size; i++) {
            low = w[i] < low ? w[i] : low;
            high = w[i] > high ? w[i] : high;
        }
        scale[j] = high > low ? (high - low) / (float)steps : 0.0f;
        min[j] = -low;
        top_scale = scale[j] > top_scale ? scale[j] : top_scale;
        top_min = min[j] > top_min ? min[j] : top_min;
    }
    r->d = encode_f16(d_at, top_scale / (float)limit);
    r->dmin = encode_f16(dmin_at, top_min / (float)limit);
    for (int j = 0; j < subs; j++) {
        r->scale[j] = encode_step(scale[j], r->d, 0, limit);
        r->min[j] = encode_step(min[j], r->dmin, 0, limit);
    }
}

static int code_in(const ranges *r, int j, float w, int steps) {
    return encode_step(w + r->dmin * (float)r->min[j], r->d * (float)r->scale[j], 0, steps);
}

void encode_q2_k(const float *w, uint8_t *block) {
    ranges r;
    find_ranges(w, 16, 3, 15, block + 80, block + 82, &r);
    for (int i = 0; i < 256; i++) {
        int code = code_in(&r, i >> 4, w[i], 3);
        put(block + 16 + 32 * (i >> 7) + (i & 31), code, 2 * (i >> 5 & 3));
    }
    for (int j = 0; j < 16; j++) {
        put(block + j, r.scale[j] | r.min[j] << 4, 0);
    }
}

/* The twelve bytes of eight (scale, min) pairs. */
static void put_pairs(uint8_t *a, const ranges *r) {
    for (int j = 0; j < 4; j++) {
        put(a + j, r->scale[j] | r->scale[j + 4] >> 4 << 6, 0);
        put(a + j + 4, r->min[j] | r->min[j + 4] >> 4 << 6, 0);
        put(a + j + 8, (r->scale[j + 4] & 15) | (r->min[j + 4] & 15) << 4, 0);
    }
}

void encode_q4_k(const float *w, uint8_t *block) {
    ranges r;
    find_ranges(w, 8, 15, 63, block, block + 2, &r);
    put_pairs(block + 4, &r);
    for (int i = 0; i < 256; i++) {
        int j = i >> 5;
        put(block + 16 + 32 * (j >> 1) + (i & 31), code_in(&r, j, w[i], 15), 4 * (j & 1));
    }
}

void encode_q5_k(const float *w, uint8_t *block) {
    ranges r;
    find_ranges(w, 8, 31, 63, block, block + 2, &r);
    put_pairs(block + 4, &r);
    for (int i = 0; i < 256; i++) {
        int j = i >> 5, code = code_in(&r, j, w[i], 31);
        put(block + 48 + 32 * (j >> 1) + (i & 31), code & 15, 4 * (j & 1));
        put(block + 16 + (i & 31), code >> 4, j);
    }
}

/* ---- Q3_K, Q6_K, IQ4_XS: w = d * scale * level
 * ----------------------------------------------------- */

/* Signed scales of `subs` sub-blocks, so that each one's largest weight gets the level `farthest`,
 * as integers of magnitude up to `limit`; returns d. */
static float find_scales(const float *w, int subs, int farthest, int limit, uint8_t *d_at,
                         int scale[16]) {
    float wanted[16], top = 0.0f, d;
    int size = 256 / subs;
    for (int j = 0; j < subs; j++) {
        wanted[j] = encode_extreme(w + j * size, size) / (float)farthest;
        top = fabsf(wanted[j]) > top ? fabsf(wanted[j]) : top;
    }
    d = encode_f16(d_at, top / (float)limit);
    for (int j = 0; j < subs; j++) {
        scale[j] = encode_step(wanted[j], d, -limit, limit);
    }
    return d;
}

void encode_q3_k(const float *w, uint8_t *block) {
    int scale[16];
    float d = find_scales(w, 16, -4, 31, block + 108, scale);
    for (int j = 0; j < 16; j++) {
        put(block + 96 + (j & 7), (scale[j] + 32) & 15, 4 * (j >> 3));
        put(block + 104 + (j & 3), (scale[j] + 32) >> 4, 2 * (j >> 2));
    }
    for (int i = 0; i < 256; i++) {
        int code = encode_step(w[i], d * (float)scale[i >> 4], -4, 3) + 4;
        put(block + 32 + 32 * (i >> 7) + (i & 31), code & 3, 2 * (i >> 5 & 3));
        put(block + (i & 31), code >> 2, i >> 5);
    }
}

void encode_q6_k(const float *w, uint8_t *block) {
    int scale[16];
    float d = find_scales(w, 16, -32, 127, block + 208, scale);
    for (int j = 0; j < 16; j++) {
        block[192 + j] = (uint8_t)(scale[j] & 255);
    }
    for (int i = 0; i < 256; i++) {
        int half = i >> 7, r = i & 127;
        int code = encode_step(w[i], d * (float)scale[i >> 4], -32, 31) + 32;
        put(block + 64 * half + (r & 63), code & 15, 4 * (r >> 6));
        put(block + 128 + 32 * half + (r & 31), code >> 4, 2 * (r >> 5));
    }
}

void encode_iq4_xs(const float *w, uint8_t *block) {
    int scale[16];
    float d = find_scales(w, 8, kvalues_iq4nl[0], 31, block, scale);
    for (int g = 0; g < 8; g++) {
        put(block + 4 + (g >> 1), (scale[g] + 32) & 15, 4 * (g & 1));
        put(block + 2 + (g >> 2), (scale[g] + 32) >> 4, 2 * (g & 3));
        for (int i = 0; i < 32; i++) {
            int code = encode_level(w[32 * g + i], d * (float)scale[g], kvalues_iq4nl);
            put(block + 8 + 16 * g + (i & 15), code, i & 16 ? 4 : 0);
        }
    }
}
