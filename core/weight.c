/* SPDX-License-Identifier: MIT
 * weight.c - encoded weights with their side data on a device, and their prepared layouts. */
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "formats/formats.h"
#include "formats/side.h"
#include "plan.h"

#define PREPARED_ALIGN 256u
/* Each expert costs a side record, also where no bytes say how many experts there can be. */
#define EMPTY_EXPERTS 65536

/* Bytes of a row and of everything packed; 0 on overflow. */
static int packed_sizes(int64_t experts, int64_t n, int64_t k, uint32_t values, uint32_t bytes,
                        int64_t *row, int64_t *expert, int64_t *all) {
    return size_mul(k / values, bytes, row) && size_mul(*row, n, expert) &&
           size_mul(*expert, experts, all);
}

uint64_t weight_layout_bytes(const plugin_entry *entry, const opreg_device *dev,
                             const weight_need *need, const problem_formats *extra) {
    const opreg_layout *layout;
    uint32_t values, bytes;
    int64_t row, expert, all;
    if (need->layout == OPREG_LAYOUT_STORED) {
        return problem_block(need->format, extra, &values, &bytes) == OPREG_OK &&
                       packed_sizes(need->experts, need->n, need->k, values, bytes, &row, &expert,
                                    &all)
                   ? (uint64_t)all
                   : 0;
    }
    layout = select_layout(entry, need->layout);
    return layout != NULL ? layout->bytes(dev, need->format, need->experts, need->n, need->k) : 0;
}

/* ---- side records --------------------------------------------------------------------------- */

static opreg_status decode_side(const opreg_weight_desc *desc, opreg_side *rows) {
    if (desc->format < OPREG_DTYPE_PLUGIN) {
        return side_decode(desc, rows);
    }
    if (desc->dialect != OPREG_DIALECT_DEFAULT || desc->side != NULL || desc->side_bytes != 0) {
        return fail(OPREG_E_ARG, "a plugin's format has no dialect and no side data");
    }
    for (int64_t e = 0; rows != NULL && e < desc->experts; e++) {
        memset(&rows[e], 0, sizeof rows[e]);
        rows[e].tensor_scale = desc->tensor_scale != 0.0f ? desc->tensor_scale : 1.0f;
    }
    return OPREG_OK;
}

/* Host memory for one record an expert, decoded. */
static opreg_status make_records(const opreg_weight_desc *desc, opreg_side **out) {
    opreg_status status = decode_side(desc, NULL);
    opreg_side *rows;
    if (status != OPREG_OK) {
        return status;
    }
    rows = (uint64_t)desc->experts < SIZE_MAX / sizeof *rows
               ? calloc((size_t)desc->experts, sizeof *rows)
               : NULL;
    if (rows == NULL) {
        return fail(OPREG_E_NOMEM, "no memory for the side data of %lld experts",
                    (long long)desc->experts);
    }
    status = decode_side(desc, rows);
    if (status != OPREG_OK) {
        free(rows);
        return status;
    }
    *out = rows;
    return OPREG_OK;
}

static void drop_side(shared_side *side) {
    if (side != NULL && atomic_fetch_sub(&side->users, 1) == 1) {
        side->entry->io.free(&side->entry->host, side->dev, side->records);
        atomic_fetch_sub(&side->entry->sides, 1);
        free(side->wire);
        free(side);
    }
}

static opreg_status device_failed(opreg_status status, const plugin_entry *entry, uint32_t mark,
                                  const char *what) {
    return error_since(mark)[0] != '\0'
               ? status
               : fail(status, "plugin %s could not %s: %s", entry->name, what,
                      opreg_status_name(status));
}

/* Kept as it was given, for replay files. */
static int copy_wire(shared_side *side, const opreg_weight_desc *desc) {
    side->tensor_scale = desc->tensor_scale;
    if (desc->side == NULL || desc->side_bytes == 0) {
        return 1;
    }
    side->wire = malloc((size_t)desc->side_bytes);
    if (side->wire == NULL) {
        return 0;
    }
    memcpy(side->wire, desc->side, (size_t)desc->side_bytes);
    side->wire_bytes = desc->side_bytes;
    return 1;
}

