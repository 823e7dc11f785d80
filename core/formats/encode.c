/* SPDX-License-Identifier: MIT
 * encode.c - f32 weights to the float formats and the formats of 32 to 128 weights a block. */
#include "formats/encode.h"

#include <math.h>
#include <string.h>

#include "formats/act.h"
#include "formats/formats.h"
#include "formats/scales.h"
#include "formats/tables/kvalues_fp4.h"
#include "formats/tables/kvalues_iq4nl.h"

float encode_f16(uint8_t *p, float scale) {
    uint32_t bits = f32_to_f16(scale);
    p[0] = (uint8_t)bits;
    p[1] = (uint8_t)(bits >> 8);
    return f16_to_f32(bits);
}

int encode_step(float v, float step, int low, int high) {
    float code = step == 0.0f ? 0.0f : floorf(v / step + 0.5f);
    code = code < (float)low ? (float)low : code;
    return (int)(code > (float)high ? (float)high : code);
}

int encode_level(float v, float step, const int8_t levels[16]) {
    int best = 0;
    for (int c = 1; c < 16 && step != 0.0f; c++) {
        if (fabsf(v / step - (float)levels[c]) < fabsf(v / step - (float)levels[best])) {
            best = c;
        }
    }
    return best;
}

float encode_extreme(const float *w, int count) {
    float extreme = 0.0f;
    for (int i = 0; i < count; i++) {
        extreme = fabsf(w[i]) > fabsf(extreme) ? w[i] : extreme;
    }
    return extreme;
}

static void put_nibble(uint8_t *p, int i, int code) {
    p[i & 15] = (uint8_t)(p[i & 15] | code << (i & 16 ? 4 : 0));
}

static void put_u32(uint8_t *p, uint32_t v) {
    for (int i = 0; i < 4; i++) {
        p[i] = (uint8_t)(v >> 8 * i);
    }
}

static void encode_f32(const float *w, uint8_t *block) {
    put_u32(block, bits_of(w[0]));
}

static void encode_half(const float *w, uint8_t *block) {
    encode_f16(block, w[0]);
}

static void encode_bf16(const float *w, uint8_t *block) {
    uint32_t bits = f32_to_bf16(w[0]);
    block[0] = (uint8_t)bits;
    block[1] = (uint8_t)(bits >> 8);
}

/* In Q4_0, Q5_0 and IQ4_NL the largest weight gets the lowest code, which reaches farther than the
 * highest: the scale has the opposite sign. */
static void encode_q4_0(const float *w, uint8_t *block) {
    float d = encode_f16(block, encode_extreme(w, 32) / -8.0f);
    for (int i = 0; i < 32; i++) {
        put_nibble(block + 2, i, encode_step(w[i], d, -8, 7) + 8);
    }
}

static void encode_q5_0(const float *w, uint8_t *block) {
    float d = encode_f16(block, encode_extreme(w, 32) / -16.0f);
    uint32_t high = 0;
    for (int i = 0; i < 32; i++) {
        int code = encode_step(w[i], d, -16, 15) + 16;
        put_nibble(block + 6, i, code & 15);
        high |= (uint32_t)(code >> 4) << i;
    }
    put_u32(block + 2, high);
}

/* Least and largest of 32 to offset and scale; returns the scale. */
static float encode_range(const float *w, float steps, uint8_t *block, float *offset) {
    float low = w[0], high = w[0];
    for (int i = 1; i < 32; i++) {
        low = w[i] < low ? w[i] : low;
        high = w[i] > high ? w[i] : high;
    }
    *offset = encode_f16(block + 2, low);
    return encode_f16(block, (high - low) / steps);
}

static void encode_q4_1(const float *w, uint8_t *block) {
    float m, d = encode_range(w, 15.0f, block, &m);
    for (int i = 0; i < 32; i++) {
        put_nibble(block + 4, i, encode_step(w[i] - m, d, 0, 15));
    }
}

static void encode_q5_1(const float *w, uint8_t *block) {
    float m, d = encode_range(w, 31.0f, block, &m);
    uint32_t high = 0;
    for (int i = 0; i < 32; i++) {
        int code = encode_step(w[i] - m, d, 0, 31);
        put_nibble(block + 8, i, code & 15);
        high |= (uint32_t)(code >> 4) << i;
    }
    put_u32(block + 4, high);
}

static void encode_q8_0(const float *w, uint8_t *block) {
    int8_t q[32];
    int16_t sums[2];
    encode_f16(block, act_q8_0(w, q, sums));
    memcpy(block + 2, q, sizeof q);
}

