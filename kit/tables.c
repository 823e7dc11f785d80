/* SPDX-License-Identifier: MIT
 * tables.c - runs the cases of every operator and format through every variant that is for them. */
#include <stdlib.h>
#include <string.h>

#include "cases_far.h"
#include "formats/formats.h"
#include "kit.h"
#include "seeds.h"

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
    c = kit_cell(k, variant_index, of->op, of->format, of->dtypes);
    if (c != NULL) {
        c->cases += result != CHECK_REFUSED;
        c->far += result != CHECK_REFUSED && is_far(key);
        c->refused += result == CHECK_REFUSED;
    }
    if (result != CHECK_REFUSED) {
        kit_send_case(k, v, key, of, &f);
    }
    return result;
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
        if ((only == SIZE_MAX || only == i) && kit_is_for(&k->variants[i], key->op, format) &&
            (f.check == NULL || k->variants[i].is_reference)) {
            run_case(k, i, key, &of, &f);
        }
    }
    job_clear(&of);
}

/* 1 when the variant takes the case. */
static int is_taken(const kit *k, const variant *v, const case_key *key) {
    opreg_plan *plan = NULL;
    job of;
    if (!case_make(key, &of)) {
        return 0;
    }
    (void)problem_set_layout(&of, choose_layout(k, v, &of, key->index));
    opreg_status status = opreg_plan_create_named(k->reg, &v->where->device, key->op, &of.problem,
                                                  v->name, &plan);
    opreg_plan_destroy(plan);
    job_clear(&of);
    return status == OPREG_OK;
}

/* A variant that admitted few of the sample is looked for in the whole table, and one that admitted
 * none of the far cases in more of those. */
static void search(kit *k, size_t variant_index, const case_key *start, const char *name) {
    static const struct {
        uint32_t from, most;
        uint64_t wanted;
    } ranges[] = {{0, 600, 12}, {CASE_FAR, 60, 1}};
    for (int far = 0; far < 2; far++) {
        case_key key = *start;
        uint32_t first = far ? cases_far(key.op, k->options.flags)
                             : cases_count(key.op, key.format, k->options.flags);
        for (uint32_t i = first; i < first + ranges[far].most &&
                                 kit_executed(k, variant_index, name, far) < ranges[far].wanted;
             i++) {
            key.index = ranges[far].from + i;
            if (is_taken(k, &k->variants[variant_index], &key)) {
                run_index(k, &key, name, variant_index);
            }
        }
    }
}

static void run_table(kit *k, opreg_op op, uint32_t format, const char *name) {
    uint32_t count = cases_count(op, format, k->options.flags);
    size_t users = 0;
    for (size_t i = 0; i < k->num_variants; i++) {
        users += (size_t)kit_is_for(&k->variants[i], op, name);
    }
    for (uint32_t i = 0; users > 0 && i < count; i++) {
        case_key key = {op, format, i, 0, k->report.seed};
        run_index(k, &key, name, SIZE_MAX);
        kit_progress(k);
    }
    for (uint32_t i = 0; users > 0 && i < cases_far(op, k->options.flags); i++) {
        case_key key = {op, format, CASE_FAR + i, 0, k->report.seed};
        run_index(k, &key, name, SIZE_MAX);
        kit_progress(k);
    }
    for (size_t i = 0; users > 0 && i < kept_case_count; i++) {
        const case_key *key = &kept_cases[i].key;
        if (key->op == op && key->format == format) {
            run_index(k, key, name, SIZE_MAX);
            kit_progress(k);
        }
    }
    for (size_t i = 0; i < k->num_variants; i++) {
        if (kit_is_for(&k->variants[i], op, name)) {
            case_key key = {op, format, 0, 0, k->report.seed};
            search(k, i, &key, name);
            if (kit_executed(k, i, name, 0) == 0) {
                (void)kit_cell(k, i, op, name, ""); /* never-run */
            }
        }
    }
}

/* Every operator and format that the options ask for. */
static void for_tables(kit *k, void (*visit)(kit *, opreg_op, uint32_t, const char *)) {
    const char *only = k->options.format;
    for (uint32_t op = 1; op <= OPREG_OP_COUNT; op++) {
        if (!kit_takes_weights(op)) {
            if (only == NULL) {
                visit(k, (opreg_op)op, 0, "-");
            }
            continue;
        }
        for (size_t i = 0; i < format_count(); i++) {
            if (only == NULL || strcmp(only, format_at(i)->name) == 0) {
                visit(k, (opreg_op)op, format_at(i)->id, format_at(i)->name);
            }
        }
    }
}

static void count_table(kit *k, opreg_op op, uint32_t format, const char *name) {
    for (size_t i = 0; i < k->num_variants; i++) {
        if (kit_is_for(&k->variants[i], op, name)) {
            k->total += cases_count(op, format, k->options.flags) +
                        cases_far(op, k->options.flags) + kept_cases_of(op, format);
            return;
        }
    }
}

void kit_run_tables(kit *k) {
    for_tables(k, count_table);
    for_tables(k, run_table);
}
