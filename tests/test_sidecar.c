/* SPDX-License-Identifier: MIT
 * test_sidecar.c - the side data of a model is read whole and exactly, or refused with an offset.
 */
#include "vectors.h"

#include "formats/side.h"
#include "formats/sidecar.h"

#define ROOM 4096

/* A wire under construction. */
typedef struct blob {
    uint8_t bytes[ROOM];
    uint64_t size;
} blob;

static void put(blob *to, const void *bytes, size_t size) {
    assert_true(to->size + size <= ROOM);
    memcpy(to->bytes + to->size, bytes, size);
    to->size += size;
}

static void put_u32(blob *to, uint32_t value) {
    uint8_t p[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                    (uint8_t)(value >> 24)};
    put(to, p, 4);
}

static void put_u32s(blob *to, const uint32_t *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        put_u32(to, values[i]);
    }
}

static blob header(const char magic[8], uint32_t count) {
    blob to = {.size = 0};
    put(&to, magic, 8);
    put_u32(&to, count);
    put_u32(&to, 0);
    return to;
}

/* count books of k ascending levels */
static void put_books(blob *to, uint32_t count, uint32_t k) {
    for (uint32_t i = 0; i < count * k; i++) {
        uint32_t bits = f32_to_bf16((float)(i % k) - 2.0f);
        uint8_t p[2] = {(uint8_t)bits, (uint8_t)(bits >> 8)};
        put(to, p, 2);
    }
}

static void put_bytes(blob *to, uint8_t byte, size_t count) {
    for (size_t i = 0; i < count; i++) {
        put(to, &byte, 1);
    }
}

static blob blob_of_hex(const char *hex) {
    blob to = {.size = 0};
    for (; hex[0] != 0; hex += 2) {
        char digits[3] = {hex[0], hex[1], 0};
        uint8_t byte = (uint8_t)strtoul(digits, NULL, 16);
        put(&to, &byte, 1);
    }
    return to;
}

/* Parses from an allocation of the exact size, so that a sanitizer sees what is read past it. */
static opreg_status parse(sidecar_wire wire, const blob *from, sidecar_entry **entries,
                          size_t *count, uint8_t **copy) {
    *copy = malloc(from->size + (from->size == 0));
    assert_non_null(*copy);
    memcpy(*copy, from->bytes, from->size);
    *entries = NULL;
    *count = 77;
    return sidecar_parse(wire, *copy, from->size, entries, count);
}

static void assert_refused(sidecar_wire wire, const blob *from, const char *words) {
    sidecar_entry *entries;
    size_t count;
    uint8_t *copy;
    opreg_status status = parse(wire, from, &entries, &count, &copy);
    if (status != OPREG_E_ARG || strstr(opreg_last_error(), words) == NULL ||
        strstr(opreg_last_error(), "offset") == NULL) {
        fail_msg("%s: %s: \"%s\", not \"%s\"", sidecar_key(wire), opreg_status_name(status),
                 status == OPREG_OK ? "" : opreg_last_error(), words);
    }
    assert_null(entries);
    assert_int_equal(count, 77);
    free(copy);
}

/* Every shorter run of the bytes is refused too. */
static void assert_prefixes_refused(sidecar_wire wire, const blob *whole) {
    blob shorter = *whole;
    while (shorter.size > 0) {
        shorter.size--;
        assert_refused(wire, &shorter, "");
    }
}

/* ---- the published blobs ----------------------------------------------------------------------
 */

