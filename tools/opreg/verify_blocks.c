/* SPDX-License-Identifier: MIT
 * verify_blocks.c - every block of a tensor against the rules of its format, on all threads. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "formats/formats.h"
#include "formats/side.h"
#include "parallel.h"
#include "verify.h"

#define BLOCKS_A_TASK 8192

typedef struct block_check {
    const uint8_t *data;
    const format_info *info;
    const opreg_side *sides;
    int64_t blocks, blocks_an_expert;
    atomic_llong first_bad; /* block; blocks when none                                            */
} block_check;

static void check_blocks(void *arg, int64_t task) {
    block_check *c = arg;
    int64_t from = task * BLOCKS_A_TASK, to = from + BLOCKS_A_TASK;
    long long best = atomic_load(&c->first_bad);
    to = to < best ? to : best;
    for (int64_t b = from; b < to; b++) {
        if (c->info->invalid(c->data + (uint64_t)b * (uint64_t)c->info->bytes,
                             &c->sides[b / c->blocks_an_expert]) != NULL) {
            while (b < best && !atomic_compare_exchange_weak(&c->first_bad, &best, b)) {
            }
            return;
        }
    }
}

static void report(verify_session *v, const model_weight *w, const block_check *c, int64_t block) {
    uint64_t at = (uint64_t)block * (uint64_t)c->info->bytes;
    int64_t expert = block / c->blocks_an_expert, in_expert = block % c->blocks_an_expert;
    int64_t blocks_a_row = w->k / c->info->values;
    char reason[256], where[48] = "";
    if (w->experts) {
        snprintf(where, sizeof where, "expert %" PRId64 ", ", expert);
    }
    snprintf(reason, sizeof reason, "%srow %" PRId64 ", block %" PRId64 ": %s", where,
             in_expert / blocks_a_row, in_expert % blocks_a_row,
             c->info->invalid(c->data + at, &c->sides[expert]));
    verify_print_invalid(v, w, w->tensor->offset + at, reason);
}

int verify_blocks(verify_session *v, const model_weight *weight) {
    opreg_weight_desc desc = {.struct_size = sizeof desc};
    block_check c = {.data = weight->data, .info = format_by_id(weight->format.format)};
    opreg_side *sides = NULL;
    long long bad;
    desc.format = weight->format.format;
    desc.dialect = weight->dialect;
    desc.experts = weight->experts ? weight->experts : 1;
    desc.n = weight->n;
    desc.k = weight->k;
    desc.side = weight->side;
    desc.side_bytes = weight->side_bytes;
    desc.tensor_scale = weight->tensor_scale;
    sides = calloc((size_t)desc.experts, sizeof *sides);
    if (!sides || side_decode(&desc, sides) != OPREG_OK) {
        verify_print_invalid(v, weight, weight->tensor->offset,
                             sides ? opreg_last_error() : "no memory for its side data");
        free(sides);
        return 0;
    }
    c.sides = sides;
    c.blocks = (int64_t)(weight->tensor->bytes / (uint64_t)c.info->bytes);
    c.blocks_an_expert = c.blocks / desc.experts;
    atomic_init(&c.first_bad, c.blocks);
    parallel_run(v->threads, (c.blocks + BLOCKS_A_TASK - 1) / BLOCKS_A_TASK, check_blocks, &c);
    bad = atomic_load(&c.first_bad);
    if (bad < c.blocks) {
        report(v, weight, &c, bad);
    }
    free(sides);
    return bad >= c.blocks;
}
