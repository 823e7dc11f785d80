/* SPDX-License-Identifier: MIT
 * attention.c - paged_attn_decode against ggml_flash_attn_ext, f16 caches.  In both a position's
 * heads stand together, as llama.cpp keeps them; opreg's positions are in shuffled pages of 16. */
#include "peer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

typedef struct shape {
    int32_t q_heads, kv_heads, dim, context;
} shape;

typedef struct ggml_side {
    ggml_backend_t backend;
    struct ggml_cgraph *graph;
    struct ggml_tensor *out;
} ggml_side;

typedef struct opreg_arm {
    opreg_plan *plan;
    opreg_args args;
    float *out;
    void *workspace;
} opreg_arm;

static void run_ggml(void *state, int set) {
    ggml_side *side = state;
    (void)set;
    ggml_backend_graph_compute(side->backend, side->graph);
}

static void run_opreg(void *state, int set) {
    opreg_arm *arm = state;
    (void)set;
    if (opreg_plan_run(arm->plan, &arm->args) != OPREG_OK) {
        stop("%s", opreg_last_error());
    }
}

static void compare(opreg_registry *reg, const options *o, const shape *s) {
    enum { PAGE = 16 };
    struct ggml_init_params none = {(size_t)1 << 20, NULL, true};
    struct ggml_context *tensors = ggml_init(none);
    ggml_side ggml = {ggml_backend_cpu_init(), NULL, NULL};
    int32_t pages = s->context / PAGE;
    int64_t row = (int64_t)s->kv_heads * s->dim, cache = row * s->context;
    ggml_fp16_t *contiguous[2], *paged[2];
    int32_t *table = malloc((size_t)pages * sizeof *table);
    float *q = malloc((size_t)(s->q_heads * s->dim) * sizeof *q);
    float *truth = malloc((size_t)(s->q_heads * s->dim) * sizeof *truth);
    float scale = 1.0f / sqrtf((float)s->dim);
    struct ggml_tensor *tq, *t[2];
    ggml_backend_buffer_t buffer;
    arm arms[8];
    opreg_arm ours[8];
    opreg_kernel_row rows[64];
    opreg_buf bufs[8][OPREG_ATTN_BUFS];
    opreg_device dev = cpu_device(reg);
    int count = 1;
    char text[64];
    for (int32_t i = 0; i < pages; i++) { /* an odd factor permutes a power of two */
        table[i] = (int32_t)((int64_t)i * 37 % pages);
    }
    for (int64_t i = 0; i < s->q_heads * s->dim; i++) {
        q[i] = gaussian();
    }
    for (int c = 0; c < 2; c++) {
        contiguous[c] = malloc((size_t)cache * sizeof(ggml_fp16_t));
        paged[c] = malloc((size_t)cache * sizeof(ggml_fp16_t));
        for (int32_t position = 0; position < s->context; position++) {
            for (int32_t head = 0; head < s->kv_heads; head++) {
                for (int32_t e = 0; e < s->dim; e++) {
                    ggml_fp16_t value = ggml_fp32_to_fp16(gaussian());
                    contiguous[c][position * row + (int64_t)head * s->dim + e] = value;
                    paged[c][((int64_t)table[position / PAGE] * PAGE + position % PAGE) * row +
                             (int64_t)head * s->dim + e] = value;
                }
            }
        }
    }
    ggml_backend_cpu_set_n_threads(ggml.backend, o->threads);
    tq = ggml_new_tensor_3d(tensors, GGML_TYPE_F32, s->dim, 1, s->q_heads);
    for (int c = 0; c < 2; c++) {
        t[c] = ggml_new_tensor_3d(tensors, GGML_TYPE_F16, s->dim, s->kv_heads, s->context);
    }
    ggml.out =
        ggml_flash_attn_ext(tensors, tq, ggml_permute(tensors, t[0], 0, 2, 1, 3),
                            ggml_permute(tensors, t[1], 0, 2, 1, 3), NULL, scale, 0.0f, 0.0f);
    ggml.graph = ggml_new_graph_custom(tensors, 8, false);
    ggml_build_forward_expand(ggml.graph, ggml.out);
    buffer = ggml_backend_alloc_ctx_tensors(tensors, ggml.backend);
    ggml_backend_tensor_set(tq, q, 0, (size_t)(s->q_heads * s->dim) * sizeof *q);
    for (int c = 0; c < 2; c++) {
        ggml_backend_tensor_set(t[c], contiguous[c], 0, (size_t)cache * sizeof(ggml_fp16_t));
    }
    snprintf(arms[0].name, sizeof arms[0].name, "ggml flash_attn_ext");
    arms[0].run = run_ggml;
    arms[0].state = &ggml;
    size_t kernels = opreg_kernels(reg, rows, sizeof rows[0], 64);
    for (size_t i = 0; i < kernels && i < 64 && count < 8; i++) {
        opreg_paged_attn_decode p = {.struct_size = sizeof p,
                                     .q_dtype = OPREG_F32,
                                     .out_dtype = OPREG_F32,
                                     .kv_dtype = OPREG_F16,
                                     .seqs = 1,
                                     .tokens = 1,
                                     .max_q = 1,
                                     .q_heads = s->q_heads,
                                     .kv_heads = s->kv_heads,
                                     .head_dim = s->dim,
                                     .block_size = PAGE,
                                     .num_blocks = pages,
                                     .table_stride = pages,
                                     .max_seq_len = s->context,
                                     .scale = scale,
                                     .q_stride = (int64_t)s->q_heads * s->dim,
                                     .out_stride = (int64_t)s->q_heads * s->dim,
                                     .k_block_stride = PAGE * row,
                                     .k_slot_stride = row,
                                     .k_head_stride = s->dim,
                                     .v_block_stride = PAGE * row,
                                     .v_slot_stride = row,
                                     .v_head_stride = s->dim};
        opreg_buf *b = bufs[count];
        opreg_arm *arm = &ours[count];
        if (rows[i].op != OPREG_OP_PAGED_ATTN_DECODE || strcmp(rows[i].plugin, "cpu") != 0 ||
            strncmp(rows[i].kernel, "reference", 9) == 0 ||
            strstr(rows[i].kernel, o->variant) == NULL) {
            continue;
        }
        if (opreg_plan_create_named(reg, &dev, OPREG_OP_PAGED_ATTN_DECODE, &p, rows[i].flag,
                                    &arm->plan) != OPREG_OK) {
            stop("%s", opreg_last_error());
        }
        arm->out = malloc((size_t)(s->q_heads * s->dim) * sizeof(float));
        memset(bufs[count], 0, sizeof bufs[count]);
        b[OPREG_ATTN_OUT] = (opreg_buf){arm->out, (uint64_t)(s->q_heads * s->dim) * 4};
        b[OPREG_ATTN_Q] = (opreg_buf){q, (uint64_t)(s->q_heads * s->dim) * 4};
        b[OPREG_ATTN_K] = (opreg_buf){paged[0], (uint64_t)cache * 2};
        b[OPREG_ATTN_V] = (opreg_buf){paged[1], (uint64_t)cache * 2};
        b[OPREG_ATTN_TABLE] = (opreg_buf){table, (uint64_t)pages * 4};
        b[OPREG_ATTN_LENS] = (opreg_buf){(void *)&s->context, 4};
        uint64_t bytes = opreg_plan_workspace(arm->plan);
        arm->workspace = aligned_alloc(256, (size_t)(bytes + 256) / 256 * 256);
        arm->args = (opreg_args){
            sizeof arm->args, OPREG_ATTN_BUFS, b, NULL, 0, 0, {arm->workspace, bytes}, NULL};
        snprintf(arms[count].name, sizeof arms[count].name, "opreg %.40s", rows[i].kernel);
        arms[count].run = run_opreg;
        arms[count].state = arm;
        count++;
    }
    time_arms(arms, count, 1, o->rounds);
    ggml_backend_tensor_get(ggml.out, truth, 0, (size_t)(s->q_heads * s->dim) * sizeof *truth);
    for (int i = 1; i < count; i++) {
        double error = 0.0, power = 0.0;
        for (int64_t e = 0; e < s->q_heads * s->dim; e++) {
            error += pow((double)ours[i].out[e] - (double)truth[e], 2);
            power += pow((double)truth[e], 2);
        }
        if (!(error / power < 1e-4)) { /* ggml adds values in f16 on some processors */
            stop("%s: NMSE %.2e against ggml", arms[i].name, error / power);
        }
    }
    snprintf(text, sizeof text, "attention hq%d hk%d d%d ctx%d t%d", s->q_heads, s->kv_heads,
             s->dim, s->context, o->threads);
    print_arms(text, arms, count, 4.0 * (double)cache);
    for (int i = 1; i < count; i++) {
        opreg_plan_destroy(ours[i].plan);
        free(ours[i].out);
        free(ours[i].workspace);
    }
    for (int c = 0; c < 2; c++) {
        free(contiguous[c]);
        free(paged[c]);
    }
    ggml_backend_buffer_free(buffer);
    ggml_free(tensors);
    ggml_backend_free(ggml.backend);
    free(table);
    free(q);
    free(truth);
}

void compare_attention(opreg_registry *reg, const options *o) {
    static const shape shapes[] = {
        {32, 8, 128, 4096}, {16, 4, 256, 4096}, {9, 3, 64, 2048}, {32, 8, 128, 512}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        compare(reg, o, &shapes[i]);
    }
}
