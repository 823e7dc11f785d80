/* SPDX-License-Identifier: MIT
 * problem.c - copies structs across the size boundary, and the public face of the problem table. */
#include "problem.h"

#include <string.h>

#include "error.h"

/* A caller from the future may bring a longer struct, but not an absurd one. */
#define STRUCT_SIZE_MAX 4096u

opreg_status struct_load(void *out, size_t known, const void *in, const char *what) {
    uint32_t size;
    if (in == NULL) {
        return fail(OPREG_E_ARG, "the %s is null", what);
    }
    memcpy(&size, in, sizeof size);
    if (size < sizeof size) {
        return fail(OPREG_E_ARG, "the %s has struct_size %u: set it to its sizeof, %zu", what, size,
                    known);
    }
    if (size > STRUCT_SIZE_MAX) {
        return fail(OPREG_E_ARG,
                    "the %s has struct_size %u, more than any opreg takes (%u): is it set? Its sizeof is %zu",
                    what, size, STRUCT_SIZE_MAX, known);
    }
    memset(out, 0, known);
    memcpy(out, in, size < known ? size : known);
    for (size_t i = known; i < size; i++) {
        if (((const unsigned char *)in)[i] != 0) {
            return fail(OPREG_E_ARG,
                        "the %s is from a newer opreg and uses its byte %zu, which opreg %s does "
                        "not know",
                        what, i, OPREG_VERSION);
        }
    }
    size = (uint32_t)known;
    memcpy(out, &size, sizeof size);
    return OPREG_OK;
}

void struct_store(void *out, size_t row_bytes, const void *row, size_t known) {
    uint32_t size = (uint32_t)(row_bytes < known ? row_bytes : known);
    if (row_bytes < sizeof size) {
        return;
    }
    memcpy(out, row, size);
    memcpy(out, &size, sizeof size);
}

int size_mul(int64_t a, int64_t b, int64_t *out) {
    if (a < 0 || b < 0 || (b != 0 && a > INT64_MAX / b)) {
        return 0;
    }
    *out = a * b;
    return 1;
}

int size_add(int64_t a, int64_t b, int64_t *out) {
    if (a < 0 || b < 0 || a > INT64_MAX - b) {
        return 0;
    }
    *out = a + b;
    return 1;
}

opreg_status problem_load(opreg_op op, const void *problem, problem_any *out) {
    const problem_op *row = problem_op_find(op);
    if (row == NULL) {
        return fail(OPREG_E_ARG, "%d is not an operator: use OPREG_OP_*", (int)op);
    }
    memset(out, 0, sizeof *out);
    return struct_load(out, row->size, problem, row->name);
}

opreg_status opreg_problem_check(opreg_op op, const void *problem) {
    problem_any full;
    opreg_status status = problem_load(op, problem, &full);
    return status != OPREG_OK ? status : problem_check(op, &full, NULL);
}

size_t opreg_problem_print(opreg_op op, const void *problem, char *text, size_t cap) {
    problem_any full;
    if (problem_load(op, problem, &full) != OPREG_OK) {
        if (text != NULL && cap > 0) {
            text[0] = '\0';
        }
        return 0;
    }
    return problem_text(op, &full, 0, text, cap);
}

opreg_status opreg_problem_buffer(opreg_op op, const void *problem, uint32_t index,
                                  uint64_t *bytes) {
    problem_any full;
    problem_buffer buffers[PROBLEM_MAX_BUFS];
    opreg_status status = problem_load(op, problem, &full);
    if (status == OPREG_OK) {
        status = problem_check(op, &full, NULL);
    }
    if (status != OPREG_OK) {
        return status;
    }
    if (bytes == NULL) {
        return fail(OPREG_E_ARG, "the bytes pointer is null");
    }
    if (index >= problem_op_find(op)->num_bufs) {
        return fail(OPREG_E_ARG, "%s has buffers 0 to %u, not %u", opreg_op_name(op),
                    problem_op_find(op)->num_bufs - 1u, index);
    }
    problem_buffers(op, &full, buffers);
    *bytes = buffers[index].use == BUFFER_UNUSED ? 0 : buffers[index].bytes;
    return OPREG_OK;
}

opreg_status opreg_route_layout_get(int64_t tokens, int32_t top_k, int32_t experts,
                                    opreg_route_layout *out) {
    opreg_route_layout layout = {0};
    int64_t entries, groups;
    uint64_t at = sizeof(opreg_route_header);
    if (out == NULL || out->struct_size < sizeof out->struct_size) {
        return fail(OPREG_E_ARG,
                    "opreg_route_layout: null, or struct_size is not set to its sizeof");
    }
    if (tokens < 0 || top_k < 1 || experts < 1) {
        return fail(OPREG_E_SHAPE,
                    "a route needs tokens >= 0, top_k >= 1, experts >= 1; got %lld, %d, %d",
                    (long long)tokens, top_k, experts);
    }
    if (!size_mul(tokens, top_k, &entries) || entries > INT32_MAX - 1) {
        return fail(OPREG_E_SHAPE, "tokens %lld times top_k %d does not fit in 32 bits",
                    (long long)tokens, top_k);
    }
    groups = (experts < entries ? experts : entries) + 1;
#define ARRAY(member, count)                                                                       \
    at = (at + 15u) & ~(uint64_t)15u;                                                              \
    layout.member = at;                                                                            \
    at += (uint64_t)(count) * 4u
    ARRAY(group_expert, groups);
    ARRAY(group_start, groups + 1);
    ARRAY(entry_token, entries);
    ARRAY(entry_dst, entries);
    ARRAY(entry_weight, entries);
#undef ARRAY
    layout.bytes = (at + 15u) & ~(uint64_t)15u;
    layout.cap_groups = (uint32_t)groups;
    layout.cap_entries = (uint32_t)entries;
    struct_store(out, out->struct_size, &layout, sizeof layout);
    return OPREG_OK;
}
