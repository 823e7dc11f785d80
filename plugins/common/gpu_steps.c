/* SPDX-License-Identifier: MIT
 * gpu_steps.c - host side of the steps between operators: checks, then one launch each. */
#include "gpu_steps.h"

#include "steps_args.h"
#include "steps_check.h"

#include <stddef.h>

#define MOST_ROWS 0x7fffffff /* of a grid's first dimension                                        */

static opreg_status refuse(const opreg_host *host, const char *what) {
    host->error(host->ctx, "%s", what);
    return OPREG_E_ARG;
}

/* Launches a step's kernel over rows, and groups of a row in the second dimension. */
static opreg_status launch(const opreg_host *host, const opreg_device *dev, enum step_kernel kernel,
                           int64_t rows, int64_t groups, uint32_t threads, const void *parameters,
                           void *stream) {
    const gpu_device *device = gpu_device_find(dev->ordinal);
    gpu_launch grid = {.symbol = gpu_first_step + kernel,
                       .grid_x = (uint32_t)rows,
                       .grid_y = (uint32_t)groups,
                       .grid_z = 1,
                       .block = threads};
    if (rows > MOST_ROWS || groups > 65535) {
        return refuse(host, "the step has more rows, or a longer row, than one launch");
    }
    if (device == NULL) {
        return refuse(host, "the device is not open in this plugin");
    }
    return rows == 0 || groups == 0 ? OPREG_OK : gpu_run(host, device, &grid, parameters, stream);
}

static int64_t blocks_of(int64_t values, int64_t each) { return (values + each - 1) / each; }

static opreg_status gather(const opreg_host *host, const opreg_device *dev,
                           const opreg_step_gather *a, void *stream) {
    const char *wrong = step_gather_wrong(a);
    const opreg_weight_view *table;
    step_gather_args args;
    if (wrong != NULL) {
        return refuse(host, wrong);
    }
    table = a->table;
    if (gpu_format_find(table->format) == NULL) {
        return refuse(host, "gather: the table has a format of a plugin");
    }
    args = (step_gather_args){.data = table->data,
                              .side = table->side,
                              .ids = a->ids,
                              .y = a->y,
                              .n = table->n,
                              .k = table->k,
                              .row_bytes = table->row_bytes,
                              .format = table->format,
                              .scale = a->scale};
    return launch(host, dev, STEP_GATHER, a->rows, blocks_of(table->k, STEPS_THREADS),
                  STEPS_THREADS, &args, stream);
}

/* A step whose kernel takes the caller's arguments as they are. */
#define STEP(name, kernel, rows, groups, threads)                                                  \
    static opreg_status name(const opreg_host *host, const opreg_device *dev,                      \
                             const opreg_step_##name *a, void *stream) {                           \
        const char *wrong = step_##name##_wrong(a);                                                \
        return wrong != NULL                                                                       \
                   ? refuse(host, wrong)                                                           \
                   : launch(host, dev, kernel, rows, groups, threads, a, stream);                  \
    }

STEP(norm, STEP_NORM, a->rows, 1, STEPS_THREADS)
STEP(heads, STEP_HEADS, a->tokens,
     blocks_of((int64_t)a->q_heads + a->kv_heads, STEPS_HEADS_THREADS / 32), STEPS_HEADS_THREADS)
STEP(experts, STEP_EXPERTS, blocks_of(a->tokens, STEPS_THREADS / 32), 1, STEPS_THREADS)
STEP(glu, STEP_GLU, blocks_of(a->count, STEPS_THREADS), 1, STEPS_THREADS)
STEP(cap, STEP_CAP, blocks_of(a->count, STEPS_THREADS), 1, STEPS_THREADS)
STEP(argmax, STEP_ARGMAX, a->rows, 1, STEPS_ARGMAX_THREADS)
STEP(compare, STEP_COMPARE, a->rows > 0 && a->length > 0 ? OPREG_DIFFERENCE_PARTS : 0, 1,
     STEPS_THREADS)

const opreg_device_steps gpu_steps = {.struct_size = sizeof(opreg_device_steps),
                                      .gather = gather,
                                      .norm = norm,
                                      .heads = heads,
                                      .experts = experts,
                                      .glu = glu,
                                      .cap = cap,
                                      .argmax = argmax,
                                      .compare = compare};
