/* SPDX-License-Identifier: MIT
 * gguf.c - the GGUF reader of gguf.h: the parse.  Opening and access are in gguf_file.c. */
#include "gguf_file.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME         1024u /* longest tensor name                                               */
#define MAX_KEY          65535u /* longest key, as the GGUF text has it                              */
#define MAX_NESTING      4   /* arrays in arrays                                                  */
#define MIN_KEY_BYTES    13u /* length, type and one byte of value                                */
#define MIN_TENSOR_BYTES 25u /* length, one byte of name, dims, type, offset */

/* Where parsing is. */
typedef struct cursor {
    const uint8_t *bytes;
    uint64_t size, at;
    gguf_error *error;
} cursor;

/* A name from the file, fit for a terminal: printable ASCII, shortened. */
static const char *printable(const void *text, uint64_t length, char out[72]) {
    const unsigned char *from = text;
    size_t n = 0;
    for (; n < length && n < 64; n++) {
        out[n] = from[n] >= 0x20 && from[n] < 0x7f ? (char)from[n] : '?';
    }
    memcpy(out + n, length > n ? "..." : "", length > n ? 4 : 1);
    return out;
}

static uint64_t left(const cursor *c) {
    return c->size - c->at;
}

static int need(cursor *c, uint64_t bytes, const char *what) {
    if (bytes > left(c)) {
        return gguf_refuse(c->error, c->at,
                           "%s needs %" PRIu64 " bytes, the file has %" PRIu64 " more", what, bytes,
                           left(c));
    }
    return 1;
}

static int read_integer(cursor *c, unsigned bytes, const char *what, uint64_t *value) {
    if (!need(c, bytes, what)) {
        return 0;
    }
    *value = gguf_load(c->bytes + c->at, bytes);
    c->at += bytes;
    return 1;
}

static int read_string(cursor *c, const char *what, const char **text, uint64_t *length) {
    if (!read_integer(c, 8, what, length) || !need(c, *length, what)) {
        return 0;
    }
    *text = (const char *)c->bytes + c->at;
    c->at += *length;
    return 1;
}

/* Names end up on terminals and in JSON. */
static int name_is_text(const char *name, uint64_t length) {
    const unsigned char *p = (const unsigned char *)name, *end = p + length;
    while (p < end) {
        unsigned c = *p++, more, low = 0x80, high = 0xbf;
        if (c < 0x80) {
            if (c < 0x20 || c == 0x7f) {
                return 0;
            }
            continue;
        }
        if (c < 0xc2 || c > 0xf4) {
            return 0;
        }
        more = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
        /* no overlong forms, no surrogates, nothing past U+10FFFF; C1 controls neither */
        low = c == 0xe0 || c == 0xc2 ? 0xa0 : c == 0xf0 ? 0x90 : low;
        high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : high;
        for (; more > 0; more--, low = 0x80, high = 0xbf) {
            if (p == end || *p < low || *p > high) {
                return 0;
            }
            p++;
        }
    }
    return 1;
}

static int skip_value(cursor *c, uint64_t type, const char *key, int nesting) {
    uint64_t at = c->at, element, count, length;
    const char *text;
    if (type >= VALUE_TYPES) {
        return gguf_refuse(c->error, at, "key '%s': value type %" PRIu64 " is not one of 0..%d",
                           key, type, VALUE_TYPES - 1);
    }
    if (type == VALUE_STRING) {
        return read_string(c, "a string value", &text, &length);
    }
    if (type != VALUE_ARRAY) {
        if (!need(c, gguf_value_bytes[type], "a value")) {
            return 0;
        }
        if (type == VALUE_BOOL && c->bytes[at] > 1) {
            return gguf_refuse(c->error, at, "key '%s': bool is %u, not 0 or 1", key, c->bytes[at]);
        }
        c->at += gguf_value_bytes[type];
        return 1;
    }
    if (nesting == MAX_NESTING) {
        return gguf_refuse(c->error, at, "key '%s': arrays nested deeper than %d", key,
                           MAX_NESTING);
    }
    if (!read_integer(c, 4, "an array's element type", &element) ||
        !read_integer(c, 8, "an array's length", &count)) {
        return 0;
    }
    if (element >= VALUE_TYPES) {
        return gguf_refuse(c->error, at,
                           "key '%s': array of value type %" PRIu64 ", which is not one of 0..%d",
                           key, element, VALUE_TYPES - 1);
    }
    if (element != VALUE_STRING && element != VALUE_ARRAY) {
        if (count > left(c) / gguf_value_bytes[element]) {
            return gguf_refuse(c->error, at,
                               "key '%s': array of %" PRIu64 " values of %u bytes, the "
                               "file has %" PRIu64 " bytes more",
                               key, count, gguf_value_bytes[element], left(c));
        }
        c->at += count * gguf_value_bytes[element];
        return 1;
    }
    if (count > left(c) / 8u) {
        return gguf_refuse(c->error, at,
                           "key '%s': array of %" PRIu64 " values, the file has %" PRIu64
                           " bytes more",
                           key, count, left(c));
    }
    for (uint64_t i = 0; i < count; i++) {
        if (!skip_value(c, element, key, nesting + 1)) {
            return 0;
        }
    }
    return 1;
}

