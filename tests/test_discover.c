/* SPDX-License-Identifier: MIT
 * test_discover.c - manifests, their libraries and their directories. */
#define _GNU_SOURCE
#include "discover.h"

#include <sys/stat.h>
#include <unistd.h>

#include "registry_harness.h"

#define RIGHT                                                                                      \
    "# a comment\nmanifest = 1\nname = cuda-sm60\nlibrary = libx.so\nabi = 1.0\ndevice = cuda\n"      \
    "archs = sm_60 sm_61\nkernels = base q4_k_gemv\nswitches = jit\nfuture = key\n"

static void a_manifest_is_read(void **state) {
    manifest m;
    const char *list;
    char word[64];
    (void)state;
    assert_works(manifest_parse("/p/a.manifest", RIGHT, &m));
    assert_string_equal(m.name, "cuda-sm60");
    assert_string_equal(m.file, "libx.so");
    assert_int_equal(m.device, OPREG_CUDA);
    assert_int_equal(m.abi_major, 1);
    list = m.kernels;
    assert_int_equal(next_word(&list, word, sizeof word), 1);
    assert_string_equal(word, "base");
    assert_int_equal(next_word(&list, word, sizeof word), 1);
    assert_string_equal(word, "q4_k_gemv");
    assert_int_equal(next_word(&list, word, sizeof word), 0);
}

static void a_wrong_manifest_names_the_line_or_the_key(void **state) {
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"", "the key manifest is missing"},
        {"manifest = 2\n", "a.manifest:1: manifest is \"2\""},
        {"manifest = 1\nname = x\nhello\n", "a.manifest:3: \"hello\" is not key = value"},
        {"manifest = 1\nname = x\nname = y\n", "a.manifest:3: name is there twice"},
        {"manifest = 1\nabi = one\n", "abi is \"one\", it must be MAJOR.MINOR"},
        {"manifest = 1\ndevice = tpu\n", "device is \"tpu\", it must be cpu, cuda or hip"},
        {"manifest = 1\nabi = 1.0\ndevice = cuda\n", "the key name is missing"},
        {"manifest = 1\nname = x\nlibrary = l.so\nabi = 1.0\ndevice = cuda\narchs = a\n",
         "the key kernels is missing"},
        {"manifest = 1\nname = X-Y\nlibrary = l.so\nabi = 1.0\ndevice = cuda\narchs = a\nkernels = b\n",
         "\"X-Y\" is not lower-case words"},
        {"manifest = 1\nname = x\nlibrary = ../l.so\nabi = 1.0\ndevice = cuda\narchs = a\nkernels = b\n",
         "library \"../l.so\" has a slash"},
        {"manifest = 1\nname = x\nlibrary = l.so\nabi = 1.0\ndevice = cuda\narchs = a\nkernels = b C\n",
         "kernel \"C\" is not"},
        {"manifest = 1\narchs = \x1b[31mred\n", "a.manifest:2: the character 0x1b, this is not a text"},
        {"manifest = 1\n# a\rb\n", "a.manifest:2: the character 0x0d"},
        {"manifest = 1\nname = a-name-that-is-far-too-long-to-be-a-plugin\n", "name is longer than 31"},
    };
    manifest m;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_failed(manifest_parse("/p/a.manifest", rows[i].text, &m), OPREG_E_LOAD, rows[i].part);
    }
}

/* One word too long used to end the list, and the kernels after it had no flags. */
static void a_word_that_is_too_long_is_refused_not_skipped(void **state) {
    static const char *const keys[] = {"kernels", "switches", "removed"};
    char text[1024], word[301];
    manifest m;
    (void)state;
    memset(word, 'a', 300);
    word[300] = '\0';
    for (size_t i = 0; i < 3; i++) {
        snprintf(text, sizeof text,
                 "manifest = 1\nname = x\nlibrary = x.so\nabi = 1.0\ndevice = cuda\narchs = y\n"
                 "%s%s = %s b\n",
                 i > 0 ? "kernels = k\n" : "", keys[i], word);
        assert_int_equal(manifest_parse("/x.manifest", text, &m), OPREG_E_LOAD);
    }
}

static void names_are_words_with_single_joints(void **state) {
    (void)state;
    assert_true(name_is_valid("cuda-sm60", '-'));
    assert_true(name_is_valid("q4_k_gemv", '_'));
    assert_false(name_is_valid("", '-'));
    assert_false(name_is_valid("-a", '-'));
    assert_false(name_is_valid("a-", '-'));
    assert_false(name_is_valid("a--b", '-'));
    assert_false(name_is_valid("a_b", '-'));
    assert_false(name_is_valid("4a", '-'));
    assert_false(name_is_valid("aB", '-'));
}

/* A fresh directory under the build's. */
static char folder[512], other[512];

