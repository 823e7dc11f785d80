/* SPDX-License-Identifier: MIT
 * bench.c - times variants cold on a device: `sm90-bench [WORDS]` runs the lines that contain WORDS,
 * as they stand or one by one.
 *
 * Every case rotates weights (or routes, or pages) that together exceed four times the L2, inside one
 * captured graph; the time is the median of 25 replays.  Rows as in bench/baselines: tabs, one line a
 * (problem, variant).  The check beside the time: bits equal to the plugin's baseline on all outputs,
 * and NMSE against float64 of the raw activations on up to 512 of them; of attention that is not
 * canonical, NMSE against the baseline. */
#include "device.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PREPARED_LAYOUT 1u /* rows32 */
#define COLD_BYTES 300e6
#define MOST_NODES 64
#define REPLAYS 25

static double stream_bytes_per_us = 4.2e6;
static const char *date_text, *driver_text, *command_text;

typedef struct rotation {
    int count; /* sets of inputs                                                                  */
    void *weights[MOST_NODES][PROBLEM_MAX_WEIGHTS];
    void *side_buffer[MOST_NODES]; /* route, or block table                                       */
    uint32_t side_index;           /* which buffer that is                                        */
    double bytes;                  /* one call's                                                  */
} rotation;

static int is_moe(opreg_op op) {
    return op == OPREG_OP_MOE_MATMUL || op == OPREG_OP_MOE_GLU || op == OPREG_OP_MOE_DOWN;
}

/* The operators whose weights are taken by a route, which is buffer OPREG_MOE_ROUTE_BUF of all. */
typedef struct routed {
    int64_t tokens;
    int32_t top_k, experts; /* experts 0: not one of them                                         */
} routed;

static routed routed_of(const rig_case *c) {
    const opreg_moe_matmul *p = &c->problem.moe;
    const opreg_moe_ffn *f = &c->problem.ffn;
    routed none = {0, 0, 0}, grouped = {p->tokens, p->top_k, p->experts},
           ffn = {f->tokens, f->top_k, f->experts};
    return c->op == OPREG_OP_MOE_FFN ? ffn : is_moe(c->op) ? grouped : none;
}

static double buffer_bytes(const rig_case *c) {
    double bytes = 0;
    for (uint32_t i = 0; i < c->num_bufs; i++) {
        if (c->op == OPREG_OP_PAGED_ATTN_DECODE && (i == OPREG_ATTN_K || i == OPREG_ATTN_V)) {
            continue;
        }
        bytes += (double)c->host[i].bytes;
    }
    return bytes;
}

/* Routes whose experts do not meet, written by the CPU's moe_route. */
static void rotate_routes(rig *r, rig_case *c, rotation *out) {
    routed p = routed_of(c);
    int64_t entries = p.tokens * p.top_k;
    int per_call = (int)(entries < p.experts ? entries : p.experts);
    const opreg_kernel *route = rig_reference(r, OPREG_OP_MOE_ROUTE);
    opreg_moe_route rp = {.struct_size = sizeof rp,
                          .form = OPREG_ROUTE_TOPK,
                          .tokens = p.tokens,
                          .top_k = p.top_k,
                          .experts = p.experts,
                          .ids_stride = p.top_k,
                          .weights_stride = p.top_k};
    int32_t *ids = calloc((size_t)entries, 4);
    float *weights = calloc((size_t)entries, 4);
    uint64_t bytes = c->host[OPREG_MOE_ROUTE_BUF].bytes;
    void *workspace = malloc((size_t)route->workspace(NULL, &rp) + 64);
    double expert_bytes = 0;
    for (uint32_t i = 0; i < c->num_weights; i++) {
        expert_bytes += (double)c->view[i].row_bytes * (double)c->view[i].n;
    }
    out->side_index = OPREG_MOE_ROUTE_BUF;
    out->count = p.experts / per_call;
    out->count = out->count > MOST_NODES ? MOST_NODES : out->count < 1 ? 1 : out->count;
    out->bytes = expert_bytes * per_call + buffer_bytes(c);
    for (int s = 0; s < out->count; s++) {
        opreg_buf bufs[OPREG_ROUTE_BUFS] = {{c->host[OPREG_MOE_ROUTE_BUF].ptr, bytes},
                                            {ids, (uint64_t)entries * 4},
                                            {weights, (uint64_t)entries * 4}};
        opreg_call call = {.struct_size = sizeof call,
                           .num_bufs = 4,
                           .host = &r->host,
                           .bufs = bufs,
                           .workspace = {workspace, 0}};
        for (int64_t e = 0; e < entries; e++) {
            /* a walk that meets every expert once */
            ids[e] = (int32_t)((((int64_t)s * per_call + e % per_call) * 37) % p.experts);
        }
        route->run(NULL, &rp, &call);
        out->side_buffer[s] = rig_alloc(r, bytes);
        rig_up(r, out->side_buffer[s], c->host[OPREG_MOE_ROUTE_BUF].ptr, bytes);
    }
    free(workspace);
    free(ids);
    free(weights);
}

