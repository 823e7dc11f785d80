/* SPDX-License-Identifier: MIT
 * peer.c - opreg-peer-ggml [--threads N] [--variant PART] [--rounds N] [--only matmul|attention]
 * [--amx on] */
#include "peer.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ggml-cpu.h>
#include <ggml.h>

void stop(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("opreg-peer-ggml: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(2);
}

float gaussian(void) {
    static uint64_t state = 1;
    double unit[2];
    for (int i = 0; i < 2; i++) {
        uint64_t z = state += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        unit[i] = ((double)((z ^ z >> 31) >> 12) + 0.5) * 0x1p-52;
    }
    return (float)(sqrt(-2.0 * log(unit[0])) * cos(6.283185307179586 * unit[1]));
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* An arm runs alone for so long before it is timed: longer than OpenMP's idle threads spin. */
#define WARM_US 6000.0

void time_arms(arm *arms, int count, int sets, int rounds) {
    int set = 0;
    for (int i = 0; i < count; i++) {
        arms[i].us = malloc((size_t)rounds * sizeof(double));
    }
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < count; i++) {
            double start = now_us();
            /* threads of the arm before spin on, and would hold a processor of this one's */
            do {
                arms[i].run(arms[i].state, set++ % sets);
            } while (now_us() - start < WARM_US);
            start = now_us();
            arms[i].run(arms[i].state, set++ % sets);
            arms[i].us[round] = now_us() - start;
        }
    }
    for (int i = 0; i < count; i++) {
        qsort(arms[i].us, (size_t)rounds, sizeof(double), by_value);
        arms[i].least = arms[i].us[0];
        arms[i].median = arms[i].us[rounds / 2];
        arms[i].spread = (arms[i].us[rounds * 3 / 4] - arms[i].us[rounds / 4]) / 2;
        free(arms[i].us);
    }
}

void print_arms(const char *problem, const arm *arms, int count, double bytes) {
    double best = 0.0;
    for (int i = 0; i < count; i++) {
        if (strncmp(arms[i].name, "ggml", 4) == 0 && (best == 0.0 || arms[i].least < best)) {
            best = arms[i].least;
        }
    }
    for (int i = 0; i < count; i++) {
        printf("%-34s %-28s %10.1f us (median %.1f +/- %.1f) %6.1f GB/s  %5.2fx\n", problem,
               arms[i].name, arms[i].least, arms[i].median, arms[i].spread,
               bytes / arms[i].least * 1e-3, best / arms[i].least);
    }
    fflush(stdout);
}

opreg_device cpu_device(opreg_registry *reg) {
    opreg_device rows[16];
    size_t count = opreg_devices(reg, rows, sizeof rows[0], 16);
    for (size_t i = 0; i < count && i < 16; i++) {
        if (rows[i].kind == OPREG_CPU) {
            return rows[i];
        }
    }
    stop("the registry has no CPU device");
    return rows[0];
}

static void say_nothing(enum ggml_log_level level, const char *text, void *user) {
    (void)level;
    (void)text;
    (void)user;
}

int main(int argc, char **argv) {
    options o = {1, "", 25, 0};
    const char *only = "";
    opreg_config config = {sizeof config, OPREG_CF_NO_ENV, NULL, NULL, NULL, NULL, 0, 0};
    opreg_registry *reg;
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) {
            stop("%s needs a value", argv[i]);
        } else if (strcmp(argv[i], "--threads") == 0) {
            o.threads = atoi(argv[i + 1]);
        } else if (strcmp(argv[i], "--variant") == 0) {
            o.variant = argv[i + 1];
        } else if (strcmp(argv[i], "--rounds") == 0) {
            o.rounds = atoi(argv[i + 1]);
        } else if (strcmp(argv[i], "--amx") == 0) {
            o.amx = strcmp(argv[i + 1], "on") == 0;
        } else if (strcmp(argv[i], "--only") == 0) {
            only = argv[i + 1];
        } else {
            stop("unknown option %s", argv[i]);
        }
    }
    if (o.threads < 1 || o.rounds < 5) {
        stop("--threads is at least 1 and --rounds at least 5");
    }
    config.threads = (uint32_t)o.threads;
    if (opreg_create(&config, &reg) != OPREG_OK || opreg_enable(reg, "cpu", "exact") != OPREG_OK) {
        stop("%s", opreg_last_error());
    }
    ggml_log_set(say_nothing, NULL);
    ggml_cpu_init();
    printf("# ggml: avx2 %d avx512 %d vnni %d amx %d; opreg %s; %d threads, %s\n",
           ggml_cpu_has_avx2(), ggml_cpu_has_avx512(), ggml_cpu_has_avx512_vnni(),
           ggml_cpu_has_amx_int8(), opreg_version(), o.threads, cpu_device(reg).name);
    printf("# ratio: the fastest ggml arm's least time over this arm's; weights cold at m = 1\n");
    if (strcmp(only, "attention") != 0) {
        compare_matmul(reg, &o);
    }
    if (strcmp(only, "matmul") != 0) {
        compare_attention(reg, &o);
    }
    if (opreg_destroy(reg) != OPREG_OK) {
        stop("%s", opreg_last_error());
    }
    return 0;
}
