/* SPDX-License-Identifier: MIT
 * bench.c - opreg bench: how long the variants that are on take, beside the floor of the device. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "commands.h"
#include "output.h"
#include "parallel.h"
#include "registry.h"

static const char *const default_problems[] = {
    "m=1 n=4096 k=4096 b=q4_0",   "m=1 n=4096 k=4096 b=q4_1", "m=1 n=4096 k=4096 b=q8_0",
    "m=1 n=4096 k=4096 b=q4_k",   "m=1 n=4096 k=4096 b=q5_k", "m=1 n=4096 k=4096 b=q6_k",
    "m=1 n=4096 k=4096 b=iq4_nl", "m=4 n=4096 k=4096 b=q4_k"};

typedef struct bench_session {
    const command *self;
    opreg_registry *reg;
    const char *plugin, *kernel, *command_line;
    int json, batches;
    unsigned threads;
    uint64_t seed;
    progress progress;
    int64_t lines, failed;
} bench_session;

static const char *today(char text[16]) {
    time_t now = time(NULL);
    const struct tm *parts = gmtime(&now);
    if (!parts || strftime(text, 16, "%Y-%m-%d", parts) == 0) {
        strcpy(text, "-");
    }
    return text;
}

static void print_row(bench_session *b, const device *d, const opreg_matmul_bt_quant *p,
                      const bench_row *r, const char *built_with) {
    char problem[1024], date[16], percent[24] = "floor unknown";
    const char *format = opreg_dtype_name(p->b_dtype);
    opreg_problem_print(OPREG_OP_MATMUL_BT_QUANT, p, problem, sizeof problem);
    progress_clear(&b->progress);
    b->lines++;
    b->failed += r->failed[0] != '\0';
    if (b->json) {
        print_json(json_pack(
            "{s:s, s:s, s:I, s:I, s:I, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:s, "
            "s:n, s:s, s:s, s:s, s:o, s:s?}",
            "op", "matmul_bt_quant", "format", format, "m", (json_int_t)p->m, "n", (json_int_t)p->n,
            "k", (json_int_t)p->k, "problem", problem, "kernel", r->kernel, "level",
            level_name(r->candidate->level), "us", json_number(r->us), "spread",
            json_number(r->spread), "floor_us",
            r->floor_us > 0 ? json_number(r->floor_us) : json_null(), "pct_floor",
            r->floor_us > 0 ? json_number(100.0 * r->floor_us / r->us) : json_null(), "gbps",
            json_number(r->gbps), "ratio", r->ratio > 0 ? json_number(r->ratio) : json_null(),
            "nmse", json_number(r->nmse), "cold", 1, "device",
            d->row.name[0] ? d->row.name : d->name, "driver", "toolkit", built_with, "date",
            today(date), "command", b->command_line, "warm_us", json_number(r->warm_us), "failed",
            r->failed[0] ? r->failed : NULL));
        return;
    }
    if (r->failed[0]) {
        printf("matmul_bt_quant %-8s m%-3" PRId64 " n%-6" PRId64 " k%-6" PRId64
               " %-32s FAILED: %s\n",
               format, p->m, p->n, p->k, r->kernel, r->failed);
        return;
    }
    if (r->floor_us > 0) {
        snprintf(percent, sizeof percent, "%5.1f %% of floor", 100.0 * r->floor_us / r->us);
    }
    printf("matmul_bt_quant %-8s m%-3" PRId64 " n%-6" PRId64 " k%-6" PRId64
           " %-32s %9.2f us +/- %-7.2f %7.1f GB/s %s  warm %.2f us  err %.1e  (%5.2fx)\n",
           format, p->m, p->n, p->k, r->kernel, r->us, r->spread, r->gbps, percent, r->warm_us,
           r->nmse, r->ratio);
    fflush(stdout);
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

static void one_problem(bench_session *b, const device *d, const opreg_matmul_bt_quant *p,
                        double bandwidth) {
    size_t count = 0, used = 0;
    const char *reason = NULL;
    char toolkit[64];
    opreg_candidate *candidates =
        registry_explain(b->self, b->reg, &d->row, OPREG_OP_MATMUL_BT_QUANT, p, &count);
    bench_row *rows = calloc(count ? count : 1, sizeof *rows);
    bench_set set;
    for (size_t i = 0; candidates && rows && i < count; i++) {
        const opreg_candidate *c = &candidates[i];
        if (c->verdict != OPREG_OK || (b->plugin && strcmp(b->plugin, c->plugin) != 0) ||
            (b->kernel && strcmp(b->kernel, c->kernel) != 0 &&
             (c->kernel_flags & OPREG_KF_BASELINE) == 0)) {
            continue;
        }
        rows[used].candidate = c;
        snprintf(rows[used].kernel, sizeof rows[used].kernel, "%s/%s", c->plugin, c->kernel);
        used++;
    }
    progress_show(&b->progress, "opreg bench: %s m=%" PRId64 " n=%" PRId64 " k=%" PRId64 " on %s",
                  opreg_dtype_name(p->b_dtype), p->m, p->n, p->k, d->name);
    if (used > 0 && !bench_set_open(d, p, bench_cache_bytes(d), b->seed, &set, &reason)) {
        complain(b->self, "%s: %s", opreg_dtype_name(p->b_dtype),
                 reason ? reason : opreg_last_error());
        b->failed++;
        bench_set_close(&set);
    } else if (used > 0) {
        bench_measure(&set, rows, used, b->batches, bandwidth);
        for (size_t i = 0; i < used; i++) {
            toolkit_of(b->reg, rows[i].candidate->plugin, toolkit);
            print_row(b, d, p, &rows[i], toolkit);
        }
        bench_set_close(&set);
    }
    free(rows);
    free(candidates);
}

static int on_devices(bench_session *b, const char *only, const opreg_matmul_bt_quant *problems,
                      size_t num_problems) {
    size_t count;
    opreg_device *rows = registry_devices(b->reg, &count);
    const opreg_device *chosen = only ? device_called(rows, count, only) : NULL;
    int status = EXIT_HELD;
    if (only && !chosen) {
        status = complain(b->self, "no device '%s'; opreg list prints those that are open", only);
    }
    for (size_t i = 0; i < count && status == EXIT_HELD; i++) {
        device d;
        double bandwidth;
        if (chosen && chosen != &rows[i]) {
            continue;
        }
        if (!device_open(b->reg, &rows[i], &d)) {
            complain(b->self, "%s", opreg_last_error());
            status = EXIT_FAILED;
            break;
        }
        bandwidth = bench_bandwidth(&d, b->threads);
        fprintf(stderr, "opreg bench: %s (%s): %s %.1f GB/s, cache %.0f MB, weights cold\n", d.name,
                d.row.name, d.row.kind == OPREG_CPU ? "read" : "copy", 1e-9 * bandwidth,
                1e-6 * (double)bench_cache_bytes(&d));
        for (size_t p = 0; p < num_problems; p++) {
            one_problem(b, &d, &problems[p], bandwidth);
        }
        device_close(&d);
    }
    free(rows);
    return status;
}

static int read_problems(const command *self, const option_list *texts,
                         opreg_matmul_bt_quant *problems, size_t *count) {
    size_t given = texts->count, defaults = sizeof default_problems / sizeof *default_problems;
    *count = given ? given : defaults;
    for (size_t i = 0; i < *count; i++) {
        const char *text = given ? texts->items[i] : default_problems[i];
        problems[i].struct_size = sizeof problems[i];
        if (opreg_problem_parse(OPREG_OP_MATMUL_BT_QUANT, text, &problems[i]) != OPREG_OK ||
            opreg_problem_check(OPREG_OP_MATMUL_BT_QUANT, &problems[i]) != OPREG_OK) {
            return complain(self, "--problem '%s': %s", text, opreg_last_error());
        }
    }
    return -1;
}

static int run_bench(const command *self, int argc, char **argv) {
    bench_session b = {.self = self};
    option_list texts = {0};
    opreg_matmul_bt_quant problems[OPTION_LIST_MAX] = {{0}};
    const char *op = "matmul_bt_quant", *only = NULL;
    int64_t batches = BENCH_BATCHES, threads = 0, seed = 1;
    size_t others, count;
    char line[512] = "opreg bench";
    int status;
    const option table[] = {
        {"--op", "OP", OPTION_TEXT, &op, "the operator: matmul_bt_quant"},
        {"--problem", "'KEY=VALUE ...'", OPTION_LIST, &texts,
         "\nas in opreg explain; may be given several times;\nwithout it a list of decode shapes"},
        {"--plugin", "NAME", OPTION_TEXT, &b.plugin, "variants of this plugin only"},
        {"--kernel", "NAME", OPTION_TEXT, &b.kernel, "this variant only, beside its baseline"},
        {"--device", "NAME", OPTION_TEXT, &only, "this device only: cpu, cuda:0, ..."},
        {"--batches", "N", OPTION_INTEGER, &batches, "timed batches; 20 by default and at least"},
        {"--threads", "T", OPTION_INTEGER, &threads, "of the CPU; 0: all"},
        {"--seed", "S", OPTION_INTEGER, &seed, "of weights and activations; 1 by default"},
        {"--json", NULL, OPTION_SWITCH, &b.json,
         "one object a line (docs/command.md has the keys)"},
        {NULL, NULL, OPTION_SWITCH, NULL, NULL}};
    status = options_read(self, table, argc, argv, NULL, 0, &others);
    if (status >= 0) {
        return status;
    }
    for (int i = 1; i < argc; i++) {
        size_t used = strlen(line);
        snprintf(line + used, sizeof line - used, strchr(argv[i], ' ') ? " '%s'" : " %s", argv[i]);
    }
    if (strcmp(op, "matmul_bt_quant") != 0) {
        return complain(self, "--op '%s' has no bench; there is one for matmul_bt_quant", op);
    }
    status = read_problems(self, &texts, problems, &count);
    if (status >= 0) {
        return status;
    }
    b.batches = (int)(batches < BENCH_BATCHES ? BENCH_BATCHES : batches > 10000 ? 10000 : batches);
    b.threads = threads > 0 ? (unsigned)(threads > 256 ? 256 : threads) : parallel_threads();
    b.seed = (uint64_t)seed;
    b.command_line = line;
    progress_start(&b.progress);
    b.reg = registry_open(self, threads);
    if (!b.reg) {
        return EXIT_FAILED;
    }
    status = on_devices(&b, only, problems, count);
    progress_clear(&b.progress);
    opreg_destroy(b.reg);
    if (status == EXIT_HELD) {
        fprintf(stderr,
                "opreg bench: %" PRId64 " lines, %" PRId64 " failed, %d batches each, %.1f s\n",
                b.lines, b.failed, b.batches, seconds_now() - b.progress.start);
        status = b.failed ? EXIT_FAILED : b.lines ? EXIT_HELD : EXIT_BAD_INPUT;
    }
    return status;
}

const command command_bench = {
    "bench", "[--problem 'KEY=VALUE ...']... [options]", "times of the variants that are on",
    "Times each variant that is on with cold weights: the median of at least 20 batches, all "
    "variants\n"
    "of a problem in turn, the spread (half of the middle 80 %), the time as a share of the floor "
    "(bytes\n"
    "over the bandwidth measured in this run), warm time, NMSE against float64, and the ratio to "
    "the\n"
    "plugin's baseline.  CPU times are comparable within one run only.\n",
    run_bench};
