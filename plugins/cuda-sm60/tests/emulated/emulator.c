/* SPDX-License-Identifier: MIT
 * emulator.c - the coroutines behind emulated_device.h. */
#include "emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define STACK_BYTES  (64u * 1024u)
#define MOST_THREADS 1024u
#define SHARED_BYTES (64u * 1024u)

typedef struct coroutine {
    ucontext_t context;
    emulated_thread thread;
    int done;
} coroutine;

static coroutine threads[MOST_THREADS];
static ucontext_t scheduler;
static uint32_t current, alive, waiting, barrier_round;
static uint32_t wave_waiting[MOST_THREADS / 32], wave_round[MOST_THREADS / 32];
static uint32_t wave_values[2][MOST_THREADS];
static emulated_kernel *running;
static const void *running_parameters;
static unsigned char *stacks;

emulated_thread *emulated;
unsigned char *emulated_shared;

static void yield(void) {
    uint32_t me = current;
    swapcontext(&threads[me].context, &scheduler);
    current = me;
    emulated = &threads[me].thread;
}

void emulated_block_barrier(void) {
    uint32_t round = barrier_round;
    waiting++;
    while (barrier_round == round && waiting < alive) {
        yield();
    }
    if (barrier_round == round) {
        waiting = 0;
        barrier_round++;
    }
}

uint32_t emulated_exchange(uint32_t value, uint32_t lane) {
    uint32_t wave = current / 32u, round = wave_round[wave];
    wave_values[round & 1u][current] = value;
    if (++wave_waiting[wave] == 32u) {
        wave_waiting[wave] = 0;
        wave_round[wave]++;
    }
    while (wave_round[wave] == round) {
        yield();
    }
    return wave_values[round & 1u][wave * 32u + lane];
}

static void enter(void) {
    running(running_parameters);
    threads[current].done = 1;
    alive--;
    if (waiting != 0 && waiting == alive) { /* those that wait do not wait for this one */
        waiting = 0;
        barrier_round++;
    }
    setcontext(&scheduler);
}

static void run_block(const uint32_t *block, const uint32_t *grid, uint32_t count) {
    memset(emulated_shared, 0xa5, SHARED_BYTES);
    alive = count;
    waiting = 0;
    memset(wave_waiting, 0, sizeof wave_waiting);
    for (uint32_t t = 0; t < count; t++) {
        coroutine *c = &threads[t];
        c->done = 0;
        c->thread.index = t;
        c->thread.count = count;
        memcpy(c->thread.block, block, sizeof c->thread.block);
        memcpy(c->thread.grid, grid, sizeof c->thread.grid);
        getcontext(&c->context);
        c->context.uc_stack.ss_sp = stacks + (size_t)t * STACK_BYTES;
        c->context.uc_stack.ss_size = STACK_BYTES;
        c->context.uc_link = NULL;
        makecontext(&c->context, enter, 0);
    }
    while (alive > 0) {
        for (uint32_t t = 0; t < count; t++) {
            if (!threads[t].done) {
                current = t;
                emulated = &threads[t].thread;
                swapcontext(&scheduler, &threads[t].context);
            }
        }
    }
}

int emulated_launch(emulated_kernel *kernel, const void *parameters, const uint32_t grid[3],
                    uint32_t count, uint32_t shared) {
    uint32_t block[3];
    if (stacks == NULL) {
        stacks = malloc((size_t)MOST_THREADS * STACK_BYTES);
        emulated_shared = aligned_alloc(256, SHARED_BYTES);
    }
    if (stacks == NULL || emulated_shared == NULL || count > MOST_THREADS || count % 32u != 0 ||
        shared > 48u * 1024u) {
        fprintf(stderr, "cannot emulate %u threads with %u shared bytes\n", count, shared);
        return -1;
    }
    running = kernel;
    running_parameters = parameters;
    for (block[2] = 0; block[2] < grid[2]; block[2]++) {
        for (block[1] = 0; block[1] < grid[1]; block[1]++) {
            for (block[0] = 0; block[0] < grid[0]; block[0]++) {
                run_block(block, grid, count);
            }
        }
    }
    return 0;
}
