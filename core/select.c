/* SPDX-License-Identifier: MIT
 * select.c - ranks every variant of an operator on a device, each with its verdict and reason. */
#include "select.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

/* ---- devices -------------------------------------------------------------------------------- */

opreg_status device_load(const opreg_device *dev, opreg_device *out) {
    opreg_status status = struct_load(out, sizeof *out, dev, "device");
    if (status == OPREG_OK && (out->kind < OPREG_CPU || out->kind > OPREG_HIP)) {
        status = fail(OPREG_E_ARG, "the device has kind %u: use a row of opreg_devices", out->kind);
    }
    out->arch[sizeof out->arch - 1] = '\0';
    return status;
}

const opreg_device *plugin_device(const plugin_entry *entry, const opreg_device *dev) {
    for (size_t i = 0; i < entry->num_devices; i++) {
        if (entry->devices[i].kind == dev->kind && entry->devices[i].ordinal == dev->ordinal) {
            return &entry->devices[i];
        }
    }
    return NULL;
}

void device_text(const opreg_device *dev, char *out, size_t cap) {
    static const char *const kinds[] = {"cpu", "cuda", "hip"};
    snprintf(out, cap, "%s:%d/%s",
             dev->kind >= OPREG_CPU && dev->kind <= OPREG_HIP ? kinds[dev->kind - 1u] : "?",
             dev->ordinal, dev->arch[0] != '\0' ? dev->arch : "?");
}

/* ---- one variant ---------------------------------------------------------------------------- */

static int lists_format(const uint32_t *formats, uint32_t format) {
    for (; formats != NULL && *formats != 0; formats++) {
        if (*formats == format) {
            return 1;
        }
    }
    return 0;
}

const opreg_layout *select_layout(const plugin_entry *entry, uint32_t id) {
    for (uint32_t i = 0; i < entry->table.num_layouts; i++) {
        if (entry->layouts[i].id == id) {
            return &entry->layouts[i];
        }
    }
    return NULL;
}

void select_set_layouts(opreg_op op, problem_any *problem,
                        const uint32_t layouts[PROBLEM_MAX_WEIGHTS]) {
    switch (op) {
    case OPREG_OP_MATMUL_BT_QUANT:
        problem->matmul.layout = layouts[0];
        break;
    case OPREG_OP_MOE_MATMUL:
    case OPREG_OP_MOE_GLU:
    case OPREG_OP_MOE_DOWN:
        problem->moe.layout = layouts[0];
        break;
    case OPREG_OP_MOE_FFN:
        problem->ffn.layout = layouts[0];
        problem->ffn.down_layout = layouts[2];
        break;
    default:
        break;
    }
}

__attribute__((format(printf, 2, 3))) static opreg_status refuse(candidate *row, const char *format,
                                                                 ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(row->reason, sizeof row->reason, format, arguments);
    va_end(arguments);
    row->verdict = OPREG_E_UNSUPPORTED;
    return OPREG_E_UNSUPPORTED;
}

/* Which layout the variant reads the weight in; refuses when the problem asks for another. */
static opreg_status resolve_layout(candidate *row, const opreg_kernel *kernel,
                                   const problem_weight *weight, uint32_t *out) {
    const opreg_layout *layout;
    uint32_t id = kernel->layout == OPREG_LAYOUT_ANY ? weight->layout : kernel->layout;
    if (id == OPREG_LAYOUT_ANY) {
        id = OPREG_LAYOUT_STORED; /* both take any: what needs no preparation */
    }
    if (weight->layout != OPREG_LAYOUT_ANY && weight->layout != id) {
        layout = select_layout(row->entry, id);
        return weight->layout == OPREG_LAYOUT_STORED
                   ? refuse(row, "it reads %s prepared as %s (layout %u), the problem has it stored",
                            weight->name, layout != NULL ? layout->name : "?", id)
                   : refuse(row, "it reads %s %s%s, the problem has it in layout %u", weight->name,
                            id == OPREG_LAYOUT_STORED ? "stored" : "prepared as ",
                            layout != NULL ? layout->name : "", weight->layout);
    }
    *out = id;
    if (id == OPREG_LAYOUT_STORED) {
        return OPREG_OK;
    }
    layout = select_layout(row->entry, id);
    if (layout == NULL) {
        return refuse(row, "plugin %s has no layout %u", row->entry->name, id);
    }
    if (!lists_format(layout->formats, weight->format) ||
        layout->bytes(row->dev, weight->format, weight->experts, weight->n, weight->k) == 0) {
        return refuse(row, "layout %s does not take %s %s [%lld, %lld, %lld]", layout->name,
                      opreg_dtype_name(weight->format), weight->name, (long long)weight->experts,
                      (long long)weight->n, (long long)weight->k);
    }
    return OPREG_OK;
}

