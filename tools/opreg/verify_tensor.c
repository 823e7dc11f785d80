/* SPDX-License-Identifier: MIT
 * verify_tensor.c - one tensor through every variant that is on, held to the CPU reference's bits
 * and to float64. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "registry.h"
#include "verify_place.h"

#define BAND_OUTPUTS 256 /* fewer do not make an NMSE that a band can be asked of               */

typedef union any_problem {
    opreg_matmul_bt_quant dense;
    opreg_moe_matmul grouped;
} any_problem;

static void make_problem(const job *j, int64_t m, any_problem *p) {
    memset(p, 0, sizeof *p);
    if (j->top_k) {
        opreg_moe_matmul *g = &p->grouped;
        g->struct_size = sizeof *g;
        g->x_dtype = g->y_dtype = OPREG_F32;
        g->b_dtype = j->weight->format.format;
        g->b_dialect = j->weight->dialect;
        g->tokens = m;
        g->n = g->y_stride = j->n;
        g->k = g->x_stride = j->weight->k;
        g->experts = (int32_t)j->weight->experts;
        g->top_k = (int32_t)j->top_k;
        g->x_rows = OPREG_X_BY_TOKEN;
        g->layout = OPREG_LAYOUT_ANY;
    } else {
        opreg_matmul_bt_quant *d = &p->dense;
        d->struct_size = sizeof *d;
        d->x_dtype = d->y_dtype = OPREG_F32;
        d->b_dtype = j->weight->format.format;
        d->b_dialect = j->weight->dialect;
        d->m = m;
        d->n = d->y_stride = j->n;
        d->k = d->x_stride = j->weight->k;
        d->layout = OPREG_LAYOUT_ANY;
    }
}

