/* SPDX-License-Identifier: MIT
 * rows32_turn.cuh - the accumulators of a wave that takes a superblock a step: the first one takes the
 * term and becomes the last, so that all are registers by static numbers.  As columns: eight of each. */
#ifndef OPREG_SM90_ROWS32_TURN_CUH
#define OPREG_SM90_ROWS32_TURN_CUH

#include "device.h"

template <int N> DEVICE void turn(float (&acc)[N], float last) {
#pragma unroll
    for (int i = 0; i + 1 < N; i++) {
        acc[i] = acc[i + 1];
    }
    acc[N - 1] = last;
}

template <int N> DEVICE void turn(float (&acc)[N][8], int column, float last) {
#pragma unroll
    for (int i = 0; i + 1 < N; i++) {
        acc[i][column] = acc[i + 1][column];
    }
    acc[N - 1][column] = last;
}

/* Back to ascending accumulators after so many terms. */
template <int N> DEVICE void turn_back(float (&acc)[N], uint32_t done) {
    for (; done % N != 0u; done++) {
        turn(acc, acc[0]);
    }
}

template <int N> DEVICE void turn_back(float (&acc)[N][8], uint32_t done) {
    for (; done % N != 0u; done++) {
#pragma unroll
        for (int o = 0; o < 8; o++) {
            turn(acc, o, acc[0][o]);
        }
    }
}

/* The tree over ascending accumulators. */
template <int N> DEVICE float sum_of_halves(float (&acc)[N]) {
#pragma unroll
    for (int s = N / 2; s > 0; s /= 2) {
#pragma unroll
        for (int i = 0; i < s; i++) {
            acc[i] = acc[i] + acc[i + s];
        }
    }
    return acc[0];
}

template <int N> DEVICE float sum_of_halves(float (&acc)[N][8], int column) {
#pragma unroll
    for (int s = N / 2; s > 0; s /= 2) {
#pragma unroll
        for (int i = 0; i < s; i++) {
            acc[i][column] = acc[i][column] + acc[i + s][column];
        }
    }
    return acc[0][column];
}

#endif /* OPREG_SM90_ROWS32_TURN_CUH */
