/* SPDX-License-Identifier: MIT
 * rows16_avx2.c - tile kernels for AVX2 with F16C: 8 rows in a vector. */
#include "cpu/rows16.h"

#if defined(__AVX2__) && defined(__F16C__)
#include <immintrin.h>
#include <string.h>

#include "formats/tables/kvalues_iq4nl.h"

#define LANES  8
#define MOST_COLUMNS 4
#define S_BIAS 0
typedef __m256i VI;
typedef __m256 VF;

static inline VI load_bytes(const uint8_t *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}
static inline VI broadcast4(const int8_t *p) {
    int32_t v;
    memcpy(&v, p, 4);
    return _mm256_set1_epi32(v);
}
static inline VI set_i(int32_t v) {
    return _mm256_set1_epi32(v);
}
static inline VI set_b(int v) {
    return _mm256_set1_epi8((char)v);
}
static inline VI zero_i(void) {
    return _mm256_setzero_si256();
}
static inline VI and_i(VI a, VI b) {
    return _mm256_and_si256(a, b);
}
static inline VI or_i(VI a, VI b) {
    return _mm256_or_si256(a, b);
}
static inline VI add_i(VI a, VI b) {
    return _mm256_add_epi32(a, b);
}
#define shift_right_i(v, by)         _mm256_srli_epi32(v, by)
#define shift_left_i(v, by)          _mm256_slli_epi32(v, by)
#define shift_right_signed_i(v, by)  _mm256_srai_epi32(v, by)
#define shift_right_signed_16(v, by) _mm256_srai_epi16(v, by)
static inline VI shift_right_var_i(VI v, int by) {
    return _mm256_srl_epi32(v, _mm_cvtsi32_si128(by));
}
static inline VI shift_left_var_i(VI v, int by) {
    return _mm256_sll_epi32(v, _mm_cvtsi32_si128(by));
}
/* A part is two int16 a lane.  Eight dots of at most 2 * 15 * 127, four of 2 * 31 * 127 and two of
 * 2 * 63 * 127 fit. */
#define GROUP(dots)      (dots)
#define GROUP_OF_4(dots) (dots)
static inline VI dot_u(VI part, VI w, VI q) {
    return _mm256_add_epi16(part, _mm256_maddubs_epi16(w, q));
}
static inline VI whole(VI part) {
    return _mm256_madd_epi16(part, _mm256_set1_epi16(1));
}
static inline VI scale16(VI v) {
    return _mm256_or_si256(_mm256_and_si256(v, _mm256_set1_epi32(0xffff)),
                           _mm256_slli_epi32(v, 16));
}
static inline VI scaled(VI part, VI scale) {
    return _mm256_madd_epi16(part, scale);
}
/* |w| * (q with w's sign): 128 * 127 * 2 fits in 16 bits; codes of q are never -128 */
static inline VI dot_s(VI acc, VI w, VI q) {
    VI pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(q, w));
    return add_i(acc, whole(pairs));
}
static inline VI dot_pairs_add(VI acc, VI a, VI b) {
    return add_i(acc, _mm256_madd_epi16(a, b));
}
static inline VI sub_16(VI a, VI b) {
    return _mm256_sub_epi16(a, b);
}
static inline VI lane_bytes(VI v, uint32_t which) {
    int a = (int)which, b = (int)(which + 0x04040404u), c = (int)(which + 0x08080808u);
    int d = (int)(which + 0x0c0c0c0cu);
    return _mm256_shuffle_epi8(v, _mm256_setr_epi32(a, b, c, d, a, b, c, d));
}
static inline VI iq4_nl_levels(VI codes) {
    __m128i table = _mm_loadu_si128((const __m128i *)kvalues_iq4nl);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), codes);
}
static inline VF load_f16(const uint8_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
static inline VF set_f(float v) {
    return _mm256_set1_ps(v);
}
static inline VF add_f(VF a, VF b) {
    return _mm256_add_ps(a, b);
}
static inline VF sub_f(VF a, VF b) {
    return _mm256_sub_ps(a, b);
}
static inline VF mul_f(VF a, VF b) {
    return _mm256_mul_ps(a, b);
}
static inline VF float_of_int(VI v) {
    return _mm256_cvtepi32_ps(v);
}
static inline void store_f(float *p, VF v) {
    _mm256_storeu_ps(p, v);
}

#include "cpu/rows16_tile.h"

rows16_tile_fn rows16_tile_avx2(uint32_t format) {
    return find_tile(format);
}
#else
rows16_tile_fn rows16_tile_avx2(uint32_t format) {
    (void)format;
    return NULL;
}
#endif
