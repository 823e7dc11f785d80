/* SPDX-License-Identifier: MIT
 * emulated_kernels.cc - the plugin's opt-in kernels and the quantizer, compiled for the CPU from
 * their own sources, found by the names of the plugin's symbol table. */
#include "emulator.h"

extern "C" {
#include "program.h"
}

#include <string.h>

#include "attention.hip"
#include "baseline_ops.cuh"
#include "gqh.hip"
#include "qdot.hip"
#include "tiny_n.hip"
#include "wmma.hip"
#undef QDOT_FORMAT
#undef QDOT_FORMAT_256
#undef GQA_PART
#undef GQA_MERGE
#undef WMMA_FORMAT

struct named_kernel {
    const char *name;
    emulated_kernel *run;
};

/* A kernel as a function of the bytes of its parameters. */
template <class P, void (*kernel)(P)> static void run_kernel(const void *parameters) {
    kernel(*(const P *)parameters);
}
#define NAMED(parameters, kernel) {#kernel, run_kernel<const parameters, kernel>},

static const named_kernel kernels[] = {
    NAMED(quantize_args, base_quantize)
#define QDOT_FORMAT(NAME, name, sums)                                                              \
    NAMED(matmul_args, qdot_gemv_##name)                                                           \
    NAMED(matmul_args, qdot_fused_##name) NAMED(matmul_args, qdot_grouped_##name)
#include "qdot_list.inc"
#undef QDOT_FORMAT
#define QDOT_FORMAT(NAME, name, sums)
#define QDOT_FORMAT_256(NAME, name, sums) NAMED(matmul_args, qdot_splitk_##name)
#include "qdot_list.inc"
#define GQA_PART(dim, heads, name, kv) NAMED(gqa_args, gqa_d##dim##_h##heads##_##name)
#define GQA_MERGE(dim)                 NAMED(gqa_args, gqa_merge_d##dim)
#include "paged_gqa_list.inc"
#define WMMA_FORMAT(NAME, name, halves, sums) NAMED(matmul_args, wmma_tile_##name)
#include "wmma_list.inc"
        NAMED(matmul_args, tiny_n_bf16) NAMED(matmul_args, tiny_n_f16)
#define GQH_NAMED(name)                                                                            \
    NAMED(matmul_args, gqh_##name##_deep)                                                          \
    NAMED(matmul_args, gqh_##name##_wide)                                                          \
    NAMED(matmul_args, gqh_##name##_2) NAMED(matmul_args, gqh_##name##_3)                          \
        NAMED(matmul_args, gqh_##name##_4) NAMED(matmul_args, gqh_##name##_5)                      \
            NAMED(matmul_args, gqh_##name##_6) NAMED(matmul_args, gqh_##name##_7)                  \
                NAMED(matmul_args, gqh_##name##_8)
            GQH_NAMED(gqh4) GQH_NAMED(gqh3) GQH_NAMED(gqh2_h) GQH_NAMED(gqh2_c)};

extern "C" emulated_kernel *emulated_symbol(uint32_t symbol) {
    for (const named_kernel &kernel : kernels) {
        if (symbol < gfx1201_program.num_symbols &&
            strcmp(kernel.name, gfx1201_program.symbols[symbol].name) == 0) {
            return kernel.run;
        }
    }
    return 0;
}

float emulated_half(uint32_t half) {
    return f16_to_f32(half);
}
