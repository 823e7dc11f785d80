/* SPDX-License-Identifier: MIT
 * One staged kernel for each format of staged_list.inc. */
#include "staged_slot4.cuh"

#define STAGED_FORMAT(NAME, name, layout, pairs_, unit_, words_, table_bytes_)                     \
    static_assert(staged_##name##_format::unit == unit_ &&                                         \
                      staged_##name##_format::pairs == (pairs_ != 0) &&                            \
                      staged_##name##_format::words == words_ &&                                   \
                      staged_##name##_format::table_bytes == table_bytes_,                         \
                  "the host's row of " #name);                                                     \
    STAGED_KERNEL(name)
#include "staged_list.inc"