static void rotate_tables(rig *r, rig_case *c, rotation *out) {
    const opreg_paged_attn_decode *p = &c->problem.attn;
    int pages = (p->max_seq_len + p->block_size - 1) / p->block_size, total = pages * p->seqs;
    int32_t *table = c->host[OPREG_ATTN_TABLE].ptr, *lens = c->host[OPREG_ATTN_LENS].ptr;
    double element = p->kv_dtype == OPREG_F32 ? 4 : p->kv_dtype == OPREG_F8_E4M3 ? 1 : 2;
    out->side_index = OPREG_ATTN_TABLE;
    out->count = p->num_blocks / total;
    out->count = out->count > MOST_NODES ? MOST_NODES : out->count < 1 ? 1 : out->count;
    out->bytes = 2.0 * p->seqs * p->max_seq_len * p->kv_heads * p->head_dim * element +
                 buffer_bytes(c);
    for (int32_t s = 0; s < p->seqs; s++) {
        lens[s] = p->max_seq_len;
    }
    rig_up(r, c->device[OPREG_ATTN_LENS].ptr, lens, c->host[OPREG_ATTN_LENS].bytes);
    for (int s = 0; s < out->count; s++) {
        for (int32_t q = 0; q < p->seqs; q++) {
            for (int i = 0; i < pages; i++) {
                int64_t page = ((int64_t)(q * pages + i) * 7919) % total;
                table[(int64_t)q * p->table_stride + i] = (int32_t)(s * total + page);
            }
        }
        out->side_buffer[s] = rig_alloc(r, c->host[OPREG_ATTN_TABLE].bytes);
        rig_up(r, out->side_buffer[s], table, c->host[OPREG_ATTN_TABLE].bytes);
    }
}

static void rotate_weights(rig *r, rig_case *c, int prepared, rotation *out) {
    double bytes = 0;
    for (uint32_t i = 0; i < c->num_weights; i++) {
        bytes += (double)c->view[i].bytes;
    }
    out->bytes = bytes + buffer_bytes(c);
    out->count = (int)ceil(COLD_BYTES / (bytes > 0 ? bytes : 1));
    out->count = out->count < 10 ? 10 : out->count > MOST_NODES ? MOST_NODES : out->count;
    if (bytes * out->count > 40e9) {
        out->count = 2;
    }
    for (int s = 0; s < out->count; s++) {
        for (uint32_t i = 0; i < c->num_weights; i++) {
            const opreg_weight_view *from = prepared ? &c->prepared[i] : &c->device_view[i];
            out->weights[s][i] = rig_alloc(r, from->bytes);
            r->gpu.io->copy(&r->host, &r->device, out->weights[s][i], from->data, from->bytes,
                            NULL);
        }
    }
}

static void rotate(rig *r, rig_case *c, int prepared, rotation *out) {
    memset(out, 0, sizeof *out);
    if (routed_of(c).experts != 0) {
        rotate_routes(r, c, out);
    } else if (c->op == OPREG_OP_PAGED_ATTN_DECODE) {
        rotate_tables(r, c, out);
    } else {
        rotate_weights(r, c, prepared, out);
    }
    r->gpu.io->stream_sync(&r->host, &r->device, NULL);
}

