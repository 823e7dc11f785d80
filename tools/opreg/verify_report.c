/* SPDX-License-Identifier: MIT
 * verify_report.c - the lines of opreg verify: a table for people, or one JSON object a line. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "verify.h"

/* A name in a column: cut in the middle where it is too long. */
static const char *fit(const char *name, int width, char out[64]) {
    int length = (int)strlen(name);
    if (length <= width) {
        return name;
    }
    snprintf(out, 64, "%.*s..%s", (width - 2) / 2, name, name + length - (width - 1) / 2);
    return out;
}

void verify_print_head(const verify_session *v) {
    if (!v->json) {
        printf("%-*s %-*s %6s %5s %1s %-*s %-9s %7s %-6s %9s %6s\n", v->name_width, "TENSOR",
               v->format_width, "FORMAT", "N", "K", "M", v->kernel_width, "VARIANT", "LEVEL",
               "NMSE", "BITS", "US", "GB/S");
    }
}

void verify_print_row(verify_session *v, const verify_row *row) {
    const model_weight *w = row->weight;
    char name[64], kernel[64], shown[128];
    progress_clear(&v->progress);
    if (v->json) {
        json_t *object = json_pack(
            "{s:s, s:s, s:I, s:I, s:I, s:s, s:s, s:o, s:b, s:o, s:o, s:s, s:s, s:I, s:I, s:I, s:b, "
            "s:b, s:o, s:s?, s:s?}",
            "tensor", w->tensor->name, "format", w->format.name, "n", (json_int_t)w->n, "k",
            (json_int_t)w->k, "m", (json_int_t)row->m, "kernel", row->kernel, "level",
            level_name(row->level), "nmse", json_number(row->nmse), "bits_equal", row->bits_equal,
            "us", json_number(row->us), "gbps", json_number(row->gbps), "device", row->device, "op",
            row->op, "experts", (json_int_t)w->experts, "top_k", (json_int_t)row->top_k, "rows",
            (json_int_t)row->rows, "chosen", row->chosen, "reference", row->reference, "oracle",
            row->oracle < 0 ? json_null() : json_number(row->oracle), "failed", row->failed,
            "detail", row->detail[0] ? row->detail : NULL);
        print_json(object);
        return;
    }
    if (v->num_devices > 1 && row->device) {
        snprintf(shown, sizeof shown, "%s @%s", row->kernel, row->device);
    } else {
        snprintf(shown, sizeof shown, "%s", row->kernel);
    }
    printf("%-*s %-*s %6" PRId64 " %5" PRId64 " %1" PRId64 " %-*s %-9s %7.1e %-6s %9.1f %6.1f\n",
           v->name_width, fit(w->tensor->name, v->name_width, name), v->format_width,
           w->format.name, w->n, w->k, row->m, v->kernel_width, fit(shown, v->kernel_width, kernel),
           level_name(row->level), row->nmse, row->bits_equal ? "equal" : "differ", row->us,
           row->gbps);
    if (row->failed) {
        printf("  FAILED %s: %s\n", row->failed, row->detail);
    }
    fflush(stdout);
}

void verify_print_invalid(verify_session *v, const model_weight *weight, uint64_t offset,
                          const char *reason) {
    progress_clear(&v->progress);
    if (v->json) {
        print_json(json_pack("{s:s, s:s, s:I, s:I, s:I, s:s}", "tensor", weight->tensor->name,
                             "format", weight->format.name, "n", (json_int_t)weight->n, "k",
                             (json_int_t)weight->k, "offset", (json_int_t)offset, "invalid",
                             reason));
    }
    fprintf(stderr, "opreg verify: offset %" PRIu64 ": tensor '%s' (%s): %s\n", offset,
            weight->tensor->name, weight->format.name, reason);
}

void verify_print_refused(verify_session *v, const model_weight *weight, const char *op,
                          const char *where, int64_t m, const char *reason) {
    char name[64];
    progress_clear(&v->progress);
    if (v->json) {
        print_json(json_pack("{s:s, s:s, s:I, s:I, s:I, s:s, s:s, s:s}", "tensor",
                             weight->tensor->name, "format", weight->format.name, "n",
                             (json_int_t)weight->n, "k", (json_int_t)weight->k, "m", (json_int_t)m,
                             "device", where, "op", op, "refused", reason));
    } else {
        printf("%-*s %-*s %6" PRId64 " %5" PRId64 " %1" PRId64 " not run on %s: %s\n",
               v->name_width, fit(weight->tensor->name, v->name_width, name), v->format_width,
               weight->format.name, weight->n, weight->k, m, where, reason);
    }
}
