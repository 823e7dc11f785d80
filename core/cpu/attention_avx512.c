/* SPDX-License-Identifier: MIT
 * attention_avx512.c - paged_attn_decode for AVX-512. */
#include "cpu/attention.h"

#if defined(__AVX512F__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>

#define SCORE_HEADS   2
#define SCORE_CHAINS  8
#define VALUE_HEADS   2
#define VALUE_VECTORS 4

typedef __m512 VF;
static inline VF load_v(const float *p) {
    return _mm512_loadu_ps(p);
}
static inline void store_v(float *p, VF v) {
    _mm512_storeu_ps(p, v);
}
static inline VF set_v(float f) {
    return _mm512_set1_ps(f);
}
static inline VF add_v(VF a, VF b) {
    return _mm512_add_ps(a, b);
}
static inline VF sub_v(VF a, VF b) {
    return _mm512_sub_ps(a, b);
}
static inline VF mul_v(VF a, VF b) {
    return _mm512_mul_ps(a, b);
}
static inline VF fma_v(VF a, VF b, VF c) {
    return _mm512_fmadd_ps(a, b, c);
}

/* canonical_exp, operation by operation; max and min pass a NaN on as its comparisons do. */
static inline VF exp_v(VF x) {
    VF t = _mm512_min_ps(set_v(89.0f), _mm512_max_ps(set_v(-104.0f), x)), n, r, p;
    __m512i whole, half;
    n = sub_v(add_v(mul_v(t, set_v(0x1.715476p0f)), set_v(0x1.8p23f)), set_v(0x1.8p23f));
    n = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), n);
    r = fma_v(n, set_v(-0x1.63p-1f), t);
    r = fma_v(n, set_v(0x1.bd0106p-13f), r);
    p = fma_v(set_v(0x1.a0d2cep-13f), r, set_v(0x1.6e879cp-10f));
    p = fma_v(p, r, set_v(0x1.11121p-7f));
    p = fma_v(p, r, set_v(0x1.555382p-5f));
    p = fma_v(p, r, set_v(0x1.555554p-3f));
    p = fma_v(p, r, set_v(0x1p-1f));
    p = add_v(fma_v(p, mul_v(r, r), r), set_v(1.0f));
    whole = _mm512_cvttps_epi32(n);
    half = _mm512_srai_epi32(whole, 1);
    whole = _mm512_add_epi32(_mm512_sub_epi32(whole, half), _mm512_set1_epi32(127));
    half = _mm512_add_epi32(half, _mm512_set1_epi32(127));
    p = mul_v(p, _mm512_castsi512_ps(_mm512_slli_epi32(half, 23)));
    return mul_v(p, _mm512_castsi512_ps(_mm512_slli_epi32(whole, 23)));
}

/* Elements e .. e + 15 of sixteen rows become sixteen vectors of out. */
static void transpose16(float (*rows)[256], int32_t e, float *out) {
    __m512 a[16], b[16];
    for (int i = 0; i < 16; i++) {
        a[i] = _mm512_loadu_ps(rows[i] + e);
    }
    for (int i = 0; i < 16; i += 2) {
        b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) { /* a[i + j]: element 4q + j of rows i .. i + 3, quarter q */
        a[i] = _mm512_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm512_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    for (int j = 0; j < 4; j++) {
        __m512 low01 = _mm512_shuffle_f32x4(a[j], a[4 + j], 0x88);
        __m512 high01 = _mm512_shuffle_f32x4(a[j], a[4 + j], 0xdd);
        __m512 low23 = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0x88);
        __m512 high23 = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0xdd);
        _mm512_storeu_ps(out + 16 * j, _mm512_shuffle_f32x4(low01, low23, 0x88));
        _mm512_storeu_ps(out + 16 * (4 + j), _mm512_shuffle_f32x4(high01, high23, 0x88));
        _mm512_storeu_ps(out + 16 * (8 + j), _mm512_shuffle_f32x4(low01, low23, 0xdd));
        _mm512_storeu_ps(out + 16 * (12 + j), _mm512_shuffle_f32x4(high01, high23, 0xdd));
    }
}

/* count elements from first on, exactly as f32. */
static void widen(float *restrict out, const void *array, int64_t first, int32_t count,
                  uint32_t dtype, const float *fp8) {
    int32_t e = 0;
    if (dtype == OPREG_F32) {
        memcpy(out, (const float *)array + first, (size_t)count * sizeof(float));
    } else if (dtype == OPREG_BF16) {
        const uint16_t *in = (const uint16_t *)array + first;
        for (; e + 16 <= count; e += 16) {
            __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(in + e)));
            store_v(out + e, _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16)));
        }
        for (; e < count; e++) {
            out[e] = bf16_to_f32(in[e]);
        }
    } else if (dtype == OPREG_F16) {
        const uint16_t *in = (const uint16_t *)array + first;
        for (; e + 16 <= count; e += 16) {
            store_v(out + e, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(in + e))));
        }
        for (; e < count; e++) {
            out[e] = f16_to_f32(in[e]);
        }
    } else {
        const uint8_t *in = (const uint8_t *)array + first;
        for (; e < count; e++) {
            out[e] = fp8[in[e]];
        }
    }
}

#include "cpu/attention_lanes.h"

attention_tasks attention_tasks_avx512(void) {
    return (attention_tasks){attend, combine};
}
#else
attention_tasks attention_tasks_avx512(void) {
    return (attention_tasks){NULL, NULL};
}
#endif
