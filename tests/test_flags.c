/* SPDX-License-Identifier: MIT
 * test_flags.c - switches: words, where they come from, and what is said about wrong ones. */
#include "flags.h"

#include "registry_harness.h"

typedef struct said {
    char text[4096];
} said;

static void listen(void *user, const char *line) {
    said *s = user;
    size_t at = strlen(s->text);
    snprintf(s->text + at, sizeof s->text - at, "%s\n", line);
}

typedef struct store {
    flags flags;
    said said;
    size_t plugin, variant, cpu, trace, shadow, dir;
} store;

/* A store with one plugin, one variant, the backend, and the core's own. */
static void open_store(store *s, const char *const *env, int elevated) {
    memset(s, 0, sizeof *s);
    assert_works(flags_init_from(&s->flags, env, elevated, listen, &s->said));
    assert_works(flags_define(&s->flags, "trace", FLAG_TRACE, "off", "", &s->trace));
    assert_works(flags_define(&s->flags, "shadow", FLAG_SHADOW, "off", "", &s->shadow));
    assert_works(flags_define(&s->flags, "plugin-dir", FLAG_DIR, "", "", &s->dir));
    assert_works(flags_define(&s->flags, "cpu", FLAG_CPU_LEVEL, "on", "", &s->cpu));
    assert_works(flags_define(&s->flags, "cuda-sm60", FLAG_LEVEL, "off", "", &s->plugin));
    assert_works(flags_define(&s->flags, "cuda-sm60/q4_k_gemv", FLAG_VARIANT, "off", "", &s->variant));
    assert_works(flags_define_removed(&s->flags, "cuda-sm60/old_gemm", "cuda-sm60/q4_k_gemv"));
    assert_works(flags_define_removed(&s->flags, "cuda-sm60/older", ""));
    flags_check_unknown(&s->flags);
}

static const char *word_with(const char *variable, size_t which, char *about, size_t cap) {
    const char *env[] = {variable, NULL};
    static char word[32];
    store s;
    open_store(&s, env, 0);
    snprintf(word, sizeof word, "%s",
             flags_word(&s.flags, which == 0 ? s.plugin : which == 1 ? s.variant : which == 2 ? s.cpu
                        : which == 3 ? s.trace : s.shadow, NULL));
    snprintf(about, cap, "%s", s.said.text);
    flags_free(&s.flags);
    return word;
}

enum { PLUGIN, VARIANT, CPU, TRACE, SHADOW };

static void a_flag_has_one_variable(void **state) {
    char variable[128];
    (void)state;
    flags_variable("cuda-sm60/q4_k_gemv", variable, sizeof variable);
    assert_string_equal(variable, "OPREG_CUDA_SM60_Q4_K_GEMV");
}

static void every_documented_word_is_taken(void **state) {
    static const struct {
        const char *variable;
        size_t which;
        const char *word;
    } rows[] = {
        {"OPREG_CUDA_SM60=on", PLUGIN, "on"},       {"OPREG_CUDA_SM60=1", PLUGIN, "on"},
        {"OPREG_CUDA_SM60=true", PLUGIN, "on"},     {"OPREG_CUDA_SM60=yes", PLUGIN, "on"},
        {"OPREG_CUDA_SM60=off", PLUGIN, "off"},     {"OPREG_CUDA_SM60=0", PLUGIN, "off"},
        {"OPREG_CUDA_SM60=false", PLUGIN, "off"},   {"OPREG_CUDA_SM60=no", PLUGIN, "off"},
        {"OPREG_CUDA_SM60=exact", PLUGIN, "exact"}, {"OPREG_CUDA_SM60=fast", PLUGIN, "fast"},
        {"OPREG_CUDA_SM60_Q4_K_GEMV=on", VARIANT, "on"},
        {"OPREG_CUDA_SM60_Q4_K_GEMV=no", VARIANT, "off"},
        {"OPREG_CPU=exact", CPU, "exact"},          {"OPREG_CPU=fast", CPU, "fast"},
        {"OPREG_TRACE=plan", TRACE, "plan"},        {"OPREG_TRACE=run", TRACE, "run"},
        {"OPREG_TRACE=off", TRACE, "off"},          {"OPREG_SHADOW=1/100", SHADOW, "1/100"},
        {"OPREG_SHADOW=off", SHADOW, "off"},
    };
    char about[4096];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *word = word_with(rows[i].variable, rows[i].which, about, sizeof about);
        if (strcmp(word, rows[i].word) != 0 || about[0] != '\0') {
            fail_msg("%s gives %s and says \"%s\"", rows[i].variable, word, about);
        }
    }
}

