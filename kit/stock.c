/* SPDX-License-Identifier: MIT
 * stock.c - which variants are tested where. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/formats.h"
#include "kit.h"

static opreg_status refuse(const kit *k, const char *what, const char *name, const char *else_what) {
    char text[1024];
    snprintf(text, sizeof text, "no %s %.500s%s", what, name, else_what);
    return kit_refuse(k->reg, text);
}

/* ---- what is there --------------------------------------------------------------------------------- */

#define LIST(k, listing, field, count)                                                             \
    do {                                                                                           \
        (k)->count = listing((k)->reg, NULL, sizeof *(k)->field, 0);                               \
        (k)->field = calloc((k)->count + 1, sizeof *(k)->field);                                   \
        if ((k)->field == NULL) {                                                                  \
            return OPREG_E_NOMEM;                                                                  \
        }                                                                                          \
        listing((k)->reg, (k)->field, sizeof *(k)->field, (k)->count);                             \
    } while (0)

static const opreg_plugin_row *find_plugin(const kit *k, const char *name) {
    for (size_t i = 0; i < k->num_plugins; i++) {
        if (strcmp(k->plugins[i].name, name) == 0) {
            return &k->plugins[i];
        }
    }
    return NULL;
}

/* 1 when the plugin's variants are listed for the device. */
static int serves(const kit *k, const opreg_device *device, const char *plugin, uint32_t op,
                  uint32_t format) {
    case_key key = {(opreg_op)op, format, 0, 0, k->report.seed};
    opreg_candidate *rows;
    job probe;
    size_t count = 0;
    int found = 0;
    if (!case_make(&key, &probe)) {
        return 0;
    }
    if (opreg_explain(k->reg, device, (opreg_op)op, &probe.problem, NULL, sizeof *rows, 0,
                      &count) == OPREG_OK &&
        (rows = calloc(count + 1, sizeof *rows)) != NULL) {
        opreg_explain(k->reg, device, (opreg_op)op, &probe.problem, rows, sizeof *rows, count,
                      &count);
        for (size_t i = 0; i < count; i++) {
            found |= strcmp(rows[i].plugin, plugin) == 0;
        }
        free(rows);
    }
    job_clear(&probe);
    return found;
}

/* 1 when a word is one of the space-separated words of a text. */
static int has_word(const char *text, const char *word) {
    size_t length = strlen(word);
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        if ((at == text || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) {
            return 1;
        }
    }
    return 0;
}

int kit_takes_weights(uint32_t op) {
    return op == OPREG_OP_MATMUL_BT_QUANT || op == OPREG_OP_MOE_MATMUL || op == OPREG_OP_MOE_GLU ||
           op == OPREG_OP_MOE_DOWN || op == OPREG_OP_MOE_FFN;
}

/* The first built-in format of a variant, 0 where the operator has none. */
static uint32_t first_format(const opreg_kernel_row *row) {
    for (size_t i = 0; kit_takes_weights(row->op) && i < format_count(); i++) {
        if (has_word(row->formats, format_at(i)->name)) {
            return format_at(i)->id;
        }
    }
    return kit_takes_weights(row->op) ? (uint32_t)OPREG_Q4_0 : 0;
}

static opreg_status find_reference(kit *k) {
    for (size_t i = 0; i < k->num_kernels; i++) {
        const opreg_kernel_row *row = &k->kernels[i];
        if (strcmp(row->plugin, "cpu") != 0 || !(row->kernel_flags & OPREG_KF_BASELINE) ||
            row->op > OPREG_OP_COUNT) {
            continue;
        }
        snprintf(k->ref.names[row->op], sizeof k->ref.names[0], "cpu/%s", row->kernel);
        for (size_t d = 0; k->ref.where == NULL && d < k->num_devices; d++) {
            if (serves(k, &k->devices[d], "cpu", row->op, first_format(row))) {
                k->ref.where = &k->places[d];
            }
        }
    }
    return k->ref.where != NULL ? OPREG_OK : OPREG_E_UNSUPPORTED;
}

static void add_variant(kit *k, const opreg_kernel_row *row, size_t device) {
    variant *v = &k->variants[k->num_variants++];
    v->row = *row;
    v->where = &k->places[device];
    snprintf(v->name, sizeof v->name, "%.31s/%.63s", row->plugin, row->kernel);
    v->is_reference = strcmp(v->name, k->ref.names[row->op]) == 0;
}

static int is_wanted(const kit *k, const opreg_kernel_row *row) {
    const opreg_kit_options *o = &k->options;
    const opreg_plugin_row *plugin = find_plugin(k, row->plugin);
    return plugin != NULL && plugin->state == OPREG_PLUGIN_READY &&
           (o->plugin == NULL || strcmp(o->plugin, row->plugin) == 0) &&
           (o->kernel == NULL || strcmp(o->kernel, row->kernel) == 0) &&
           (o->op == NULL || row->op == (uint32_t)opreg_op_by_name(o->op));
}

/* 1 when an earlier row is the same device: two plugins may drive one. */
static int is_repeated(const kit *k, size_t device) {
    for (size_t i = 0; i < device; i++) {
        if (k->devices[i].kind == k->devices[device].kind &&
            k->devices[i].ordinal == k->devices[device].ordinal) {
            return 1;
        }
    }
    return 0;
}

