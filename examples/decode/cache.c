/* SPDX-License-Identifier: MIT
 * cache.c - the page allocator: a stack of free pages, and a table a sequence. */
#include "cache.h"

#include <stdlib.h>
#include <string.h>

int cache_open(cache *c, machine *on, int32_t layers, int32_t kv_heads, int32_t head_dim,
               int32_t page_size, int32_t num_pages, int32_t num_sequences, reason *why) {
    int whole = 1;
    memset(c, 0, sizeof *c);
    c->page_size = page_size;
    c->num_pages = num_pages;
    c->kv_heads = kv_heads;
    c->head_dim = head_dim;
    c->num_sequences = num_sequences;
    c->layers = layers;
    c->layer_bytes = (uint64_t)num_pages * (uint64_t)page_size * (uint64_t)kv_heads *
                     (uint64_t)head_dim * sizeof(uint16_t);
    c->keys = calloc((size_t)layers, sizeof *c->keys);
    c->values = calloc((size_t)layers, sizeof *c->values);
    c->free_pages = calloc((size_t)num_pages, sizeof *c->free_pages);
    c->sequences = calloc((size_t)num_sequences, sizeof *c->sequences);
    whole = c->keys && c->values && c->free_pages && c->sequences;
    for (int32_t i = 0; whole && i < layers; i++) {
        c->keys[i] = machine_alloc(on, c->layer_bytes, why);
        c->values[i] = machine_alloc(on, c->layer_bytes, why);
        whole = c->keys[i] && c->values[i];
    }
    for (int32_t i = 0; whole && i < num_sequences; i++) {
        c->sequences[i].pages = calloc((size_t)num_pages, sizeof(int32_t));
        whole = c->sequences[i].pages != NULL;
    }
    if (!whole) {
        cache_close(c);
        return refuse(why, "no memory for a cache of %d pages of %d positions", num_pages,
                      page_size);
    }
    for (int32_t i = 0; i < num_pages; i++) {
        c->free_pages[i] = num_pages - 1 - i;
    }
    c->num_free = num_pages;
    return 1;
}

void cache_close(cache *c) {
    for (int32_t i = 0; c->sequences && i < c->num_sequences; i++) {
        free(c->sequences[i].pages);
    }
    free(c->keys);
    free(c->values);
    free(c->free_pages);
    free(c->sequences);
    memset(c, 0, sizeof *c);
}

int cache_grow(cache *c, int32_t sequence, int32_t count, reason *why) {
    cache_sequence *s = &c->sequences[sequence];
    int64_t pages = ((int64_t)s->length + count + c->page_size - 1) / c->page_size;
    if (pages - s->num_pages > c->num_free) {
        return refuse(why, "the cache is full: sequence %d needs %d pages more, %d are free",
                      sequence, (int)(pages - s->num_pages), c->num_free);
    }
    while (s->num_pages < pages) {
        s->pages[s->num_pages++] = c->free_pages[--c->num_free];
    }
    s->length += count;
    return 1;
}

void cache_truncate(cache *c, int32_t sequence, int32_t length) {
    cache_sequence *s = &c->sequences[sequence];
    int32_t pages = (length + c->page_size - 1) / c->page_size;
    while (s->num_pages > pages) {
        c->free_pages[c->num_free++] = s->pages[--s->num_pages];
    }
    s->length = length;
}

int64_t cache_place(const cache *c, int32_t sequence, int32_t position) {
    int64_t page = c->sequences[sequence].pages[position / c->page_size];
    return (page * c->page_size + position % c->page_size) * c->kv_heads * c->head_dim;
}
