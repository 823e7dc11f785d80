/* SPDX-License-Identifier: MIT
 * fuzz_problem.c - a problem of any text or bytes is refused, or printed, read back and planned.
 * The first byte says the operator and whether the rest is a text or the struct itself. */
#include "fuzz.h"

#include "problem.h"

/* What a good problem promises: the same text and bytes again, buffers, an explanation, a plan. */
static void use_problem(opreg_op op, const problem_any *problem) {
    char text[PROBLEM_TEXT_BYTES], again_text[PROBLEM_TEXT_BYTES];
    problem_any again;
    opreg_candidate rows[64];
    opreg_device dev;
    opreg_registry *reg = fuzz_registry(&dev);
    opreg_plan *plan = NULL;
    opreg_status status;
    size_t count = 0, length = opreg_problem_print(op, problem, text, sizeof text);
    FUZZ_CHECK(length < sizeof text);
    FUZZ_CHECK(opreg_problem_parse(op, text, &again) == OPREG_OK);
    FUZZ_CHECK(opreg_problem_print(op, &again, again_text, sizeof again_text) == length);
    FUZZ_CHECK(strcmp(text, again_text) == 0);
    for (uint32_t i = 0; i < PROBLEM_MAX_BUFS; i++) {
        uint64_t bytes;
        status = opreg_problem_buffer(op, problem, i, &bytes);
        FUZZ_CHECK(status == OPREG_OK || status == OPREG_E_ARG);
        FUZZ_CHECK(status != OPREG_OK || bytes <= INT64_MAX);
    }
    memset(rows, 0, sizeof rows);
    status = opreg_explain(reg, &dev, op, problem, rows, sizeof rows[0], 64, &count);
    FUZZ_CHECK(status == OPREG_OK && count <= 64 && count > 0);
    status = opreg_plan_create(reg, &dev, op, problem, &plan);
    if (status == OPREG_OK) {
        FUZZ_CHECK(opreg_plan_workspace(plan) <= (uint64_t)INT64_MAX);
        opreg_plan_destroy(plan);
    } else {
        FUZZ_CHECK(status == OPREG_E_UNSUPPORTED || status == OPREG_E_SHAPE);
    }
}

static void fuzz_as_text(opreg_op op, fuzz_input *in) {
    char *text = fuzz_text(in);
    problem_any problem;
    opreg_status status = opreg_problem_parse(op, text, &problem);
    FUZZ_CHECK(status == OPREG_OK || status == OPREG_E_ARG);
    free(text);
    if (status == OPREG_OK && opreg_problem_check(op, &problem) == OPREG_OK) {
        use_problem(op, &problem);
    }
}

static void fuzz_as_bytes(opreg_op op, fuzz_input *in) {
    size_t room = in->left < sizeof(uint32_t) ? sizeof(uint32_t) : in->left;
    void *bytes;
    uint32_t size;
    problem_any problem;
    opreg_status status;
    room = room > 1024 ? 1024 : room;
    bytes = fuzz_bytes(in, room);
    memcpy(&size, bytes, sizeof size);
    if (size > room) { /* a caller's struct has the bytes that it says */
        size = (uint32_t)room;
        memcpy(bytes, &size, sizeof size);
    }
    status = opreg_problem_check(op, bytes);
    FUZZ_CHECK(status == OPREG_OK || status == OPREG_E_ARG || status == OPREG_E_SHAPE);
    if (status == OPREG_OK) {
        FUZZ_CHECK(problem_load(op, bytes, &problem) == OPREG_OK);
        use_problem(op, &problem);
    }
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input in = {data, size};
    uint8_t first = fuzz_u8(&in);
    opreg_op op = (opreg_op)(first % 16);
    if (first >= 128) {
        fuzz_as_bytes(op, &in);
    } else if (opreg_problem_size(op) != 0) {
        fuzz_as_text(op, &in);
    }
    return 0;
}