static void published_blobs_are_read(sidecar_wire wire) {
    json_t *valid =
               vectors_get(vectors_get(vectors_json("invalid.json"), sidecar_key(wire)), "valid"),
           *record;
    size_t at, count;
    assert_true(json_array_size(valid) > 0);
    json_array_foreach(valid, at, record) {
        blob bytes = blob_of_hex(json_string_value(vectors_get(record, "hex")));
        json_t *wanted = vectors_get(record, "entries");
        sidecar_entry *entries;
        uint8_t *copy;
        assert_int_equal(parse(wire, &bytes, &entries, &count, &copy), OPREG_OK);
        assert_int_equal(count, json_array_size(wanted));
        for (size_t i = 0; i < count; i++) {
            json_t *row = json_array_get(wanted, i);
            const char *name = json_string_value(json_array_get(row, 0));
            const uint8_t *side = entries[i].side;
            assert_int_equal(entries[i].name_bytes, strlen(name));
            assert_memory_equal(entries[i].name, name, strlen(name));
            assert_int_equal(entries[i].ggml_type, json_integer_value(json_array_get(row, 1)));
            assert_int_equal(entries[i].experts, 1);
            if (wire == SIDECAR_GQH) {
                const char *scale = json_string_value(json_array_get(row, 2));
                assert_int_equal(load_u32(side), strtoul(scale, NULL, 0));
                assert_int_equal(side[4], json_integer_value(json_array_get(row, 3)));
            } else {
                json_t *levels = json_array_get(row, 3);
                assert_int_equal(side[0], json_integer_value(json_array_get(row, 2)));
                assert_int_equal(entries[i].side_bytes, 4 + 2 * json_array_size(levels));
                for (size_t l = 0; l < json_array_size(levels); l++) {
                    assert_int_equal(load_u16(side + 4 + 2 * l),
                                     json_integer_value(json_array_get(levels, l)));
                }
            }
        }
        assert_prefixes_refused(wire, &bytes);
        free(entries);
        free(copy);
    }
}

static void published_bad_blobs_are_refused(sidecar_wire wire) {
    json_t *invalid =
               vectors_get(vectors_get(vectors_json("invalid.json"), sidecar_key(wire)), "invalid"),
           *record;
    size_t at;
    assert_true(json_array_size(invalid) > 0);
    json_array_foreach(invalid, at, record) {
        blob bytes = blob_of_hex(json_string_value(vectors_get(record, "hex")));
        assert_refused(wire, &bytes, "");
    }
}

static void gqh_headers_as_published_are_read(void **state) {
    (void)state;
    published_blobs_are_read(SIDECAR_GQH);
}

static void gqh_headers_published_as_bad_are_refused(void **state) {
    (void)state;
    published_bad_blobs_are_refused(SIDECAR_GQH);
}

static void dense_codebooks_as_published_are_read(void **state) {
    (void)state;
    published_blobs_are_read(SIDECAR_DENSE);
}

static void dense_codebooks_published_as_bad_are_refused(void **state) {
    (void)state;
    published_bad_blobs_are_refused(SIDECAR_DENSE);
}

/* ---- names ------------------------------------------------------------------------------------
 */

static blob one_gqh_name(const char *name, uint32_t bytes) {
    static const uint8_t tail[8] = {0, 0, 0x80, 0x3f, 3, 0, 0, 0};
    blob to = header("GQHh1\0\0\0", 1);
    put_u32(&to, bytes);
    put(&to, name, bytes);
    put_u32(&to, 108);
    put(&to, tail, 8);
    return to;
}

static void names_must_be_text(void **state) {
    static const char *const bad[] = {"\x80",
                                      "a\xc3",
                                      "\xc0\xaf",
                                      "\xe2\x82",
                                      "\xed\xa0\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf8\x88\x80\x80\x80",
                                      "a\nb",
                                      "\x7f"};
    static const char *const good[] = {"blk.0.w", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        blob bytes = one_gqh_name(bad[i], (uint32_t)strlen(bad[i]));
        assert_refused(SIDECAR_GQH, &bytes, "not text");
    }
    blob end = one_gqh_name("a\0b", 3);
    assert_refused(SIDECAR_GQH, &end, "not text");
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        blob bytes = one_gqh_name(good[i], (uint32_t)strlen(good[i]));
        sidecar_entry *entries;
        size_t count;
        uint8_t *copy;
        assert_int_equal(parse(SIDECAR_GQH, &bytes, &entries, &count, &copy), OPREG_OK);
        free(entries);
        free(copy);
    }
}

static void every_byte_of_padding_must_be_zero(void **state) {
    (void)state;
    for (uint64_t at = 1; at <= 3; at++) {
        blob bytes = one_gqh_name("w", 1);
        bytes.bytes[bytes.size - at] = 1;
        assert_refused(SIDECAR_GQH, &bytes, "padding");
    }
}

/* ---- wires by layer -----------------------------------------------------------------------------
 */

#define LAYER_EXPERTS 3u