static const char *level_name(uint32_t level) {
    static const char *const names[] = {"any", "band", "int", "canonical"};
    return level <= OPREG_LEVEL_CANONICAL ? names[level] : "?";
}

static opreg_status judge_promises(candidate *row, const opreg_kernel *kernel, opreg_op op,
                                   const problem_any *problem) {
    static const struct {
        uint32_t asked, kept;
        const char *name;
    } promises[] = {
        {OPREG_PF_DETERMINISTIC, OPREG_KF_DETERMINISTIC, "deterministic"},
        {OPREG_PF_GRAPH_SAFE, OPREG_KF_GRAPH_SAFE, "graph-safe"},
        {OPREG_PF_WIDTH_INVARIANT, OPREG_KF_WIDTH_INVARIANT, "width-invariant"},
    };
    const problem_op *about = problem_op_find(op);
    uint32_t level, asked;
    memcpy(&level, problem->bytes + about->level_offset, sizeof level);
    memcpy(&asked, problem->bytes + about->flags_offset, sizeof asked);
    if (kernel->level < level) {
        return refuse(row, "its level is %s, the problem asks for %s", level_name(kernel->level),
                      level_name(level));
    }
    for (size_t i = 0; i < sizeof promises / sizeof promises[0]; i++) {
        if ((asked & promises[i].asked) != 0 && (kernel->flags & promises[i].kept) == 0) {
            return refuse(row, "it is not %s, which the problem asks for", promises[i].name);
        }
    }
    return OPREG_OK;
}

opreg_status select_judge(plugin_entry *entry, size_t kernel, const opreg_device *dev, opreg_op op,
                          const problem_any *problem, candidate *out) {
    const opreg_kernel *k = &entry->kernels[kernel];
    problem_weight weights[PROBLEM_MAX_WEIGHTS];
    uint32_t count = problem_weights(op, problem, weights);
    problem_any resolved = *problem;
    char reason[128] = "";
    memset(out, 0, sizeof *out);
    out->entry = entry;
    out->kernel = kernel;
    out->dev = dev;
    out->rank = -1;
    out->on = kernel_is_on(entry, kernel);
    out->lists = 1;
    for (uint32_t i = 0; i < count; i++) {
        out->lists = out->lists && lists_format(k->formats, weights[i].format);
    }
    if (!out->lists) {
        return refuse(out, "it is not for %s weights",
                      opreg_dtype_name(lists_format(k->formats, weights[0].format) && count > 2
                                           ? weights[2].format
                                           : weights[0].format));
    }
    if (judge_promises(out, k, op, problem) != OPREG_OK) {
        return out->verdict;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (resolve_layout(out, k, &weights[i], &out->layouts[i]) != OPREG_OK) {
            return out->verdict;
        }
    }
    select_set_layouts(op, &resolved, out->layouts);
    out->verdict = k->supports(dev, &resolved, reason);
    reason[sizeof reason - 1] = '\0';
    if (out->verdict != OPREG_OK) {
        return refuse(out, "%s", reason[0] != '\0' ? reason : "it gives no reason");
    }
    out->workspace = k->workspace != NULL ? k->workspace(dev, &resolved) : 0;
    return OPREG_OK;
}

void candidate_name(const candidate *row, char *out, size_t cap) {
    if (row->kernel == NO_KERNEL) {
        snprintf(out, cap, "%s", row->entry->name);
    } else {
        snprintf(out, cap, "%s/%s", row->entry->name, row->entry->kernels[row->kernel].name);
    }
}

/* ---- ranking -------------------------------------------------------------------------------- */

static int compare(const void *left, const void *right) {
    const candidate *a = left, *b = right;
    const opreg_kernel *ka, *kb;
    int group_a = a->verdict == OPREG_OK ? 0 : a->verdict == OPREG_E_DISABLED ? 1 : 2;
    int group_b = b->verdict == OPREG_OK ? 0 : b->verdict == OPREG_E_DISABLED ? 1 : 2;
    int by_name;
    if (group_a != group_b) {
        return group_a - group_b;
    }
    if (a->kernel == NO_KERNEL || b->kernel == NO_KERNEL) {
        return a->kernel != b->kernel ? (a->kernel == NO_KERNEL ? 1 : -1)
                                      : strcmp(a->entry->name, b->entry->name);
    }
    ka = &a->entry->kernels[a->kernel];
    kb = &b->entry->kernels[b->kernel];
    if ((ka->flags & OPREG_KF_BASELINE) != (kb->flags & OPREG_KF_BASELINE)) {
        return (ka->flags & OPREG_KF_BASELINE) != 0 ? 1 : -1;
    }
    if (ka->priority != kb->priority) {
        return ka->priority > kb->priority ? -1 : 1;
    }
    by_name = strcmp(ka->name, kb->name);
    return by_name != 0 ? by_name : strcmp(a->entry->name, b->entry->name);
}

