/* SPDX-License-Identifier: MIT
 * bench_data.c - what the buffers and weights of a bench hold: gaussian floats, weights of the
 * model or random ones, routes and tables that go through all experts and pages in turn. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "formats/act.h"
#include "kit/job.h"

#define POOL_VALUES 1000003 /* a prime: rows of a long buffer differ */
#define MOST_ROUTES 4096

double bench_value(const bench_buffer *b, int64_t i) {
    uint64_t size = element_bytes(b->dtype);
    return (double)element_load(b->dtype, b->pool + (uint64_t)i * size % b->pool_bytes);
}

/* The dtype of a buffer's floats; 0 for integers. */
static uint32_t dtype_of(const bench_case *c, uint32_t index) {
    const problem_any *p = &c->problem;
    switch (c->op) {
    case OPREG_OP_QUANTIZE_ACT:
        return index == OPREG_QUANTIZE_X ? p->quantize.x_dtype : 0;
    case OPREG_OP_MATMUL_BT_QUANT:
        return index == OPREG_MATMUL_Y   ? p->matmul.y_dtype
               : index == OPREG_MATMUL_X ? p->matmul.x_dtype
                                         : OPREG_F32;
    case OPREG_OP_MOE_ROUTE:
        return index == OPREG_ROUTE_WEIGHTS ? OPREG_F32 : 0;
    case OPREG_OP_MOE_MATMUL:
    case OPREG_OP_MOE_GLU:
    case OPREG_OP_MOE_DOWN:
        return index == OPREG_MOE_Y ? p->moe.y_dtype : index == OPREG_MOE_X ? p->moe.x_dtype : 0;
    case OPREG_OP_MOE_COMBINE:
        return index == OPREG_COMBINE_Y      ? p->combine.y_dtype
               : index == OPREG_COMBINE_ROWS ? p->combine.x_dtype
                                             : OPREG_F32;
    case OPREG_OP_MOE_FFN:
        return index == OPREG_FFN_Y         ? p->ffn.y_dtype
               : index == OPREG_FFN_X       ? p->ffn.x_dtype
               : index == OPREG_FFN_WEIGHTS ? OPREG_F32
                                            : 0;
    case OPREG_OP_PAGED_ATTN_DECODE:
        return index == OPREG_ATTN_OUT                          ? p->attn.out_dtype
               : index == OPREG_ATTN_Q                          ? p->attn.q_dtype
               : index == OPREG_ATTN_K || index == OPREG_ATTN_V ? p->attn.kv_dtype
               : index >= OPREG_ATTN_SINKS                      ? OPREG_F32
                                                                : 0;
    }
    return 0;
}

/* Gaussian values, of deviation `scale`; a long buffer repeats them. */
static int fill_floats(bench_buffer *b, uint64_t seed, float scale) {
    uint64_t size = element_bytes(b->dtype), values = b->bytes / size;
    random_state random = random_start(seed, 0);
    values = values > POOL_VALUES ? POOL_VALUES : values;
    b->pool_bytes = values * size;
    b->pool = malloc((size_t)b->pool_bytes + 1);
    for (uint64_t i = 0; b->pool && i < values; i++) {
        element_store(b->dtype, b->pool + i * size, scale * random_gauss(&random));
    }
    return b->pool != NULL;
}

/* `copies` times b->bytes of integers, to be written by the caller. */
static int32_t *fill_integers(bench_buffer *b, int64_t copies) {
    b->each = 1;
    b->copies = copies;
    b->pool_bytes = b->bytes * (uint64_t)copies;
    b->pool = calloc(1, (size_t)b->pool_bytes + 1);
    return (int32_t *)(void *)b->pool;
}

/* ---- routes ---- */

