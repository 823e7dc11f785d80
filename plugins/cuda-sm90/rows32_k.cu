/* SPDX-License-Identifier: MIT
 * Kernels over rows32 of the formats that rows32_list.inc puts into this image. */
#include "rows32_kernels.cuh"

#define IN_IMAGE_32(make, name)
#define IN_IMAGE_K(make, name)
#define IN_IMAGE_IQ(make, name)
#undef IN_IMAGE_K
#define IN_IMAGE_K(make, name) make(name)
#define ROWS32_UNIT32(NAME, name, image, values, min_sub, table_words, by)                             \
    IN_IMAGE_##image(ROWS32_MAKE32, name)
#define ROWS32_UNIT256(NAME, name, image, values, min_sub, table_words, by)                            \
    IN_IMAGE_##image(ROWS32_MAKE256, name)
#include "rows32_list.inc"
