/* SPDX-License-Identifier: MIT
 * records_args.h - quantized activations as the tensor-core kernels over rows32 read them.
 *
 * A record is one row of x over one group of a weight row; row r, group u lies at (r * groups + u)
 * records.  Units of 256: 256 codes, 16 sums of 16 codes as halves (exact), the scale, 12 bytes free.
 * Units of 32: 4 * 32 codes, 4 scales, 4 sums in f32, 16 bytes free.  The lengths keep eight
 * neighbouring records apart in the banks of shared memory.
 *
 * A block is eight rows over one group, for products of a warpgroup; the eight blocks of 64 rows, one
 * group, lie together: rows 64s .. 64s + 63, group u at (s * groups + u) * 8 blocks, missing rows as
 * zeros.  Codes are in pieces of 8 rows by 16 bytes, k
 * ascending; then, units of 256: 2 pieces of sums, 8 scales; units of 32: 8 scales of each unit, 8 sums of
 * each. */
#ifndef OPREG_SM90_RECORDS_ARGS_H
#define OPREG_SM90_RECORDS_ARGS_H

#include <stdint.h>

#define RECORD256_BYTES 304
#define RECORD256_SUMS  256
#define RECORD256_SCALE 288
#define RECORD32_BYTES  176
#define RECORD32_SCALES 128
#define RECORD32_SUMS   144

#define BLOCK256_BYTES  2336
#define BLOCK256_SUMS   2048
#define BLOCK256_SCALES 2304
#define BLOCK32_BYTES   1280
#define BLOCK32_SCALES  1024
#define BLOCK32_SUMS    1152
#define BLOCK_PIECE     128
#define BLOCKS_TOGETHER 8

#define RECORDS_THREADS 128

typedef struct records_args {
    const void *x;        /* elements, or codes where scales is not null                            */
    const float *scales;
    const int16_t *sums;
    uint8_t *records;
    int64_t m, padded, k, x_stride; /* padded: rows to write, those from m on of zeros             */
    uint32_t x_dtype, unit;
    uint32_t blocks, reserved; /* blocks: 1 writes blocks                                          */
} records_args;

#endif /* OPREG_SM90_RECORDS_ARGS_H */
