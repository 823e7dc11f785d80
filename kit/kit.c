/* SPDX-License-Identifier: MIT
 * kit.c - one run of the kit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"

#define DEFAULT_SEED UINT64_C(20261130)

#define STRUCT_SIZE_MAX 4096u

opreg_status kit_refuse(opreg_registry *reg, const char *text) {
    const opreg_device_io *io;
    const opreg_host *host;
    opreg_device cpu;
    if (reg == NULL) {
        return opreg_unload(NULL, NULL); /* says that the registry is null */
    }
    if (opreg_devices(reg, &cpu, sizeof cpu, 1) > 0 &&
        opreg_device_io_get(reg, &cpu, &io, &host) == OPREG_OK) {
        host->error(host->ctx, "%s", text);
    }
    return OPREG_E_ARG;
}

/* What each struct of the kit's API begins with. */
static opreg_status check_size(opreg_registry *reg, const char *name, uint32_t size, size_t known) {
    char text[160];
    if (size >= sizeof size && size <= STRUCT_SIZE_MAX) {
        return OPREG_OK;
    }
    snprintf(text, sizeof text, "the %s has struct_size %u: set it to its sizeof, %zu", name, size, known);
    return kit_refuse(reg, text);
}

static opreg_status load_options(kit *k, const opreg_kit_options *options) {
    const size_t known = sizeof *options;
    opreg_status status = OPREG_OK;
    if (options != NULL) {
        status = check_size(k->reg, "opreg_kit_options", options->struct_size, known);
    }
    if (options != NULL && status == OPREG_OK) {
        size_t size = options->struct_size;
        memcpy(&k->options, options, size < known ? size : known);
        for (size_t i = known; i < size; i++) {
            if (((const unsigned char *)options)[i] != 0) {
                return kit_refuse(k->reg, "the opreg_kit_options is from a newer opreg and uses a field "
                                          "that this kit does not know");
            }
        }
    }
    k->report.seed = k->options.seed != 0 ? k->options.seed : DEFAULT_SEED;
    return status;
}

static void skip_uncounted(kit *k) {
    for (size_t i = 0; i < k->num_variants; i++) {
        if (k->variants[i].where->is_cpu && !k->variants[i].where->counts) {
            kit_skip(k, k->variants[i].row.plugin,
                     opreg_kit_allocations == NULL
                         ? "allocations of a run are not counted in this program"
                         : "allocations of a run are not counted beside a device's driver");
            return;
        }
    }
}

opreg_status opreg_kit_run(opreg_registry *reg, const opreg_kit_options *options,
                           opreg_kit_report *report) {
    kit k;
    size_t size;
    opreg_status status;
    if (reg == NULL || report == NULL) {
        return kit_refuse(reg, "the opreg_kit_report is null");
    }
    size = report->struct_size;
    status = check_size(reg, "opreg_kit_report", report->struct_size, sizeof *report);
    if (status != OPREG_OK) {
        return status;
    }
    memset(&k, 0, sizeof k);
    k.reg = reg;
    k.ref.reg = reg;
    memory_watch_begin();
    status = load_options(&k, options);
    status = status == OPREG_OK ? kit_take_stock(&k) : status;
    if (status == OPREG_OK) {
        kit_run_tables(&k);
        kit_send_cells(&k);
        kit_check_declared(&k);
        skip_uncounted(&k);
    }
    memory_watch_end();
    size = size < sizeof k.report ? size : sizeof k.report;
    k.report.struct_size = (uint32_t)size;
    memcpy(report, &k.report, size);
    kit_free_stock(&k);
    free(k.cells);
    return status;
}
