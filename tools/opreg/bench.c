/* SPDX-License-Identifier: MIT
 * bench.c - opreg bench: how long the variants that are on take, beside the floor of the device. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "commands.h"
#include "parallel.h"
#include "registry.h"

typedef struct bench_options {
    option_list problems, types;
    const char *op, *plugin, *kernel, *device, *model, *from, *against, *html;
    int64_t batches, seed, threads, tokens, context, tops, tolerance;
} bench_options;

typedef struct bench_session {
    const command *self;
    const bench_options *options;
    opreg_registry *reg;
    bench_style style;
    char command_line[1024], date[16];
    unsigned threads;
    int batches;
    progress progress;
    json_t *rows, *then; /* then: null, or the rows of --against                                 */
    size_t failed, compared, worse;
} bench_session;

/* What a row needs besides its times. */
typedef struct surroundings {
    const device *where;
    double bandwidth;
    char driver[64];
} surroundings;

static const char *today(char text[16]) {
    time_t now = time(NULL);
    const struct tm *parts = gmtime(&now);
    if (!parts || strftime(text, 16, "%Y-%m-%d", parts) == 0) {
        strcpy(text, "-");
    }
    return text;
}

/* ---- rows ---- */

static json_t *json_positive(double value) {
    return value > 0 ? json_number(value) : json_null();
}

static json_t *json_side(int64_t side) {
    return side >= 0 ? json_integer(side) : json_null();
}

/* "CUDA 13.0" of the plugin that owns a kernel. */
static void toolkit_of(opreg_registry *reg, const char *plugin, char out[64]) {
    size_t count;
    opreg_plugin_row *rows = registry_plugins(reg, &count);
    strcpy(out, "-");
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].name, plugin) == 0) {
            snprintf(out, 64, "%s", rows[i].built_with[0] ? rows[i].built_with : "-");
        }
    }
    free(rows);
}

static double floor_of(const bench_session *b, const bench_cost *cost, double bandwidth) {
    double by_bytes = bandwidth > 0 ? 1e6 * cost->bytes / bandwidth : 0;
    double by_operations =
        b->options->tops > 0 ? 1e-6 * cost->operations / (double)b->options->tops : 0;
    return fmax(by_bytes, by_operations);
}

static json_t *row_of(bench_session *b, const surroundings *around, const bench_set *set,
                      const bench_row *r, double baseline_us) {
    const bench_case *c = set->what;
    const device *d = around->where;
    bench_cost cost = bench_cost_of(c);
    double floor_us = floor_of(b, &cost, around->bandwidth);
    int timed = r->failed[0] == '\0';
    double us = timed ? r->us : (double)NAN;
    char problem[1024], toolkit[64];
    json_t *row;
    opreg_problem_print(c->op, &c->problem, problem, sizeof problem);
    toolkit_of(b->reg, r->candidate->plugin, toolkit);
    row = json_pack(
        "{s:s, s:s?, s:o, s:o, s:o, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "op",
        opreg_op_name(c->op), "format", cost.format ? opreg_dtype_name(cost.format) : NULL, "m",
        json_side(cost.m), "n", json_side(cost.n), "k", json_side(cost.k), "problem", problem,
        "kernel", r->kernel, "level", level_name(r->candidate->level), "us", json_number(us),
        "spread", timed ? json_number(r->spread) : json_null(), "floor_us", json_positive(floor_us),
        "pct_floor", json_positive(100.0 * floor_us / us), "gbps",
        json_number(1e-3 * cost.bytes / us), "ratio", json_positive(baseline_us / us), "nmse",
        timed ? json_number(r->nmse) : json_null());
    json_object_update_new(row,
                           json_pack("{s:b, s:s, s:s?, s:s, s:s, s:s, s:o, s:s?}", "cold",
                                     set->cold, "device", d->row.name[0] ? d->row.name : d->name,
                                     "driver", around->driver[0] ? around->driver : NULL, "toolkit",
                                     toolkit, "date", b->date, "command", b->command_line,
                                     "warm_us", timed ? json_number(r->warm_us) : json_null(),
                                     "failed", timed ? NULL : r->failed));
    json_object_update_new(row, json_pack("{s:b, s:b, s:s, s:o, s:o, s:o, s:o, s:o}", "chosen",
                                          r->candidate->rank == 0, "baseline",
                                          (r->candidate->kernel_flags & OPREG_KF_BASELINE) != 0,
                                          "device_id", d->name, "bytes", json_number(cost.bytes),
                                          "operations", json_number(cost.operations), "stream_gbps",
                                          json_positive(1e-9 * around->bandwidth), "tops",
                                          json_positive((double)b->options->tops), "count",
                                          c->count > 0 ? json_integer(c->count) : json_null()));
    return row;
}

