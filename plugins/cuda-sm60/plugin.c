/* SPDX-License-Identifier: MIT
 * plugin.c - the plugin cuda-sm60: what kernels.inc does not say of its variants. */
#include "gpu_steps.h"
#include "kernels.h"
#include "program.h"
#include "slot4.h"

static const char gemv_ws_summary[] = "up to 8 rows of x, weight rows staged in shared memory";
static const char glu_ws_summary[] = "gate, up and glu, weight rows staged in shared memory";
static const char glu_slot4_summary[] = "gate, up and glu, rows of slot4 staged in shared memory";
static const char down_ws_summary[] = "requantizes h, weight rows staged in shared memory";
static const char split_f32_summary[] = "parts of 256 positions, a wave a strand, heads share keys";
static const char split_f16x2_summary[] = "the same with two f16 products an instruction";

#define OPREG_LAYOUT_SLOT4 PREPARED_SLOT4
#define PLUGIN_PROGRAM     sm60_program
#define PLUGIN_LAYOUTS     {&prepared_rows32, &prepared_slot4}
#ifndef OPREG_EMULATED_DEVICE /* which has the variants alone */
#define PLUGIN_STEPS &gpu_steps
#endif
#include "gpu_plugin.inc"
