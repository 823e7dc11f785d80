/* SPDX-License-Identifier: MIT
 * test_gguf.c - the GGUF reader takes good files and refuses hostile ones with offset and reason.
 */
#include "gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- a small writer ---- */

typedef struct text_file {
    uint8_t bytes[70000];
    size_t size;
} text_file;

static void put(text_file *f, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) {
        f->bytes[f->size++] = (uint8_t)(value >> (8u * i));
    }
}

static void put_bytes(text_file *f, const void *bytes, size_t count) {
    memcpy(f->bytes + f->size, bytes, count);
    f->size += count;
}

static void put_string(text_file *f, const char *text) {
    put(f, strlen(text), 8);
    put_bytes(f, text, strlen(text));
}

static void put_header(text_file *f, uint64_t tensors, uint64_t keys) {
    f->size = 0;
    put_bytes(f, "GGUF", 4);
    put(f, 3, 4);
    put(f, tensors, 8);
    put(f, keys, 8);
}

static void put_key(text_file *f, const char *key, uint32_t type) {
    put_string(f, key);
    put(f, type, 4);
}

static void put_tensor(text_file *f, const char *name, uint64_t n0, uint64_t n1, uint32_t type,
                       uint64_t offset) {
    put_string(f, name);
    put(f, 2, 4);
    put(f, n0, 8);
    put(f, n1, 8);
    put(f, type, 4);
    put(f, offset, 8);
}

static void put_data(text_file *f, size_t alignment, size_t count) {
    while (f->size % alignment != 0) {
        f->bytes[f->size++] = 0;
    }
    for (size_t i = 0; i < count; i++) {
        f->bytes[f->size++] = (uint8_t)i;
    }
}

enum { F32 = 0, Q4_0 = 2, U8 = 0, U32 = 4, BOOL = 7, STRING = 8, ARRAY = 9, U64 = 10, I8 = 1 };

static int two_types(void *user, uint32_t id, gguf_type *out) {
    (void)user;
    if (id == F32) {
        *out = (gguf_type){"f32", 1, 4};
    } else if (id == Q4_0) {
        *out = (gguf_type){"q4_0", 32, 18};
    } else {
        return 0;
    }
    return 1;
}

/* The bytes are copied to a heap block of their exact size, so that a sanitizer sees each byte
 * that is read past the end. */
static gguf *open_copy(const text_file *f, uint8_t **copy, gguf_error *error) {
    *copy = malloc(f->size ? f->size : 1);
    memcpy(*copy, f->bytes, f->size);
    memset(error, 0, sizeof *error);
    return gguf_open_memory(*copy, f->size, two_types, NULL, error);
}

static void assert_refused(const text_file *f, uint64_t offset, const char *reason) {
    uint8_t *copy;
    gguf_error error;
    gguf *file = open_copy(f, &copy, &error);
    if (file) {
        fail_msg("not refused; wanted: %s", reason);
    }
    if (!strstr(error.text, reason)) {
        fail_msg("wanted \"%s\", got \"%s\"", reason, error.text);
    }
    if (error.offset != offset) {
        fail_msg("wanted offset %llu, got %llu (%s)", (unsigned long long)offset,
                 (unsigned long long)error.offset, error.text);
    }
    assert_null(strchr(error.text, '\n'));
    free(copy);
}

static void put_good(text_file *f) {
    put_header(f, 2, 4);
    put_key(f, "general.architecture", STRING);
    put_string(f, "llama");
    put_key(f, "llama.expert_count", U32);
    put(f, 8, 4);
    put_key(f, "side", ARRAY);
    put(f, U8, 4);
    put(f, 3, 8);
    put(f, 0x030201, 3);
    put_key(f, "below", I8);
    put(f, 0xff, 1);
    put_tensor(f, "b.weight", 32, 2, Q4_0, 0);
    put_tensor(f, "a.weight", 3, 1, F32, 64);
    put_data(f, 32, 64 + 12);
}

/* ---- good files ---- */

