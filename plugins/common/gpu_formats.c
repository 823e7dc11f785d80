/* SPDX-License-Identifier: MIT
 * gpu_formats.c - the format tables as host code of GPU plugins reads them, and the layout rows32. */
#include "baseline.h"
#include "slot4.h"

#include <stddef.h>

#define ACT_BLOCK_F32 0u
#define ACT_BLOCK_Q8_0 32u
#define ACT_BLOCK_Q8_K 256u
#define SCALED_NONE 0u
#define SCALED_SCALE 1u
#define SCALED_GQH 0u
#define SCALED_MIX4 0u
#define SCALED_MIX8 0u

#define OPREG_FORMAT(NAME, name_, ggml, values_, bytes_, act_, unit_, kind, final, side)           \
    ORDER_##NAME,
enum format_order {
#include "formats/formats.inc"
    ORDER_END
};
#undef OPREG_FORMAT

#define OPREG_FORMAT(NAME, name_, ggml, values_, bytes_, act_, unit_, kind, final, side)           \
    {OPREG_##NAME, BASE_FIRST_FORMAT + ORDER_##NAME, #name_, values_, bytes_, unit_, OPREG_##act_, \
     ACT_BLOCK_##act_, SCALED_##side},
static const gpu_format formats[] = {
#include "formats/formats.inc"
};
#undef OPREG_FORMAT

#define OPREG_FORMAT(NAME, name_, ggml, values_, bytes_, act_, unit_, kind, final, side)           \
    OPREG_##NAME,
const uint32_t every_format[] = {
#include "formats/formats.inc"
    0};
#undef OPREG_FORMAT

const gpu_format *gpu_format_find(uint32_t id) {
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (formats[i].id == id) {
            return &formats[i];
        }
    }
    return NULL;
}

#define SLOT4_FORMAT(NAME, name, bytes, final) OPREG_##NAME,
uint32_t slot4_symbol(uint32_t format, uint32_t kernel) {
    static const uint32_t ids[] = {
#include "slot4_formats.inc"
    };
    for (uint32_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        if (ids[i] == format) {
            return BASE_FIRST_FORMAT + ORDER_END + i * SLOT4_KERNELS + kernel;
        }
    }
    return UINT32_MAX;
}
#undef SLOT4_FORMAT

#define FIELDS(...) {__VA_ARGS__}
#define PREPARED_FORMAT(NAME, bytes, values, blocks, fields, offsets, lengths) OPREG_##NAME,
const uint32_t prepared_formats[] = {
#include "prepared_formats.inc"
    0};
#undef PREPARED_FORMAT

typedef struct prepared_row {
    uint32_t id;
    int32_t values;
    prepared_shape shape;
} prepared_row;

#define PREPARED_FORMAT(NAME, bytes, values, blocks, fields, offsets, lengths)                     \
    {OPREG_##NAME, values, {bytes, blocks, fields, offsets, lengths}},
static const prepared_row prepared_rows[] = {
#include "prepared_formats.inc"
};
#undef PREPARED_FORMAT

const prepared_shape *prepared_shape_find(uint32_t format, int32_t *group_values) {
    for (size_t i = 0; i < sizeof prepared_rows / sizeof prepared_rows[0]; i++) {
        if (prepared_rows[i].id == format) {
            *group_values = prepared_rows[i].values * (int32_t)prepared_rows[i].shape.blocks;
            return &prepared_rows[i].shape;
        }
    }
    return NULL;
}

int64_t prepared_groups(uint32_t format, int64_t k) {
    int32_t values = 0;
    return prepared_shape_find(format, &values) == NULL ? 0 : (k + values - 1) / values;
}

static uint64_t rows32_bytes(const opreg_device *dev, uint32_t format, int64_t experts, int64_t n,
                             int64_t k) {
    int32_t group_values = 0;
    const prepared_shape *shape = prepared_shape_find(format, &group_values);
    (void)dev;
    if (shape == NULL || k % (group_values / (int32_t)shape->blocks) != 0) {
        return 0;
    }
    return (uint64_t)experts * (uint64_t)((n + 31) / 32 * 32) * (uint64_t)prepared_groups(format, k) *
           shape->block_bytes * shape->blocks;
}

static opreg_status move(const opreg_host *host, const opreg_device *dev,
                         const opreg_weight_view *view, pack_args *args, void *stream) {
    int32_t group_values = 0;
    const prepared_shape *shape = prepared_shape_find(view->format, &group_values);
    const gpu_device *device = gpu_device_find(dev->ordinal);
    gpu_launch launch = {BASE_PACK, 1, 1, 1, BASELINE_THREADS, 0, 0};
    int64_t total;
    if (shape == NULL || device == NULL) {
        host->error(host->ctx, "layout rows32 does not take format %u", view->format);
        return OPREG_E_UNSUPPORTED;
    }
    args->experts = view->experts;
    args->n = view->n;
    args->blocks = view->k / (group_values / (int32_t)shape->blocks);
    args->groups = prepared_groups(view->format, view->k);
    args->shape = *shape;
    total = args->experts * ((view->n + 31) / 32 * 32) * args->groups *
            (int64_t)(shape->block_bytes * shape->blocks);
    if (total == 0) {
        return OPREG_OK;
    }
    total = (total + BASELINE_THREADS - 1) / BASELINE_THREADS;
    launch.grid_x = (uint32_t)(total < 1 << 20 ? total : 1 << 20);
    return gpu_run(host, device, &launch, args, stream);
}

static opreg_status rows32_pack(const opreg_host *host, const opreg_device *dev,
                                const opreg_weight_view *stored, void *dst, void *stream) {
    pack_args args = {.unpack = 0, .stored_stride = stored->expert_stride, .prepared = dst};
    args.stored = (uint8_t *)(uintptr_t)stored->data;
    return move(host, dev, stored, &args, stream);
}

static opreg_status rows32_unpack(const opreg_host *host, const opreg_device *dev,
                                  const opreg_weight_view *prepared, void *dst, void *stream) {
    pack_args args = {.unpack = 1, .stored = dst};
    args.prepared = (uint8_t *)(uintptr_t)prepared->data;
    args.stored_stride = prepared->n * (prepared->k / gpu_format_find(prepared->format)->values) *
                         gpu_format_find(prepared->format)->bytes;
    return move(host, dev, prepared, &args, stream);
}

const opreg_layout prepared_rows32 = {
    .struct_size = sizeof(opreg_layout),
    .id = PREPARED_ROWS32,
    .name = "rows32",
    .summary = "32 rows side by side in 16-byte pieces",
    .formats = prepared_formats,
    .bytes = rows32_bytes,
    .pack = rows32_pack,
    .unpack = rows32_unpack,
};
