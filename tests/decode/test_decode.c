/* SPDX-License-Identifier: MIT
 * test_decode.c - what the engine of examples/decode promises, on one model:
 *
 *   test_decode MODEL.gguf IDS.json
 *
 * IDS.json is what llama.cpp decoded from the same file (make_ids.py).  Where the model is absent,
 * every test is skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "engine.h"
#include "sample.h"
#include "tokenizer.h"

#define NEAR_TIE 0.05 /* nats */
#define MOST     256  /* ids of a case */
#define BITS     20   /* tokens whose logits are compared bit by bit */

typedef struct decode_case {
    const char *prompt;
    int32_t prompt_ids[MOST], ids[MOST];
    int32_t prompt_count, count;
} decode_case;

static const char *model_path, *ids_path;
static model subject;
static json_t *document;
static decode_case cases[8];
static size_t num_cases;

/* An engine with its own registry. */
typedef struct setup {
    opreg_registry *registry;
    engine *engine;
} setup;

static setup open_setup(const char *level, uint32_t threads, int32_t sequences, int32_t batch) {
    opreg_config config = {.struct_size = sizeof config,
                           .flags = OPREG_CF_NO_ENV | OPREG_CF_NO_INSTALLED,
                           .threads = threads};
    engine_options options = {
        .sequences = sequences, .positions = 512 * sequences, .batch = batch};
    reason why = {{0}};
    setup s;
    assert_int_equal(opreg_create(&config, &s.registry), OPREG_OK);
    assert_int_equal(opreg_enable(s.registry, "cpu", level), OPREG_OK);
    s.engine = engine_open(&subject, s.registry, &options, &why);
    if (!s.engine) {
        fail_msg("%s", why.text);
    }
    return s;
}

static void close_setup(setup *s) {
    engine_close(s->engine);
    assert_int_equal(opreg_destroy(s->registry), OPREG_OK);
}

static const float *decode(engine *e, int32_t sequence, const int32_t *ids, int32_t count,
                           int32_t rows) {
    engine_part part = {sequence, ids, count, rows};
    const float *logits = NULL;
    reason why = {{0}};
    if (!engine_decode(e, &part, 1, &logits, &why)) {
        fail_msg("%s", why.text);
    }
    return logits;
}

static void assert_same_bits(const float *logits, const float *expected, int32_t position,
                             const char *what) {
    if (memcmp(logits, expected, (size_t)subject.vocab * sizeof *logits) != 0) {
        fail_msg("%s: the logits of token %d have other bits", what, (int)position);
    }
}

/* Logits of the first BITS tokens of the second case, one by one, on one thread of the reference. */
static float *reference_logits(void) {
    static float *kept;
    size_t row = (size_t)subject.vocab;
    if (!kept) {
        setup s = open_setup("on", 1, 1, 1);
        kept = malloc(BITS * row * sizeof *kept);
        assert_non_null(kept);
        for (int32_t i = 0; i < BITS; i++) {
            memcpy(kept + (size_t)i * row, decode(s.engine, 0, &cases[1].prompt_ids[i], 1, 1),
                   row * sizeof *kept);
        }
        close_setup(&s);
    }
    return kept;
}

/* The same tokens again, width at a time. */
static void compare_with_reference(engine *e, int32_t width, const char *what) {
    const float *expected = reference_logits();
    for (int32_t at = 0; at < BITS; at += width) {
        int32_t count = BITS - at < width ? BITS - at : width;
        const float *logits = decode(e, 0, cases[1].prompt_ids + at, count, count);
        for (int32_t i = 0; i < count; i++) {
            assert_same_bits(logits + (int64_t)i * subject.vocab,
                             expected + (int64_t)(at + i) * subject.vocab, at + i, what);
        }
    }
}

static void need_model(void) {
    if (!subject.file) {
        print_message("%s is not here\n", model_path);
        skip();
    }
}