static uint64_t hash_name(const char *name, uint64_t seed) { /* FNV-1a */
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ seed;
    for (; *name; name++) {
        h = (h ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
    }
    return h;
}

static int by_expert(const void *a, const void *b) {
    const truth_entry *x = a, *y = b;
    return x->expert != y->expert ? (x->expert < y->expert ? -1 : 1)
                                  : (x->y_row > y->y_row) - (x->y_row < y->y_row);
}

/* Router ids: top_k different experts a token, from a seeded place that moves with the token. */
static void make_ids(job *j, uint64_t seed) {
    uint64_t experts = (uint64_t)j->weight->experts, top_k = (uint64_t)j->top_k;
    for (uint64_t t = 0; t < VERIFY_MAX_M; t++) {
        for (uint64_t s = 0; s < top_k; s++) {
            uint64_t at = seed % experts + t * (top_k / 2 + 1) + s;
            j->ids[t * top_k + s] = (int32_t)(at % experts);
            j->route_weights[t * top_k + s] = 1.0f / (float)top_k;
        }
    }
}

/* A wrong value of the file is said once, not for each of its layers. */
static int64_t experts_used(verify_session *v, int64_t experts) {
    char wrong[256];
    int64_t used = model_experts_used(v->file, experts, wrong);
    if (wrong[0] != '\0' && !v->warned) {
        progress_clear(&v->progress);
        complain(v->self, "warning: %s", wrong);
        v->warned = 1;
    }
    return used;
}

static void job_free(job *j) {
    truth_free(&j->truth);
    free(j->x);
    free(j->ids);
    free(j->route_weights);
    free(j->entries);
    free(j->reference[0]);
    free(j->reference[1]);
    free(j->y);
    free(j->route[0]);
    free(j->route[1]);
    free(j->route_seen);
}

static int job_make(verify_session *v, const model_weight *w, job *j) {
    uint64_t seed = hash_name(w->tensor->name, v->seed);
    size_t outputs, entries;
    memset(j, 0, sizeof *j);
    j->v = v;
    j->weight = w;
    j->n = w->n;
    if (v->rows > 0 && v->rows < w->n) {
        /* a run of rows from a seeded place; whole 16s keep its address as aligned as the tensor's
         */
        j->n = v->rows;
        j->first_row = (int64_t)(seed % (uint64_t)(w->n - v->rows + 1)) & ~INT64_C(15);
    }
    j->top_k = w->experts ? experts_used(v, w->experts) : 0;
    j->op = j->top_k ? OPREG_OP_MOE_MATMUL : OPREG_OP_MATMUL_BT_QUANT;
    j->op_name = opreg_op_name(j->op);
    entries = (size_t)verify_y_rows(j, VERIFY_MAX_M);
    outputs = entries * (size_t)j->n;
    j->x = malloc((size_t)VERIFY_MAX_M * (size_t)w->k * sizeof *j->x);
    j->ids = calloc(entries, sizeof *j->ids);
    j->route_weights = calloc(entries, sizeof *j->route_weights);
    j->entries = calloc(entries, sizeof *j->entries);
    j->reference[0] = malloc(outputs * sizeof(float));
    j->reference[1] = malloc(outputs * sizeof(float));
    j->y = malloc(outputs * sizeof(float));
    if (!j->x || !j->ids || !j->route_weights || !j->entries || !j->reference[0] ||
        !j->reference[1] || !j->y) {
        return 0;
    }
    truth_gaussian(seed, j->x, VERIFY_MAX_M * w->k);
    if (j->top_k) {
        opreg_route_layout layout = {.struct_size = sizeof layout};
        make_ids(j, seed);
        if (opreg_route_layout_get(VERIFY_MAX_M, (int32_t)j->top_k, (int32_t)w->experts, &layout) !=
            OPREG_OK) {
            return 0;
        }
        j->route_bytes = layout.bytes;
        j->route[0] = calloc(1, (size_t)layout.bytes);
        j->route[1] = calloc(1, (size_t)layout.bytes);
        j->route_seen = calloc(1, (size_t)layout.bytes);
        if (!j->route[0] || !j->route[1] || !j->route_seen) {
            return 0;
        }
    }
    for (size_t i = 0; i < entries; i++) {
        int64_t row = (int64_t)i;
        j->entries[i] =
            (truth_entry){j->top_k ? j->ids[i] : 0, j->top_k ? row / j->top_k : row, row};
    }
    qsort(j->entries, entries, sizeof *j->entries, by_expert);
    return 1;
}

/* ---- one variant ---- */

/* NaNs count as one value, as everywhere in the contract. */
static int64_t first_difference(const float *a, const float *b, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i]))) {
            return i;
        }
    }
    return -1;
}

static void fail_row(verify_row *row, const char *check, const char *format, const char *text) {
    if (!row->failed) {
        row->failed = check;
        snprintf(row->detail, sizeof row->detail, format, text);
    }
}

static void judge(const job *j, int64_t m, verify_row *row) {
    int64_t outputs = verify_y_rows(j, m) * j->n;
    int64_t differs = first_difference(j->y, j->reference[m != 1], outputs);
    truth_result r = truth_compare(&j->truth, j->y, verify_y_rows(j, m), row->level);
    verify_totals *t = &j->v->totals;
    char text[160];
    row->bits_equal = differs < 0;
    row->nmse = r.nmse;
    row->oracle = row->level == OPREG_LEVEL_BAND ? -1.0 : r.worst;
    if (differs >= 0 && row->level == OPREG_LEVEL_CANONICAL) {
        snprintf(text, sizeof text,
                 "output row %" PRId64 " column %" PRId64 " is %a, the "
                 "reference has %a",
                 differs / j->n, differs % j->n, (double)j->y[differs],
                 (double)j->reference[m != 1][differs]);
        fail_row(row, "bits", "%s", text);
    }
    if (row->oracle > 1.0) {
        snprintf(text, sizeof text,
                 "output row %" PRId64 " column %" PRId64 " is %g times its "
                 "bound away from the exact dot",
                 r.worst_row, r.worst_column, r.worst);
        fail_row(row, "oracle", "%s", text);
    }
    if (r.outputs >= BAND_OUTPUTS) {
        t->bands++;
        if (!(r.nmse <= j->truth.band)) {
            snprintf(text, sizeof text, "NMSE %.2e is over %.0e", r.nmse, j->truth.band);
            fail_row(row, "band", "%s", text);
        }
        if (!(r.nmse / j->truth.band <= t->worst_nmse / t->worst_band)) {
            t->worst_nmse = r.nmse;
            t->worst_band = j->truth.band;
        }
    }
    t->worst_oracle = row->oracle > t->worst_oracle ? row->oracle : t->worst_oracle;
    t->unequal += differs >= 0 && row->level != OPREG_LEVEL_CANONICAL;
}

