/* SPDX-License-Identifier: MIT
 * kit.c - which variants are tested where, and the count of what was. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "formats/formats.h"
#include "opreg/opreg_test.h"
#include "seeds.h"

#define DEFAULT_SEED UINT64_C(20261130)
#define NAME_BYTES 64

/* Executed and refused cases of one (variant, format, dtypes). */
typedef struct cell {
    size_t variant;
    uint32_t op;
    char format[32], dtypes[32];
    uint64_t cases, refused;
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

/* ---- events -------------------------------------------------------------------------------------- */

static opreg_kit_event blank_event(const kit *k, opreg_kit_kind kind) {
    opreg_kit_event event;
    memset(&event, 0, sizeof event);
    event.struct_size = sizeof event;
    event.kind = (uint32_t)kind;
    event.seed = k->report.seed;
    event.plugin = event.kernel = event.device = event.format = event.dtypes = "";
    event.check = event.data = event.problem = event.detail = "";
    return event;
}

static void send(const kit *k, const opreg_kit_event *event) {
    if (k->options.event != NULL) {
        k->options.event(k->options.user, event);
    }
}

static void skip(kit *k, const char *plugin, const char *detail) {
    opreg_kit_event event = blank_event(k, OPREG_KIT_SKIP);
    event.plugin = plugin;
    event.detail = detail;
    k->report.skipped++;
    send(k, &event);
}

static void device_name(const opreg_device *device, char text[NAME_BYTES]) {
    static const char *const kinds[] = {"?", "cpu", "cuda", "hip"};
    snprintf(text, NAME_BYTES, "%s:%d/%s", kinds[device->kind < 4 ? device->kind : 0],
             (int)device->ordinal, device->arch);
}

static void send_case(kit *k, const variant *v, const case_key *key, const job *of,
                      const finding *f) {
    opreg_kit_event event = blank_event(k, OPREG_KIT_CASE);
    char device[NAME_BYTES], problem[1024] = "";
    event.verdict = f->check == NULL ? OPREG_KIT_PASSED : OPREG_KIT_FAILED;
    k->report.passed += f->check == NULL;
    k->report.failed += f->check != NULL;
    if (k->options.event == NULL) {
        return;
    }
    device_name(&v->where->device, device);
    opreg_problem_print(of->op, &of->problem, problem, sizeof problem);
    event.op = (uint32_t)of->op;
    event.cases = key->index;
    event.seed = key->seed;
    event.plugin = v->row.plugin;
    event.kernel = v->row.kernel;
    event.device = device;
    event.format = of->format;
    event.dtypes = of->dtypes;
    event.check = f->check != NULL ? f->check : "";
    event.data = data_names[of->data];
    event.problem = problem;
    event.detail = f->detail;
    send(k, &event);
}

/* ---- cells --------------------------------------------------------------------------------------- */

static cell *cell_find(kit *k, size_t variant_index, opreg_op op, const char *format,
                       const char *dtypes) {
    cell *fresh;
    for (size_t i = 0; i < k->num_cells; i++) {
        cell *c = &k->cells[i];
        if (c->variant == variant_index && strcmp(c->format, format) == 0 &&
            strcmp(c->dtypes, dtypes) == 0) {
            return c;
        }
    }
    if (k->num_cells == k->cap_cells) {
        size_t cap = k->cap_cells * 2 + 256;
        cell *more = realloc(k->cells, cap * sizeof *more);
        if (more == NULL) {
            return NULL;
        }
        k->cells = more;
        k->cap_cells = cap;
    }
    fresh = &k->cells[k->num_cells++];
    memset(fresh, 0, sizeof *fresh);
    fresh->variant = variant_index;
    fresh->op = (uint32_t)op;
    snprintf(fresh->format, sizeof fresh->format, "%s", format);
    snprintf(fresh->dtypes, sizeof fresh->dtypes, "%s", dtypes);
    return fresh;
}

/* Cases executed of a variant and format, over all dtypes. */
static uint64_t executed(const kit *k, size_t variant_index, const char *format) {
    uint64_t sum = 0;
    for (size_t i = 0; i < k->num_cells; i++) {
        if (k->cells[i].variant == variant_index && strcmp(k->cells[i].format, format) == 0) {
            sum += k->cells[i].cases;
        }
    }
    return sum;
}

static void send_cells(kit *k) {
    for (size_t i = 0; i < k->num_cells; i++) {
        const cell *c = &k->cells[i];
        const variant *v = &k->variants[c->variant];
        opreg_kit_event event = blank_event(k, OPREG_KIT_CELL);
        char device[NAME_BYTES];
        /* a dtype combination that supports always refuses is not declared; a format is */
        if (c->cases == 0 && c->dtypes[0] != '\0') {
            continue;
        }
        device_name(&v->where->device, device);
        event.verdict = c->cases == 0 ? OPREG_KIT_NEVER_RUN : OPREG_KIT_PASSED;
        k->report.never_run += c->cases == 0;
        event.op = c->op;
        event.plugin = v->row.plugin;
        event.kernel = v->row.kernel;
        event.device = device;
        event.format = c->format;
        event.dtypes = c->dtypes;
        event.cases = c->cases;
        event.refused = c->refused;
        send(k, &event);
    }
}

/* E_ARG with a text for opreg_last_error, by way of a device's host. */
static opreg_status refuse(const kit *k, const char *what, const char *name, const char *else_what) {
    const opreg_device_io *io;
    const opreg_host *host;
    if (k->num_devices > 0 &&
        opreg_device_io_get(k->reg, &k->devices[0], &io, &host) == OPREG_OK) {
        host->error(host->ctx, "no %s %s%s", what, name, else_what);
    }
    return OPREG_E_ARG;
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

static int takes_weights(uint32_t op) {
    return op == OPREG_OP_MATMUL_BT_QUANT || op == OPREG_OP_MOE_MATMUL || op == OPREG_OP_MOE_GLU ||
           op == OPREG_OP_MOE_DOWN || op == OPREG_OP_MOE_FFN;
}

/* The first built-in format of a variant, 0 where the operator has none. */
static uint32_t first_format(const opreg_kernel_row *row) {
    for (size_t i = 0; takes_weights(row->op) && i < format_count(); i++) {
        if (has_word(row->formats, format_at(i)->name)) {
            return format_at(i)->id;
        }
    }
    return takes_weights(row->op) ? (uint32_t)OPREG_Q4_0 : 0;
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
            skip(k, row->name, text);
        } else if (row->state == OPREG_PLUGIN_OFF) {
            skip(k, row->name, "the plugin is off: name it to test it");
        } else if (row->state == OPREG_PLUGIN_FAILED) {
            snprintf(text, sizeof text, "the plugin did not load: %s", row->reason);
            skip(k, row->name, text);
        }
    }
}