static void drop_rotation(rig *r, rotation *rot) {
    for (int s = 0; s < rot->count; s++) {
        for (int i = 0; i < PROBLEM_MAX_WEIGHTS; i++) {
            rig_free(r, rot->weights[s][i]);
        }
        rig_free(r, rot->side_buffer[s]);
    }
}

/* Points the case at one set. */
static void use_set(rig_case *c, const rotation *rot, int set, int prepared) {
    set %= rot->count;
    for (uint32_t i = 0; i < c->num_weights && rot->weights[set][i] != NULL; i++) {
        (prepared ? &c->prepared[i] : &c->device_view[i])->data = rot->weights[set][i];
    }
    if (rot->side_buffer[set] != NULL) {
        c->device[rot->side_index].ptr = rot->side_buffer[set];
    }
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Median and half the middle spread of a call's time, in us; below 0 on failure. */
static double time_kernel(rig *r, rig_case *c, const opreg_kernel *kernel, int prepared,
                          const rotation *rot, double *spread) {
    const opreg_device_io *io = r->gpu.io;
    void *stream = NULL, *graph = NULL, *from = NULL, *to = NULL;
    double times[REPLAYS];
    int nodes = rot->count < 16 ? 16 : rot->count, ok;
    io->stream_create(&r->host, &r->device, &stream);
    io->event_create(&r->host, &r->device, &from);
    io->event_create(&r->host, &r->device, &to);
    use_set(c, rot, 0, prepared);
    ok = rig_run_gpu(r, c, kernel, prepared, stream) == OPREG_OK &&
         io->stream_sync(&r->host, &r->device, stream) == OPREG_OK;
    if (ok) {
        double begin = rig_now_us();
        rig_run_gpu(r, c, kernel, prepared, stream);
        io->stream_sync(&r->host, &r->device, stream);
        if (rig_now_us() - begin > 3000.0) {
            nodes = rot->count < 2 ? 1 : 2;
        }
        ok = io->capture_begin(&r->host, &r->device, stream) == OPREG_OK;
    }
    for (int s = 0; ok && s < nodes; s++) {
        use_set(c, rot, s, prepared);
        ok = rig_run_gpu(r, c, kernel, prepared, stream) == OPREG_OK;
    }
    ok = ok && io->capture_end(&r->host, &r->device, stream, &graph) == OPREG_OK;
    for (int i = -3; ok && i < REPLAYS; i++) {
        double us = 0;
        io->event_record(&r->host, &r->device, from, stream);
        ok = io->graph_launch(&r->host, &r->device, graph, stream) == OPREG_OK;
        io->event_record(&r->host, &r->device, to, stream);
        ok = ok && io->event_elapsed_us(&r->host, &r->device, from, to, &us) == OPREG_OK;
        times[i < 0 ? 0 : i] = us / nodes;
    }
    io->graph_destroy(&r->host, &r->device, graph);
    io->event_destroy(&r->host, &r->device, from);
    io->event_destroy(&r->host, &r->device, to);
    io->stream_destroy(&r->host, &r->device, stream);
    use_set(c, rot, 0, prepared);
    if (!ok) {
        return -1;
    }
    qsort(times, REPLAYS, sizeof times[0], by_value);
    *spread = (times[REPLAYS * 3 / 4] - times[REPLAYS / 4]) / 2;
    return times[REPLAYS / 2];
}

/* ---- errors ------------------------------------------------------------------------------------- */

static double dot64(const rig_case *c, int which, int64_t expert, int64_t n, const void *x,
                    int64_t first, uint32_t dtype) {
    const opreg_weight_view *v = &c->view[which];
    const format_info *f = format_by_id(v->format);
    const uint8_t *row = (const uint8_t *)v->data + expert * v->expert_stride + n * v->row_bytes;
    double sum = 0;
    for (int64_t k = 0; k < v->k; k++) {
        sum += (double)f->value(row + k / f->values * f->bytes, (int)(k % f->values),
                                &v->side[expert]) *
               (double)canonical_load(x, first + k, dtype);
    }
    double last = f->side == FORMAT_SIDE_SCALE ? (double)v->side[expert].tensor_scale : 1.0;
    return sum * last;
}

static double glu64(uint32_t kind, double g, double u) {
    return kind == OPREG_GLU_SILU ? g / (1 + exp(-g)) * u : g;
}

/* NMSE of sampled outputs in host buffer 0; -1 where there is no oracle here. */
static double error_of(rig *r, rig_case *c) {
    double error = 0, norm = 0;
    const opreg_matmul_bt_quant *m = &c->problem.matmul;
    const opreg_moe_matmul *e = &c->problem.moe;
    const uint8_t *route = c->host[OPREG_MOE_ROUTE_BUF].ptr;
    float *y = malloc((size_t)c->host[0].bytes);
    rig_down(r, y, c->device[0].ptr, c->host[0].bytes);
    for (int i = 0; i < 512; i++) {
        double truth = 0, got = 0;
        if (c->op == OPREG_OP_MATMUL_BT_QUANT && m->y_dtype == OPREG_F32) {
            int64_t row = i % m->m, n = (int64_t)i * 7919 % m->n;
            truth = dot64(c, 0, 0, n, c->host[OPREG_MATMUL_X].ptr, row * m->x_stride, m->x_dtype);
            if (m->glu) {
                truth = glu64(m->glu, truth, dot64(c, 1, 0, n, c->host[OPREG_MATMUL_X].ptr,
                                                   row * m->x_stride, m->x_dtype));
            }
            got = (double)y[row * m->y_stride + n];
        } else if (is_moe(c->op) && e->y_dtype == OPREG_F32) {
            opreg_route_layout layout = {.struct_size = sizeof layout};
            int64_t entries = e->tokens * e->top_k, at = i % entries, n = (int64_t)i * 37 % e->n;
            int32_t g = 0;
            opreg_route_layout_get(e->tokens, e->top_k, e->experts, &layout);
            const int32_t *start = (const void *)(route + layout.group_start);
            const int32_t *experts = (const void *)(route + layout.group_expert);
            const int32_t *token = (const void *)(route + layout.entry_token);
            const int32_t *dst = (const void *)(route + layout.entry_dst);
            while (start[g + 1] <= at) {
                g++;
            }
            int64_t x_row = e->x_rows == OPREG_X_BY_DST ? dst[at] : token[at];
            truth = dot64(c, 0, experts[g], n, c->host[OPREG_MOE_X].ptr, x_row * e->x_stride,
                          e->x_dtype);
            if (e->glu) {
                truth = glu64(e->glu, truth, dot64(c, 1, experts[g], n, c->host[OPREG_MOE_X].ptr,
                                                   x_row * e->x_stride, e->x_dtype));
            }
            got = (double)y[dst[at] * e->y_stride + n];
        } else {
            free(y);
            return -1;
        }
        error += (got - truth) * (got - truth);
        norm += truth * truth;
    }
    free(y);
    return error / norm;
}

/* NMSE of the device's attention rows to those on the host, which the baseline gave. */
static double error_to_host(rig *r, rig_case *c) {
    const opreg_paged_attn_decode *p = &c->problem.attn;
    double error = 0, norm = 0;
    void *got = malloc((size_t)c->host[OPREG_ATTN_OUT].bytes);
    rig_down(r, got, c->device[OPREG_ATTN_OUT].ptr, c->host[OPREG_ATTN_OUT].bytes);
    for (int64_t token = 0; token < p->tokens; token++) {
        for (int64_t e = 0; e < (int64_t)p->q_heads * p->head_dim; e++) {
            int64_t at = token * p->out_stride + e;
            double x = (double)canonical_load(c->host[OPREG_ATTN_OUT].ptr, at, p->out_dtype);
            double d = (double)canonical_load(got, at, p->out_dtype) - x;
            error += d * d;
            norm += x * x;
        }
    }
    free(got);
    return error / norm;
}

/* ---- lines ----------------------------------------------------------------------------------------- */

static int listed(const opreg_kernel *kernel, uint32_t format) {
    if (kernel->formats == NULL) {
        return 1;
    }
    for (const uint32_t *f = kernel->formats; *f != 0; f++) {
        if (*f == format) {
            return 1;
        }
    }
    return 0;
}

static void print_row(rig *r, const rig_case *c, const char *text, const opreg_kernel *kernel,
                      double us, double spread, double bytes, double base_us, double nmse,
                      int64_t differ, double us_chained) {
    static const char *const levels[] = {"any", "band", "int", "canonical"};
    const problem_any *p = &c->problem;
    double floor_us = bytes / stream_bytes_per_us;
    char m[32] = "-", n[32] = "-", k[32] = "-", error[32] = "-", problem[PROBLEM_TEXT_BYTES];
    if (c->op == OPREG_OP_MATMUL_BT_QUANT) {
        snprintf(m, sizeof m, "%" PRId64, p->matmul.m);
        snprintf(n, sizeof n, "%" PRId64, p->matmul.n);
        snprintf(k, sizeof k, "%" PRId64, p->matmul.k);
    } else if (is_moe(c->op)) {
        snprintf(m, sizeof m, "%" PRId64, p->moe.tokens);
        snprintf(n, sizeof n, "%" PRId64, p->moe.n);
        snprintf(k, sizeof k, "%" PRId64, p->moe.k);
    }
    if (nmse >= 0) {
        snprintf(error, sizeof error, "%.1e", nmse);
    }
    problem_text(c->op, p, 1, problem, sizeof problem);
    (void)text;
    for (int chained = 0; chained < 2; chained++) {
        double t = chained ? us_chained : us;
        if (t <= 0) {
            continue;
        }
        printf("%s\t%s\t%s\t%s\t%s\t%s\tcuda-sm90/%s%s\t%s\t%.2f\t%.2f\t%.2f\t%.1f\t%.0f\t%.2f\t%s\t"
               "cold\t%s\t%s\t%s\t%s\t%s%s\n",
               opreg_op_name(c->op), c->num_weights ? opreg_dtype_name(c->view[0].format) : "-", m,
               n, k, problem, kernel->name, chained ? " (chain)" : "", levels[kernel->level], t,
               spread, floor_us, 100 * floor_us / t, bytes / t * 1e-3, base_us / t, error,
               r->device.name, driver_text, r->gpu.built_with, date_text, command_text,
               differ == 0 ? "" : "\tBITS DIFFER");
    }
    fflush(stdout);
}

static void one(rig *r, opreg_op op, const char *text) {
    rig_case c;
    const opreg_kernel *base = NULL;
    double base_us = 0, spread = 0;
    if (!rig_make(r, op, text, &c)) {
        return;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < r->gpu.num_kernels; i++) {
            const opreg_kernel *kernel = r->gpu.kernels[i];
            int is_base = (kernel->flags & OPREG_KF_BASELINE) != 0;
            int prepared = kernel->layout == PREPARED_LAYOUT;
            char reason[128];
            rotation rot;
            double us, chained = 0, nmse;
            int64_t differ = 0;
            if (kernel->op != op || is_base != (pass == 0) ||
                (c.num_weights && !listed(kernel, c.view[0].format)) ||
                kernel->supports(&r->device, &c.problem, reason) != OPREG_OK ||
                (prepared && c.prepared[0].data == NULL)) {
                continue;
            }
            rig_case kept = c;
            rotate(r, &c, prepared, &rot);
            us = time_kernel(r, &c, kernel, prepared, &rot, &spread);
            if (!is_base) {
                r->chained = 1;
                chained = time_kernel(r, &c, kernel, prepared, &rot, &spread);
                r->chained = 0;
            }
            /* once more on the case's own weights and the last route or table, which the host has */
            {
                void *workspace = c.workspace;
                uint64_t workspace_bytes = c.workspace_bytes;
                c = kept;
                c.workspace = workspace;
                c.workspace_bytes = workspace_bytes;
            }
            if (rot.side_buffer[rot.count - 1] != NULL) {
                c.device[rot.side_index].ptr = rot.side_buffer[rot.count - 1];
            }
            if (!is_base &&
                (kernel->level == OPREG_LEVEL_CANONICAL || op == OPREG_OP_PAGED_ATTN_DECODE)) {
                rig_poison(r, &c);
                rig_run_gpu(r, &c, base, 0, NULL);
                for (uint32_t b = 0; b < c.num_bufs; b++) {
                    if (c.shape[b].output) {
                        rig_down(r, c.host[b].ptr, c.device[b].ptr, c.host[b].bytes);
                    }
                }
                for (uint32_t b = 0; b < c.num_bufs; b++) {
                    if (c.shape[b].output) {
                        r->gpu.io->fill(&r->host, &r->device, c.device[b].ptr, 0xff,
                                        c.host[b].bytes, NULL);
                    }
                }
            }
            rig_run_gpu(r, &c, kernel, prepared, NULL);
            nmse = error_of(r, &c);
            if (is_base) {
                base = kernel;
                base_us = us;
            } else if (op == OPREG_OP_PAGED_ATTN_DECODE &&
                       kernel->level != OPREG_LEVEL_CANONICAL) {
                nmse = error_to_host(r, &c);
            } else if (kernel->level == OPREG_LEVEL_CANONICAL) {
                differ = rig_compare(r, &c, kernel->name);
            }
            print_row(r, &c, text, kernel, us, spread, rot.bytes, base_us, nmse, differ, chained);
            for (uint32_t b = 0; b < c.num_bufs; b++) { /* the case's own buffers come back */
                c.device[b] = kept.device[b];
            }
            drop_rotation(r, &rot);
        }
    }
    rig_drop(r, &c);
}

