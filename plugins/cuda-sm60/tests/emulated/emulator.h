/* SPDX-License-Identifier: MIT
 * emulator.h - runs a kernel's blocks on the CPU. */
#ifndef OPREG_SM60_EMULATOR_H
#define OPREG_SM60_EMULATOR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void emulated_kernel(const void *parameters);

typedef struct emulated_thread {
    uint32_t index, count, block[3], grid[3];
} emulated_thread;
extern emulated_thread *emulated; /* the running thread */

/* Dynamic shared memory: filled with a pattern before each block. */
extern unsigned char *emulated_shared;

/* Every live thread of the block. */
void emulated_block_barrier(void);
/* The value that another lane of the wave gave to the same operation. */
uint32_t emulated_exchange(uint32_t value, uint32_t lane);

/* 0, or -1 where the launch is not possible. */
int emulated_launch(emulated_kernel *kernel, const void *parameters, const uint32_t grid[3],
                    uint32_t count, uint32_t shared);

/* The kernel of a symbol of the program; null where it is not emulated. */
emulated_kernel *emulated_symbol(uint32_t symbol);

#ifdef __cplusplus
}
#endif
#endif /* OPREG_SM60_EMULATOR_H */
