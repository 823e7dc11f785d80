/* SPDX-License-Identifier: MIT
 * problem_text.c - problems as "key=value ..." and back, driven by the field table. */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "formats/formats.h"
#include "problem.h"

#define MAX_FIELDS 32

typedef struct word {
    const char *text;
    uint32_t value;
} word;

static const word dialect_words[] = {
    {"default", OPREG_DIALECT_DEFAULT},
    {"rocmfp2_plain", OPREG_DIALECT_ROCMFP2_PLAIN},
    {"rocmfp2_signbit", OPREG_DIALECT_ROCMFP2_SIGNBIT},
    {"rocmfp2_affine", OPREG_DIALECT_ROCMFP2_AFFINE},
    {"rocmfp2_s40", OPREG_DIALECT_ROCMFP2_S40},
    {"nvfp4_host", OPREG_DIALECT_NVFP4_HOST},
    {"nvfp4_signed", OPREG_DIALECT_NVFP4_SIGNED},
    {"rocmfp4_hip", OPREG_DIALECT_ROCMFP4_HIP},
    {NULL, 0}};
static const word level_words[] = {{"any", OPREG_LEVEL_ANY},
                                   {"band", OPREG_LEVEL_BAND},
                                   {"int", OPREG_LEVEL_INT},
                                   {"canonical", OPREG_LEVEL_CANONICAL},
                                   {NULL, 0}};
static const word layout_words[] = {
    {"stored", OPREG_LAYOUT_STORED}, {"any", OPREG_LAYOUT_ANY}, {NULL, 0}};
static const word glu_words[] = {{"none", OPREG_GLU_NONE},
                                 {"silu", OPREG_GLU_SILU},
                                 {"silu_clamped", OPREG_GLU_SILU_CLAMPED},
                                 {"gelu_tanh", OPREG_GLU_GELU_TANH},
                                 {"swiglu_oai", OPREG_GLU_SWIGLU_OAI},
                                 {NULL, 0}};
static const word rows_words[] = {{"token", OPREG_X_BY_TOKEN}, {"dst", OPREG_X_BY_DST}, {NULL, 0}};
static const word form_words[] = {
    {"topk", OPREG_ROUTE_TOPK}, {"pairs", OPREG_ROUTE_PAIRS}, {NULL, 0}};
static const word flag_words[] = {{"deterministic", OPREG_PF_DETERMINISTIC},
                                  {"graph_safe", OPREG_PF_GRAPH_SAFE},
                                  {"width_invariant", OPREG_PF_WIDTH_INVARIANT},
                                  {"bias", OPREG_PF_BIAS},
                                  {"csr", OPREG_PF_CSR},
                                  {"q_indptr", OPREG_PF_Q_INDPTR},
                                  {"sinks", OPREG_PF_SINKS},
                                  {"lse", OPREG_PF_LSE},
                                  {NULL, 0}};

static const word *words_of(uint32_t kind) {
    switch (kind) {
    case FIELD_DIALECT:
        return dialect_words;
    case FIELD_LEVEL:
        return level_words;
    case FIELD_LAYOUT:
        return layout_words;
    case FIELD_GLU:
        return glu_words;
    case FIELD_ROWS:
        return rows_words;
    case FIELD_FORM:
        return form_words;
    default:
        return NULL;
    }
}

static uint32_t get_u32(const problem_any *problem, size_t offset) {
    uint32_t value;
    memcpy(&value, problem->bytes + offset, sizeof value);
    return value;
}

static size_t field_bytes(uint32_t kind) { return kind == FIELD_I64 ? 8 : 4; }

/* ---- printing ------------------------------------------------------------------------------- */

