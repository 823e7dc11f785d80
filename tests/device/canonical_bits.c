/* SPDX-License-Identifier: MIT
 * canonical_bits.c - a device and the host give the same bits for exp, tanh, log, the GLUs, scores
 * and stores at every f32.
 *
 * Needs a device, so it is no part of ctest.  README.md here has the commands. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "canonical_bits.h"

enum { MAX_THREADS = 64 };

typedef struct share {
    int which;
    atomic_int *next;
    uint64_t *digests;
} share;

static void *digest_chunks(void *argument) {
    const share *job = argument;
    int chunk;
    while ((chunk = atomic_fetch_add(job->next, 1)) < CHUNKS) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < CHUNK_SIZE; i++) {
            sum += digest_part(job->which, (uint32_t)chunk * CHUNK_SIZE + i);
        }
        job->digests[chunk] = sum;
    }
    return NULL;
}

static int host_digests(int which, uint64_t *digests) {
    pthread_t threads[MAX_THREADS];
    atomic_int next = 0;
    share job = {which, &next, digests};
    int started = 0;
    while (started < MAX_THREADS &&
           pthread_create(&threads[started], NULL, digest_chunks, &job) == 0) {
        started++;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    return started > 0;
}

int main(void) {
    static const char *const names[FUNCTIONS] = {FUNCTION_NAMES};
    static uint64_t host[CHUNKS], device[CHUNKS];
    int failed = 0;
    for (int which = 0; which < FUNCTIONS; which++) {
        int error = device_digests(which, device), wrong = 0;
        if (!host_digests(which, host) || error != 0) {
            printf("%s: did not run, device error %d\n", names[which], error);
            return 1;
        }
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            if (host[chunk] != device[chunk] && wrong++ == 0) {
                printf("%s: differs between inputs 0x%08x and 0x%08x\n", names[which],
                       (unsigned)chunk * CHUNK_SIZE,
                       (unsigned)chunk * CHUNK_SIZE + CHUNK_SIZE - 1u);
            }
        }
        failed += wrong > 0;
    }
    printf("%d functions at every f32, %d differ\n", FUNCTIONS, failed);
    return failed != 0;
}
