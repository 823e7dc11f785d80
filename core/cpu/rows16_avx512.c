/* SPDX-License-Identifier: MIT
 * rows16_avx512.c - tile kernels for AVX-512 with VNNI: 16 rows in a vector. */
#include "cpu/rows16.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VNNI__)
#include <immintrin.h>
#include <string.h>

#include "formats/tables/kvalues_iq4nl.h"

#define LANES  16
#define MOST_COLUMNS 8
#define S_BIAS 128 /* signed weights are made unsigned by adding it */
typedef __m512i VI;
typedef __m512 VF;

static inline VI load_bytes(const uint8_t *p) {
    return _mm512_loadu_si512(p);
}
static inline VI broadcast4(const int8_t *p) {
    int32_t v;
    memcpy(&v, p, 4);
    return _mm512_set1_epi32(v);
}
static inline VI set_i(int32_t v) {
    return _mm512_set1_epi32(v);
}
static inline VI set_b(int v) {
    return _mm512_set1_epi8((char)v);
}
static inline VI zero_i(void) {
    return _mm512_setzero_si512();
}
static inline VI and_i(VI a, VI b) {
    return _mm512_and_si512(a, b);
}
static inline VI or_i(VI a, VI b) {
    return _mm512_or_si512(a, b);
}
static inline VI add_i(VI a, VI b) {
    return _mm512_add_epi32(a, b);
}
#define shift_right_i(v, by)         _mm512_srli_epi32(v, (unsigned)(by))
#define shift_left_i(v, by)          _mm512_slli_epi32(v, (unsigned)(by))
#define shift_right_signed_i(v, by)  _mm512_srai_epi32(v, by)
#define shift_right_signed_16(v, by) _mm512_srai_epi16(v, by)
static inline VI shift_right_var_i(VI v, int by) {
    return _mm512_srl_epi32(v, _mm_cvtsi32_si128(by));
}
static inline VI shift_left_var_i(VI v, int by) {
    return _mm512_sll_epi32(v, _mm_cvtsi32_si128(by));
}
static inline VI dot_u(VI acc, VI w, VI q) {
    return _mm512_dpbusd_epi32(acc, w, q);
}
static inline VI dot_s(VI acc, VI w, VI q) {
    return _mm512_dpbusd_epi32(acc, _mm512_xor_si512(w, _mm512_set1_epi8((char)-128)), q);
}
static inline VI dot_pairs_add(VI acc, VI a, VI b) {
    return _mm512_dpwssd_epi32(acc, a, b);
}
static inline VI sub_16(VI a, VI b) {
    return _mm512_sub_epi16(a, b);
}
static inline VI lane_bytes(VI v, uint32_t which) {
    return _mm512_shuffle_epi8(
        v, _mm512_set4_epi32((int)(which + 0x0c0c0c0cu), (int)(which + 0x08080808u),
                             (int)(which + 0x04040404u), (int)which));
}
#define GROUP(dots)      8 /* a part is an int32: it takes them all                            */
#define GROUP_OF_4(dots) 4
static inline VI whole(VI part) {
    return part;
}
static inline VI scale16(VI v) {
    return v;
}
static inline VI scaled(VI part, VI scale) {
    return _mm512_mullo_epi32(part, scale);
}
static inline VI iq4_nl_levels(VI codes) {
    __m128i table = _mm_loadu_si128((const __m128i *)kvalues_iq4nl);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), codes);
}
static inline VF load_f16(const uint8_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
static inline VF set_f(float v) {
    return _mm512_set1_ps(v);
}
static inline VF add_f(VF a, VF b) {
    return _mm512_add_ps(a, b);
}
static inline VF sub_f(VF a, VF b) {
    return _mm512_sub_ps(a, b);
}
static inline VF mul_f(VF a, VF b) {
    return _mm512_mul_ps(a, b);
}
static inline VF float_of_int(VI v) {
    return _mm512_cvtepi32_ps(v);
}
static inline void store_f(float *p, VF v) {
    _mm512_storeu_ps(p, v);
}

#include "cpu/rows16_tile.h"

rows16_tile_fn rows16_tile_avx512(uint32_t format) {
    return find_tile(format);
}
#else
rows16_tile_fn rows16_tile_avx512(uint32_t format) {
    (void)format;
    return NULL;
}
#endif