static opreg_status upload_side(plugin_entry *entry, const opreg_device *dev,
                                const opreg_weight_desc *desc, const opreg_side *rows,
                                shared_side **out) {
    const uint64_t bytes = (uint64_t)desc->experts * sizeof *rows;
    const opreg_device_io *io = &entry->io;
    shared_side *side = calloc(1, sizeof *side);
    uint32_t mark = error_mark();
    opreg_status status;
    if (side == NULL || !copy_wire(side, desc)) {
        free(side);
        return fail(OPREG_E_NOMEM, "no memory for a weight");
    }
    side->entry = entry;
    side->dev = dev;
    atomic_store(&side->users, 1);
    atomic_fetch_add(&entry->sides, 1);
    status = io->alloc(&entry->host, dev, bytes, &side->records);
    if (status != OPREG_OK) {
        atomic_fetch_sub(&entry->sides, 1);
        free(side->wire);
        free(side);
        return device_failed(status, entry, mark, "allocate side data");
    }
    status = io->to_device(&entry->host, dev, side->records, rows, bytes, NULL);
    if (status == OPREG_OK) { /* runs may come on any stream */
        status = io->stream_sync(&entry->host, dev, NULL);
    }
    if (status != OPREG_OK) {
        drop_side(side);
        return device_failed(status, entry, mark, "copy side data");
    }
    *out = side;
    return OPREG_OK;
}

/* ---- creation ------------------------------------------------------------------------------- */

static opreg_status check_desc(const opreg_weight_desc *d, const problem_formats *extra,
                               int64_t *row, int64_t *stride, int64_t *all) {
    uint32_t values, bytes;
    int64_t expert, packed, needed;
    opreg_status status = problem_block(d->format, extra, &values, &bytes);
    if (status != OPREG_OK) {
        return status;
    }
    if (d->layout != OPREG_LAYOUT_STORED) {
        return fail(OPREG_E_ARG, "layout %u: a weight is made from stored bytes, opreg_weight_prepare "
                                 "makes the others",
                    d->layout);
    }
    if (d->reserved != 0) {
        return fail(OPREG_E_ARG, "reserved is %u, it must be 0", d->reserved);
    }
    if (d->experts < 1 || d->experts > INT32_MAX || d->n < 0 || d->k < 1) {
        return fail(OPREG_E_SHAPE, "a weight needs experts >= 1, n >= 0, k >= 1; got %lld, %lld, %lld",
                    (long long)d->experts, (long long)d->n, (long long)d->k);
    }
    if (d->n == 0 && d->experts > EMPTY_EXPERTS) {
        return fail(OPREG_E_SHAPE, "a weight without rows has at most %d experts; got %lld",
                    EMPTY_EXPERTS, (long long)d->experts);
    }
    if (d->k % values != 0) {
        return fail(OPREG_E_SHAPE, "k %lld is not a multiple of the %s block, %u", (long long)d->k,
                    opreg_dtype_name(d->format), values);
    }
    if (!packed_sizes(d->experts, d->n, d->k, values, bytes, row, &expert, &packed)) {
        return fail(OPREG_E_SHAPE, "the bytes of %lld experts of %lld rows of %lld overflow 64 bits",
                    (long long)d->experts, (long long)d->n, (long long)d->k);
    }
    *stride = d->expert_stride != 0 ? d->expert_stride : expert;
    if (*stride < expert) {
        return fail(OPREG_E_SHAPE, "expert_stride is %lld, an expert has %lld bytes",
                    (long long)*stride, (long long)expert);
    }
    if (!size_mul(d->experts - 1, *stride, &needed) || !size_add(needed, expert, &needed)) {
        return fail(OPREG_E_SHAPE, "%lld experts, %lld bytes apart, overflow 64 bits",
                    (long long)d->experts, (long long)*stride);
    }
    if (d->data.bytes < (uint64_t)needed) {
        return fail(OPREG_E_SHAPE, "data has %llu bytes, %s [%lld, %lld, %lld] needs %lld",
                    (unsigned long long)d->data.bytes, opreg_dtype_name(d->format),
                    (long long)d->experts, (long long)d->n, (long long)d->k, (long long)needed);
    }
    if (d->data.ptr == NULL && needed > 0) {
        return fail(OPREG_E_ARG, "data is null, it needs %lld bytes", (long long)needed);
    }
    *all = packed;
    return OPREG_OK;
}

