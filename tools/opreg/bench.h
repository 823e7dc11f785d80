/* SPDX-License-Identifier: MIT
 * bench.h - what the parts of opreg bench share. */
#ifndef OPREG_TOOLS_BENCH_H
#define OPREG_TOOLS_BENCH_H

#include "device.h"
#include "options.h"

#define BENCH_BATCHES 20 /* at least */

/* One variant on one problem, measured. */
typedef struct bench_row {
    const opreg_candidate *candidate;
    char kernel[100];
    double us, spread, warm_us; /* median of batches, half of the middle 80 %, weights in cache   */
    double nmse;                /* against float64 of the raw activations                         */
    double gbps, floor_us, ratio; /* floor: bytes over measured bandwidth; 0 where unknown        */
    char failed[256]; /* "" or why there is no time                                     */
} bench_row;

/* A problem with its data on a device.  Weights are there in as many copies as exceed four times
 * the cache, so that a run in turn over them reads cold bytes. */
typedef struct bench_set {
    const device *where;
    opreg_matmul_bt_quant problem;
    int64_t copies;
    opreg_buf *data;
    opreg_weight **weights;
    opreg_buf x, y;
    uint8_t *blocks; /* the weight on the host                                               */
    float *x_host;
    uint64_t weight_bytes, moved_bytes; /* a run must move: weights, x and y                      */
} bench_set;

/* 0 with opreg_last_error or *reason set. */
int bench_set_open(const device *d, const opreg_matmul_bt_quant *problem, uint64_t cache_bytes,
                   uint64_t seed, bench_set *out, const char **reason);
void bench_set_close(bench_set *s);

/* Measures rows[count]: warm-up, then batches of all variants in turn. */
void bench_measure(bench_set *s, bench_row *rows, size_t count, int batches, double bandwidth);

/* Bytes of the last cache of a device; 0 where it is not known. */
uint64_t bench_cache_bytes(const device *d);

/* Bytes a second that the device reads, measured now; 0 where it cannot be. */
double bench_bandwidth(const device *d, unsigned threads);

#endif /* OPREG_TOOLS_BENCH_H */
