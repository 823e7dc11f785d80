/* SPDX-License-Identifier: MIT
 * session.c - one job placed on one device. */
#include "session.h"

#include <fenv.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void finding_set(finding *f, const char *check, const char *format, ...) {
    va_list list;
    if (f->check != NULL) {
        return;
    }
    f->check = check;
    va_start(list, format);
    vsnprintf(f->detail, sizeof f->detail, format, list);
    va_end(list);
}

static int status_ok(opreg_status status, const char *what, finding *f) {
    if (status != OPREG_OK) {
        finding_set(f, "status", "%s: %s: %s", what, opreg_status_name(status),
                    opreg_last_error());
    }
    return status == OPREG_OK;
}

static int open_buffer(session *s, uint32_t i, finding *f) {
    const job_buffer *b = &s->of->bufs[i];
    uint8_t *copy = NULL;
    opreg_status status;
    if (b->role == JOB_INPUT) {
        copy = malloc(b->bytes > 0 ? b->bytes : 1);
        if (copy == NULL) {
            return status_ok(OPREG_E_NOMEM, "kit memory", f);
        }
        memcpy(copy, b->data, b->bytes);
        loose_fill(b->dtype, copy, b->loose, b->bytes, s->around.loose);
    }
    status = region_open(s->where, copy, b->bytes, b->align,
                         b->align < 16 ? s->around.shift * b->align : 0, 0, 0, s->around.at_end,
                         b->role == JOB_OUTPUT ? s->around.outputs : s->around.guards, &s->bufs[i]);
    free(copy);
    return status_ok(status, "device memory", f);
}

static int lay_out(session *s, uint32_t i, const job_weight *w, finding *f) {
    uint64_t bytes = opreg_plan_layout_bytes(s->plan);
    uint64_t packed = (uint64_t)(w->experts * w->n * w->row_bytes);
    region back;
    uint8_t *bytes_back;
    const char *fault;
    int64_t at;
    int ok;
    if (!status_ok(region_open(s->where, NULL, bytes, 256, 0, 0, 0, 0, s->around.guards,
                               &s->prepared[i]),
                   "device memory", f)) {
        return 0;
    }
    opreg_buf dst = {s->prepared[i].ptr, bytes};
    if (!status_ok(opreg_weight_prepare(s->plan, s->weights[i], dst, s->where->stream,
                                        &s->laid_out[i]),
                   "opreg_weight_prepare", f) ||
        !status_ok(region_open(s->where, NULL, packed, 1, 0, 0, 0, 1, 0, &back), "device memory",
                   f)) {
        return 0;
    }
    dst.ptr = back.ptr;
    dst.bytes = packed;
    bytes_back = malloc(packed > 0 ? packed : 1);
    ok = bytes_back != NULL &&
         status_ok(opreg_weight_restore(s->laid_out[i], dst, s->where->stream),
                   "opreg_weight_restore", f) &&
         status_ok(region_read(s->where, &back, bytes_back, &fault, &at), "device read", f);
    if (ok && fault != NULL) {
        finding_set(f, "guard", "opreg_weight_restore %s its destination at byte %lld", fault,
                    (long long)at);
    }
    for (int64_t e = 0; ok && e < w->experts; e++) {
        uint64_t expert_bytes = (uint64_t)(w->n * w->row_bytes);
        if (memcmp(bytes_back + (uint64_t)e * expert_bytes, s->stored[i].image + s->stored[i].front +
                       (uint64_t)(e * w->expert_stride),
                   expert_bytes) != 0) {
            finding_set(f, "restore", "expert %lld of weight %u is not the stored bytes after "
                                      "prepare and restore",
                        (long long)e, i);
        }
    }
    free(bytes_back);
    region_close(s->where, &back);
    return ok && f->check == NULL &&
           status_ok(region_freeze(s->where, &s->prepared[i]), "device read", f);
}