static int compare_keys(const void *a, const void *b) {
    const key_value *x = a, *y = b;
    int order = gguf_compare(x->key, x->key_length, y->key, y->key_length);
    return order ? order : x->at < y->at ? -1 : x->at > y->at;
}

static int read_keys(gguf *file, cursor *c, uint64_t count) {
    char shown[72];
    if (count > left(c) / MIN_KEY_BYTES) {
        return gguf_refuse(c->error, 16,
                           "%" PRIu64 " keys do not fit in the %" PRIu64 " bytes that are left",
                           count, left(c));
    }
    file->keys = calloc((size_t)count + 1, sizeof *file->keys);
    if (!file->keys) {
        return gguf_refuse(c->error, 16, "no memory for %" PRIu64 " keys", count);
    }
    for (uint64_t i = 0; i < count; i++) {
        key_value *kv = &file->keys[i];
        uint64_t at = c->at, type;
        if (!read_string(c, "a key", &kv->key, &kv->key_length)) {
            return 0;
        }
        printable(kv->key, kv->key_length, shown);
        if (kv->key_length == 0 || kv->key_length > MAX_KEY) {
            return gguf_refuse(c->error, at, "key %" PRIu64 " is %" PRIu64 " bytes long, not 1..%u",
                               i, kv->key_length, MAX_KEY);
        }
        if (!name_is_text(kv->key, kv->key_length)) {
            return gguf_refuse(c->error, at, "key %" PRIu64 " '%s' is not plain UTF-8 text", i,
                               shown);
        }
        if (!read_integer(c, 4, "a value's type", &type)) {
            return 0;
        }
        kv->type = (uint32_t)type;
        kv->at = c->at;
        if (!skip_value(c, type, shown, 0)) {
            return 0;
        }
        file->num_keys++;
    }
    qsort(file->keys, file->num_keys, sizeof *file->keys, compare_keys);
    for (size_t i = 1; i < file->num_keys; i++) {
        const key_value *a = &file->keys[i - 1], *b = &file->keys[i];
        if (gguf_compare(a->key, a->key_length, b->key, b->key_length) == 0) {
            return gguf_refuse(c->error, b->at, "key '%s' is there twice",
                               printable(b->key, b->key_length, shown));
        }
    }
    return 1;
}

