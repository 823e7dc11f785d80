/* SPDX-License-Identifier: MIT
 * fuzz_weight.c - blocks and side data of any bytes, of every format: checked with a reason, and run
 * without touching what is not theirs, checked or not. */
#include "fuzz.h"

#include "formats/formats.h"

#define BLOCKS 2

static const uint32_t first_format = OPREG_Q8_0, last_format = OPREG_GQH4;

/* One row of x times the matrix, in the reference and in what a plan takes. */
static void multiply(const opreg_weight *weight, const opreg_weight_desc *desc, const char *kernel) {
    opreg_device dev;
    opreg_registry *reg = fuzz_registry(&dev);
    opreg_matmul_bt_quant problem;
    opreg_plan *plan = NULL;
    char text[128];
    snprintf(text, sizeof text, "m=1 n=%lld k=%lld b=%s", (long long)desc->n, (long long)desc->k,
             opreg_dtype_name(desc->format));
    FUZZ_CHECK(opreg_problem_parse(OPREG_OP_MATMUL_BT_QUANT, text, &problem) == OPREG_OK);
    problem.b_dialect = desc->dialect;
    if ((kernel != NULL ? opreg_plan_create_named(reg, &dev, OPREG_OP_MATMUL_BT_QUANT, &problem,
                                                  kernel, &plan)
                        : opreg_plan_create(reg, &dev, OPREG_OP_MATMUL_BT_QUANT, &problem, &plan)) ==
        OPREG_OK) {
        size_t y_bytes = (size_t)desc->n * sizeof(float), x_bytes = (size_t)desc->k * sizeof(float);
        uint64_t scratch = opreg_plan_workspace(plan);
        float *y = malloc(y_bytes), *x = malloc(x_bytes);
        void *prepared_bytes = fuzz_exact((size_t)opreg_plan_layout_bytes(plan));
        void *workspace = fuzz_exact((size_t)scratch);
        opreg_weight *prepared = NULL;
        opreg_buf bufs[2] = {{y, y_bytes}, {x, x_bytes}};
        opreg_status status = opreg_weight_prepare(
            plan, weight, (opreg_buf){prepared_bytes, opreg_plan_layout_bytes(plan)}, NULL, &prepared);
        FUZZ_CHECK(y != NULL && x != NULL && status == OPREG_OK);
        for (int64_t i = 0; i < desc->k; i++) {
            x[i] = (float)(i % 7) - 3.0f;
        }
        opreg_args args = {.struct_size = sizeof args,
                           .num_bufs = 2,
                           .bufs = bufs,
                           .weights = (const opreg_weight *const[]){prepared},
                           .num_weights = 1,
                           .workspace = {scratch > 0 ? workspace : NULL, scratch}};
        FUZZ_CHECK(opreg_plan_run(plan, &args) == OPREG_OK);
        opreg_weight_destroy(prepared);
        free(prepared_bytes);
        free(workspace);
        free(y);
        free(x);
        opreg_plan_destroy(plan);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input in = {data, size};
    opreg_device dev;
    opreg_registry *reg = fuzz_registry(&dev);
    opreg_weight *weight = NULL;
    opreg_weight_desc desc = {.struct_size = sizeof desc};
    opreg_format_row row = {.struct_size = sizeof row};
    uint8_t *blocks, *side;
    opreg_status status;
    desc.format = first_format + fuzz_u8(&in) % (last_format - first_format + 1);
    desc.dialect = fuzz_u8(&in) % 10;
    desc.experts = fuzz_range(&in, 1, 3);
    desc.n = fuzz_range(&in, 1, 20);
    desc.side_bytes = (uint64_t)fuzz_range(&in, 0, 110);
    fuzz_take(&in, &desc.tensor_scale, sizeof desc.tensor_scale);
    FUZZ_CHECK(opreg_format_by_id(desc.format, &row) == OPREG_OK);
    desc.k = (int64_t)row.block_values * (1 + fuzz_u8(&in) % BLOCKS);
    side = fuzz_bytes(&in, (size_t)desc.side_bytes);
    desc.side = desc.side_bytes > 0 ? side : NULL;
    desc.data.bytes = (uint64_t)(desc.experts * desc.n * (desc.k / row.block_values) * row.block_bytes);
    blocks = fuzz_bytes(&in, (size_t)desc.data.bytes);
    desc.data.ptr = blocks;
    status = opreg_weight_validate(&desc);
    FUZZ_CHECK(status == OPREG_OK || status == OPREG_E_ARG);
    if (opreg_weight_create(reg, &dev, &desc, &weight) == OPREG_OK) {
        if (desc.experts == 1) {
            multiply(weight, &desc, "cpu/reference_matmul");
            multiply(weight, &desc, NULL);
        }
        opreg_weight_destroy(weight);
    } else {
        FUZZ_CHECK(status != OPREG_OK); /* what cannot be made is not called good */
    }
    free(blocks);
    free(side);
    return 0;
}
