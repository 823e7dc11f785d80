/* SPDX-License-Identifier: MIT
 * replay.c - reads replay files (docs/command.md has their form); nothing in one is trusted. */
#define _POSIX_C_SOURCE 200809L
#include "replay.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "error.h"
#include "problem.h"

#define LINE 4096

/* Gaps between the rows of outputs, beside as much as the inputs may make. */
#define OUTPUTS_MOST(inputs) ((UINT64_C(64) << 20) + 16 * (inputs))

/* The rest of a line that starts with "key "; null when it does not. */
static const char *value_of(char *line, const char *key) {
    size_t length = strlen(key);
    line[strcspn(line, "\n")] = '\0';
    return strncmp(line, key, length) == 0 && line[length] == ' ' ? line + length + 1 : NULL;
}

static int read_text(FILE *file, const char *key, char *out, size_t cap) {
    char line[LINE];
    const char *value = fgets(line, sizeof line, file) ? value_of(line, key) : NULL;
    if (!value || strlen(value) >= cap) {
        return 0;
    }
    memcpy(out, value, strlen(value) + 1);
    return 1;
}

/* 1: an input, 0: "end", -1: neither. */
static int read_input(FILE *file, replay_input *in) {
    char line[LINE];
    const char *value;
    unsigned long long bytes, side;
    long long experts, n, k;
    if (!fgets(line, sizeof line, file)) {
        return -1;
    }
    memset(in, 0, sizeof *in);
    if (strcmp(line, "end\n") == 0) {
        return 0;
    }
    value = value_of(line, "buffer");
    if (value) {
        if (sscanf(value, "%u %llu", &in->index, &bytes) != 2) {
            return -1;
        }
        in->bytes = bytes;
        return 1;
    }
    value = value_of(line, "weight");
    if (!value || sscanf(value, "%u %llu %u %u %lld %lld %lld %llu %la", &in->index, &bytes,
                         &in->format, &in->dialect, &experts, &n, &k, &side,
                         &in->tensor_scale) != 9) {
        return -1;
    }
    in->is_weight = 1;
    in->bytes = bytes;
    in->side_bytes = side;
    in->experts = experts;
    in->n = n;
    in->k = k;
    return 1;
}

static const char *read_head(replay *r) {
    char line[LINE], name[64];
    int more = 1;
    if (!fgets(line, sizeof line, r->file) || strcmp(line, "opreg-replay 1\n") != 0) {
        return "it does not begin with \"opreg-replay 1\"";
    }
    if (!read_text(r->file, "op", name, sizeof name) ||
        !read_text(r->file, "problem", r->text, sizeof r->text) ||
        !read_text(r->file, "kernel", r->kernel, sizeof r->kernel) ||
        !read_text(r->file, "reference", r->reference, sizeof r->reference) ||
        !read_text(r->file, "device", r->device, sizeof r->device) ||
        !read_text(r->file, "difference", r->difference, sizeof r->difference)) {
        return "one of the lines op, problem, kernel, reference, device, difference is missing";
    }
    r->op = opreg_op_by_name(name);
    if (opreg_problem_size(r->op) == 0 || opreg_problem_size(r->op) > sizeof r->problem) {
        return "its operator is unknown";
    }
    if (opreg_problem_parse(r->op, r->text, r->problem) != OPREG_OK) {
        return opreg_last_error();
    }
    while (more) {
        if (r->count == REPLAY_INPUTS) {
            return "it has too many inputs";
        }
        more = read_input(r->file, &r->inputs[r->count]);
        if (more < 0) {
            return "a line is neither buffer, weight nor end";
        }
        r->count += (uint32_t)more;
    }
    return NULL;
}

/* The bytes after "end" are those announced, no more and no less. */
static int has_its_bytes(const replay *r) {
    struct stat about;
    off_t at = ftello(r->file);
    uint64_t left;
    if (at < 0 || fstat(fileno(r->file), &about) != 0 || about.st_size < at) {
        return 0;
    }
    left = (uint64_t)(about.st_size - at);
    for (uint32_t i = 0; i < r->count; i++) {
        const replay_input *in = &r->inputs[i];
        if (in->bytes > left || in->side_bytes > left - in->bytes) {
            return 0;
        }
        left -= in->bytes + in->side_bytes;
    }
    return left == 0;
}

