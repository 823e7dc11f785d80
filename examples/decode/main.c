/* SPDX-License-Identifier: MIT
 * main.c - opreg-decode: continues a text with a GGUF model. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine.h"
#include "sample.h"
#include "tokenizer.h"

static const char usage[] =
    "usage: opreg-decode MODEL.gguf -p TEXT [options]\n"
    "  -p TEXT           the text to continue\n"
    "  -n COUNT          tokens to add (default 64)\n"
    "  --ids             print token ids, the prompt's and the new ones, instead of text\n"
    "  --temp T          temperature; 0, the default, takes the most likely token\n"
    "  --seed S          of the draws (default 1)\n"
    "  --copies S        decode S sequences at once, seeds S, S + 1, ... (default 1)\n"
    "  --device NAME     cuda:0, hip:0, ... of a plugin that is on (default: cpu)\n"
    "  --no-graphs       launch every kernel, also where a pass could be captured\n"
    "  --threads N       of the CPU (default: all)\n"
    "  --batch N         tokens of the prompt per pass (default 64)\n"
    "  --ignore-end      go on after the token that ends a text\n"
    "  --help            print this text\n"
    "Which kernels run is chosen by opreg's variables, e.g. OPREG_CPU=exact.\n";

typedef struct options {
    const char *model, *prompt, *device;
    int32_t count, copies, threads, batch;
    int ids, ignore_end, no_graphs;
    float temperature;
    uint64_t seed;
} options;

/* One sequence being decoded. */
typedef struct stream {
    int32_t next; /* the token that was chosen last, not decoded yet */
    uint64_t random;
    int32_t *ids;
    int32_t count;
    int ended;
} stream;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int read_count(const char *word, int32_t *out) {
    char *end;
    long value = strtol(word, &end, 10);
    if (*word == '\0' || *end != '\0' || value < 1 || value > 1000000) {
        return 0;
    }
    *out = (int32_t)value;
    return 1;
}

static int read_options(int argc, char **argv, options *o) {
    *o = (options){.count = 64, .copies = 1, .batch = 64, .seed = 1};
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        char *end = NULL;
        int good = 1, takes = 1;
        if (strcmp(word, "-p") == 0) {
            o->prompt = value;
            good = i + 1 < argc;
        } else if (strcmp(word, "-n") == 0) {
            good = read_count(value, &o->count);
        } else if (strcmp(word, "--copies") == 0) {
            good = read_count(value, &o->copies) && o->copies <= 256;
        } else if (strcmp(word, "--threads") == 0) {
            good = read_count(value, &o->threads) && o->threads <= 1024;
        } else if (strcmp(word, "--batch") == 0) {
            good = read_count(value, &o->batch) && o->batch <= 4096;
        } else if (strcmp(word, "--device") == 0) {
            o->device = value;
            good = i + 1 < argc;
        } else if (strcmp(word, "--temp") == 0) {
            o->temperature = strtof(value, &end);
            good = end != value && *end == '\0' && o->temperature >= 0.0f;
        } else if (strcmp(word, "--seed") == 0) {
            o->seed = strtoull(value, &end, 10);
            good = end != value && *end == '\0';
        } else {
            takes = 0;
            if (strcmp(word, "--ids") == 0) {
                o->ids = 1;
            } else if (strcmp(word, "--ignore-end") == 0) {
                o->ignore_end = 1;
            } else if (strcmp(word, "--no-graphs") == 0) {
                o->no_graphs = 1;
            } else if (word[0] != '-' && !o->model) {
                o->model = word;
            } else {
                good = 0;
            }
        }
        if (!good) {
            fprintf(stderr, "opreg-decode: '%s %s' is not understood\n%s", word,
                    takes ? value : "", usage);
            return 0;
        }
        i += takes;
    }
    if (!o->model || !o->prompt) {
        fprintf(stderr, "%s", usage);
        return 0;
    }
    return 1;
}

/* One pass, and what each row of logits that it asks for says is next: drawn by the stream of its part,
 * or the most likely, which the device finds. */
static int choose(engine *e, const options *o, int32_t vocab, const engine_part *parts,
                  int32_t count, stream *streams, reason *why) {
    const float *logits = NULL;
    const int32_t *ids = NULL;
    int greedy = !(o->temperature > 0.0f);
    int64_t row = 0;
    if (greedy ? !engine_choose(e, parts, count, &ids, why)
               : !engine_decode(e, parts, count, &logits, why)) {
        return 0;
    }
    for (int32_t i = 0; i < count; i++) {
        stream *of = &streams[parts[i].sequence];
        if (parts[i].logits > 0) {
            of->next = greedy ? ids[row]
                              : sample(logits + row * vocab, vocab, o->temperature, &of->random);
            row++;
        }
    }
    return 1;
}

/* Decodes the prompt for every sequence, in passes of at most batch tokens. */
static int read_prompt(engine *e, const options *o, const int32_t *ids, int32_t count,
                       int32_t vocab, stream *streams, reason *why) {
    for (int32_t s = 0; s < o->copies; s++) {
        for (int32_t at = 0; at < count; at += o->batch) {
            int32_t left = count - at, step = left < o->batch ? left : o->batch;
            engine_part part = {s, ids + at, step, left == step};
            if (!choose(e, o, vocab, &part, 1, streams, why)) {
                return 0;
            }
        }
    }
    return 1;
}

/* Takes each stream's next token as its own, and decodes them all in one pass. */
static int step(engine *e, const options *o, const tokenizer *t, int32_t vocab, stream *streams,
                engine_part *parts, reason *why) {
    int32_t live = 0;
    for (int32_t s = 0; s < o->copies; s++) {
        stream *of = &streams[s];
        if (of->ended) {
            continue;
        }
        of->ids[of->count++] = of->next;
        if ((tokenizer_is_end(t, of->next) && !o->ignore_end) || of->count == o->count) {
            of->ended = 1;
            continue;
        }
        parts[live++] = (engine_part){s, &of->next, 1, 1};
    }
    return live == 0 || choose(e, o, vocab, parts, live, streams, why);
}

