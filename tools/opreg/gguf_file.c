/* SPDX-License-Identifier: MIT
 * gguf_file.c - opens GGUF files and answers questions about parsed ones. */
#define _POSIX_C_SOURCE 200809L
#include "gguf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const uint8_t gguf_value_bytes[VALUE_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

int gguf_refuse(gguf_error *error, uint64_t offset, const char *format, ...) {
    va_list list;
    error->offset = offset;
    va_start(list, format);
    vsnprintf(error->text, sizeof error->text, format, list);
    va_end(list);
    return 0;
}

uint64_t gguf_load(const uint8_t *p, unsigned bytes) {
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) {
        value |= (uint64_t)p[i] << (8u * i);
    }
    return value;
}

int gguf_compare(const char *a, uint64_t a_length, const char *b, uint64_t b_length) {
    size_t common = (size_t)(a_length < b_length ? a_length : b_length);
    int order = common ? memcmp(a, b, common) : 0;
    return order ? order : a_length < b_length ? -1 : a_length > b_length;
}

const key_value *gguf_find_key(const gguf *file, const char *key) {
    size_t low = 0, high = file->num_keys;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const key_value *kv = &file->keys[middle];
        int order = gguf_compare(key, strlen(key), kv->key, kv->key_length);
        if (order == 0) {
            return kv;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

gguf *gguf_open_memory(const void *bytes, uint64_t size, gguf_type_fn types, void *user,
                       gguf_error *error) {
    gguf *file = calloc(1, sizeof *file);
    if (!file) {
        gguf_refuse(error, 0, "no memory");
        return NULL;
    }
    file->bytes = bytes;
    file->size = size;
    if (!gguf_parse(file, types, user, error)) {
        gguf_close(file);
        return NULL;
    }
    return file;
}

gguf *gguf_open(const char *path, gguf_type_fn types, void *user, gguf_error *error) {
    struct stat about;
    gguf *file = NULL;
    void *mapping = MAP_FAILED;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &about) != 0) {
        gguf_refuse(error, 0, "cannot open: %s", strerror(errno));
    } else if (!S_ISREG(about.st_mode)) {
        gguf_refuse(error, 0, "not a regular file");
    } else if (about.st_size == 0) {
        gguf_refuse(error, 0, "the file is empty");
    } else if ((uintmax_t)about.st_size > SIZE_MAX) {
        gguf_refuse(error, 0, "the file is too large for this machine's addresses");
    } else {
        mapping = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (mapping == MAP_FAILED) {
            gguf_refuse(error, 0, "cannot map: %s", strerror(errno));
        }
    }
    if (mapping != MAP_FAILED) {
        file = gguf_open_memory(mapping, (uint64_t)about.st_size, types, user, error);
        if (file) {
            file->mapping = mapping;
        } else {
            munmap(mapping, (size_t)about.st_size);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return file;
}

void gguf_close(gguf *file) {
    if (!file) {
        return;
    }
    if (file->mapping) {
        munmap(file->mapping, (size_t)file->size);
    }
    free(file->keys);
    free(file->tensors);
    free(file->by_name);
    free(file->names);
    free(file);
}

uint32_t gguf_version(const gguf *file) {
    return file->version;
}

uint64_t gguf_size(const gguf *file) {
    return file->size;
}

size_t gguf_num_tensors(const gguf *file) {
    return file->num_tensors;
}

size_t gguf_num_keys(const gguf *file) {
    return file->num_keys;
}

const gguf_tensor *gguf_tensor_at(const gguf *file, size_t index) {
    return index < file->num_tensors ? &file->tensors[index] : NULL;
}

const gguf_tensor *gguf_tensor_named(const gguf *file, const char *name) {
    size_t low = 0, high = file->num_tensors;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const gguf_tensor *tensor = &file->tensors[file->by_name[middle]];
        int order = strcmp(name, tensor->name);
        if (order == 0) {
            return tensor;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

const uint8_t *gguf_data(const gguf *file, const gguf_tensor *tensor) {
    return file->bytes + tensor->offset;
}

uint64_t gguf_offset(const gguf *file, const void *at) {
    return (uint64_t)((const uint8_t *)at - file->bytes);
}

int gguf_has(const gguf *file, const char *key) {
    return gguf_find_key(file, key) != NULL;
}

int gguf_integer(const gguf *file, const char *key, uint64_t *value) {
    const key_value *kv = gguf_find_key(file, key);
    uint64_t bits;
    unsigned bytes;
    if (!kv || kv->type == VALUE_F32 || kv->type == VALUE_F64 || kv->type == VALUE_BOOL ||
        kv->type == VALUE_STRING || kv->type == VALUE_ARRAY) {
        return 0;
    }
    bytes = gguf_value_bytes[kv->type];
    bits = gguf_load(file->bytes + kv->at, bytes);
    if ((kv->type == VALUE_I8 || kv->type == VALUE_I16 || kv->type == VALUE_I32 ||
         kv->type == VALUE_I64) &&
        (bits >> (8u * bytes - 1u)) != 0) {
        return 0;
    }
    *value = bits;
    return 1;
}

int gguf_string(const gguf *file, const char *key, const char **text, uint64_t *length) {
    const key_value *kv = gguf_find_key(file, key);
    if (!kv || kv->type != VALUE_STRING) {
        return 0;
    }
    *length = gguf_load(file->bytes + kv->at, 8);
    *text = (const char *)file->bytes + kv->at + 8;
    return 1;
}

int gguf_float(const gguf *file, const char *key, float *value) {
    const key_value *kv = gguf_find_key(file, key);
    uint32_t bits;
    if (!kv || kv->type != VALUE_F32) {
        return 0;
    }
    bits = (uint32_t)gguf_load(file->bytes + kv->at, 4);
    memcpy(value, &bits, sizeof bits);
    return 1;
}

int gguf_bool(const gguf *file, const char *key, int *value) {
    const key_value *kv = gguf_find_key(file, key);
    if (!kv || kv->type != VALUE_BOOL) {
        return 0;
    }
    *value = file->bytes[kv->at];
    return 1;
}

int gguf_array(const gguf *file, const char *key, gguf_element type, const uint8_t **elements,
               uint64_t *count) {
    const key_value *kv = gguf_find_key(file, key);
    if (!kv || kv->type != VALUE_ARRAY ||
        gguf_load(file->bytes + kv->at, 4) != (uint64_t)type) {
        return 0;
    }
    *count = gguf_load(file->bytes + kv->at + 4, 8);
    *elements = file->bytes + kv->at + 12;
    return 1;
}

int gguf_u8_array(const gguf *file, const char *key, const uint8_t **bytes, uint64_t *count) {
    return gguf_array(file, key, GGUF_U8, bytes, count);
}

const char *gguf_string_next(const uint8_t **at, uint64_t *length) {
    const char *text = (const char *)*at + 8;
    *length = gguf_load(*at, 8);
    *at += 8 + *length;
    return text;
}
