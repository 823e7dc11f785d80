/* SPDX-License-Identifier: MIT
 * merge.c - joins neighbours, the best pair first and of equal ones the leftmost, until no pair is
 * left that the vocabulary joins. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vocabulary.h"

/* A run of characters that is one symbol so far. */
typedef struct symbol {
    const char *bytes;
    size_t length;
    int next;    /* index, -1 at the end */
    double cost; /* of joining this with the next; INFINITY: never */
} symbol;

int id_list_add(id_list *list, int32_t id) {
    if (list->count == list->capacity) {
        int32_t capacity = list->capacity ? 2 * list->capacity : 64;
        int32_t *ids = realloc(list->ids, (size_t)capacity * sizeof *ids);
        if (!ids) {
            return 0;
        }
        list->ids = ids;
        list->capacity = capacity;
    }
    list->ids[list->count++] = id;
    return 1;
}

/* Neighbours are next to each other in memory too. */
static double cost_of(const tokenizer *t, const symbol *left, const symbol *right, char *scratch) {
    int32_t found;
    if (t->pieces) {
        found = texts_find(&t->by_text, left->bytes, left->length + right->length);
        return found < 0 ? INFINITY : -(double)t->scores[found];
    }
    memcpy(scratch, left->bytes, left->length);
    scratch[left->length] = ' ';
    memcpy(scratch + left->length + 1, right->bytes, right->length);
    found = texts_find(&t->by_merge, scratch, left->length + 1 + right->length);
    return found < 0 ? INFINITY : (double)found;
}

/* A symbol that is no token: its bytes as tokens of their own. */
static int add_bytes(const tokenizer *t, const symbol *s, id_list *out, reason *why) {
    size_t step;
    for (size_t i = 0; i < s->length; i += step) {
        char name[8];
        int32_t id;
        step = t->pieces ? 1 : words_character(s->bytes + i, s->length - i);
        if (t->pieces) {
            snprintf(name, sizeof name, "<0x%02X>", (unsigned)(unsigned char)s->bytes[i]);
            id = texts_find(&t->by_text, name, 6);
        } else {
            id = texts_find(&t->by_text, s->bytes + i, step);
        }
        if (id < 0) {
            return refuse(why, "the vocabulary has no token for byte 0x%02x",
                          (unsigned)(unsigned char)s->bytes[i]);
        }
        if (!id_list_add(out, id)) {
            return refuse(why, "no memory for tokens");
        }
    }
    return 1;
}

static int add_symbols(const tokenizer *t, const symbol *symbols, id_list *out, reason *why) {
    for (int i = 0; i >= 0; i = symbols[i].next) {
        int32_t id = texts_find(&t->by_text, symbols[i].bytes, symbols[i].length);
        if (id < 0) {
            if (!add_bytes(t, &symbols[i], out, why)) {
                return 0;
            }
        } else if (!id_list_add(out, id)) {
            return refuse(why, "no memory for tokens");
        }
    }
    return 1;
}

static void join_all(const tokenizer *t, symbol *symbols, char *scratch) {
    for (;;) {
        int best = -1, before = -1, previous = -1;
        symbol *left, *right;
        for (int i = 0; i >= 0; previous = i, i = symbols[i].next) {
            if (symbols[i].cost < (best < 0 ? INFINITY : symbols[best].cost)) {
                best = i;
                before = previous;
            }
        }
        if (best < 0) {
            return;
        }
        left = &symbols[best];
        right = &symbols[left->next];
        left->length += right->length;
        left->next = right->next;
        left->cost =
            left->next < 0 ? INFINITY : cost_of(t, left, &symbols[left->next], scratch);
        if (before >= 0) {
            symbols[before].cost = cost_of(t, &symbols[before], left, scratch);
        }
    }
}

int merge_symbols(const tokenizer *t, const char *bytes, size_t length, id_list *out,
                  reason *why) {
    symbol *symbols = malloc((length + 1) * sizeof *symbols);
    char *scratch = malloc(length + 2);
    int count = 0, done = 0;
    if (!symbols || !scratch) {
        refuse(why, "no memory for %zu bytes of text", length);
        goto out;
    }
    if (length == 0) {
        done = 1;
        goto out;
    }
    for (size_t at = 0, step; at < length; at += step) {
        step = words_character(bytes + at, length - at);
        symbols[count] = (symbol){bytes + at, step, count + 1, INFINITY};
        count++;
    }
    symbols[count - 1].next = -1;
    for (int i = 0; i + 1 < count; i++) {
        symbols[i].cost = cost_of(t, &symbols[i], &symbols[i + 1], scratch);
    }
    join_all(t, symbols, scratch);
    done = add_symbols(t, symbols, out, why);
out:
    free(symbols);
    free(scratch);
    return done;
}
