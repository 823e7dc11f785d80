/* SPDX-License-Identifier: MIT
 * test_plugin_folders.c - folders of manifests that are broken, hostile or very full, as a registry
 * meets them: each bad file is a warning that names it, and what is right beside it is found. */
#define _GNU_SOURCE
#include "registry_harness.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RIGHT                                                                                      \
    "manifest = 1\nlibrary = libx.so\nabi = 1.0\ndevice = cpu\narchs = x86_64\nkernels = one two\n" \
    "name = "

static char folder[64], other[64];
static captured said;

static int make_folders(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/opreg-folder-XXXXXX");
    snprintf(other, sizeof other, "/tmp/opreg-folder-XXXXXX");
    return mkdtemp(folder) == NULL || mkdtemp(other) == NULL;
}

static int remove_folders(void **state) {
    char command[200];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s' '%s'", folder, other);
    return system(command);
}

static const char *in(const char *dir, const char *name) {
    static char path[4][300];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[0], "%s/%s", dir, name);
    return path[next];
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void write_manifest(const char *name) {
    char text[300], file[64];
    snprintf(text, sizeof text, RIGHT "%s\n", name);
    snprintf(file, sizeof file, "%s.manifest", name);
    write_file(in(folder, file), text);
}

/* The folder has `bad`, which is complained of by name and with `why`, and a right manifest. */
static void only_the_right_one_is_found(const char *bad, const char *why) {
    opreg_registry *reg = quiet_registry(&said);
    opreg_plugin_row rows[4];
    write_manifest("right");
    assert_failed(opreg_discover(reg, folder), OPREG_E_LOAD, bad);
    assert_text(opreg_last_error(), why);
    assert_text(said.text, bad);
    assert_int_equal(opreg_plugins(reg, rows, sizeof rows[0], 4), 2);
    assert_string_equal(rows[1].name, "right");
    assert_works(opreg_destroy(reg));
}

static void an_empty_manifest_is_refused_by_its_first_key(void **state) {
    (void)state;
    write_file(in(folder, "empty.manifest"), "");
    only_the_right_one_is_found("empty.manifest", "the key manifest is missing");
}

static void a_manifest_that_is_a_folder_is_refused(void **state) {
    (void)state;
    assert_int_equal(mkdir(in(folder, "a.manifest"), 0755), 0);
    only_the_right_one_is_found("a.manifest", "not a regular file");
}

static void a_manifest_that_is_a_pipe_does_not_hang(void **state) {
    (void)state;
    assert_int_equal(mkfifo(in(folder, "a.manifest"), 0644), 0);
    only_the_right_one_is_found("a.manifest", "not a regular file");
}

static void a_manifest_in_a_loop_of_links_is_refused(void **state) {
    (void)state;
    assert_int_equal(symlink("b.manifest", in(folder, "a.manifest")), 0);
    assert_int_equal(symlink("a.manifest", in(folder, "b.manifest")), 0);
    only_the_right_one_is_found("a.manifest", "not a regular file");
}

static void a_manifest_of_another_folder_is_not_read_through_a_link(void **state) {
    (void)state;
    write_file(in(other, "outside.manifest"), RIGHT "outside\n");
    assert_int_equal(symlink(in(other, "outside.manifest"), in(folder, "a.manifest")), 0);
    only_the_right_one_is_found("a.manifest", "not a regular file");
}

/* In a child without root's rights, for whom files can be unreadable: the folder is refused with both
 * texts, and plugins are known afterwards. */
