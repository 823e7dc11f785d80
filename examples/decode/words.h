/* SPDX-License-Identifier: MIT
 * words.h - cuts text into the words inside which byte pairs are merged. */
#ifndef DECODE_WORDS_H
#define DECODE_WORDS_H

#include <stddef.h>

/* How a tokenizer cuts, by the name in tokenizer.ggml.pre. */
typedef enum words_rule {
    WORDS_UNKNOWN,
    WORDS_GPT2,   /* contractions, letters, numbers, marks, spaces                               */
    WORDS_SMOLLM, /* every digit alone, then as GPT-2                                            */
    WORDS_LLAMA3, /* numbers of up to 3 digits, line ends kept with what is before them          */
    WORDS_QWEN2   /* as Llama 3, every digit alone                                               */
} words_rule;

words_rule words_rule_named(const char *name, size_t length);

/* Bytes of the word at the start of text, at least 1; length is at least 1. */
size_t words_next(words_rule rule, const char *text, size_t length);

/* Bytes of the UTF-8 character at text; 1 for what is none. */
size_t words_character(const char *text, size_t length);

#endif /* DECODE_WORDS_H */
