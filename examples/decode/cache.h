/* SPDX-License-Identifier: MIT
 * cache.h - keys and values of several sequences in pages that they share. */
#ifndef DECODE_CACHE_H
#define DECODE_CACHE_H

#include <stdint.h>

#include "machine.h"

/* Pages of one sequence, in order of position. */
typedef struct cache_sequence {
    int32_t *pages;
    int32_t num_pages;
    int32_t length; /* positions in use; the pages hold at least as many */
} cache_sequence;

/* f16, [pages, page_size, kv_heads, head_dim] a layer, for keys and for values. */
typedef struct cache {
    int32_t layers, num_pages, page_size, kv_heads, head_dim, num_sequences;
    uint64_t layer_bytes;
    void **keys, **values;     /* [layers], memory of the device */
    int32_t *free_pages;       /* a stack */
    int32_t num_free;
    cache_sequence *sequences;
} cache;

/* 0 with the reason when there is no memory.  Of zeros, cache_close is fine. */
int cache_open(cache *c, machine *on, int32_t layers, int32_t kv_heads, int32_t head_dim, int32_t page_size,
               int32_t num_pages, int32_t num_sequences, reason *why);
void cache_close(cache *c); /* but for the memory of the device */

/* Makes room for count positions more.  0 when no page is free: nothing has changed then. */
int cache_grow(cache *c, int32_t sequence, int32_t count, reason *why);

/* Forgets positions from length on, and gives back the pages that hold none of the rest. */
void cache_truncate(cache *c, int32_t sequence, int32_t length);

/* Element index, in a layer's array, of a position's first head. */
int64_t cache_place(const cache *c, int32_t sequence, int32_t position);

#endif /* DECODE_CACHE_H */
