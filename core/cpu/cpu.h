/* SPDX-License-Identifier: MIT
 * cpu.h - what the files of the built-in CPU backend share. */
#ifndef OPREG_CPU_H
#define OPREG_CPU_H

#include "canonical.h"
#include "formats/formats.h"

/* Hot loops compiled twice, once with the fused multiply-add of AVX2 machines, so that fmaf is an
 * instruction and not a call.  The bits are the same.  Not with sanitizers, whose runtime is not
 * there yet when the loader chooses. */
#if defined(__has_attribute)
#if defined(__x86_64__) && defined(__gnu_linux__) && __has_attribute(target_clones) &&             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define CPU_HOT __attribute__((flatten, target_clones("fma", "default")))
#endif
#endif
#ifndef CPU_HOT
#define CPU_HOT
#endif

/* The entry that opreg_create adds: the plugin "cpu". */
opreg_status opreg_cpu_entry(const opreg_host *host, opreg_plugin *out);

extern const opreg_device_io cpu_io;
extern const opreg_device_steps cpu_steps;

/* The part of a workspace that starts at *used, which grows by bytes and stays 64-byte aligned.
 * Called with a null base it only counts. */
static inline void *workspace_take(void *base, uint64_t *used, uint64_t bytes) {
    uint64_t at = *used;
    *used = at + ((bytes + 63u) & ~(uint64_t)63u);
    return base == NULL ? NULL : (uint8_t *)base + at;
}

#endif /* OPREG_CPU_H */
