/* SPDX-License-Identifier: MIT
 * rows16_layout.c - packs stored weights into the layout rows16 and gives them back, exactly. */
#include "cpu/rows16.h"

#include <string.h>

#include "formats/formats.h"

/* Where the f16 fields stand in a stored block; the rest is the body, in stored order. */
typedef struct shape {
    uint32_t format;
    int fields, field_offset, body_offset, chunks;
} shape;

static const shape shapes[] = {
    {OPREG_Q4_0, 1, 0, 2, 4},    {OPREG_Q4_1, 2, 0, 4, 4},  {OPREG_Q8_0, 1, 0, 2, 8},
    {OPREG_IQ4_NL, 1, 0, 2, 4},  {OPREG_Q4_K, 2, 0, 4, 35}, {OPREG_Q5_K, 2, 0, 4, 43},
    {OPREG_Q6_K, 1, 208, 0, 52},
};

const uint32_t rows16_formats[] = {OPREG_Q4_0, OPREG_Q4_1, OPREG_Q8_0, OPREG_IQ4_NL,
                                   OPREG_Q4_K, OPREG_Q5_K, OPREG_Q6_K, 0};

static const shape *find_shape(uint32_t format) {
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        if (shapes[i].format == format) {
            return &shapes[i];
        }
    }
    return NULL;
}

static int64_t fields_bytes(const shape *s, int64_t blocks) {
    return (blocks * s->fields * 32 + 63) / 64 * 64;
}

static int64_t tile_bytes(const shape *s, int64_t blocks) {
    return fields_bytes(s, blocks) + blocks * s->chunks * 64;
}

uint64_t rows16_bytes(uint32_t format, int64_t n, int64_t k) {
    const shape *s = find_shape(format);
    const format_info *info = format_by_id(format);
    if (s == NULL || info == NULL || n < 0 || k < 0 || k % info->values != 0) {
        return 0;
    }
    uint64_t tiles = ((uint64_t)n + ROWS16_TILE - 1) / ROWS16_TILE;
    uint64_t bytes = 0;
    /* a block has at most 210 bytes in 16 weights' room: the first product cannot overflow */
    if (k / info->values > INT64_MAX / (64 * 64) ||
        __builtin_mul_overflow(tiles, (uint64_t)tile_bytes(s, k / info->values), &bytes)) {
        return 0;
    }
    return bytes;
}

const uint8_t *rows16_tile(const opreg_weight_view *view, int64_t expert, int64_t t) {
    const shape *s = find_shape(view->format);
    const format_info *info = format_by_id(view->format);
    return (const uint8_t *)view->data + expert * view->expert_stride +
           t * tile_bytes(s, view->k / info->values);
}

/* Moves one block between its stored bytes and its places in a tile. */
static void move_block(const shape *s, uint8_t *tile, int64_t blocks, int64_t block, int row,
                       uint8_t *stored, int to_tile) {
    uint8_t *body = tile + fields_bytes(s, blocks) + block * s->chunks * 64 + row * 4;
    for (int f = 0; f < s->fields; f++) {
        uint8_t *place = tile + (block * s->fields + f) * 32 + row * 2;
        uint8_t *bytes = stored + s->field_offset + 2 * f;
        memcpy(to_tile ? place : bytes, to_tile ? bytes : place, 2);
    }
    for (int c = 0; c < s->chunks; c++) {
        uint8_t *bytes = stored + s->body_offset + 4 * c;
        memcpy(to_tile ? body + 64 * c : bytes, to_tile ? bytes : body + 64 * c, 4);
    }
}

void rows16_block(const opreg_weight_view *view, int64_t expert, int64_t row, int64_t block,
                  uint8_t *out) {
    const uint8_t *tile = rows16_tile(view, expert, row / ROWS16_TILE);
    int64_t blocks = view->k / format_by_id(view->format)->values;
    /* the tile is only read in this direction */
    move_block(find_shape(view->format), (uint8_t *)(uintptr_t)tile, blocks, block,
               (int)(row % ROWS16_TILE), out, 0);
}

typedef struct pack_job {
    const shape *s;
    const format_info *info;
    const uint8_t *source; /* stored when packing, else prepared */
    uint8_t *dst;
    int64_t n, blocks, tiles, stored_stride, tiled_stride;
    int to_tile;
} pack_job;

static void move_tile(void *arg, int64_t i) {
    const pack_job *job = arg;
    int64_t expert = i / job->tiles, t = i % job->tiles;
    int64_t row_bytes = job->blocks * job->info->bytes;
    const uint8_t *stored_base =
        (job->to_tile ? job->source : job->dst) + expert * job->stored_stride;
    const uint8_t *tile_base = (job->to_tile ? job->dst : job->source) +
                               expert * job->tiled_stride + t * tile_bytes(job->s, job->blocks);
    uint8_t *tile = (uint8_t *)(uintptr_t)tile_base; /* written when packing, read otherwise */
    if (job->to_tile) {
        memset(tile, 0, (size_t)tile_bytes(job->s, job->blocks));
    }
    for (int row = 0; row < ROWS16_TILE && t * ROWS16_TILE + row < job->n; row++) {
        const uint8_t *stored = stored_base + (t * ROWS16_TILE + row) * row_bytes;
        for (int64_t b = 0; b < job->blocks; b++) {
            move_block(job->s, tile, job->blocks, b, row,
                       (uint8_t *)(uintptr_t)stored + b * job->info->bytes, job->to_tile);
        }
    }
}

static opreg_status move_all(const opreg_host *host, const opreg_weight_view *view, void *dst,
                             int to_tile) {
    const format_info *info = format_by_id(view->format);
    pack_job job = {find_shape(view->format),
                    info,
                    view->data,
                    dst,
                    view->n,
                    view->k / info->values,
                    (view->n + ROWS16_TILE - 1) / ROWS16_TILE,
                    0,
                    0,
                    to_tile};
    int64_t packed_stored = view->n * job.blocks * info->bytes;
    int64_t packed_tiled = (int64_t)rows16_bytes(view->format, view->n, view->k);
    job.stored_stride = to_tile ? view->expert_stride : packed_stored;
    job.tiled_stride = to_tile ? packed_tiled : view->expert_stride;
    host->parallel_for(host->ctx, view->experts * job.tiles, move_tile, &job);
    return OPREG_OK;
}

static opreg_status pack(const opreg_host *host, const opreg_device *dev,
                         const opreg_weight_view *stored, void *dst, void *stream) {
    (void)dev;
    (void)stream;
    return move_all(host, stored, dst, 1);
}

static opreg_status unpack(const opreg_host *host, const opreg_device *dev,
                           const opreg_weight_view *prepared, void *dst, void *stream) {
    (void)dev;
    (void)stream;
    return move_all(host, prepared, dst, 0);
}

static uint64_t bytes(const opreg_device *dev, uint32_t format, int64_t experts, int64_t n,
                      int64_t k) {
    uint64_t one = rows16_bytes(format, n, k), all = 0;
    (void)dev;
    return experts < 1 || __builtin_mul_overflow(one, (uint64_t)experts, &all) ? 0 : all;
}

const opreg_layout rows16_layout = {
    sizeof(opreg_layout), ROWS16_LAYOUT, "rows16", "16 rows side by side, for vector lanes",
    rows16_formats,       bytes,         pack,     unpack};
