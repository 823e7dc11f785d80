/* SPDX-License-Identifier: MIT
 * bench_report.c - rows of a bench as text, read from a file, held against another run's, summed.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static const char *text_of(const json_t *row, const char *key) {
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "-";
}

static double number_of(const json_t *row, const char *key) {
    const json_t *value = json_object_get(row, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static int says(const json_t *row, const char *key) {
    return json_is_true(json_object_get(row, key));
}

/* ---- columns ---- */

/* In the order of bench/baselines; decimals below 0 are those of an exponent. */
static const struct {
    const char *key;
    int decimals;
} columns[] = {{"op", 0},       {"format", 0},    {"m", 0},      {"n", 0},       {"k", 0},
               {"problem", 0},  {"kernel", 0},    {"level", 0},  {"us", 2},      {"spread", 2},
               {"floor_us", 2}, {"pct_floor", 1}, {"gbps", 0},   {"ratio", 2},   {"nmse", -1},
               {"cold", 0},     {"device", 0},    {"driver", 0}, {"toolkit", 0}, {"date", 0},
               {"command", 0}};
#define COLUMNS (sizeof columns / sizeof *columns)

void bench_print_heading(void) {
    for (size_t i = 0; i < COLUMNS; i++) {
        printf("%s%s", i ? "\t" : "", columns[i].key);
    }
    putchar('\n');
}

static void print_columns(const json_t *row) {
    if (json_is_string(json_object_get(row, "failed")) ||
        strcmp(text_of(row, "op"), "token") == 0) {
        return; /* the columns have no place for them */
    }
    for (size_t i = 0; i < COLUMNS; i++) {
        const json_t *value = json_object_get(row, columns[i].key);
        fputs(i ? "\t" : "", stdout);
        if (json_is_boolean(value)) {
            fputs(json_is_true(value) ? "cold" : "warm", stdout);
        } else if (json_is_number(value) && columns[i].decimals < 0) {
            printf("%.*e", -columns[i].decimals, json_number_value(value));
        } else if (json_is_number(value)) {
            printf("%.*f", columns[i].decimals, json_number_value(value));
        } else {
            fputs(text_of(row, columns[i].key), stdout);
        }
    }
    putchar('\n');
    fflush(stdout);
}

/* ---- lines for people ---- */

/* "KEY=" of a problem's text; "" where it is not there. */
static const char *word_of(const char *problem, const char *key, char out[32]) {
    size_t length = strlen(key);
    out[0] = '\0';
    for (const char *p = problem; p && *p; p = strchr(p, ' ') ? strchr(p, ' ') + 1 : NULL) {
        if (strncmp(p, key, length) == 0 && p[length] == '=') {
            snprintf(out, 32, "%.*s", (int)strcspn(p + length + 1, " "), p + length + 1);
        }
    }
    return out;
}

static void add(char *text, size_t cap, const char *name, const char *value) {
    size_t used = strlen(text);
    if (value[0] && strcmp(value, "0") != 0 && used < cap) {
        snprintf(text + used, cap - used, "%s%s%s", used ? " " : "", name, value);
    }
}

/* "m1 n4096 k4096", "m4 n640 k2560 e512 top10", "s8 len4096 hq32 hk8 d128". */
void bench_shape(const json_t *row, char *text, size_t cap) {
    static const struct {
        const char *op, *key, *name;
    } words[] = {{"moe_", "experts", "e"}, {"moe_", "top_k", "top"},       {"paged_", "seqs", "s"},
                 {"paged_", "len", "len"}, {"paged_", "hq", "hq"},         {"paged_", "hk", "hk"},
                 {"paged_", "d", "d"},     {"paged_", "window", "window"}, {"paged_", "kv", ""},
                 {"quantize_", "q", ""}};
    static const char *const sides[] = {"m", "n", "k"};
    const char *op = text_of(row, "op"), *problem = text_of(row, "problem");
    char word[32];
    text[0] = '\0';
    for (size_t i = 0; i < 3; i++) {
        const json_t *side = json_object_get(row, sides[i]);
        if (json_is_number(side)) {
            snprintf(word, sizeof word, "%.0f", json_number_value(side));
            add(text, cap, sides[i], word);
        }
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strncmp(op, words[i].op, strlen(words[i].op)) == 0) {
            add(text, cap, words[i].name, word_of(problem, words[i].key, word));
        }
    }
}

