/* SPDX-License-Identifier: MIT
 * planned.h - a fake plan with its weight and right arguments, which a test then spoils. */
#ifndef PLANNED_H
#define PLANNED_H

#define FAKE_ENTRY fake_entry
#include "fake/fake_plugin.h"
#include "registry_harness.h"

typedef struct planned {
    captured said;
    opreg_registry *reg;
    opreg_device dev;
    opreg_matmul_bt_quant problem;
    opreg_plan *plan;
    opreg_weight *weight;
    const opreg_weight *weights[2];
    opreg_buf bufs[OPREG_MATMUL_BUFS];
    opreg_args args;
    _Alignas(256) unsigned char workspace[1024];
    float x[2048], y[64];
    unsigned char blocks[16 * 144];
} planned;

/* Everything right for a matmul problem with n <= 16 and k = 256. */
static inline void planned_open(planned *p, const char *text) {
    opreg_weight_desc desc = {.struct_size = sizeof desc, .format = OPREG_Q4_K, .experts = 1};
    memset(p, 0, sizeof *p);
    p->reg = quiet_registry(&p->said);
    assert_works(opreg_add(p->reg, fake_entry));
    assert_works(opreg_enable(p->reg, "fake", "exact"));
    p->dev = device_of(OPREG_CUDA, 0, "fake_1");
    p->problem = matmul_of(text);
    assert_works(opreg_plan_create(p->reg, &p->dev, OPREG_OP_MATMUL_BT_QUANT, &p->problem, &p->plan));
    for (size_t i = 0; i < sizeof p->blocks; i++) {
        p->blocks[i] = (unsigned char)(i * 7);
    }
    desc.n = p->problem.n;
    desc.k = p->problem.k;
    desc.data = (opreg_buf){p->blocks, sizeof p->blocks};
    assert_works(opreg_weight_create(p->reg, &p->dev, &desc, &p->weight));
    p->weights[0] = p->weight;
    p->bufs[OPREG_MATMUL_Y] = (opreg_buf){p->y, sizeof p->y};
    p->bufs[OPREG_MATMUL_X] = (opreg_buf){p->x, sizeof p->x};
    p->args = (opreg_args){.struct_size = sizeof p->args,
                           .num_bufs = 2,
                           .bufs = p->bufs,
                           .weights = p->weights,
                           .num_weights = 1,
                           .workspace = {p->workspace, sizeof p->workspace}};
}

static inline void planned_close(planned *p) {
    opreg_plan_destroy(p->plan);
    opreg_weight_destroy(p->weight);
    assert_works(opreg_destroy(p->reg));
}

#endif /* PLANNED_H */
