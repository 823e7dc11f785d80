/* SPDX-License-Identifier: MIT
 * slot4.c - the layout slot4 as host code offers it. */
#include "baseline.h"
#include "slot4.h"

#include <stddef.h>

#define SLOT4_FORMAT(NAME, name, bytes, final) OPREG_##NAME,
const uint32_t slot4_formats[] = {
#include "slot4_formats.inc"
    0};
#undef SLOT4_FORMAT

static uint64_t slot4_bytes(const opreg_device *dev, uint32_t format, int64_t experts, int64_t n,
                            int64_t k) {
    (void)dev;
    return slot4_symbol(format, SLOT4_PACK) == UINT32_MAX || k % SLOT4_VALUES != 0
               ? 0
               : (uint64_t)experts * (uint64_t)n * (uint64_t)(k / SLOT4_VALUES) * SLOT4_BYTES;
}

static opreg_status move(const opreg_host *host, const opreg_device *dev,
                         const opreg_weight_view *view, slot4_args *args, uint32_t kernel,
                         int64_t threads_a_block, void *stream) {
    const gpu_device *device = gpu_device_find(dev->ordinal);
    gpu_launch launch = {slot4_symbol(view->format, kernel), 1, 1, 1, SLOT4_THREADS, 0, 0};
    int64_t total;
    if (launch.symbol == UINT32_MAX || device == NULL) {
        host->error(host->ctx, "layout slot4 does not take format %u", view->format);
        return OPREG_E_UNSUPPORTED;
    }
    args->rows = view->experts * view->n;
    args->n = view->n;
    args->blocks = view->k / SLOT4_VALUES;
    total = (args->rows * args->blocks * threads_a_block + SLOT4_THREADS - 1) / SLOT4_THREADS;
    if (total == 0) {
        return OPREG_OK;
    }
    launch.grid_x = (uint32_t)(total < 1 << 20 ? total : 1 << 20);
    return gpu_run(host, device, &launch, args, stream);
}

static opreg_status slot4_pack(const opreg_host *host, const opreg_device *dev,
                               const opreg_weight_view *stored, void *dst, void *stream) {
    slot4_args args = {.slots = dst, .stored_stride = stored->expert_stride};
    args.stored = (uint8_t *)(uintptr_t)stored->data;
    return move(host, dev, stored, &args, SLOT4_PACK, SLOT4_VALUES / 32, stream);
}

static opreg_status slot4_unpack(const opreg_host *host, const opreg_device *dev,
                                 const opreg_weight_view *prepared, void *dst, void *stream) {
    const gpu_format *format = gpu_format_find(prepared->format);
    slot4_args args = {.stored = dst};
    args.slots = (uint8_t *)(uintptr_t)prepared->data;
    args.stored_stride = prepared->n * (prepared->k / format->values) * format->bytes;
    return move(host, dev, prepared, &args, SLOT4_UNPACK, 1, stream);
}

const opreg_layout prepared_slot4 = {
    .struct_size = sizeof(opreg_layout),
    .id = PREPARED_SLOT4,
    .name = "slot4",
    .summary = "four bits a weight instead of rows of a grid: more memory, less decoding",
    .formats = slot4_formats,
    .bytes = slot4_bytes,
    .pack = slot4_pack,
    .unpack = slot4_unpack,
};