static void print_compared(const json_t *row) {
    double was = number_of(row, "was_us");
    if (strcmp(text_of(row, "change"), "new") == 0) {
        printf("  new");
    } else if (isfinite(was)) {
        printf("  was %.2f us, %+.1f %%%s", was, 100.0 * (number_of(row, "us") / was - 1.0),
               strcmp(text_of(row, "change"), "regressed") == 0 ? ": REGRESSED" : "");
    }
    if (says(row, "choice_changed")) {
        printf("  WAS CHOSEN: %s", text_of(row, "was_chosen"));
    }
}

void bench_print(const json_t *row, const bench_style *style) {
    char shape[160];
    double floor_us = number_of(row, "floor_us");
    if (style->json) {
        print_json(json_incref((json_t *)(uintptr_t)row));
        return;
    }
    if (style->columns) {
        print_columns(row);
        return;
    }
    bench_shape(row, shape, sizeof shape);
    printf("%-17s %-8s %-36s %-32s ", text_of(row, "op"), text_of(row, "format"), shape,
           text_of(row, "kernel"));
    if (json_is_string(json_object_get(row, "failed"))) {
        printf("FAILED: %s\n", text_of(row, "failed"));
        return;
    }
    printf("%9.2f us", number_of(row, "us"));
    if (isfinite(number_of(row, "spread"))) {
        printf(" +/- %-6.2f", number_of(row, "spread"));
    }
    if (isfinite(floor_us)) {
        printf("  floor %.2f us %5.1f %%", floor_us, number_of(row, "pct_floor"));
    } else {
        printf("  floor unknown");
    }
    if (isfinite(number_of(row, "gbps"))) {
        printf(" %7.1f GB/s", number_of(row, "gbps"));
    }
    if (isfinite(number_of(row, "warm_us"))) {
        printf("  warm %.2f us", number_of(row, "warm_us"));
    }
    if (isfinite(number_of(row, "nmse"))) {
        printf("  err %.1e", number_of(row, "nmse"));
    }
    if (isfinite(number_of(row, "ratio"))) {
        printf("  (%5.2fx)", number_of(row, "ratio"));
    }
    if (isfinite(number_of(row, "count")) && strcmp(text_of(row, "op"), "token") != 0) {
        printf("  %.0f a token", number_of(row, "count"));
    }
    printf("%s", says(row, "chosen") ? "  chosen" : "");
    if (style->compared) {
        print_compared(row);
    }
    putchar('\n');
    fflush(stdout);
}

/* ---- files ---- */

/* What the columns do not say, from the problem: of the plots. */
static void add_cost(json_t *row) {
    opreg_op op = opreg_op_by_name(text_of(row, "op"));
    double floor_us = number_of(row, "floor_us");
    bench_case c;
    if (op && bench_case_parse(text_of(row, "problem"), op, &c)) {
        bench_cost cost = bench_cost_of(&c);
        json_object_set_new(row, "bytes", json_number(cost.bytes));
        json_object_set_new(row, "operations", json_number(cost.operations));
        json_object_set_new(row, "stream_gbps", json_number(1e-3 * cost.bytes / floor_us));
    }
}

/* A line of tab-separated columns, as bench/baselines has them. */
static json_t *read_columns(char *line) {
    json_t *row = json_object();
    for (size_t i = 0; i < COLUMNS && line; i++) {
        char *end = strchr(line, '\t'), *last;
        double number;
        if (end) {
            *end = '\0';
        }
        number = strtod(line, &last);
        json_object_set_new(row, columns[i].key,
                            strcmp(line, "-") == 0                ? json_null()
                            : strcmp(columns[i].key, "cold") == 0 ? json_boolean(*line == 'c')
                            : last != line && *last == '\0'       ? json_number(number)
                                                                  : json_string(line));
        line = end ? end + 1 : NULL;
    }
    add_cost(row);
    return row;
}