static void a_good_file_gives_its_tensors_in_file_order(void **state) {
    (void)state;
    text_file f;
    uint8_t *copy;
    gguf_error error;
    put_good(&f);
    gguf *file = open_copy(&f, &copy, &error);
    if (!file) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(gguf_num_tensors(file), 2);
    assert_int_equal(gguf_num_keys(file), 4);
    assert_int_equal(gguf_version(file), 3);
    const gguf_tensor *b = gguf_tensor_at(file, 0), *a = gguf_tensor_at(file, 1);
    assert_string_equal(b->name, "b.weight");
    assert_int_equal(b->ne[0], 32);
    assert_int_equal(b->ne[1], 2);
    assert_int_equal(b->ne[2], 1);
    assert_int_equal(b->bytes, 36);
    assert_int_equal(a->bytes, 12);
    assert_int_equal(a->offset, f.size - 12);
    assert_ptr_equal(gguf_data(file, a), copy + f.size - 12);
    assert_ptr_equal(gguf_tensor_named(file, "a.weight"), a);
    assert_ptr_equal(gguf_tensor_named(file, "b.weight"), b);
    assert_null(gguf_tensor_named(file, "c.weight"));
    assert_null(gguf_tensor_at(file, 2));
    gguf_close(file);
    free(copy);
}

static void values_are_found_by_key_and_type(void **state) {
    (void)state;
    text_file f;
    uint8_t *copy;
    gguf_error error;
    const char *text;
    const uint8_t *bytes;
    uint64_t value = 77, length;
    put_good(&f);
    gguf *file = open_copy(&f, &copy, &error);
    assert_non_null(file);
    assert_int_equal(gguf_integer(file, "llama.expert_count", &value), 1);
    assert_int_equal(value, 8);
    assert_int_equal(gguf_integer(file, "below", &value), 0); /* negative */
    assert_int_equal(gguf_integer(file, "side", &value), 0);
    assert_int_equal(gguf_integer(file, "absent", &value), 0);
    assert_int_equal(value, 8);
    assert_int_equal(gguf_string(file, "general.architecture", &text, &length), 1);
    assert_int_equal(length, 5);
    assert_memory_equal(text, "llama", 5);
    assert_int_equal(gguf_string(file, "llama.expert_count", &text, &length), 0);
    assert_int_equal(gguf_u8_array(file, "side", &bytes, &length), 1);
    assert_int_equal(length, 3);
    assert_int_equal(bytes[2], 3);
    assert_int_equal(gguf_u8_array(file, "below", &bytes, &length), 0);
    gguf_close(file);
    free(copy);
}

static void a_file_without_tensors_is_good(void **state) {
    (void)state;
    text_file f;
    uint8_t *copy;
    gguf_error error;
    put_header(&f, 0, 0);
    gguf *file = open_copy(&f, &copy, &error);
    assert_non_null(file);
    assert_int_equal(gguf_num_tensors(file), 0);
    gguf_close(file);
    free(copy);
}

static void an_alignment_of_the_file_is_honoured(void **state) {
    (void)state;
    text_file f;
    uint8_t *copy;
    gguf_error error;
    put_header(&f, 1, 1);
    put_key(&f, "general.alignment", U32);
    put(&f, 256, 4);
    put_tensor(&f, "w", 1, 1, F32, 0);
    put_data(&f, 256, 4);
    gguf *file = open_copy(&f, &copy, &error);
    assert_non_null(file);
    assert_int_equal(gguf_tensor_at(file, 0)->offset, 256);
    gguf_close(file);
    free(copy);
}

/* ---- refusals ---- */

static void every_truncation_is_refused(void **state) {
    (void)state;
    text_file f, cut;
    put_good(&f);
    for (size_t size = 0; size < f.size; size++) {
        uint8_t *copy;
        gguf_error error;
        cut = f;
        cut.size = size;
        gguf *file = open_copy(&cut, &copy, &error);
        if (file || error.text[0] == '\0') {
            fail_msg("cut to %zu of %zu bytes: not refused with a reason", size, f.size);
        }
        if (error.offset > size) {
            fail_msg("cut to %zu bytes: offset %llu is outside", size,
                     (unsigned long long)error.offset);
        }
        free(copy);
    }
}

