/* SPDX-License-Identifier: MIT
 * kit.h - one run of the kit: what is there, and the count of what was tested. */
#ifndef OPREG_KIT_KIT_H
#define OPREG_KIT_KIT_H

#include "check.h"
#include "opreg/opreg_test.h"

/* Executed and refused cases of one (variant, format, dtypes). */
typedef struct cell {
    size_t variant;
    uint32_t op;
    char format[32], dtypes[32];
    uint64_t cases, refused, far; /* far: of cases, those far out                                   */
} cell;

typedef struct kit {
    opreg_registry *reg;
    opreg_kit_options options;
    opreg_kit_report report;
    opreg_plugin_row *plugins;
    opreg_kernel_row *kernels;
    opreg_device *devices;
    place *places;
    variant *variants;
    cell *cells;
    uint32_t *layouts; /* layout ids met in the listing of a variant's plugin, scratch              */
    size_t num_plugins, num_kernels, num_devices, num_variants, num_cells, cap_cells;
    reference ref;
    uint64_t done, total;
} kit;

/* ---- report.c: events and cells ---- */

opreg_kit_event kit_event(const kit *k, opreg_kit_kind kind);
void kit_send(const kit *k, const opreg_kit_event *event);
void kit_skip(kit *k, const char *plugin, const char *detail);
void kit_send_case(kit *k, const variant *v, const case_key *key, const job *of, const finding *f);
void kit_progress(kit *k);

/* The cell of a variant, format and dtypes, made where there is none; null when out of memory. */
cell *kit_cell(kit *k, size_t variant_index, opreg_op op, const char *format, const char *dtypes);
/* Cases executed of a variant and format, over all dtypes; far: those far out alone. */
uint64_t kit_executed(const kit *k, size_t variant_index, const char *format, int far);
void kit_send_cells(kit *k);

/* ---- stock.c: plugins, devices and variants ---- */

/* Opens what the options name.  E_ARG with a text where they name nothing. */
opreg_status kit_take_stock(kit *k);

/* E_ARG with a text for opreg_last_error, by way of the CPU's host. */
opreg_status kit_refuse(opreg_registry *reg, const char *text);
void kit_free_stock(kit *k);
/* A declared format without a generator, and a variant on no device, are named. */
void kit_check_declared(kit *k);
int kit_takes_weights(uint32_t op);
int kit_is_for(const variant *v, opreg_op op, const char *format);

/* ---- tables.c: the cases of every operator and format ---- */

void kit_run_tables(kit *k);

#endif /* OPREG_KIT_KIT_H */
