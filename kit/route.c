/* SPDX-License-Identifier: MIT
 * route.c - the kit's own route, the cases of moe_route, and their oracle. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "cases_far.h"
#include "oracle.h"

static void put_u32(uint8_t *bytes, uint8_t *owned, uint64_t at, uint32_t value) {
    memcpy(bytes + at, &value, 4);
    memset(owned + at, 1, 4);
}

static void put_entry(const route_spec *spec, const opreg_route_layout *layout, int64_t entry,
                      int64_t i, int valid, uint8_t *bytes, uint8_t *owned) {
    float weight = !valid ? 0.0f : spec->weights != NULL ? spec->weights[i] : 1.0f;
    int64_t token = spec->row_map != NULL ? spec->row_map[i] : i / spec->top_k;
    uint32_t bits;
    memcpy(&bits, &weight, 4);
    put_u32(bytes, owned, layout->entry_token + 4 * (uint64_t)entry, (uint32_t)token);
    put_u32(bytes, owned, layout->entry_dst + 4 * (uint64_t)entry, (uint32_t)i);
    put_u32(bytes, owned, layout->entry_weight + 4 * (uint64_t)entry, bits);
}

static int is_valid(const route_spec *spec, int32_t id) { return id >= 0 && id < spec->experts; }

void route_build(const route_spec *spec, const opreg_route_layout *layout, uint8_t *bytes,
                 uint8_t *owned) {
    int64_t pairs = spec->tokens * spec->top_k, entry = 0;
    uint32_t groups = 0;
    memset(bytes, 0, layout->bytes);
    memset(owned, 2, layout->bytes); /* unused capacity and gaps: free */
    for (int64_t i = 0; i <= pairs; i++) {
        /* the last round collects the invalid ids */
        int32_t id = i < pairs ? spec->ids[i] : -1;
        int seen = i < pairs && !is_valid(spec, id);
        for (int64_t j = 0; j < i && i < pairs && !seen; j++) {
            seen = spec->ids[j] == id;
        }
        if (seen) {
            continue;
        }
        int64_t first = entry;
        for (int64_t j = i < pairs ? i : 0; j < pairs; j++) {
            int here = i < pairs ? spec->ids[j] == id : !is_valid(spec, spec->ids[j]);
            if (here) {
                put_entry(spec, layout, entry++, j, i < pairs, bytes, owned);
            }
        }
        if (entry > first) {
            put_u32(bytes, owned, layout->group_expert + 4 * groups, (uint32_t)id);
            put_u32(bytes, owned, layout->group_start + 4 * groups, (uint32_t)first);
            groups++;
        }
    }
    put_u32(bytes, owned, layout->group_start + 4 * groups, (uint32_t)entry);
    put_u32(bytes, owned, 0, groups);
    put_u32(bytes, owned, 4, (uint32_t)entry);
    put_u32(bytes, owned, 8, layout->cap_groups);
    put_u32(bytes, owned, 12, layout->cap_entries);
}

/* ---- cases of moe_route ------------------------------------------------------------------------- */

static void fill_ids(random_state *random, const case_key *key, int32_t experts, int32_t *ids,
                     int64_t count) {
    int32_t lone = (int32_t)random_below(random, (uint32_t)experts);
    static const int32_t hostile[] = {-1, INT32_MAX, INT32_MIN, -7};
    for (int64_t i = 0; i < count; i++) {
        switch (is_far(key) ? key->index % 2 * 2 : key->index % 6) {
        case 0: ids[i] = (int32_t)random_below(random, (uint32_t)experts); break;
        case 1: ids[i] = lone; break; /* all on one expert */
        case 2: /* one in three invalid */
            ids[i] = random_below(random, 3) ? (int32_t)random_below(random, (uint32_t)experts)
                                             : hostile[random_below(random, 4)];
            break;
        case 3: /* all invalid */
            ids[i] = random_below(random, 2) ? experts : hostile[random_below(random, 4)];
            break;
        case 4: ids[i] = (int32_t)(i * 7 % experts); break;
        default: /* few experts of many */
            ids[i] = experts - 1 - (int32_t)random_below(random, (uint32_t)(experts < 3 ? experts : 3));
            break;
        }
    }
}