/* The first open plugin that drives the device; its io carries the weight. */
static plugin_entry *device_owner(opreg_registry *reg, const opreg_device *dev,
                                  const opreg_device **row) {
    for (size_t i = 0; i < reg->num_plugins; i++) {
        *row = plugin_device(reg->plugins[i], dev);
        if (*row != NULL) {
            return reg->plugins[i];
        }
    }
    return NULL;
}

static opreg_status hold_owner(opreg_registry *reg, const opreg_device *dev,
                               const opreg_weight_desc *desc, opreg_weight *weight) {
    char device[64];
    problem_formats extra;
    int known;
    opreg_status status = registry_lock(reg);
    if (status != OPREG_OK) {
        return status;
    }
    extra = registry_formats(reg);
    status = check_desc(desc, &extra, &weight->view.row_bytes, &weight->view.expert_stride,
                        &weight->packed_bytes);
    if (status == OPREG_OK) {
        weight->entry = device_owner(reg, dev, &weight->dev);
        if (weight->entry == NULL) {
            device_text(dev, device, sizeof device);
            status = fail(OPREG_E_UNSUPPORTED, "no open plugin has the device %s", device);
        }
    }
    if (status == OPREG_OK) {
        atomic_fetch_add(&weight->entry->live, 1);
        weight->view.dialect = side_dialect(desc->format, desc->dialect, &known);
    }
    registry_unlock(reg);
    return status;
}

opreg_status opreg_weight_create(opreg_registry *reg, const opreg_device *dev,
                                 const opreg_weight_desc *desc, opreg_weight **out) {
    opreg_device device;
    opreg_weight_desc d;
    opreg_side *rows = NULL;
    opreg_weight *weight;
    opreg_status status;
    if (reg == NULL || out == NULL) {
        return fail(OPREG_E_ARG, "the %s is null", reg == NULL ? "registry" : "weight pointer");
    }
    status = device_load(dev, &device);
    if (status == OPREG_OK) {
        status = struct_load(&d, sizeof d, desc, "opreg_weight_desc");
    }
    if (status != OPREG_OK) {
        return status;
    }
    weight = calloc(1, sizeof *weight);
    if (weight == NULL) {
        return fail(OPREG_E_NOMEM, "no memory for a weight");
    }
    status = hold_owner(reg, &device, &d, weight);
    if (status != OPREG_OK) {
        free(weight);
        return status;
    }
    status = make_records(&d, &rows);
    if (status == OPREG_OK) {
        status = upload_side(weight->entry, weight->dev, &d, rows, &weight->side);
    }
    free(rows);
    if (status != OPREG_OK) {
        atomic_fetch_sub(&weight->entry->live, 1);
        free(weight);
        return status;
    }
    weight->reg = reg;
    weight->view.struct_size = sizeof weight->view;
    weight->view.format = d.format;
    weight->view.layout = OPREG_LAYOUT_STORED;
    weight->view.experts = d.experts;
    weight->view.n = d.n;
    weight->view.k = d.k;
    weight->view.data = d.data.ptr;
    weight->view.bytes = d.data.bytes;
    weight->view.slack_before = d.slack_before;
    weight->view.slack_after = d.slack_after;
    weight->view.side = weight->side->records;
    *out = weight;
    return OPREG_OK;
}

void opreg_weight_destroy(opreg_weight *weight) {
    if (weight != NULL) {
        drop_side(weight->side);
        atomic_fetch_sub(&weight->entry->live, 1);
        free(weight);
    }
}

const opreg_weight_view *opreg_weight_view_get(const opreg_weight *weight) {
    return weight != NULL ? &weight->view : NULL;
}

/* ---- layouts -------------------------------------------------------------------------------- */