/* A part of the text, or words of it in any order. */
static int asked_for(const char *text, const char *words) {
    size_t length;
    if (strstr(text, words) != NULL) {
        return 1;
    }
    for (; *words != 0; words += length + (words[length] == ' ')) {
        const char *at = text;
        length = strcspn(words, " ");
        while (strncmp(at, words, length) != 0 || strcspn(at, " ") != length) {
            at = strchr(at, ' ');
            if (at == NULL) {
                return 0;
            }
            at++;
        }
    }
    return 1;
}

int main(int argc, char **argv) {
    static const char *const formats[] = {"q4_k", "q6_k", "q5_k", "q3_k", "q2_k", "q4_0", "q8_0"};
    const char *word = argc > 1 ? argv[1] : "";
    char today[32], text[512];
    time_t now = time(NULL);
    struct tm when;
    rig r;
    strftime(today, sizeof today, "%Y-%m-%d", gmtime_r(&now, &when));
    date_text = today;
    driver_text = argc > 2 ? argv[2] : "-";
    command_text = "sm90-bench";
    rig_open(&r);
    printf("op\tformat\tm\tn\tk\tproblem\tkernel\tlevel\tus\tspread\tfloor_us\tpct_floor\tgbps\tratio\t"
           "nmse\tcold\tdevice\tdriver\ttoolkit\tdate\tcommand\n");
#define TRY(op, ...)                                                                               \
    do {                                                                                           \
        snprintf(text, sizeof text, __VA_ARGS__);                                                  \
        if (asked_for(text, word) || strstr(opreg_op_name(op), word) != NULL) {                    \
            one(&r, op, text);                                                                     \
        }                                                                                          \
    } while (0)
    for (int m = 1; m <= 8; m += 7) {
        for (int f = 0; f < 7; f++) {
            if (f < 2 || f == 5) {
                TRY(OPREG_OP_MATMUL_BT_QUANT, "m=%d n=151936 k=2560 b=%s x=f32 y=f32", m,
                    formats[f]);
            }
            TRY(OPREG_OP_MATMUL_BT_QUANT, "m=%d n=14336 k=4096 b=%s x=f32 y=f32", m, formats[f]);
        }
        static const char *const more[] = {"iq2_xxs", "iq2_xs", "iq2_s",  "iq3_xxs", "iq3_s",
                                           "iq4_nl",  "iq4_xs", "iq1_s",  "iq1_m",   "q4_1",
                                           "q5_0",    "q5_1",   "mxfp4",  "q2_0",    "rocmfp4"};
        for (size_t f = 0; f < sizeof more / sizeof more[0]; f++) {
            TRY(OPREG_OP_MATMUL_BT_QUANT, "m=%d n=14336 k=4096 b=%s x=f32 y=f32", m, more[f]);
        }
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=%d n=9216 k=2560 b=q4_k x=f32 y=f32", m);
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=%d n=2560 k=9216 b=q4_k x=f32 y=f32", m);
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=%d n=32768 k=1024 b=rocmfp4_fast x=f32 y=f32", m);
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=%d n=4096 k=8192 b=rocmfp4_fast x=f32 y=f32", m);
        /* rows that end inside a group: SmolLM2-135M */
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=%d n=49152 k=576 b=q8_0 x=f32 y=f32", m);
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=%d n=1536 k=576 b=q4_0 x=f32 y=f32", m);
    }
    for (int m = 1; m <= 8; m += m < 5 ? 1 : 3) {
        static const char *const gqh[] = {"gqh4", "gqh3", "gqh2_h", "gqh2_c"};
        for (size_t f = 0; f < 4; f++) {
            TRY(OPREG_OP_MATMUL_BT_QUANT, "m=%d n=17408 k=5120 b=%s x=f32 y=f32", m, gqh[f]);
        }
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=%d n=5120 k=17408 b=gqh4 x=f32 y=f32", m);
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=%d n=12288 k=5120 b=gqh4 x=f32 y=f32", m);
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=%d n=5120 k=6144 b=gqh2_h x=f32 y=f32", m);
    }
    TRY(OPREG_OP_MATMUL_BT_QUANT, "m=1 n=17408 k=5120 b=gqh4 x=f32 y=f32 glu=silu");
    TRY(OPREG_OP_MATMUL_BT_QUANT, "m=1 n=248320 k=5120 b=gqh3 x=f32 y=f32");
    for (int t = 1; t <= 64; t *= 8) {
        TRY(OPREG_OP_MOE_GLU,
            "tokens=%d top_k=8 experts=128 n=768 k=2048 b=gqh4 x=f32 y=f32 glu=silu", t);
        TRY(OPREG_OP_MOE_DOWN,
            "tokens=%d top_k=8 experts=128 n=2048 k=768 b=gqh4 x=f32 y=f32 rows=dst", t);
    }
    TRY(OPREG_OP_MATMUL_BT_QUANT, "m=1 n=14336 k=4096 b=q4_k x=q8_k y=f32");
    TRY(OPREG_OP_MATMUL_BT_QUANT, "m=1 n=14336 k=4096 b=q4_k x=f32 y=f32 glu=silu");
    static const char *const many[] = {"q4_k",    "q5_k",    "q6_k",   "q3_k",  "q2_k",
                                       "q4_0",    "q8_0",    "q4_1",   "iq4_nl", "mxfp4",
                                       "q5_0",    "q5_1",    "q2_0",   "rocmfp4", "iq4_xs",
                                       "iq2_xxs", "iq2_s",   "iq3_xxs", "iq3_s", "iq1_m"};
    for (size_t f = 0; f < sizeof many / sizeof many[0]; f++) {
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=512 n=4096 k=4096 b=%s x=f32 y=f32", many[f]);
    }
    TRY(OPREG_OP_MATMUL_BT_QUANT, "m=512 n=4096 k=14336 b=q4_k x=f32 y=f32");
    for (int m = 16; m <= 256; m *= 2) {
        static const char *const some[] = {"q4_k", "q6_k", "q4_0", "q8_0", "q2_0", "iq3_s"};
        for (size_t f = 0; f < sizeof some / sizeof some[0]; f++) {
            TRY(OPREG_OP_MATMUL_BT_QUANT, "m=%d n=4096 k=4096 b=%s x=f32 y=f32", m, some[f]);
        }
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=%d n=14336 k=4096 b=q4_k x=f32 y=f32", m);
        TRY(OPREG_OP_MATMUL_BT_QUANT, "m=%d n=14336 k=4096 b=q4_0 x=f32 y=f32", m);
    }
    TRY(OPREG_OP_MOE_GLU,
        "tokens=1 top_k=4 experts=256 n=2048 k=7168 b=rocmfp2_mix x=f32 y=f32 glu=silu");
    TRY(OPREG_OP_MOE_GLU,
        "tokens=1 top_k=4 experts=256 n=2048 k=7168 b=rocmfp3_mix x=f32 y=f32 glu=silu");
    TRY(OPREG_OP_MOE_DOWN,
        "tokens=1 top_k=4 experts=256 n=7168 k=2048 b=rocmfp2_mix x=f32 y=f32 rows=dst");
    TRY(OPREG_OP_MOE_DOWN,
        "tokens=1 top_k=4 experts=256 n=7168 k=2048 b=rocmfp3_mix x=f32 y=f32 rows=dst");
    TRY(OPREG_OP_MOE_GLU,
        "tokens=1 top_k=10 experts=512 n=640 k=2560 b=iq3_s x=f32 y=f32 glu=silu");
    for (int t = 1; t <= 64; t *= 4) {
        TRY(OPREG_OP_MOE_DOWN,
            "tokens=%d top_k=10 experts=512 n=2560 k=640 b=iq4_nl x=f32 y=f32 rows=dst", t);
        TRY(OPREG_OP_MOE_DOWN,
            "tokens=%d top_k=10 experts=512 n=2560 k=640 b=q2_0 x=f32 y=f32 rows=dst", t);
    }
    for (int t = 128; t <= 256; t *= 2) { /* 2.5 and 5 entries a group */
        TRY(OPREG_OP_MOE_DOWN,
            "tokens=%d top_k=10 experts=512 n=2560 k=640 b=iq4_nl x=f32 y=f32 rows=dst", t);
    }
    for (int t = 32; t <= 128; t *= 2) { /* 1, 2 and 4 */
        TRY(OPREG_OP_MOE_GLU,
            "tokens=%d top_k=8 experts=256 n=512 k=2048 b=q4_k x=f32 y=f32 glu=silu", t);
        TRY(OPREG_OP_MOE_DOWN,
            "tokens=%d top_k=8 experts=256 n=2048 k=512 b=q6_k x=f32 y=f32 rows=dst", t);
    }
    for (int t = 1; t <= 4; t *= 4) {
        TRY(OPREG_OP_MOE_FFN,
            "tokens=%d top_k=10 experts=512 hidden=2560 inter=640 b=iq4_nl down=iq4_nl x=f32 y=f32 "
            "glu=silu",
            t);
        TRY(OPREG_OP_MOE_FFN,
            "tokens=%d top_k=8 experts=256 hidden=2048 inter=512 b=q4_k down=q6_k x=f32 y=f32 "
            "glu=silu",
            t);
    }
    static const struct {
        int seqs, hq, hk, d, len;
        const char *q, *kv;
    } attention[] = {{1, 32, 8, 128, 32768, "bf16", "bf16"}, {8, 32, 8, 128, 32768, "bf16", "bf16"},
                     {1, 32, 8, 128, 4096, "bf16", "bf16"},  {8, 32, 8, 128, 4096, "bf16", "bf16"},
                     {32, 32, 8, 128, 4096, "bf16", "bf16"}, {1, 16, 4, 256, 4096, "f32", "bf16"},
                     {8, 16, 4, 256, 4096, "f32", "bf16"},   {8, 32, 8, 64, 4096, "f16", "f16"},
                     {8, 32, 8, 128, 4096, "bf16", "f8_e4m3"}};
    for (size_t i = 0; i < sizeof attention / sizeof attention[0]; i++) {
        int pages = attention[i].len / 16;
        int sets = (int)(600e6 / (4.0 * attention[i].seqs * attention[i].len * attention[i].hk *
                                  attention[i].d)) +
                   2;
        TRY(OPREG_OP_PAGED_ATTN_DECODE,
            "seqs=%d hq=%d hk=%d d=%d len=%d q=%s out=%s kv=%s block=16 blocks=%d table_stride=%d "
            "scale=0.088",
            attention[i].seqs, attention[i].hq, attention[i].hk, attention[i].d, attention[i].len,
            attention[i].q, attention[i].q, attention[i].kv, pages * attention[i].seqs * sets,
            pages);
    }
    return 0;
}