/* The tensor's ne, values and bytes. */
static int read_shape(cursor *c, gguf_tensor *tensor, gguf_type_fn types, void *user) {
    uint64_t value, dims, values = 1;
    uint64_t at = c->at;
    gguf_type type = {NULL, 0, 0};
    if (!read_integer(c, 4, "a tensor's dimension count", &dims)) {
        return 0;
    }
    if (dims > 4) {
        return gguf_refuse(c->error, at, "tensor '%.200s' has %" PRIu64 " dimensions, not 0..4",
                           tensor->name, dims);
    }
    tensor->dims = (uint32_t)dims;
    for (unsigned d = 0; d < 4; d++) {
        tensor->ne[d] = 1;
        if (d >= dims) {
            continue;
        }
        at = c->at;
        if (!read_integer(c, 8, "a tensor's dimension", &value)) {
            return 0;
        }
        if (value > INT64_MAX) {
            return gguf_refuse(c->error, at, "tensor '%.200s': ne[%u] is negative", tensor->name,
                               d);
        }
        if (value != 0 && values > (uint64_t)INT64_MAX / value) {
            return gguf_refuse(c->error, at,
                               "tensor '%.200s': the product of its dimensions overflows at "
                               "ne[%u] %" PRIu64,
                               tensor->name, d, value);
        }
        tensor->ne[d] = (int64_t)value;
        values *= value;
    }
    at = c->at;
    if (!read_integer(c, 4, "a tensor's type", &value)) {
        return 0;
    }
    tensor->type = (uint32_t)value;
    if (!types(user, tensor->type, &type)) {
        return type.name ? gguf_refuse(c->error, at, "tensor '%.200s': %s", tensor->name, type.name)
                         : gguf_refuse(c->error, at, "tensor '%.200s': type id %u is unknown",
                                       tensor->name, tensor->type);
    }
    if ((uint64_t)tensor->ne[0] % type.block_values != 0) {
        return gguf_refuse(c->error, at,
                           "tensor '%.200s': ne[0] %" PRId64 " is not a multiple of the %s "
                           "block %u",
                           tensor->name, tensor->ne[0], type.name, type.block_values);
    }
    value = values / type.block_values;
    if (value > (uint64_t)INT64_MAX / type.block_bytes) {
        return gguf_refuse(c->error, at, "tensor '%.200s': %" PRIu64 " blocks of %u bytes overflow",
                           tensor->name, value, type.block_bytes);
    }
    tensor->bytes = value * type.block_bytes;
    return 1;
}

/* Sorting indices needs the tensors: qsort has no argument for them, so names are sorted through
 * an array of pairs. */
typedef struct named {
    const char *name;
    uint64_t offset;
    size_t index;
} named;

