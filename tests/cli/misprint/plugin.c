/* SPDX-License-Identifier: MIT
 * plugin.c - a real plugin's baselines, and for each a variant that runs it and then writes over the first
 * word of its output on the stream, to test that shadow notices and that its files reproduce it.
 * MISPRINT_OF is the entry of that plugin: the CPU's, or a device's. */
#include "opreg/opreg_plugin.h"

#include <string.h>

opreg_status MISPRINT_OF(const opreg_host *host, opreg_plugin *out);

static const opreg_kernel *baselines[OPREG_OP_COUNT + 1];
static const opreg_device_io *io;
static opreg_status (*inner_probe)(const opreg_host *host, opreg_device *rows, size_t cap,
                                   size_t *count);
static opreg_device device;

static opreg_status misprint(opreg_op op, void *state, const void *problem, const opreg_call *call) {
    opreg_status status = baselines[op]->run(state, problem, call);
    return status == OPREG_OK
               ? io->fill(call->host, &device, call->bufs[0].ptr, 0x5b, 4, call->stream)
               : status;
}

#define RUN_BASELINE(kernel, op_)
#define RUN_OPT_IN(kernel, op_)                                                                    \
    static opreg_status kernel##_run(void *state, const void *problem, const opreg_call *call) {   \
        return misprint(OPREG_OP_##op_, state, problem, call);                                     \
    }
#define OPREG_KERNEL(kernel, op_, level_, kind, ...) RUN_##kind(kernel, op_)
#include "kernels.inc"
#undef OPREG_KERNEL

typedef struct row {
    const char *name;
    opreg_op op;
    opreg_status (*run)(void *state, const void *problem, const opreg_call *call);
} row;

#define RUN_OF_BASELINE(kernel) NULL
#define RUN_OF_OPT_IN(kernel)   kernel##_run
#define OPREG_KERNEL(kernel, op_, level_, kind, ...) {#kernel, OPREG_OP_##op_, RUN_OF_##kind(kernel)},
static const row rows_of[] = {
#include "kernels.inc"
};
#undef OPREG_KERNEL

#define ROWS (sizeof rows_of / sizeof rows_of[0])
static opreg_kernel kernels[ROWS];
static const opreg_kernel *table[ROWS];

static opreg_status probe(const opreg_host *host, opreg_device *rows, size_t cap, size_t *count) {
    opreg_status status = inner_probe(host, rows, cap, count);
    if (status == OPREG_OK && cap > 0 && *count > 0) {
        device = rows[0];
    }
    return status;
}

opreg_status opreg_plugin_entry(const opreg_host *host, opreg_plugin *out) {
    opreg_plugin inner = {.struct_size = sizeof inner};
    opreg_status status = MISPRINT_OF(host, &inner);
    if (status != OPREG_OK || out->struct_size < sizeof inner) {
        return status != OPREG_OK ? status : OPREG_E_ABI;
    }
    for (uint32_t i = 0; i < inner.num_kernels; i++) {
        if ((inner.kernels[i]->flags & OPREG_KF_BASELINE) != 0) {
            baselines[inner.kernels[i]->op] = inner.kernels[i];
        }
    }
    for (size_t i = 0; i < ROWS; i++) {
        const row *r = &rows_of[i];
        kernels[i] = *baselines[r->op];
        kernels[i].name = r->name;
        if (r->run != NULL) {
            kernels[i].flags &= ~OPREG_KF_BASELINE;
            kernels[i].priority = 1;
            kernels[i].run = r->run;
        }
        table[i] = &kernels[i];
    }
    io = inner.io;
    inner_probe = inner.probe;
    *out = inner;
    out->name = OPREG_PLUGIN_NAME;
    out->kernels = table;
    out->num_kernels = ROWS;
    out->probe = probe;
    return OPREG_OK;
}
