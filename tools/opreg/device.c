/* SPDX-License-Identifier: MIT
 * device.c - devices, their memory and timed runs, through what every plugin offers. */
#include "device.h"

#include <string.h>

#include "output.h"

int device_open(opreg_registry *reg, const opreg_device *row, device *out) {
    memset(out, 0, sizeof *out);
    out->reg = reg;
    out->row = *row;
    device_name(row, out->name);
    if (opreg_device_io_get(reg, row, &out->io, &out->host) != OPREG_OK) {
        return 0;
    }
    return out->io->stream_create(out->host, &out->row, &out->stream) == OPREG_OK;
}

void device_close(device *d) {
    if (d->io) {
        d->io->stream_destroy(d->host, &d->row, d->stream);
        d->io = NULL;
    }
}

opreg_buf device_alloc(const device *d, uint64_t bytes) {
    opreg_buf buf = {NULL, bytes};
    if (d->io->alloc(d->host, &d->row, bytes ? bytes : 1, &buf.ptr) != OPREG_OK) {
        return (opreg_buf){NULL, 0};
    }
    return buf;
}

void device_free(const device *d, opreg_buf *buf) {
    if (buf->ptr) {
        d->io->free(d->host, &d->row, buf->ptr);
    }
    *buf = (opreg_buf){NULL, 0};
}

int device_upload(const device *d, opreg_buf to, const void *from, uint64_t bytes) {
    return d->io->to_device(d->host, &d->row, to.ptr, from, bytes, d->stream) == OPREG_OK;
}

int device_download(const device *d, void *to, opreg_buf from, uint64_t bytes) {
    return d->io->to_host(d->host, &d->row, to, from.ptr, bytes, d->stream) == OPREG_OK;
}

int device_fill(const device *d, opreg_buf buf, uint8_t byte) {
    return d->io->fill(d->host, &d->row, buf.ptr, byte, buf.bytes, d->stream) == OPREG_OK;
}

int device_sync(const device *d) {
    return d->io->stream_sync(d->host, &d->row, d->stream) == OPREG_OK;
}

static opreg_status run_with_events(const device *d, const opreg_plan *plan, const opreg_args *args,
                                    double *us) {
    void *from = NULL, *to = NULL;
    opreg_status status = d->io->event_create(d->host, &d->row, &from);
    if (status == OPREG_OK) {
        status = d->io->event_create(d->host, &d->row, &to);
    }
    if (status == OPREG_OK) {
        status = d->io->event_record(d->host, &d->row, from, d->stream);
    }
    if (status == OPREG_OK) {
        status = opreg_plan_run(plan, args);
    }
    if (status == OPREG_OK) {
        status = d->io->event_record(d->host, &d->row, to, d->stream);
    }
    if (status == OPREG_OK) {
        status = d->io->event_elapsed_us(d->host, &d->row, from, to, us);
    }
    if (from) {
        d->io->event_destroy(d->host, &d->row, from);
    }
    if (to) {
        d->io->event_destroy(d->host, &d->row, to);
    }
    return status;
}

opreg_status device_run(const device *d, const opreg_plan *plan, const opreg_args *args,
                        double *us) {
    double start;
    opreg_status status;
    if (d->io->event_create) {
        return run_with_events(d, plan, args, us);
    }
    start = seconds_now();
    status = opreg_plan_run(plan, args);
    if (status == OPREG_OK) {
        status = d->io->stream_sync(d->host, &d->row, d->stream);
    }
    *us = 1e6 * (seconds_now() - start);
    return status;
}

opreg_status arm_open(const device *d, opreg_op op, const void *problem, const char *kernel,
                      const opreg_weight *stored, arm *out) {
    opreg_status status;
    uint64_t bytes;
    memset(out, 0, sizeof *out);
    out->where = d;
    out->weights[0] = stored;
    status = opreg_plan_create_named(d->reg, &d->row, op, problem, kernel, &out->plan);
    if (status != OPREG_OK) {
        return status;
    }
    bytes = opreg_plan_workspace(out->plan);
    if (bytes > 0) {
        out->workspace = device_alloc(d, bytes);
        if (!out->workspace.ptr) {
            status = OPREG_E_NOMEM;
        }
    }
    if (status == OPREG_OK && stored && opreg_plan_layout(out->plan) != OPREG_LAYOUT_STORED) {
        out->layout = device_alloc(d, opreg_plan_layout_bytes(out->plan));
        status = out->layout.ptr ? opreg_weight_prepare(out->plan, stored, out->layout, d->stream,
                                                        &out->prepared)
                                 : OPREG_E_NOMEM;
        if (status == OPREG_OK) {
            out->weights[0] = out->prepared;
            status = d->io->stream_sync(d->host, &d->row, d->stream);
        }
    }
    if (status != OPREG_OK) {
        arm_close(out);
    }
    return status;
}

void arm_close(arm *a) {
    opreg_weight_destroy(a->prepared);
    opreg_plan_destroy(a->plan);
    device_free(a->where, &a->layout);
    device_free(a->where, &a->workspace);
    a->prepared = NULL;
    a->plan = NULL;
}
