/* SPDX-License-Identifier: MIT
 * gguf.h - reads GGUF model files (versions 2 and 3, little-endian) that nobody vouches for.
 *
 * The file is mapped, never copied.  Every length, count, offset and range is checked against the
 * file before it is used, so whatever the bytes are, opening ends in OK or in one error; the memory
 * it takes is bounded by a small multiple of the file's size.  The file must not be shortened by
 * others while it is open. */
#ifndef OPREG_TOOLS_GGUF_H
#define OPREG_TOOLS_GGUF_H

#include <stddef.h>
#include <stdint.h>

/* What the reader must know of a tensor type. */
typedef struct gguf_type {
    const char *name; /* for error texts */
    uint32_t block_values, block_bytes;
} gguf_type;

/* Fills *out for a type id of the file.  0 refuses the file: out->name is then the reason, or null
 * where the id is unknown. */
typedef int (*gguf_type_fn)(void *user, uint32_t id, gguf_type *out);

typedef struct gguf_tensor {
    const char *name; /* ends with 0, valid UTF-8, no control characters */
    uint32_t type; /* the file's id                                                              */
    uint32_t dims; /* 0..4                                                                       */
    int64_t ne[4]; /* ne[0] is the row length; 1 past dims                                       */
    uint64_t offset; /* of the data, from the start of the file */
    uint64_t bytes; /* of the data                                                                */
    uint64_t info_at; /* offset of the tensor's description */
} gguf_tensor;

/* Why a file was refused: where, and what. */
typedef struct gguf_error {
    uint64_t offset;
    char text[400];
} gguf_error;

typedef struct gguf gguf;

/* Null on failure, with *error set.  The result is freed by gguf_close. */
gguf *gguf_open(const char *path, gguf_type_fn types, void *user, gguf_error *error);

/* The same over bytes that stay the caller's until gguf_close. */
gguf *gguf_open_memory(const void *bytes, uint64_t size, gguf_type_fn types, void *user,
                       gguf_error *error);
void gguf_close(gguf *file); /* null is fine */

uint32_t gguf_version(const gguf *file);
uint64_t gguf_size(const gguf *file); /* bytes of the file */
size_t gguf_num_tensors(const gguf *file);
size_t gguf_num_keys(const gguf *file);
const gguf_tensor *gguf_tensor_at(const gguf *file, size_t index);        /* in file order */
const gguf_tensor *gguf_tensor_named(const gguf *file, const char *name); /* null: none    */
uint64_t gguf_offset(const gguf *file, const void *at); /* of a byte inside the file */
const uint8_t *gguf_data(const gguf *file, const gguf_tensor *tensor); /* tensor->bytes */

int gguf_has(const gguf *file, const char *key); /* a value of any type */

/* Values by key; 0 when the key is absent or of another type.  Outputs are set on 1 only. */
int gguf_integer(const gguf *file, const char *key, uint64_t *value); /* any integer that is >= 0 */
int gguf_string(const gguf *file, const char *key, const char **text,
                uint64_t *length); /* no end */
int gguf_u8_array(const gguf *file, const char *key, const uint8_t **bytes, uint64_t *count);
int gguf_float(const gguf *file, const char *key, float *value); /* f32 */
int gguf_bool(const gguf *file, const char *key, int *value);

/* Element types of arrays, as the file numbers them. */
typedef enum gguf_element {
    GGUF_U8 = 0,
    GGUF_U32 = 4,
    GGUF_I32 = 5,
    GGUF_F32 = 6,
    GGUF_BOOL = 7,
    GGUF_STRING = 8
} gguf_element;

/* The elements as the file has them: little-endian, packed, not aligned.  Those of a string array
 * are walked with gguf_string_next. */
int gguf_array(const gguf *file, const char *key, gguf_element type, const uint8_t **elements,
               uint64_t *count);

/* The string at *at, which moves behind it.  No end mark.  At most as many calls as the array's
 * count. */
const char *gguf_string_next(const uint8_t **at, uint64_t *length);

#endif /* OPREG_TOOLS_GGUF_H */
