/* SPDX-License-Identifier: MIT
 * One staged kernel for each format of staged_list.inc. */
#include "staged_formats.cuh"

#define STAGED_FORMAT(NAME, name, unit_, words_, table_bytes_)                                     \
    static_assert(staged_##name##_format::unit == unit_ &&                                         \
                      staged_##name##_format::words == words_ &&                                   \
                      staged_##name##_format::table_bytes == table_bytes_,                         \
                  "the host's row of " #name);                                                     \
    STAGED_KERNEL(name)
#include "staged_list.inc"
