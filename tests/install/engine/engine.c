/* SPDX-License-Identifier: MIT
 * engine.c - a small engine: multiplies by two rows of q8_0 weights on the last device there is and
 * prints the variant that ran. */
#include <opreg/opreg.h>

#include <stdio.h>
#include <string.h>

static int stop(const char *what) {
    fprintf(stderr, "%s: %s\n", what, opreg_last_error());
    return 1;
}

int main(void) {
    opreg_registry *registry = NULL;
    opreg_plan *plan = NULL;
    opreg_weight *weight = NULL;
    opreg_device devices[8];
    uint8_t rows[2][34] = {{0x00, 0x3c}, {0x00, 0x3c}}; /* scale 1, then 32 codes */
    float x[32], y[2];
    for (int i = 0; i < 32; i++) {
        rows[0][2 + i] = 1;
        rows[1][2 + i] = 2;
        x[i] = 0.5f;
    }
    if (opreg_create(NULL, &registry) != OPREG_OK) {
        return stop("create");
    }
    size_t count = opreg_devices(registry, devices, sizeof devices[0], 8);
    const opreg_device *device = &devices[count - 1];

    opreg_matmul_bt_quant problem;
    if (opreg_problem_parse(OPREG_OP_MATMUL_BT_QUANT, "m=1 n=2 k=32 b=q8_0 x=f32 y=f32",
                            &problem) != OPREG_OK ||
        opreg_plan_create(registry, device, OPREG_OP_MATMUL_BT_QUANT, &problem, &plan) != OPREG_OK) {
        return stop("plan");
    }
    const opreg_weight_desc stored = {.struct_size = sizeof stored, .format = OPREG_Q8_0,
                                      .experts = 1, .n = 2, .k = 32, .data = {rows, sizeof rows}};
    if (opreg_weight_create(registry, device, &stored, &weight) != OPREG_OK) {
        return stop("weight");
    }
    static _Alignas(256) uint8_t workspace[4096];
    const opreg_buf bufs[] = {{y, sizeof y}, {x, sizeof x}};
    const opreg_weight *const weights[] = {weight};
    const opreg_args args = {.struct_size = sizeof args, .num_bufs = 2, .bufs = bufs,
                             .weights = weights, .num_weights = 1,
                             .workspace = {workspace, sizeof workspace}};
    if (opreg_plan_run(plan, &args) != OPREG_OK) {
        return stop("run");
    }
    printf("%s %.4f %.4f\n", opreg_plan_kernel(plan), (double)y[0], (double)y[1]);
    opreg_weight_destroy(weight);
    opreg_plan_destroy(plan);
    return opreg_destroy(registry) == OPREG_OK ? 0 : stop("destroy");
}