static void every_single_byte_change_ends_in_ok_or_a_reason(void **state) {
    (void)state;
    text_file f, changed;
    put_good(&f);
    for (size_t at = 0; at < f.size; at++) {
        static const uint8_t masks[] = {0x01, 0x80, 0xff};
        for (size_t i = 0; i < sizeof masks; i++) {
            uint8_t *copy;
            gguf_error error;
            changed = f;
            changed.bytes[at] ^= masks[i];
            gguf *file = open_copy(&changed, &copy, &error);
            if (!file && error.text[0] == '\0') {
                fail_msg("byte %zu xor %#x: refused without a reason", at, masks[i]);
            }
            gguf_close(file);
            free(copy);
        }
    }
}

static void another_magic_or_version_is_refused(void **state) {
    (void)state;
    text_file f;
    put_good(&f);
    memcpy(f.bytes, "PK\3\4", 4);
    assert_refused(&f, 0, "not a GGUF file: it starts with 'PK");
    put_good(&f);
    f.bytes[4] = 1;
    assert_refused(&f, 4, "GGUF version 1; versions 2 and 3 are read");
    put_good(&f);
    f.bytes[4] = 0;
    f.bytes[7] = 3;
    assert_refused(&f, 4, "big-endian");
}

static void counts_larger_than_the_file_are_refused_before_memory_is_taken(void **state) {
    (void)state;
    text_file f;
    put_header(&f, 0, UINT64_MAX);
    assert_refused(&f, 16, "18446744073709551615 keys do not fit in the 0 bytes that are left");
    put_header(&f, UINT64_C(1) << 60, 0);
    assert_refused(&f, 8, "1152921504606846976 tensors do not fit");
    put_header(&f, 0, 1);
    put_key(&f, "tokens", ARRAY);
    put(&f, STRING, 4);
    put(&f, UINT64_C(1) << 61, 8);
    assert_refused(&f, f.size - 12, "array of 2305843009213693952 values");
    put_header(&f, 0, 1);
    put_key(&f, "scores", ARRAY);
    put(&f, U64, 4);
    put(&f, UINT64_C(1) << 61, 8); /* times 8 wraps to 0 */
    assert_refused(&f, f.size - 12, "array of 2305843009213693952 values of 8 bytes");
}

static void a_string_longer_than_the_file_is_refused(void **state) {
    (void)state;
    text_file f;
    put_header(&f, 0, 1);
    put(&f, UINT64_MAX, 8);
    put_bytes(&f, "0123456789", 10);
    assert_refused(&f, 32, "a key needs 18446744073709551615 bytes, the file has 10 more");
}

static void a_key_is_between_1_and_65535_bytes_long(void **state) {
    (void)state;
    text_file f;
    put_header(&f, 0, 1);
    put(&f, 65536, 8);
    memset(f.bytes + f.size, 'k', 65536);
    f.size += 65536;
    put(&f, BOOL, 4);
    put(&f, 1, 1);
    assert_refused(&f, 24, "65536 bytes long, not 1..65535");
    put_header(&f, 0, 1);
    put_key(&f, "", BOOL);
    put(&f, 1, 1);
    assert_refused(&f, 24, "0 bytes long, not 1..65535");
}

static void arrays_nested_deeply_are_refused(void **state) {
    (void)state;
    text_file f;
    put_header(&f, 0, 1);
    put_key(&f, "deep", ARRAY);
    for (int i = 0; i < 64; i++) {
        put(&f, ARRAY, 4);
        put(&f, 1, 8);
    }
    assert_refused(&f, 24 + 8 + 4 + 4 + 12 * 4, "arrays nested deeper than 4");
}

static void unknown_value_types_and_bad_bools_are_refused(void **state) {
    (void)state;
    text_file f;
    put_header(&f, 0, 1);
    put_key(&f, "strange", 13);
    put(&f, 0, 8);
    assert_refused(&f, f.size - 8, "key 'strange': value type 13 is not one of 0..12");
    put_header(&f, 0, 1);
    put_key(&f, "strange", ARRAY);
    put(&f, 99, 4);
    put(&f, 0, 8);
    assert_refused(&f, f.size - 12, "array of value type 99");
    put_header(&f, 0, 1);
    put_key(&f, "strange", BOOL);
    put(&f, 2, 1);
    assert_refused(&f, f.size - 1, "bool is 2, not 0 or 1");
}

