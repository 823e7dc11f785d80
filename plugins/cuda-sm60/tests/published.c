/* SPDX-License-Identifier: MIT
 * published.c - the grouped variants at the published shape against the CPU, bit by bit: for 1 to 8
 * tokens of ten slots, groups of one to eight entries go through every expert.
 *
 *   sm60-published [SCALE]
 *
 * SCALE divides the experts and the rows (1).  Where the plugin is not built in, it is found as
 * every program finds it.  Exit status 77 without a device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opreg/opreg_plugin.h"

#define TOP_K       10
#define MOST_TOKENS 8
#define MOST_ROWS   (TOP_K * MOST_TOKENS)
#define ABSENT      77

typedef struct shape {
    const char *kernel;
    opreg_op op;
    uint32_t format;
    int32_t experts;
    int64_t n, k;
} shape;

static const shape shapes[] = {
    {"cuda-sm60/down_ws", OPREG_OP_MOE_DOWN, OPREG_IQ4_NL, 512, 2560, 640},
    {"cuda-sm60/down_ws", OPREG_OP_MOE_DOWN, OPREG_Q2_0, 512, 2560, 640},
    {"cuda-sm60/glu_ws", OPREG_OP_MOE_GLU, OPREG_IQ3_S, 64, 640, 2560},
    {"cuda-sm60/glu_ws", OPREG_OP_MOE_GLU, OPREG_IQ2_S, 64, 640, 2560},
    {"cuda-sm60/glu_ws", OPREG_OP_MOE_GLU, OPREG_IQ3_XXS, 64, 640, 2560},
    {"cuda-sm60/glu_ws", OPREG_OP_MOE_GLU, OPREG_Q4_K, 64, 640, 2560},
    {"cuda-sm60/glu_slot4", OPREG_OP_MOE_GLU, OPREG_IQ3_S, 64, 640, 2560},
    {"cuda-sm60/glu_slot4", OPREG_OP_MOE_GLU, OPREG_IQ2_S, 64, 640, 2560},
    {"cuda-sm60/glu_slot4", OPREG_OP_MOE_GLU, OPREG_IQ3_XXS, 64, 640, 2560},
};

/* A place to run: the CPU, or the device. */
typedef struct side {
    opreg_registry *reg;
    opreg_device device;
    const opreg_device_io *io;
    const opreg_host *host;
    opreg_buf data[2], prepared[2], x, route, y, workspace;
    opreg_weight *weights[2];
} side;

static uint64_t state = 20261130;

static uint64_t next_random(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33 ^ state << 31;
}

static void need(opreg_status status, const char *what) {
    if (status != OPREG_OK) {
        fprintf(stderr, "%s: %s\n", what, opreg_last_error());
        exit(1);
    }
}

static void grow(side *s, opreg_buf *buffer, uint64_t bytes) {
    if (buffer->bytes < bytes) {
        if (buffer->ptr != NULL) {
            s->io->free(s->host, &s->device, buffer->ptr);
        }
        need(s->io->alloc(s->host, &s->device, bytes, &buffer->ptr), "memory");
        buffer->bytes = bytes;
    }
}

static void put(side *s, opreg_buf *buffer, const void *from, uint64_t bytes) {
    grow(s, buffer, bytes);
    need(s->io->to_device(s->host, &s->device, buffer->ptr, from, bytes, NULL), "copy");
}

/* Random blocks whose f16 scale, the first two bytes (also Q4_K's second), is small and finite. */
static uint8_t *random_weights(const shape *of, uint64_t *bytes) {
    opreg_format_row row = {.struct_size = sizeof row};
    need(opreg_format_by_id(of->format, &row), "format");
    *bytes = (uint64_t)of->experts * (uint64_t)of->n * (uint64_t)(of->k / row.block_values) *
             row.block_bytes;
    uint8_t *data = malloc(*bytes + 8);
    for (uint64_t i = 0; data != NULL && i < *bytes; i += 8) {
        uint64_t bits = next_random();
        memcpy(data + i, &bits, 8);
    }
    for (uint64_t i = 0; data != NULL && i < *bytes; i += row.block_bytes) {
        data[i + 1] = (uint8_t)(data[i + 1] & 0x8fu) | 0x20u;
        data[i + 3] =
            of->format == OPREG_Q4_K ? (uint8_t)(data[i + 3] & 0x8fu) | 0x20u : data[i + 3];
    }
    return data;
}