/* ---- llama.cpp's answers ------------------------------------------------------------------------ */

static void prompts_have_llama_cpps_ids(void **state) {
    reason why = {{0}};
    tokenizer *t;
    (void)state;
    need_model();
    t = tokenizer_open(subject.file, &why);
    assert_non_null(t);
    for (size_t i = 0; i < num_cases; i++) {
        int32_t *ids = NULL, count = 0;
        if (!tokenizer_encode(t, cases[i].prompt, strlen(cases[i].prompt), &ids, &count, &why)) {
            fail_msg("prompt %zu: %s", i, why.text);
        }
        assert_int_equal(count, cases[i].prompt_count);
        assert_memory_equal(ids, cases[i].prompt_ids, (size_t)count * sizeof *ids);
        free(ids);
    }
    tokenizer_close(t);
}

static void ids_give_their_text_back(void **state) {
    reason why = {{0}};
    tokenizer *t;
    (void)state;
    need_model();
    t = tokenizer_open(subject.file, &why);
    assert_non_null(t);
    for (size_t i = 0; i < num_cases; i++) {
        char text[4096];
        size_t length = 0;
        for (int32_t j = 0; j < cases[i].prompt_count; j++) {
            length += tokenizer_piece(t, cases[i].prompt_ids[j], text + length,
                                      sizeof text - 1 - length);
            assert_true(length < sizeof text - 1);
        }
        text[length] = '\0';
        assert_string_equal(text[0] == ' ' && cases[i].prompt[0] != ' ' ? text + 1 : text,
                            cases[i].prompt);
    }
    tokenizer_close(t);
}

/* Teacher-forced: the engine reads what llama.cpp took, and says how good it finds each token. */
static void each_token_of_llama_cpp_is_the_best_or_a_near_tie(void **state) {
    setup s;
    int64_t best = 0, all = 0;
    (void)state;
    need_model();
    s = open_setup("exact", 0, 1, MOST);
    for (size_t i = 0; i < num_cases; i++) {
        const decode_case *c = &cases[i];
        int32_t ids[2 * MOST], before = c->prompt_count - 1;
        const float *logits;
        memcpy(ids, c->prompt_ids, (size_t)c->prompt_count * sizeof *ids);
        memcpy(ids + c->prompt_count, c->ids, (size_t)c->count * sizeof *ids);
        engine_truncate(s.engine, 0, 0);
        logits = decode(s.engine, 0, ids, before + c->count, c->count);
        for (int32_t j = 0; j < c->count; j++) {
            const float *row = logits + (int64_t)j * subject.vocab;
            int32_t choice = sample_greedy(row, subject.vocab);
            double gap = (double)row[choice] - (double)row[c->ids[j]];
            best += choice == c->ids[j];
            all++;
            if (!(gap <= NEAR_TIE)) {
                fail_msg("prompt %zu, token %d: %d is %.4f nats below %d", i, (int)j,
                         (int)c->ids[j], gap, (int)choice);
            }
        }
    }
    close_setup(&s);
    if (best * 10 < all * 9) { /* logits that are all alike would be near ties all */
        fail_msg("only %d of %d tokens are the best", (int)best, (int)all);
    }
}

/* ---- the same bits ------------------------------------------------------------------------------ */

static void logits_have_the_same_bits_on_1_and_8_threads(void **state) {
    setup s;
    (void)state;
    need_model();
    s = open_setup("on", 8, 1, 8);
    compare_with_reference(s.engine, 8, "8 threads");
    close_setup(&s);
}

static void logits_have_the_same_bits_at_every_verification_width(void **state) {
    setup s;
    (void)state;
    need_model();
    s = open_setup("exact", 2, 1, 8);
    for (int32_t width = 2; width <= 8; width++) {
        char what[32];
        snprintf(what, sizeof what, "width %d", (int)width);
        engine_truncate(s.engine, 0, 0);
        compare_with_reference(s.engine, width, what);
    }
    close_setup(&s);
}

