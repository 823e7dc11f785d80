/* SPDX-License-Identifier: MIT
 * small_engine.c - a decode loop of one layer: a projection, attention over a cache with an idle
 * request, a route with an invalid id, experts, and a projection of more than 8192 values. */
#include "small_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 256  /* of the state                                                                   */
#define HEADS 128  /* 2 heads of 64                                                                  */
#define STRIDE 136 /* of rows of y: there is a gap                                                   */
#define OUT 64
#define LONG 8448
#define MOST 4     /* tokens a step                                                                  */
#define BLOCKS 8
#define WIDTHS 2   /* plans for 1 and for MOST tokens                                                */

enum { PROJECT, ATTEND, ROUTE, EXPERTS, COMBINE, FAR, STAGES };
enum { PROJECTION, EXPERT_ROWS, FAR_ROWS, WEIGHTS };

typedef struct engine {
    opreg_registry *reg;
    opreg_device dev;
    opreg_plan *plans[WIDTHS][STAGES];
    opreg_weight *weights[WEIGHTS];
    uint8_t *bytes[WEIGHTS], *scratch;
    uint64_t scratch_bytes;
    float x[MOST * WIDTH], y[(MOST + 1) * STRIDE], context[(MOST + 1) * HEADS];
    float keys[BLOCKS * 4 * 64], values[BLOCKS * 4 * 64], router[MOST * 2];
    float rows[MOST * 2 * OUT], mixed[MOST * OUT], far_x[LONG], far_y[8];
    int32_t table[(MOST + 1) * 2], lengths[MOST + 1], ids[MOST * 2];
    _Alignas(16) uint8_t route[1024];
} engine;