/* Ids of one call: runs of 1 to 8 entries an expert, from *expert and *run on. */
static void draw_ids(int32_t *ids, int pairs, int32_t *expert, int *run) {
    for (int i = 0; i < pairs;) {
        for (int g = 0; g < *run && i < pairs; g++) {
            ids[i++] = *expert;
        }
        (*expert)++;
        *run = *run % 8 + 1;
    }
}

/* One plan on one side; y comes to host memory. */
static void run_call(side *s, const shape *of, const char *kernel, opreg_op op, const void *problem,
                     const opreg_buf *bufs, uint32_t num_bufs, uint32_t num_weights) {
    opreg_plan *plan = NULL;
    if (kernel != NULL) {
        need(opreg_plan_create_named(s->reg, &s->device, op, problem, kernel, &plan), kernel);
    } else {
        need(opreg_plan_create(s->reg, &s->device, op, problem, &plan), "plan");
    }
    for (uint32_t i = 0; i < num_weights && s->weights[i] == NULL; i++) {
        opreg_weight *stored = NULL;
        const opreg_weight_desc desc = {.struct_size = sizeof desc,
                                        .format = of->format,
                                        .experts = of->experts,
                                        .n = of->n,
                                        .k = of->k,
                                        .data = s->data[i]};
        need(opreg_weight_create(s->reg, &s->device, &desc, &stored), "weight");
        s->weights[i] = stored;
        if (opreg_plan_layout(plan) != OPREG_LAYOUT_STORED) {
            grow(s, &s->prepared[i], opreg_plan_layout_bytes(plan));
            need(opreg_weight_prepare(plan, stored, s->prepared[i], NULL, &s->weights[i]),
                 "prepare");
            need(s->io->stream_sync(s->host, &s->device, NULL), "prepare");
            opreg_weight_destroy(stored);
        }
    }
    grow(s, &s->workspace, opreg_plan_workspace(plan) + 256);
    const opreg_args args = {.struct_size = sizeof args,
                             .num_bufs = num_bufs,
                             .bufs = bufs,
                             .weights = (const opreg_weight *const *)s->weights,
                             .num_weights = num_weights,
                             .workspace = s->workspace};
    need(opreg_plan_run(plan, &args), "run");
    need(s->io->stream_sync(s->host, &s->device, NULL), "run");
    opreg_plan_destroy(plan);
}

static void run_side(side *s, const shape *of, const char *kernel, int64_t tokens, const float *x,
                     const int32_t *ids, float *y) {
    static const float weights[MOST_ROWS] = {0}; /* of the router: not read here */
    const int64_t pairs = tokens * TOP_K, x_rows = of->op == OPREG_OP_MOE_DOWN ? pairs : tokens;
    opreg_route_layout layout = {.struct_size = sizeof layout};
    opreg_buf route_bufs[3] = {{0}}, bufs[5] = {{0}};
    const opreg_moe_route route = {.struct_size = sizeof route,
                                   .form = OPREG_ROUTE_TOPK,
                                   .tokens = tokens,
                                   .top_k = TOP_K,
                                   .experts = of->experts,
                                   .ids_stride = TOP_K,
                                   .weights_stride = TOP_K};
    const opreg_moe_matmul problem = {
        .struct_size = sizeof problem,
        .x_dtype = OPREG_F32,
        .b_dtype = of->format,
        .y_dtype = OPREG_F32,
        .glu = of->op == OPREG_OP_MOE_GLU ? OPREG_GLU_SILU : OPREG_GLU_NONE,
        .tokens = tokens,
        .n = of->n,
        .k = of->k,
        .experts = of->experts,
        .top_k = TOP_K,
        .x_stride = of->k,
        .y_stride = of->n,
        .x_rows = of->op == OPREG_OP_MOE_DOWN ? OPREG_X_BY_DST : OPREG_X_BY_TOKEN,
        .layout = OPREG_LAYOUT_ANY};
    opreg_buf ids_buf = {0}, weights_buf = {0};
    need(opreg_route_layout_get(tokens, TOP_K, of->experts, &layout), "route");
    grow(s, &s->route, layout.bytes);
    put(s, &ids_buf, ids, (uint64_t)pairs * 4u);
    put(s, &weights_buf, weights, (uint64_t)pairs * 4u);
    put(s, &s->x, x, (uint64_t)(x_rows * of->k) * 4u);
    grow(s, &s->y, (uint64_t)(pairs * of->n) * 4u);
    need(s->io->fill(s->host, &s->device, s->y.ptr, 0xff, (uint64_t)(pairs * of->n) * 4u, NULL),
         "fill");
    route_bufs[OPREG_ROUTE_ROUTE] = s->route;
    route_bufs[OPREG_ROUTE_IDS] = ids_buf;
    route_bufs[OPREG_ROUTE_WEIGHTS] = weights_buf;
    run_call(s, of, NULL, OPREG_OP_MOE_ROUTE, &route, route_bufs, 3, 0);
    bufs[OPREG_MOE_Y] = s->y;
    bufs[OPREG_MOE_X] = s->x;
    bufs[OPREG_MOE_ROUTE_BUF] = s->route;
    run_call(s, of, kernel, of->op, &problem, bufs, 5, of->op == OPREG_OP_MOE_GLU ? 2 : 1);
    need(s->io->to_host(s->host, &s->device, y, s->y.ptr, (uint64_t)(pairs * of->n) * 4u, NULL),
         "copy");
    s->io->free(s->host, &s->device, ids_buf.ptr);
    s->io->free(s->host, &s->device, weights_buf.ptr);
}

