/* SPDX-License-Identifier: MIT
 * compare_devices.c - one model on the CPU and on a plugin's device: the same logits, bit by bit, and the
 * same ids.
 *
 *   compare_devices MODEL.gguf PLUGIN MANIFEST_FOLDER
 *
 * Exit status 77 where the plugin finds no device, or the model is not here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine.h"
#include "sample.h"

#define PROMPT 16
#define TOKENS 40 /* the rest is what the CPU chooses */
#define SKIPPED 77

static model subject;
static int32_t ids[TOKENS];
static float *expected; /* [TOKENS, vocab] */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int complain(const char *what, const char *why) {
    printf("%s: %s\n", what, why);
    return 1;
}

static engine *open_engine(opreg_registry *registry, const opreg_device *device, int no_graphs) {
    engine_options options = {.sequences = 2,
                              .positions = 4 * TOKENS,
                              .batch = TOKENS,
                              .no_graphs = (uint32_t)no_graphs,
                              .device = device};
    reason why = {{0}};
    engine *e = engine_open(&subject, registry, &options, &why);
    if (!e) {
        complain("engine", why.text);
    }
    return e;
}

/* Every token's logits on the CPU, one by one; what follows the prompt is chosen from them. */
static int decode_on_cpu(void) {
    opreg_config config = {.struct_size = sizeof config,
                           .flags = OPREG_CF_NO_ENV | OPREG_CF_NO_INSTALLED};
    size_t row = (size_t)subject.vocab;
    opreg_registry *registry = NULL;
    reason why = {{0}};
    engine *e = NULL;
    int done = opreg_create(&config, &registry) == OPREG_OK &&
               opreg_enable(registry, "cpu", "exact") == OPREG_OK &&
               (e = open_engine(registry, NULL, 0)) != NULL;
    expected = malloc(TOKENS * row * sizeof *expected);
    for (int32_t i = 0; done && expected && i < TOKENS; i++) {
        engine_part part = {0, &ids[i], 1, 1};
        const float *logits;
        if (i < PROMPT) {
            ids[i] = (i * 37 + 11) % subject.vocab;
        } else {
            ids[i] = sample_greedy(expected + (size_t)(i - 1) * row, subject.vocab);
        }
        done = engine_decode(e, &part, 1, &logits, &why);
        if (done) {
            memcpy(expected + (size_t)i * row, logits, row * sizeof *logits);
        }
    }
    if (!done) {
        complain("cpu", why.text[0] != '\0' ? why.text : opreg_last_error());
    }
    engine_close(e);
    opreg_destroy(registry);
    return done && expected;
}

/* The same tokens, width at a time, with a second sequence beside them: 0 when all bits are equal. */
static int compare_logits(engine *e, int32_t width, const char *what) {
    size_t row = (size_t)subject.vocab;
    reason why = {{0}};
    engine_truncate(e, 0, 0);
    engine_truncate(e, 1, 0);
    for (int32_t at = 0; at < TOKENS; at += width) {
        int32_t count = TOKENS - at < width ? TOKENS - at : width;
        engine_part parts[2] = {{1, &ids[TOKENS - 1 - at / width], 1, 0}, {0, ids + at, count, count}};
        const float *logits;
        int beside = at / width % 2;
        if (!engine_decode(e, parts + 1 - beside, 1 + beside, &logits, &why)) {
            return complain(what, why.text);
        }
        for (size_t i = 0; i < (size_t)count * row; i++) {
            const float want = expected[(size_t)at * row + i];
            if (memcmp(&logits[i], &want, sizeof want) != 0) {
                printf("%s, width %d: logit %zu of token %d is %a, on the CPU %a\n", what,
                       (int)width, i % row, (int)(at + (int32_t)(i / row)), (double)logits[i],
                       (double)want);
                return 1;
            }
        }
    }
    return 0;
}

