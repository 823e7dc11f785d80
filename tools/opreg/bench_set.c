/* SPDX-License-Identifier: MIT
 * bench_set.c - puts the data of a bench on a device, cold parts as often as the cache asks for. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define ALIGN UINT64_C(256)

static uint64_t aligned(uint64_t bytes) {
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static opreg_buf part(opreg_buf whole, uint64_t at, uint64_t bytes) {
    return (opreg_buf){(uint8_t *)whole.ptr + at, bytes};
}

/* Fills the rest of a buffer with copies of its first bytes. */
static int repeat(const device *d, opreg_buf to, uint64_t filled, uint64_t bytes) {
    while (filled < bytes) {
        uint64_t next = bytes - filled < filled ? bytes - filled : filled;
        if (d->io->copy(d->host, &d->row, (uint8_t *)to.ptr + filled, to.ptr, next, d->stream) !=
            OPREG_OK) {
            return 0;
        }
        filled += next;
    }
    return 1;
}

static int place_buffer(const device *d, bench_buffer *b) {
    b->stride = aligned(b->bytes);
    b->memory = device_alloc(d, b->stride * (uint64_t)b->copies);
    if (!b->memory.ptr) {
        return 0;
    }
    if (!b->pool) {
        return device_fill(d, b->memory, 0);
    }
    if (b->each) {
        for (int64_t i = 0; i < b->copies; i++) {
            if (!device_upload(d, part(b->memory, (uint64_t)i * b->stride, b->bytes),
                               b->pool + (uint64_t)i * b->bytes, b->bytes)) {
                return 0;
            }
        }
        return 1;
    }
    return device_upload(d, b->memory, b->pool, b->pool_bytes) &&
           repeat(d, b->memory, b->pool_bytes, b->bytes) &&
           repeat(d, b->memory, b->stride, b->stride * (uint64_t)b->copies);
}

/* All rows of one weight, experts one behind the other, and its copies. */
static int place_weight(const device *d, const bench_weight *w, int64_t copies, opreg_buf *memory) {
    uint64_t expert_bytes = (uint64_t)(w->row_bytes * w->desc.n);
    uint64_t stride = aligned(expert_bytes * (uint64_t)w->desc.experts);
    uint64_t chunk = (uint64_t)(w->row_bytes * w->distinct);
    int done;
    *memory = device_alloc(d, stride * (uint64_t)copies);
    done = memory->ptr != NULL;
    for (int64_t e = 0; done && e < w->desc.experts; e++) {
        uint64_t at = (uint64_t)e * expert_bytes;
        done = device_upload(d, part(*memory, at, chunk), w->rows + (uint64_t)e * w->expert_stride,
                             chunk) &&
               repeat(d, part(*memory, at, expert_bytes), chunk, expert_bytes);
    }
    return done && repeat(d, *memory, stride, stride * (uint64_t)copies);
}

static int place_weights(bench_set *s) {
    const device *d = s->where;
    s->stored = calloc((size_t)(s->weight_copies * s->num_weights) + 1, sizeof *s->stored);
    for (uint32_t i = 0; s->stored && i < s->num_weights; i++) {
        opreg_weight_desc desc = s->weights[i].desc;
        uint64_t bytes = (uint64_t)(s->weights[i].row_bytes * desc.n * desc.experts);
        if (!place_weight(d, &s->weights[i], s->weight_copies, &s->memory[i])) {
            return 0;
        }
        for (int64_t copy = 0; copy < s->weight_copies; copy++) {
            desc.data = part(s->memory[i], (uint64_t)copy * aligned(bytes), bytes);
            if (opreg_weight_create(d->reg, &d->row, &desc,
                                    &s->stored[copy * s->num_weights + i]) != OPREG_OK) {
                return 0;
            }
        }
    }
    return s->stored != NULL;
}

int bench_set_open(const device *d, const bench_case *c, uint64_t cache_bytes, uint64_t seed,
                   bench_set *out, const char **reason) {
    memset(out, 0, sizeof *out);
    out->where = d;
    out->what = c;
    *reason = NULL;
    if (problem_is_empty(c->op, &c->problem)) {
        *reason = "the problem is empty: there is nothing to time";
        return 0;
    }
    if (!bench_data_make(out, cache_bytes, seed, reason)) {
        return 0;
    }
    *reason = NULL;
    for (uint32_t i = 0; i < BENCH_BUFS; i++) {
        if (out->bufs[i].bytes > 0 && !place_buffer(d, &out->bufs[i])) {
            *reason = opreg_last_error();
            return 0;
        }
    }
    if (!place_weights(out) || !device_sync(d)) {
        *reason = opreg_last_error();
        return 0;
    }
    return 1;
}

void bench_set_close(bench_set *s) {
    for (int64_t i = 0; s->stored && i < s->weight_copies * s->num_weights; i++) {
        opreg_weight_destroy(s->stored[i]);
    }
    free(s->stored);
    for (uint32_t i = 0; i < BENCH_WEIGHTS; i++) {
        device_free(s->where, &s->memory[i]);
        free(s->weights[i].records);
        free(s->weights[i].made);
        free(s->weights[i].made_side);
    }
    for (uint32_t i = 0; i < BENCH_BUFS; i++) {
        device_free(s->where, &s->bufs[i].memory);
        free(s->bufs[i].pool);
    }
    free(s->ids);
}

void bench_set_bufs(const bench_set *s, int64_t turn, opreg_buf bufs[BENCH_BUFS]) {
    for (uint32_t i = 0; i < BENCH_BUFS; i++) {
        const bench_buffer *b = &s->bufs[i];
        int64_t copy = b->bytes > 0 ? turn / b->divisor % b->copies : 0;
        bufs[i] = b->bytes > 0 ? part(b->memory, (uint64_t)copy * b->stride, b->bytes)
                               : (opreg_buf){NULL, 0};
    }
}
