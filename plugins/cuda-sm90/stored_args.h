/* SPDX-License-Identifier: MIT
 * stored_args.h - parameters of the kernels over stored weights, and the shape of their pipeline. */
#ifndef OPREG_SM90_STORED_ARGS_H
#define OPREG_SM90_STORED_ARGS_H

#include "rows32_args.h"

/* A team is so many waves with one tile of 32 weight rows at a time; a block has several.  A stage is
 * one or two groups for each wave: of every row so many groups, side by side as they are stored. */
#define STORED_THREADS 512 /* most of a block                                                      */
#define STORED_AHEAD   3   /* least stages of a block that are on their way, where they have room  */
/* Of a block of stored_eight: formats that go by words have stored_team where x fits. */
#define STORED_EIGHT_THREADS_ROWS  512
#define STORED_EIGHT_THREADS_WORDS 256
#define STORED_EIGHT_OWN (8 * 2 * 32 * 48) /* bytes of a team of stored_eight beside its stages    */

typedef struct stored_args {
    matmul_args base; /* x: elements, or codes where scales is not null; stored weights             */
    uint32_t groups;  /* of a row; the last may have fewer units                                    */
    uint32_t units;   /* of a row                                                                   */
    uint32_t depth;   /* stages of a team                                                           */
    uint32_t ahead;   /* of those, how many are asked for before one is used                        */
    uint32_t chained; /* 1: waits for the launch ahead before it reads x                            */
    uint32_t loose;   /* 1: rows do not begin where groups can be read in whole words               */
    uint32_t tiles;   /* of 32 weight rows                                                          */
    uint32_t streams; /* teams of the grid: from one tile of a team to its next                      */
    uint32_t reserved;
    uint32_t apart;         /* stored_team: bytes from one column's records to the next             */
    const uint8_t *records; /* stored_team: x, which base does not have then                        */
} stored_args;

/* What groups of a row are aligned to, if the row is; 16 is enough. */
#define STORED_ALIGN(group_bytes)                                                                  \
    ((group_bytes) % 16 == 0 ? 16 : (group_bytes) % 8 == 0 ? 8 : (group_bytes) % 4 == 0 ? 4 : 2)

/* Bytes from one row of a stage to the next: an odd number of pieces of 16 keeps eight rows apart in
 * the banks; a row whose first piece it shares with the row before begins within 16 bytes. */
#define STORED_PITCH(group_bytes, groups)                                                          \
    ((((group_bytes) * (groups) + 16 - STORED_ALIGN(group_bytes) + 15) / 16 | 1) * 16)

/* A stage; words are read up to 12 bytes behind a group. */
#define STORED_STAGE(group_bytes, groups) (32 * STORED_PITCH(group_bytes, groups) + 16)

#endif /* OPREG_SM90_STORED_ARGS_H */