/* Prints rows of one problem and keeps them. */
static void take_rows(bench_session *b, json_t *rows) {
    size_t i;
    json_t *row;
    progress_clear(&b->progress);
    if (b->then) {
        b->compared += bench_compare(rows, b->then, (double)b->options->tolerance, &b->worse);
    }
    json_array_foreach(rows, i, row) {
        b->failed += json_is_string(json_object_get(row, "failed"));
        bench_print(row, &b->style);
    }
    json_array_extend(b->rows, rows);
    json_decref(rows);
}

/* ---- running ---- */

static int wanted(const bench_options *o, const opreg_candidate *c) {
    return c->verdict == OPREG_OK && (!o->plugin || strcmp(o->plugin, c->plugin) == 0) &&
           (!o->kernel || strcmp(o->kernel, c->kernel) == 0 ||
            (c->kernel_flags & OPREG_KF_BASELINE) != 0);
}

static void one_problem(bench_session *b, const surroundings *around, const bench_case *c) {
    size_t count = 0, used = 0;
    const char *reason = NULL;
    const device *d = around->where;
    double baseline_us = 0;
    opreg_candidate *candidates =
        registry_explain(b->self, b->reg, &d->row, c->op, &c->problem, &count);
    bench_row *rows = calloc(count ? count : 1, sizeof *rows);
    bench_set set;
    for (size_t i = 0; candidates && rows && i < count; i++) {
        if (wanted(b->options, &candidates[i])) {
            rows[used].candidate = &candidates[i];
            snprintf(rows[used].kernel, sizeof rows[used].kernel, "%s/%s", candidates[i].plugin,
                     candidates[i].kernel);
            used++;
        }
    }
    if (used > 0) {
        progress_show(&b->progress, "opreg bench: %s on %s", opreg_op_name(c->op), d->name);
        if (!bench_set_open(d, c, bench_cache_bytes(d), (uint64_t)b->options->seed, &set,
                            &reason)) {
            progress_clear(&b->progress);
            complain(b->self, "%s on %s: %s", opreg_op_name(c->op), d->name,
                     reason ? reason : opreg_last_error());
            b->failed++;
        } else {
            json_t *list = json_array();
            bench_measure(&set, rows, used, b->batches);
            for (size_t i = 0; i < used; i++) {
                if ((rows[i].candidate->kernel_flags & OPREG_KF_BASELINE) != 0) {
                    baseline_us = rows[i].us;
                }
            }
            for (size_t i = 0; i < used; i++) {
                json_array_append_new(list, row_of(b, around, &set, &rows[i], baseline_us));
            }
            take_rows(b, list);
        }
        bench_set_close(&set);
    } else if (!b->options->plugin && !b->options->kernel) {
        progress_clear(&b->progress);
        complain(b->self, "%s: no variant on %s takes it: %s", opreg_op_name(c->op), d->name,
                 count ? candidates[0].reason : "there is none");
    }
    free(rows);
    free(candidates);
}

static void total_of(bench_session *b, const device *d) {
    json_t *total = bench_total(b->rows, d->name), *list = json_array();
    if (total) {
        json_object_set_new(total, "m", json_integer(b->options->tokens));
        json_array_append_new(list, total);
        take_rows(b, list);
    } else {
        json_decref(list);
    }
}

