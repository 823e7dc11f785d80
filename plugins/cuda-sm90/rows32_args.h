/* SPDX-License-Identifier: MIT
 * rows32_args.h - parameters of the kernels over the layout rows32. */
#ifndef OPREG_SM90_ROWS32_ARGS_H
#define OPREG_SM90_ROWS32_ARGS_H

#include "baseline_args.h"

typedef struct rows32_args {
    matmul_args base; /* x: elements, or codes where scales is not null; prepared weights            */
    uint32_t groups;  /* of a row                                                                   */
    uint32_t values;  /* of its groups: k, filled up                                                */
    uint32_t chained; /* 1: waits for the launch ahead before it reads x                            */
} rows32_args;

/* rows32_spread: waves of a block by format, 0 where rows32_one alone is as fast or faster, 16 where
 * rows32_ring has its place; the most rows of a block, floats of sums for each of them, and bytes of
 * tables of a grid's entries and of signs, 128 an entry. */
#define ROWS32_SPREAD_WAVES_q4_0         0
#define ROWS32_SPREAD_WAVES_q4_1         0
#define ROWS32_SPREAD_WAVES_q5_0         0
#define ROWS32_SPREAD_WAVES_q5_1         0
#define ROWS32_SPREAD_WAVES_q8_0         0
#define ROWS32_SPREAD_WAVES_iq4_nl       32
#define ROWS32_SPREAD_WAVES_mxfp4        32
#define ROWS32_SPREAD_WAVES_rocmfp4      32
#define ROWS32_SPREAD_WAVES_rocmfp4_fast 32
#define ROWS32_SPREAD_WAVES_q2_0         32
#define ROWS32_SPREAD_WAVES_q2_k         16
#define ROWS32_SPREAD_WAVES_q3_k         0
#define ROWS32_SPREAD_WAVES_q4_k         0
#define ROWS32_SPREAD_WAVES_q5_k         0
#define ROWS32_SPREAD_WAVES_q6_k         0
#define ROWS32_SPREAD_WAVES_iq4_xs       28
#define ROWS32_SPREAD_WAVES_iq2_xxs      16
#define ROWS32_SPREAD_WAVES_iq2_xs       16
#define ROWS32_SPREAD_WAVES_iq2_s        16
#define ROWS32_SPREAD_WAVES_iq3_xxs      16
#define ROWS32_SPREAD_WAVES_iq3_s        16
#define ROWS32_SPREAD_WAVES_iq1_s        32
#define ROWS32_SPREAD_WAVES_iq1_m        32
#define ROWS32_SPREAD_ROWS  320
#define ROWS32_SPREAD_APART 33

#define ROWS32_SPREAD_TABLE(entries, signs) (((entries) + (signs)) * 128)

/* rows32_ring: blocks of a multiprocessor's registers, so that the launch behind can begin; bytes of
 * tables; waves of a block at the most. */
#define ROWS32_RING_BLOCKS_q2_k    2
#define ROWS32_RING_BLOCKS_iq2_xxs 2
#define ROWS32_RING_BLOCKS_iq2_xs  1
#define ROWS32_RING_BLOCKS_iq2_s   1
#define ROWS32_RING_BLOCKS_iq3_xxs 1
#define ROWS32_RING_BLOCKS_iq3_s   1
#define ROWS32_RING_TABLE_q2_k     0
#define ROWS32_RING_TABLE_iq2_xxs  65536
#define ROWS32_RING_TABLE_iq2_xs   81920
#define ROWS32_RING_TABLE_iq2_s    131072
#define ROWS32_RING_TABLE_iq3_xxs  65536
#define ROWS32_RING_TABLE_iq3_s    131072
#define ROWS32_RING_WAVES 16
/* Sixteen rows of a group: where the pieces behind the chunks of 16 bytes begin. */
#define ROWS32_RING_TAIL(bytes, pad)                                                               \
    ((bytes) / 16 * (256 + (pad)) - ((bytes) % 16 * 16 <= (pad) ? (pad) : 0))

/* rows32_stream: groups that a wave has on their way by format, 0 where others are as fast or faster; waves
 * of a block, blocks a multiprocessor. */
#define ROWS32_STREAM_STAGES_q4_0         0
#define ROWS32_STREAM_STAGES_q4_1         0
#define ROWS32_STREAM_STAGES_q5_0         0
#define ROWS32_STREAM_STAGES_q5_1         0
#define ROWS32_STREAM_STAGES_q8_0         0
#define ROWS32_STREAM_STAGES_iq4_nl       4
#define ROWS32_STREAM_STAGES_mxfp4        0
#define ROWS32_STREAM_STAGES_rocmfp4      0
#define ROWS32_STREAM_STAGES_rocmfp4_fast 0
#define ROWS32_STREAM_STAGES_q2_0         0
#define ROWS32_STREAM_STAGES_q2_k         4
#define ROWS32_STREAM_STAGES_q3_k         2
#define ROWS32_STREAM_STAGES_q4_k         2
#define ROWS32_STREAM_STAGES_q5_k         2
#define ROWS32_STREAM_STAGES_q6_k         0
#define ROWS32_STREAM_STAGES_iq4_xs       0
#define ROWS32_STREAM_STAGES_iq2_xxs      0
#define ROWS32_STREAM_STAGES_iq2_xs       0
#define ROWS32_STREAM_STAGES_iq2_s        0
#define ROWS32_STREAM_STAGES_iq3_xxs      0
#define ROWS32_STREAM_STAGES_iq3_s        0
#define ROWS32_STREAM_STAGES_iq1_s        0
#define ROWS32_STREAM_STAGES_iq1_m        0
#define ROWS32_STREAM_WAVES  8
#define ROWS32_STREAM_BLOCKS 2

/* Shared memory of one block, in bytes from its start; what is not needed has no length. */
typedef struct rows32_shared {
    uint32_t codes, scales, sums, table, reduction, end;
} rows32_shared;

#endif /* OPREG_SM90_ROWS32_ARGS_H */
