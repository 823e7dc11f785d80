/* SPDX-License-Identifier: MIT
 * matmul.c - matmul_bt_quant against ggml_mul_mat: the same stored bytes, each side in every layout
 * it has for them. */
#include "peer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

#define MAX_SETS 8
#define MAX_ARMS 12

typedef struct problem {
    enum ggml_type type;
    opreg_format_row format;
    int64_t m, n, k, row_bytes;
    int sets, threads;
    uint8_t *stored;
    float *x;
} problem;

/* ---- ggml
 * ------------------------------------------------------------------------------------------ */

typedef struct ggml_side {
    ggml_backend_t backend;
    struct ggml_context *weights, *rest;
    ggml_backend_buffer_t weight_buffer, rest_buffer;
    struct ggml_cgraph *graphs[MAX_SETS];
    struct ggml_tensor *y;
} ggml_side;

static void run_ggml(void *state, int set) {
    ggml_side *side = state;
    ggml_backend_graph_compute(side->backend, side->graphs[set]);
}

/* 0 when the buffer type has no layout for the problem. */
static int open_ggml(ggml_side *side, const problem *p, ggml_backend_buffer_type_t buffer_type) {
    struct ggml_init_params none = {(size_t)1 << 20, NULL, true};
    struct ggml_tensor *w[MAX_SETS], *x;
    memset(side, 0, sizeof *side);
    side->backend = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(side->backend, p->threads);
    side->weights = ggml_init(none);
    side->rest = ggml_init(none);
    for (int s = 0; s < p->sets; s++) {
        w[s] = ggml_new_tensor_2d(side->weights, p->type, p->k, p->n);
    }
    side->weight_buffer = ggml_backend_alloc_ctx_tensors_from_buft(side->weights, buffer_type);
    if (side->weight_buffer == NULL) {
        return 0;
    }
    x = ggml_new_tensor_2d(side->rest, GGML_TYPE_F32, p->k, p->m);
    for (int s = 0; s < p->sets; s++) {
        struct ggml_tensor *y = ggml_mul_mat(side->rest, w[s], x);
        side->graphs[s] = ggml_new_graph_custom(side->rest, 8, false);
        ggml_build_forward_expand(side->graphs[s], y);
        side->y = s == 0 ? y : side->y;
        if (!ggml_backend_dev_supports_op(ggml_backend_get_device(side->backend), y)) {
            return 0;
        }
    }
    side->rest_buffer = ggml_backend_alloc_ctx_tensors(side->rest, side->backend);
    ggml_backend_tensor_set(x, p->x, 0, (size_t)(p->m * p->k) * sizeof(float));
    for (int s = 0; s < p->sets; s++) {
        ggml_backend_tensor_set(w[s], p->stored, 0, (size_t)(p->n * p->row_bytes));
    }
    return 1;
}

static void close_ggml(ggml_side *side) {
    ggml_backend_buffer_free(side->rest_buffer);
    ggml_backend_buffer_free(side->weight_buffer);
    ggml_free(side->rest);
    ggml_free(side->weights);
    ggml_backend_free(side->backend);
}

/* ---- opreg
 * ----------------------------------------------------------------------------------------- */

typedef struct opreg_side_arm {
    opreg_plan *plan;
    opreg_weight *weights[MAX_SETS];
    void *memory[MAX_SETS], *workspace;
    uint64_t workspace_bytes;
    float *y;
    const problem *p;
} opreg_side_arm;

static void *aligned(uint64_t bytes) {
    void *memory = aligned_alloc(256, (size_t)(bytes + 256) / 256 * 256);
    if (memory == NULL) {
        stop("out of memory");
    }
    return memory;
}

static void check(opreg_status status) {
    if (status != OPREG_OK) {
        stop("%s: %s", opreg_status_name(status), opreg_last_error());
    }
}

