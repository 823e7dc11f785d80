/* SPDX-License-Identifier: MIT
 * emulated_images.c - program.c's code objects where kernels are functions of this process. */
#define IMAGE_SYMBOL(name)                                                                         \
    extern const unsigned char hip_##name[1];                                                      \
    const unsigned char hip_##name[1] = {0};
IMAGE_SYMBOL(baseline_ops)
IMAGE_SYMBOL(baseline_sums)
IMAGE_SYMBOL(baseline_fold)
IMAGE_SYMBOL(qdot)
IMAGE_SYMBOL(attention)
IMAGE_SYMBOL(wmma)
IMAGE_SYMBOL(tiny_n)
IMAGE_SYMBOL(gqh)
IMAGE_SYMBOL(steps)