static int on_devices(bench_session *b, const bench_case *cases, size_t num_cases) {
    size_t count;
    const char *only = b->options->device;
    opreg_device *rows = registry_devices(b->reg, &count);
    const opreg_device *chosen = only ? device_called(rows, count, only) : NULL;
    int status = EXIT_HELD;
    if (only && !chosen) {
        status = complain(b->self, "no device '%s'; opreg list prints those that are open", only);
    }
    for (size_t i = 0; i < count && status == EXIT_HELD; i++) {
        device d;
        surroundings around = {.where = &d};
        if (chosen && chosen != &rows[i]) {
            continue;
        }
        if (!device_open(b->reg, &rows[i], &d)) {
            complain(b->self, "%s", opreg_last_error());
            status = EXIT_FAILED;
            break;
        }
        around.bandwidth = bench_bandwidth(&d, b->threads);
        if (!bench_driver_version(d.row.kind, around.driver)) {
            around.driver[0] = '\0';
        }
        fprintf(stderr, "opreg bench: %s (%s%s%s): %s %.1f GB/s, cache %.0f MB, data cold\n",
                d.name, d.row.name, around.driver[0] ? ", driver " : "", around.driver,
                d.row.kind == OPREG_CPU ? "read" : "copy", 1e-9 * around.bandwidth,
                1e-6 * (double)bench_cache_bytes(&d));
        for (size_t p = 0; p < num_cases && !ferror(stdout); p++) {
            one_problem(b, &around, &cases[p]);
        }
        total_of(b, &d);
        device_close(&d);
    }
    free(rows);
    return status;
}

static int summarise(bench_session *b) {
    fprintf(stderr, "opreg bench: %zu lines, %zu failed", json_array_size(b->rows), b->failed);
    if (b->then) {
        fprintf(stderr, ", %zu compared with %s, %zu worse", b->compared, b->options->against,
                b->worse);
    }
    if (b->batches > 0) {
        fprintf(stderr, ", %d batches each, %.1f s", b->batches, seconds_now() - b->progress.start);
    }
    fputc('\n', stderr);
    if (b->failed > 0 || b->worse > 0) {
        return EXIT_FAILED;
    }
    if (b->then && b->compared == 0) {
        return complain(b->self, "nothing in %s is of these problems on this device",
                        b->options->against);
    }
    return json_array_size(b->rows) > 0 ? EXIT_HELD : EXIT_BAD_INPUT;
}

/* ---- the command ---- */

static int read_problems(const command *self, const bench_options *o, bench_case **cases,
                         size_t *count) {
    opreg_op op = o->op ? opreg_op_by_name(o->op) : (opreg_op)0;
    if (o->problems.count == 0) {
        *cases = bench_default_cases(op, count);
        return *cases ? -1 : complain(self, "no memory");
    }
    *count = o->problems.count;
    *cases = calloc(*count, sizeof **cases);
    for (size_t i = 0; i < *count; i++) {
        const char *text = o->problems.items[i];
        if (!*cases || !bench_case_parse(text, op ? op : OPREG_OP_MATMUL_BT_QUANT, &(*cases)[i])) {
            return complain(self, "--problem '%s': %s", text,
                            *cases ? opreg_last_error() : "no memory");
        }
    }
    return -1;
}

/* Puts what the environment switched before the command: without it the rows are not repeated.
 * Folders stay out: they are this machine's.  Warns where a run does more than run. */
