/* SPDX-License-Identifier: MIT
 * kit.c - one run of the kit. */
#include <stdlib.h>
#include <string.h>

#include "kit.h"

#define DEFAULT_SEED UINT64_C(20261130)

static opreg_status load_options(kit *k, const opreg_kit_options *options) {
    if (options != NULL) {
        if (options->struct_size < sizeof options->struct_size) {
            return OPREG_E_ARG;
        }
        memcpy(&k->options, options,
               options->struct_size < sizeof k->options ? options->struct_size : sizeof k->options);
    }
    k->report.seed = k->options.seed != 0 ? k->options.seed : DEFAULT_SEED;
    return OPREG_OK;
}

opreg_status opreg_kit_run(opreg_registry *reg, const opreg_kit_options *options,
                           opreg_kit_report *report) {
    kit k;
    opreg_status status;
    if (reg == NULL || report == NULL) {
        return OPREG_E_ARG;
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
    }
    memory_watch_end();
    k.report.struct_size = sizeof k.report;
    memcpy(report, &k.report, sizeof k.report);
    kit_free_stock(&k);
    free(k.cells);
    return status;
}
