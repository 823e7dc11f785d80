/* SPDX-License-Identifier: MIT
 * replay.c - reads replay files (docs/command.md has their form); nothing in one is trusted. */
#define _POSIX_C_SOURCE 200809L
#include "replay.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LINE 4096

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

void replay_close(replay *r) {
    if (r->file) {
        fclose(r->file);
        r->file = NULL;
    }
}

int replay_read(replay *r, void *out, uint64_t bytes) {
    return fread(out, 1, (size_t)bytes, r->file) == bytes;
}
