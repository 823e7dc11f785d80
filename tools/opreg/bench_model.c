/* SPDX-License-Identifier: MIT
 * bench_model.c - what a token of a model asks of the registry: products by format and shape,
 * groups of experts, attention; each problem once, with how often a token needs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define MOST_CASES 512

/* A file's architecture, whose name starts its keys. */
typedef struct architecture {
    const gguf *file;
    char name[64];
} architecture;

static void architecture_of(const gguf *file, architecture *out) {
    const char *text;
    uint64_t length;
    out->file = file;
    out->name[0] = '\0';
    if (gguf_string(file, "general.architecture", &text, &length) && length < sizeof out->name) {
        memcpy(out->name, text, (size_t)length);
        out->name[length] = '\0';
    }
}

/* ARCHITECTURE.key, or its largest element where it is an array with an entry a layer. */
static int64_t integer_of(const architecture *a, const char *key, int64_t otherwise) {
    char full[160];
    uint64_t value, count;
    const uint8_t *elements;
    snprintf(full, sizeof full, "%s.%s", a->name, key);
    if (gguf_integer(a->file, full, &value)) {
        return value <= INT32_MAX ? (int64_t)value : otherwise;
    }
    if (gguf_array(a->file, full, GGUF_I32, &elements, &count) ||
        gguf_array(a->file, full, GGUF_U32, &elements, &count)) {
        int32_t most = 0;
        for (uint64_t i = 0; i < count; i++) {
            int32_t one;
            memcpy(&one, elements + 4 * i, sizeof one);
            most = one > most ? one : most;
        }
        return most > 0 ? most : otherwise;
    }
    return otherwise;
}

/* ---- cases ---- */

/* The case with the same problem, one more time; or a new one.  What an operator refuses is left
 * out. */
static void add_case(bench_model *model, opreg_op op, const char *text, int64_t count,
                     const model_weight *const *weights, uint32_t num_weights) {
    bench_case c;
    if (!bench_case_parse(text, op, &c) || model->count == MOST_CASES) {
        model->skipped++;
        return;
    }
    for (size_t i = 0; i < model->count; i++) {
        bench_case *other = &model->cases[i];
        if (other->op == op && memcmp(&other->problem, &c.problem, opreg_problem_size(op)) == 0) {
            other->count += count;
            return;
        }
    }
    c.count = count;
    for (uint32_t i = 0; i < num_weights; i++) {
        c.weights[i] = weights[i];
    }
    model->cases[model->count++] = c;
}

static const char *dialect_name(uint32_t dialect) {
    static const char *const names[] = {"default",        "rocmfp2_plain", "rocmfp2_signbit",
                                        "rocmfp2_affine", "rocmfp2_s40",   "nvfp4_host",
                                        "nvfp4_signed",   "rocmfp4_hip"};
    return names[dialect < sizeof names / sizeof *names ? dialect : 0];
}

static const char *glu_of(const architecture *a) {
    return strncmp(a->name, "gemma", 5) == 0 ? "gelu_tanh"
           : strcmp(a->name, "gpt-oss") == 0 ? "swiglu_oai"
                                             : "silu";
}

/* The tensor "PREFIX.NAME" among the weights; null when there is none. */
static const model_weight *sibling(const bench_model *model, size_t count, const char *tensor,
                                   size_t prefix, const char *name) {
    for (size_t i = 0; i < count; i++) {
        const char *other = model->weights[i].tensor->name;
        if (strncmp(other, tensor, prefix) == 0 && strcmp(other + prefix, name) == 0) {
            return &model->weights[i];
        }
    }
    return NULL;
}

static int same_kind(const model_weight *a, const model_weight *b) {
    return a && b && a->format.format == b->format.format && a->dialect == b->dialect &&
           a->experts == b->experts && a->n == b->n && a->k == b->k;
}

/* One layer's experts, found at its down matrix or at one that stands alone. */
static void add_experts(bench_model *model, size_t count, const architecture *a,
                        const model_weight *w, int64_t tokens) {
    const char *name = w->tensor->name, *last = strstr(name, "ffn_");
    size_t prefix = last ? (size_t)(last - name) : strlen(name);
    const model_weight *gate = sibling(model, count, name, prefix, "ffn_gate_exps.weight");
    const model_weight *up = sibling(model, count, name, prefix, "ffn_up_exps.weight");
    const model_weight *down = sibling(model, count, name, prefix, "ffn_down_exps.weight");
    const model_weight *all[3] = {gate, up, down};
    int paired = same_kind(gate, up) && down && down->experts == w->experts && down->n == gate->k &&
                 down->k == gate->n;
    char wrong[256], text[512], sizes[128];
    long long used = (long long)model_experts_used(a->file, w->experts, wrong);
    snprintf(sizes, sizeof sizes, "tokens=%lld experts=%lld top_k=%lld", (long long)tokens,
             (long long)w->experts, used);
    if (paired && w != down) {
        return; /* its layer is counted at down */
    }
    if (!paired) {
        snprintf(text, sizeof text, "%s n=%lld k=%lld b=%s dialect=%s%s", sizes, (long long)w->n,
                 (long long)w->k, w->format.name, dialect_name(w->dialect),
                 w == down ? " rows=dst" : "");
        add_case(model, w == down ? OPREG_OP_MOE_DOWN : OPREG_OP_MOE_MATMUL, text, 1, &w, 1);
    } else {
        snprintf(text, sizeof text, "%s n=%lld k=%lld b=%s dialect=%s glu=%s", sizes,
                 (long long)gate->n, (long long)gate->k, gate->format.name,
                 dialect_name(gate->dialect), glu_of(a));
        add_case(model, OPREG_OP_MOE_GLU, text, 1, all, 2);
        snprintf(text, sizeof text, "%s n=%lld k=%lld b=%s dialect=%s", sizes, (long long)down->n,
                 (long long)down->k, down->format.name, dialect_name(down->dialect));
        add_case(model, OPREG_OP_MOE_DOWN, text, 1, &down, 1);
        snprintf(text, sizeof text,
                 "%s hidden=%lld inter=%lld b=%s dialect=%s down=%s down_dialect=%s glu=%s", sizes,
                 (long long)gate->k, (long long)gate->n, gate->format.name,
                 dialect_name(gate->dialect), down->format.name, dialect_name(down->dialect),
                 glu_of(a));
        add_case(model, OPREG_OP_MOE_FFN, text, 1, all, 3);
    }
    if (w == down) {
        add_case(model, OPREG_OP_MOE_ROUTE, sizes, 1, NULL, 0);
        snprintf(text, sizeof text, "tokens=%lld top_k=%lld n=%lld", (long long)tokens, used,
                 (long long)down->n);
        add_case(model, OPREG_OP_MOE_COMBINE, text, 1, NULL, 0);
    }
}

