/* SPDX-License-Identifier: MIT
 * verify.c - opreg verify MODEL.gguf: every weight of a model through every variant that is on. */
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "parallel.h"
#include "registry.h"
#include "verify.h"

typedef struct choices {
    option_list types, tensors;
    const char *device;
    int64_t rows, seed, threads;
    int json, header_only;
} choices;

/* Why tensors were skipped, for the summary. */
#define SKIP_KINDS 4
typedef struct skips {
    const char *reason[SKIP_KINDS];
    int64_t count[SKIP_KINDS];
} skips;

static void count_skip(skips *s, const char *reason) {
    for (size_t i = 0; i < SKIP_KINDS; i++) {
        if (!s->reason[i] || s->reason[i] == reason || strcmp(s->reason[i], reason) == 0) {
            s->reason[i] = reason;
            s->count[i]++;
            return;
        }
    }
}

static int wanted(const choices *c, const char *name) {
    for (size_t i = 0; i < c->tensors.count; i++) {
        if (fnmatch(c->tensors.items[i], name, 0) == 0) {
            return 1;
        }
    }
    return c->tensors.count == 0;
}

/* Opens the devices to run on, the CPU first: it gives the reference bits. */
static int open_devices(verify_session *v, const char *only) {
    size_t count;
    opreg_device *rows = registry_devices(v->reg, &count);
    const opreg_device *chosen = only ? device_called(rows, count, only) : NULL;
    int status = -1;
    if (only && !chosen) {
        status = complain(v->self, "no device '%s'; opreg list prints those that are open", only);
        goto out;
    }
    v->devices = calloc(count + 1, sizeof *v->devices);
    for (int others = 0; v->devices && others < 2; others++) {
        for (size_t i = 0; i < count; i++) {
            int built_in = rows[i].kind == OPREG_CPU && rows[i].ordinal == 0;
            if (built_in == others || (others && only && chosen != &rows[i])) {
                continue;
            }
            if (!device_open(v->reg, &rows[i], &v->devices[v->num_devices])) {
                complain(v->self, "%s: %s", rows[i].name, opreg_last_error());
                status = EXIT_FAILED;
                goto out;
            }
            v->num_devices++;
        }
    }
    if (v->num_devices == 0) {
        complain(v->self, "the registry has no CPU device");
        status = EXIT_FAILED;
    }
out:
    free(rows);
    return status;
}

#define LINE 120
#define OTHER_COLUMNS                                                                              \
    60 /* numbers, level, bits and the spaces between all columns                 */

static int shorter(int a, int b) {
    return a < b ? a : b;
}

static void measure_columns(verify_session *v, const choices *c) {
    size_t kernels;
    opreg_kernel_row *rows = registry_kernels(v->reg, &kernels);
    int longest;
    v->name_width = v->format_width = v->kernel_width = 7;
    for (size_t i = 0; i < gguf_num_tensors(v->file); i++) {
        const gguf_tensor *t = gguf_tensor_at(v->file, i);
        gguf_type type;
        if (!model_skips(&v->types, t) && wanted(c, t->name) &&
            model_type(&v->types, t->type, &type)) {
            int name = shorter((int)strlen(t->name), 60), format = (int)strlen(type.name);
            v->name_width = name > v->name_width ? name : v->name_width;
            v->format_width = format > v->format_width ? format : v->format_width;
        }
    }
    for (size_t i = 0; i < kernels; i++) {
        int width = (int)(strlen(rows[i].plugin) + strlen(rows[i].kernel)) + 1;
        int needed = rows[i].op == OPREG_OP_MATMUL_BT_QUANT || rows[i].op == OPREG_OP_MOE_MATMUL;
        width = shorter(width + (v->num_devices > 1 ? 14 : 0), v->num_devices > 1 ? 40 : 26);
        v->kernel_width =
            rows[i].enabled && needed && width > v->kernel_width ? width : v->kernel_width;
    }
    /* the rest of the line; a name that is longer is cut in the middle */
    longest = LINE - OTHER_COLUMNS - v->format_width - v->kernel_width;
    v->name_width = shorter(v->name_width, longest < 20 ? 20 : longest);
    free(rows);
}