static void put_down(blob *to, uint32_t layer, uint32_t c, uint32_t k, uint8_t rotation) {
    const uint32_t head[] = {layer, LAYER_EXPERTS, 64, 96, c, k};
    put_u32s(to, head, 6);
    put_bytes(to, 1, LAYER_EXPERTS);
    put_bytes(to, rotation, LAYER_EXPERTS);
    put_books(to, 2 * LAYER_EXPERTS, 8);
}

static void down_experts_are_read(void **state) {
    blob bytes = header("P4MIXv1", 2);
    sidecar_entry *entries;
    size_t count;
    uint8_t *copy;
    opreg_side rows[LAYER_EXPERTS];
    (void)state;
    put_down(&bytes, 9, 2, 8, 0);
    put_down(&bytes, 4, 2, 8, 0);
    assert_int_equal(parse(SIDECAR_DOWN, &bytes, &entries, &count, &copy), OPREG_OK);
    assert_int_equal(count, 2);
    assert_null(entries[1].name);
    assert_int_equal(entries[1].layer, 4);
    assert_int_equal(entries[1].ggml_type, 105);
    assert_int_equal(entries[1].experts, LAYER_EXPERTS);
    assert_int_equal(entries[1].out, 64);
    assert_int_equal(entries[1].in, 96);
    assert_int_equal(entries[1].offset, 16 + 24 + 34 * LAYER_EXPERTS);
    opreg_weight_desc desc = {.struct_size = sizeof desc,
                              .format = OPREG_ROCMFP3_MIX,
                              .experts = LAYER_EXPERTS,
                              .side = entries[1].side,
                              .side_bytes = entries[1].side_bytes};
    assert_int_equal(side_decode(&desc, rows), OPREG_OK);
    assert_int_equal(bits_of(rows[2].levels[8 + 7]), bits_of(5.0f));
    free(entries);
    free(copy);
    assert_prefixes_refused(SIDECAR_DOWN, &bytes);
}

static void bad_down_experts_are_refused(void **state) {
    blob bytes = header("P4MIXv1", 1);
    (void)state;
    put_down(&bytes, 0, 2, 8, 1);
    assert_refused(SIDECAR_DOWN, &bytes, "rotation");
    bytes = header("P4MIXv1", 1);
    put_down(&bytes, 0, 1, 8, 0);
    assert_refused(SIDECAR_DOWN, &bytes, "C, the number of codebooks");
    bytes = header("P4MIXv1", 1);
    put_down(&bytes, 0, 2, 4, 0);
    assert_refused(SIDECAR_DOWN, &bytes, "K, the levels");
    bytes = header("P4MIXv1", 2);
    put_down(&bytes, 7, 2, 8, 0);
    put_down(&bytes, 7, 2, 8, 0);
    assert_refused(SIDECAR_DOWN, &bytes, "two entries");
    bytes = header("P4MIXv1", 1);
    put_down(&bytes, 0, 2, 8, 0);
    put_bytes(&bytes, 0, 1);
    assert_refused(SIDECAR_DOWN, &bytes, "bytes are left");
    bytes = header("P4MIXv1", 1);
    put_down(&bytes, 0, 2, 8, 0);
    memset(bytes.bytes + 20, 0xff, 4); /* experts */
    assert_refused(SIDECAR_DOWN, &bytes, "cut off");
    memset(bytes.bytes + 20, 0, 4);
    assert_refused(SIDECAR_DOWN, &bytes, "is 0");
    bytes = header("P4MIXv1", UINT32_MAX);
    assert_refused(SIDECAR_DOWN, &bytes, "more entries");
    bytes.bytes[12] = 1;
    assert_refused(SIDECAR_DOWN, &bytes, "reserved");
}

static void put_surface(blob *to, uint32_t layer, uint32_t surface) {
    const uint32_t head[] = {layer, surface, LAYER_EXPERTS, 64, 256, 2, 4};
    put_u32s(to, head, 7);
    put_bytes(to, 1, LAYER_EXPERTS);
    put_books(to, 2 * LAYER_EXPERTS, 4);
}

