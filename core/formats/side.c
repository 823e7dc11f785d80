/* SPDX-License-Identifier: MIT
 * side.c - decodes what a weight carries outside its blocks into one opreg_side per expert. */
#include "formats/side.h"

#include <string.h>

#include "error.h"
#include "formats/format.h"
#include "formats/formats.h"
#include "formats/tables/gqh2h_grid.h"
#include "formats/tables/gqh3_grid.h"
#include "formats/tables/gqh4_grid.h"
#include "formats/tables/rocmfp2_levels.h"
#include "formats/tables/rocmfp3_levels.h"

#define GQH_BYTES 5u
#define GQH_GRIDS 12u

static int is_finite(float value) {
    return (bits_of(value) & 0x7f800000u) != 0x7f800000u;
}

uint32_t side_dialect(uint32_t format, uint32_t dialect, int *known) {
    *known = dialect == OPREG_DIALECT_DEFAULT;
    switch (format) {
    case OPREG_ROCMFP2:
        *known |= dialect >= OPREG_DIALECT_ROCMFP2_PLAIN && dialect <= OPREG_DIALECT_ROCMFP2_S40;
        return dialect == OPREG_DIALECT_DEFAULT ? OPREG_DIALECT_ROCMFP2_SIGNBIT : dialect;
    case OPREG_NVFP4:
        *known |= dialect == OPREG_DIALECT_NVFP4_HOST || dialect == OPREG_DIALECT_NVFP4_SIGNED;
        return dialect == OPREG_DIALECT_DEFAULT ? OPREG_DIALECT_NVFP4_HOST : dialect;
    case OPREG_ROCMFP4:
    case OPREG_ROCMFP4_FAST:
        *known |= dialect == OPREG_DIALECT_ROCMFP4_HIP;
        return dialect;
    default:
        return dialect;
    }
}

/* ---- GQH ------------------------------------------------------------------------------------ */

static void copy_grid(uint32_t format, uint32_t code, float levels[16]) {
    if (format == OPREG_GQH3) {
        memcpy(levels, gqh3_grid[code], sizeof gqh3_grid[code]);
    } else if (format == OPREG_GQH2_H) {
        memcpy(levels, gqh2h_grid[code], sizeof gqh2h_grid[code]);
    } else {
        memcpy(levels, gqh4_grid[code], sizeof gqh4_grid[code]);
    }
}

static opreg_status decode_gqh(const format_info *info, const opreg_weight_desc *desc,
                               opreg_side *rows) {
    const uint8_t *bytes = desc->side;
    float scale;
    int64_t e;
    if (desc->side_bytes != GQH_BYTES) {
        return fail(OPREG_E_ARG,
                    "%s side data has %llu bytes, not 5: f32 tensor_scale, u8 grid_code",
                    info->name, (unsigned long long)desc->side_bytes);
    }
    scale = float_of(load_u32(bytes));
    if (!is_finite(scale) || !(scale > 0.0f)) {
        return fail(OPREG_E_ARG, "%s side data: tensor_scale is %g, not finite and above 0",
                    info->name, (double)scale);
    }
    if (bytes[4] >= GQH_GRIDS) {
        return fail(OPREG_E_ARG, "%s side data: grid_code is %u, not 0..11", info->name, bytes[4]);
    }
    for (e = 0; rows != NULL && e < desc->experts; e++) {
        rows[e].tensor_scale = scale;
        copy_grid(info->id, bytes[4], rows[e].levels);
    }
    return OPREG_OK;
}

/* ---- MIX ------------------------------------------------------------------------------------ */

/* Where a form of MIX side data keeps its parts. */
typedef struct mix_form {
    const uint8_t *modes, *rotations, *books; /* rotations: null when the form has none */
    uint64_t mode_step, book_step; /* from one expert to the next; 0: shared by all      */
    int64_t entries;               /* distinct experts                                   */
} mix_form;

/* 0 when no form has this size.  The comparisons are by division: experts may be anything. */
static int find_form(const opreg_weight_desc *desc, uint64_t k, mix_form *form) {
    const uint8_t *bytes = desc->side;
    uint64_t experts = (uint64_t)desc->experts, size = desc->side_bytes, books = 4 * k;
    form->rotations = NULL;
    if (size == 4 + books) {
        *form = (mix_form){bytes, NULL, bytes + 4, 0, 0, 1};
        return 1;
    }
    if (size % experts != 0) {
        return 0;
    }
    *form = (mix_form){bytes, NULL, NULL, 1, books, desc->experts};
    if (size / experts == 1 + books) {
        form->books = bytes + experts;
        return 1;
    }
    if (k == 8 && size / experts == 2 + books) {
        form->rotations = bytes + experts;
        form->books = bytes + 2 * experts;
        return 1;
    }
    return 0;
}

static opreg_status decode_book(const format_info *info, int64_t expert, uint32_t mode,
                                const uint8_t *book, uint32_t k, float levels[16]) {
    uint32_t i;
    for (i = 0; i < 2 * k; i++) {
        levels[i] = bf16_to_f32(load_u16(book + 2 * i));
        if (!is_finite(levels[i])) {
            return fail(OPREG_E_ARG, "%s side data: expert %lld, book %u, level %u is Inf or NaN",
                        info->name, (long long)expert, i / k, i % k);
        }
        if (mode == 1 && i % k != 0 && !(levels[i - 1] < levels[i])) {
            return fail(OPREG_E_ARG,
                        "%s side data: expert %lld, book %u, level %u is %g, not above the level "
                        "before it, %g",
                        info->name, (long long)expert, i / k, i % k, (double)levels[i],
                        (double)levels[i - 1]);
        }
    }
    return OPREG_OK;
}

