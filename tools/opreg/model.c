/* SPDX-License-Identifier: MIT
 * model.c - tensors of a GGUF file as weights of opreg. */
#include "model.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Types of GGUF files that hold no weights of a matrix product here: sizes, to skip them. */
static const struct {
    uint32_t id;
    gguf_type type;
} other_types[] = {{9, {"q8_1", 32, 36}}, {15, {"q8_k", 256, 292}}, {24, {"i8", 1, 1}},
                   {25, {"i16", 1, 2}},   {26, {"i32", 1, 4}},      {27, {"i64", 1, 8}},
                   {28, {"f64", 1, 8}},   {34, {"tq1_0", 256, 54}}, {35, {"tq2_0", 256, 66}}};

/* Ids that more than one project gave to formats of its own. */
static const struct {
    uint32_t id;
    const char *reason;
} claimed[] = {{42, "type id 42 is claimed by several formats; say which with --type 42=q2_0"},
               {107, "type id 107 has four readings; say which with --type 107=rocmfp2:DIALECT "
                     "(plain, signbit, affine, s40)"}};

static const struct {
    const char *name;
    uint32_t format, dialect;
} dialects[] = {{"plain", OPREG_ROCMFP2, OPREG_DIALECT_ROCMFP2_PLAIN},
                {"signbit", OPREG_ROCMFP2, OPREG_DIALECT_ROCMFP2_SIGNBIT},
                {"affine", OPREG_ROCMFP2, OPREG_DIALECT_ROCMFP2_AFFINE},
                {"s40", OPREG_ROCMFP2, OPREG_DIALECT_ROCMFP2_S40},
                {"host", OPREG_NVFP4, OPREG_DIALECT_NVFP4_HOST},
                {"signed", OPREG_NVFP4, OPREG_DIALECT_NVFP4_SIGNED},
                {"hip", OPREG_ROCMFP4, OPREG_DIALECT_ROCMFP4_HIP},
                {"hip", OPREG_ROCMFP4_FAST, OPREG_DIALECT_ROCMFP4_HIP}};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* What the files agree on stays so: an id that has one meaning may get another dialect of its own
 * format, and no other format.  The blocks would be read as something else, and might pass. */
static int may_be_named(uint32_t id, const opreg_format_row *row, char error[256]) {
    opreg_format_row known = {.struct_size = sizeof known};
    const char *means = NULL;
    for (size_t i = 0; i < COUNT(claimed); i++) {
        if (claimed[i].id == id) {
            return 1;
        }
    }
    for (size_t i = 0; i < COUNT(other_types); i++) {
        means = other_types[i].id == id ? other_types[i].type.name : means;
    }
    if (!means && id <= INT32_MAX && opreg_format_by_ggml_type((int32_t)id, &known) == OPREG_OK &&
        known.format != row->format) {
        means = known.name;
    }
    if (means) {
        snprintf(error, 256,
                 "--type %u=%s: type id %u means %s in every file; ids 42 and 107 and "
                 "unknown ones may be given a format",
                 id, row->name, id, means);
    }
    return means == NULL;
}

int model_types_add(model_types *types, const char *text, char error[256]) {
    char format[33] = "", dialect[33] = "";
    unsigned id = 0;
    int end = 0;
    opreg_format_row row = {.struct_size = sizeof row};
    uint32_t reading = OPREG_DIALECT_DEFAULT;
    if (!isdigit((unsigned char)text[0]) ||
        sscanf(text, "%9u=%32[a-z0-9_]%n", &id, format, &end) != 2 ||
        (text[end] != '\0' && (sscanf(text + end, ":%32[a-z0-9_]", dialect) != 1 ||
                               strlen(dialect) + 1 != strlen(text + end)))) {
        snprintf(error, 256,
                 "--type takes ID=FORMAT or ID=FORMAT:DIALECT, ID a number from 0, not '%.100s'",
                 text);
        return 0;
    }
    if (opreg_format_by_name(format, &row) != OPREG_OK) {
        snprintf(error, 256, "--type %.60s: %.160s", text, opreg_last_error());
        return 0;
    }
    if (!may_be_named(id, &row, error)) {
        return 0;
    }
    for (size_t i = 0; dialect[0] && reading == OPREG_DIALECT_DEFAULT; i++) {
        if (i == COUNT(dialects)) {
            snprintf(error, 256, "--type %.60s: format %s has no dialect '%s'", text, format,
                     dialect);
            return 0;
        }
        if (dialects[i].format == row.format && strcmp(dialects[i].name, dialect) == 0) {
            reading = dialects[i].dialect;
        }
    }
    if (types->count == MODEL_MAX_CHOICES) {
        snprintf(error, 256, "--type is given more than %d times", MODEL_MAX_CHOICES);
        return 0;
    }
    types->choices[types->count].id = id;
    types->choices[types->count].format = row.format;
    types->choices[types->count].dialect = reading;
    types->count++;
    return 1;
}

