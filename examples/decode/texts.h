/* SPDX-License-Identifier: MIT
 * texts.h - finds byte strings by their content. */
#ifndef DECODE_TEXTS_H
#define DECODE_TEXTS_H

#include <stddef.h>
#include <stdint.h>

typedef struct text {
    const char *bytes; /* no end mark */
    size_t length;
} text;

/* Index of texts that others own. */
typedef struct texts {
    const text *all;
    int32_t *slots; /* -1: empty */
    size_t mask;
} texts;

/* Indexes count texts, which stay the caller's; of two equal ones the first, or the last.  0: no
 * memory. */
int texts_open(texts *t, const text *all, size_t count, int last_wins);
void texts_close(texts *t);

/* Index of the text, or -1. */
int32_t texts_find(const texts *t, const char *bytes, size_t length);

#endif /* DECODE_TEXTS_H */
