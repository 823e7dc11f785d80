/* SPDX-License-Identifier: MIT
 * kit.c - the conformance kit over this plugin linked into the program: `sm90-kit [KERNEL [quick | ""
 * [FORMAT ...]]]`.  Prints what failed, the cells that never ran and the closing line.  Exit status 77
 * without a device. */
#include "opreg/opreg_plugin.h"
#include "opreg/opreg_test.h"

#include <stdio.h>
#include <string.h>

opreg_status opreg_cuda_sm90_entry(const opreg_host *host, opreg_plugin *out);

static int lines;

static void on_event(void *user, const opreg_kit_event *event) {
    char text[2048];
    (void)user;
    if (event->kind == OPREG_KIT_PROGRESS || event->verdict == OPREG_KIT_PASSED || lines++ > 60) {
        return;
    }
    opreg_kit_event_print(event, 0, text, sizeof text);
    printf("%.600s\n", text);
    fflush(stdout);
}

int main(int argc, char **argv) {
    opreg_config config = {.struct_size = sizeof config,
                           .flags = OPREG_CF_NO_ENV | OPREG_CF_NO_INSTALLED};
    opreg_kit_options options = {.struct_size = sizeof options,
                                 .plugin = "cuda-sm90",
                                 .kernel = argc > 1 && argv[1][0] != 0 ? argv[1] : NULL,
                                 .event = on_event};
    opreg_kit_report all = {.struct_size = sizeof all};
    opreg_registry *registry = NULL;
    char text[256];
    if (argc > 2 && strcmp(argv[2], "quick") == 0) {
        options.flags = OPREG_KIT_QUICK;
    }
    if (opreg_create(&config, &registry) != OPREG_OK ||
        opreg_add(registry, opreg_cuda_sm90_entry) != OPREG_OK ||
        opreg_enable(registry, "cuda-sm90", "fast") != OPREG_OK) {
        printf("kit: %s\n", opreg_last_error());
        return 1;
    }
    for (int i = 3; i < argc || i == 3; i++) {
        opreg_kit_report report = {.struct_size = sizeof report};
        options.format = i < argc ? argv[i] : NULL;
        if (opreg_kit_run(registry, &options, &report) != OPREG_OK) {
            printf("kit: %s\n", opreg_last_error());
            return 1;
        }
        all.passed += report.passed;
        all.failed += report.failed;
        all.skipped += report.skipped;
        all.never_run += report.never_run;
    }
    opreg_kit_report_print(&all, text, sizeof text);
    printf("kit: %s\n", text);
    if (all.passed == 0) {
        opreg_plugin_row plugins[8];
        size_t count = opreg_plugins(registry, plugins, sizeof plugins[0], 8);
        for (size_t i = 0; i < count && i < 8; i++) {
            printf("%s: %s\n", plugins[i].name, plugins[i].reason);
        }
    }
    opreg_destroy(registry);
    return all.skipped != 0 && all.passed == 0 ? 77 : all.failed + all.never_run != 0;
}
