/* SPDX-License-Identifier: MIT
 * processor.h - what this processor lacks of an instruction set; null when it lacks nothing. */
#ifndef OPREG_CPU_PROCESSOR_H
#define OPREG_CPU_PROCESSOR_H

#include <stddef.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>

/* Not every compiler can ask for it by name. */
static inline int processor_has_f16c(void) {
    unsigned eax, ebx, ecx = 0, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

/* AVX2, FMA and F16C, and that the library has code for them. */
static inline const char *processor_lacks_avx2(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                   processor_has_f16c()
               ? NULL
               : "AVX2 with FMA and F16C";
#else
    return "AVX2";
#endif
}

static inline const char *processor_lacks_avx512(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    return processor_lacks_avx2() == NULL && __builtin_cpu_supports("avx512f") &&
                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni")
               ? NULL
               : "AVX-512 with BW and VNNI";
#else
    return "AVX-512";
#endif
}

#endif /* OPREG_CPU_PROCESSOR_H */
