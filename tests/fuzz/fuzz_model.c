/* SPDX-License-Identifier: MIT
 * fuzz_model.c - the example engine opens a model file of any bytes or refuses it with a reason, and
 * one that it opens can be tokenized with and decoded. */
#define _GNU_SOURCE
#include "memory_file.h"

#include "engine.h"
#include "tokenizer.h"

#define LARGEST 4096 /* of each size of a model that is decoded: the rest is refused by memory alone */

static int is_small(const model *m) {
    return m->layers <= 8 && m->hidden <= LARGEST && m->inter <= LARGEST && m->heads <= 64 &&
           m->head_dim <= LARGEST && m->experts <= 64;
}

static void decode(const model *m, const int32_t *ids, int32_t count) {
    opreg_device dev;
    engine_options options = {.sequences = 1, .positions = 32, .batch = 8};
    reason why = {{0}};
    engine *e = engine_open(m, fuzz_registry(&dev), &options, &why);
    const float *logits;
    if (e == NULL) {
        FUZZ_CHECK(why.text[0] != '\0');
        return;
    }
    for (int32_t at = 0; at < count && at < 16; at += 8) {
        engine_part part = {0, ids + at, count - at < 8 ? count - at : 8, 1};
        if (!engine_decode(e, &part, 1, &logits, &why)) {
            FUZZ_CHECK(why.text[0] != '\0');
            break;
        }
    }
    engine_close(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char text[] = "ab<s>cd";
    char path[64], piece[8];
    int file = memory_file(data, size, path);
    reason why = {{0}};
    model m;
    if (!model_open(path, &m, &why)) {
        FUZZ_CHECK(why.text[0] != '\0');
        close(file);
        return 0;
    }
    tokenizer *t = tokenizer_open(m.file, &why);
    int32_t *ids = NULL, count = 0;
    if (t != NULL && tokenizer_encode(t, text, sizeof text - 1, &ids, &count, &why)) {
        for (int32_t i = 0; i < count; i++) {
            (void)tokenizer_piece(t, ids[i], piece, sizeof piece);
            (void)tokenizer_is_end(t, ids[i]);
        }
        if (is_small(&m)) {
            decode(&m, ids, count);
        }
        free(ids);
    }
    tokenizer_close(t);
    model_close(&m);
    close(file);
    return 0;
}
