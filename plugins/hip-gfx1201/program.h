/* SPDX-License-Identifier: MIT
 * program.h - the code objects and kernels of this plugin, by index. */
#ifndef OPREG_HIP_GFX1201_PROGRAM_H
#define OPREG_HIP_GFX1201_PROGRAM_H

#include "gqh.h"
#include "paged_gqa.h"
#include "qdot.h"
#include "tiny_n.h"
#include "wmma.h"

extern const gpu_program gfx1201_program;

#endif /* OPREG_HIP_GFX1201_PROGRAM_H */
