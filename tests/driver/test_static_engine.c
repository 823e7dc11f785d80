/* SPDX-License-Identifier: MIT
 * test_static_engine.c - an engine with every plugin that is built linked into it, over stand-ins for
 * the drivers: plugins that share sources keep apart what is theirs.
 *
 *   test_static_engine CUDA-STAND-IN HIP-STAND-IN */
#include <dlfcn.h>

#include "../registry_harness.h"
#include "engine.h"
#include "stand_in.h"

/* LINKED(symbol, plugin, vendor, arch): a row for each, written by CMake. */
#define LINKED(symbol, plugin, vendor, arch)                                                       \
    opreg_status opreg_##symbol##_entry(const opreg_host *host, opreg_plugin *out);
#include "linked.inc"
#undef LINKED

static const struct {
    opreg_entry_fn entry;
    const char *plugin, *vendor, *arch;
} linked[] = {
#define LINKED(symbol, plugin, vendor, arch) {opreg_##symbol##_entry, plugin, vendor, arch},
#include "linked.inc"
#undef LINKED
};
#define NUM_LINKED (sizeof linked / sizeof linked[0])

static stand_in_state *cuda, *hip;
static captured said;

static stand_in_state *open_stand_in(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol;
    stand_in_fn get = NULL;
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    symbol = dlsym(library, "stand_in");
    memcpy(&get, &symbol, sizeof symbol);
    return get();
}

/* A device for each plugin, and one registry with all of them. */
static void every_linked_plugin_drives_its_own_devices(void **state) {
    opreg_entry_fn entries[NUM_LINKED];
    opreg_config config = capture_config(&said, OPREG_CF_NO_ENV);
    opreg_registry *reg = NULL;
    opreg_device rows[16];
    size_t count;
    (void)state;
    cuda->num_devices = hip->num_devices = 0;
    for (size_t i = 0; i < NUM_LINKED; i++) {
        stand_in_state *driver = strcmp(linked[i].vendor, "cuda") == 0 ? cuda : hip;
        snprintf(driver->arch[driver->num_devices++], sizeof driver->arch[0], "%s", linked[i].arch);
        entries[i] = linked[i].entry;
    }
    config.entries = entries;
    config.num_entries = NUM_LINKED;
    assert_works(opreg_create(&config, &reg));
    count = opreg_devices(reg, rows, sizeof rows[0], 16);
    assert_int_equal(count, NUM_LINKED + 1);
    for (size_t i = 0; i < NUM_LINKED; i++) {
        const opreg_device *row = &rows[1 + i];
        assert_int_equal(row->kind, strcmp(linked[i].vendor, "cuda") == 0 ? OPREG_CUDA : OPREG_HIP);
        assert_string_equal(row->arch, linked[i].arch);
        assert_works(opreg_enable(reg, linked[i].plugin, "exact"));
        assert_works(engine_step(reg, row));
    }
    assert_works(opreg_destroy(reg));
    assert_int_equal(cuda->live + hip->live, 0);
    assert_string_equal(cuda->misuse, "");
    assert_string_equal(hip->misuse, "");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_linked_plugin_drives_its_own_devices),
    };
    if (argc != 3) {
        fprintf(stderr, "usage: test_static_engine CUDA-STAND-IN HIP-STAND-IN\n");
        return 2;
    }
    cuda = open_stand_in(argv[1]);
    hip = open_stand_in(argv[2]);
    return cmocka_run_group_tests_name("static engine", tests, NULL, NULL);
}