/* Every expert in turn, so that a route reaches as many as it can and the next one others. */
static int make_ids(bench_set *s, int64_t routes, uint64_t seed) {
    const bench_case *c = s->what;
    int32_t experts = c->op == OPREG_OP_MOE_ROUTE ? c->problem.route.experts
                      : c->op == OPREG_OP_MOE_FFN ? c->problem.ffn.experts
                                                  : c->problem.moe.experts;
    int64_t count = routes * bench_entries(c);
    int32_t *order = malloc((size_t)experts * sizeof *order);
    random_state random = random_start(seed, 2);
    s->ids = malloc((size_t)(count > 0 ? count : 1) * sizeof *s->ids);
    for (int32_t i = 0; order && i < experts; i++) {
        order[i] = i;
    }
    if (order && s->ids) {
        random_shuffle(&random, order, experts);
        for (int64_t i = 0; i < count; i++) {
            s->ids[i] = order[i % experts];
        }
    }
    free(order);
    return order && s->ids;
}

/* Writes what moe_route makes of the ids, for every route. */
static opreg_status write_routes(bench_set *s, bench_buffer *b, int64_t tokens, int32_t top_k,
                                 int32_t experts) {
    const device *d = s->where;
    opreg_moe_route r = {.struct_size = sizeof r, .form = OPREG_ROUTE_TOPK};
    opreg_plan *plan = NULL;
    opreg_status status;
    uint64_t bytes = (uint64_t)(tokens * top_k) * 4;
    opreg_buf ids = {NULL, 0}, weights = {NULL, 0}, route = {NULL, 0}, workspace = {NULL, 0};
    float *share = malloc((size_t)bytes + 1);
    r.tokens = tokens;
    r.top_k = top_k;
    r.experts = experts;
    r.ids_stride = r.weights_stride = top_k;
    status = opreg_plan_create(d->reg, &d->row, OPREG_OP_MOE_ROUTE, &r, &plan);
    if (status == OPREG_OK) {
        ids = device_alloc(d, bytes);
        weights = device_alloc(d, bytes);
        route = device_alloc(d, b->bytes);
        workspace = device_alloc(d, opreg_plan_workspace(plan));
        status = share && ids.ptr && weights.ptr && route.ptr && workspace.ptr ? OPREG_OK
                                                                               : OPREG_E_NOMEM;
    }
    for (int64_t i = 0; share && i < tokens * top_k; i++) {
        share[i] = 1.0f / (float)top_k;
    }
    for (int64_t i = 0; status == OPREG_OK && i < b->copies; i++) {
        opreg_buf bufs[OPREG_ROUTE_BUFS] = {route, ids, weights, {NULL, 0}};
        opreg_args args = {.struct_size = sizeof args, .bufs = bufs};
        args.num_bufs = OPREG_ROUTE_BUFS;
        args.workspace = workspace;
        args.stream = d->stream;
        status = device_upload(d, ids, s->ids + i * tokens * top_k, bytes) &&
                         device_upload(d, weights, share, bytes)
                     ? opreg_plan_run(plan, &args)
                     : OPREG_E_DEVICE;
        if (status == OPREG_OK &&
            !device_download(d, b->pool + (uint64_t)i * b->bytes, route, b->bytes)) {
            status = OPREG_E_DEVICE;
        }
    }
    opreg_plan_destroy(plan);
    device_free(d, &ids);
    device_free(d, &weights);
    device_free(d, &route);
    device_free(d, &workspace);
    free(share);
    return status;
}

static int make_route(bench_set *s, uint32_t index, int64_t routes, const char **reason) {
    const problem_any *p = &s->what->problem;
    bench_buffer *b = &s->bufs[index];
    int ffn = s->what->op == OPREG_OP_MOE_FFN;
    if (!fill_integers(b, routes)) {
        *reason = "no memory";
        return 0;
    }
    if (write_routes(s, b, ffn ? p->ffn.tokens : p->moe.tokens, ffn ? p->ffn.top_k : p->moe.top_k,
                     ffn ? p->ffn.experts : p->moe.experts) != OPREG_OK) {
        *reason = opreg_last_error();
        return 0;
    }
    return 1;
}