/* Format and dialect of an id; 0 when it is no weight format. */
static int format_of(const model_types *types, uint32_t id, opreg_format_row *row,
                     uint32_t *dialect) {
    row->struct_size = sizeof *row;
    *dialect = OPREG_DIALECT_DEFAULT;
    for (size_t i = types->count; i > 0; i--) { /* the last choice counts */
        if (types->choices[i - 1].id == id) {
            *dialect = types->choices[i - 1].dialect;
            return opreg_format_by_id(types->choices[i - 1].format, row) == OPREG_OK;
        }
    }
    return id <= INT32_MAX && opreg_format_by_ggml_type((int32_t)id, row) == OPREG_OK;
}

int model_type(void *user, uint32_t id, gguf_type *out) {
    const model_types *types = user;
    opreg_format_row row;
    uint32_t dialect;
    int chosen = 0;
    for (size_t i = 0; i < types->count; i++) {
        chosen |= types->choices[i].id == id;
    }
    for (size_t i = 0; !chosen && i < COUNT(claimed); i++) {
        if (claimed[i].id == id) {
            out->name = claimed[i].reason;
            return 0;
        }
    }
    for (size_t i = 0; !chosen && i < COUNT(other_types); i++) {
        if (other_types[i].id == id) {
            *out = other_types[i].type;
            return 1;
        }
    }
    if (!format_of(types, id, &row, &dialect)) {
        out->name = NULL;
        return 0;
    }
    /* the row is a copy; the name must outlive it */
    *out = (gguf_type){opreg_dtype_name(row.format), row.block_values, row.block_bytes};
    return 1;
}

const char *model_skips(const model_types *types, const gguf_tensor *tensor) {
    opreg_format_row row;
    uint32_t dialect;
    if (tensor->bytes == 0) {
        return "empty";
    }
    if (tensor->ne[3] > 1) {
        return "four dimensions";
    }
    if (tensor->dims < 2) {
        return "one dimension: norms, biases";
    }
    return format_of(types, tensor->type, &row, &dialect) ? NULL : "a type without an operator";
}

int64_t model_experts_used(const gguf *file, int64_t experts, char wrong[256]) {
    const int64_t most = experts < MODEL_MAX_USED ? experts : MODEL_MAX_USED;
    const int64_t otherwise = experts < 4 ? experts : 4;
    const char *architecture;
    uint64_t length, used;
    char key[128], value[32] = "no number from 0";
    wrong[0] = '\0';
    if (!gguf_string(file, "general.architecture", &architecture, &length) || length >= 64) {
        return otherwise;
    }
    snprintf(key, sizeof key, "%.*s.expert_used_count", (int)length, architecture);
    if (!gguf_has(file, key)) {
        return otherwise;
    }
    if (gguf_integer(file, key, &used)) {
        if (used >= 1 && used <= (uint64_t)most) {
            return (int64_t)used;
        }
        snprintf(value, sizeof value, "%" PRIu64, used);
    }
    snprintf(wrong, 256, "key '%s' is %s, not 1..%" PRId64 "; run with %" PRId64 " experts a token",
             key, value, most, otherwise);
    return otherwise;
}

/* NVFP4 files may carry one f32 beside a weight, which multiplies the product. */
static float tensor_scale_of(const gguf *file, const gguf_tensor *tensor) {
    static const char *const endings[] = {".scale", ".weight.scale"};
    char name[1100];
    size_t base = strlen(tensor->name);
    const size_t weight = strlen(".weight");
    if (base > weight && strcmp(tensor->name + base - weight, ".weight") == 0) {
        base -= weight;
    }
    for (size_t i = 0; i < COUNT(endings); i++) {
        const gguf_tensor *scale;
        snprintf(name, sizeof name, "%.*s%s", (int)base, tensor->name, endings[i]);
        scale = gguf_tensor_named(file, name);
        if (scale && scale->type == 0 && scale->bytes == sizeof(float)) {
            float value;
            memcpy(&value, gguf_data(file, scale), sizeof value);
            return value;
        }
    }
    return 0.0f;
}

int model_weight_get(const gguf *file, const model_types *types, const side_data *side,
                     const gguf_tensor *tensor, model_weight *out, gguf_error *error) {
    memset(out, 0, sizeof *out);
    out->tensor = tensor;
    format_of(types, tensor->type, &out->format, &out->dialect);
    out->k = tensor->ne[0];
    out->n = tensor->ne[1];
    out->experts = tensor->ne[2] > 1 ? tensor->ne[2] : 0;
    out->data = gguf_data(file, tensor);
    out->row_bytes = (uint64_t)(out->k / out->format.block_values) * out->format.block_bytes;
    out->expert_bytes = out->row_bytes * (uint64_t)out->n;
    if (out->format.format == OPREG_NVFP4) {
        out->tensor_scale = tensor_scale_of(file, tensor);
    }
    return side_data_get(side, out, error);
}
