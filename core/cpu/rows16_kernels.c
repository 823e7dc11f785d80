/* SPDX-License-Identifier: MIT
 * rows16_kernels.c - the variants that read the layout rows16, one set per instruction set. */
#include "cpu/kernels.h"
#include "cpu/matmul.h"
#include "cpu/processor.h"

#include <stdio.h>

static opreg_status check(const char *missing, tile_finder find, uint32_t format,
                          char reason[128]) {
    if (missing != NULL) {
        snprintf(reason, 128, "this processor has no %s", missing);
        return OPREG_E_UNSUPPORTED;
    }
    if (find(format) == NULL) {
        const format_info *info = format_by_id(format);
        snprintf(reason, 128, "weight format %s is not one of q4_0 q4_1 q8_0 iq4_nl q4_k q5_k q6_k",
                 info != NULL ? info->name : "of a plugin");
        return OPREG_E_UNSUPPORTED;
    }
    return OPREG_OK;
}

static opreg_status check_ffn(const char *missing, tile_finder find, const opreg_moe_ffn *p,
                              char reason[128]) {
    opreg_status status = check(missing, find, p->b_dtype, reason);
    return status != OPREG_OK ? status : check(missing, find, p->down_dtype, reason);
}

/* One variant of an operator: the reference's workspace and driver with another tile kernel. */
#define VARIANT(ISA, NAME, PROBLEM, CHECK, RUN, FORMAT)                                            \
    opreg_status rows16_##ISA##_##NAME##_supports(const opreg_device *dev, const void *problem,    \
                                                  char reason[128]) {                              \
        const PROBLEM *p = problem;                                                                \
        (void)dev;                                                                                 \
        return CHECK(processor_lacks_##ISA(), rows16_tile_##ISA, FORMAT, reason);                  \
    }                                                                                              \
    uint64_t rows16_##ISA##_##NAME##_workspace(const opreg_device *dev, const void *problem) {     \
        return reference_##NAME##_workspace(dev, problem);                                         \
    }                                                                                              \
    opreg_status rows16_##ISA##_##NAME##_run(void *state, const void *problem,                     \
                                             const opreg_call *call) {                             \
        (void)state;                                                                               \
        return RUN(problem, call, rows16_tile_##ISA);                                              \
    }

#define VARIANTS(ISA)                                                                              \
    VARIANT(ISA, matmul, opreg_matmul_bt_quant, check, matmul_run, p->b_dtype)                     \
    VARIANT(ISA, moe_matmul, opreg_moe_matmul, check, moe_matmul_run, p->b_dtype)                  \
    VARIANT(ISA, moe_glu, opreg_moe_matmul, check, moe_matmul_run, p->b_dtype)                     \
    VARIANT(ISA, moe_down, opreg_moe_matmul, check, moe_matmul_run, p->b_dtype)                    \
    VARIANT(ISA, ffn, opreg_moe_ffn, check_ffn, ffn_run, p)

VARIANTS(avx2)
VARIANTS(avx512)