static void encode_iq4_nl(const float *w, uint8_t *block) {
    float d = encode_f16(block, encode_extreme(w, 32) / (float)kvalues_iq4nl[0]);
    for (int i = 0; i < 32; i++) {
        put_nibble(block + 2, i, encode_level(w[i], d, kvalues_iq4nl));
    }
}

/* The smallest scale that reaches the largest weight. */
static void encode_mxfp4(const float *w, uint8_t *block) {
    float extreme = fabsf(encode_extreme(w, 32));
    uint32_t e = 0;
    while (e < 254u && 12.0f * e8m0_half(e) < extreme) {
        e++;
    }
    block[0] = (uint8_t)e;
    for (int i = 0; i < 32; i++) {
        put_nibble(block + 1, i, encode_level(w[i], e8m0_half(e), kvalues_fp4));
    }
}

static void encode_nvfp4(const float *w, uint8_t *block) {
    for (int s = 0; s < 4; s++) {
        float extreme = fabsf(encode_extreme(w + 16 * s, 16));
        uint32_t e = 0;
        while (e < 0x7eu && 12.0f * ue4m3_half(e) < extreme) {
            e++;
        }
        block[s] = (uint8_t)e;
        for (int t = 0; t < 16; t++) {
            int code = encode_level(w[16 * s + t], ue4m3_half(e), kvalues_fp4);
            uint8_t *p = block + 4 + 8 * s + (t & 7);
            *p = (uint8_t)(*p | code << (t & 8 ? 4 : 0));
        }
    }
}

/* The mean magnitude, which is the least squares for signs. */
static void encode_q1_0(const float *w, uint8_t *block) {
    float sum = 0.0f;
    for (int i = 0; i < 128; i++) {
        sum += fabsf(w[i]);
        block[2 + (i >> 3)] = (uint8_t)(block[2 + (i >> 3)] | (w[i] >= 0.0f) << (i & 7));
    }
    encode_f16(block, sum / 128.0f);
}

static void encode_q2_0(const float *w, uint8_t *block) {
    float d = encode_f16(block, encode_extreme(w, 64) / 2.0f);
    for (int i = 0; i < 64; i++) {
        int code = encode_step(w[i], d, -1, 2) + 1;
        block[2 + (i >> 2)] = (uint8_t)(block[2 + (i >> 2)] | code << 2 * (i & 3));
    }
}

static const struct {
    uint32_t format;
    void (*encode)(const float *w, uint8_t *block); /* the block is zero before                   */
} encoders[] = {
    {OPREG_F32, encode_f32},
    {OPREG_F16, encode_half},
    {OPREG_BF16, encode_bf16},
    {OPREG_Q4_0, encode_q4_0},
    {OPREG_Q4_1, encode_q4_1},
    {OPREG_Q5_0, encode_q5_0},
    {OPREG_Q5_1, encode_q5_1},
    {OPREG_Q8_0, encode_q8_0},
    {OPREG_IQ4_NL, encode_iq4_nl},
    {OPREG_MXFP4, encode_mxfp4},
    {OPREG_NVFP4, encode_nvfp4},
    {OPREG_Q1_0, encode_q1_0},
    {OPREG_Q2_0, encode_q2_0},
    {OPREG_Q2_K, encode_q2_k},
    {OPREG_Q3_K, encode_q3_k},
    {OPREG_Q4_K, encode_q4_k},
    {OPREG_Q5_K, encode_q5_k},
    {OPREG_Q6_K, encode_q6_k},
    {OPREG_IQ4_XS, encode_iq4_xs},
    {OPREG_ROCMFP4, encode_rocmfp4},
    {OPREG_ROCMFP4_FAST, encode_rocmfp4_fast},
    {OPREG_ROCMFP6, encode_rocmfp6},
    {OPREG_ROCMFP8, encode_rocmfp8},
    {OPREG_ROCMFP3, encode_rocmfp3},
    {OPREG_ROCMFP2, encode_rocmfp2},
};

int format_can_encode(uint32_t format) {
    return format_encode(format, NULL, 0, NULL);
}

int format_encode(uint32_t format, const float *weights, int64_t count, uint8_t *blocks) {
    for (size_t e = 0; e < sizeof encoders / sizeof encoders[0]; e++) {
        if (encoders[e].format == format) {
            const format_info *info = format_by_id(format);
            for (int64_t b = 0; b < count / info->values; b++) {
                uint8_t *block = blocks + b * info->bytes;
                memset(block, 0, (size_t)info->bytes);
                encoders[e].encode(weights + b * info->values, block);
            }
            return 1;
        }
    }
    return 0;
}