/* ---- running -------------------------------------------------------------------------------------- */

/* The layouts of other variants of the plugin that take the problem. */
static size_t plugin_layouts(const kit *k, const variant *v, const job *of, uint32_t *ids,
                             size_t cap) {
    opreg_candidate rows[64];
    job any = *of;
    size_t count = 0, found = 0;
    (void)problem_set_layout(&any, OPREG_LAYOUT_ANY);
    if (opreg_explain(k->reg, &v->where->device, of->op, &any.problem, rows, sizeof rows[0], 64,
                      &count) != OPREG_OK) {
        return 0;
    }
    for (size_t i = 0; i < count && i < 64; i++) {
        int known = rows[i].layout == OPREG_LAYOUT_STORED || rows[i].layout == OPREG_LAYOUT_ANY ||
                    strcmp(rows[i].plugin, v->row.plugin) != 0;
        for (size_t j = 0; j < found; j++) {
            known |= ids[j] == rows[i].layout;
        }
        if (!known && found < cap) {
            ids[found++] = rows[i].layout;
        }
    }
    return found;
}

/* The layout that a case of a variant takes: a baseline goes through all of its plugin's. */
static uint32_t choose_layout(const kit *k, const variant *v, const job *of, uint32_t index) {
    uint32_t ids[8];
    size_t count;
    if (of->num_weights == 0) {
        return OPREG_LAYOUT_STORED;
    }
    if (!(v->row.kernel_flags & OPREG_KF_BASELINE)) {
        return OPREG_LAYOUT_ANY;
    }
    count = index % 2 ? plugin_layouts(k, v, of, ids, 8) : 0;
    return count > 0 ? ids[index / 2 % count] : OPREG_LAYOUT_STORED;
}