/* The bytes of a weight as a run finds them; null when out of memory. */
static uint8_t *weight_bytes(const session *s, const job_weight *w) {
    uint8_t *copy = malloc(w->bytes > 0 ? w->bytes : 1);
    if (copy != NULL) {
        memcpy(copy, w->data, w->bytes);
        if (!s->around.keep_weights) {
            loose_fill(JOB_I8, copy, w->loose, w->bytes, s->around.loose);
        }
    }
    return copy;
}

/* The handles of weight `w`, whose bytes lie in the place of weight i. */
static int open_handles(opreg_registry *reg, session *s, uint32_t i, const job_weight *w,
                        finding *f) {
    opreg_weight_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.struct_size = sizeof desc;
    desc.format = w->format;
    desc.dialect = w->dialect;
    desc.experts = w->experts;
    desc.n = w->n;
    desc.k = w->k;
    desc.expert_stride = w->expert_stride;
    desc.data.ptr = s->stored[i].ptr;
    desc.data.bytes = w->bytes;
    desc.slack_before = s->stored[i].before;
    desc.slack_after = s->stored[i].after;
    desc.side = w->side;
    desc.side_bytes = w->side_bytes;
    desc.tensor_scale = w->tensor_scale;
    if (!status_ok(opreg_weight_create(reg, &s->where->device, &desc, &s->weights[i]),
                   "opreg_weight_create", f)) {
        return 0;
    }
    /* of several weights, the first may be wanted as stored and another not */
    return !s->of->prepare ||
           (s->of->num_weights < 3 && opreg_plan_layout(s->plan) == OPREG_LAYOUT_STORED) ||
           lay_out(s, i, w, f);
}

static int open_weight(opreg_registry *reg, session *s, uint32_t i, finding *f) {
    const job_weight *w = &s->of->weights[i];
    uint8_t *copy = weight_bytes(s, w);
    opreg_status status = OPREG_E_NOMEM;
    if (copy != NULL) {
        status = region_open(s->where, copy, w->bytes, 1, w->shift, w->slack_before, w->slack_after,
                             s->around.at_end, s->around.guards, &s->stored[i]);
    }
    free(copy);
    return status_ok(status, "memory", f) && open_handles(reg, s, i, w, f);
}

int session_reweigh(opreg_registry *reg, session *s, const job *other, finding *f) {
    /* a weight must outlive the runs that read it */
    int ok = s->where->is_cpu ||
             status_ok(s->where->io->stream_sync(s->where->host, &s->where->device, s->where->stream),
                       "stream_sync", f);
    for (uint32_t i = 0; ok && i < other->num_weights; i++) {
        uint8_t *copy = weight_bytes(s, &other->weights[i]);
        opreg_weight_destroy(s->laid_out[i]);
        opreg_weight_destroy(s->weights[i]);
        s->laid_out[i] = s->weights[i] = NULL;
        region_close(s->where, &s->prepared[i]);
        ok = status_ok(copy == NULL ? OPREG_E_NOMEM : region_write(s->where, &s->stored[i], copy),
                       "memory", f) &&
             open_handles(reg, s, i, &other->weights[i], f);
        free(copy);
    }
    return ok;
}

int session_open(opreg_registry *reg, place *where, const opreg_plan *plan, const job *of,
                 surroundings around, session *out, finding *f) {
    int ok = 1;
    memset(out, 0, sizeof *out);
    out->where = where;
    out->plan = plan;
    out->of = of;
    out->around = around;
    where->arena_used = 0;
    for (uint32_t i = 0; ok && i < of->num_bufs; i++) {
        ok = of->bufs[i].role == JOB_ABSENT || open_buffer(out, i, f);
    }
    for (uint32_t i = 0; ok && i < of->num_weights; i++) {
        ok = open_weight(reg, out, i, f);
    }
    ok = ok && status_ok(region_open(where, NULL, opreg_plan_workspace(plan), 256, 0, 0, 0,
                                     around.at_end, around.scratch, &out->scratch),
                         "device memory", f);
    if (!ok) {
        session_close(out);
    }
    return ok;
}