static void a_bad_word_counts_as_off_and_says_what_is_taken(void **state) {
    static const struct {
        const char *variable;
        size_t which;
        const char *part;
    } rows[] = {
        {"OPREG_CUDA_SM60=", PLUGIN, "OPREG_CUDA_SM60=\"\" counts as off: it takes off on exact fast"},
        {"OPREG_CUDA_SM60=ON", PLUGIN, "it takes off on exact fast"},
        {"OPREG_CUDA_SM60= on", PLUGIN, "\" on\" counts as off"},
        {"OPREG_CUDA_SM60=2", PLUGIN, "\"2\" counts as off"},
        {"OPREG_CUDA_SM60_Q4_K_GEMV=fast", VARIANT, "it takes off on"},
        {"OPREG_TRACE=on", TRACE, "it takes off plan run"},
        {"OPREG_SHADOW=1/0", SHADOW, "it takes off 1/n"},
        {"OPREG_SHADOW=1/x", SHADOW, "it takes off 1/n"},
        {"OPREG_SHADOW=2", SHADOW, "it takes off 1/n"},
    };
    char about[4096];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *word = word_with(rows[i].variable, rows[i].which, about, sizeof about);
        if (strcmp(word, "off") != 0 || strstr(about, rows[i].part) == NULL) {
            fail_msg("%s gives %s and says \"%s\"", rows[i].variable, word, about);
        }
    }
}

static void the_cpu_backend_cannot_be_switched_off(void **state) {
    char about[4096];
    (void)state;
    assert_string_equal(word_with("OPREG_CPU=off", CPU, about, sizeof about), "on");
    assert_text(about, "OPREG_CPU=\"off\" counts as on: it takes on exact fast");
}

static void an_unknown_name_brings_the_nearest_real_one(void **state) {
    char about[4096];
    (void)state;
    word_with("OPREG_CUDA_SM6O=on", PLUGIN, about, sizeof about);
    assert_text(about, "OPREG_CUDA_SM6O is not a variable of opreg: did you mean OPREG_CUDA_SM60?");
    word_with("OPREG_TARCE=plan", TRACE, about, sizeof about);
    assert_text(about, "did you mean OPREG_TRACE?");
    word_with("OPREG_SOMETHING_ELSE_ENTIRELY=1", TRACE, about, sizeof about);
    assert_text(about, "`opreg list --env` lists them");
    word_with("OPREGANO=1", TRACE, about, sizeof about);
    assert_string_equal(about, "");
}

static void a_removed_name_says_what_to_use_now(void **state) {
    char about[4096];
    (void)state;
    word_with("OPREG_CUDA_SM60_OLD_GEMM=on", PLUGIN, about, sizeof about);
    assert_text(about, "OPREG_CUDA_SM60_OLD_GEMM is gone: use OPREG_CUDA_SM60_Q4_K_GEMV");
    word_with("OPREG_CUDA_SM60_OLDER=on", PLUGIN, about, sizeof about);
    assert_text(about, "nothing takes its place");
}

static void the_api_beats_the_environment_and_that_the_default(void **state) {
    const char *env[] = {"OPREG_CUDA_SM60=exact", NULL};
    uint32_t source;
    size_t index;
    store s;
    (void)state;
    open_store(&s, env, 0);
    assert_string_equal(flags_word(&s.flags, s.variant, &source), "off");
    assert_int_equal(source, OPREG_SOURCE_DEFAULT);
    assert_string_equal(flags_word(&s.flags, s.plugin, &source), "exact");
    assert_int_equal(source, OPREG_SOURCE_ENV);
    assert_works(flags_set(&s.flags, "cuda-sm60", "off", &index));
    assert_string_equal(flags_word(&s.flags, s.plugin, &source), "off");
    assert_int_equal(source, OPREG_SOURCE_API);
    flags_free(&s.flags);
}

