/* SPDX-License-Identifier: MIT
 * Kernels of rows32_team.cuh for every format of rows32_list.inc that goes by words. */
#include "rows32_team.cuh"

#define TEAM_WORDS(name)                                                                           \
    KERNEL __launch_bounds__(TEAM_THREADS, 1)                                                      \
        rows32_##name##_team(const __grid_constant__ team_args args) {                             \
        rows32_team<rows_##name>(args);                                                            \
    }
#define TEAM_ROWS(name)
#define ROWS32_UNIT32(NAME, name, image, values, min_sub, table_words, by) TEAM_##by(name)
#define ROWS32_UNIT256(NAME, name, image, values, min_sub, table_words, by) TEAM_##by(name)
#include "rows32_list.inc"