/* Subnormals count and results round to nearest: on this thread. */
static int has_float_mode(void) {
    volatile float tiny = 0x1p-149f, one = 1.0f, half_ulp = 0x1p-24f, more = 0x1.8p-24f;
    return tiny * one != 0.0f && one + half_ulp == 1.0f && one + more > 1.0f &&
           -one - half_ulp == -1.0f;
}

static void lock_inputs(session *s, void (*change)(const place *, region *)) {
    for (uint32_t i = 0; i < JOB_BUFS; i++) {
        change(s->where, &s->bufs[i]);
    }
    for (uint32_t i = 0; i < JOB_WEIGHTS; i++) {
        change(s->where, &s->stored[i]);
        change(s->where, &s->prepared[i]);
    }
}

/* One run with everything that it may only read locked, its allocations counted and the thread's float
 * mode kept. */
static opreg_status run_watched(session *s, const opreg_args *args) {
    uint64_t before = s->where->counts ? opreg_kit_allocations() : 0;
    fenv_t mode;
    opreg_status status;
    if (!s->where->is_cpu) {
        return opreg_plan_run(s->plan, args);
    }
    (void)fegetenv(&mode);
    lock_inputs(s, region_lock);
    status = opreg_plan_run(s->plan, args);
    lock_inputs(s, region_unlock);
    if (!has_float_mode()) {
        s->mode_changed = 1;
        (void)fesetenv(&mode);
    }
    if (s->where->counts) {
        s->allocations += opreg_kit_allocations() - before;
    }
    return status;
}

opreg_status session_run(session *s) {
    opreg_buf bufs[JOB_BUFS];
    const opreg_weight *weights[JOB_WEIGHTS];
    opreg_args args;
    memset(&args, 0, sizeof args);
    memset(bufs, 0, sizeof bufs);
    for (uint32_t i = 0; i < s->of->num_bufs; i++) {
        if (s->of->bufs[i].role != JOB_ABSENT && s->of->bufs[i].bytes > 0) {
            bufs[i].ptr = s->bufs[i].ptr;
            bufs[i].bytes = s->bufs[i].bytes;
        }
    }
    for (uint32_t i = 0; i < s->of->num_weights; i++) {
        weights[i] = s->laid_out[i] != NULL ? s->laid_out[i] : s->weights[i];
    }
    args.struct_size = sizeof args;
    args.num_bufs = s->of->num_bufs;
    args.bufs = bufs;
    args.num_weights = s->of->num_weights;
    args.weights = weights;
    if (opreg_plan_workspace(s->plan) > 0) {
        args.workspace.ptr = s->scratch.ptr;
        args.workspace.bytes = s->scratch.bytes;
    }
    args.stream = s->where->stream;
    return run_watched(s, &args);
}

static void note_fault(finding *f, const char *what, uint32_t index, uint64_t bytes,
                       const char *fault, int64_t at) {
    if (fault != NULL && strcmp(fault, "changed") == 0) {
        finding_set(f, "inputs", "%s %u of %llu bytes was written by the run: byte %lld", what, index,
                    (unsigned long long)bytes, (long long)at);
    } else if (fault != NULL) {
        finding_set(f, "guard", "%s %s %u of %llu bytes: byte %lld", fault, what, index,
                    (unsigned long long)bytes, (long long)at);
    }
}

static void check_unowned(const session *s, uint32_t i, const uint8_t *now, finding *f) {
    const job_buffer *b = &s->of->bufs[i];
    for (uint64_t at = 0; b->owned != NULL && at < b->bytes; at++) {
        if (!b->owned[at] && now[at] != region_pattern(s->around.outputs, at)) {
            finding_set(f, "outside", "output %u: byte %llu, outside its rows, was written", i,
                        (unsigned long long)at);
            return;
        }
    }
}

