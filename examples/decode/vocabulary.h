/* SPDX-License-Identifier: MIT
 * vocabulary.h - the tokens of a model, for tokenizer.c and merge.c. */
#ifndef DECODE_VOCABULARY_H
#define DECODE_VOCABULARY_H

#include "texts.h"
#include "tokenizer.h"
#include "words.h"

/* Types of tokens, as the file numbers them. */
enum { TOKEN_NORMAL = 1, TOKEN_UNKNOWN, TOKEN_CONTROL, TOKEN_USER_DEFINED, TOKEN_UNUSED, TOKEN_BYTE };

struct tokenizer {
    int pieces; /* SentencePiece: by score, spaces are U+2581; else byte pairs: by merges        */
    size_t count;
    text *tokens;
    int32_t *types; /* null: all normal */
    float *scores;  /* pieces only */
    texts by_text;
    text *merges; /* "left right", best first */
    texts by_merge;
    words_rule rule;
    int whole_words;    /* a word that is a token is not merged from bytes */
    int space_prefix, add_bos;
    int32_t bos, eos, eot; /* -1: none */
    int32_t *special; /* tokens that are cut out of text first, longest first */
    size_t num_special;
};

/* A growing list of ids. */
typedef struct id_list {
    int32_t *ids;
    int32_t count, capacity;
} id_list;
int id_list_add(id_list *list, int32_t id); /* 0: no memory */

/* Adds the ids of one word (byte pairs) or of a stretch of text (pieces), already in the alphabet of
 * the tokens. */
int merge_symbols(const tokenizer *t, const char *bytes, size_t length, id_list *out, reason *why);

#endif /* DECODE_VOCABULARY_H */