static void names_twice_are_refused(void **state) {
    (void)state;
    text_file f;
    size_t second;
    put_header(&f, 0, 2);
    put_key(&f, "twice", BOOL);
    put(&f, 1, 1);
    put_key(&f, "twice", BOOL);
    put(&f, 1, 1);
    assert_refused(&f, f.size - 1, "key 'twice' is there twice");
    put_header(&f, 2, 0);
    put_tensor(&f, "w", 1, 1, F32, 0);
    second = f.size;
    put_tensor(&f, "w", 1, 1, F32, 32);
    put_data(&f, 32, 64);
    assert_refused(&f, second, "tensor 'w' is there twice");
}

static void names_that_would_reach_a_terminal_raw_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "\x1b[2J",          "a\nb",     "\x7f",    "\xff", "\xc0\x80", "\xed\xa0\x80",
        "\xf4\x90\x80\x80", "\xc2\x9b", "\xe2\x82"};
    text_file f;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_header(&f, 1, 0);
        put_tensor(&f, bad[i], 1, 1, F32, 0);
        put_data(&f, 32, 4);
        assert_refused(&f, 24, "is not plain UTF-8 text");
    }
    put_header(&f, 1, 0);
    put_tensor(&f, "", 1, 1, F32, 0);
    put_data(&f, 32, 4);
    assert_refused(&f, 24, "0 bytes long, not 1..1024");
}

static void letters_beyond_ascii_are_good_names(void **state) {
    (void)state;
    text_file f;
    uint8_t *copy;
    gguf_error error;
    put_header(&f, 1, 0);
    put_tensor(&f, "\xc3\xa4.\xe2\x82\xac.\xf0\x9f\x90\x8d", 1, 1, F32, 0);
    put_data(&f, 32, 4);
    gguf *file = open_copy(&f, &copy, &error);
    assert_non_null(file);
    gguf_close(file);
    free(copy);
}

static void a_row_that_is_not_whole_blocks_is_refused(void **state) {
    (void)state;
    text_file f;
    put_header(&f, 1, 0);
    put_tensor(&f, "w", 33, 1, Q4_0, 0);
    put_data(&f, 32, 64);
    assert_refused(&f, 24 + 9 + 4 + 16, "ne[0] 33 is not a multiple of the q4_0 block 32");
}

static void an_unknown_tensor_type_is_refused(void **state) {
    (void)state;
    text_file f;
    put_header(&f, 1, 0);
    put_tensor(&f, "w", 32, 1, 777, 0);
    put_data(&f, 32, 64);
    assert_refused(&f, 24 + 9 + 4 + 16, "tensor 'w': type id 777 is unknown");
}

static void dimensions_that_overflow_are_refused(void **state) {
    (void)state;
    text_file f;
    put_header(&f, 1, 0);
    put_tensor(&f, "w", UINT64_C(1) << 32, UINT64_C(1) << 32, Q4_0, 0);
    put_data(&f, 32, 64);
    assert_refused(&f, 24 + 9 + 4 + 8, "overflows at ne[1] 4294967296");
    put_header(&f, 1, 0);
    put_tensor(&f, "w", UINT64_C(1) << 63, 1, F32, 0);
    put_data(&f, 32, 64);
    assert_refused(&f, 24 + 9 + 4, "ne[0] is negative");
    put_header(&f, 1, 0);
    put_tensor(&f, "w", UINT64_C(1) << 62, 1, F32, 0); /* times 4 bytes */
    put_data(&f, 32, 64);
    assert_refused(&f, 24 + 9 + 4 + 16, "blocks of 4 bytes overflow");
    put_header(&f, 1, 0);
    put_string(&f, "w");
    put(&f, 5, 4);
    put_data(&f, 32, 64);
    assert_refused(&f, 24 + 9, "has 5 dimensions, not 0..4");
}

static void a_tensor_outside_the_file_is_refused(void **state) {
    (void)state;
    text_file f;
    put_header(&f, 1, 0);
    put_tensor(&f, "w", 32, 4, F32, 0);
    put_data(&f, 32, 511);
    assert_refused(&f, 24, "512 bytes at 0 of the data end past the 511 bytes");
    put_header(&f, 1, 0);
    put_tensor(&f, "w", 1, 1, F32, UINT64_MAX - 31); /* offset + bytes wraps */
    put_data(&f, 32, 64);
    assert_refused(&f, 24, "end past the 64 bytes");
}