static void logits_have_the_same_bits_at_the_reference_and_the_exact_level(void **state) {
    setup s;
    int other = 0;
    (void)state;
    need_model();
    s = open_setup("exact", 1, 1, 1);
    compare_with_reference(s.engine, 1, "exact");
    for (size_t i = 0; engine_kernel(s.engine, i); i++) {
        other += strncmp(engine_kernel(s.engine, i), "cpu/reference_", 14) != 0;
    }
    close_setup(&s);
    if (other == 0) {
        print_message("this processor has no other variants\n");
        skip();
    }
}

static void a_prompt_in_one_pass_has_the_bits_of_single_tokens(void **state) {
    setup s;
    (void)state;
    need_model();
    s = open_setup("exact", 2, 1, BITS);
    compare_with_reference(s.engine, BITS, "one pass");
    close_setup(&s);
}

static void a_rejected_draft_leaves_no_trace(void **state) {
    int32_t draft[5] = {3, 1, 4, 1, 5};
    const float *expected, *logits;
    setup s;
    (void)state;
    need_model();
    s = open_setup("exact", 2, 1, BITS);
    expected = reference_logits();
    decode(s.engine, 0, cases[1].prompt_ids, BITS - 1, 0);
    decode(s.engine, 0, draft, 5, 5);
    assert_int_equal(engine_length(s.engine, 0), BITS + 4);
    engine_truncate(s.engine, 0, BITS - 1);
    logits = decode(s.engine, 0, &cases[1].prompt_ids[BITS - 1], 1, 1);
    assert_same_bits(logits, expected + (int64_t)(BITS - 1) * subject.vocab, BITS - 1, "draft");
    close_setup(&s);
}

/* Three sequences of different lengths in one batch, whose pages lie between each other's. */
static void sequences_decoded_together_have_the_bits_of_one_alone(void **state) {
    const float *expected, *logits = NULL;
    reason why = {{0}};
    setup s;
    (void)state;
    need_model();
    s = open_setup("exact", 2, 3, 3 * BITS);
    expected = reference_logits();
    for (int32_t i = 0; i < BITS; i++) {
        engine_part parts[3] = {{2, &cases[0].prompt_ids[i % cases[0].prompt_count], 1, 1},
                                {0, &cases[1].prompt_ids[i], 1, 1},
                                {1, cases[2].prompt_ids, 1 + i % 3, i % 2}};
        if (!engine_decode(s.engine, parts, 3, &logits, &why)) {
            fail_msg("%s", why.text);
        }
        assert_same_bits(logits + subject.vocab, expected + (int64_t)i * subject.vocab, i,
                         "three sequences");
    }
    close_setup(&s);
}

/* ---- refusals ----------------------------------------------------------------------------------- */

static void a_full_cache_refuses_and_changes_nothing(void **state) {
    opreg_config config = {.struct_size = sizeof config,
                           .flags = OPREG_CF_NO_ENV | OPREG_CF_NO_INSTALLED};
    engine_options options = {.sequences = 2, .positions = 64, .batch = 40};
    int32_t ids[40] = {0};
    engine_part parts[2] = {{0, ids, 20, 0}, {1, ids, 20, 1}};
    const float *logits;
    opreg_registry *registry;
    reason why = {{0}};
    engine *e;
    (void)state;
    need_model();
    assert_int_equal(opreg_create(&config, &registry), OPREG_OK);
    assert_int_equal(opreg_enable(registry, "cpu", "exact"), OPREG_OK);
    e = engine_open(&subject, registry, &options, &why);
    assert_non_null(e);
    assert_true(engine_decode(e, parts, 2, &logits, &why));
    assert_false(engine_decode(e, parts, 2, &logits, &why)); /* two pages more; none is free */
    assert_non_null(strstr(why.text, "cache is full"));
    assert_int_equal(engine_length(e, 0), 20);
    assert_int_equal(engine_length(e, 1), 20);
    engine_truncate(e, 1, 0);
    assert_true(engine_decode(e, parts, 1, &logits, &why));
    parts[1].sequence = 0;
    assert_false(engine_decode(e, parts, 2, &logits, &why));
    parts[0].sequence = 2;
    assert_false(engine_decode(e, parts, 1, &logits, &why));
    parts[0] = (engine_part){1, ids, 41, 0};
    assert_false(engine_decode(e, parts, 1, &logits, &why));
    ids[0] = subject.vocab;
    parts[0].count = 1;
    assert_false(engine_decode(e, parts, 1, &logits, &why));
    assert_non_null(strstr(why.text, "token"));
    engine_close(e);
    assert_int_equal(opreg_destroy(registry), OPREG_OK);
}