static check_result run_case(kit *k, size_t variant_index, const case_key *key, const job *of,
                             const finding *reference_finding) {
    variant *v = &k->variants[variant_index];
    finding f = {NULL, ""};
    check_result result;
    cell *c;
    if (reference_finding->check != NULL && v->is_reference) {
        f = *reference_finding;
        result = CHECK_FAILED;
    } else {
        result = check_case(&k->ref, v, key, of, choose_layout(k, v, of, key->index), &f);
    }
    c = cell_find(k, variant_index, of->op, of->format, of->dtypes);
    if (c != NULL) {
        c->cases += result != CHECK_REFUSED;
        c->refused += result == CHECK_REFUSED;
    }
    if (result != CHECK_REFUSED) {
        send_case(k, v, key, of, &f);
    }
    return result;
}

static int is_for(const variant *v, opreg_op op, const char *format) {
    return v->row.op == (uint32_t)op &&
           (!takes_weights((uint32_t)op) || has_word(v->row.formats, format));
}

static void progress(kit *k) {
    opreg_kit_event event = blank_event(k, OPREG_KIT_PROGRESS);
    k->done++;
    event.cases = k->done;
    event.refused = k->total;
    send(k, &event);
}

/* One case: made once, run through the reference once, then through every variant it is for. */
static void run_index(kit *k, const case_key *key, const char *format, size_t only) {
    finding f = {NULL, ""};
    job of;
    if (!case_make(key, &of)) {
        return;
    }
    opreg_status status = reference_run(&k->ref, &of, &f);
    if (status != OPREG_OK) {
        finding_set(&f, "reference", "the reference refuses the case: %s: %s",
                    opreg_status_name(status), opreg_last_error());
    }
    for (size_t i = 0; i < k->num_variants; i++) {
        if ((only == SIZE_MAX || only == i) && is_for(&k->variants[i], key->op, format) &&
            (f.check == NULL || k->variants[i].is_reference)) {
            run_case(k, i, key, &of, &f);
        }
    }
    job_clear(&of);
}

/* A variant that admitted none of the sample is looked for in the whole table. */
static void search(kit *k, size_t variant_index, opreg_op op, uint32_t format, const char *name) {
    uint32_t first = cases_count(op, format, k->options.flags);
    uint64_t wanted = 12;
    for (uint32_t i = first; i < first + 600 && executed(k, variant_index, name) < wanted; i++) {
        const variant *v = &k->variants[variant_index];
        case_key key = {op, format, i, 0, k->report.seed};
        opreg_plan *plan = NULL;
        job of;
        if (!case_make(&key, &of)) {
            return;
        }
        (void)problem_set_layout(&of, choose_layout(k, v, &of, i));
        opreg_status status = opreg_plan_create_named(k->reg, &v->where->device, op, &of.problem,
                                                      v->name, &plan);
        opreg_plan_destroy(plan);
        job_clear(&of);
        if (status == OPREG_OK) {
            run_index(k, &key, name, variant_index);
        }
    }
}