static int make_route_inputs(bench_set *s, uint64_t seed) {
    const opreg_moe_route *p = &s->what->problem.route;
    int64_t stride = p->form == OPREG_ROUTE_TOPK ? p->ids_stride : p->top_k;
    int32_t *ids, *rows;
    bench_buffer *map = &s->bufs[OPREG_ROUTE_ROW_MAP];
    if (!make_ids(s, 1, seed) || !(ids = fill_integers(&s->bufs[OPREG_ROUTE_IDS], 1)) ||
        !fill_floats(&s->bufs[OPREG_ROUTE_WEIGHTS], seed, 0.125f)) {
        return 0;
    }
    for (int64_t i = 0; i < p->tokens * p->top_k; i++) {
        ids[i / p->top_k * stride + i % p->top_k] = s->ids[i];
    }
    if (map->bytes > 0) {
        rows = fill_integers(map, 1);
        for (int64_t i = 0; rows && i < p->tokens * p->top_k; i++) {
            rows[i] = (int32_t)(i / p->top_k);
        }
        return rows != NULL;
    }
    return 1;
}

/* ---- attention ---- */

/* Tables that go through the cache's pages in a shuffled order, each on from where the last ended.
 */
static int make_tables(bench_set *s, int64_t tables, uint64_t seed) {
    const opreg_paged_attn_decode *p = &s->what->problem.attn;
    int csr = (p->flags & OPREG_PF_CSR) != 0;
    int32_t pages = (p->max_seq_len + p->block_size - 1) / p->block_size, seqs = p->seqs;
    bench_buffer *b = s->bufs;
    int32_t *order = malloc((size_t)(p->num_blocks > 0 ? p->num_blocks : 1) * sizeof *order);
    int32_t *entries = fill_integers(&b[OPREG_ATTN_TABLE], tables);
    int32_t *lens = fill_integers(&b[OPREG_ATTN_LENS], 1);
    int32_t *indptr = fill_integers(&b[OPREG_ATTN_INDPTR], 1);
    int32_t *q_indptr = fill_integers(&b[OPREG_ATTN_Q_INDPTR], 1);
    random_state random = random_start(seed, 3);
    int64_t next = 0, stride = (int64_t)(b[OPREG_ATTN_TABLE].bytes / 4);
    if (!order || !entries || !lens || !indptr || !q_indptr) {
        free(order);
        return 0;
    }
    for (int32_t i = 0; i < p->num_blocks; i++) {
        order[i] = i;
    }
    random_shuffle(&random, order, p->num_blocks);
    for (int64_t t = 0; t < tables; t++) {
        for (int32_t r = 0; r < seqs; r++) {
            int64_t row = t * stride + (csr ? (int64_t)r * pages : (int64_t)r * p->table_stride);
            for (int32_t i = 0; i < pages && p->num_blocks > 0 && row + i < (t + 1) * stride; i++) {
                entries[row + i] = order[next++ % p->num_blocks];
            }
        }
    }
    free(order);
    for (int32_t r = 0; r < seqs; r++) {
        lens[r] = csr ? p->max_seq_len - (pages - 1) * p->block_size : p->max_seq_len;
    }
    for (int32_t r = 0; r <= seqs; r++) {
        if (b[OPREG_ATTN_INDPTR].bytes > 0) {
            indptr[r] = r * pages;
        }
        if (b[OPREG_ATTN_Q_INDPTR].bytes > 0) {
            q_indptr[r] = (int32_t)((int64_t)r * p->tokens / (seqs > 0 ? seqs : 1));
        }
    }
    return 1;
}