/* Null where a line is no row; a comment or the heading is an empty object. */
static json_t *read_line(char *line, json_error_t *error) {
    line[strcspn(line, "\r\n")] = '\0';
    if (line[0] == '{') {
        return json_loads(line, 0, error);
    }
    if (line[0] == '#' || line[0] == '\0' || strncmp(line, "op\t", 3) == 0) {
        return json_object();
    }
    snprintf(error->text, sizeof error->text, "no JSON object and no row of columns");
    return strchr(line, '\t') ? read_columns(line) : NULL;
}

json_t *bench_read(const command *self, const char *path) {
    enum { LONGEST = 1 << 16 };
    FILE *f = fopen(path, "r");
    char *line = malloc(LONGEST);
    json_t *rows = json_array();
    int number = 0;
    if (!f || !line) {
        complain(self, "%s: %s", path, strerror(errno));
        json_decref(rows);
        rows = NULL;
    }
    while (rows && fgets(line, LONGEST, f)) {
        json_error_t error = {0};
        json_t *row = read_line(line, &error);
        number++;
        if (!row ||
            (json_object_size(row) > 0 && !(json_is_string(json_object_get(row, "op")) &&
                                            json_is_string(json_object_get(row, "kernel"))))) {
            complain(self, "%s: line %d is no row of opreg bench: %s", path, number,
                     row ? "it has no op or no kernel" : error.text);
            json_decref(row);
            json_decref(rows);
            rows = NULL;
        } else if (json_object_size(row) > 0) {
            json_array_append_new(rows, row);
        } else {
            json_decref(row);
        }
    }
    if (f) {
        fclose(f);
    }
    free(line);
    return rows;
}

/* ---- against another run ---- */

static int same_text(const json_t *a, const json_t *b, const char *key) {
    return strcmp(text_of(a, key), text_of(b, key)) == 0;
}

/* Problems are compared as they parse: a text may leave defaults out. */
static int same_problem(const json_t *a, const json_t *b) {
    bench_case x, y;
    opreg_op op = opreg_op_by_name(text_of(a, "op"));
    if (!same_text(a, b, "op") || !same_text(a, b, "device")) {
        return 0;
    }
    if (same_text(a, b, "problem")) {
        return 1;
    }
    return op && bench_case_parse(text_of(a, "problem"), op, &x) &&
           bench_case_parse(text_of(b, "problem"), op, &y) &&
           memcmp(&x.problem, &y.problem, opreg_problem_size(op)) == 0;
}

static const char *verdict(const json_t *now, const json_t *was, double tolerance) {
    double us = number_of(now, "us"), then = number_of(was, "us");
    double spread = number_of(now, "spread") + number_of(was, "spread");
    double apart = fmax(isfinite(spread) ? spread : 0.0, then * tolerance / 100.0);
    return us > then + apart ? "regressed" : us < then - apart ? "faster" : "same";
}

static int compare_row(json_t *row, const json_t *then, double tolerance) {
    const char *change = NULL, *was_chosen = NULL;
    const json_t *was = NULL, *other;
    size_t i;
    json_array_foreach(then, i, other) {
        if (!same_problem(row, other)) {
            continue;
        }
        change = change ? change : "new";
        if (same_text(row, other, "kernel")) {
            was = other;
        }
        if (says(other, "chosen")) {
            was_chosen = text_of(other, "kernel");
        }
    }
    if (was && isfinite(number_of(row, "us")) && isfinite(number_of(was, "us"))) {
        change = verdict(row, was, tolerance);
        json_object_set_new(row, "was_us", json_number(number_of(was, "us")));
    }
    json_object_set_new(row, "choice_changed",
                        json_boolean(was_chosen && says(row, "chosen") &&
                                     strcmp(was_chosen, text_of(row, "kernel")) != 0));
    json_object_set_new(row, "was_chosen", was_chosen ? json_string(was_chosen) : json_null());
    json_object_set_new(row, "change", change ? json_string(change) : json_null());
    return change != NULL;
}

