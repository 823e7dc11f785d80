/* SPDX-License-Identifier: MIT
 * Kernels over stored weights of the formats that rows32_list.inc puts into this image. */
#include "stored_kernels.cuh"

#define IN_IMAGE_32(make, name, by)
#define IN_IMAGE_K(make, name, by)
#define IN_IMAGE_IQ(make, name, by)
#undef IN_IMAGE_IQ
#define IN_IMAGE_IQ(make, name, by) make(name, by)
#define ROWS32_UNIT32(NAME, name, image, values, min_sub, table_words, by)                             \
    IN_IMAGE_##image(STORED_MAKE32, name, by)
#define ROWS32_UNIT256(NAME, name, image, values, min_sub, table_words, by)                            \
    IN_IMAGE_##image(STORED_MAKE256, name, by)
#include "rows32_list.inc"
