/* SPDX-License-Identifier: MIT
 * attention_avx2.c - paged_attn_decode for AVX2 with FMA and F16C. */
#include "cpu/attention.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>

#define SCORE_HEADS   3
#define SCORE_CHAINS  2
#define VALUE_HEADS   3
#define VALUE_VECTORS 2

typedef struct VF {
    __m256 a, b;
} VF;
static inline VF load_v(const float *p) {
    VF v = {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
    return v;
}
static inline void store_v(float *p, VF v) {
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
}
static inline VF set_v(float f) {
    VF v = {_mm256_set1_ps(f), _mm256_set1_ps(f)};
    return v;
}
static inline VF add_v(VF x, VF y) {
    VF v = {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
    return v;
}
static inline VF sub_v(VF x, VF y) {
    VF v = {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
    return v;
}
static inline VF mul_v(VF x, VF y) {
    VF v = {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
    return v;
}
static inline VF fma_v(VF x, VF y, VF z) {
    VF v = {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
    return v;
}

/* canonical_exp, operation by operation; max and min pass a NaN on as its comparisons do. */
static inline __m256 exp_8(__m256 x) {
    __m256 t = _mm256_min_ps(_mm256_set1_ps(89.0f), _mm256_max_ps(_mm256_set1_ps(-104.0f), x));
    __m256 magic = _mm256_set1_ps(0x1.8p23f), n, r, p;
    __m256i whole, half, bias = _mm256_set1_epi32(127);
    n = _mm256_sub_ps(_mm256_add_ps(_mm256_mul_ps(t, _mm256_set1_ps(0x1.715476p0f)), magic), magic);
    n = _mm256_and_ps(n, _mm256_cmp_ps(x, x, _CMP_ORD_Q));
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(-0x1.63p-1f), t);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(0x1.bd0106p-13f), r);
    p = _mm256_fmadd_ps(_mm256_set1_ps(0x1.a0d2cep-13f), r, _mm256_set1_ps(0x1.6e879cp-10f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.11121p-7f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.555382p-5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.555554p-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1p-1f));
    p = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0f));
    whole = _mm256_cvttps_epi32(n);
    half = _mm256_srai_epi32(whole, 1);
    whole = _mm256_add_epi32(_mm256_sub_epi32(whole, half), bias);
    half = _mm256_add_epi32(half, bias);
    p = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(half, 23)));
    return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(whole, 23)));
}
static inline VF exp_v(VF x) {
    VF v = {exp_8(x.a), exp_8(x.b)};
    return v;
}

/* Elements e .. e + 7 of rows first .. first + 7 become lanes first .. of
 * eight vectors of out. */
static void transpose8(float (*rows)[256], int first, int32_t e, float *out) {
    __m256 a[8], b[8];
    for (int i = 0; i < 8; i++) {
        a[i] = _mm256_loadu_ps(rows[first + i] + e);
    }
    for (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) { /* a[i + j]: element j and 4 + j of rows i .. i + 3 */
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    for (int j = 0; j < 4; j++) {
        _mm256_storeu_ps(out + 16 * j + first, _mm256_permute2f128_ps(a[j], a[4 + j], 0x20));
        _mm256_storeu_ps(out + 16 * (4 + j) + first, _mm256_permute2f128_ps(a[j], a[4 + j], 0x31));
    }
}

/* Elements e .. e + 15 of sixteen rows become sixteen vectors of out. */
static void transpose16(float (*rows)[256], int32_t e, float *out) {
    for (int i = 0; i < 16; i += 8) {
        transpose8(rows, i, e, out);
        transpose8(rows, i, e + 8, out + 8 * 16);
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
        for (; e + 8 <= count; e += 8) {
            __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(in + e)));
            _mm256_storeu_ps(out + e, _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)));
        }
        for (; e < count; e++) {
            out[e] = bf16_to_f32(in[e]);
        }
    } else if (dtype == OPREG_F16) {
        const uint16_t *in = (const uint16_t *)array + first;
        for (; e + 8 <= count; e += 8) {
            _mm256_storeu_ps(out + e, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(in + e))));
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

attention_tasks attention_tasks_avx2(void) {
    return (attention_tasks){attend, combine};
}
#else
attention_tasks attention_tasks_avx2(void) {
    return (attention_tasks){NULL, NULL};
}
#endif