/* Both books: what the format decodes without a codebook.  Code 4 of ROCMFP3_MIX is -0. */
static void fixed_levels(uint32_t k, float levels[16]) {
    uint32_t i;
    for (i = 0; i < 2 * k; i++) {
        uint32_t code = i % k;
        levels[i] = k == 4 ? (float)rocmfp2_levels[code] : (float)rocmfp3_levels[code];
        if (k == 8 && code == 4) {
            levels[i] = -0.0f;
        }
    }
}

static opreg_status decode_mix(const format_info *info, const opreg_weight_desc *desc,
                               opreg_side *rows) {
    uint32_t k = info->side == FORMAT_SIDE_MIX8 ? 8 : 4;
    mix_form form;
    int64_t e;
    if (!find_form(desc, k, &form)) {
        return fail(OPREG_E_ARG,
                    "%s side data has %llu bytes, not %u for one codebook or %s for each of %lld "
                    "experts",
                    info->name, (unsigned long long)desc->side_bytes, 4 + 4 * k,
                    k == 8 ? "33 or 34" : "17", (long long)desc->experts);
    }
    for (e = 0; e < form.entries; e++) {
        uint32_t mode = form.modes[(uint64_t)e * form.mode_step];
        float levels[16];
        opreg_status status;
        if (mode > 1) {
            return fail(OPREG_E_ARG, "%s side data: expert %lld has mode %u, not 0 or 1",
                        info->name, (long long)e, mode);
        }
        if (form.rotations != NULL && form.rotations[e] != 0) {
            return fail(OPREG_E_ARG, "%s side data: expert %lld has rotation %u, not 0", info->name,
                        (long long)e, form.rotations[e]);
        }
        status = decode_book(info, e, mode, form.books + (uint64_t)e * form.book_step, k, levels);
        if (status != OPREG_OK) {
            return status;
        }
        if (mode == 0) {
            fixed_levels(k, levels);
        }
        if (rows != NULL) {
            rows[e].mode = mode;
            memcpy(rows[e].levels, levels, 2 * k * sizeof levels[0]);
        }
    }
    for (; rows != NULL && e < desc->experts; e++) {
        rows[e] = rows[0];
    }
    return OPREG_OK;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static opreg_status check_tensor_scale(const format_info *info, float scale) {
    if (!is_finite(scale)) {
        return fail(OPREG_E_ARG, "tensor_scale is Inf or NaN");
    }
    if (info->side != FORMAT_SIDE_SCALE && scale != 0.0f && scale != 1.0f) {
        return fail(OPREG_E_ARG, "tensor_scale is %g, but %s has none outside its side data",
                    (double)scale, info->name);
    }
    return OPREG_OK;
}

/* rows may be null. */
static opreg_status decode_side(const format_info *info, const opreg_weight_desc *desc,
                                opreg_side *rows) {
    if ((desc->side == NULL) != (desc->side_bytes == 0)) {
        return fail(OPREG_E_ARG, "side data is %s with side_bytes %llu",
                    desc->side == NULL ? "null" : "set", (unsigned long long)desc->side_bytes);
    }
    if (info->side == FORMAT_SIDE_NONE || info->side == FORMAT_SIDE_SCALE) {
        return desc->side == NULL
                   ? OPREG_OK
                   : fail(OPREG_E_ARG, "%s has no side data, but %llu bytes are given", info->name,
                          (unsigned long long)desc->side_bytes);
    }
    if (desc->side == NULL) {
        return fail(OPREG_E_ARG, "%s needs side data, and there is none", info->name);
    }
    return info->side == FORMAT_SIDE_GQH ? decode_gqh(info, desc, rows)
                                         : decode_mix(info, desc, rows);
}

opreg_status side_decode(const opreg_weight_desc *desc, opreg_side *rows) {
    const format_info *info = format_by_id(desc->format);
    uint32_t dialect;
    opreg_status status;
    int known;
    int64_t e;
    if (info == NULL) {
        return fail(OPREG_E_ARG, "format %u is unknown", desc->format);
    }
    if (desc->experts < 1) {
        return fail(OPREG_E_ARG, "experts is %lld, not 1 or more", (long long)desc->experts);
    }
    dialect = side_dialect(desc->format, desc->dialect, &known);
    if (!known) {
        return fail(OPREG_E_ARG, "dialect %u is not one of %s", desc->dialect, info->name);
    }
    status = check_tensor_scale(info, desc->tensor_scale);
    if (status == OPREG_OK) {
        status = decode_side(info, desc, NULL);
    }
    if (status != OPREG_OK || rows == NULL) {
        return status;
    }
    for (e = 0; e < desc->experts; e++) {
        memset(&rows[e], 0, sizeof rows[e]);
        rows[e].dialect = dialect;
        rows[e].tensor_scale = info->side == FORMAT_SIDE_SCALE && desc->tensor_scale != 0.0f
                                   ? desc->tensor_scale
                                   : 1.0f;
    }
    return decode_side(info, desc, rows);
}