/* Stored bytes, whatever their stride, to packed ones. */
static opreg_status copy_packed(plugin_entry *entry, const opreg_device *dev,
                                const opreg_weight_view *from, void *dst, void *stream) {
    int64_t expert = from->row_bytes * from->n;
    opreg_status status = OPREG_OK;
    if (from->expert_stride == expert) {
        return entry->io.copy(&entry->host, dev, dst, from->data,
                              (uint64_t)(expert * from->experts), stream);
    }
    for (int64_t e = 0; status == OPREG_OK && e < from->experts; e++) {
        status = entry->io.copy(&entry->host, dev, (char *)dst + e * expert,
                                (const char *)from->data + e * from->expert_stride,
                                (uint64_t)expert, stream);
    }
    return status;
}

/* Format, dialect and shape; the layout is what the plan wants made. */
static int need_is_of(const weight_need *need, const opreg_weight_view *v) {
    return v->format == need->format && v->dialect == need->dialect &&
           v->experts == need->experts && v->n == need->n && v->k == need->k;
}

static const weight_need *find_need(const opreg_plan *plan, const opreg_weight *stored) {
    for (uint32_t i = 0; i < plan->num_weights; i++) {
        if (need_is_of(&plan->weights[i], &stored->view)) {
            return &plan->weights[i];
        }
    }
    return NULL;
}

static opreg_status check_dst(const opreg_buf *dst, uint64_t bytes, uint32_t align) {
    if (dst->ptr == NULL || dst->bytes < bytes || (uintptr_t)dst->ptr % align != 0) {
        return fail(OPREG_E_ARG, "dst must have %llu bytes, aligned to %u; got %llu bytes at %p",
                    (unsigned long long)bytes, align, (unsigned long long)dst->bytes, dst->ptr);
    }
    return OPREG_OK;
}

static opreg_status check_prepare(const opreg_plan *plan, const opreg_weight *stored,
                                  opreg_weight **out) {
    if (plan == NULL || stored == NULL || out == NULL) {
        return fail(OPREG_E_ARG, "the %s is null",
                    plan == NULL     ? "plan"
                    : stored == NULL ? "stored weight"
                                     : "weight pointer");
    }
    if (stored->view.layout != OPREG_LAYOUT_STORED) {
        return fail(OPREG_E_ARG, "the weight is prepared already, in layout %u: restore it first",
                    stored->view.layout);
    }
    return OPREG_OK;
}

/* Makes what `need` wants; it is null where the plan wants no such weight. */
static opreg_status prepare(const opreg_plan *plan, const weight_need *need,
                            const opreg_weight *stored, opreg_buf dst, void *stream,
                            opreg_weight **out) {
    const opreg_layout *layout;
    opreg_weight *weight;
    uint64_t bytes;
    uint32_t mark = error_mark();
    opreg_status status;
    if (need == NULL || stored->reg != plan->reg || stored->dev->kind != plan->kind ||
        stored->dev->ordinal != plan->ordinal) {
        return fail(OPREG_E_ARG, "no weight of plan %s has this format, dialect, shape and device",
                    plan->name);
    }
    layout = select_layout(plan->entry, need->layout);
    bytes = layout != NULL ? layout->bytes(plan->dev, need->format, need->experts, need->n, need->k)
                           : (uint64_t)stored->packed_bytes;
    status = bytes > 0 ? check_dst(&dst, bytes, PREPARED_ALIGN) : OPREG_OK;
    if (status != OPREG_OK) {
        return status;
    }
    weight = malloc(sizeof *weight);
    if (weight == NULL) {
        return fail(OPREG_E_NOMEM, "no memory for a weight");
    }
    *weight = *stored;
    weight->entry = plan->entry;
    weight->dev = plan->dev;
    weight->view.layout = need->layout;
    weight->view.data = dst.ptr;
    weight->view.bytes = dst.bytes;
    weight->view.slack_before = 0;
    weight->view.slack_after = dst.bytes - bytes;
    weight->view.expert_stride = layout == NULL  ? stored->view.row_bytes * stored->view.n
                                 : need->experts > 0 ? (int64_t)bytes / need->experts
                                                     : 0;
    if (bytes > 0) {
        status = layout != NULL
                     ? layout->pack(plan->host, plan->dev, &stored->view, dst.ptr, stream)
                     : copy_packed(plan->entry, plan->dev, &stored->view, dst.ptr, stream);
    }
    if (status != OPREG_OK) {
        free(weight);
        return device_failed(status, plan->entry, mark, "prepare the weight");
    }
    weight->view.bytes = bytes;
    atomic_fetch_add(&weight->side->users, 1);
    atomic_fetch_add(&weight->entry->live, 1);
    *out = weight;
    return OPREG_OK;
}