static void run_opreg(void *state, int set) {
    opreg_side_arm *side = state;
    const problem *p = side->p;
    opreg_buf bufs[OPREG_MATMUL_BUFS] = {{NULL, 0}};
    const opreg_weight *weights[1] = {side->weights[set]};
    opreg_args args = {sizeof args,
                       OPREG_MATMUL_BUFS,
                       bufs,
                       weights,
                       1,
                       0,
                       {side->workspace, side->workspace_bytes},
                       NULL};
    bufs[OPREG_MATMUL_Y].ptr = side->y;
    bufs[OPREG_MATMUL_Y].bytes = (uint64_t)(p->m * p->n) * sizeof(float);
    bufs[OPREG_MATMUL_X].ptr = p->x;
    bufs[OPREG_MATMUL_X].bytes = (uint64_t)(p->m * p->k) * sizeof(float);
    check(opreg_plan_run(side->plan, &args));
}

static void open_opreg(opreg_side_arm *side, opreg_registry *reg, const problem *p,
                       const char *kernel) {
    opreg_device dev = cpu_device(reg);
    opreg_matmul_bt_quant q = {.struct_size = sizeof q,
                               .x_dtype = OPREG_F32,
                               .b_dtype = p->format.format,
                               .y_dtype = OPREG_F32,
                               .m = p->m,
                               .n = p->n,
                               .k = p->k,
                               .x_stride = p->k,
                               .y_stride = p->n,
                               .layout = OPREG_LAYOUT_ANY};
    opreg_weight_desc desc = {.struct_size = sizeof desc,
                              .format = p->format.format,
                              .experts = 1,
                              .n = p->n,
                              .k = p->k,
                              .data = {p->stored, (uint64_t)(p->n * p->row_bytes)}};
    memset(side, 0, sizeof *side);
    side->p = p;
    check(opreg_plan_create_named(reg, &dev, OPREG_OP_MATMUL_BT_QUANT, &q, kernel, &side->plan));
    side->workspace_bytes = opreg_plan_workspace(side->plan);
    side->workspace = aligned(side->workspace_bytes);
    side->y = aligned((uint64_t)(p->m * p->n) * sizeof(float));
    for (int s = 0; s < p->sets; s++) {
        opreg_weight *stored;
        check(opreg_weight_create(reg, &dev, &desc, &stored));
        if (opreg_plan_layout(side->plan) != OPREG_LAYOUT_STORED) {
            opreg_buf dst = {NULL, opreg_plan_layout_bytes(side->plan)};
            dst.ptr = side->memory[s] = aligned(dst.bytes);
            check(opreg_weight_prepare(side->plan, stored, dst, NULL, &side->weights[s]));
            opreg_weight_destroy(stored);
        } else {
            side->weights[s] = stored;
        }
    }
}

static void close_opreg(opreg_side_arm *side) {
    for (int s = 0; s < side->p->sets; s++) {
        opreg_weight_destroy(side->weights[s]);
        free(side->memory[s]);
    }
    opreg_plan_destroy(side->plan);
    free(side->workspace);
    free(side->y);
}

/* ---- one problem
 * ----------------------------------------------------------------------------------- */

static double nmse(const float *y, const float *truth, int64_t count) {
    double error = 0.0, power = 0.0;
    for (int64_t i = 0; i < count; i++) {
        error += ((double)y[i] - (double)truth[i]) * ((double)y[i] - (double)truth[i]);
        power += (double)truth[i] * (double)truth[i];
    }
    return error / power;
}

static int add_ggml_arms(const problem *p, int amx, arm *arms, ggml_side *sides) {
    ggml_backend_dev_t dev = ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0);
    ggml_backend_dev_get_extra_bufts_t extra =
        (ggml_backend_dev_get_extra_bufts_t)ggml_backend_reg_get_proc_address(
            ggml_backend_cpu_reg(), "ggml_backend_dev_get_extra_bufts");
    ggml_backend_buffer_type_t *more = extra != NULL ? extra(dev) : NULL;
    int count = 0;
    for (int i = -1; i < 0 || (more != NULL && more[i] != NULL); i++) {
        ggml_backend_buffer_type_t type = i < 0 ? ggml_backend_cpu_buffer_type() : more[i];
        if (!amx && strcmp(ggml_backend_buft_name(type), "AMX") == 0) {
            continue;
        }
        if (open_ggml(&sides[count], p, type)) {
            snprintf(arms[count].name, sizeof arms[count].name, "ggml %s",
                     ggml_backend_buft_name(type));
            arms[count].run = run_ggml;
            arms[count].state = &sides[count];
            count++;
        }
    }
    return count;
}

