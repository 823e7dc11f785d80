/* SPDX-License-Identifier: MIT
 * old_host.c - an engine that was compiled against the frozen first headers, linked with today's
 * library: it lists, plans and runs, and opens each plugin named on its command line.
 *
 *   old_host [PLUGIN MANIFEST_FOLDER] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opreg/opreg_plugin.h" /* the frozen copy */

static int fail(const char *what) {
    fprintf(stderr, "old_host: %s: %s\n", what, opreg_last_error());
    return 1;
}

/* y = x * W^T with one row of eight weights: 36. */
static int run_one(opreg_registry *reg) {
    static float w[8] = {1, 2, 3, 4, 5, 6, 7, 8}, x[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    static float y[1];
    opreg_matmul_bt_quant problem;
    opreg_device device;
    opreg_weight_desc desc;
    opreg_weight *weight;
    opreg_plan *plan;
    opreg_buf bufs[2] = {{y, sizeof y}, {x, sizeof x}};
    const opreg_weight *weights[1];
    opreg_args args;
    void *workspace;
    opreg_status status;
    if (opreg_devices(reg, &device, sizeof device, 1) < 1) {
        return fail("no device");
    }
    memset(&problem, 0, sizeof problem);
    problem.struct_size = sizeof problem;
    problem.x_dtype = problem.b_dtype = problem.y_dtype = OPREG_F32;
    problem.m = problem.n = problem.y_stride = 1;
    problem.k = problem.x_stride = 8;
    if (opreg_plan_create(reg, &device, OPREG_OP_MATMUL_BT_QUANT, &problem, &plan) != OPREG_OK) {
        return fail("plan");
    }
    memset(&desc, 0, sizeof desc);
    desc.struct_size = sizeof desc;
    desc.format = OPREG_F32;
    desc.experts = desc.n = 1;
    desc.k = 8;
    desc.data.ptr = w;
    desc.data.bytes = sizeof w;
    if (opreg_weight_create(reg, &device, &desc, &weight) != OPREG_OK) {
        return fail("weight");
    }
    weights[0] = weight;
    workspace = aligned_alloc(256, (opreg_plan_workspace(plan) + 511) / 256 * 256);
    memset(&args, 0, sizeof args);
    args.struct_size = sizeof args;
    args.num_bufs = 2;
    args.bufs = bufs;
    args.weights = weights;
    args.num_weights = 1;
    args.workspace.ptr = workspace;
    args.workspace.bytes = opreg_plan_workspace(plan);
    status = opreg_plan_run(plan, &args);
    opreg_weight_destroy(weight);
    opreg_plan_destroy(plan);
    free(workspace);
    return status == OPREG_OK && y[0] == 36.0f ? 0 : fail("run");
}

/* A plugin on this machine is ready, or says why it has no device; anything else is a failure. */
static int open_plugin(opreg_registry *reg, const char *name, const char *folder) {
    opreg_plugin_row rows[32];
    size_t count;
    if (opreg_discover(reg, folder) != OPREG_OK) {
        return fail(folder);
    }
    if (opreg_enable(reg, name, "on") != OPREG_OK) {
        return fail(name);
    }
    count = opreg_plugins(reg, rows, sizeof rows[0], 32);
    for (size_t i = 0; i < count && i < 32; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            printf("%s: %s%s\n", name,
                   rows[i].state == OPREG_PLUGIN_READY ? "ready" : "no device: ", rows[i].reason);
            return rows[i].state == OPREG_PLUGIN_READY ||
                           rows[i].state == OPREG_PLUGIN_NO_DEVICE
                       ? 0
                       : 1;
        }
    }
    fprintf(stderr, "old_host: %s is not listed\n", name);
    return 1;
}

int main(int argc, char **argv) {
    opreg_config config;
    opreg_registry *reg;
    int bad;
    memset(&config, 0, sizeof config);
    config.struct_size = sizeof config;
    config.flags = OPREG_CF_NO_ENV | OPREG_CF_NO_INSTALLED;
    if (opreg_create(&config, &reg) != OPREG_OK) {
        return fail("create");
    }
    bad = run_one(reg);
    if (bad == 0 && argc == 3) {
        bad = open_plugin(reg, argv[1], argv[2]);
    }
    if (bad == 0 && opreg_destroy(reg) != OPREG_OK) {
        bad = fail("destroy");
    }
    return bad;
}