opreg_status opreg_weight_prepare(const opreg_plan *plan, const opreg_weight *stored, opreg_buf dst,
                                  void *stream, opreg_weight **out) {
    const weight_need *need;
    opreg_status status = check_prepare(plan, stored, out);
    if (status != OPREG_OK) {
        return status;
    }
    need = find_need(plan, stored);
    for (uint32_t i = 0; need != NULL && i < plan->num_weights; i++) {
        const weight_need *other = &plan->weights[i];
        if (other->layout != need->layout && need_is_of(other, &stored->view)) {
            return fail(OPREG_E_ARG, "two weights of plan %s have this format and shape and want the "
                                     "layouts %u and %u: opreg_weight_prepare_at tells them apart",
                        plan->name, need->layout, other->layout);
        }
    }
    return prepare(plan, need, stored, dst, stream, out);
}

opreg_status opreg_weight_prepare_at(const opreg_plan *plan, uint32_t index,
                                     const opreg_weight *stored, opreg_buf dst, void *stream,
                                     opreg_weight **out) {
    const weight_need *need;
    opreg_status status = check_prepare(plan, stored, out);
    if (status != OPREG_OK) {
        return status;
    }
    if (index >= plan->num_weights) {
        return fail(OPREG_E_ARG, "plan %s has %u weights, there is no index %u", plan->name,
                    plan->num_weights, index);
    }
    need = &plan->weights[index];
    return prepare(plan, need_is_of(need, &stored->view) ? need : NULL, stored, dst, stream, out);
}

opreg_status opreg_weight_restore(const opreg_weight *prepared, opreg_buf dst, void *stream) {
    const opreg_layout *layout;
    plugin_entry *entry;
    uint32_t mark = error_mark();
    opreg_status status;
    if (prepared == NULL) {
        return fail(OPREG_E_ARG, "the prepared weight is null");
    }
    if (prepared->packed_bytes == 0) {
        return OPREG_OK;
    }
    status = check_dst(&dst, (uint64_t)prepared->packed_bytes, 1);
    if (status != OPREG_OK) {
        return status;
    }
    entry = prepared->entry;
    layout = select_layout(entry, prepared->view.layout);
    status = layout != NULL ? layout->unpack(&entry->host, prepared->dev, &prepared->view, dst.ptr,
                                             stream)
                            : copy_packed(entry, prepared->dev, &prepared->view, dst.ptr, stream);
    return status == OPREG_OK ? OPREG_OK : device_failed(status, entry, mark, "restore the weight");
}

/* ---- checking host bytes -------------------------------------------------------------------- */

opreg_status opreg_weight_validate(const opreg_weight_desc *desc) {
    opreg_weight_desc d;
    const format_info *info;
    opreg_side *rows = NULL;
    int64_t row, stride, all, blocks;
    opreg_status status = struct_load(&d, sizeof d, desc, "opreg_weight_desc");
    if (status == OPREG_OK) {
        status = check_desc(&d, NULL, &row, &stride, &all);
    }
    if (status == OPREG_OK) {
        status = make_records(&d, &rows);
    }
    if (status != OPREG_OK) {
        return status;
    }
    info = format_by_id(d.format);
    blocks = d.k / info->values;
    for (int64_t e = 0; info->invalid != NULL && e < d.experts && status == OPREG_OK; e++) {
        const uint8_t *expert = (const uint8_t *)d.data.ptr + e * stride;
        for (int64_t b = 0; b < d.n * blocks; b++) {
            const char *why = info->invalid(expert + b * info->bytes, &rows[e]);
            if (why != NULL) {
                status = fail(OPREG_E_ARG, "%s expert %lld, row %lld, block %lld: %s", info->name,
                              (long long)e, (long long)(b / blocks), (long long)(b % blocks), why);
                break;
            }
        }
    }
    free(rows);
    return status;
}