/* Bytes that a run must move: the weights of the experts that are used, x and y. */
static double bytes_moved(const job *j, int64_t m) {
    int64_t rows = verify_y_rows(j, m), distinct = 0;
    for (int64_t i = 0; j->top_k && i < rows; i++) {
        int seen = 0;
        for (int64_t other = 0; other < i; other++) {
            seen |= j->ids[other] == j->ids[i];
        }
        distinct += !seen;
    }
    return (double)(distinct ? distinct : 1) * (double)j->n * (double)j->weight->row_bytes +
           4.0 * ((double)m * (double)j->weight->k + (double)rows * (double)j->n);
}

static void one_variant(job *j, place *p, const any_problem *problem, int64_t m,
                        const opreg_candidate *c, int is_reference, verify_row *row) {
    char kernel[100];
    opreg_status status;
    arm a;
    snprintf(kernel, sizeof kernel, "%s/%s", c->plugin, c->kernel);
    row->kernel = kernel;
    row->level = c->level;
    row->chosen = c->rank == 0;
    row->reference = is_reference;
    status = arm_open(p->where, j->op, problem, kernel, p->weight, &a);
    if (status == OPREG_OK) {
        status = verify_run(j, p, &a, m, 1, &row->us);
        arm_close(&a);
    }
    if (status != OPREG_OK) {
        fail_row(row, "run", "%s", opreg_last_error());
    } else {
        row->gbps = 1e-3 * bytes_moved(j, m) / row->us;
        judge(j, m, row);
    }
    j->v->totals.runs++;
    j->v->totals.failed += row->failed != NULL;
    verify_print_row(j->v, row);
}

static void on_device(job *j, place *p, int64_t m) {
    verify_row start = {.weight = j->weight,
                        .device = p->where->name,
                        .op = j->op_name,
                        .kernel = "-",
                        .m = m,
                        .rows = j->n,
                        .top_k = j->top_k,
                        .nmse = (double)NAN,
                        .oracle = -1.0,
                        .us = (double)NAN,
                        .gbps = (double)NAN};
    any_problem problem;
    size_t count = 0, ran = 0;
    opreg_candidate *rows;
    make_problem(j, m, &problem);
    if (j->top_k) {
        opreg_status status = verify_route(j, p, m);
        if (status == OPREG_E_UNSUPPORTED || status == OPREG_E_DISABLED) {
            j->v->totals.refused++;
            verify_print_refused(j->v, j->weight, j->op_name, p->where->name, m,
                                 opreg_last_error());
            return;
        }
        if (status != OPREG_OK ||
            !device_download(p->where, j->route_seen, p->route, j->route_bytes)) {
            fail_row(&start, "route", "%s", opreg_last_error());
        } else if (memcmp(j->route_seen, j->route[m != 1], (size_t)j->route_bytes) != 0) {
            fail_row(&start, "route", "%s", "the route differs from the CPU's");
        }
    }
    rows = start.failed
               ? NULL
               : registry_explain(j->v->self, j->v->reg, &p->where->row, j->op, &problem, &count);
    for (size_t i = 0; rows && i < count; i++) {
        if (rows[i].verdict == OPREG_OK) {
            verify_row row = start;
            int reference =
                p->where == &j->v->devices[0] && (rows[i].kernel_flags & OPREG_KF_BASELINE) != 0;
            one_variant(j, p, &problem, m, &rows[i], reference, &row);
            ran++;
        }
    }
    if (start.failed) {
        j->v->totals.failed++;
        verify_print_row(j->v, &start);
    } else if (ran == 0) {
        j->v->totals.refused++;
        verify_print_refused(j->v, j->weight, j->op_name, p->where->name, m,
                             count ? rows[0].reason : "the plugin has no variant of the operator");
    }
    free(rows);
}

