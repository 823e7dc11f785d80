/* SPDX-License-Identifier: MIT
 * vectors.h - reads tests/data/vectors for the tests of formats and activations. */
#ifndef OPREG_TESTS_VECTORS_H
#define OPREG_TESTS_VECTORS_H

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "formats/formats.h"
#include "formats/format.h"
#include "formats/tables/gqh2h_grid.h"
#include "formats/tables/gqh3_grid.h"
#include "formats/tables/gqh4_grid.h"

/* A JSON file of the vectors' directory; read once. */
static inline json_t *vectors_json(const char *file) {
    static struct {
        char name[32];
        json_t *json;
    } cache[4];
    char path[1024];
    json_error_t error;
    size_t at = 0;
    while (at < 4 && cache[at].json != NULL) {
        if (strcmp(cache[at].name, file) == 0) {
            return cache[at].json;
        }
        at++;
    }
    snprintf(path, sizeof path, "%s/vectors/%s", OPREG_TEST_DATA, file);
    json_t *json = json_load_file(path, 0, &error);
    if (json == NULL || at == 4) {
        fail_msg("%s: %s", path, error.text);
    }
    snprintf(cache[at].name, sizeof cache[at].name, "%s", file);
    return cache[at].json = json;
}

static inline json_t *vectors_get(const json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    if (value == NULL) {
        fail_msg("the manifest has no \"%s\" where it must", key);
    }
    return value;
}

static inline size_t vectors_size(const json_t *object, const char *key) {
    return (size_t)json_integer_value(vectors_get(object, key));
}

/* Bytes of an array record of the manifest.  Files are kept until the process ends. */
static inline const uint8_t *vectors_array(const json_t *record, size_t *bytes) {
    static struct {
        const char *name;
        uint8_t *data;
        size_t bytes;
    } cache[64];
    const char *name = json_string_value(vectors_get(record, "file"));
    size_t offset = vectors_size(record, "offset"), at = 0;
    *bytes = vectors_size(record, "bytes");
    while (cache[at].name != NULL && strcmp(cache[at].name, name) != 0) {
        at++;
        assert_true(at < 63);
    }
    if (cache[at].name == NULL) {
        char path[1024];
        snprintf(path, sizeof path, "%s/vectors/%s", OPREG_TEST_DATA, name);
        json_t *about = vectors_get(vectors_get(vectors_json("manifest.json"), "files"), name);
        size_t want = vectors_size(about, "bytes");
        FILE *file = fopen(path, "rb");
        uint8_t *data = malloc(want + 1);
        if (file == NULL || data == NULL || fread(data, 1, want + 1, file) != want) {
            fail_msg("%s is missing or has not %zu bytes", path, want);
        }
        fclose(file);
        cache[at].name = name;
        cache[at].data = data;
        cache[at].bytes = want;
    }
    if (*bytes > cache[at].bytes || offset > cache[at].bytes - *bytes) {
        fail_msg("%s is shorter than its manifest says", name);
    }
    return cache[at].data + offset;
}

static inline uint32_t vectors_u32(const uint8_t *p, size_t i) {
    return load_u32(p + 4 * i);
}
static inline float vectors_f32(const uint8_t *p, size_t i) {
    return float_of(load_u32(p + 4 * i));
}

static inline double vectors_f64(const uint8_t *p, size_t i) {
    double value;
    memcpy(&value, p + 8 * i, sizeof value);
    return value;
}

/* The manifest writes q4_K for q4_k. */
static inline int vectors_named(const char *manifest_name, const char *format) {
    size_t i = 0;
    while (format[i] != 0 && tolower((unsigned char)manifest_name[i]) == format[i]) {
        i++;
    }
    return manifest_name[i] == 0 && format[i] == 0;
}

/* The manifest's entry of a format. */
static inline json_t *vectors_format(const char *format) {
    const char *name;
    json_t *entry;
    json_object_foreach(vectors_get(vectors_json("manifest.json"), "formats"), name, entry) {
        if (vectors_named(name, format)) {
            return entry;
        }
    }
    fail_msg("the manifest has no format %s", format);
    return NULL;
}

/* The reading that a section of a format was made with. */
static inline uint32_t vectors_dialect(const char *format, const char *section) {
    if (strcmp(section, "variant_signbit") == 0) {
        return OPREG_DIALECT_ROCMFP2_SIGNBIT;
    }
    if (strcmp(section, "variant_affine") == 0) {
        return OPREG_DIALECT_ROCMFP2_AFFINE;
    }
    if (strcmp(section, "nonportable_scales") == 0) {
        return OPREG_DIALECT_NVFP4_HOST;
    }
    if (strcmp(format, "rocmfp2") == 0 && strcmp(section, "invalid_scales") == 0) {
        return OPREG_DIALECT_ROCMFP2_PLAIN;
    }
    return OPREG_DIALECT_DEFAULT;
}

/* Side data of expert or tensor `index` of a format's entry, as the kernels get it. */
static inline opreg_side vectors_side(const format_info *format, const json_t *entry, size_t index,
                                      uint32_t dialect) {
    opreg_side side = {.tensor_scale = 1.0f, .dialect = dialect};
    int books = format->side == FORMAT_SIDE_MIX8 ? 8 : 4;
    if (format->side == FORMAT_SIDE_GQH) {
        const json_t *tensor = json_array_get(vectors_get(entry, "tensors"), index);
        size_t code = vectors_size(tensor, "grid_code");
        const char *bits = json_string_value(vectors_get(tensor, "tensor_scale_bits"));
        side.tensor_scale = float_of((uint32_t)strtoul(bits, NULL, 16));
        for (int i = 0; i < 16; i++) {
            side.levels[i] = format->id == OPREG_GQH4              ? gqh4_grid[code][i]
                             : format->id == OPREG_GQH3 && i < 8   ? gqh3_grid[code][i]
                             : format->id == OPREG_GQH2_H && i < 4 ? gqh2h_grid[code][i]
                                                                   : 0.0f;
        }
    } else if (format->side == FORMAT_SIDE_MIX4 || format->side == FORMAT_SIDE_MIX8) {
        static const float fixed[2][8] = {{-1, 0, 1, 2}, {0, 1, 2, 4, -0.0f, -1, -2, -4}};
        const json_t *expert = json_array_get(vectors_get(entry, "experts"), index);
        const json_t *levels = vectors_get(expert, "codebooks_bf16");
        side.mode = (uint32_t)vectors_size(expert, "mode");
        for (int i = 0; i < 2 * books; i++) {
            uint32_t level = (uint32_t)json_integer_value(json_array_get(levels, (size_t)i));
            side.levels[i] = side.mode ? bf16_to_f32(level) : fixed[books == 8][i % books];
        }
    }
    return side;
}

/* Equal bits, any NaN being equal to any other. */
static inline int vectors_same(float a, float b) {
    return bits_of(a) == bits_of(b) || (a != a && b != b);
}

#endif /* OPREG_TESTS_VECTORS_H */
