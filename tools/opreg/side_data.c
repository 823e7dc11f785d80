/* SPDX-License-Identifier: MIT
 * side_data.c - the side data that a GGUF file carries in its keys, by tensor. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/sidecar.h"
#include "model.h"

struct side_data {
    struct {
        sidecar_entry *entries;
        size_t count;
        uint64_t offset; /* of the wire in the file                                               */
    } wires[SIDECAR_WIRES];
};

side_data *side_data_open(const gguf *file, gguf_error *error) {
    side_data *side = calloc(1, sizeof *side);
    if (!side) {
        error->offset = 0;
        snprintf(error->text, sizeof error->text, "no memory for side data");
        return NULL;
    }
    for (int w = 0; w < SIDECAR_WIRES; w++) {
        const uint8_t *bytes;
        uint64_t size;
        if (!gguf_u8_array(file, sidecar_key((sidecar_wire)w), &bytes, &size)) {
            continue;
        }
        side->wires[w].offset = gguf_offset(file, bytes);
        if (sidecar_parse((sidecar_wire)w, bytes, size, &side->wires[w].entries,
                          &side->wires[w].count) != OPREG_OK) {
            error->offset = side->wires[w].offset;
            snprintf(error->text, sizeof error->text, "key %s: %.300s",
                     sidecar_key((sidecar_wire)w), opreg_last_error());
            side->wires[w].entries = NULL;
            side_data_close(side);
            return NULL;
        }
    }
    return side;
}

void side_data_close(side_data *side) {
    if (side) {
        for (int w = 0; w < SIDECAR_WIRES; w++) {
            free(side->wires[w].entries);
        }
        free(side);
    }
}

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

static int is_for(const sidecar_entry *e, const char *name) {
    char text[96];
    if (e->name) {
        return strlen(name) == e->name_bytes && memcmp(name, e->name, e->name_bytes) == 0;
    }
    snprintf(text, sizeof text, "blk.%" PRIu32 ".%s.weight", e->layer, part_of(e));
    return strcmp(name, text) == 0;
}

int side_data_get(const side_data *side, model_weight *weight, gguf_error *error) {
    const gguf_tensor *tensor = weight->tensor;
    uint32_t format = weight->format.format;
    if (format != OPREG_GQH3 && format != OPREG_GQH2_H && format != OPREG_GQH4 &&
        format != OPREG_ROCMFP3_MIX && format != OPREG_ROCMFP2_MIX) {
        return 1;
    }
    for (int w = 0; w < SIDECAR_WIRES; w++) {
        for (size_t i = 0; i < side->wires[w].count; i++) {
            const sidecar_entry *e = &side->wires[w].entries[i];
            if (!is_for(e, tensor->name)) {
                continue;
            }
            if (sidecar_fits(e, weight->format.ggml_type, tensor->ne, tensor->dims) != OPREG_OK) {
                error->offset = side->wires[w].offset + e->offset;
                snprintf(error->text, sizeof error->text, "key %s, tensor '%.100s': %.200s",
                         sidecar_key((sidecar_wire)w), tensor->name, opreg_last_error());
                return 0;
            }
            weight->side = e->side;
            weight->side_bytes = e->side_bytes;
            return 1;
        }
    }
    error->offset = tensor->info_at;
    snprintf(
        error->text, sizeof error->text,
        "tensor '%.100s': format %s needs side data, and no key of the file has an entry for it",
        tensor->name, weight->format.name);
    return 0;
}