static int make_attention(bench_set *s, int64_t tables, uint64_t seed) {
    bench_buffer *b = s->bufs;
    if (!make_tables(s, tables, seed) || !fill_floats(&b[OPREG_ATTN_Q], seed + 1, 1.0f) ||
        !fill_floats(&b[OPREG_ATTN_K], seed + 2, 1.0f) ||
        !fill_floats(&b[OPREG_ATTN_V], seed + 3, 1.0f) ||
        !fill_floats(&b[OPREG_ATTN_SINKS], seed + 4, 1.0f)) {
        return 0;
    }
    for (uint32_t i = OPREG_ATTN_K_SCALE; i <= OPREG_ATTN_V_SCALE; i++) {
        if (!fill_floats(&b[i], seed, 0.0f)) {
            return 0;
        }
        for (uint64_t at = 0; at < b[i].bytes; at += 4) {
            element_store(OPREG_F32, b[i].pool + at, 0.5f);
        }
    }
    return 1;
}

/* ---- activations ---- */

/* Quantizes rows of gaussians into three planes; the error is then that of the rest alone. */
static int fill_planes(bench_set *s, uint32_t act, uint32_t codes_at, uint32_t scales_at,
                       uint32_t sums_at, int64_t k, uint64_t seed, float scale) {
    bench_buffer *codes = &s->bufs[codes_at], *scales = &s->bufs[scales_at];
    bench_buffer *sums = &s->bufs[sums_at];
    int64_t block = act == OPREG_Q8_K ? 256 : 32, count = (int64_t)codes->bytes;
    random_state random = random_start(seed, 4);
    float x[256];
    if (k <= 0 || !fill_integers(codes, 1) || !fill_integers(scales, 1) ||
        !fill_integers(sums, 1)) {
        return 0;
    }
    for (int64_t i = 0; i < count; i += block) {
        float *to = (float *)(void *)scales->pool + i / block;
        int8_t *q = (int8_t *)codes->pool + i;
        int16_t *sum = (int16_t *)(void *)sums->pool + i / 16;
        for (int64_t j = 0; j < block; j++) {
            x[j] = scale * random_gauss(&random);
        }
        *to = act == OPREG_Q8_K ? act_q8_k(x, q, sum) : act_q8_0(x, q, sum);
    }
    return 1;
}

static int make_x(bench_set *s, uint32_t index, uint32_t dtype, const uint32_t planes[2], int64_t k,
                  uint64_t seed) {
    /* about what a norm leaves: gate and up are then about 1 in size, as in a model */
    float scale = k > 0 ? 1.0f / sqrtf((float)k) : 1.0f;
    if (dtype == OPREG_Q8_0 || dtype == OPREG_Q8_K) {
        return fill_planes(s, dtype, index, planes[0], planes[1], k, seed, scale);
    }
    return fill_floats(&s->bufs[index], seed, scale);
}

/* ---- all of it ---- */

/* How many calls with other experts, or other pages, it takes to go through what is there. */
static int64_t calls_a_copy(const bench_case *c) {
    const opreg_paged_attn_decode *a = &c->problem.attn;
    int64_t used, there;
    if (c->op == OPREG_OP_PAGED_ATTN_DECODE) {
        used = a->block_size > 0
                   ? (int64_t)a->seqs * ((a->max_seq_len + a->block_size - 1) / a->block_size)
                   : 0;
        there = a->num_blocks;
    } else {
        used = bench_entries(c);
        there = c->op == OPREG_OP_MOE_FFN ? c->problem.ffn.experts : c->problem.moe.experts;
    }
    if (used <= 0 || there / used < 1) {
        return 1;
    }
    return there / used < MOST_ROUTES ? there / used : MOST_ROUTES;
}

