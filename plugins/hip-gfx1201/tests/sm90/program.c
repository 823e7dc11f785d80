/* SPDX-License-Identifier: MIT
 * program.c - this plugin's kernels compiled for sm_90: the same sources, on warps as wide as RDNA's
 * waves, so that their logic runs on real hardware.  For tests; never installed. */
#define gfx1201_program gfx1201_program_of_hip
#include "../../program.c"
#undef gfx1201_program

extern const gpu_program gfx1201_program;
const gpu_program gfx1201_program = {
    .arch = "sm_90",
    .images = images,
    .num_images = sizeof images / sizeof images[0],
    .symbols = symbols,
    .num_symbols = sizeof symbols / sizeof symbols[0],
};