static void the_api_names_the_nearest_flag_and_the_words(void **state) {
    size_t index;
    store s;
    (void)state;
    open_store(&s, NULL, 0);
    assert_failed(flags_set(&s.flags, "cuda-sm61", "on", &index), OPREG_E_ARG, "did you mean cuda-sm60?");
    assert_failed(flags_set(&s.flags, "cuda-sm60", "maybe", &index), OPREG_E_ARG,
                  "cuda-sm60 does not take \"maybe\", it takes: off on exact fast");
    assert_failed(flags_set(&s.flags, "plugin-dir", "/tmp", &index), OPREG_E_ARG, "does not take");
    assert_failed(flags_set(&s.flags, NULL, "on", &index), OPREG_E_ARG, "null");
    flags_free(&s.flags);
}

static void an_elevated_process_reads_no_variable(void **state) {
    const char *env[] = {"OPREG_CUDA_SM60=on", "OPREG_NONSENSE=1", "OPREG_PLUGIN_DIR=/", NULL};
    store s;
    (void)state;
    open_store(&s, env, 1);
    assert_string_equal(flags_word(&s.flags, s.plugin, NULL), "off");
    assert_null(flags_text(&s.flags, s.dir));
    assert_string_equal(s.said.text, "");
    flags_free(&s.flags);
}

static void two_flags_cannot_share_a_variable(void **state) {
    size_t index;
    store s;
    (void)state;
    open_store(&s, NULL, 0);
    assert_failed(flags_define(&s.flags, "cuda/sm60", FLAG_VARIANT, "off", "", &index), OPREG_E_ARG,
                  "cuda-sm60 and cuda/sm60 would share the variable OPREG_CUDA_SM60");
    flags_free(&s.flags);
}

static void a_plugin_cannot_take_a_flag_of_the_library(void **state) {
    size_t index;
    store s;
    (void)state;
    open_store(&s, NULL, 0);
    assert_works(flags_define(&s.flags, "strict", FLAG_SWITCH, "off", "refuse a silent baseline", &index));
    assert_failed(flags_define(&s.flags, "strict", FLAG_LEVEL, "off", "plugin strict", &index),
                  OPREG_E_ARG, "the flag strict is another one's already: \"refuse a silent baseline\"");
    flags_free(&s.flags);
}

static void the_plugin_directory_is_absolute_and_there(void **state) {
    const char *relative[] = {"OPREG_PLUGIN_DIR=lib", NULL}, *gone[] = {"OPREG_PLUGIN_DIR=/nowhere", NULL},
               *right[] = {"OPREG_PLUGIN_DIR=/tmp", NULL};
    store s;
    (void)state;
    open_store(&s, relative, 0);
    assert_null(flags_text(&s.flags, s.dir));
    assert_text(s.said.text, "is not an absolute path");
    flags_free(&s.flags);
    open_store(&s, gone, 0);
    assert_null(flags_text(&s.flags, s.dir));
    assert_text(s.said.text, "is not a directory that can be read");
    flags_free(&s.flags);
    open_store(&s, right, 0);
    assert_string_equal(flags_text(&s.flags, s.dir), "/tmp");
    assert_string_equal(s.said.text, "");
    flags_free(&s.flags);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flag_has_one_variable),
        cmocka_unit_test(every_documented_word_is_taken),
        cmocka_unit_test(a_bad_word_counts_as_off_and_says_what_is_taken),
        cmocka_unit_test(the_cpu_backend_cannot_be_switched_off),
        cmocka_unit_test(an_unknown_name_brings_the_nearest_real_one),
        cmocka_unit_test(a_removed_name_says_what_to_use_now),
        cmocka_unit_test(the_api_beats_the_environment_and_that_the_default),
        cmocka_unit_test(the_api_names_the_nearest_flag_and_the_words),
        cmocka_unit_test(an_elevated_process_reads_no_variable),
        cmocka_unit_test(two_flags_cannot_share_a_variable),
        cmocka_unit_test(a_plugin_cannot_take_a_flag_of_the_library),
        cmocka_unit_test(the_plugin_directory_is_absolute_and_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