static void write_file(const char *dir, const char *name, const char *text) {
    char path[1024];
    FILE *file;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_folders(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/opreg-discover-XXXXXX");
    snprintf(other, sizeof other, "/tmp/opreg-discover-XXXXXX");
    return mkdtemp(folder) == NULL || mkdtemp(other) == NULL;
}

static int remove_folders(void **state) {
    char command[1200];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s' '%s'", folder, other);
    return system(command);
}

static void in_folder(char *out, size_t cap, const char *name) {
    snprintf(out, cap, "%s/%s", folder, name);
}

static void a_library_is_a_file_beside_its_manifest(void **state) {
    char path[1024];
    manifest m;
    (void)state;
    in_folder(path, sizeof path, "a.manifest");
    assert_works(manifest_parse(path, RIGHT, &m));
    assert_failed(manifest_library(&m), OPREG_E_LOAD, "No such file");
    write_file(folder, "libx.so", "x");
    assert_works(manifest_library(&m));
    in_folder(path, sizeof path, "libx.so");
    assert_string_equal(m.library, path);
}

static void a_link_inside_the_directory_is_followed(void **state) {
    char path[1024], link[1024];
    manifest m;
    (void)state;
    write_file(folder, "libx.so.1", "x");
    in_folder(link, sizeof link, "libx.so");
    assert_int_equal(symlink("libx.so.1", link), 0);
    in_folder(path, sizeof path, "a.manifest");
    assert_works(manifest_parse(path, RIGHT, &m));
    assert_works(manifest_library(&m));
    in_folder(path, sizeof path, "libx.so.1");
    assert_string_equal(m.library, path);
}

static void a_link_out_of_the_directory_is_refused(void **state) {
    char path[1024], target[1024];
    manifest m;
    (void)state;
    write_file(other, "libx.so", "x");
    snprintf(target, sizeof target, "%s/libx.so", other);
    in_folder(path, sizeof path, "libx.so");
    assert_int_equal(symlink(target, path), 0);
    in_folder(path, sizeof path, "a.manifest");
    assert_works(manifest_parse(path, RIGHT, &m));
    assert_failed(manifest_library(&m), OPREG_E_LOAD, "a link that leaves the directory");
}

static void a_directory_is_not_a_library(void **state) {
    char path[1024];
    manifest m;
    (void)state;
    in_folder(path, sizeof path, "libx.so");
    assert_int_equal(mkdir(path, 0700), 0);
    in_folder(path, sizeof path, "a.manifest");
    assert_works(manifest_parse(path, RIGHT, &m));
    assert_failed(manifest_library(&m), OPREG_E_LOAD, "is not a regular file");
}

static void a_manifest_that_is_a_link_is_refused(void **state) {
    char path[1024];
    manifest m;
    (void)state;
    write_file(folder, "real", RIGHT);
    in_folder(path, sizeof path, "a.manifest");
    assert_int_equal(symlink("real", path), 0);
    assert_failed(manifest_read(path, &m), OPREG_E_LOAD, "not a regular file");
}

static void a_manifest_with_a_zero_byte_is_refused(void **state) {
    char path[1024];
    manifest m;
    FILE *file;
    (void)state;
    in_folder(path, sizeof path, "a.manifest");
    file = fopen(path, "w");
    assert_non_null(file);
    fwrite("manifest\0= 1", 1, 12, file);
    fclose(file);
    assert_failed(manifest_read(path, &m), OPREG_E_LOAD, "a zero byte at 8");
}

static void note_path(void *user, const char *path) {
    strcat(user, strrchr(path, '/'));
}

static void manifests_come_in_order_of_name(void **state) {
    char seen[256] = "";
    (void)state;
    write_file(folder, "b.manifest", "");
    write_file(folder, "a.manifest", "");
    write_file(folder, "B.manifest", "");
    write_file(folder, "c.txt", "");
    write_file(folder, ".manifest", "");
    assert_works(discover_directory(folder, note_path, seen));
    assert_string_equal(seen, "/B.manifest/a.manifest/b.manifest");
}

static void a_directory_that_is_not_there_is_named(void **state) {
    char seen[8] = "";
    (void)state;
    assert_failed(discover_directory("/nowhere/at/all", note_path, seen), OPREG_E_LOAD,
                  "/nowhere/at/all: No such file");
}

#define WITH_FOLDERS(test) cmocka_unit_test_setup_teardown(test, make_folders, remove_folders)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_manifest_is_read),
        cmocka_unit_test(a_wrong_manifest_names_the_line_or_the_key),
        cmocka_unit_test(a_word_that_is_too_long_is_refused_not_skipped),
        cmocka_unit_test(names_are_words_with_single_joints),
        WITH_FOLDERS(a_library_is_a_file_beside_its_manifest),
        WITH_FOLDERS(a_link_inside_the_directory_is_followed),
        WITH_FOLDERS(a_link_out_of_the_directory_is_refused),
        WITH_FOLDERS(a_directory_is_not_a_library),
        WITH_FOLDERS(a_manifest_that_is_a_link_is_refused),
        WITH_FOLDERS(a_manifest_with_a_zero_byte_is_refused),
        WITH_FOLDERS(manifests_come_in_order_of_name),
        cmocka_unit_test(a_directory_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