/* Bits of the CPU reference for both M, and of its routes.  0 after a line on stderr. */
static int make_references(job *j, place *p) {
    for (int which = 0; which < 2; which++) {
        int64_t m = which ? VERIFY_MAX_M : 1;
        any_problem problem;
        size_t count = 0, at = 0;
        char kernel[100] = "";
        opreg_candidate *rows;
        opreg_status status = OPREG_E_UNSUPPORTED;
        double us;
        arm a;
        make_problem(j, m, &problem);
        if (j->top_k) {
            if (verify_route(j, p, m) != OPREG_OK ||
                !device_download(p->where, j->route[which], p->route, j->route_bytes)) {
                return 0;
            }
        }
        rows = registry_explain(j->v->self, j->v->reg, &p->where->row, j->op, &problem, &count);
        for (; rows && at < count; at++) {
            if ((rows[at].kernel_flags & OPREG_KF_BASELINE) != 0) {
                snprintf(kernel, sizeof kernel, "%s/%s", rows[at].plugin, rows[at].kernel);
                break;
            }
        }
        free(rows);
        if (kernel[0] != '\0') {
            status = arm_open(p->where, j->op, &problem, kernel, p->weight, &a);
        }
        if (status == OPREG_OK) {
            status = verify_run(j, p, &a, m, 0, &us);
            arm_close(&a);
        }
        if (status != OPREG_OK) {
            return 0;
        }
        memcpy(j->reference[which], j->y,
               (size_t)verify_y_rows(j, m) * (size_t)j->n * sizeof(float));
    }
    return 1;
}

static void cannot(job *j, const char *what) {
    verify_row row = {.weight = j->weight,
                      .device = "",
                      .op = j->op_name,
                      .kernel = "-",
                      .rows = j->n,
                      .nmse = (double)NAN,
                      .us = (double)NAN,
                      .gbps = (double)NAN,
                      .oracle = -1.0};
    fail_row(&row, "reference", "%s", what);
    j->v->totals.failed++;
    verify_print_row(j->v, &row);
}

void verify_tensor(verify_session *v, const model_weight *weight) {
    job j;
    place cpu = {.where = &v->devices[0]};
    truth_input input = {0};
    if (!job_make(v, weight, &j)) {
        cannot(&j, "no memory");
        goto out;
    }
    if (!verify_open(&j, &v->devices[0], &cpu) || !make_references(&j, &cpu)) {
        cannot(&j, opreg_last_error());
        goto out;
    }
    input.format = weight->format.format;
    input.data = weight->data + (uint64_t)j.first_row * weight->row_bytes;
    input.row_bytes = weight->row_bytes;
    input.expert_stride = weight->expert_bytes;
    input.sides = opreg_weight_view_get(cpu.weight)->side;
    input.n = j.n;
    input.k = weight->k;
    input.x = j.x;
    input.x_rows = VERIFY_MAX_M;
    input.y_rows = input.num_entries = verify_y_rows(&j, VERIFY_MAX_M);
    input.entries = j.entries;
    input.threads = v->threads;
    if (!truth_make(&input, &j.truth)) {
        cannot(&j, "no memory for the float64 check");
        goto out;
    }
    for (size_t d = 0; d < v->num_devices; d++) {
        place there = {.where = &v->devices[d]};
        place *p = d == 0 ? &cpu : &there;
        if (d > 0 && !verify_open(&j, &v->devices[d], &there)) {
            cannot(&j, opreg_last_error());
        } else {
            on_device(&j, p, 1);
            on_device(&j, p, VERIFY_MAX_M);
        }
        if (d > 0) {
            verify_close(&there);
        }
    }
out:
    verify_close(&cpu);
    job_free(&j);
    v->totals.tensors++;
}