static void take_flags(bench_session *b) {
    char words[sizeof b->command_line] = "";
    size_t count, used = 0;
    opreg_flag_row *rows = registry_flags(b->reg, &count);
    for (size_t i = 0; i < count && used < sizeof words; i++) {
        if (rows[i].source == OPREG_SOURCE_ENV && rows[i].value[0] != '/') {
            used += (size_t)snprintf(words + used, sizeof words - used, "%s=%s ", rows[i].variable,
                                     rows[i].value);
        }
        if ((strcmp(rows[i].flag, "shadow") == 0 || strcmp(rows[i].flag, "guard") == 0) &&
            strcmp(rows[i].value, "off") != 0) {
            complain(b->self, "warning: %s is %s: its checks are in the times", rows[i].variable,
                     rows[i].value);
        }
    }
    if (used + strlen(b->command_line) < sizeof words) {
        strcat(words, b->command_line);
        strcpy(b->command_line, words);
    }
    free(rows);
}

static int measure(bench_session *b, const bench_case *cases, size_t count) {
    int status;
    b->reg = registry_open(b->self, b->options->threads);
    if (!b->reg) {
        return EXIT_FAILED;
    }
    take_flags(b);
    status = on_devices(b, cases, count);
    progress_clear(&b->progress);
    opreg_destroy(b->reg);
    return status;
}

static int measure_model(bench_session *b) {
    const bench_options *o = b->options;
    model_types types = {0};
    bench_model model;
    gguf_error error;
    char text[256];
    int status;
    for (size_t i = 0; i < o->types.count; i++) {
        if (!model_types_add(&types, o->types.items[i], text)) {
            return complain(b->self, "%s", text);
        }
    }
    if (!bench_model_open(o->model, &types, o->tokens, o->context, &model, &error)) {
        status =
            complain(b->self, "%s: offset %" PRIu64 ": %s", o->model, error.offset, error.text);
    } else {
        fprintf(stderr, "opreg bench: %s: %zu problems, %" PRId64 " other tensors\n", o->model,
                model.count, model.skipped);
        status = measure(b, model.cases, model.count);
    }
    bench_model_close(&model);
    return status;
}

static int read_rows(bench_session *b) {
    json_t *rows = bench_read(b->self, b->options->from);
    if (!rows) {
        return EXIT_BAD_INPUT;
    }
    b->batches = 0;
    take_rows(b, rows);
    return EXIT_HELD;
}

static int run_session(bench_session *b) {
    const bench_options *o = b->options;
    bench_case *cases = NULL;
    size_t count = 0;
    int status;
    if (o->against) {
        b->then = bench_read(b->self, o->against);
        if (!b->then) {
            return EXIT_BAD_INPUT;
        }
        b->style.compared = 1;
    }
    progress_start(&b->progress);
    if (b->style.columns) {
        bench_print_heading();
    }
    if (o->from) {
        status = read_rows(b);
    } else if (o->model) {
        status = measure_model(b);
    } else {
        status = read_problems(b->self, o, &cases, &count);
        status = status < 0 ? measure(b, cases, count) : status;
        free(cases);
    }
    if (status == EXIT_HELD) {
        status = summarise(b);
        if (o->html && json_array_size(b->rows) > 0 && !bench_html(b->self, o->html, b->rows)) {
            status = EXIT_BAD_INPUT;
        }
    }
    return status;
}

static int check_options(const command *self, const bench_options *o) {
    if (o->op && !opreg_op_by_name(o->op)) {
        return complain(self, "--op '%s' is no operator; opreg list prints those of the variants",
                        o->op);
    }
    if ((o->problems.count > 0) + (o->model != NULL) + (o->from != NULL) > 1) {
        return complain(self, "--problem, --model and --from exclude each other");
    }
    if (o->tokens < 1 || o->tokens > 4096 || o->context < 1 || o->context > 1 << 20) {
        return complain(self, "--tokens takes 1..4096 and --context 1..1048576");
    }
    return -1;
}