static void compare(opreg_registry *reg, const options *o, problem *p) {
    arm arms[MAX_ARMS];
    ggml_side ggml[MAX_ARMS];
    opreg_side_arm ours[MAX_ARMS];
    opreg_kernel_row rows[64];
    char text[64];
    float *truth = malloc((size_t)(p->m * p->n) * sizeof(float));
    int first = add_ggml_arms(p, o->amx, arms, ggml), count = first;
    size_t kernels = opreg_kernels(reg, rows, sizeof rows[0], 64);
    for (size_t i = 0; i < kernels && i < 64 && count < MAX_ARMS; i++) {
        char padded[300], wanted[64];
        snprintf(padded, sizeof padded, " %s ", rows[i].formats);
        snprintf(wanted, sizeof wanted, " %s ", p->format.name);
        if (rows[i].op != OPREG_OP_MATMUL_BT_QUANT || strstr(padded, wanted) == NULL ||
            strcmp(rows[i].plugin, "cpu") != 0 || strncmp(rows[i].kernel, "reference", 9) == 0 ||
            strstr(rows[i].kernel, o->variant) == NULL) {
            continue;
        }
        snprintf(arms[count].name, sizeof arms[count].name, "opreg %.40s", rows[i].kernel);
        open_opreg(&ours[count], reg, p, rows[i].flag);
        arms[count].run = run_opreg;
        arms[count].state = &ours[count];
        count++;
    }
    time_arms(arms, count, p->sets, o->rounds);
    ggml_backend_tensor_get(ggml[0].y, truth, 0, (size_t)(p->m * p->n) * sizeof(float));
    for (int i = first; i < count; i++) {
        double error = nmse(ours[i].y, truth, p->m * p->n);
        if (!(error < 5e-4)) {
            stop("%s %s: NMSE %.2e against ggml", arms[i].name, p->format.name, error);
        }
    }
    snprintf(text, sizeof text, "%s m%d n%d k%d t%d", p->format.name, (int)p->m, (int)p->n,
             (int)p->k, p->threads);
    print_arms(text, arms, count, (double)(p->n * p->row_bytes));
    for (int i = 0; i < count; i++) {
        if (i < first) {
            close_ggml(&ggml[i]);
        } else {
            close_opreg(&ours[i]);
        }
    }
    free(truth);
}

void compare_matmul(opreg_registry *reg, const options *o) {
    static const enum ggml_type types[] = {GGML_TYPE_Q4_0,  GGML_TYPE_Q4_1, GGML_TYPE_Q8_0,
                                           GGML_TYPE_Q4_K,  GGML_TYPE_Q5_K, GGML_TYPE_Q6_K,
                                           GGML_TYPE_IQ4_NL};
    static const int64_t widths[] = {1, 32};
    for (size_t w = 0; w < 2; w++) {
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
            problem p = {.type = types[t],
                         .m = widths[w],
                         .n = 4096,
                         .k = 4096,
                         .sets = widths[w] == 1 ? MAX_SETS : 1,
                         .threads = o->threads};
            float *values = malloc((size_t)(p.n * p.k) * sizeof(float));
            p.format.struct_size = sizeof p.format;
            check(opreg_format_by_ggml_type((int32_t)p.type, &p.format));
            p.row_bytes = p.k / p.format.block_values * p.format.block_bytes;
            p.stored = aligned((uint64_t)(p.n * p.row_bytes));
            p.x = aligned((uint64_t)(p.m * p.k) * sizeof(float));
            for (int64_t i = 0; i < p.n * p.k; i++) {
                values[i] = gaussian() * 0.05f;
            }
            for (int64_t i = 0; i < p.m * p.k; i++) {
                p.x[i] = gaussian();
            }
            ggml_quantize_chunk(p.type, values, p.stored, 0, p.n, p.k, NULL);
            free(values);
            compare(reg, o, &p);
            free(p.stored);
            free(p.x);
        }
    }
}