static void gate_up_and_down_experts_are_read(void **state) {
    blob bytes = header("GUMIXs1", 3);
    sidecar_entry *entries;
    size_t count;
    uint8_t *copy;
    (void)state;
    put_surface(&bytes, 1, 0);
    put_surface(&bytes, 1, 1);
    put_surface(&bytes, 0, 2);
    assert_int_equal(parse(SIDECAR_EXPERTS, &bytes, &entries, &count, &copy), OPREG_OK);
    assert_int_equal(count, 3);
    assert_int_equal(entries[2].layer, 0);
    assert_int_equal(entries[2].surface, 2);
    assert_int_equal(entries[2].ggml_type, 106);
    assert_int_equal(entries[2].side_bytes, 17 * LAYER_EXPERTS);
    free(entries);
    free(copy);
    assert_prefixes_refused(SIDECAR_EXPERTS, &bytes);
    bytes.bytes[6] = 'v'; /* "GUMIXsv": not it */
    assert_refused(SIDECAR_EXPERTS, &bytes, "magic");
}

static void the_fused_layout_and_unknown_surfaces_are_refused(void **state) {
    blob bytes = header("GUMIXv1", 1);
    (void)state;
    put_surface(&bytes, 0, 0);
    assert_refused(SIDECAR_EXPERTS, &bytes, "magic");
    bytes = header("GUMIXs1", 1);
    put_surface(&bytes, 0, 3);
    assert_refused(SIDECAR_EXPERTS, &bytes, "surface or class");
    bytes = header("GUMIXs1", 2);
    put_surface(&bytes, 2, 1);
    put_surface(&bytes, 2, 1);
    assert_refused(SIDECAR_EXPERTS, &bytes, "two entries");
}

static void put_attention(blob *to, uint32_t class, uint32_t type, uint32_t slices, uint8_t mode) {
    uint32_t k = type == 105 ? 8 : 4;
    const uint32_t head[] = {5, class, type, slices, 2, k};
    put_u32s(to, head, 6);
    put_bytes(to, mode, 1);
    put_bytes(to, 0, 3);
    put_books(to, 2, k);
}

static void attention_codebooks_are_read(void **state) {
    blob bytes = header("DMIXs1\0\0", 2);
    sidecar_entry *entries;
    size_t count;
    uint8_t *copy;
    (void)state;
    put_attention(&bytes, 3, 105, 4096, 1);
    put_attention(&bytes, 4, 106, 1, 0);
    assert_int_equal(parse(SIDECAR_ATTENTION, &bytes, &entries, &count, &copy), OPREG_OK);
    assert_int_equal(count, 2);
    assert_int_equal(entries[0].surface, 3);
    assert_int_equal(entries[0].experts, 4096);
    assert_int_equal(entries[0].side_bytes, 36);
    assert_int_equal(entries[1].ggml_type, 106);
    assert_int_equal(entries[1].side_bytes, 20);
    free(entries);
    free(copy);
    assert_prefixes_refused(SIDECAR_ATTENTION, &bytes);
}