/* ---- the files ---------------------------------------------------------------------------------- */

static int32_t read_ids(const json_t *array, int32_t *out) {
    size_t count = json_array_size(array);
    for (size_t i = 0; i < count && i < MOST; i++) {
        out[i] = (int32_t)json_integer_value(json_array_get(array, i));
    }
    return count <= MOST ? (int32_t)count : 0;
}

static int read_files(void) {
    json_error_t error;
    reason why = {{0}};
    FILE *file;
    json_t *list;
    document = json_load_file(ids_path, 0, &error);
    list = json_object_get(document, "cases");
    num_cases = json_array_size(list);
    if (num_cases < 3 || num_cases > sizeof cases / sizeof cases[0]) {
        fprintf(stderr, "%s: %s\n", ids_path, document ? "not 3 to 8 cases" : error.text);
        return 0;
    }
    for (size_t i = 0; i < num_cases; i++) {
        const json_t *from = json_array_get(list, i);
        cases[i].prompt = json_string_value(json_object_get(from, "prompt"));
        cases[i].prompt_count =
            read_ids(json_object_get(from, "prompt_ids"), cases[i].prompt_ids);
        cases[i].count = read_ids(json_object_get(from, "ids"), cases[i].ids);
        if (!cases[i].prompt || cases[i].prompt_count < 1 || cases[i].count < 1) {
            fprintf(stderr, "%s: case %zu is not one\n", ids_path, i);
            return 0;
        }
    }
    if (cases[1].prompt_count < BITS) {
        fprintf(stderr, "%s: the second prompt has under %d tokens\n", ids_path, BITS);
        return 0;
    }
    file = fopen(model_path, "rb");
    if (!file) {
        return 1; /* skipped by name */
    }
    fclose(file);
    if (!model_open(model_path, &subject, &why)) {
        fprintf(stderr, "%s\n", why.text);
        return 0;
    }
    return 1;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_have_llama_cpps_ids),
        cmocka_unit_test(ids_give_their_text_back),
        cmocka_unit_test(each_token_of_llama_cpp_is_the_best_or_a_near_tie),
        cmocka_unit_test(logits_have_the_same_bits_on_1_and_8_threads),
        cmocka_unit_test(logits_have_the_same_bits_at_every_verification_width),
        cmocka_unit_test(logits_have_the_same_bits_at_the_reference_and_the_exact_level),
        cmocka_unit_test(a_prompt_in_one_pass_has_the_bits_of_single_tokens),
        cmocka_unit_test(a_rejected_draft_leaves_no_trace),
        cmocka_unit_test(sequences_decoded_together_have_the_bits_of_one_alone),
        cmocka_unit_test(a_full_cache_refuses_and_changes_nothing),
    };
    int failed;
    if (argc != 3) {
        fprintf(stderr, "usage: test_decode MODEL.gguf IDS.json\n");
        return 2;
    }
    model_path = argv[1];
    ids_path = argv[2];
    if (!read_files()) {
        return 1;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (subject.file) {
        free(reference_logits());
        model_close(&subject);
    }
    json_decref(document);
    return failed;
}