/* Everything about the tensors that needs no run: side data is there and right. */
static int check_side_data(verify_session *v, const char *path, const choices *c) {
    for (size_t i = 0; i < gguf_num_tensors(v->file); i++) {
        const gguf_tensor *t = gguf_tensor_at(v->file, i);
        model_weight w;
        gguf_error error;
        if (model_skips(&v->types, t) || !wanted(c, t->name)) {
            continue;
        }
        if (!model_weight_get(v->file, &v->types, v->side, t, &w, &error)) {
            return complain(v->self, "%s: offset %" PRIu64 ": %s", path, error.offset, error.text);
        }
    }
    return -1;
}

static void run_tensors(verify_session *v, const choices *c, skips *s) {
    size_t count = gguf_num_tensors(v->file);
    verify_print_head(v);
    for (size_t i = 0; i < count; i++) {
        const gguf_tensor *t = gguf_tensor_at(v->file, i);
        const char *skip = wanted(c, t->name) ? model_skips(&v->types, t) : "not asked for";
        model_weight w;
        gguf_error error;
        if (skip) {
            v->totals.skipped++;
            count_skip(s, skip);
            continue;
        }
        progress_show(&v->progress, "opreg verify: tensor %zu of %zu, %.48s", i + 1, count,
                      t->name);
        if (!model_weight_get(v->file, &v->types, v->side, t, &w, &error)) {
            continue; /* checked before */
        }
        if (verify_blocks(v, &w)) {
            verify_tensor(v, &w);
            v->totals.bytes += (int64_t)t->bytes;
        } else {
            v->totals.invalid++;
        }
        if (ferror(stdout)) {
            return;
        }
    }
    progress_clear(&v->progress);
}

/* A plugin that is on but did not load was not verified: that is no success. */
static void count_failed_plugins(verify_session *v) {
    size_t count;
    opreg_plugin_row *rows = registry_plugins(v->reg, &count);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].state == OPREG_PLUGIN_FAILED) {
            complain(v->self, "plugin %s is on but did not load: %s", rows[i].name, rows[i].reason);
            v->totals.failed++;
        }
    }
    free(rows);
}

static int summarise(const verify_session *v, const skips *s, const choices *c) {
    const verify_totals *t = &v->totals;
    const char *verdict = t->failed    ? "FAILED"
                          : t->invalid ? "INVALID"
                          : t->runs    ? "OK"
                                       : "NOTHING RUN";
    fprintf(stderr,
            "opreg verify: %s: %" PRId64 " tensors (%.1f MB), %" PRId64 " runs, %" PRId64
            " failed, %" PRId64 " invalid",
            verdict, t->tensors, 1e-6 * (double)t->bytes, t->runs, t->failed, t->invalid);
    if (t->runs > 0) {
        fprintf(stderr, "; bits %s",
                t->failed    ? "above"
                : t->unequal ? "equal where canonical"
                             : "all equal");
        if (t->bands > 0) {
            fprintf(stderr, ", NMSE at most %.1e of %.0e", t->worst_nmse, t->worst_band);
        } else {
            fprintf(stderr, ", NMSE not asked (fewer than 256 outputs)");
        }
        fprintf(stderr, ", error at most %.2f of its bound", t->worst_oracle);
    }
    if (t->refused > 0) {
        fprintf(stderr, "; %" PRId64 " times no variant of a device took a tensor", t->refused);
    }
    if (c->rows > 0) {
        fprintf(stderr, "; sampled: at most %" PRId64 " rows of each tensor", c->rows);
    }
    fprintf(stderr, "; skipped %" PRId64, t->skipped);
    for (size_t i = 0; i < SKIP_KINDS && s->reason[i]; i++) {
        fprintf(stderr, "%s%" PRId64 " %s", i ? ", " : " (", s->count[i], s->reason[i]);
    }
    fprintf(stderr, "%s; seed %" PRIu64 ", %.1f s\n", s->reason[0] ? ")" : "", v->seed,
            seconds_now() - v->progress.start);
    return t->failed    ? EXIT_FAILED
           : t->invalid ? EXIT_BAD_INPUT
           : t->runs    ? EXIT_HELD
                        : EXIT_BAD_INPUT;
}