static void print_token(const tokenizer *t, const options *o, int32_t id) {
    char piece[512];
    size_t length = tokenizer_piece(t, id, piece, sizeof piece);
    if (o->ids) {
        printf("%d ", (int)id);
    } else {
        fwrite(piece, 1, length < sizeof piece ? length : sizeof piece, stdout);
    }
    fflush(stdout);
}

/* The first sequence is printed as it comes, the others when all have ended. */
static int decode(engine *e, const options *o, const tokenizer *t, const int32_t *ids,
                  int32_t count, int32_t vocab, stream *streams, engine_part *parts, reason *why) {
    double start = now(), middle;
    int64_t made = 0, alive = 1;
    for (int32_t i = 0; o->ids && i < count; i++) {
        printf("%d ", (int)ids[i]);
    }
    printf("%s", o->ids ? "\n" : o->prompt);
    fflush(stdout);
    if (!read_prompt(e, o, ids, count, vocab, streams, why)) {
        return 0;
    }
    middle = now();
    while (alive > 0) {
        int32_t before = streams[0].count;
        if (!step(e, o, t, vocab, streams, parts, why)) {
            return 0;
        }
        if (streams[0].count > before) {
            print_token(t, o, streams[0].ids[before]);
        }
        alive = 0;
        for (int32_t s = 0; s < o->copies; s++) {
            alive += !streams[s].ended;
        }
    }
    printf("\n");
    for (int32_t s = 0; s < o->copies; s++) {
        made += streams[s].count;
        for (int32_t i = 0; s > 0 && i < streams[s].count; i++) {
            print_token(t, o, streams[s].ids[i]);
        }
        printf("%s", s > 0 ? "\n" : "");
    }
    fprintf(stderr, "prompt: %d tokens, %.1f tokens/s; decode: %d tokens, %.1f tokens/s\n",
            (int)(count * o->copies), count * o->copies / (middle - start), (int)made,
            (double)made / (now() - middle));
    return 1;
}

/* "cuda:0" among the registry's devices. */
static int find_device(opreg_registry *registry, const char *name, opreg_device *out, reason *why) {
    static const char *const kinds[] = {"", "cpu", "cuda", "hip"};
    opreg_device rows[64];
    size_t count = opreg_devices(registry, rows, sizeof rows[0], 64);
    for (size_t i = 0; i < count && i < 64; i++) {
        char called[32];
        snprintf(called, sizeof called, "%s:%d", kinds[rows[i].kind < 4 ? rows[i].kind : 0],
                 (int)rows[i].ordinal);
        if (strcmp(called, name) == 0) {
            *out = rows[i];
            return 1;
        }
    }
    return refuse(why, "no device '%s': is its plugin on? OPREG_CUDA_SM90=exact, for one", name);
}

static int run(const options *o, const model *m, const tokenizer *t, opreg_registry *registry,
               reason *why) {
    opreg_device device;
    engine_options sizes = {.sequences = o->copies, .no_graphs = (uint32_t)o->no_graphs};
    stream *streams = calloc((size_t)o->copies, sizeof *streams);
    engine_part *parts = calloc((size_t)o->copies, sizeof *parts);
    int32_t *ids = NULL, count = 0;
    engine *e = NULL;
    int done = streams && parts ? 1 : refuse(why, "no memory");
    for (int32_t s = 0; done && s < o->copies; s++) {
        streams[s].random = o->seed + (uint64_t)s;
        streams[s].ids = calloc((size_t)o->count, sizeof(int32_t));
        done = streams[s].ids ? 1 : refuse(why, "no memory");
    }
    done = done && tokenizer_encode(t, o->prompt, strlen(o->prompt), &ids, &count, why);
    if (done && count == 0) {
        done = refuse(why, "the prompt has no tokens");
    }
    if (done) {
        int64_t positions = ((int64_t)count + o->count + 32) * o->copies;
        sizes.positions = (int32_t)positions;
        sizes.batch = o->copies > o->batch ? o->copies : o->batch;
        done = positions <= INT32_MAX ? 1 : refuse(why, "too many positions");
    }
    if (done && o->device) {
        sizes.device = &device;
        done = find_device(registry, o->device, &device, why);
    }
    e = done ? engine_open(m, registry, &sizes, why) : NULL;
    done = e && decode(e, o, t, ids, count, m->vocab, streams, parts, why);
    engine_close(e);
    for (int32_t s = 0; streams && s < o->copies; s++) {
        free(streams[s].ids);
    }
    free(streams);
    free(parts);
    free(ids);
    return done;
}

int main(int argc, char **argv) {
    options o;
    opreg_config config = {.struct_size = sizeof config};
    opreg_registry *registry = NULL;
    tokenizer *t = NULL;
    model m = {0};
    reason why = {{0}};
    int done;
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        printf("%s", usage);
        return 0;
    }
    if (!read_options(argc, argv, &o)) {
        return 2;
    }
    config.threads = (uint32_t)o.threads;
    done = model_open(o.model, &m, &why);
    if (done && opreg_create(&config, &registry) != OPREG_OK) {
        done = refuse(&why, "%s", opreg_last_error());
    }
    t = done ? tokenizer_open(m.file, &why) : NULL;
    done = t && run(&o, &m, t, registry, &why);
    if (!done) {
        fprintf(stderr, "opreg-decode: %s\n", why.text);
    }
    tokenizer_close(t);
    opreg_destroy(registry);
    model_close(&m);
    return done ? 0 : 1;
}