/* Elements that differ, of all calls of one shape. */
static int64_t compare(side sides[2], const shape *of) {
    static float x[MOST_ROWS * 2560], y[2][MOST_ROWS * 2560];
    const float unit = of->op == OPREG_OP_MOE_GLU ? 0x1p-21f : 0x1p-13f; /* no gate at its limit */
    int32_t ids[MOST_ROWS];
    int64_t different = 0, elements = 0, zeros = 0;
    for (int i = 0; i < (of->op == OPREG_OP_MOE_GLU ? 2 : 1); i++) {
        uint64_t bytes = 0;
        uint8_t *data = random_weights(of, &bytes);
        for (int s = 0; s < 2 && data != NULL; s++) {
            put(&sides[s], &sides[s].data[i], data, bytes);
        }
        free(data);
    }
    for (int64_t tokens = 1; tokens <= MOST_TOKENS; tokens++) {
        int run = 1;
        for (int32_t expert = 0; expert < of->experts;) {
            const int64_t pairs = tokens * TOP_K;
            for (int64_t i = 0; i < MOST_ROWS * of->k; i++) {
                x[i] = (float)((int32_t)(next_random() & 0xffffu) - 0x8000) * unit;
            }
            draw_ids(ids, (int)pairs, &expert, &run); /* ids past the last are rows of zeros */
            run_side(&sides[0], of, NULL, tokens, x, ids, y[0]);
            run_side(&sides[1], of, of->kernel, tokens, x, ids, y[1]);
            for (int64_t i = 0; i < pairs * of->n; i++) {
                different += memcmp(&y[0][i], &y[1][i], 4) != 0;
                zeros += ids[i / of->n] < of->experts && !(y[0][i] > 0.0f || y[0][i] < 0.0f);
            }
            elements += pairs * of->n;
        }
    }
    printf("%s %s: %d experts, 1 to 8 tokens, %lld of %lld elements differ\n", of->kernel,
           opreg_dtype_name(of->format), of->experts, (long long)different, (long long)elements);
    if (zeros > elements / 100) {
        printf("but %lld of an expert's are zero or no number: this compares little\n",
               (long long)zeros);
        different++;
    }
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < 2; i++) {
            opreg_weight_destroy(sides[s].weights[i]);
            sides[s].weights[i] = NULL;
        }
    }
    return different;
}

#ifdef PUBLISHED_ENTRY
opreg_status PUBLISHED_ENTRY(const opreg_host *host, opreg_plugin *out);
#endif

int main(int argc, char **argv) {
    const int scale = argc > 1 ? atoi(argv[1]) : 1;
    opreg_registry *reg = NULL;
    opreg_device rows[16];
    side sides[2] = {{0}};
    int found = 0, failed = 0;
    need(opreg_create(NULL, &reg), "registry");
#ifdef PUBLISHED_ENTRY
    need(opreg_add(reg, PUBLISHED_ENTRY), "plugin");
#else
    (void)opreg_enable(reg, "cuda-sm60", "on");
#endif
    size_t count = opreg_devices(reg, rows, sizeof rows[0], 16);
    for (size_t i = 0; i < count && i < 16; i++) {
        int at = rows[i].kind == OPREG_CPU ? 0 : strcmp(rows[i].arch, "sm_60") == 0 ? 1 : -1;
        if (at >= 0) {
            sides[at].reg = reg;
            sides[at].device = rows[i];
            need(opreg_device_io_get(reg, &rows[i], &sides[at].io, &sides[at].host), "device");
            found |= 1 << at;
        }
    }
    if (found != 3) {
        printf("skipped: no sm_60 device\n");
        return ABSENT;
    }
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        shape of = shapes[i];
        of.experts = of.experts / scale + 1;
        of.n /= scale;
        failed |= compare(sides, &of) != 0;
    }
    return failed;
}