static int read_choices(const command *self, int argc, char **argv, choices *c, const char **path,
                        model_types *types) {
    size_t count;
    int status;
    char error[256];
    const option table[] = {
        {"--json", NULL, OPTION_SWITCH, &c->json,
         "one object a line (docs/command.md has the keys)"},
        {"--rows", "R", OPTION_INTEGER, &c->rows,
         "run at most R rows of each tensor, from a seeded\nplace; 0, the default: all"},
        {"--tensor", "PATTERN", OPTION_LIST, &c->tensors,
         "only tensors whose name matches, as in a shell;\nmay be given several times"},
        {"--device", "NAME", OPTION_TEXT, &c->device,
         "this device only, beside the CPU's reference"},
        {"--type", "ID=FORMAT[:DIALECT]", OPTION_LIST, &c->types,
         "\nwhat a type id of the file means; ids 42 and 107 have\nno reading until one is given"},
        {"--seed", "S", OPTION_INTEGER, &c->seed, "of the activations; 1 by default"},
        {"--threads", "T", OPTION_INTEGER, &c->threads, "of the CPU and of the checks; 0: all"},
        {"--header-only", NULL, OPTION_SWITCH, &c->header_only,
         "check the file's structure and side data, run nothing"},
        {NULL, NULL, OPTION_SWITCH, NULL, NULL}};
    status = options_read(self, table, argc, argv, path, 1, &count);
    if (status >= 0) {
        return status;
    }
    if (count == 0) {
        return complain(self, "which file?  usage: opreg verify %s", self->usage);
    }
    for (size_t i = 0; i < c->types.count; i++) {
        if (!model_types_add(types, c->types.items[i], error)) {
            return complain(self, "%s", error);
        }
    }
    return -1;
}

static int run_verify(const command *self, int argc, char **argv) {
    verify_session v = {.self = self};
    choices c = {.seed = 1};
    skips s = {{NULL}, {0}};
    gguf_error error;
    gguf *file = NULL;
    side_data *side = NULL;
    const char *path = NULL;
    int status = read_choices(self, argc, argv, &c, &path, &v.types);
    if (status >= 0) {
        return status;
    }
    v.json = c.json;
    v.rows = c.rows;
    v.seed = (uint64_t)c.seed;
    v.threads = c.threads > 0 ? (unsigned)(c.threads > 256 ? 256 : c.threads) : parallel_threads();
    v.totals.worst_band = 1.0;
    progress_start(&v.progress);
    v.file = file = gguf_open(path, model_type, &v.types, &error);
    if (!file) {
        return complain(self, "%s: offset %" PRIu64 ": %s", path, error.offset, error.text);
    }
    v.side = side = side_data_open(file, &error);
    if (!side) {
        status = complain(self, "%s: offset %" PRIu64 ": %s", path, error.offset, error.text);
        goto out;
    }
    status = check_side_data(&v, path, &c);
    if (status >= 0) {
        goto out;
    }
    if (c.header_only) {
        fprintf(stderr,
                "opreg verify: %s: GGUF version %u, %zu keys, %zu tensors, %" PRIu64
                " bytes: the structure is sound; nothing was run\n",
                path, gguf_version(v.file), gguf_num_keys(v.file), gguf_num_tensors(v.file),
                gguf_size(v.file));
        status = EXIT_HELD;
        goto out;
    }
    v.reg = registry_open(self, c.threads);
    if (!v.reg) {
        status = EXIT_FAILED;
        goto out;
    }
    status = open_devices(&v, c.device);
    if (status < 0) {
        measure_columns(&v, &c);
        run_tensors(&v, &c, &s);
        count_failed_plugins(&v);
        status = summarise(&v, &s, &c);
    }
out:
    for (size_t i = 0; i < v.num_devices; i++) {
        device_close(&v.devices[i]);
    }
    free(v.devices);
    opreg_destroy(v.reg);
    side_data_close(side);
    gguf_close(file);
    return status;
}

const command command_verify = {
    "verify", "MODEL.gguf [options]", "runs every weight of a model and checks the results",
    "Runs each weight of a GGUF file through every variant that is switched on, on every device, "
    "with\n"
    "gaussian activations of its row length for 1 and 4 tokens (three-dimensional tensors: the "
    "grouped\n"
    "operators), and compares the bits with the CPU reference and the values with float64.\n"
    "Exit status: 0 everything held, 1 a check failed, 2 a bad file, a bad block or wrong usage.\n",
    run_verify};
