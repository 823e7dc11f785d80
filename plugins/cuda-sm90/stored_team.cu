/* SPDX-License-Identifier: MIT
 * Kernels over stored weights of the formats that rows32_list.inc says go by words. */
#include "stored_team.cuh"

#define STORED_TEAM_ROWS(name)
#define STORED_TEAM_WORDS(name)                                                                    \
    KERNEL __launch_bounds__(STORED_THREADS, 1)                                                    \
        stored_##name##_team(const __grid_constant__ stored_args args) {                           \
        stored_team<rows_##name>(args);                                                            \
    }
#define ROWS32_UNIT32(NAME, name, image, values, min_sub, table_words, by)  STORED_TEAM_##by(name)
#define ROWS32_UNIT256(NAME, name, image, values, min_sub, table_words, by) STORED_TEAM_##by(name)
#include "rows32_list.inc"