static void run_table(kit *k, opreg_op op, uint32_t format, const char *name) {
    uint32_t count = cases_count(op, format, k->options.flags);
    size_t users = 0;
    for (size_t i = 0; i < k->num_variants; i++) {
        users += (size_t)is_for(&k->variants[i], op, name);
    }
    for (uint32_t i = 0; users > 0 && i < count; i++) {
        case_key key = {op, format, i, 0, k->report.seed};
        run_index(k, &key, name, SIZE_MAX);
        progress(k);
    }
    for (size_t i = 0; users > 0 && i < kept_case_count; i++) {
        const case_key *key = &kept_cases[i].key;
        if (key->op == op && key->format == format) {
            run_index(k, key, name, SIZE_MAX);
            progress(k);
        }
    }
    for (size_t i = 0; i < k->num_variants; i++) {
        if (is_for(&k->variants[i], op, name)) {
            if (executed(k, i, name) < 12) {
                search(k, i, op, format, name);
            }
            if (executed(k, i, name) == 0) {
                (void)cell_find(k, i, op, name, ""); /* never-run */
            }
        }
    }
}

/* Every operator and format, as a call on each that some variant is for. */
static void for_tables(kit *k, void (*visit)(kit *, opreg_op, uint32_t, const char *)) {
    for (uint32_t op = 1; op <= OPREG_OP_COUNT; op++) {
        if (!takes_weights(op)) {
            visit(k, (opreg_op)op, 0, "-");
            continue;
        }
        for (size_t i = 0; i < format_count(); i++) {
            visit(k, (opreg_op)op, format_at(i)->id, format_at(i)->name);
        }
    }
}

static void count_table(kit *k, opreg_op op, uint32_t format, const char *name) {
    for (size_t i = 0; i < k->num_variants; i++) {
        if (is_for(&k->variants[i], op, name)) {
            k->total += cases_count(op, format, k->options.flags) + kept_cases_of(op, format);
            return;
        }
    }
}

/* A declared format without a generator, and a variant on no device, are named. */
static void check_declared(kit *k) {
    for (size_t i = 0; i < k->num_kernels; i++) {
        const opreg_kernel_row *row = &k->kernels[i];
        size_t devices = 0;
        char text[200];
        for (size_t j = 0; j < k->num_variants; j++) {
            devices += strcmp(k->variants[j].row.flag, row->flag) == 0;
        }
        if (is_wanted(k, row) && devices == 0) {
            opreg_kit_event event = blank_event(k, OPREG_KIT_CELL);
            event.verdict = OPREG_KIT_NEVER_RUN;
            event.op = row->op;
            event.plugin = row->plugin;
            event.kernel = row->kernel;
            event.format = "-";
            event.detail = "listed for no device";
            k->report.never_run++;
            send(k, &event);
        }
        for (const char *at = row->formats; is_wanted(k, row) && *at != '\0';) {
            char word[40];
            size_t length = strcspn(at, " ");
            snprintf(word, sizeof word, "%.*s", (int)length, at);
            if (format_by_name(word) == NULL) {
                snprintf(text, sizeof text, "%.60s: format %s is a plugin's own, the kit has no cases "
                                            "for it", row->kernel, word);
                skip(k, row->plugin, text);
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

static opreg_status take_stock(kit *k) {
    LIST(k, opreg_plugins, plugins, num_plugins);
    LIST(k, opreg_devices, devices, num_devices);
    if (k->options.op != NULL && opreg_op_by_name(k->options.op) == 0) {
        return refuse(k, "operator", k->options.op, ": see opreg_op_name");
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
    status = status == OPREG_OK ? take_stock(&k) : status;
    status = status == OPREG_OK ? find_reference(&k) : status;
    status = status == OPREG_OK ? find_variants(&k) : status;
    if (status == OPREG_OK && k.options.kernel != NULL && !has_wanted(&k)) {
        status = refuse(&k, "variant", k.options.kernel, " in the plugins that are open");
    }
    if (status == OPREG_OK) {
        skip_absent(&k);
        for_tables(&k, count_table);
        for_tables(&k, run_table);
        send_cells(&k);
        check_declared(&k);
    }
    memory_watch_end();
    k.report.struct_size = sizeof k.report;
    memcpy(report, &k.report, sizeof k.report);
    for (size_t i = 0; k.places != NULL && i < k.num_devices; i++) {
        place_close(&k.places[i]);
    }
    free(k.plugins);
    free(k.kernels);
    free(k.devices);
    free(k.places);
    free(k.variants);
    free(k.cells);
    return status;
}
