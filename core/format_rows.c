/* SPDX-License-Identifier: MIT
 * format_rows.c - names, ids and block shapes of the formats, as callers of opreg.h see them. */
#include <stdio.h>

#include "error.h"
#include "formats/formats.h"
#include "problem.h"

/* The caller's struct_size says how much of the row it wants. */
static opreg_status give(opreg_format_row *out, const format_info *info) {
    opreg_format_row row = {.format = info->id,
                            .ggml_type = info->ggml_type,
                            .block_values = (uint32_t)info->values,
                            .block_bytes = (uint32_t)info->bytes,
                            .act_dtype = info->act_dtype};
    if (out == NULL || out->struct_size < sizeof out->struct_size) {
        return fail(OPREG_E_ARG, "opreg_format_row: null, or struct_size is not set to its sizeof");
    }
    snprintf(row.name, sizeof row.name, "%s", info->name);
    struct_store(out, out->struct_size, &row, sizeof row);
    return OPREG_OK;
}

opreg_status opreg_format_by_id(uint32_t format, opreg_format_row *out) {
    const format_info *info = format_by_id(format);
    if (info == NULL) {
        return fail(OPREG_E_ARG, "format id %u is not a weight format that opreg knows", format);
    }
    return give(out, info);
}

opreg_status opreg_format_by_name(const char *name, opreg_format_row *out) {
    const format_info *info = name != NULL ? format_by_name(name) : NULL;
    if (info == NULL) {
        return fail(OPREG_E_ARG, "\"%s\" is not a weight format that opreg knows",
                    name != NULL ? name : "(null)");
    }
    return give(out, info);
}

opreg_status opreg_format_by_ggml_type(int32_t type, opreg_format_row *out) {
    const format_info *info = type >= 0 ? format_by_ggml_type(type) : NULL;
    if (info == NULL) {
        return fail(OPREG_E_ARG, "GGUF type id %d is not a weight format that opreg knows", type);
    }
    return give(out, info);
}

const char *opreg_dtype_name(uint32_t dtype) {
    const format_info *info = format_by_id(dtype);
    if (info != NULL) {
        return info->name;
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
    const format_info *info = format_by_id(format);
    if (info != NULL) {
        *values = (uint32_t)info->values;
        *bytes = (uint32_t)info->bytes;
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