int replay_open(const command *self, const char *path, replay *out) {
    const char *wrong;
    memset(out, 0, sizeof *out);
    out->file = fopen(path, "rb");
    if (!out->file) {
        complain(self, "%s: it cannot be opened", path);
        return 0;
    }
    wrong = read_head(out);
    if (!wrong && !has_its_bytes(out)) {
        wrong = "its length is not what its lines announce";
    }
    if (wrong) {
        complain(self, "%s: %s", path, wrong);
        replay_close(out);
    }
    return wrong == NULL;
}

static const replay_input *input_of(const replay *r, int is_weight, uint32_t index) {
    const replay_input *found = NULL;
    for (uint32_t i = 0; i < r->count; i++) {
        const replay_input *in = &r->inputs[i];
        if (in->is_weight == is_weight && in->index == index) {
            if (found) {
                return NULL;
            }
            found = in;
        }
    }
    return found;
}

static int is_weight_of_problem(const replay_input *in, const problem_weight *w,
                                const problem_formats *extra) {
    uint32_t values, block;
    int64_t bytes;
    return in && in->format == w->format && in->experts == w->experts && in->n == w->n &&
           in->k == w->k && problem_block(w->format, extra, &values, &block) == OPREG_OK &&
           size_mul(w->k / values, block, &bytes) && size_mul(bytes, w->n, &bytes) &&
           size_mul(bytes, w->experts, &bytes) && (uint64_t)bytes == in->bytes;
}

int replay_accounts_for_call(const replay *r, const opreg_registry *reg) {
    const problem_formats extra = registry_formats(reg);
    problem_buffer buffers[PROBLEM_MAX_BUFS];
    problem_weight weights[PROBLEM_MAX_WEIGHTS];
    problem_any problem;
    uint64_t inputs = 0, outputs = 0;
    uint32_t num_buffers, num_weights, used = 0;
    if (problem_load(r->op, r->problem, &problem) != OPREG_OK ||
        problem_check(r->op, &problem, &extra) != OPREG_OK) {
        return 0;
    }
    num_buffers = problem_buffers(r->op, &problem, buffers);
    num_weights = problem_weights(r->op, &problem, weights);
    for (uint32_t i = 0; i < num_weights; i++, used++) {
        const replay_input *in = input_of(r, 1, i);
        if (!is_weight_of_problem(in, &weights[i], &extra)) {
            fail(OPREG_E_ARG, "the file does not have weight %u (%s) of its problem", i,
                 weights[i].name);
            return 0;
        }
        inputs += in->bytes;
    }
    for (uint32_t i = 0; i < num_buffers; i++) {
        const problem_buffer *b = &buffers[i];
        const replay_input *in = input_of(r, 0, i);
        if (b->output) {
            outputs = b->bytes > UINT64_MAX - outputs ? UINT64_MAX : outputs + b->bytes;
        } else if (in && b->bytes > 0 && in->bytes == b->bytes) {
            inputs += in->bytes;
            used++;
        } else if (b->bytes > 0 && b->use == BUFFER_REQUIRED) {
            fail(OPREG_E_ARG, "the file does not have buffer %u (%s) of its problem", i, b->name);
            return 0;
        }
    }
    if (used != r->count) {
        fail(OPREG_E_ARG, "the file has what is not an input of its problem, or is there twice");
        return 0;
    }
    if (outputs > OUTPUTS_MOST(inputs)) {
        fail(OPREG_E_ARG, "the problem's outputs have %llu bytes, with these inputs at most %llu",
             (unsigned long long)outputs, (unsigned long long)OUTPUTS_MOST(inputs));
        return 0;
    }
    return 1;
}

void replay_close(replay *r) {
    if (r->file) {
        fclose(r->file);
        r->file = NULL;
    }
}

int replay_read(replay *r, void *out, uint64_t bytes) {
    return fread(out, 1, (size_t)bytes, r->file) == bytes;
}
