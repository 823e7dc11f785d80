/* SPDX-License-Identifier: MIT
 * texts.c - a hash table with open addressing. */
#include "texts.h"

#include <stdlib.h>
#include <string.h>

static size_t hash(const char *bytes, size_t length) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++) {
        h = (h ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    }
    return (size_t)(h ^ h >> 32);
}

/* The slot of an equal text, or the empty one where it would go. */
static size_t slot_of(const texts *t, const char *bytes, size_t length) {
    size_t slot = hash(bytes, length) & t->mask;
    while (t->slots[slot] >= 0) {
        const text *there = &t->all[t->slots[slot]];
        if (there->length == length && memcmp(there->bytes, bytes, length) == 0) {
            break;
        }
        slot = (slot + 1) & t->mask;
    }
    return slot;
}

int texts_open(texts *t, const text *all, size_t count, int last_wins) {
    size_t slots = 64;
    while (slots < 2 * count) {
        slots *= 2;
    }
    t->all = all;
    t->mask = slots - 1;
    t->slots = malloc(slots * sizeof *t->slots);
    if (!t->slots) {
        return 0;
    }
    memset(t->slots, 0xff, slots * sizeof *t->slots);
    for (size_t i = 0; i < count; i++) {
        size_t slot = slot_of(t, all[i].bytes, all[i].length);
        if (t->slots[slot] < 0 || last_wins) {
            t->slots[slot] = (int32_t)i;
        }
    }
    return 1;
}

void texts_close(texts *t) {
    free(t->slots);
    memset(t, 0, sizeof *t);
}

int32_t texts_find(const texts *t, const char *bytes, size_t length) {
    return t->slots[slot_of(t, bytes, length)];
}