static void print_flags(uint32_t value, char *out, size_t cap) {
    size_t at = 0;
    if (value == 0) {
        snprintf(out, cap, "none");
    }
    for (const word *w = flag_words; w->text != NULL; w++) {
        if ((value & w->value) != 0) {
            at += (size_t)snprintf(out + at, cap - at, "%s%s", at > 0 ? "+" : "", w->text);
            value &= ~w->value;
        }
    }
    if (value != 0) {
        snprintf(out + at, cap - at, "%s0x%x", at > 0 ? "+" : "", value);
    }
}

static void print_value(const problem_field *field, const problem_any *problem, char *out,
                        size_t cap) {
    const word *words = words_of(field->kind);
    uint32_t value = get_u32(problem, field->offset);
    int64_t wide;
    float number;
    switch (field->kind) {
    case FIELD_I64:
        memcpy(&wide, problem->bytes + field->offset, sizeof wide);
        snprintf(out, cap, "%lld", (long long)wide);
        return;
    case FIELD_I32:
        snprintf(out, cap, "%d", (int)(int32_t)value);
        return;
    case FIELD_F32:
        memcpy(&number, &value, sizeof number);
        snprintf(out, cap, "%.9g", (double)number);
        for (char *c = out; *c != '\0'; c++) { /* the locale's decimal mark, whatever it is */
            *c = strchr("0123456789+-einfa.", *c) != NULL ? *c : '.';
        }
        return;
    case FIELD_FLAGS:
        print_flags(value, out, cap);
        return;
    case FIELD_DTYPE:
        if (opreg_dtype_name(value)[0] != '?') {
            snprintf(out, cap, "%s", opreg_dtype_name(value));
            return;
        }
        break;
    default:
        break;
    }
    for (; words != NULL && words->text != NULL; words++) {
        if (words->value == value) {
            snprintf(out, cap, "%s", words->text);
            return;
        }
    }
    snprintf(out, cap, "%u", value);
}

/* Which fields a brief text needs so that their defaults give the others. */
static void choose_brief(opreg_op op, const problem_op *row, const problem_any *problem,
                         unsigned char *named) {
    uint32_t first;
    for (uint32_t i = 0; i < row->num_fields; i++) {
        named[i] = row->fields[i].presence != FIELD_DEFAULTED;
    }
    do {
        problem_any guess;
        memset(&guess, 0, sizeof guess);
        for (uint32_t i = 0; i < row->num_fields; i++) {
            const problem_field *field = &row->fields[i];
            if (named[i]) {
                memcpy(guess.bytes + field->offset, problem->bytes + field->offset,
                       field_bytes(field->kind));
            }
        }
        problem_defaults(op, &guess, named);
        for (first = 0; first < row->num_fields; first++) {
            const problem_field *field = &row->fields[first];
            if (memcmp(guess.bytes + field->offset, problem->bytes + field->offset,
                       field_bytes(field->kind)) != 0) {
                named[first] = 1;
                break;
            }
        }
    } while (first < row->num_fields);
}

size_t problem_text(opreg_op op, const problem_any *problem, int brief, char *text, size_t cap) {
    const problem_op *row = problem_op_find(op);
    unsigned char named[MAX_FIELDS];
    char value[128];
    size_t length = 0;
    memset(named, 1, sizeof named);
    cap = text != NULL ? cap : 0;
    if (cap > 0) {
        text[0] = '\0';
    }
    if (row == NULL) {
        return 0;
    }
    if (brief) {
        choose_brief(op, row, problem, named);
    }
    for (uint32_t i = 0; i < row->num_fields; i++) {
        int wrote;
        if (!named[i]) {
            continue;
        }
        print_value(&row->fields[i], problem, value, sizeof value);
        wrote = snprintf(length < cap ? text + length : NULL, length < cap ? cap - length : 0,
                         "%s%s=%s", length > 0 ? " " : "", row->fields[i].name, value);
        length += wrote > 0 ? (size_t)wrote : 0;
    }
    return length;
}

/* ---- parsing -------------------------------------------------------------------------------- */

