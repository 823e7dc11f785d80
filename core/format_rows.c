/* SPDX-License-Identifier: MIT
 * format_rows.c - names, ids and block shapes of the formats, as callers of opreg.h see them. */
#include <string.h>

#include "error.h"
#include "problem.h"

static const opreg_format_row rows[] = {
#define OPREG_FORMAT(NAME, name, type, values, bytes, act, unit, kind, final, side)                \
    {sizeof(opreg_format_row), OPREG_##NAME, type, values, bytes, OPREG_##act, #name},
#include "formats/formats.inc"
#undef OPREG_FORMAT
};
#define ROWS (sizeof rows / sizeof rows[0])

static const opreg_format_row *row_of(uint32_t format) {
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].format == format) {
            return &rows[i];
        }
    }
    return NULL;
}

/* The caller's struct_size says how much of the row it wants. */
static opreg_status give(opreg_format_row *out, const opreg_format_row *row) {
    if (out == NULL || out->struct_size < sizeof out->struct_size) {
        return fail(OPREG_E_ARG, "opreg_format_row: null, or struct_size is not set to its sizeof");
    }
    struct_store(out, out->struct_size, row, sizeof *row);
    return OPREG_OK;
}

opreg_status opreg_format_by_id(uint32_t format, opreg_format_row *out) {
    const opreg_format_row *row = row_of(format);
    if (row == NULL) {
        return fail(OPREG_E_ARG, "format id %u is not a weight format that opreg knows", format);
    }
    return give(out, row);
}

opreg_status opreg_format_by_name(const char *name, opreg_format_row *out) {
    if (name == NULL) {
        return fail(OPREG_E_ARG, "the format name is null");
    }
    for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return give(out, &rows[i]);
        }
    }
    return fail(OPREG_E_ARG, "\"%s\" is not a weight format that opreg knows", name);
}

opreg_status opreg_format_by_ggml_type(int32_t type, opreg_format_row *out) {
    for (size_t i = 0; type >= 0 && i < ROWS; i++) {
        if (rows[i].ggml_type == type) {
            return give(out, &rows[i]);
        }
    }
    return fail(OPREG_E_ARG, "GGUF type id %d is not a weight format that opreg knows", type);
}

const char *opreg_dtype_name(uint32_t dtype) {
    const opreg_format_row *row = row_of(dtype);
    if (row != NULL) {
        return row->name;
    }
    switch (dtype) {
    case OPREG_F8_E4M3:
        return "f8_e4m3";
    case OPREG_Q8_K:
        return "q8_k";
    default:
        return "?";
    }
}

opreg_status problem_block(uint32_t format, const problem_formats *extra, uint32_t *values,
                           uint32_t *bytes) {
    const opreg_format_row *row = row_of(format);
    if (row != NULL) {
        *values = row->block_values;
        *bytes = row->block_bytes;
        return OPREG_OK;
    }
    for (size_t i = 0; extra != NULL && i < extra->count; i++) {
        if (extra->rows[i]->id == format) {
            *values = extra->rows[i]->block_values;
            *bytes = extra->rows[i]->block_bytes;
            return OPREG_OK;
        }
    }
    return fail(OPREG_E_ARG, "%s %u is not a weight format that opreg knows",
                format >= OPREG_DTYPE_PLUGIN ? "plugin format id" : "format id", format);
}

uint32_t problem_dialect(uint32_t format, uint32_t dialect) {
    if (dialect != OPREG_DIALECT_DEFAULT) {
        return dialect;
    }
    switch (format) {
    case OPREG_ROCMFP2:
        return OPREG_DIALECT_ROCMFP2_SIGNBIT;
    case OPREG_NVFP4:
        return OPREG_DIALECT_NVFP4_HOST;
    default:
        return OPREG_DIALECT_DEFAULT;
    }
}
