/* SPDX-License-Identifier: MIT
 * test_words.c - text is cut into words as each rule's regular expression says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "words.h"

/* The words of text, each in brackets. */
static void cut_text(words_rule rule, const char *text, char out[512]) {
    size_t length = strlen(text), used = 0;
    for (size_t at = 0, step; at < length; at += step) {
        step = words_next(rule, text + at, length - at);
        assert_true(step >= 1 && step <= length - at);
        assert_true(used + step + 3 < 512);
        used += (size_t)snprintf(out + used, 512 - used, "[%.*s]", (int)step, text + at);
    }
}

static void assert_words(words_rule rule, const char *text, const char *expected) {
    char words[512] = "";
    cut_text(rule, text, words);
    assert_string_equal(words, expected);
}

static void gpt2_keeps_one_space_before_a_word(void **state) {
    (void)state;
    assert_words(WORDS_GPT2, "I'll say  it's 1984, DON'T!\n\n x ",
                 "[I]['ll][ say][ ][ it]['s][ 1984][,][ DON]['][T][!][\n\n][ x][ ]");
    assert_words(WORDS_GPT2, "\xc3\xa9t\xc3\xa9 \xe4\xbd\xa0\xe5\xa5\xbd\xef\xbc\x81",
                 "[\xc3\xa9t\xc3\xa9][ \xe4\xbd\xa0\xe5\xa5\xbd][\xef\xbc\x81]");
    assert_words(WORDS_GPT2, "a\nb", "[a][\n][b]");
}

static void smollm_cuts_every_digit_off(void **state) {
    (void)state;
    assert_words(WORDS_SMOLLM, "in 1984, x2", "[in][ ][1][9][8][4][,][ x][2]");
}

static void llama3_takes_three_digits_and_keeps_line_ends(void **state) {
    (void)state;
    assert_words(WORDS_LLAMA3, "IT'S 12345 (yes).\n\n  if\tx \n y",
                 "[IT]['S][ ][123][45][ (][yes][).\n\n][ ][ if][\tx][ \n][ y]");
}

static void qwen2_takes_one_digit(void **state) {
    (void)state;
    assert_words(WORDS_QWEN2, "x=10\r\n 7", "[x][=][1][0][\r\n][ ][7]");
}

static void bytes_that_are_no_characters_are_cut_too(void **state) {
    (void)state;
    assert_words(WORDS_GPT2, "a\xff\xc3", "[a][\xff\xc3]");
    assert_words(WORDS_LLAMA3, "\xe4\xbd", "[\xe4\xbd]");
}

static void a_rule_goes_by_the_files_name_for_it(void **state) {
    (void)state;
    assert_int_equal(words_rule_named("llama-bpe", 9), WORDS_LLAMA3);
    assert_int_equal(words_rule_named("smollm", 6), WORDS_SMOLLM);
    assert_int_equal(words_rule_named("qwen2", 5), WORDS_QWEN2);
    assert_int_equal(words_rule_named("gpt-2", 5), WORDS_GPT2);
    assert_int_equal(words_rule_named("qwen", 4), WORDS_UNKNOWN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_keeps_one_space_before_a_word),
        cmocka_unit_test(smollm_cuts_every_digit_off),
        cmocka_unit_test(llama3_takes_three_digits_and_keeps_line_ends),
        cmocka_unit_test(qwen2_takes_one_digit),
        cmocka_unit_test(bytes_that_are_no_characters_are_cut_too),
        cmocka_unit_test(a_rule_goes_by_the_files_name_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
