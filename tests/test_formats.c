/* SPDX-License-Identifier: MIT
 * test_formats.c - every weight format decodes its golden vectors bit for bit, and refuses what
 * must be refused.  One test of each kind for every row of formats.inc. */
#include "vectors.h"

enum { FORMATS = 64 };

/* What ran, by the row of the format table. */
static struct { size_t values, accepted, refused; } ran[FORMATS];

static const format_info *format_of(void **state, size_t *row) {
    const format_info *format = format_by_name(*state);
    if (format == NULL) {
        fail_msg("%s is in formats.inc but not in the table", (const char *)*state);
    }
    *row = (size_t)(format - format_at(0));
    assert_true(*row < FORMATS);
    return format;
}

static void its_row_agrees_with_the_manifest(void **state) {
    size_t row;
    const format_info *format = format_of(state, &row);
    const json_t *entry = vectors_format(format->name);
    assert_int_equal(format->values, vectors_size(entry, "block"));
    assert_int_equal(format->bytes, vectors_size(entry, "bytes"));
    assert_int_equal(format->ggml_type, vectors_size(entry, "type_id"));
    assert_ptr_equal(format_by_id(format->id), format);
    assert_ptr_equal(format_by_ggml_type(format->ggml_type), format);
    assert_non_null(format->value);
    assert_non_null(format->invalid);
    assert_int_equal(format->sums != NULL, format->kind == FORMAT_SUMS);
    assert_int_equal(format->term != NULL, format->kind == FORMAT_SUMS);
    assert_int_equal(format->fold != NULL, format->kind == FORMAT_FOLD);
}

/* Index of the expert or tensor that block `at` of a section belongs to. */
static size_t owner_of(const json_t *section, size_t at) {
    const json_t *list = json_object_get(section, "expert_index");
    const char *per = "blocks_per_expert";
    if (list == NULL) {
        list = json_object_get(section, "tensor_index");
        per = "blocks_per_tensor";
    }
    if (list == NULL) {
        return 0;
    }
    return (size_t)json_integer_value(json_array_get(list, at / vectors_size(section, per)));
}

static void check_section(const format_info *format, size_t row, const json_t *entry,
                          const char *name, const json_t *section, uint32_t dialect) {
    size_t encoded_bytes, decoded_bytes;
    const uint8_t *encoded = vectors_array(vectors_get(section, "encoded"), &encoded_bytes);
    const uint8_t *decoded = vectors_array(vectors_get(section, "decoded"), &decoded_bytes);
    size_t block_bytes = (size_t)format->bytes, values = (size_t)format->values;
    size_t blocks = encoded_bytes / block_bytes;
    int must_reject = json_is_true(json_object_get(section, "must_reject"));
    assert_int_equal(decoded_bytes, blocks * values * 4);
    for (size_t b = 0; b < blocks; b++) {
        opreg_side side = vectors_side(format, entry, owner_of(section, b), dialect);
        const uint8_t *block = encoded + b * block_bytes;
        const char *reason = format->invalid(block, &side);
        if (must_reject && (reason == NULL || reason[0] == 0)) {
            fail_msg("%s %s block %zu is accepted", format->name, name, b);
        }
        if (!must_reject && reason != NULL) {
            fail_msg("%s %s block %zu is refused: %s", format->name, name, b, reason);
        }
        ran[row].refused += reason != NULL;
        ran[row].accepted += reason == NULL;
        for (size_t i = 0; i < values; i++) {
            float got = format->value(block, (int)i, &side);
            float want = vectors_f32(decoded, b * values + i);
            if (!vectors_same(got, want)) {
                fail_msg("%s %s block %zu weight %zu: got %a, golden %a", format->name, name, b, i,
                         (double)got, (double)want);
            }
            ran[row].values++;
        }
    }
}

static void it_decodes_every_section_bit_for_bit(void **state) {
    size_t row;
    const format_info *format = format_of(state, &row);
    json_t *entry = vectors_format(format->name);
    const char *name;
    json_t *section;
    json_object_foreach(vectors_get(entry, "sections"), name, section) {
        check_section(format, row, entry, name, section, vectors_dialect(format->name, name));
        /* without bit 7 in its scales, a block means the same to the plain and the sign-bit reading
         */
        if (format->id == OPREG_ROCMFP2 && strncmp(name, "variant", 7) != 0) {
            check_section(format, row, entry, name, section, OPREG_DIALECT_ROCMFP2_PLAIN);
        }
        if (format->id == OPREG_NVFP4 && strcmp(name, "nonportable_scales") != 0) {
            check_section(format, row, entry, name, section, OPREG_DIALECT_NVFP4_SIGNED);
        }
    }
}