static int parse_integer(const char *text, int64_t least, int64_t most, int64_t *out) {
    char *end;
    long long value;
    errno = 0;
    value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < least || value > most) {
        return 0;
    }
    *out = value;
    return 1;
}

static int parse_float(const char *text, float *out) {
    char local[64];
    const char *mark = localeconv()->decimal_point;
    char *end;
    const char *point = strchr(text, '.');
    size_t before = point != NULL ? (size_t)(point - text) : strlen(text);
    int length = snprintf(local, sizeof local, "%.*s%s%s", (int)before, text,
                          point != NULL ? mark : "", point != NULL ? point + 1 : "");
    if (length <= 0 || (size_t)length >= sizeof local) {
        return 0;
    }
    *out = strtof(local, &end);
    return *end == '\0';
}

static int parse_flags(const char *text, uint32_t *out) {
    uint32_t flags = 0;
    if (strcmp(text, "none") == 0) {
        *out = 0;
        return 1;
    }
    while (*text != '\0') {
        size_t length = strcspn(text, "+");
        const word *w = flag_words;
        while (w->text != NULL && (strlen(w->text) != length || strncmp(w->text, text, length))) {
            w++;
        }
        if (w->text == NULL) {
            return 0;
        }
        flags |= w->value;
        text += length;
        if (*text == '+' && *++text == '\0') {
            return 0;
        }
    }
    *out = flags;
    return flags != 0;
}

static int parse_dtype(const char *text, uint32_t *out) {
    static const uint32_t others[] = {OPREG_F8_E4M3, OPREG_Q8_K};
    const format_info *info = format_by_name(text);
    int64_t id;
    if (info != NULL) {
        *out = info->id;
        return 1;
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(opreg_dtype_name(others[i]), text) == 0) {
            *out = others[i];
            return 1;
        }
    }
    if (parse_integer(text, OPREG_DTYPE_PLUGIN, INT32_MAX, &id)) {
        *out = (uint32_t)id;
        return 1;
    }
    return 0;
}

static int parse_word(const word *words, uint32_t kind, const char *text, uint32_t *out) {
    int64_t id;
    for (const word *w = words; w->text != NULL; w++) {
        if (strcmp(w->text, text) == 0) {
            *out = w->value;
            return 1;
        }
    }
    if (kind == FIELD_LAYOUT && parse_integer(text, 0, UINT32_MAX, &id)) {
        *out = (uint32_t)id;
        return 1;
    }
    return 0;
}

/* 1 when the value was read into the problem. */
static int parse_value(const problem_field *field, const char *text, problem_any *problem) {
    void *at = problem->bytes + field->offset;
    uint32_t value = 0;
    int64_t wide = 0;
    float number = 0;
    int right;
    switch (field->kind) {
    case FIELD_I64:
        right = parse_integer(text, INT64_MIN, INT64_MAX, &wide);
        memcpy(at, &wide, sizeof wide);
        return right;
    case FIELD_I32:
        right = parse_integer(text, INT32_MIN, INT32_MAX, &wide);
        value = (uint32_t)(int32_t)wide;
        break;
    case FIELD_F32:
        right = parse_float(text, &number);
        memcpy(&value, &number, sizeof value);
        break;
    case FIELD_FLAGS:
        right = parse_flags(text, &value);
        break;
    case FIELD_DTYPE:
        right = parse_dtype(text, &value);
        break;
    default:
        right = parse_word(words_of(field->kind), field->kind, text, &value);
        break;
    }
    memcpy(at, &value, sizeof value);
    return right;
}

