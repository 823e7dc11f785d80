/* SPDX-License-Identifier: MIT
 * encode.h - host only: f32 weights to blocks, so that tests, benches and examples need no model.
 *
 * Q8_0 follows the activation rule.  The others are direct, one pass and no search for the least
 * error but for a few scales in the ROCmFP and MIX formats, and are not the quantizers of any other
 * project. */
#ifndef OPREG_FORMAT_ENCODE_H
#define OPREG_FORMAT_ENCODE_H

#include "opreg/opreg_plugin.h"

/* 1 when format_encode takes the format. */
int format_can_encode(uint32_t format);

/* Writes count weights, whole blocks of finite values of at most 65504 (the formats with
 * UE4M3 scales saturate at 224 times their highest level).
 * 0 when the format has no encoder and nothing was written, else 1. */
int format_encode(uint32_t format, const float *weights, int64_t count, uint8_t *blocks);

/* The same for the MIX formats, with the levels of one expert's record (side.h). */
int format_encode_mix(uint32_t format, const opreg_side *side, const float *weights, int64_t count,
                      uint8_t *blocks);

/* One block of 32 weights each; encode_rocmfp.c. */
void encode_rocmfp4(const float *w, uint8_t *block);
void encode_rocmfp4_fast(const float *w, uint8_t *block);
void encode_rocmfp6(const float *w, uint8_t *block);
void encode_rocmfp8(const float *w, uint8_t *block);
void encode_rocmfp3(const float *w, uint8_t *block);
void encode_rocmfp2(const float *w, uint8_t *block);

/* One block of 256 weights each; encode_k.c. */
void encode_q2_k(const float *w, uint8_t *block);
void encode_q3_k(const float *w, uint8_t *block);
void encode_q4_k(const float *w, uint8_t *block);
void encode_q5_k(const float *w, uint8_t *block);
void encode_q6_k(const float *w, uint8_t *block);
void encode_iq4_xs(const float *w, uint8_t *block);

/* Pieces that the encoders share. */

/* f16 bits of a scale at p, as f32 with that rounding. */
float encode_f16(uint8_t *p, float scale);

/* The integer nearest to v / step in [low, high]; 0 for a step of 0, as far as that lies inside. */
int encode_step(float v, float step, int low, int high);

/* The code of the level nearest to v / step, of 16; the first for a step of 0. */
int encode_level(float v, float step, const int8_t levels[16]);

/* The element of the largest magnitude, with its sign; the first of equals. */
float encode_extreme(const float *w, int count);

#endif /* OPREG_FORMAT_ENCODE_H */