static int make_inputs(bench_set *s, uint64_t seed, const char **reason) {
    static const uint32_t matmul_planes[2] = {OPREG_MATMUL_X_SCALES, OPREG_MATMUL_X_SUMS};
    static const uint32_t moe_planes[2] = {OPREG_MOE_X_SCALES, OPREG_MOE_X_SUMS};
    const problem_any *p = &s->what->problem;
    bench_buffer *b = s->bufs;
    switch (s->what->op) {
    case OPREG_OP_QUANTIZE_ACT:
        return fill_floats(&b[OPREG_QUANTIZE_X], seed, 1.0f);
    case OPREG_OP_MATMUL_BT_QUANT:
        return make_x(s, OPREG_MATMUL_X, p->matmul.x_dtype, matmul_planes, p->matmul.k, seed) &&
               fill_floats(&b[OPREG_MATMUL_BIAS], seed + 1, 0x1p-5f);
    case OPREG_OP_MOE_ROUTE:
        return make_route_inputs(s, seed);
    case OPREG_OP_MOE_MATMUL:
    case OPREG_OP_MOE_GLU:
    case OPREG_OP_MOE_DOWN:
        return make_x(s, OPREG_MOE_X, p->moe.x_dtype, moe_planes, p->moe.k, seed) &&
               make_ids(s, s->weight_divisor, seed) &&
               make_route(s, OPREG_MOE_ROUTE_BUF, s->weight_divisor, reason);
    case OPREG_OP_MOE_COMBINE:
        return fill_floats(&b[OPREG_COMBINE_ROWS], seed, 1.0f) &&
               fill_floats(&b[OPREG_COMBINE_WEIGHTS], seed + 1, 0.125f);
    case OPREG_OP_MOE_FFN:
        return make_x(s, OPREG_FFN_X, p->ffn.x_dtype, moe_planes, p->ffn.hidden, seed) &&
               fill_floats(&b[OPREG_FFN_WEIGHTS], seed + 1, 0.125f) &&
               make_ids(s, s->weight_divisor, seed) &&
               make_route(s, OPREG_FFN_ROUTE, s->weight_divisor, reason);
    case OPREG_OP_PAGED_ATTN_DECODE:
        return make_attention(s, s->weight_divisor, seed);
    }
    return 0;
}

/* Buffers whose contents a run should find cold, as they would be in a model. */
static int is_cold(const bench_case *c, uint32_t index) {
    return (c->op == OPREG_OP_PAGED_ATTN_DECODE &&
            (index == OPREG_ATTN_K || index == OPREG_ATTN_V)) ||
           (c->op == OPREG_OP_QUANTIZE_ACT && index == OPREG_QUANTIZE_X) ||
           (c->op == OPREG_OP_MOE_COMBINE && index == OPREG_COMBINE_ROWS);
}

#define MOST_COPIES        4096
#define MOST_BUFFER_COPIES 65536

int bench_data_make(bench_set *s, uint64_t cache_bytes, uint64_t seed, const char **reason) {
    const bench_case *c = s->what;
    problem_buffer wanted[PROBLEM_MAX_BUFS];
    uint32_t count = problem_buffers(c->op, &c->problem, wanted);
    double moved = bench_cost_of(c).bytes, copies;
    int64_t most;
    *reason = "no memory for the buffers";
    s->weight_divisor = calls_a_copy(c);
    for (uint32_t i = 0; i < count; i++) {
        s->bufs[i].dtype = dtype_of(c, i);
        s->bufs[i].bytes = wanted[i].use == BUFFER_UNUSED ? 0 : wanted[i].bytes;
        s->bufs[i].copies = s->bufs[i].divisor = 1;
    }
    if (!make_inputs(s, seed, reason) || !bench_weights_make(s, seed ^ 0xb10c, reason)) {
        return 0;
    }
    copies = ceil(4.0 * (double)cache_bytes / (moved * (double)s->weight_divisor) + 0.5);
    most = s->num_weights > 0 ? MOST_COPIES : MOST_BUFFER_COPIES;
    s->weight_copies = s->num_weights == 0 ? 0 : copies < (double)most ? (int64_t)copies : most;
    s->turns = s->weight_divisor * (s->weight_copies > 0 ? s->weight_copies : 1);
    for (uint32_t i = 0; i < count; i++) {
        if (is_cold(c, i) && s->bufs[i].bytes > 0) {
            s->bufs[i].copies = copies < (double)most ? (int64_t)copies : most;
            s->bufs[i].divisor = s->weight_divisor;
            s->turns = s->weight_divisor * s->bufs[i].copies;
        }
    }
    s->cold = moved * (double)s->turns >= 4.0 * (double)cache_bytes;
    return 1;
}