static uint32_t noise(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void fill(float *out, size_t count, uint32_t seed) {
    for (size_t i = 0; i < count; i++) {
        out[i] = (float)(noise(&seed) % 2001) / 1000.0f - 1.0f;
    }
}

/* q4_0 blocks: an f16 scale of about 1/64 and 16 bytes of codes. */
static opreg_status make_weight(engine *e, int which, int64_t experts, int64_t n, int64_t k) {
    size_t blocks = (size_t)(experts * n * k / 32);
    uint32_t seed = 77u + (uint32_t)which;
    opreg_weight_desc desc = {.struct_size = sizeof desc, .format = OPREG_Q4_0, .experts = experts,
                              .n = n, .k = k};
    e->bytes[which] = malloc(blocks * 18);
    if (e->bytes[which] == NULL) {
        return OPREG_E_NOMEM;
    }
    for (size_t i = 0; i < blocks * 18; i++) {
        e->bytes[which][i] = i % 18 == 0 ? 0 : i % 18 == 1 ? 0x24 : (uint8_t)noise(&seed);
    }
    desc.data = (opreg_buf){e->bytes[which], blocks * 18};
    return opreg_weight_create(e->reg, &e->dev, &desc, &e->weights[which]);
}

static opreg_status make_plan(engine *e, int width, int stage, opreg_op op, const char *text) {
    _Alignas(16) unsigned char problem[512];
    uint64_t bytes;
    opreg_status status = opreg_problem_parse(op, text, problem);
    if (status == OPREG_OK) {
        status = opreg_plan_create(e->reg, &e->dev, op, problem, &e->plans[width][stage]);
    }
    if (status == OPREG_OK) {
        bytes = opreg_plan_workspace(e->plans[width][stage]);
        e->scratch_bytes = bytes > e->scratch_bytes ? bytes : e->scratch_bytes;
    }
    return status;
}

static opreg_status make_plans(engine *e, int width, int tokens) {
    static const struct {
        int stage;
        opreg_op op;
        const char *text;
    } rows[] = {
        {PROJECT, OPREG_OP_MATMUL_BT_QUANT, "m=%d n=128 k=256 b=q4_0 y_stride=136 layout=stored"},
        {ATTEND, OPREG_OP_PAGED_ATTN_DECODE,
         "seqs=%d hq=2 hk=1 d=64 len=8 kv=f32 block=4 blocks=8 table_stride=2 q_stride=136"},
        {ROUTE, OPREG_OP_MOE_ROUTE, "tokens=%d top_k=2 experts=3"},
        {EXPERTS, OPREG_OP_MOE_MATMUL,
         "tokens=%d n=64 k=128 experts=3 top_k=2 b=q4_0 rows=token layout=stored"},
        {COMBINE, OPREG_OP_MOE_COMBINE, "tokens=%d n=64 top_k=2"},
        {FAR, OPREG_OP_MATMUL_BT_QUANT, "m=1 n=8 k=8448 b=q4_0 layout=stored"},
    };
    opreg_status status = OPREG_OK;
    for (size_t i = 0; status == OPREG_OK && i < sizeof rows / sizeof rows[0]; i++) {
        const char *number = strstr(rows[i].text, "%d");
        char text[256];
        if (number == NULL) {
            snprintf(text, sizeof text, "%s", rows[i].text);
        } else {
            snprintf(text, sizeof text, "%.*s%d%s", (int)(number - rows[i].text), rows[i].text,
                     rows[i].stage == ATTEND ? tokens + 1 : tokens, number + 2);
        }
        status = make_plan(e, width, rows[i].stage, rows[i].op, text);
    }
    return status;
}

static opreg_status run(engine *e, int width, int stage, const opreg_buf *bufs, uint32_t num_bufs,
                        int weight) {
    const opreg_weight *weights[1] = {weight >= 0 ? e->weights[weight] : NULL};
    opreg_args args = {.struct_size = sizeof args,
                       .num_bufs = num_bufs,
                       .bufs = bufs,
                       .weights = weights,
                       .num_weights = weight >= 0,
                       .workspace = {e->scratch, e->scratch_bytes}};
    return opreg_plan_run(e->plans[width][stage], &args);
}

#define BUF(array) ((opreg_buf){(array), sizeof(array)})

static opreg_status step(engine *e, int number, int width, int tokens) {
    opreg_buf project[] = {BUF(e->y), BUF(e->x)};
    opreg_buf attend[] = {BUF(e->context), BUF(e->y),     BUF(e->keys),
                          BUF(e->values),  BUF(e->table), BUF(e->lengths)};
    opreg_buf route[] = {BUF(e->route), BUF(e->ids), BUF(e->router)};
    opreg_buf experts[] = {BUF(e->rows), BUF(e->context), BUF(e->route)};
    opreg_buf combine[] = {BUF(e->mixed), BUF(e->rows), BUF(e->router)};
    opreg_buf far_away[] = {BUF(e->far_y), BUF(e->far_x)};
    opreg_status status;
    for (int t = 0; t < tokens; t++) {
        e->lengths[t] = 1 + (number + t) % 8;
        for (int slot = 0; slot < 2; slot++) {
            e->ids[t * 2 + slot] = (number + t + slot * 2) % 4; /* 3 is no expert */
        }
    }
    e->lengths[tokens] = 0; /* an idle request */
    status = run(e, width, PROJECT, project, 2, PROJECTION);
    status = status == OPREG_OK ? run(e, width, ATTEND, attend, 6, -1) : status;
    status = status == OPREG_OK ? run(e, width, ROUTE, route, 3, -1) : status;
    status = status == OPREG_OK ? run(e, width, EXPERTS, experts, 3, EXPERT_ROWS) : status;
    status = status == OPREG_OK ? run(e, width, COMBINE, combine, 3, -1) : status;
    status = status == OPREG_OK ? run(e, width, FAR, far_away, 2, FAR_ROWS) : status;
    for (int i = 0; status == OPREG_OK && i < tokens * OUT; i++) { /* the next state */
        e->x[i / OUT * WIDTH + i % OUT] += e->mixed[i] + e->far_y[i % 8] / 64.0f;
        e->far_x[8300 + i % 64] = e->mixed[i];
    }
    return status;
}

static opreg_status set_up(engine *e) {
    opreg_status status = make_weight(e, PROJECTION, 1, HEADS, WIDTH);
    status = status == OPREG_OK ? make_weight(e, EXPERT_ROWS, 3, OUT, HEADS) : status;
    status = status == OPREG_OK ? make_weight(e, FAR_ROWS, 1, 8, LONG) : status;
    status = status == OPREG_OK ? make_plans(e, 0, 1) : status;
    status = status == OPREG_OK ? make_plans(e, 1, MOST) : status;
    if (status != OPREG_OK) {
        return status;
    }
    /* a kernel's planted write past its scratch, and a page of rows, must hit nothing */
    e->scratch = aligned_alloc(256, (size_t)((e->scratch_bytes + 511) / 256 * 256));
    fill(e->x, MOST * WIDTH, 1);
    fill(e->keys, BLOCKS * 4 * 64, 2);
    fill(e->values, BLOCKS * 4 * 64, 3);
    fill(e->router, MOST * 2, 4);
    fill(e->far_x, LONG, 5);
    for (int32_t i = 0; i < (MOST + 1) * 2; i++) {
        e->table[i] = (i * 3) % BLOCKS;
    }
    if (e->scratch != NULL) {
        memset(e->scratch, 0, (size_t)((e->scratch_bytes + 511) / 256 * 256));
    }
    return e->scratch != NULL ? OPREG_OK : OPREG_E_NOMEM;
}

opreg_status small_engine_run(opreg_registry *reg, uint64_t *digest) {
    static const int tokens[] = {1, 1, 1, MOST, MOST, 1, 1};
    engine *e = calloc(1, sizeof *e);
    opreg_status status;
    if (e == NULL) {
        return OPREG_E_NOMEM;
    }
    e->reg = reg;
    e->dev = (opreg_device){.struct_size = sizeof e->dev, .kind = OPREG_CPU};
    status = set_up(e);
    *digest = 0;
    for (size_t s = 0; status == OPREG_OK && s < sizeof tokens / sizeof tokens[0]; s++) {
        status = step(e, (int)s, tokens[s] > 1, tokens[s]);
        for (size_t i = 0; i < MOST * WIDTH; i++) {
            uint32_t bits;
            memcpy(&bits, &e->x[i], sizeof bits);
            *digest = (*digest ^ bits) * UINT64_C(1099511628211);
        }
    }
    for (int w = 0; w < WIDTHS; w++) {
        for (int i = 0; i < STAGES; i++) {
            opreg_plan_destroy(e->plans[w][i]);
        }
    }
    for (int i = 0; i < WEIGHTS; i++) {
        opreg_weight_destroy(e->weights[i]);
        free(e->bytes[i]);
    }
    free(e->scratch);
    free(e);
    return status;
}