int case_make_route(const case_key *key, job *out) {
    static const int64_t slots[] = {1, 2, 3, 4, 6, 8, 10};
    static const int64_t experts[] = {1, 2, 3, 8, 31, 32, 33, 64, 128, 256, 257};
    static const int64_t pads[] = {0, 0, 1, 5};
    opreg_moe_route *p = &out->problem.route;
    opreg_route_layout layout;
    random_state data = case_random(key, 1);
    int32_t *ids, *row_map = NULL;
    uint64_t pairs;
    memset(&layout, 0, sizeof layout);
    layout.struct_size = sizeof layout;
    p->struct_size = sizeof *p;
    p->form = key->index % 3 == 2 ? OPREG_ROUTE_PAIRS : OPREG_ROUTE_TOPK;
    /* the number of pairs runs through 0..130 */
    pairs = key->index % 131;
    p->top_k = (int32_t)PICK(key, "slots", slots);
    if (is_far(key)) {
        pairs = (uint64_t)far_pairs(key, p->top_k);
    }
    p->top_k = pairs % (uint64_t)p->top_k == 0 ? p->top_k : 1;
    p->tokens = (int64_t)pairs / p->top_k;
    p->experts = is_far(key) ? far_experts(key) : (int32_t)PICK(key, "experts", experts);
    p->ids_stride = p->top_k;
    p->weights_stride = p->top_k;
    if (p->form == OPREG_ROUTE_TOPK) {
        p->ids_stride += PICK(key, "ids pad", pads);
        p->weights_stride += PICK(key, "weights pad", pads);
    }
    snprintf(out->dtypes, sizeof out->dtypes, "%s",
             p->form == OPREG_ROUTE_PAIRS ? "pairs" : "topk");
    if (opreg_route_layout_get(p->tokens, p->top_k, p->experts, &layout) != OPREG_OK) {
        return 0;
    }
    out->data = DATA_GAUSSIAN;
    if (!job_buffer_set(out, OPREG_ROUTE_ROUTE, JOB_OUTPUT, JOB_I32, layout.bytes / 4) ||
        !job_buffer_set(out, OPREG_ROUTE_IDS, JOB_INPUT, JOB_I32,
                        pairs == 0 ? 0 : (uint64_t)((p->tokens - 1) * p->ids_stride + p->top_k)) ||
        !buffer_loose_gaps(&out->bufs[OPREG_ROUTE_IDS], p->tokens, p->top_k, p->ids_stride)) {
        return 0;
    }
    out->bufs[OPREG_ROUTE_ROUTE].align = 16;
    out->bufs[OPREG_ROUTE_ROUTE].exact = 1;
    ids = (int32_t *)(void *)out->bufs[OPREG_ROUTE_IDS].data;
    for (int64_t t = 0; t < p->tokens; t++) {
        fill_ids(&data, key, p->experts, ids + t * p->ids_stride, p->top_k);
    }
    if (p->form == OPREG_ROUTE_TOPK || key->index % 2) {
        if (!case_rows(&data, out, OPREG_ROUTE_WEIGHTS, OPREG_F32, p->tokens, p->top_k,
                       p->weights_stride)) {
            return 0;
        }
    }
    if (p->form == OPREG_ROUTE_PAIRS) {
        if (!job_buffer_set(out, OPREG_ROUTE_ROW_MAP, JOB_INPUT, JOB_I32, pairs)) {
            return 0;
        }
        row_map = (int32_t *)(void *)out->bufs[OPREG_ROUTE_ROW_MAP].data;
        for (uint64_t i = 0; i < pairs; i++) {
            row_map[i] = (int32_t)random_below(&data, (uint32_t)p->tokens);
        }
    }
    /* what must be written follows from the ids; packed copies for the builder */
    int32_t *packed = calloc(pairs + 1, sizeof *packed);
    float *weights = calloc(pairs + 1, sizeof *weights);
    job_buffer *route = &out->bufs[OPREG_ROUTE_ROUTE];
    route->owned = malloc(route->bytes + 1);
    out->extra = malloc(route->bytes + 1);
    if (packed != NULL && weights != NULL && route->owned != NULL && out->extra != NULL) {
        const job_buffer *w = &out->bufs[OPREG_ROUTE_WEIGHTS];
        for (int64_t t = 0; t < p->tokens; t++) {
            for (int32_t s = 0; s < p->top_k; s++) {
                packed[t * p->top_k + s] = ids[t * p->ids_stride + s];
                weights[t * p->top_k + s] =
                    w->role == JOB_ABSENT
                        ? 1.0f
                        : element_load(OPREG_F32, w->data + 4 * (t * p->weights_stride + s));
            }
        }
        route_spec spec = {p->tokens, p->top_k, p->experts, packed, weights, row_map};
        route_build(&spec, &layout, out->extra, route->owned);
        memset(route->owned, 1, route->bytes); /* padding and unused capacity are zeros */
    }
    int ok = packed != NULL && weights != NULL && route->owned != NULL && out->extra != NULL;
    free(packed);
    free(weights);
    return ok;
}

void oracle_route(const job *of, uint8_t *const outputs[JOB_BUFS], finding *f) {
    uint8_t *want[JOB_BUFS] = {NULL};
    char detail[320];
    want[OPREG_ROUTE_ROUTE] = of->extra;
    if (!outputs_equal(of, outputs, want, detail)) {
        finding_set(f, "oracle", "the route against one made by definition: %s", detail);
    }
}
