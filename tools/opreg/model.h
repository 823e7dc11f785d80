/* SPDX-License-Identifier: MIT
 * model.h - a GGUF file as weights that opreg can run: formats, dialects, shapes, side data. */
#ifndef OPREG_TOOLS_MODEL_H
#define OPREG_TOOLS_MODEL_H

#include "gguf.h"
#include "opreg/opreg.h"

/* Type ids whose reading the user chose: --type ID=FORMAT[:DIALECT]. */
#define MODEL_MAX_CHOICES 16
typedef struct model_types {
    size_t count;
    struct {
        uint32_t id, format, dialect;
    } choices[MODEL_MAX_CHOICES];
} model_types;

typedef struct model_weight {
    const gguf_tensor *tensor;
    opreg_format_row format;
    uint32_t dialect;
    int64_t experts, n, k; /* experts 0: a plain matrix                                           */
    const uint8_t *data;   /* in the mapped file                                                  */
    uint64_t row_bytes, expert_bytes;
    const void *side; /* this tensor's entry in the mapped file; null when there is none       */
    uint64_t side_bytes;
    float tensor_scale; /* 0 when the file has none                                               */
} model_weight;

/* Adds a choice.  0 with error set when the text is wrong, or gives an id that means one thing in
 * every file another format.  Such an id may get another dialect of its own format. */
int model_types_add(model_types *types, const char *text, char error[256]);

/* The gguf_type_fn of this program; user is a const model_types *.  An id that several projects
 * claim is refused until the user chose. */
int model_type(void *user, uint32_t id, gguf_type *out);

/* Why a tensor is no weight of a matrix product; null when it is one.  Static text. */
const char *model_skips(const model_types *types, const gguf_tensor *tensor);

/* Experts a token of a layer with that many: ARCHITECTURE.expert_used_count of the file, at most
 * MODEL_MAX_USED.  Where the key is not there: 4, or all when they are fewer; the same, and wrong is
 * a line about it, where its value cannot be.  wrong is "" else. */
#define MODEL_MAX_USED 64
int64_t model_experts_used(const gguf *file, int64_t experts, char wrong[256]);

/* The side data of a file (side_data.c), parsed once.  Null with *error when it is bad.  Lives as
 * long as the file. */
typedef struct side_data side_data;
side_data *side_data_open(const gguf *file, gguf_error *error);
void side_data_close(side_data *side); /* null is fine */

/* Gives a weight its entry.  1 also when its format has none. */
int side_data_get(const side_data *side, model_weight *weight, gguf_error *error);

/* A tensor that model_skips passed, valid as long as the file and its side data.  0 with *error
 * when its side data is missing or wrong. */
int model_weight_get(const gguf *file, const model_types *types, const side_data *side,
                     const gguf_tensor *tensor, model_weight *out, gguf_error *error);

#endif /* OPREG_TOOLS_MODEL_H */