static opreg_status find_variants(kit *k) {
    k->variants = calloc(k->num_kernels * k->num_devices + 1, sizeof *k->variants);
    if (k->variants == NULL) {
        return OPREG_E_NOMEM;
    }
    for (size_t i = 0; i < k->num_kernels; i++) {
        const opreg_kernel_row *row = &k->kernels[i];
        for (size_t d = 0; is_wanted(k, row) && d < k->num_devices; d++) {
            if (!is_repeated(k, d) &&
                serves(k, &k->devices[d], row->plugin, row->op, first_format(row))) {
                add_variant(k, row, d);
            }
        }
    }
    return OPREG_OK;
}

static void skip_absent(kit *k) {
    for (size_t i = 0; i < k->num_plugins; i++) {
        const opreg_plugin_row *row = &k->plugins[i];
        char text[400];
        if (k->options.plugin != NULL && strcmp(k->options.plugin, row->name) != 0) {
            continue;
        }
        if (row->state == OPREG_PLUGIN_NO_DEVICE) {
            snprintf(text, sizeof text, "no device for %s: %s", row->archs, row->reason);
            kit_skip(k, row->name, text);
        } else if (row->state == OPREG_PLUGIN_OFF) {
            kit_skip(k, row->name, "the plugin is off: name it to test it");
        } else if (row->state == OPREG_PLUGIN_FAILED) {
            snprintf(text, sizeof text, "the plugin did not load: %s", row->reason);
            kit_skip(k, row->name, text);
        }
    }
}

int kit_is_for(const variant *v, opreg_op op, const char *format) {
    return v->row.op == (uint32_t)op &&
           (!kit_takes_weights((uint32_t)op) || has_word(v->row.formats, format));
}

/* A declared format without a generator, and a variant on no device, are named. */
void kit_check_declared(kit *k) {
    for (size_t i = 0; i < k->num_kernels; i++) {
        const opreg_kernel_row *row = &k->kernels[i];
        size_t devices = 0;
        char text[200];
        for (size_t j = 0; j < k->num_variants; j++) {
            devices += strcmp(k->variants[j].row.flag, row->flag) == 0;
        }
        if (is_wanted(k, row) && devices == 0) {
            opreg_kit_event event = kit_event(k, OPREG_KIT_CELL);
            event.verdict = OPREG_KIT_NEVER_RUN;
            event.op = row->op;
            event.plugin = row->plugin;
            event.kernel = row->kernel;
            event.format = "-";
            event.detail = "listed for no device";
            k->report.never_run++;
            kit_send(k, &event);
        }
        for (const char *at = row->formats; is_wanted(k, row) && *at != '\0';) {
            char word[40];
            size_t length = strcspn(at, " ");
            snprintf(word, sizeof word, "%.*s", (int)length, at);
            if (format_by_name(word) == NULL) {
                snprintf(text, sizeof text, "%.60s: format %s is a plugin's own, the kit has no cases "
                                            "for it", row->kernel, word);
                kit_skip(k, row->plugin, text);
            }
            at += length + strspn(at + length, " ");
        }
    }
}

static int has_wanted(const kit *k) {
    for (size_t i = 0; i < k->num_kernels; i++) {
        if (is_wanted(k, &k->kernels[i])) {
            return 1;
        }
    }
    return 0;
}

static opreg_status list_all(kit *k) {
    LIST(k, opreg_plugins, plugins, num_plugins);
    LIST(k, opreg_devices, devices, num_devices);
    if (k->options.op != NULL && opreg_op_by_name(k->options.op) == 0) {
        return refuse(k, "operator", k->options.op, ": see opreg_op_name");
    }
    if (k->options.format != NULL && format_by_name(k->options.format) == NULL) {
        return refuse(k, "format", k->options.format, ": see opreg_format_row");
    }
    if (k->options.plugin != NULL) {
        const opreg_plugin_row *row = find_plugin(k, k->options.plugin);
        if (row == NULL) {
            return refuse(k, "plugin", k->options.plugin, ": it is neither installed nor added");
        }
        if (row->state == OPREG_PLUGIN_OFF) {
            opreg_status status = opreg_enable(k->reg, k->options.plugin, "on");
            if (status != OPREG_OK) {
                return status;
            }
            free(k->plugins);
            free(k->devices);
            LIST(k, opreg_plugins, plugins, num_plugins);
            LIST(k, opreg_devices, devices, num_devices);
        }
    }
    LIST(k, opreg_kernels, kernels, num_kernels);
    k->places = calloc(k->num_devices + 1, sizeof *k->places);
    if (k->places == NULL) {
        return OPREG_E_NOMEM;
    }
    for (size_t i = 0; i < k->num_devices; i++) {
        opreg_status status = place_open(k->reg, &k->devices[i], &k->places[i]);
        if (status != OPREG_OK) {
            return status;
        }
    }
    return OPREG_OK;
}


opreg_status kit_take_stock(kit *k) {
    opreg_status status = list_all(k);
    status = status == OPREG_OK ? find_reference(k) : status;
    status = status == OPREG_OK ? find_variants(k) : status;
    if (status == OPREG_OK && k->options.kernel != NULL && !has_wanted(k)) {
        status = refuse(k, "variant", k->options.kernel, " in the plugins that are open");
    }
    if (status == OPREG_OK) {
        skip_absent(k);
    }
    return status;
}

void kit_free_stock(kit *k) {
    for (size_t i = 0; k->places != NULL && i < k->num_devices; i++) {
        place_close(&k->places[i]);
    }
    free(k->plugins);
    free(k->kernels);
    free(k->devices);
    free(k->places);
    free(k->variants);
}