static int lists_arch(const char *archs, const char *arch) {
    char word[64];
    while (next_word(&archs, word, sizeof word)) {
        if (strcmp(word, arch) == 0) {
            return 1;
        }
    }
    return 0;
}

static void add_closed(opreg_registry *reg, plugin_entry *entry, candidate *row) {
    memset(row, 0, sizeof *row);
    row->entry = entry;
    row->kernel = NO_KERNEL;
    row->rank = -1;
    if (entry->state == OPREG_PLUGIN_FAILED) {
        refuse(row, "plugin %s failed: %.140s", entry->name, entry->reason);
        return;
    }
    if (entry->state == OPREG_PLUGIN_UNLOADED) {
        refuse(row, "plugin %s was unloaded", entry->name);
        return;
    }
    row->verdict = OPREG_E_DISABLED;
    snprintf(row->reason, sizeof row->reason, "plugin off, it may take it: set %s=on",
             reg->flags.rows[entry->flag].variable);
}

static void judge_plugin(opreg_registry *reg, plugin_entry *entry, const opreg_device *dev,
                         opreg_op op, const problem_any *problem, candidate *rows, size_t *count) {
    const opreg_device *row = plugin_device(entry, dev);
    int level_on = flags_on(&reg->flags, entry->flag);
    if (entry->table.name == NULL) {
        if (entry->about != NULL && entry->about->device == dev->kind &&
            lists_arch(entry->about->archs, dev->arch)) {
            add_closed(reg, entry, &rows[(*count)++]);
        }
        return;
    }
    for (size_t k = 0; row != NULL && k < entry->table.num_kernels; k++) {
        candidate *out = &rows[*count];
        if (entry->kernels[k].op != (uint32_t)op) {
            continue;
        }
        (*count)++;
        if (select_judge(entry, k, row, op, problem, out) == OPREG_OK && !out->on) {
            out->verdict = OPREG_E_DISABLED;
            snprintf(out->reason, sizeof out->reason, "flag off: set %s=on",
                     reg->flags.rows[level_on ? entry->kernel_flags[k] : entry->flag].variable);
        }
    }
}

opreg_status select_rank(opreg_registry *reg, const opreg_device *dev, opreg_op op,
                         const problem_any *problem, candidate **rows, size_t *count) {
    size_t most = reg->num_plugins + 1;
    for (size_t i = 0; i < reg->num_plugins; i++) {
        most += reg->plugins[i]->table.num_kernels;
    }
    *count = 0;
    *rows = calloc(most, sizeof **rows);
    if (*rows == NULL) {
        return fail(OPREG_E_NOMEM, "no memory for %zu candidates", most);
    }
    for (size_t i = 0; i < reg->num_plugins; i++) {
        judge_plugin(reg, reg->plugins[i], dev, op, problem, *rows, count);
    }
    qsort(*rows, *count, sizeof **rows, compare);
    for (size_t i = 0; i < *count && (*rows)[i].verdict == OPREG_OK; i++) {
        (*rows)[i].rank = (int32_t)i;
    }
    return OPREG_OK;
}

/* ---- why not -------------------------------------------------------------------------------- */

/* "cuda-sm60/a: reason; cuda-sm60/b: reason" of the rows that want says. */
static void list_reasons(const candidate *rows, size_t count, int (*want)(const candidate *row),
                         char *out, size_t cap) {
    size_t at = 0;
    char name[128];
    out[0] = '\0';
    for (size_t i = 0; i < count && at < cap; i++) {
        int wrote;
        if (!want(&rows[i])) {
            continue;
        }
        candidate_name(&rows[i], name, sizeof name);
        wrote = snprintf(out + at, cap - at, "%s%s: %s", at > 0 ? "; " : "", name, rows[i].reason);
        at += wrote > 0 ? (size_t)wrote : 0;
    }
}

static int is_any(const candidate *row) {
    (void)row;
    return 1;
}