/* "q4_k and the like" or the list of words, for the error text. */
static void describe(const problem_op *op, const problem_field *field, char *out, size_t cap) {
    const word *words = field->kind == FIELD_FLAGS ? flag_words : words_of(field->kind);
    size_t at = 0;
    out[0] = '\0';
    switch (field->kind) {
    case FIELD_DTYPE:
        snprintf(out, cap, "a type or format name such as f32 or q4_k");
        return;
    case FIELD_F32:
        snprintf(out, cap, "a number");
        return;
    case FIELD_I32:
    case FIELD_I64:
        snprintf(out, cap, "a whole number");
        return;
    default:
        break;
    }
    for (; words != NULL && words->text != NULL && at < cap; words++) {
        if (field->kind == FIELD_FLAGS && (op->flags & words->value) == 0) {
            continue;
        }
        at += (size_t)snprintf(out + at, cap - at, "%s%s", at > 0 ? " " : "one of ", words->text);
    }
    if (field->kind == FIELD_FLAGS && at < cap) {
        snprintf(out + at, cap - at, ", several with +");
    } else if (field->kind == FIELD_LAYOUT && at < cap) {
        snprintf(out + at, cap - at, " or a layout id");
    }
}

static void list_keys(const problem_op *op, char *out, size_t cap) {
    size_t at = 0;
    for (uint32_t i = 0; i < op->num_fields && at < cap; i++) {
        at += (size_t)snprintf(out + at, cap - at, "%s%s", i > 0 ? " " : "", op->fields[i].name);
    }
}

/* One "key=value" of length bytes. */
static opreg_status parse_pair(const problem_op *row, const char *at, size_t length,
                               problem_any *problem, unsigned char *named) {
    char value[256], list[512];
    const char *equals = memchr(at, '=', length);
    size_t key = equals != NULL ? (size_t)(equals - at) : length;
    if (equals == NULL || length - key > sizeof value) {
        return fail(OPREG_E_ARG, "\"%.*s\" is not key=value", (int)(length < 80 ? length : 80), at);
    }
    memcpy(value, equals + 1, length - key - 1);
    value[length - key - 1] = '\0';
    for (uint32_t i = 0; i < row->num_fields; i++) {
        const problem_field *field = &row->fields[i];
        if (strlen(field->name) != key || memcmp(field->name, at, key) != 0) {
            continue;
        }
        if (named[i]) {
            return fail(OPREG_E_ARG, "%s: %s is there twice", row->name, field->name);
        }
        if (!parse_value(field, value, problem)) {
            describe(row, field, list, sizeof list);
            return fail(OPREG_E_ARG, "%s: %s is \"%s\", it must be %s", row->name, field->name,
                        value, list);
        }
        named[i] = 1;
        return OPREG_OK;
    }
    list_keys(row, list, sizeof list);
    return fail(OPREG_E_ARG, "%s has no key \"%.*s\"; its keys: %s", row->name,
                (int)(key < 80 ? key : 80), at, list);
}

opreg_status opreg_problem_parse(opreg_op op, const char *text, void *problem) {
    const problem_op *row = problem_op_find(op);
    unsigned char named[MAX_FIELDS] = {0};
    problem_any full;
    if (row == NULL) {
        return fail(OPREG_E_ARG, "%d is not an operator: use OPREG_OP_*", (int)op);
    }
    if (text == NULL || problem == NULL) {
        return fail(OPREG_E_ARG, "the %s is null", text == NULL ? "text" : "problem");
    }
    memset(&full, 0, sizeof full);
    for (text += strspn(text, " \t\n"); *text != '\0'; text += strspn(text, " \t\n")) {
        size_t length = strcspn(text, " \t\n");
        opreg_status status = parse_pair(row, text, length, &full, named);
        if (status != OPREG_OK) {
            return status;
        }
        text += length;
    }
    for (uint32_t i = 0; i < row->num_fields; i++) {
        if (row->fields[i].presence == FIELD_REQUIRED && !named[i]) {
            return fail(OPREG_E_ARG, "%s: %s=... is missing", row->name, row->fields[i].name);
        }
    }
    full.struct_size = row->size;
    problem_defaults(op, &full, named);
    memcpy(problem, &full, row->size);
    return OPREG_OK;
}