static void offsets_off_the_alignment_and_overlaps_are_refused(void **state) {
    (void)state;
    text_file f;
    size_t second;
    put_header(&f, 1, 0);
    put_tensor(&f, "w", 1, 1, F32, 4);
    put_data(&f, 32, 64);
    assert_refused(&f, 24, "offset 4 is not a multiple of the alignment 32");
    put_header(&f, 2, 0);
    put_tensor(&f, "v", 16, 1, F32, 0);
    second = f.size;
    put_tensor(&f, "w", 16, 1, F32, 32);
    put_data(&f, 32, 128);
    assert_refused(&f, second, "overlaps tensor 'v'");
    put_header(&f, 0, 1);
    put_key(&f, "general.alignment", U32);
    put(&f, 24, 4);
    assert_refused(&f, f.size - 4, "general.alignment 24 is not a power of two");
    put_header(&f, 0, 1);
    put_key(&f, "general.alignment", U64);
    put(&f, 32, 8);
    assert_refused(&f, f.size - 8, "value type 10, not u32");
}

static void an_empty_tensor_hides_no_overlap(void **state) {
    (void)state;
    text_file f;
    uint8_t *copy;
    gguf_error error;
    gguf *file;
    size_t third;
    put_header(&f, 3, 0);
    put_tensor(&f, "a", 32, 4, F32, 0);
    put_tensor(&f, "b", 32, 0, F32, 32);
    third = f.size;
    put_tensor(&f, "c", 32, 2, F32, 64);
    put_data(&f, 32, 512);
    assert_refused(&f, third, "tensor 'c'");
    assert_refused(&f, third, "overlaps tensor 'a'");
    /* empty ones overlap nothing themselves, wherever they are */
    put_header(&f, 3, 0);
    put_tensor(&f, "a", 32, 4, F32, 0);
    put_tensor(&f, "b", 32, 0, F32, 32);
    put_tensor(&f, "c", 32, 2, F32, 512);
    put_data(&f, 32, 768);
    file = open_copy(&f, &copy, &error);
    assert_non_null(file);
    gguf_close(file);
    free(copy);
}

static void what_is_not_a_regular_file_is_refused(void **state) {
    (void)state;
    gguf_error error;
    assert_null(gguf_open("/", two_types, NULL, &error));
    assert_string_equal(error.text, "not a regular file");
    assert_null(gguf_open("/dev/zero", two_types, NULL, &error));
    assert_string_equal(error.text, "not a regular file");
    assert_null(gguf_open("/nonexistent/model.gguf", two_types, NULL, &error));
    assert_non_null(strstr(error.text, "cannot open: No such file"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file_gives_its_tensors_in_file_order),
        cmocka_unit_test(values_are_found_by_key_and_type),
        cmocka_unit_test(a_file_without_tensors_is_good),
        cmocka_unit_test(an_alignment_of_the_file_is_honoured),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_single_byte_change_ends_in_ok_or_a_reason),
        cmocka_unit_test(another_magic_or_version_is_refused),
        cmocka_unit_test(counts_larger_than_the_file_are_refused_before_memory_is_taken),
        cmocka_unit_test(a_string_longer_than_the_file_is_refused),
        cmocka_unit_test(a_key_is_between_1_and_65535_bytes_long),
        cmocka_unit_test(arrays_nested_deeply_are_refused),
        cmocka_unit_test(unknown_value_types_and_bad_bools_are_refused),
        cmocka_unit_test(names_twice_are_refused),
        cmocka_unit_test(names_that_would_reach_a_terminal_raw_are_refused),
        cmocka_unit_test(letters_beyond_ascii_are_good_names),
        cmocka_unit_test(a_row_that_is_not_whole_blocks_is_refused),
        cmocka_unit_test(an_unknown_tensor_type_is_refused),
        cmocka_unit_test(dimensions_that_overflow_are_refused),
        cmocka_unit_test(a_tensor_outside_the_file_is_refused),
        cmocka_unit_test(offsets_off_the_alignment_and_overlaps_are_refused),
        cmocka_unit_test(an_empty_tensor_hides_no_overlap),
        cmocka_unit_test(what_is_not_a_regular_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