static int is_disabled(const candidate *row) { return row->verdict == OPREG_E_DISABLED; }

static int is_baseline(const candidate *row) {
    return row->kernel != NO_KERNEL &&
           (row->entry->kernels[row->kernel].flags & OPREG_KF_BASELINE) != 0;
}

static int is_on_and_lists(const candidate *row) {
    return row->kernel != NO_KERNEL && !is_baseline(row) && row->on && row->lists;
}

opreg_status select_refusal(const opreg_device *dev, opreg_op op, const candidate *rows,
                            size_t count) {
    char device[64], reasons[3072];
    device_text(dev, device, sizeof device);
    if (count == 0) {
        return fail(OPREG_E_UNSUPPORTED, "no open plugin has a %s on device %s", opreg_op_name(op),
                    device);
    }
    if (rows[0].verdict == OPREG_E_DISABLED) {
        list_reasons(rows, count, is_disabled, reasons, sizeof reasons);
        return fail(OPREG_E_DISABLED, "%s on %s: %s", opreg_op_name(op), device, reasons);
    }
    list_reasons(rows, count, is_any, reasons, sizeof reasons);
    return fail(OPREG_E_UNSUPPORTED, "no variant on %s takes this %s: %s", device,
                opreg_op_name(op), reasons);
}

opreg_status select_strict(opreg_op op, const candidate *rows, size_t count) {
    char name[128], reasons[3072];
    if (!is_baseline(&rows[0])) {
        return OPREG_OK;
    }
    list_reasons(rows, count, is_on_and_lists, reasons, sizeof reasons);
    if (reasons[0] == '\0') {
        return OPREG_OK;
    }
    candidate_name(&rows[0], name, sizeof name);
    return fail(OPREG_E_STRICT, "strict: %s would take the baseline %s, because %s",
                opreg_op_name(op), name, reasons);
}

/* ---- explain -------------------------------------------------------------------------------- */

static void fill_row(const candidate *row, opreg_candidate *out) {
    memset(out, 0, sizeof *out);
    out->verdict = (int32_t)row->verdict;
    out->rank = row->rank;
    out->workspace = row->workspace;
    out->layout = row->layouts[0];
    snprintf(out->plugin, sizeof out->plugin, "%s", row->entry->name);
    snprintf(out->reason, sizeof out->reason, "%.*s", (int)sizeof out->reason - 1, row->reason);
    if (row->kernel != NO_KERNEL) {
        const opreg_kernel *k = &row->entry->kernels[row->kernel];
        out->level = k->level;
        out->kernel_flags = k->flags;
        snprintf(out->kernel, sizeof out->kernel, "%s", k->name);
    }
    candidate_name(row, out->flag, sizeof out->flag);
}

static opreg_status explain(opreg_registry *reg, const opreg_device *dev, opreg_op op,
                            const problem_any *problem, unsigned char *out, size_t row_bytes,
                            size_t cap, size_t *count) {
    const problem_formats extra = registry_formats(reg);
    candidate *rows = NULL;
    opreg_candidate row;
    opreg_status status = problem_check(op, problem, &extra);
    if (status == OPREG_OK) {
        status = select_rank(reg, dev, op, problem, &rows, count);
    }
    for (size_t i = 0; status == OPREG_OK && i < *count && i < cap; i++) {
        fill_row(&rows[i], &row);
        struct_store(out + i * row_bytes, row_bytes, &row, sizeof row);
    }
    free(rows);
    return status;
}

opreg_status opreg_explain(opreg_registry *reg, const opreg_device *dev, opreg_op op,
                           const void *problem, opreg_candidate *rows, size_t row_bytes, size_t cap,
                           size_t *count) {
    problem_any full;
    opreg_device device;
    size_t found = 0;
    opreg_status status;
    if (reg == NULL || count == NULL || (rows == NULL && cap > 0)) {
        return fail(OPREG_E_ARG, "the %s is null",
                    reg == NULL     ? "registry"
                    : count == NULL ? "count"
                                    : "rows pointer");
    }
    status = device_load(dev, &device);
    if (status == OPREG_OK) {
        status = problem_load(op, problem, &full);
    }
    if (status == OPREG_OK) {
        status = registry_lock(reg);
    }
    if (status != OPREG_OK) {
        return status;
    }
    status = explain(reg, &device, op, &full, (unsigned char *)rows, row_bytes, cap, &found);
    registry_unlock(reg);
    if (status == OPREG_OK) {
        *count = found;
    }
    return status;
}