int session_read(session *s, uint8_t *const outputs[JOB_BUFS], finding *f) {
    const char *fault;
    int64_t at;
    if (s->mode_changed) {
        finding_set(f, "float-mode", "the run leaves the caller's thread with another rounding mode, or "
                                     "with subnormals flushed");
    }
    if (!s->where->is_cpu &&
        !status_ok(s->where->io->stream_sync(s->where->host, &s->where->device, s->where->stream),
                   "stream_sync", f)) {
        return 0;
    }
    for (uint32_t i = 0; i < s->of->num_bufs; i++) {
        const job_buffer *b = &s->of->bufs[i];
        uint8_t *now;
        if (b->role == JOB_ABSENT) {
            continue;
        }
        now = malloc(b->bytes > 0 ? b->bytes : 1);
        if (now == NULL ||
            !status_ok(region_read(s->where, &s->bufs[i], now, &fault, &at), "device read", f)) {
            free(now);
            return 0;
        }
        note_fault(f, b->role == JOB_OUTPUT ? "output" : "input", i, b->bytes, fault, at);
        if (b->role == JOB_OUTPUT) {
            check_unowned(s, i, now, f);
            if (outputs != NULL && b->bytes > 0) {
                memcpy(outputs[i], now, b->bytes);
            }
        }
        free(now);
    }
    for (uint32_t i = 0; i < s->of->num_weights; i++) {
        if (!status_ok(region_read(s->where, &s->stored[i], NULL, &fault, &at), "device read", f)) {
            return 0;
        }
        note_fault(f, "weight", i, s->stored[i].bytes, fault, at);
        if (s->prepared[i].slab != NULL &&
            status_ok(region_read(s->where, &s->prepared[i], NULL, &fault, &at), "device read", f)) {
            note_fault(f, "prepared weight", i, s->prepared[i].bytes, fault, at);
        }
    }
    if (!status_ok(region_read(s->where, &s->scratch, NULL, &fault, &at), "device read", f)) {
        return 0;
    }
    note_fault(f, "workspace", 0, s->scratch.bytes, fault, at);
    return f->check == NULL;
}

int session_rewrite(session *s, const job *other, finding *f) {
    int ok = 1;
    for (uint32_t i = 0; ok && i < other->num_bufs; i++) {
        const job_buffer *b = &other->bufs[i];
        uint8_t *copy;
        if (b->role == JOB_ABSENT) {
            continue;
        }
        copy = malloc(b->bytes > 0 ? b->bytes : 1);
        if (copy == NULL) {
            return status_ok(OPREG_E_NOMEM, "kit memory", f);
        }
        if (b->role == JOB_INPUT) {
            memcpy(copy, b->data, b->bytes);
            loose_fill(b->dtype, copy, b->loose, b->bytes, s->around.loose);
        } else {
            for (uint64_t at = 0; at < b->bytes; at++) {
                copy[at] = region_pattern(s->around.outputs, at);
            }
        }
        ok = status_ok(region_write(s->where, &s->bufs[i], copy), "device memory", f);
        free(copy);
    }
    s->of = other;
    return ok;
}

void session_close(session *s) {
    for (uint32_t i = 0; i < JOB_WEIGHTS; i++) {
        opreg_weight_destroy(s->laid_out[i]);
        opreg_weight_destroy(s->weights[i]);
        region_close(s->where, &s->prepared[i]);
        region_close(s->where, &s->stored[i]);
    }
    for (uint32_t i = 0; i < JOB_BUFS; i++) {
        region_close(s->where, &s->bufs[i]);
    }
    region_close(s->where, &s->scratch);
    memset(s, 0, sizeof *s);
}

int outputs_alloc(const job *of, uint8_t *outputs[JOB_BUFS]) {
    memset(outputs, 0, JOB_BUFS * sizeof *outputs);
    for (uint32_t i = 0; i < of->num_bufs; i++) {
        if (of->bufs[i].role == JOB_OUTPUT) {
            outputs[i] = calloc(of->bufs[i].bytes > 0 ? of->bufs[i].bytes : 1, 1);
            if (outputs[i] == NULL) {
                outputs_free(outputs);
                return 0;
            }
        }
    }
    return 1;
}

void outputs_free(uint8_t *outputs[JOB_BUFS]) {
    for (uint32_t i = 0; i < JOB_BUFS; i++) {
        free(outputs[i]);
        outputs[i] = NULL;
    }
}
