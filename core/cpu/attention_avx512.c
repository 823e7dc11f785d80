/* SPDX-License-Identifier: MIT
 * attention_avx512.c - paged_attn_decode for AVX-512. */
#include "cpu/attention.h"

#if defined(__AVX512F__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>

/* Elements e .. e + 15 of sixteen rows become out[e .. e + 15]. */
static void transpose16(float (*rows)[256], int32_t e, float (*out)[16]) {
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
        _mm512_storeu_ps(out[e + j], _mm512_shuffle_f32x4(low01, low23, 0x88));
        _mm512_storeu_ps(out[e + 4 + j], _mm512_shuffle_f32x4(high01, high23, 0x88));
        _mm512_storeu_ps(out[e + 8 + j], _mm512_shuffle_f32x4(low01, low23, 0xdd));
        _mm512_storeu_ps(out[e + 12 + j], _mm512_shuffle_f32x4(high01, high23, 0xdd));
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

attention_task attention_task_avx512(const opreg_paged_attn_decode *p, int64_t *tasks) {
    *tasks = count_tasks(p);
    return attend;
}
#else
attention_task attention_task_avx512(const opreg_paged_attn_decode *p, int64_t *tasks) {
    (void)p;
    *tasks = 0;
    return NULL;
}
#endif