static void assert_unreadable(const char *named, const char *reason, size_t plugins) {
    int status = -1;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        opreg_config config = capture_config(&said, OPREG_CF_NO_ENV);
        opreg_registry *reg = NULL;
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) {
            _exit(3);
        }
        if (opreg_create(&config, &reg) != OPREG_OK ||
            opreg_discover(reg, folder) != OPREG_E_LOAD ||
            strstr(opreg_last_error(), named) == NULL ||
            strstr(opreg_last_error(), reason) == NULL ||
            opreg_plugins(reg, NULL, 0, 0) != plugins) {
            _exit(1);
        }
        _exit(opreg_destroy(reg) == OPREG_OK ? 0 : 2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void a_manifest_that_may_not_be_read_is_named_with_the_reason(void **state) {
    (void)state;
    write_file(in(folder, "secret.manifest"), RIGHT "secret\n");
    assert_int_equal(chmod(in(folder, "secret.manifest"), 0), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    write_manifest("right");
    assert_unreadable("secret.manifest: Permission denied", "Permission denied", 2);
}

static void a_folder_that_may_not_be_read_is_named_with_the_reason(void **state) {
    (void)state;
    assert_int_equal(chmod(folder, 0), 0);
    assert_unreadable(folder, "Permission denied", 1);
    assert_int_equal(chmod(folder, 0755), 0);
}

static void a_folder_in_a_loop_of_links_is_named(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    (void)state;
    assert_int_equal(symlink("b", in(folder, "a")), 0);
    assert_int_equal(symlink("a", in(folder, "b")), 0);
    assert_failed(opreg_discover(reg, in(folder, "a")), OPREG_E_LOAD, "symbolic links");
    assert_works(opreg_destroy(reg));
}

/* What its manifest calls the library is not opened; the plugin says why, and stays known. */
static void the_library_is_refused(const char *why) {
    opreg_registry *reg = quiet_registry(&said);
    write_manifest("right");
    assert_works(opreg_discover(reg, folder));
    assert_failed(opreg_enable(reg, "right", "on"), OPREG_E_LOAD, why);
    assert_works(opreg_destroy(reg));
}

static void a_library_in_a_loop_of_links_is_refused(void **state) {
    (void)state;
    assert_int_equal(symlink("liby.so", in(folder, "libx.so")), 0);
    assert_int_equal(symlink("libx.so", in(folder, "liby.so")), 0);
    the_library_is_refused("symbolic links");
}

static void a_library_outside_the_folder_is_refused(void **state) {
    (void)state;
    write_file(in(other, "libx.so"), "x");
    assert_int_equal(symlink(in(other, "libx.so"), in(folder, "libx.so")), 0);
    the_library_is_refused("a link that leaves the directory");
}

/* The folder of another name that starts the same is not the folder. */
static void a_folder_with_a_longer_name_is_outside(void **state) {
    char longer[80];
    (void)state;
    snprintf(longer, sizeof longer, "%s-more", folder);
    assert_int_equal(mkdir(longer, 0755), 0);
    write_file(in(longer, "libx.so"), "x");
    assert_int_equal(symlink(in(longer, "libx.so"), in(folder, "libx.so")), 0);
    the_library_is_refused("a link that leaves the directory");
    assert_int_equal(unlink(in(longer, "libx.so")), 0);
    assert_int_equal(rmdir(longer), 0);
}

static void an_empty_library_is_refused(void **state) {
    (void)state;
    write_file(in(folder, "libx.so"), "");
    the_library_is_refused("cannot be loaded");
}

static void a_library_name_that_climbs_is_refused(void **state) {
    opreg_registry *reg = quiet_registry(&said);
    (void)state;
    write_file(in(folder, "a.manifest"),
               "manifest = 1\nname = a\nlibrary = ../libx.so\nabi = 1.0\ndevice = cpu\n"
               "archs = x86_64\nkernels = one\n");
    assert_failed(opreg_discover(reg, folder), OPREG_E_LOAD, "has a slash");
    write_file(in(folder, "a.manifest"),
               "manifest = 1\nname = a\nlibrary = ..\nabi = 1.0\ndevice = cpu\n"
               "archs = x86_64\nkernels = one\n");
    assert_works(opreg_discover(reg, folder));
    assert_failed(opreg_enable(reg, "a", "on"), OPREG_E_LOAD, "not a regular file");
    assert_works(opreg_destroy(reg));
}

static void write_many(int count, const char *kernels) {
    char text[2000], name[32];
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "plugin-%05d.manifest", i);
        snprintf(text, sizeof text,
                 "manifest = 1\nlibrary = libx.so\nabi = 1.0\ndevice = cpu\narchs = x86_64\n"
                 "kernels = %s\nname = plugin-%05d\n",
                 kernels, i);
        write_file(in(folder, name), text);
    }
}

static double seconds(clock_t since) { return (double)(clock() - since) / CLOCKS_PER_SEC; }

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWER 10.0
#else
#define SLOWER 1.0
#endif

static void a_thousand_plugins_are_listed_in_a_second(void **state) {
    opreg_plugin_row *plugins = calloc(1001, sizeof *plugins);
    size_t flags;
    opreg_flag_row *rows;
    opreg_registry *reg;
    clock_t start;
    (void)state;
    write_many(1000, "a1 a2 a3 a4 a5 a6 a7 a8 a9 b1 b2 b3 b4 b5 b6 b7 b8 b9 c1 c2");
    start = clock();
    reg = quiet_registry(&said);
    assert_works(opreg_discover(reg, folder));
    assert_int_equal(opreg_plugins(reg, plugins, sizeof plugins[0], 1001), 1001);
    assert_string_equal(plugins[1000].name, "plugin-00999");
    flags = opreg_flags(reg, NULL, sizeof *rows, 0);
    assert_true(flags >= 21000);
    rows = calloc(flags, sizeof *rows);
    assert_int_equal(opreg_flags(reg, rows, sizeof *rows, flags), flags);
    assert_true(seconds(start) < 1.0 * SLOWER);
    free(rows);
    free(plugins);
    assert_works(opreg_destroy(reg));
}

static void ten_thousand_manifests_are_read(void **state) {
    opreg_registry *reg;
    clock_t start;
    (void)state;
    write_many(10000, "one two");
    start = clock();
    reg = quiet_registry(&said);
    assert_works(opreg_discover(reg, folder));
    assert_int_equal(opreg_plugins(reg, NULL, 0, 0), 10001);
    assert_works(opreg_discover(reg, folder)); /* all known already */
    assert_int_equal(opreg_plugins(reg, NULL, 0, 0), 10001);
    assert_works(opreg_destroy(reg));
    assert_true(seconds(start) < 10.0 * SLOWER);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folders, remove_folders)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(an_empty_manifest_is_refused_by_its_first_key),
        TEST(a_manifest_that_is_a_folder_is_refused),
        TEST(a_manifest_that_is_a_pipe_does_not_hang),
        TEST(a_manifest_in_a_loop_of_links_is_refused),
        TEST(a_manifest_of_another_folder_is_not_read_through_a_link),
        TEST(a_manifest_that_may_not_be_read_is_named_with_the_reason),
        TEST(a_folder_that_may_not_be_read_is_named_with_the_reason),
        TEST(a_folder_in_a_loop_of_links_is_named),
        TEST(a_library_in_a_loop_of_links_is_refused),
        TEST(a_library_outside_the_folder_is_refused),
        TEST(a_folder_with_a_longer_name_is_outside),
        TEST(an_empty_library_is_refused),
        TEST(a_library_name_that_climbs_is_refused),
        TEST(a_thousand_plugins_are_listed_in_a_second),
        TEST(ten_thousand_manifests_are_read),
    };
    return cmocka_run_group_tests_name("plugin folders", tests, NULL, NULL);
}