static size_t bytes_of_hex(const char *hex, uint8_t *bytes, size_t cap) {
    size_t count = strlen(hex) / 2;
    assert_true(count <= cap);
    for (size_t i = 0; i < count; i++) {
        char digits[3] = {hex[2 * i], hex[2 * i + 1], 0};
        bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return count;
}

static void it_refuses_the_invalid_blocks_with_a_reason(void **state) {
    size_t row, at;
    const format_info *format = format_of(state, &row);
    json_t *blocks = vectors_get(vectors_json("invalid.json"), "blocks"), *record;
    json_array_foreach(blocks, at, record) {
        if (!vectors_named(json_string_value(vectors_get(record, "format")), format->name)) {
            continue;
        }
        uint8_t block[256];
        opreg_side side = {.tensor_scale = 1.0f};
        side.mode = format->side == FORMAT_SIDE_MIX4 || format->side == FORMAT_SIDE_MIX8;
        side.dialect = format->id == OPREG_ROCMFP2 ? OPREG_DIALECT_ROCMFP2_PLAIN : 0;
        size_t bytes = bytes_of_hex(json_string_value(vectors_get(record, "hex")), block, 256);
        assert_int_equal(bytes, format->bytes);
        const char *reason = format->invalid(block, &side);
        if (reason == NULL || reason[0] == 0) {
            fail_msg("%s accepts invalid.json block %zu: %s", format->name, at,
                     json_string_value(vectors_get(record, "reason")));
        }
        ran[row].refused++;
    }
}

/* The readings of NVFP4 scale bytes that have no golden vector. */
static void signed_nvfp4_scales_negate_and_have_no_nan(void **state) {
    const format_info *nvfp4 = format_by_id(OPREG_NVFP4);
    opreg_side plain = {.tensor_scale = 1.0f};
    opreg_side is_signed = {.tensor_scale = 1.0f, .dialect = OPREG_DIALECT_NVFP4_SIGNED};
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        uint8_t block[36] = {0}, low[36] = {0};
        block[0] = (uint8_t)byte;
        low[0] = (uint8_t)(byte & 127);
        block[4] = low[4] = 0x05; /* weight 0 is level 6 */
        float want = nvfp4->value(low, 0, &plain);
        float got = nvfp4->value(block, 0, &is_signed);
        if (!vectors_same(got, byte & 128 && byte != 255 ? -want : want)) {
            fail_msg("scale byte %d: weight %a", byte, (double)got);
        }
        got = nvfp4->value(block, 0, &plain);
        if (!vectors_same(got, byte == 255 ? 6 * 240.0f : want)) {
            fail_msg("scale byte %d in the default reading: weight %a", byte, (double)got);
        }
    }
}

static void unknown_formats_are_null(void **state) {
    (void)state;
    assert_null(format_by_id(0));
    assert_null(format_by_id(OPREG_Q8_K));
    assert_null(format_by_id(OPREG_F8_E4M3));
    assert_null(format_by_id(OPREG_DTYPE_PLUGIN));
    assert_null(format_by_name("q4_K"));
    assert_null(format_by_name(""));
    assert_null(format_by_ggml_type(-1));
    assert_null(format_by_ggml_type(9));
    assert_null(format_at(format_count()));
}

static void the_documented_table_is_the_list(void **state) {
    FILE *page = fopen(OPREG_TEST_DATA "/../../docs/formats.md", "r");
    char line[4096];
    size_t row = 0;
    (void)state;
    assert_non_null(page);
    while (row < format_count() && fgets(line, sizeof line, page) != NULL) {
        const format_info *f = format_at(row);
        const char *act = f->act_dtype == OPREG_Q8_0   ? "Q8_0"
                          : f->act_dtype == OPREG_Q8_K ? "Q8_K"
                                                       : "f32";
        char want[128];
        snprintf(want, sizeof want, "| `%s` | %d | %d | %d | %.7g | %s |\n", f->name,
                 (int)f->ggml_type, f->values, f->bytes, 8.0 * f->bytes / f->values, act);
        row += strcmp(line, want) == 0;
    }
    fclose(page);
    if (row < format_count()) {
        fail_msg("docs/formats.md has not the row of %s in its place", format_at(row)->name);
    }
}

static void no_format_is_never_run(void **state) {
    (void)state;
    for (size_t row = 0; row < format_count(); row++) {
        const format_info *format = format_at(row);
        if (ran[row].values == 0 || ran[row].accepted == 0) {
            fail_msg("never-run: no golden block of %s was decoded", format->name);
        }
        if (ran[row].refused == 0 && format->id != OPREG_NVFP4) { /* all its bytes have a meaning */
            fail_msg("never-run: no invalid block of %s was refused", format->name);
        }
    }
}

#define TEST(name, promise)                                                                        \
    {                                                                                              \
        "{" name "} " #promise, promise, NULL, NULL, (char[]) {                                    \
            name                                                                                   \
        }                                                                                          \
    }
#define OPREG_FORMAT(ID, name, ...)                                                                \
    TEST(#name, its_row_agrees_with_the_manifest),                                                 \
        TEST(#name, it_decodes_every_section_bit_for_bit),                                         \
        TEST(#name, it_refuses_the_invalid_blocks_with_a_reason),

/* With --counts, also prints what ran. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
#include "formats/formats.inc"
        cmocka_unit_test(signed_nvfp4_scales_negate_and_have_no_nan),
        cmocka_unit_test(unknown_formats_are_null),
        cmocka_unit_test(the_documented_table_is_the_list),
        cmocka_unit_test(no_format_is_never_run),
    };
    int failed = cmocka_run_group_tests_name("formats", tests, NULL, NULL);
    for (size_t row = 0; argc > 1 && strcmp(argv[1], "--counts") == 0 && row < format_count();
         row++) {
        printf("%-14s %6zu values, %4zu blocks accepted, %3zu refused\n", format_at(row)->name,
               ran[row].values, ran[row].accepted, ran[row].refused);
    }
    return failed;
}
