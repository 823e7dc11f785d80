/* SPDX-License-Identifier: MIT
 * verify_place.c - puts a tensor on a device and runs variants on it. */
#include "verify_place.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TIMED 7       /* runs behind a time                                                  */
#define TIMED_US  50000.0 /* no further run once this much is spent                              */

int64_t verify_y_rows(const job *j, int64_t m) {
    return m * (j->top_k ? j->top_k : 1);
}

void verify_close(place *p) {
    opreg_weight_destroy(p->weight);
    p->weight = NULL;
    if (p->where->row.kind != OPREG_CPU) {
        device_free(p->where, &p->data);
    }
    device_free(p->where, &p->x);
    device_free(p->where, &p->y);
    device_free(p->where, &p->ids);
    device_free(p->where, &p->route_weights);
    device_free(p->where, &p->route);
}

int verify_open(const job *j, const device *d, place *p) {
    const model_weight *w = j->weight;
    const uint8_t *from = w->data + (uint64_t)j->first_row * w->row_bytes;
    uint64_t experts = w->experts ? (uint64_t)w->experts : 1;
    uint64_t span = (experts - 1) * w->expert_bytes + (uint64_t)j->n * w->row_bytes;
    uint64_t x_bytes = (uint64_t)VERIFY_MAX_M * (uint64_t)w->k * sizeof(float);
    uint64_t pairs = (uint64_t)verify_y_rows(j, VERIFY_MAX_M);
    opreg_weight_desc desc = {.struct_size = sizeof desc};
    memset(p, 0, sizeof *p);
    p->where = d;
    if (d->row.kind == OPREG_CPU) {
        p->data = (opreg_buf){(void *)(uintptr_t)from, span}; /* mapped: nothing is copied */
    } else {
        p->data = device_alloc(d, span);
        if (!p->data.ptr || !device_upload(d, p->data, from, span)) {
            return 0;
        }
    }
    p->x = device_alloc(d, x_bytes);
    p->y = device_alloc(d, pairs * (uint64_t)j->n * sizeof(float));
    if (!p->x.ptr || !p->y.ptr || !device_upload(d, p->x, j->x, x_bytes)) {
        return 0;
    }
    if (j->top_k) {
        p->ids = device_alloc(d, pairs * sizeof(int32_t));
        p->route_weights = device_alloc(d, pairs * sizeof(float));
        p->route = device_alloc(d, j->route_bytes);
        if (!p->ids.ptr || !p->route_weights.ptr || !p->route.ptr ||
            !device_upload(d, p->ids, j->ids, p->ids.bytes) ||
            !device_upload(d, p->route_weights, j->route_weights, p->route_weights.bytes)) {
            return 0;
        }
    }
    desc.format = w->format.format;
    desc.dialect = w->dialect;
    desc.experts = (int64_t)experts;
    desc.n = j->n;
    desc.k = w->k;
    desc.expert_stride = w->experts ? (int64_t)w->expert_bytes : 0;
    desc.data = p->data;
    desc.side = w->side;
    desc.side_bytes = w->side_bytes;
    desc.tensor_scale = w->tensor_scale;
    return opreg_weight_create(d->reg, &d->row, &desc, &p->weight) == OPREG_OK;
}

opreg_status verify_route(const job *j, place *p, int64_t m) {
    opreg_moe_route r = {.struct_size = sizeof r};
    opreg_buf bufs[OPREG_ROUTE_BUFS] = {{NULL, 0}};
    opreg_args args = {.struct_size = sizeof args};
    opreg_plan *plan = NULL;
    opreg_buf workspace = {NULL, 0};
    opreg_status status;
    double us;
    r.form = OPREG_ROUTE_TOPK;
    r.tokens = m;
    r.top_k = (int32_t)j->top_k;
    r.experts = (int32_t)j->weight->experts;
    r.ids_stride = r.weights_stride = j->top_k;
    status = opreg_plan_create(p->where->reg, &p->where->row, OPREG_OP_MOE_ROUTE, &r, &plan);
    if (status != OPREG_OK) {
        return status;
    }
    if (opreg_plan_workspace(plan) > 0) {
        workspace = device_alloc(p->where, opreg_plan_workspace(plan));
    }
    bufs[OPREG_ROUTE_ROUTE] = p->route;
    bufs[OPREG_ROUTE_IDS] = p->ids;
    bufs[OPREG_ROUTE_WEIGHTS] = p->route_weights;
    args.bufs = bufs;
    args.num_bufs = OPREG_ROUTE_BUFS;
    args.workspace = workspace;
    args.stream = p->where->stream;
    status = device_fill(p->where, p->route, 0) ? device_run(p->where, plan, &args, &us)
                                                : OPREG_E_DEVICE;
    opreg_plan_destroy(plan);
    device_free(p->where, &workspace);
    return status;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

opreg_status verify_run(const job *j, place *p, const arm *a, int64_t m, int timed,
                        double *median_us) {
    uint64_t bytes = (uint64_t)verify_y_rows(j, m) * (uint64_t)j->n * sizeof(float);
    opreg_buf dense[OPREG_MATMUL_BUFS] = {{NULL, 0}}, grouped[OPREG_MOE_BUFS] = {{NULL, 0}};
    opreg_args args = {.struct_size = sizeof args};
    double us[MAX_TIMED], spent = 0;
    int runs = 0;
    opreg_status status;
    dense[OPREG_MATMUL_Y] = grouped[OPREG_MOE_Y] = (opreg_buf){p->y.ptr, bytes};
    dense[OPREG_MATMUL_X] = grouped[OPREG_MOE_X] = p->x;
    grouped[OPREG_MOE_ROUTE_BUF] = p->route;
    args.bufs = j->top_k ? grouped : dense;
    args.num_bufs = j->top_k ? OPREG_MOE_BUFS : OPREG_MATMUL_BUFS;
    args.weights = a->weights;
    args.num_weights = 1;
    args.workspace = a->workspace;
    args.stream = p->where->stream;
    if (!device_fill(p->where, p->y, 0xff)) {
        return OPREG_E_DEVICE;
    }
    status = device_run(p->where, a->plan, &args, &us[0]);
    if (status != OPREG_OK) {
        return status;
    }
    if (!device_download(p->where, j->y, p->y, bytes)) {
        return OPREG_E_DEVICE;
    }
    for (spent = us[0], runs = spent > TIMED_US; timed && runs < MAX_TIMED && spent < TIMED_US;) {
        status = device_run(p->where, a->plan, &args, &us[runs]);
        if (status != OPREG_OK) {
            return status;
        }
        spent += us[runs++];
    }
    runs = runs ? runs : 1;
    qsort(us, (size_t)runs, sizeof *us, compare_doubles);
    *median_us = us[runs / 2];
    return OPREG_OK;
}