/* The prompt in one pass, then each token that the device itself chooses. */
static int compare_ids(engine *e, const char *what, double *per_second) {
    engine_part part = {0, ids, PROMPT, 1};
    const int32_t *chosen;
    reason why = {{0}};
    double start = 0;
    int32_t next;
    engine_truncate(e, 0, 0);
    engine_truncate(e, 1, 0);
    for (int32_t i = PROMPT; i < TOKENS; i++) {
        if (!engine_choose(e, &part, 1, &chosen, &why)) {
            return complain(what, why.text);
        }
        next = chosen[0];
        if (next != ids[i]) {
            printf("%s: token %d is %d, on the CPU %d\n", what, (int)i, (int)next, (int)ids[i]);
            return 1;
        }
        part = (engine_part){0, &next, 1, 1};
        start = i == PROMPT + 3 ? now() : start; /* the first ones make plans and graphs */
    }
    *per_second = (TOKENS - PROMPT - 4) / (now() - start);
    return 0;
}

/* A registry with the plugin at this level, and its first device. */
static int open_plugin(const char *plugin, const char *folder, const char *level,
                       opreg_registry **registry, opreg_device *device) {
    opreg_config config = {.struct_size = sizeof config,
                           .flags = OPREG_CF_NO_ENV | OPREG_CF_NO_INSTALLED};
    opreg_device rows[2];
    if (opreg_create(&config, registry) != OPREG_OK ||
        opreg_discover(*registry, folder) != OPREG_OK ||
        opreg_enable(*registry, plugin, level) != OPREG_OK) {
        return complain(plugin, opreg_last_error());
    }
    if (opreg_devices(*registry, rows, sizeof rows[0], 2) < 2) { /* the first is the CPU */
        printf("skipped: plugin %s finds no device here\n", plugin);
        return SKIPPED;
    }
    *device = rows[1];
    return 0;
}

static int compare_level(const char *plugin, const char *folder, const char *level,
                         int no_graphs) {
    opreg_device device;
    opreg_registry *registry = NULL;
    engine *e = NULL;
    double per_second = 0;
    char what[96];
    int bad = open_plugin(plugin, folder, level, &registry, &device);
    snprintf(what, sizeof what, "%s=%s%s", plugin, level, no_graphs ? " without graphs" : "");
    if (!bad) {
        e = open_engine(registry, &device, no_graphs);
        bad = !e || compare_logits(e, 1, what) || compare_logits(e, 5, what) ||
              compare_logits(e, TOKENS, what) || compare_ids(e, what, &per_second);
    }
    if (!bad) {
        printf("%-32s %d tokens at widths 1, 5 and %d: the bits of the CPU; %.0f tokens/s\n", what,
               TOKENS, TOKENS, per_second);
    }
    for (size_t i = 0; bad && e && engine_kernel(e, i); i++) {
        printf("    %s\n", engine_kernel(e, i));
    }
    engine_close(e);
    opreg_destroy(registry);
    return bad;
}

int main(int argc, char **argv) {
    opreg_registry *registry = NULL;
    opreg_device device;
    reason why = {{0}};
    FILE *file;
    int status;
    if (argc != 4) {
        fprintf(stderr, "usage: compare_devices MODEL.gguf PLUGIN MANIFEST_FOLDER\n");
        return 2;
    }
    file = fopen(argv[1], "rb");
    if (!file) {
        printf("skipped: %s is not here\n", argv[1]);
        return SKIPPED;
    }
    fclose(file);
    status = open_plugin(argv[2], argv[3], "on", &registry, &device); /* before the CPU works */
    opreg_destroy(registry);
    if (status == 0 && !model_open(argv[1], &subject, &why)) {
        status = complain(argv[1], why.text);
    }
    status = status ? status : !decode_on_cpu();
    status = status ? status : compare_level(argv[2], argv[3], "on", 0);
    status = status ? status : compare_level(argv[2], argv[3], "exact", 0);
    status = status ? status : compare_level(argv[2], argv[3], "exact", 1);
    free(expected);
    model_close(&subject);
    return status;
}
