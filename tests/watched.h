/* SPDX-License-Identifier: MIT
 * watched.h - one matmul of the planted plugin, made while shadow or guard is on. */
#ifndef WATCHED_H
#define WATCHED_H

#include "fake/planted.h"
#include "registry_harness.h"

#define WATCHED_N 32
#define WATCHED_STRIDE 40

typedef struct watched {
    captured said;
    opreg_registry *reg;
    opreg_plan *plan;
    opreg_weight *weight;
    const opreg_weight *weights[1];
    opreg_buf bufs[2];
    opreg_args args;
    float x[2 * 256], y[2 * WATCHED_STRIDE];
    unsigned char blocks[WATCHED_N * 8 * 18];
    void *scratch;
} watched;

/* The plugin: planted, or a test's own form of it. */
static opreg_entry_fn watched_entry = planted_entry;

static inline opreg_device watched_device(void) { return device_of(OPREG_CPU, 0, ""); }

/* A plan of the kernel ("" for whatever is best) for 2 rows whose y has gaps. */
static inline void watched_plan(watched *w, const char *kernel, const char *more) {
    opreg_device dev = watched_device();
    opreg_matmul_bt_quant problem;
    char text[128];
    snprintf(text, sizeof text, "m=2 n=32 k=256 b=q4_0 y_stride=40 layout=stored%s", more);
    problem = matmul_of(text);
    opreg_plan_destroy(w->plan);
    w->plan = NULL;
    assert_works(opreg_plan_create_named(w->reg, &dev, OPREG_OP_MATMUL_BT_QUANT, &problem, kernel,
                                         &w->plan));
    free(w->scratch);
    w->scratch = aligned_alloc(256, (size_t)(opreg_plan_workspace(w->plan) + 511) / 256 * 256);
    assert_non_null(w->scratch);
    w->args.workspace = (opreg_buf){w->scratch, opreg_plan_workspace(w->plan)};
}

static inline void watched_open(watched *w, const char *kernel, const char *flag, const char *word) {
    opreg_device dev = watched_device();
    opreg_weight_desc desc = {.struct_size = sizeof desc, .format = OPREG_Q4_0, .experts = 1,
                              .n = WATCHED_N, .k = 256};
    memset(w, 0, sizeof *w);
    planted_forget();
    w->reg = quiet_registry(&w->said);
    assert_works(opreg_add(w->reg, watched_entry));
    assert_works(opreg_enable(w->reg, flag, word));
    for (size_t i = 0; i < sizeof w->blocks; i++) {
        w->blocks[i] = i % 18 == 0 ? 0 : i % 18 == 1 ? 0x24 : (unsigned char)(i * i * 31 >> 3);
    }
    for (int i = 0; i < 512; i++) {
        w->x[i] = (float)(i * 29 % 101) / 50.0f - 1.0f;
    }
    for (int i = 0; i < 2 * WATCHED_STRIDE; i++) {
        w->y[i] = 7.0f;
    }
    desc.data = (opreg_buf){w->blocks, sizeof w->blocks};
    assert_works(opreg_weight_create(w->reg, &dev, &desc, &w->weight));
    w->weights[0] = w->weight;
    w->bufs[OPREG_MATMUL_Y] = (opreg_buf){w->y, sizeof w->y};
    w->bufs[OPREG_MATMUL_X] = (opreg_buf){w->x, sizeof w->x};
    w->args = (opreg_args){.struct_size = sizeof w->args,
                           .num_bufs = 2,
                           .bufs = w->bufs,
                           .weights = w->weights,
                           .num_weights = 1};
    watched_plan(w, kernel, "");
}

static inline void watched_close(watched *w) {
    opreg_plan_destroy(w->plan);
    opreg_weight_destroy(w->weight);
    assert_works(opreg_destroy(w->reg));
    free(w->scratch);
}

/* How often a part is in a text. */
static inline int times(const char *text, const char *part) {
    int count = 0;
    for (text = strstr(text, part); text != NULL; text = strstr(text + 1, part)) {
        count++;
    }
    return count;
}

#endif /* WATCHED_H */
