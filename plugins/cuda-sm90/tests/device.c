/* SPDX-License-Identifier: MIT
 * device.c - cases with seeded data for the GPU and the CPU reference. */
#include "device.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

opreg_status opreg_cuda_sm90_entry(const opreg_host *host, opreg_plugin *out);

double rig_now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* ---- host ------------------------------------------------------------------------------------- */

static void host_log(void *user, opreg_log_level level, const char *line) {
    (void)user;
    (void)level;
    fprintf(stderr, "log: %s\n", line);
}

static void host_error(void *user, const char *format, ...) {
    va_list args;
    (void)user;
    va_start(args, format);
    fprintf(stderr, "error: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
}

typedef struct slice {
    void (*task)(void *arg, int64_t i);
    void *arg;
    int64_t first, step, count;
} slice;

static void *run_slice(void *argument) {
    slice *s = argument;
    for (int64_t i = s->first; i < s->count; i += s->step) {
        s->task(s->arg, i);
    }
    return NULL;
}

static void host_parallel(void *user, int64_t count, void (*task)(void *arg, int64_t i),
                          void *arg) {
    enum { MOST = 64 };
    pthread_t threads[MOST];
    slice slices[MOST];
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    (void)user;
    n = n > MOST ? MOST : n < 1 ? 1 : n;
    n = n > count ? (long)count : n;
    for (long t = 0; t < n; t++) {
        slices[t] = (slice){task, arg, t, n, count};
        if (t > 0) {
            pthread_create(&threads[t], NULL, run_slice, &slices[t]);
        }
    }
    if (n > 0) {
        run_slice(&slices[0]);
    }
    for (long t = 1; t < n; t++) {
        pthread_join(threads[t], NULL);
    }
}

static int host_switch(void *user, const char *name) {
    return strcmp(name, "chain") == 0 && ((rig *)user)->chained;
}

void rig_open(rig *r) {
    size_t count = 0;
    memset(r, 0, sizeof *r);
    r->random = 88172645463325252ull;
    r->host = (opreg_host){.struct_size = sizeof r->host,
                           .ctx = r,
                           .abi_major = OPREG_ABI_MAJOR,
                           .abi_minor_max = OPREG_ABI_MINOR,
                           .log = host_log,
                           .error = host_error,
                           .parallel_for = host_parallel,
                           .switch_on = host_switch};
    r->cpu.struct_size = r->gpu.struct_size = sizeof r->cpu;
    if (opreg_cpu_entry(&r->host, &r->cpu) != OPREG_OK ||
        opreg_cuda_sm90_entry(&r->host, &r->gpu) != OPREG_OK ||
        r->gpu.probe(&r->host, &r->device, 1, &count) != OPREG_OK || count == 0) {
        for (uint32_t i = 0; i < r->gpu.num_kernels; i++) {
            printf("skipped %s: no sm_90 device\n", r->gpu.kernels[i]->name);
        }
        exit(77);
    }
    printf("# device %s, %u multiprocessors, built with %s\n", r->device.name, r->device.units,
           r->gpu.built_with);
}

uint64_t rig_random(rig *r) {
    r->random ^= r->random << 13;
    r->random ^= r->random >> 7;
    r->random ^= r->random << 17;
    return r->random;
}

double rig_gaussian(rig *r) {
    double u = ((double)(rig_random(r) >> 11) + 1.0) / 9007199254740993.0;
    double v = (double)(rig_random(r) >> 11) / 9007199254740992.0;
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

static void check(opreg_status status, const char *what) {
    if (status != OPREG_OK) {
        printf("FAILED %s: %d\n", what, status);
        exit(1);
    }
}

void *rig_alloc(rig *r, uint64_t bytes) {
    void *p = NULL;
    check(r->gpu.io->alloc(&r->host, &r->device, bytes, &p), "alloc");
    return p;
}

void rig_free(rig *r, void *p) { r->gpu.io->free(&r->host, &r->device, p); }

void rig_up(rig *r, void *dst, const void *src, uint64_t bytes) {
    if (bytes != 0) {
        check(r->gpu.io->to_device(&r->host, &r->device, dst, src, bytes, NULL), "to_device");
    }
}

void rig_down(rig *r, void *dst, const void *src, uint64_t bytes) {
    if (bytes != 0) {
        check(r->gpu.io->to_host(&r->host, &r->device, dst, src, bytes, NULL), "to_host");
    }
}

const opreg_kernel *rig_kernel(const opreg_plugin *plugin, const char *name) {
    for (uint32_t i = 0; i < plugin->num_kernels; i++) {
        if (strcmp(plugin->kernels[i]->name, name) == 0) {
            return plugin->kernels[i];
        }
    }
    return NULL;
}

const opreg_kernel *rig_reference(rig *r, opreg_op op) {
    for (uint32_t i = 0; i < r->cpu.num_kernels; i++) {
        if (r->cpu.kernels[i]->op == op && (r->cpu.kernels[i]->flags & OPREG_KF_BASELINE)) {
            return r->cpu.kernels[i];
        }
    }
    return NULL;
}

/* ---- data ---------------------------------------------------------------------------------------- */

static void fill_floats(rig *r, void *p, uint64_t bytes, uint32_t dtype) {
    uint64_t count = dtype == OPREG_F32 ? bytes / 4 : dtype == OPREG_F8_E4M3 ? bytes : bytes / 2;
    const uint64_t period = 1 << 20; /* large arrays repeat */
    uint64_t element = count != 0 ? bytes / count : 1;
    for (uint64_t i = 0; i < (count < period ? count : period); i++) {
        float v = (float)rig_gaussian(r);
        if (dtype == OPREG_F8_E4M3) {
            uint8_t byte = (uint8_t)rig_random(r);
            ((uint8_t *)p)[i] = (byte & 0x7f) == 0x7f ? 0x38 : (uint8_t)(byte & 0xbf);
        } else {
            canonical_store(p, (int64_t)i, dtype, v);
        }
    }
    for (uint64_t at = period; at < count; at += period) {
        uint64_t left = count - at < period ? count - at : period;
        memcpy((uint8_t *)p + at * element, p, (size_t)(left * element));
    }
}

/* f16 scales of random bytes would span 40 powers of two; tame them so that every block counts. */
static void tame_scale(rig *r, uint8_t *p) {
    p[0] = (uint8_t)rig_random(r);
    p[1] = (uint8_t)((p[1] & 0x80) | (0x20 + rig_random(r) % 12));
}

static void tame(rig *r, uint32_t format, uint8_t *b) {
    switch (format) {
    case OPREG_Q4_1:
    case OPREG_Q5_1:
    case OPREG_Q4_K:
    case OPREG_Q5_K:
        tame_scale(r, b + 2);
        tame_scale(r, b);
        break;
    case OPREG_Q2_K:
        tame_scale(r, b + 80);
        tame_scale(r, b + 82);
        break;
    case OPREG_Q3_K:
        tame_scale(r, b + 108);
        break;
    case OPREG_Q6_K:
        tame_scale(r, b + 208);
        break;
    case OPREG_IQ1_M:
        b[55] = (uint8_t)((b[55] & 0x8f) | 0x20);
        break;
    case OPREG_MXFP4:
        b[0] = (uint8_t)(120 + rig_random(r) % 12);
        break;
    case OPREG_F32:
        canonical_store(b, 0, OPREG_F32, (float)rig_gaussian(r));
        break;
    case OPREG_F16:
        canonical_store(b, 0, OPREG_F16, (float)rig_gaussian(r));
        break;
    case OPREG_BF16:
        canonical_store(b, 0, OPREG_BF16, (float)rig_gaussian(r));
        break;
    case OPREG_Q4_0:
    case OPREG_Q5_0:
    case OPREG_Q8_0:
    case OPREG_IQ4_NL:
    case OPREG_Q1_0:
    case OPREG_Q2_0:
    case OPREG_IQ4_XS:
    case OPREG_IQ2_XXS:
    case OPREG_IQ2_XS:
    case OPREG_IQ2_S:
    case OPREG_IQ3_XXS:
    case OPREG_IQ3_S:
    case OPREG_IQ1_S:
    case OPREG_GQH2_C:
        tame_scale(r, b);
        break;
    default: /* UE4M3 scale bytes: the last ones, or the first four of NVFP4 */
        break;
    }
}

static void make_side(rig *r, const format_info *f, opreg_side *side) {
    memset(side, 0, sizeof *side);
    side->tensor_scale = f->side == FORMAT_SIDE_NONE ? 1.0f : 0.75f;
    if (f->side == FORMAT_SIDE_MIX4 || f->side == FORMAT_SIDE_MIX8) {
        side->mode = 1;
    }
    for (int i = 0; i < 16; i++) {
        uint32_t bits = bits_of((float)rig_gaussian(r)) & 0xffff0000u;
        side->levels[i] = float_of(bits);
    }
}

typedef struct weight_job {
    const format_info *f;
    uint8_t *data;
    const opreg_side *side;
    int64_t blocks_each; /* per task */
    int64_t blocks;
    uint64_t seed;
} weight_job;

static void make_blocks(void *arg, int64_t task) {
    weight_job *j = arg;
    rig local = {.random = j->seed + (uint64_t)task * 0x9e3779b97f4a7c15ull + 1};
    for (int i = 0; i < 4; i++) {
        (void)rig_random(&local);
    }
    for (int64_t b = task * j->blocks_each; b < j->blocks && b < (task + 1) * j->blocks_each; b++) {
        uint8_t *block = j->data + b * j->f->bytes;
        do {
            for (int i = 0; i < j->f->bytes; i += 8) {
                uint64_t word = rig_random(&local);
                int left = j->f->bytes - i < 8 ? j->f->bytes - i : 8;
                memcpy(block + i, &word, (size_t)left);
            }
            if (j->f->id >= OPREG_ROCMFP4) { /* scale bytes: keep most of them valid */
                for (int i = 0; i < j->f->bytes; i++) {
                    int scale = j->f->values == 32 && i >= j->f->bytes - 2;
                    block[i] = scale && j->f->id != OPREG_ROCMFP8 ? (uint8_t)(block[i] & 0xbf)
                                                                  : block[i];
                }
            }
            tame(&local, j->f->id, block);
        } while (j->f->invalid(block, j->side) != NULL);
    }
}

static void make_weight(rig *r, const problem_weight *shape, opreg_weight_view *view) {
    const format_info *f = format_by_id(shape->format);
    opreg_side *side = calloc((size_t)shape->experts, sizeof *side);
    weight_job job;
    memset(view, 0, sizeof *view);
    view->struct_size = sizeof *view;
    view->format = shape->format;
    view->dialect = shape->dialect;
    view->experts = shape->experts;
    view->n = shape->n;
    view->k = shape->k;
    view->row_bytes = shape->k / f->values * f->bytes;
    view->expert_stride = view->row_bytes * shape->n;
    view->bytes = (uint64_t)(view->expert_stride * shape->experts);
    view->data = malloc((size_t)view->bytes + 1);
    view->side = side;
    for (int64_t e = 0; e < shape->experts; e++) {
        make_side(r, f, &side[e]);
        side[e].dialect = shape->dialect;
    }
    job = (weight_job){f, (uint8_t *)(uintptr_t)view->data, side, 4096,
                       (int64_t)view->bytes / f->bytes, rig_random(r)};
    host_parallel(NULL, (job.blocks + 4095) / 4096, make_blocks, &job);
}

static void fill_ints(rig *r, int32_t *p, uint64_t bytes, int32_t low, int32_t high) {
    for (uint64_t i = 0; i < bytes / 4; i++) {
        p[i] = low + (int32_t)(rig_random(r) % (uint64_t)(high - low + 1));
    }
}

static void make_route(rig *r, rig_case *c, void *buffer, int64_t tokens, int32_t top_k,
                       int32_t experts) {
    opreg_moe_route p = {.struct_size = sizeof p,
                         .form = OPREG_ROUTE_TOPK,
                         .tokens = tokens,
                         .top_k = top_k,
                         .experts = experts,
                         .ids_stride = top_k,
                         .weights_stride = top_k};
    const opreg_kernel *route = rig_reference(r, OPREG_OP_MOE_ROUTE);
    opreg_buf bufs[OPREG_ROUTE_BUFS] = {{buffer, 0}};
    opreg_call call = {.struct_size = sizeof call, .num_bufs = 4, .host = &r->host, .bufs = bufs};
    int64_t entries = tokens * top_k;
    int32_t *ids = malloc((size_t)entries * 4 + 4);
    (void)c;
    for (int64_t t = 0; t < tokens; t++) { /* distinct experts a token, one bad id in 50 */
        for (int32_t s = 0; s < top_k; s++) {
            int again = 1;
            while (again) {
                ids[t * top_k + s] = (int32_t)(rig_random(r) % (uint64_t)experts);
                again = 0;
                for (int32_t o = 0; o < s && experts >= top_k; o++) {
                    again |= ids[t * top_k + o] == ids[t * top_k + s];
                }
            }
            if (entries > 20 && rig_random(r) % 50 == 0) {
                ids[t * top_k + s] = -3;
            }
        }
    }
    bufs[1] = (opreg_buf){ids, 0};
    bufs[2] = (opreg_buf){calloc((size_t)entries + 1, 4), 0};
    call.workspace = (opreg_buf){malloc((size_t)route->workspace(NULL, &p) + 64), 0};
    route->run(NULL, &p, &call);
    free(call.workspace.ptr);
    free(bufs[2].ptr);
    free(ids);
}

static void fill_attention(rig *r, rig_case *c) {
    const opreg_paged_attn_decode *p = &c->problem.attn;
    int32_t *table = c->host[OPREG_ATTN_TABLE].ptr, *lens = c->host[OPREG_ATTN_LENS].ptr;
    int csr = (p->flags & OPREG_PF_CSR) != 0;
    fill_ints(r, table, c->host[OPREG_ATTN_TABLE].bytes, 0, p->num_blocks - 1);
    for (int32_t s = 0; s < p->seqs; s++) {
        lens[s] = csr ? 1 + (int32_t)(rig_random(r) % (uint64_t)p->block_size)
                  : s == 0 ? p->max_seq_len
                           : (int32_t)(rig_random(r) % (uint64_t)(p->max_seq_len + 1));
    }
    if (csr) {
        int32_t *indptr = c->host[OPREG_ATTN_INDPTR].ptr;
        for (int32_t s = 0; s <= p->seqs; s++) {
            indptr[s] = (int32_t)((int64_t)p->table_stride * s / p->seqs);
        }
    }
    if (p->flags & OPREG_PF_Q_INDPTR) {
        int32_t *q = c->host[OPREG_ATTN_Q_INDPTR].ptr;
        for (int32_t s = 0; s <= p->seqs; s++) {
            q[s] = (int32_t)((int64_t)p->tokens * s / p->seqs);
        }
    }
}

/* Activations: gaussian, or planes that agree: any codes, their sums, gaussian scales. */
static void fill_x(rig *r, uint32_t dtype, opreg_buf x, opreg_buf scales, opreg_buf sums) {
    int8_t *q = x.ptr;
    int16_t *out = sums.ptr;
    if (scales.ptr == NULL) {
        fill_floats(r, x.ptr, x.bytes, dtype);
        return;
    }
    for (uint64_t i = 0; i < x.bytes; i++) {
        q[i] = (int8_t)((int)(rig_random(r) % 255u) - 127);
    }
    for (uint64_t j = 0; j < x.bytes / 16; j++) {
        int sum = 0;
        for (int i = 0; i < 16; i++) {
            sum += q[16 * j + (uint64_t)i];
        }
        out[j] = (int16_t)sum;
    }
    fill_floats(r, scales.ptr, scales.bytes, OPREG_F32);
}

static void fill_case(rig *r, rig_case *c) {
    for (uint32_t i = 0; i < c->num_bufs; i++) {
        if (!c->shape[i].output && c->host[i].bytes != 0) {
            fill_floats(r, c->host[i].ptr, c->host[i].bytes, OPREG_F32);
        }
    }
    switch (c->op) {
    case OPREG_OP_QUANTIZE_ACT:
        fill_floats(r, c->host[OPREG_QUANTIZE_X].ptr, c->host[OPREG_QUANTIZE_X].bytes,
                    c->problem.quantize.x_dtype);
        break;
    case OPREG_OP_MATMUL_BT_QUANT:
        fill_x(r, c->problem.matmul.x_dtype, c->host[OPREG_MATMUL_X],
               c->host[OPREG_MATMUL_X_SCALES], c->host[OPREG_MATMUL_X_SUMS]);
        break;
    case OPREG_OP_MOE_ROUTE:
        fill_ints(r, c->host[OPREG_ROUTE_IDS].ptr, c->host[OPREG_ROUTE_IDS].bytes, -1,
                  c->problem.route.experts);
        fill_ints(r, c->host[OPREG_ROUTE_ROW_MAP].ptr, c->host[OPREG_ROUTE_ROW_MAP].bytes, 0,
                  (int32_t)c->problem.route.tokens - 1);
        break;
    case OPREG_OP_MOE_MATMUL:
    case OPREG_OP_MOE_GLU:
    case OPREG_OP_MOE_DOWN:
        fill_x(r, c->problem.moe.x_dtype, c->host[OPREG_MOE_X], c->host[OPREG_MOE_X_SCALES],
               c->host[OPREG_MOE_X_SUMS]);
        make_route(r, c, c->host[OPREG_MOE_ROUTE_BUF].ptr, c->problem.moe.tokens,
                   c->problem.moe.top_k, c->problem.moe.experts);
        break;
    case OPREG_OP_MOE_COMBINE:
        fill_floats(r, c->host[OPREG_COMBINE_ROWS].ptr, c->host[OPREG_COMBINE_ROWS].bytes,
                    c->problem.combine.x_dtype);
        break;
    case OPREG_OP_MOE_FFN:
        fill_floats(r, c->host[OPREG_FFN_X].ptr, c->host[OPREG_FFN_X].bytes,
                    c->problem.ffn.x_dtype);
        make_route(r, c, c->host[OPREG_FFN_ROUTE].ptr, c->problem.ffn.tokens, c->problem.ffn.top_k,
                   c->problem.ffn.experts);
        break;
    case OPREG_OP_PAGED_ATTN_DECODE:
        fill_floats(r, c->host[OPREG_ATTN_Q].ptr, c->host[OPREG_ATTN_Q].bytes,
                    c->problem.attn.q_dtype);
        fill_floats(r, c->host[OPREG_ATTN_K].ptr, c->host[OPREG_ATTN_K].bytes,
                    c->problem.attn.kv_dtype);
        fill_floats(r, c->host[OPREG_ATTN_V].ptr, c->host[OPREG_ATTN_V].bytes,
                    c->problem.attn.kv_dtype);
        fill_attention(r, c);
        break;
    }
}

/* ---- cases ---------------------------------------------------------------------------------------- */

int rig_make(rig *r, opreg_op op, const char *text, rig_case *c) {
    problem_weight weights[PROBLEM_MAX_WEIGHTS];
    memset(c, 0, sizeof *c);
    c->op = op;
    if (opreg_problem_parse(op, text, &c->problem) != OPREG_OK ||
        problem_check(op, &c->problem, NULL) != OPREG_OK) {
        printf("FAILED no problem: %s: %s\n", text, opreg_last_error());
        return 0;
    }
    c->num_bufs = problem_buffers(op, &c->problem, c->shape);
    c->num_weights = problem_weights(op, &c->problem, weights);
    for (uint32_t i = 0; i < c->num_bufs; i++) {
        if (c->shape[i].use == BUFFER_UNUSED) {
            continue;
        }
        c->host[i].bytes = c->device[i].bytes = c->shape[i].bytes;
        c->host[i].ptr = aligned_alloc(256, (size_t)((c->shape[i].bytes + 511) / 256 * 256));
        c->device[i].ptr = rig_alloc(r, c->shape[i].bytes);
    }
    fill_case(r, c);
    for (uint32_t i = 0; i < c->num_bufs; i++) {
        if (!c->shape[i].output) {
            rig_up(r, c->device[i].ptr, c->host[i].ptr, c->host[i].bytes);
        }
    }
    for (uint32_t i = 0; i < c->num_weights; i++) {
        opreg_weight_view *view = &c->device_view[i];
        const opreg_layout *rows32 = r->gpu.num_layouts > 0 ? r->gpu.layouts[0] : NULL;
        uint64_t bytes = 0;
        make_weight(r, &weights[i], &c->view[i]);
        *view = c->view[i];
        view->data = rig_alloc(r, view->bytes);
        view->side = rig_alloc(r, (uint64_t)view->experts * sizeof(opreg_side));
        rig_up(r, (void *)(uintptr_t)view->data, c->view[i].data, view->bytes);
        rig_up(r, (void *)(uintptr_t)view->side, c->view[i].side,
               (uint64_t)view->experts * sizeof(opreg_side));
        if (rows32 != NULL) {
            bytes = rows32->bytes(&r->device, view->format, view->experts, view->n, view->k);
        }
        if (bytes != 0) {
            c->prepared[i] = *view;
            c->prepared[i].layout = rows32->id;
            c->prepared[i].bytes = bytes;
            c->prepared[i].data = rig_alloc(r, bytes);
            check(rows32->pack(&r->host, &r->device, view, (void *)(uintptr_t)c->prepared[i].data,
                               NULL),
                  "pack");
        }
    }
    return 1;
}

void rig_drop(rig *r, rig_case *c) {
    for (uint32_t i = 0; i < c->num_bufs; i++) {
        free(c->host[i].ptr);
        rig_free(r, c->device[i].ptr);
    }
    for (uint32_t i = 0; i < c->num_weights; i++) {
        free((void *)(uintptr_t)c->view[i].data);
        free((void *)(uintptr_t)c->view[i].side);
        rig_free(r, (void *)(uintptr_t)c->device_view[i].data);
        rig_free(r, (void *)(uintptr_t)c->device_view[i].side);
        rig_free(r, (void *)(uintptr_t)c->prepared[i].data);
    }
    rig_free(r, c->workspace);
    memset(c, 0, sizeof *c);
}

opreg_status rig_run_cpu(rig *r, rig_case *c) {
    const opreg_kernel *kernel = rig_reference(r, c->op);
    const opreg_weight_view *views[PROBLEM_MAX_WEIGHTS] = {&c->view[0], &c->view[1], &c->view[2]};
    opreg_call call = {.struct_size = sizeof call,
                       .num_bufs = c->num_bufs,
                       .num_weights = c->num_weights,
                       .host = &r->host,
                       .bufs = c->host,
                       .weights = views};
    opreg_status status;
    uint64_t bytes = kernel->workspace(NULL, &c->problem);
    call.workspace = (opreg_buf){aligned_alloc(256, (size_t)((bytes + 511) / 256 * 256)), bytes};
    status = kernel->run(NULL, &c->problem, &call);
    free(call.workspace.ptr);
    return status;
}

opreg_status rig_run_gpu(rig *r, rig_case *c, const opreg_kernel *kernel, int prepared,
                         void *stream) {
    const opreg_weight_view *views[PROBLEM_MAX_WEIGHTS];
    void *state = NULL;
    opreg_status status;
    uint64_t bytes = kernel->workspace(&r->device, &c->problem);
    opreg_call call = {.struct_size = sizeof call,
                       .num_bufs = c->num_bufs,
                       .num_weights = c->num_weights,
                       .host = &r->host,
                       .bufs = c->device,
                       .weights = views,
                       .stream = stream};
    for (int i = 0; i < PROBLEM_MAX_WEIGHTS; i++) {
        views[i] = prepared ? &c->prepared[i] : &c->device_view[i];
    }
    if (bytes > c->workspace_bytes || c->workspace == NULL) {
        rig_free(r, c->workspace);
        c->workspace = rig_alloc(r, bytes + 256);
        c->workspace_bytes = bytes;
    }
    call.workspace = (opreg_buf){c->workspace, bytes};
    status = kernel->prepare(&r->host, &r->device, &c->problem, &state);
    if (status == OPREG_OK) {
        status = kernel->run(state, &c->problem, &call);
        kernel->release(state);
    }
    return status;
}

void rig_poison(rig *r, rig_case *c) {
    for (uint32_t i = 0; i < c->num_bufs; i++) {
        if (c->shape[i].output && c->host[i].bytes != 0) {
            check(r->gpu.io->fill(&r->host, &r->device, c->device[i].ptr, 0xff, c->host[i].bytes,
                                  NULL),
                  "fill");
            memset(c->host[i].ptr, 0xff, (size_t)c->host[i].bytes);
        }
    }
    check(r->gpu.io->stream_sync(&r->host, &r->device, NULL), "sync");
}

uint32_t rig_output_dtype(const rig_case *c, uint32_t buffer) {
    switch (c->op) {
    case OPREG_OP_MATMUL_BT_QUANT:
        return c->problem.matmul.y_dtype;
    case OPREG_OP_MOE_MATMUL:
    case OPREG_OP_MOE_GLU:
    case OPREG_OP_MOE_DOWN:
        return c->problem.moe.y_dtype;
    case OPREG_OP_MOE_COMBINE:
        return c->problem.combine.y_dtype;
    case OPREG_OP_MOE_FFN:
        return c->problem.ffn.y_dtype;
    case OPREG_OP_PAGED_ATTN_DECODE:
        return buffer == OPREG_ATTN_OUT ? c->problem.attn.out_dtype : (uint32_t)OPREG_F32;
    case OPREG_OP_QUANTIZE_ACT:
        return buffer == OPREG_QUANTIZE_SCALES ? (uint32_t)OPREG_F32 : (uint32_t)OPREG_F8_E4M3;
    default:
        return OPREG_F8_E4M3; /* bytes */
    }
}

static uint32_t same_nan(uint32_t bits, uint32_t dtype) {
    if (dtype == OPREG_F32) {
        return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : bits;
    }
    if (dtype == OPREG_F16) {
        return (bits & 0x7fffu) > 0x7c00u ? 0x7e00u : bits;
    }
    return (bits & 0x7fffu) > 0x7f80u ? 0x7fc0u : bits;
}

int64_t rig_compare(rig *r, rig_case *c, const char *name) {
    int64_t bad = 0, elements = 0, nans = 0;
    for (uint32_t i = 0; i < c->num_bufs; i++) {
        uint32_t dtype = rig_output_dtype(c, i);
        uint64_t each = dtype == OPREG_F32 ? 4 : dtype == OPREG_F8_E4M3 ? 1 : 2;
        uint8_t *device, *host = c->host[i].ptr;
        if (!c->shape[i].output || c->host[i].bytes == 0) {
            continue;
        }
        device = malloc((size_t)c->host[i].bytes);
        rig_down(r, device, c->device[i].ptr, c->host[i].bytes);
        for (uint64_t e = 0; e < c->host[i].bytes / each; e++) {
            uint32_t a = 0, b = 0;
            memcpy(&a, host + e * each, (size_t)each);
            memcpy(&b, device + e * each, (size_t)each);
            if (each > 1) {
                a = same_nan(a, dtype);
                b = same_nan(b, dtype);
                nans += each == 4 ? a == 0x7fc00000u : 0;
            }
            elements++;
            if (a != b && bad++ == 0 && name != NULL) {
                printf("  %s: %s[%" PRIu64 "] is %08x, should be %08x\n", name, c->shape[i].name, e,
                       b, a);
            }
        }
        free(device);
    }
    if (name != NULL && nans * 2 > elements) {
        printf("  %s: %" PRId64 " of %" PRId64 " are NaN\n", name, nans, elements);
    }
    return bad;
}

double rig_error(rig *r, rig_case *c) {
    double error = 0, norm = 0;
    for (uint32_t i = 0; i < c->num_bufs; i++) {
        uint32_t dtype = rig_output_dtype(c, i);
        void *device;
        if (!c->shape[i].output || c->host[i].bytes == 0) {
            continue;
        }
        device = malloc((size_t)c->host[i].bytes);
        rig_down(r, device, c->device[i].ptr, c->host[i].bytes);
        for (uint64_t e = 0; e < c->host[i].bytes / (dtype == OPREG_F32 ? 4 : 2); e++) {
            double want = (double)canonical_load(c->host[i].ptr, (int64_t)e, dtype);
            double got = (double)canonical_load(device, (int64_t)e, dtype);
            if (!isnan(want) || !isnan(got)) { /* what is not written is no number in both      */
                error += (got - want) * (got - want);
                norm += want * want;
            }
        }
        free(device);
    }
    return norm > 0 ? error / norm : error;
}