static void bad_attention_codebooks_are_refused(void **state) {
    static const struct {
        uint32_t class, type, slices;
        uint8_t mode;
        const char *words;
    } rows[] = {
        {5, 105, 1, 1, "surface or class"}, {0, 104, 1, 1, "type is not"},
        {0, 107, 1, 1, "type is not"},      {0, 105, 0, 1, "slices is not"},
        {0, 105, 4097, 1, "slices is not"}, {0, 105, 1, 2, "mode 2"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        blob bytes = header("DMIXs1\0\0", 1);
        put_attention(&bytes, rows[i].class, rows[i].type, rows[i].slices, rows[i].mode);
        assert_refused(SIDECAR_ATTENTION, &bytes, rows[i].words);
    }
}

/* ---- any bytes ----------------------------------------------------------------------------------
 */

/* Whatever one byte becomes, parsing ends in OK or E_ARG; a sanitizer sees the rest. */
static void survive_every_byte(sidecar_wire wire, const blob *whole) {
    static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    for (uint64_t at = 0; at < whole->size; at++) {
        for (size_t v = 0; v < sizeof values; v++) {
            blob changed = *whole;
            sidecar_entry *entries;
            size_t count;
            uint8_t *copy;
            changed.bytes[at] = values[v];
            opreg_status status = parse(wire, &changed, &entries, &count, &copy);
            if (status != OPREG_OK && status != OPREG_E_ARG) {
                fail_msg("byte %llu as %u: %s", (unsigned long long)at, values[v],
                         opreg_status_name(status));
            }
            free(entries);
            free(copy);
        }
    }
}

static void any_byte_may_be_wrong(void **state) {
    blob bytes = one_gqh_name("blk.0.w", 7);
    (void)state;
    survive_every_byte(SIDECAR_GQH, &bytes);
    bytes = header("P4MIXv1", 2);
    put_down(&bytes, 0, 2, 8, 0);
    put_down(&bytes, 1, 2, 8, 0);
    survive_every_byte(SIDECAR_DOWN, &bytes);
    bytes = header("GUMIXs1", 2);
    put_surface(&bytes, 0, 0);
    put_surface(&bytes, 0, 1);
    survive_every_byte(SIDECAR_EXPERTS, &bytes);
    bytes = header("DMIXs1\0\0", 2);
    put_attention(&bytes, 0, 105, 8, 1);
    put_attention(&bytes, 1, 106, 1, 1);
    survive_every_byte(SIDECAR_ATTENTION, &bytes);
}

/* ---- tensors ------------------------------------------------------------------------------------
 */

static void an_entry_fits_only_its_tensor(void **state) {
    static const int64_t right[3] = {96, 64, 3}, other[3] = {96, 64, 4}, odd[2] = {160, 8},
                         dense[2] = {256, 8}, short_row[2] = {128, 8};
    sidecar_entry down = {
        .wire = SIDECAR_DOWN, .ggml_type = 105, .experts = 3, .out = 64, .in = 96};
    sidecar_entry named = {.wire = SIDECAR_DENSE, .ggml_type = 105, .experts = 1};
    sidecar_entry gqh = {.wire = SIDECAR_GQH, .ggml_type = 108, .experts = 1};
    sidecar_entry sliced = {.wire = SIDECAR_ATTENTION, .ggml_type = 105, .experts = 3};
    (void)state;
    assert_int_equal(sidecar_fits(&down, 105, right, 3), OPREG_OK);
    assert_int_equal(sidecar_fits(&down, 104, right, 3), OPREG_E_SHAPE);
    assert_int_equal(sidecar_fits(&down, 105, other, 3), OPREG_E_SHAPE);
    assert_int_equal(sidecar_fits(&down, 105, right, 2), OPREG_E_SHAPE);
    assert_int_equal(sidecar_fits(&named, 105, dense, 2), OPREG_OK);
    assert_int_equal(sidecar_fits(&named, 105, odd, 2), OPREG_E_SHAPE);
    assert_int_equal(sidecar_fits(&gqh, 108, dense, 2), OPREG_OK);
    assert_int_equal(sidecar_fits(&gqh, 108, short_row, 2), OPREG_E_SHAPE);
    assert_int_equal(sidecar_fits(&sliced, 105, dense, 2), OPREG_E_SHAPE);
    sliced.experts = 4;
    assert_int_equal(sidecar_fits(&sliced, 105, odd, 2), OPREG_OK);
    sliced.ggml_type = 106; /* read 128 weights at a time by its loader */
    assert_int_equal(sidecar_fits(&sliced, 106, odd, 2), OPREG_E_SHAPE);
}

static void a_wire_past_the_last_has_no_key(void **state) {
    sidecar_entry *entries;
    size_t count;
    (void)state;
    assert_null(sidecar_key(SIDECAR_WIRES));
    assert_int_equal(sidecar_parse(SIDECAR_WIRES, "", 0, &entries, &count), OPREG_E_ARG);
    assert_int_equal(sidecar_parse(SIDECAR_GQH, NULL, 16, &entries, &count), OPREG_E_ARG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gqh_headers_as_published_are_read),
        cmocka_unit_test(gqh_headers_published_as_bad_are_refused),
        cmocka_unit_test(dense_codebooks_as_published_are_read),
        cmocka_unit_test(dense_codebooks_published_as_bad_are_refused),
        cmocka_unit_test(names_must_be_text),
        cmocka_unit_test(every_byte_of_padding_must_be_zero),
        cmocka_unit_test(down_experts_are_read),
        cmocka_unit_test(bad_down_experts_are_refused),
        cmocka_unit_test(gate_up_and_down_experts_are_read),
        cmocka_unit_test(the_fused_layout_and_unknown_surfaces_are_refused),
        cmocka_unit_test(attention_codebooks_are_read),
        cmocka_unit_test(bad_attention_codebooks_are_refused),
        cmocka_unit_test(any_byte_may_be_wrong),
        cmocka_unit_test(an_entry_fits_only_its_tensor),
        cmocka_unit_test(a_wire_past_the_last_has_no_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
