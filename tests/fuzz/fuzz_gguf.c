/* SPDX-License-Identifier: MIT
 * fuzz_gguf.c - a model file of any bytes is read within its bounds or refused with a reason. */
#include "fuzz.h"

#include "formats/sidecar.h"
#include "gguf.h"

static int type_of(void *user, uint32_t id, gguf_type *out) {
    opreg_format_row row;
    (void)user;
    row.struct_size = sizeof row;
    if (id > INT32_MAX || opreg_format_by_ggml_type((int32_t)id, &row) != OPREG_OK) {
        *out = (gguf_type){"f32", 1, 4};
        return id == 0;
    }
    *out = (gguf_type){opreg_dtype_name(row.format), row.block_values, row.block_bytes};
    return 1;
}

static volatile uint64_t sum; /* so that the reads stay */

static void read_all(const gguf *file, const uint8_t *bytes, size_t size) {
    uint64_t value, length;
    const char *text;
    FUZZ_CHECK(gguf_size(file) == size);
    for (size_t i = 0; i < gguf_num_tensors(file); i++) {
        const gguf_tensor *t = gguf_tensor_at(file, i);
        const uint8_t *data = gguf_data(file, t);
        FUZZ_CHECK(gguf_tensor_named(file, t->name) == t);
        FUZZ_CHECK(t->dims <= 4 && t->offset <= size && t->bytes <= size - t->offset);
        FUZZ_CHECK(data == bytes + t->offset || t->bytes == 0);
        for (uint64_t b = 0; b < t->bytes; b++) {
            sum += data[b];
        }
    }
    if (gguf_string(file, "general.architecture", &text, &length)) {
        for (uint64_t i = 0; i < length; i++) {
            sum += (uint8_t)text[i];
        }
    }
    gguf_integer(file, "general.alignment", &value);
    for (int wire = 0; wire < SIDECAR_WIRES; wire++) {
        const uint8_t *side;
        uint64_t count;
        sidecar_entry *entries = NULL;
        size_t rows = 0;
        if (gguf_u8_array(file, sidecar_key((sidecar_wire)wire), &side, &count) &&
            sidecar_parse((sidecar_wire)wire, side, count, &entries, &rows) == OPREG_OK) {
            free(entries);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gguf_error error = {.text = ""};
    gguf *file = gguf_open_memory(data, size, type_of, NULL, &error);
    if (file == NULL) {
        FUZZ_CHECK(error.text[0] != '\0' && error.offset <= size);
        return 0;
    }
    read_all(file, data, size);
    gguf_close(file);
    return 0;
}