/* Layers whose attention reads a window only: every layer, or all but each `period`-th. */
static int64_t windowed_layers(const architecture *a, int64_t layers) {
    static const struct {
        const char *name;
        int64_t period;
    } periods[] = {{"gemma2", 2}, {"gemma3", 6}, {"gpt-oss", 2}};
    int64_t period = integer_of(a, "attention.sliding_window_pattern", 0);
    if (integer_of(a, "attention.sliding_window", 0) == 0) {
        return 0;
    }
    for (size_t i = 0; period == 0 && i < sizeof periods / sizeof *periods; i++) {
        period = strcmp(a->name, periods[i].name) == 0 ? periods[i].period : 0;
    }
    return period > 1 ? layers - layers / period : layers;
}

static void add_attention(bench_model *model, const architecture *a, int64_t tokens,
                          int64_t context) {
    int64_t layers = integer_of(a, "block_count", 0),
            heads = integer_of(a, "attention.head_count", 0);
    int64_t kv = integer_of(a, "attention.head_count_kv", heads);
    int64_t width = integer_of(a, "embedding_length", 0);
    int64_t size = integer_of(a, "attention.key_length", heads > 0 ? width / heads : 0);
    int64_t most = integer_of(a, "context_length", context);
    int64_t windowed = windowed_layers(a, layers),
            window = integer_of(a, "attention.sliding_window", 0);
    char text[256], windows[32] = "";
    if (layers == 0 || heads == 0 || kv == 0 || size == 0) {
        return;
    }
    context = context < most ? context : most;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) {
            snprintf(windows, sizeof windows, " window=%lld", (long long)window);
        }
        /* the step's tokens are of as many sequences */
        snprintf(text, sizeof text, "seqs=%lld hq=%lld hk=%lld d=%lld len=%lld%s",
                 (long long)tokens, (long long)heads, (long long)kv, (long long)size,
                 (long long)context, windows);
        if ((pass ? windowed : layers - windowed) > 0) {
            add_case(model, OPREG_OP_PAGED_ATTN_DECODE, text, pass ? windowed : layers - windowed,
                     NULL, 0);
        }
    }
}

/* A token reads one row of these, or one of them is also the output matrix. */
static int is_read_by_row(const gguf *file, const char *name) {
    return (strcmp(name, "token_embd.weight") == 0 && gguf_tensor_named(file, "output.weight")) ||
           strcmp(name, "position_embd.weight") == 0 || strcmp(name, "token_types.weight") == 0;
}

int bench_model_open(const char *path, model_types *types, int64_t tokens, int64_t context,
                     bench_model *out, gguf_error *error) {
    architecture a;
    size_t count = 0, tensors;
    memset(out, 0, sizeof *out);
    out->file = gguf_open(path, model_type, types, error);
    out->side = out->file ? side_data_open(out->file, error) : NULL;
    if (!out->side) {
        return 0;
    }
    tensors = gguf_num_tensors(out->file);
    out->weights = calloc(tensors + 1, sizeof *out->weights);
    out->cases = calloc(MOST_CASES, sizeof *out->cases);
    if (!out->weights || !out->cases) {
        snprintf(error->text, sizeof error->text, "no memory");
        error->offset = 0;
        return 0;
    }
    for (size_t i = 0; i < tensors; i++) {
        const gguf_tensor *t = gguf_tensor_at(out->file, i);
        if (model_skips(types, t) || is_read_by_row(out->file, t->name)) {
            out->skipped++;
        } else if (!model_weight_get(out->file, types, out->side, t, &out->weights[count++],
                                     error)) {
            return 0;
        }
    }
    architecture_of(out->file, &a);
    for (size_t i = 0; i < count; i++) {
        const model_weight *w = &out->weights[i];
        char text[256];
        if (w->experts) {
            add_experts(out, count, &a, w, tokens);
            continue;
        }
        snprintf(text, sizeof text, "m=%lld n=%lld k=%lld b=%s dialect=%s", (long long)tokens,
                 (long long)w->n, (long long)w->k, w->format.name, dialect_name(w->dialect));
        add_case(out, OPREG_OP_MATMUL_BT_QUANT, text, 1, &w, 1);
    }
    add_attention(out, &a, tokens, context);
    return 1;
}

void bench_model_close(bench_model *model) {
    free(model->weights);
    free(model->cases);
    side_data_close(model->side);
    gguf_close(model->file);
}
