/* SPDX-License-Identifier: MIT
 * test.c - opreg test: the conformance kit on the plugins that are open. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "opreg/opreg_test.h"
#include "output.h"
#include "registry.h"

#if defined(OPREG_COMMAND_HAS_KIT)

typedef struct listener {
    int json, verbose;
    progress progress;
} listener;

static void on_event(void *user, const opreg_kit_event *event) {
    listener *l = user;
    char text[4096];
    if (event->kind == OPREG_KIT_PROGRESS) {
        progress_show(&l->progress, "opreg test: case %llu of %llu",
                      (unsigned long long)event->cases, (unsigned long long)event->refused);
        return;
    }
    if (event->kind == OPREG_KIT_CASE && event->verdict == OPREG_KIT_PASSED && !l->verbose) {
        return;
    }
    progress_clear(&l->progress);
    opreg_kit_event_print(event, l->json, text, sizeof text);
    puts(text);
    fflush(stdout);
}

static int run_test(const command *self, int argc, char **argv) {
    opreg_kit_options options = {.struct_size = sizeof options};
    opreg_kit_report report = {.struct_size = sizeof report};
    listener l = {0};
    int64_t seed = 0, threads = 0;
    int full = 0, quick = 0, status;
    size_t others;
    opreg_registry *reg;
    opreg_status ran;
    char text[256];
    const option table[] = {
        {"--plugin", "NAME", OPTION_TEXT, &options.plugin, "this plugin only; it is switched on"},
        {"--kernel", "NAME", OPTION_TEXT, &options.kernel, "this variant only"},
        {"--op", "OP", OPTION_TEXT, &options.op, "this operator only"},
        {"--format", "FORMAT", OPTION_TEXT, &options.format, "this weight format only"},
        {"--seed", "S", OPTION_INTEGER, &seed, "repeats a run; the seed is printed with failures"},
        {"--full", NULL, OPTION_SWITCH, &full, "the whole product of dtypes and edges"},
        {"--quick", NULL, OPTION_SWITCH, &quick, "a few cases a format, for slow emulators"},
        {"--verbose", NULL, OPTION_SWITCH, &l.verbose, "also a line for each case that passes"},
        {"--threads", "T", OPTION_INTEGER, &threads, "of the CPU; 0: all"},
        {"--json", NULL, OPTION_SWITCH, &l.json,
         "one object a line (docs/command.md has the keys)"},
        {NULL, NULL, OPTION_SWITCH, NULL, NULL}};
    status = options_read(self, table, argc, argv, NULL, 0, &others);
    if (status >= 0) {
        return status;
    }
    if (full && quick) {
        return complain(self, "--full and --quick contradict each other");
    }
    reg = registry_open(self, threads);
    if (!reg) {
        return EXIT_FAILED;
    }
    options.flags = (full ? OPREG_KIT_FULL : 0u) | (quick ? OPREG_KIT_QUICK : 0u);
    options.seed = (uint64_t)seed;
    options.event = on_event;
    options.user = &l;
    progress_start(&l.progress);
    ran = opreg_kit_run(reg, &options, &report);
    progress_clear(&l.progress);
    if (ran != OPREG_OK) {
        status = complain(self, "%s", opreg_last_error());
    } else {
        opreg_kit_report_print(&report, text, sizeof text);
        fprintf(stderr, "%s\n", text);
        status = report.failed == 0 && report.never_run == 0 && report.passed > 0 ? EXIT_HELD
                                                                                  : EXIT_FAILED;
    }
    opreg_destroy(reg);
    return status;
}
#else
static int run_test(const command *self, int argc, char **argv) {
    (void)argc;
    (void)argv;
    return complain(self, "this build has no conformance kit");
}
#endif

const command command_test = {"test", "[--plugin P] [--kernel K] [options]",
                              "runs the conformance kit on the open plugins",
                              "Holds every variant to what it declares: bits, error bounds, "
                              "guards, determinism.  Prints failures,\n"
                              "skips and one count for each (variant, device, format, dtypes).  "
                              "Exit status: 0 when nothing failed\n"
                              "and nothing was never run, 1 otherwise, 2 wrong usage.\n",
                              run_test};