static int run_bench(const command *self, int argc, char **argv) {
    bench_options o = {.seed = 1, .tokens = 1, .context = 4096, .tolerance = 2};
    bench_session b = {.self = self, .options = &o};
    size_t others;
    int status;
    const option table[] = {
        {"--op", "OP", OPTION_TEXT, &o.op, "only this operator's problems; that of --problem"},
        {"--problem", "'[OP] KEY=VALUE ...'", OPTION_LIST, &o.problems,
         "\nas in opreg explain; may be given several times;\nwithout it a list of decode shapes"},
        {"--model", "FILE.gguf", OPTION_FILE, &o.model,
         "the shapes of a model: each (format, n, k) once,\nits experts, its attention, and their "
         "sum"},
        {"--tokens", "M", OPTION_INTEGER, &o.tokens, "of a step of the model; 1 by default"},
        {"--context", "N", OPTION_INTEGER, &o.context,
         "positions that the model's attention reads; 4096\nby default, at most the model's"},
        {"--type", "ID=FORMAT[:DIALECT]", OPTION_LIST, &o.types,
         "\nwhat a type id of the model means, as in opreg verify"},
        {"--plugin", "NAME", OPTION_TEXT, &o.plugin, "only variants of this plugin"},
        {"--kernel", "NAME", OPTION_TEXT, &o.kernel, "only this variant, beside the baseline"},
        {"--device", "NAME", OPTION_TEXT, &o.device, "only this device: cpu, cuda:0"},
        {"--batches", "N", OPTION_INTEGER, &o.batches, "more than 20 batches"},
        {"--seed", "S", OPTION_INTEGER, &o.seed, "of the data; 1 by default"},
        {"--threads", "T", OPTION_INTEGER, &o.threads, "of the CPU; 0, the default: all"},
        {"--tops", "N", OPTION_INTEGER, &o.tops,
         "operations the device does at best, in 10^12 a\nsecond by its data sheet: a second "
         "floor"},
        {"--against", "FILE", OPTION_FILE, &o.against,
         "rows of an earlier run (--json or tab-separated):\nfail where a plan takes another "
         "variant, or a time\ngrew by more than both spreads and the tolerance"},
        {"--tolerance", "P", OPTION_INTEGER, &o.tolerance,
         "per cent that a time may grow; 2 by default"},
        {"--from", "FILE", OPTION_FILE, &o.from, "rows of an earlier run, measure nothing"},
        {"--html", "FILE", OPTION_FILE, &o.html, "also write one page with plots and all rows"},
        {"--tsv", NULL, OPTION_SWITCH, &b.style.columns, "the columns of bench/baselines"},
        {"--json", NULL, OPTION_SWITCH, &b.style.json,
         "one object a line (docs/command.md has the keys)"},
        {NULL, NULL, OPTION_SWITCH, NULL, NULL}};
    status = options_read(self, table, argc, argv, NULL, 0, &others);
    if (status >= 0 || (status = check_options(self, &o)) >= 0) {
        return status;
    }
    strcpy(b.command_line, "opreg bench");
    for (int i = 1; i < argc; i++) {
        size_t used = strlen(b.command_line);
        snprintf(b.command_line + used, sizeof b.command_line - used,
                 strchr(argv[i], ' ') ? " '%s'" : " %s", argv[i]);
    }
    today(b.date);
    b.batches = (int)(o.batches < BENCH_BATCHES ? BENCH_BATCHES
                      : o.batches > 10000       ? 10000
                                                : o.batches);
    b.threads = o.threads > 0 ? (unsigned)(o.threads > 256 ? 256 : o.threads) : parallel_threads();
    b.rows = json_array();
    status = run_session(&b);
    json_decref(b.rows);
    json_decref(b.then);
    return status;
}

const command command_bench = {"bench", "[options]", "times of the variants that are on",
                               "Times each variant that is on, with cold data: the median of at "
                               "least 20 batches, all variants\n"
                               "of a problem in turn, the spread (half of the middle 80 %), the "
                               "floor (what must be moved over\n"
                               "the bandwidth measured in this run) and the time's share of it, "
                               "the time with warm data, NMSE\n"
                               "against float64, the ratio to the plugin's baseline, and which "
                               "variant a plan takes.  CPU times\n"
                               "are comparable within one run only.\n",
                               run_bench};