static int compare_names(const void *a, const void *b) {
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

static int compare_offsets(const void *a, const void *b) {
    const named *x = a, *y = b;
    return x->offset != y->offset ? (x->offset < y->offset ? -1 : 1)
                                  : (x->index > y->index) - (x->index < y->index);
}

static int check_names_and_ranges(gguf *file, gguf_error *error) {
    size_t n = file->num_tensors;
    named *order = calloc(n + 1, sizeof *order);
    const gguf_tensor *last = NULL;
    int ok = 0;
    file->by_name = calloc(n + 1, sizeof *file->by_name);
    if (!order || !file->by_name) {
        gguf_refuse(error, 8, "no memory for %zu tensors", n);
        goto out;
    }
    for (size_t i = 0; i < n; i++) {
        order[i] = (named){file->tensors[i].name, file->tensors[i].offset, i};
    }
    qsort(order, n, sizeof *order, compare_names);
    for (size_t i = 0; i < n; i++) {
        file->by_name[i] = order[i].index;
        if (i > 0 && strcmp(order[i - 1].name, order[i].name) == 0) {
            gguf_refuse(error, file->tensors[order[i].index].info_at,
                        "tensor '%.200s' is there twice", order[i].name);
            goto out;
        }
    }
    qsort(order, n, sizeof *order, compare_offsets);
    /* the last end so far: an empty tensor between two others must not hide their overlap */
    for (size_t i = 0; i < n; i++) {
        const gguf_tensor *b = &file->tensors[order[i].index];
        if (b->bytes == 0) {
            continue;
        }
        if (last && last->offset + last->bytes > b->offset) {
            gguf_refuse(error, b->info_at,
                        "tensor '%.100s' at %" PRIu64 " overlaps tensor '%.100s', "
                        "which ends at %" PRIu64,
                        b->name, b->offset, last->name, last->offset + last->bytes);
            goto out;
        }
        last = b;
    }
    ok = 1;
out:
    free(order);
    return ok;
}

/* Descriptions of all tensors.  Their offsets are relative to the data until place_tensors. */
static int read_tensors(gguf *file, cursor *c, uint64_t count, gguf_type_fn types, void *user) {
    size_t used = 0, capacity;
    char shown[72];
    if (count > left(c) / MIN_TENSOR_BYTES) {
        return gguf_refuse(c->error, 8,
                           "%" PRIu64 " tensors do not fit in the %" PRIu64 " bytes that are left",
                           count, left(c));
    }
    /* names: each is at least one byte of the file, and gets an end mark here */
    capacity = (size_t)(left(c) < count * (MAX_NAME + 1u) ? left(c) : count * (MAX_NAME + 1u));
    file->tensors = calloc((size_t)count + 1, sizeof *file->tensors);
    file->names = malloc(capacity + 1);
    if (!file->tensors || !file->names) {
        return gguf_refuse(c->error, 8, "no memory for %" PRIu64 " tensors", count);
    }
    for (uint64_t i = 0; i < count; i++) {
        gguf_tensor *tensor = &file->tensors[i];
        const char *name;
        uint64_t length, at = c->at;
        tensor->info_at = at;
        if (!read_string(c, "a tensor's name", &name, &length)) {
            return 0;
        }
        if (length == 0 || length > MAX_NAME) {
            return gguf_refuse(
                c->error, at, "the name of tensor %" PRIu64 " is %" PRIu64 " bytes long, not 1..%u",
                i, length, MAX_NAME);
        }
        if (!name_is_text(name, length)) {
            return gguf_refuse(c->error, at,
                               "the name of tensor %" PRIu64 " '%s' is not plain UTF-8 "
                               "text",
                               i, printable(name, length, shown));
        }
        /* the description around it is longer than the end mark, so capacity holds */
        memcpy(file->names + used, name, (size_t)length);
        file->names[used + length] = '\0';
        tensor->name = file->names + used;
        used += (size_t)length + 1;
        if (!read_shape(c, tensor, types, user)) {
            return 0;
        }
        if (!read_integer(c, 8, "a tensor's offset", &tensor->offset)) {
            return 0;
        }
        file->num_tensors++;
    }
    return 1;
}

static int place_tensors(gguf *file, cursor *c) {
    uint64_t alignment = 32, data, room;
    const key_value *kv = gguf_find_key(file, "general.alignment");
    if (kv) {
        if (kv->type != VALUE_U32) {
            return gguf_refuse(c->error, kv->at, "general.alignment has value type %u, not u32",
                               kv->type);
        }
        alignment = gguf_load(c->bytes + kv->at, 4);
        if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
            return gguf_refuse(c->error, kv->at,
                               "general.alignment %" PRIu64 " is not a power of two", alignment);
        }
    }
    data = (c->at + alignment - 1) & ~(alignment - 1);
    if (data > c->size) {
        if (file->num_tensors > 0) {
            return gguf_refuse(c->error, c->at,
                               "the data would start at %" PRIu64 ", the file ends at "
                               "%" PRIu64,
                               data, c->size);
        }
        data = c->size;
    }
    room = c->size - data;
    for (size_t i = 0; i < file->num_tensors; i++) {
        gguf_tensor *tensor = &file->tensors[i];
        if (tensor->offset % alignment != 0) {
            return gguf_refuse(c->error, tensor->info_at,
                               "tensor '%.200s': offset %" PRIu64
                               " is not a multiple of the alignment %" PRIu64,
                               tensor->name, tensor->offset, alignment);
        }
        if (tensor->offset > room || tensor->bytes > room - tensor->offset) {
            return gguf_refuse(c->error, tensor->info_at,
                               "tensor '%.200s': %" PRIu64 " bytes at %" PRIu64
                               " of the data end past the %" PRIu64 " bytes that the file has",
                               tensor->name, tensor->bytes, tensor->offset, room);
        }
        tensor->offset += data;
    }
    return 1;
}

int gguf_parse(gguf *file, gguf_type_fn types, void *user, gguf_error *error) {
    cursor c = {file->bytes, file->size, 0, error};
    uint64_t version, tensors, keys;
    char shown[72];
    if (c.size < 4 || memcmp(c.bytes, "GGUF", 4) != 0) {
        return gguf_refuse(error, 0, "not a GGUF file: it starts with '%s', not 'GGUF'",
                           printable(c.bytes, c.size < 4 ? c.size : 4, shown));
    }
    c.at = 4;
    if (!read_integer(&c, 4, "the version", &version)) {
        return 0;
    }
    if (version != 2 && version != 3) {
        if ((version & 0xffffu) == 0 && version != 0) {
            return gguf_refuse(error, 4,
                               "a big-endian GGUF file; only little-endian ones are read");
        }
        return gguf_refuse(error, 4, "GGUF version %" PRIu64 "; versions 2 and 3 are read",
                           version);
    }
    file->version = (uint32_t)version;
    return read_integer(&c, 8, "the tensor count", &tensors) &&
           read_integer(&c, 8, "the key count", &keys) && read_keys(file, &c, keys) &&
           read_tensors(file, &c, tensors, types, user) && place_tensors(file, &c) &&
           check_names_and_ranges(file, error);
}
