/* SPDX-License-Identifier: MIT
 * gguf_file.h - what the two halves of the GGUF reader share. */
#ifndef OPREG_TOOLS_GGUF_FILE_H
#define OPREG_TOOLS_GGUF_FILE_H

#include "gguf.h"

enum value_type {
    VALUE_U8,
    VALUE_I8,
    VALUE_U16,
    VALUE_I16,
    VALUE_U32,
    VALUE_I32,
    VALUE_F32,
    VALUE_BOOL,
    VALUE_STRING,
    VALUE_ARRAY,
    VALUE_U64,
    VALUE_I64,
    VALUE_F64,
    VALUE_TYPES
};

extern const uint8_t gguf_value_bytes[VALUE_TYPES]; /* 0: not of fixed size */

typedef struct key_value {
    const char *key; /* in the file: no end mark                                                  */
    uint64_t key_length;
    uint32_t type;
    uint64_t at; /* of the value                                                              */
} key_value;

struct gguf {
    const uint8_t *bytes;
    uint64_t size;
    void *mapping; /* null: the bytes are the caller's                                            */
    uint32_t version;
    key_value *keys; /* sorted by key                                                             */
    size_t num_keys;
    gguf_tensor *tensors;
    size_t num_tensors;
    size_t *by_name; /* indices of tensors, sorted by name                                        */
    char *names;
};

/* Fills a file whose bytes and size are set; 0 with *error when it is refused. */
int gguf_parse(gguf *file, gguf_type_fn types, void *user, gguf_error *error);

/* Sets *error; always 0. */
__attribute__((format(printf, 3, 4))) int gguf_refuse(gguf_error *error, uint64_t offset,
                                                      const char *format, ...);

uint64_t gguf_load(const uint8_t *p, unsigned bytes); /* little-endian */
int gguf_compare(const char *a, uint64_t a_length, const char *b, uint64_t b_length);
const key_value *gguf_find_key(const gguf *file, const char *key); /* null: none */

#endif /* OPREG_TOOLS_GGUF_FILE_H */
