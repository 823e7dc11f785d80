/* SPDX-License-Identifier: MIT
 * replay.c - a call's inputs and weights in one file, which `opreg shadow replay` reads.
 *
 * Lines of text up to "end", then the bytes they announce in the same order: docs/command.md. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "watch.h"

/* Larger calls (a whole cache, the experts of a large model) are not worth a file. */
#define REPLAY_BYTES_MOST (UINT64_C(2) << 30)

typedef struct input {
    const opreg_weight *weight; /* or null: a buffer                                                */
    const void *ptr;
    uint64_t bytes;
    uint32_t index;
} input;

static uint32_t list_inputs(const opreg_plan *plan, const opreg_args *args, const opreg_call *call,
                            input *out) {
    problem_buffer buffers[PROBLEM_MAX_BUFS];
    uint32_t count = 0, bufs = problem_buffers(plan->op, &plan->problem, buffers);
    for (uint32_t i = 0; i < bufs; i++) {
        if (call->bufs[i].ptr != NULL && !buffers[i].output && buffers[i].bytes > 0) {
            out[count++] = (input){NULL, call->bufs[i].ptr, buffers[i].bytes, i};
        }
    }
    for (uint32_t i = 0; i < args->num_weights; i++) {
        out[count++] = (input){args->weights[i], NULL, (uint64_t)args->weights[i]->packed_bytes, i};
    }
    return count;
}

/* 1 when the run has written over one of its inputs, which are gone then. */
static int overlaps_output(const opreg_plan *plan, const opreg_call *call, const input *in) {
    problem_buffer buffers[PROBLEM_MAX_BUFS];
    uint32_t bufs = problem_buffers(plan->op, &plan->problem, buffers);
    uintptr_t a = (uintptr_t)in->ptr;
    for (uint32_t i = 0; i < bufs; i++) {
        uintptr_t b = (uintptr_t)call->bufs[i].ptr;
        if (buffers[i].output && in->ptr != NULL && b != 0 && a < b + buffers[i].bytes &&
            b < a + in->bytes) {
            return 1;
        }
    }
    return 0;
}

static void print_head(FILE *file, const opreg_plan *plan, const char *reference,
                       const char *text, const input *inputs, uint32_t count) {
    char problem[PROBLEM_TEXT_BYTES], device[64];
    problem_text(plan->op, &plan->problem, 0, problem, sizeof problem);
    device_text(plan->dev, device, sizeof device);
    fprintf(file, "opreg-replay 1\nop %s\nproblem %s\nkernel %s\nreference %s\ndevice %s\n"
                  "difference %s\n",
            opreg_op_name(plan->op), problem, plan->name, reference, device, text);
    for (uint32_t i = 0; i < count; i++) {
        const input *in = &inputs[i];
        const opreg_weight_view *v = in->weight != NULL ? &in->weight->view : NULL;
        if (v == NULL) {
            fprintf(file, "buffer %u %llu\n", in->index, (unsigned long long)in->bytes);
        } else {
            fprintf(file, "weight %u %llu %u %u %lld %lld %lld %llu %a\n", in->index,
                    (unsigned long long)in->bytes, v->format, v->dialect, (long long)v->experts,
                    (long long)v->n, (long long)v->k,
                    (unsigned long long)in->weight->side->wire_bytes,
                    (double)in->weight->side->tensor_scale);
        }
    }
    fprintf(file, "end\n");
}

/* Device bytes to the file; a prepared weight is laid out as stored first. */
static opreg_status write_input(FILE *file, const opreg_plan *plan, const opreg_call *call,
                                const input *in) {
    device_block stored = {0};
    const void *from = in->ptr;
    uint8_t *bytes = malloc(in->bytes > 0 ? (size_t)in->bytes : 1);
    opreg_status status = bytes == NULL ? fail(OPREG_E_NOMEM, "no memory for a replay file") : OPREG_OK;
    if (status == OPREG_OK && in->weight != NULL) {
        status = block_open(plan, in->bytes, &stored);
        if (status == OPREG_OK) {
            status = opreg_weight_restore(in->weight, (opreg_buf){stored.base, in->bytes},
                                          call->stream);
        }
        from = stored.base;
    }
    if (status == OPREG_OK) {
        status = plan->entry->io.to_host(plan->host, plan->dev, bytes, from, in->bytes, call->stream);
    }
    if (status == OPREG_OK) {
        fwrite(bytes, 1, (size_t)in->bytes, file);
        if (in->weight != NULL && in->weight->side->wire_bytes > 0) {
            fwrite(in->weight->side->wire, 1, (size_t)in->weight->side->wire_bytes, file);
        }
    }
    block_close(plan, &stored);
    free(bytes);
    return status;
}

/* A file of that name must not be there: nobody else's file is followed or overwritten. */
static FILE *new_file(const char *dir, char *path, size_t cap) {
    int fd = -1;
    for (unsigned number = 0; fd < 0 && number < 1000; number++) {
        snprintf(path, cap, "%s/opreg-shadow-%ld-%u.replay", dir, (long)getpid(), number);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno != EEXIST) {
            break;
        }
    }
    return fd < 0 ? NULL : fdopen(fd, "wb");
}

opreg_status replay_write(const opreg_plan *plan, const opreg_args *args, const opreg_call *call,
                          const char *dir, const char *reference, const char *text,
                          char *path, size_t cap) {
    input inputs[PROBLEM_MAX_BUFS + PROBLEM_MAX_WEIGHTS];
    uint32_t count = list_inputs(plan, args, call, inputs);
    uint64_t all = 0;
    opreg_status status = OPREG_OK;
    FILE *file;
    int bad;
    for (uint32_t i = 0; i < count; i++) {
        all += inputs[i].bytes;
        if (overlaps_output(plan, call, &inputs[i])) {
            return fail(OPREG_E_UNSUPPORTED, "buffer %u was written over by the run",
                        inputs[i].index);
        }
    }
    if (all > REPLAY_BYTES_MOST) {
        return fail(OPREG_E_UNSUPPORTED, "the call has %llu bytes, a replay file at most %llu",
                    (unsigned long long)all, (unsigned long long)REPLAY_BYTES_MOST);
    }
    file = new_file(dir, path, cap);
    if (file == NULL) {
        return fail(OPREG_E_LOAD, "%s: %s", path, strerror(errno));
    }
    print_head(file, plan, reference, text, inputs, count);
    for (uint32_t i = 0; i < count && status == OPREG_OK; i++) {
        status = write_input(file, plan, call, &inputs[i]);
    }
    bad = ferror(file) != 0;
    bad |= fclose(file) != 0;
    if (bad) {
        status = status != OPREG_OK ? status : fail(OPREG_E_LOAD, "%s: could not be written", path);
    }
    if (status != OPREG_OK) {
        unlink(path);
    }
    return status;
}
