/* SPDX-License-Identifier: MIT
 * emulated_kernels.cc - the kernels of the plugin, compiled for the CPU from their own sources. */
#include "program.h"

#include "baseline_ops.cuh"
#include "slot4.cuh"
#include "split_attention.cuh"
#include "staged_slot4.cuh"

#define STAGED_FORMAT(NAME, name, layout, pairs, unit, words, table_bytes) STAGED_KERNEL(name)
#include "staged_list.inc"
#undef STAGED_FORMAT

#define SLOT4_FORMAT(NAME, name, bytes, final)                                                     \
    SLOT4_BASELINE_KERNEL(name, final)                                                             \
    SLOT4_PACK_KERNEL(name, bytes)                                                                 \
    SLOT4_UNPACK_KERNEL(name, bytes)                                                               \
    static void run_slot4_base_##name(const void *p) {                                             \
        slot4_base_##name(*(const matmul_args *)p);                                                \
    }                                                                                              \
    static void run_slot4_pack_##name(const void *p) {                                             \
        slot4_pack_##name(*(const slot4_args *)p);                                                 \
    }                                                                                              \
    static void run_slot4_unpack_##name(const void *p) {                                           \
        slot4_unpack_##name(*(const slot4_args *)p);                                               \
    }
#include "slot4_formats.inc"
#undef SLOT4_FORMAT

#define SPLIT_PART(dim, heads, name, arithmetic, kv, blocks)                                       \
    SPLIT_PART_KERNEL(dim, heads, name, arithmetic, kv, blocks)                                    \
    static void run_split_##dim##_##heads##_##name(const void *p) {                                \
        split_##dim##_##heads##_##name(*(const split_args *)p);                                    \
    }
#include "split_list.inc"
#undef SPLIT_PART
static void run_split_merge(const void *p) {
    split_merge(*(const split_args *)p);
}

static void run_quantize(const void *p) {
    base_quantize(*(const quantize_args *)p);
}
static void run_route(const void *p) {
    base_route(*(const route_args *)p);
}
static void run_combine(const void *p) {
    base_combine(*(const combine_args *)p);
}
static void run_pack(const void *p) {
    base_pack(*(const pack_args *)p);
}

#define STAGED_FORMAT(NAME, name, layout, pairs, unit, words, table_bytes)                         \
    static void run_##name(const void *p) {                                                        \
        staged_##name(*(const staged_args *)p);                                                    \
    }
#include "staged_list.inc"
#undef STAGED_FORMAT

emulated_kernel *emulated_symbol(uint32_t symbol) {
#define SLOT4_FORMAT(NAME, name, bytes, final)                                                     \
    run_slot4_base_##name, run_slot4_pack_##name, run_slot4_unpack_##name,
#define STAGED_FORMAT(NAME, name, layout, pairs, unit, words, table_bytes) run_##name,
    static emulated_kernel *const after_formats[] = {
#include "slot4_formats.inc"
#include "staged_list.inc"
        run_split_merge,
#define SPLIT_PART(dim, heads, name, arithmetic, kv, blocks) run_split_##dim##_##heads##_##name,
#include "split_list.inc"
#undef SPLIT_PART
    };
#undef SLOT4_FORMAT
#undef STAGED_FORMAT
    switch (symbol) {
    case BASE_QUANTIZE:
        return run_quantize;
    case BASE_ROUTE:
        return run_route;
    case BASE_COMBINE:
        return run_combine;
    case BASE_PACK:
        return run_pack;
    default:
        break;
    }
    if (symbol >= SM60_AFTER_FORMATS &&
        symbol - SM60_AFTER_FORMATS < sizeof after_formats / sizeof after_formats[0]) {
        return after_formats[symbol - SM60_AFTER_FORMATS];
    }
    return 0;
}
