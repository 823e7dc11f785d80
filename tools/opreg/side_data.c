/* SPDX-License-Identifier: MIT
 * side_data.c - the side data that a GGUF file carries in its keys, by tensor. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/sidecar.h"
#include "model.h"

/* An entry and the name of the tensor it is for. */
typedef struct named_entry {
    const char *name; /* no end mark */
    uint64_t length;
    const sidecar_entry *entry;
    uint64_t wire_at; /* offset of the wire in the file                                           */
} named_entry;

struct side_data {
    sidecar_entry *wires[SIDECAR_WIRES];
    named_entry *entries; /* sorted by name */
    size_t count;
    char (*made)[96]; /* names of entries that are by layer                                       */
};

/* The part that a wire by layer means: "ffn_down_exps" of "blk.LAYER.ffn_down_exps.weight". */
static const char *part_of(const sidecar_entry *e) {
    static const char *const surfaces[] = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"};
    static const char *const classes[] = {"attn_q_a", "attn_q_b", "attn_kv", "attn_output_a",
                                          "attn_output_b"};
    switch (e->wire) {
    case SIDECAR_DOWN:
        return surfaces[2];
    case SIDECAR_EXPERTS:
        return e->surface < 3 ? surfaces[e->surface] : "";
    case SIDECAR_ATTENTION:
        return e->surface < 5 ? classes[e->surface] : "";
    default:
        return "";
    }
}

static int compare_entries(const void *a, const void *b) {
    const named_entry *x = a, *y = b;
    size_t common = (size_t)(x->length < y->length ? x->length : y->length);
    int order = memcmp(x->name, y->name, common);
    return order ? order : (x->length > y->length) - (x->length < y->length);
}

static int no_memory(gguf_error *error) {
    error->offset = 0;
    snprintf(error->text, sizeof error->text, "no memory for side data");
    return 0;
}

/* Puts the entries of all wires in one list, sorted for look-ups. */
static int name_entries(side_data *side, const size_t counts[SIDECAR_WIRES],
                        const uint64_t offsets[SIDECAR_WIRES], gguf_error *error) {
    size_t total = 0;
    for (int w = 0; w < SIDECAR_WIRES; w++) {
        total += counts[w];
    }
    side->entries = calloc(total + 1, sizeof *side->entries);
    side->made = calloc(total + 1, sizeof *side->made);
    if (!side->entries || !side->made) {
        return no_memory(error);
    }
    for (int w = 0; w < SIDECAR_WIRES; w++) {
        for (size_t i = 0; i < counts[w]; i++) {
            const sidecar_entry *e = &side->wires[w][i];
            named_entry *named = &side->entries[side->count];
            char *made = side->made[side->count++];
            if (!e->name) {
                snprintf(made, sizeof *side->made, "blk.%" PRIu32 ".%s.weight", e->layer,
                         part_of(e));
            }
            *named = (named_entry){e->name ? e->name : made, e->name ? e->name_bytes : strlen(made),
                                   e, offsets[w]};
        }
    }
    qsort(side->entries, side->count, sizeof *side->entries, compare_entries);
    return 1;
}

side_data *side_data_open(const gguf *file, gguf_error *error) {
    side_data *side = calloc(1, sizeof *side);
    size_t counts[SIDECAR_WIRES] = {0};
    uint64_t offsets[SIDECAR_WIRES] = {0};
    if (!side) {
        no_memory(error);
        return NULL;
    }
    for (int w = 0; w < SIDECAR_WIRES; w++) {
        const char *key = sidecar_key((sidecar_wire)w);
        const uint8_t *bytes;
        uint64_t size;
        if (!gguf_u8_array(file, key, &bytes, &size)) {
            continue;
        }
        offsets[w] = gguf_offset(file, bytes);
        if (sidecar_parse((sidecar_wire)w, bytes, size, &side->wires[w], &counts[w]) != OPREG_OK) {
            error->offset = offsets[w];
            snprintf(error->text, sizeof error->text, "key %s: %.300s", key, opreg_last_error());
            side->wires[w] = NULL;
            side_data_close(side);
            return NULL;
        }
    }
    if (!name_entries(side, counts, offsets, error)) {
        side_data_close(side);
        return NULL;
    }
    return side;
}

void side_data_close(side_data *side) {
    if (side) {
        for (int w = 0; w < SIDECAR_WIRES; w++) {
            free(side->wires[w]);
        }
        free(side->entries);
        free(side->made);
        free(side);
    }
}

int side_data_get(const side_data *side, model_weight *weight, gguf_error *error) {
    const gguf_tensor *tensor = weight->tensor;
    uint32_t format = weight->format.format;
    named_entry wanted;
    const named_entry *found;
    if (format != OPREG_GQH3 && format != OPREG_GQH2_H && format != OPREG_GQH4 &&
        format != OPREG_ROCMFP3_MIX && format != OPREG_ROCMFP2_MIX) {
        return 1;
    }
    wanted = (named_entry){tensor->name, strlen(tensor->name), NULL, 0};
    found = bsearch(&wanted, side->entries, side->count, sizeof wanted, compare_entries);
    if (found) {
        const sidecar_entry *e = found->entry;
        if (sidecar_fits(e, weight->format.ggml_type, tensor->ne, tensor->dims) != OPREG_OK) {
            error->offset = found->wire_at + e->offset;
            snprintf(error->text, sizeof error->text, "key %s, tensor '%.100s': %.200s",
                     sidecar_key(e->wire), tensor->name, opreg_last_error());
            return 0;
        }
        weight->side = e->side;
        weight->side_bytes = e->side_bytes;
        return 1;
    }
    error->offset = tensor->info_at;
    snprintf(
        error->text, sizeof error->text,
        "tensor '%.100s': format %s needs side data, and no key of the file has an entry for it",
        tensor->name, weight->format.name);
    return 0;
}