size_t bench_compare(json_t *rows, const json_t *then, double tolerance, size_t *worse) {
    size_t i, compared = 0;
    json_t *row;
    json_array_foreach(rows, i, row) {
        json_object_set_new(row, "was_us", json_null());
        compared += (size_t)compare_row(row, then, tolerance);
        *worse += strcmp(text_of(row, "change"), "regressed") == 0 || says(row, "choice_changed");
    }
    return compared;
}

/* ---- a model's token ---- */

typedef struct sum {
    double us, floor_us, bytes, operations;
} sum;

static void add_row(sum *s, const json_t *row) {
    double count = number_of(row, "count"), floor_us = number_of(row, "floor_us");
    s->us += count * number_of(row, "us");
    s->floor_us += count * (isfinite(floor_us) ? floor_us : 0.0);
    s->bytes += count * number_of(row, "bytes");
    s->operations += count * number_of(row, "operations");
}

json_t *bench_total(const json_t *rows, const char *device_id) {
    static const char *const null_keys[] = {"format", "n", "k", "problem"};
    sum all = {0}, staged = {0}, fused = {0};
    double baseline = 0;
    const json_t *row, *any = NULL;
    json_t *total;
    size_t i;
    json_array_foreach(rows, i, row) {
        const char *op = text_of(row, "op");
        int is_fused = strcmp(op, "moe_ffn") == 0;
        int is_stage = strncmp(op, "moe_", 4) == 0 && strcmp(op, "moe_route") != 0 && !is_fused;
        if (strcmp(text_of(row, "device_id"), device_id) != 0 || !(number_of(row, "count") > 0) ||
            !isfinite(number_of(row, "us"))) {
            continue;
        }
        any = row;
        if (says(row, "chosen")) {
            add_row(is_fused ? &fused : is_stage ? &staged : &all, row);
        }
        if (says(row, "baseline") && !is_fused) {
            baseline += number_of(row, "count") * number_of(row, "us");
        }
    }
    if (!any) {
        return NULL;
    }
    if (fused.us > 0 && (staged.us == 0 || fused.us < staged.us)) {
        staged = fused; /* both do the same work: an engine takes the quicker one */
    }
    all.us += staged.us;
    all.floor_us += staged.floor_us;
    total = json_copy((json_t *)(uintptr_t)any); /* the environment's keys */
    for (i = 0; i < sizeof null_keys / sizeof *null_keys; i++) {
        json_object_set_new(total, null_keys[i], json_null());
    }
    json_object_set_new(total, "op", json_string("token"));
    json_object_set_new(total, "kernel", json_string("chosen"));
    json_object_set_new(total, "level", json_null());
    json_object_set_new(total, "us", json_number(all.us));
    json_object_set_new(total, "spread", json_null());
    json_object_set_new(total, "floor_us",
                        all.floor_us > 0 ? json_number(all.floor_us) : json_null());
    json_object_set_new(total, "pct_floor",
                        all.floor_us > 0 ? json_number(100.0 * all.floor_us / all.us)
                                         : json_null());
    json_object_set_new(total, "gbps", json_number(1e-3 * (all.bytes + staged.bytes) / all.us));
    json_object_set_new(total, "ratio", json_number(baseline / all.us));
    json_object_set_new(total, "nmse", json_null());
    json_object_set_new(total, "warm_us", json_null());
    json_object_set_new(total, "bytes", json_number(all.bytes + staged.bytes));
    json_object_set_new(total, "operations", json_number(all.operations + staged.operations));
    json_object_set_new(total, "count", json_integer(1));
    json_object_set_new(total, "chosen", json_false());
    json_object_set_new(total, "baseline", json_false());
    return total;
}
