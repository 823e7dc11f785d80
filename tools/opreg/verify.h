/* SPDX-License-Identifier: MIT
 * verify.h - what the parts of opreg verify share. */
#ifndef OPREG_TOOLS_VERIFY_H
#define OPREG_TOOLS_VERIFY_H

#include "device.h"
#include "model.h"
#include "options.h"
#include "output.h"
#include "truth.h"

#define VERIFY_MAX_M 4 /* M is 1 and this */

/* One run of one variant on one tensor, as it is printed. */
typedef struct verify_row {
    const model_weight *weight;
    const char *device, *op, *kernel;
    int64_t m, rows, top_k; /* rows: of the tensor that were run; top_k 0: a plain matrix */
    uint32_t level;
    int reference, chosen; /* chosen: what a plan takes by itself */
    int bits_equal;
    double nmse, oracle, us, gbps; /* oracle: worst |error| over its bound; negative: not asked */
    const char *failed;            /* null, or the checks that failed, space separated            */
    char detail[256];
} verify_row;

typedef struct verify_totals {
    int64_t tensors, skipped, invalid, runs, failed, unequal; /* unequal: runs below CANONICAL whose
                                                               * bits differ, as they may */
    int64_t refused;                             /* by all variants of a device        */
    int64_t bands;                               /* runs that were asked the band     */
    int64_t bytes;                               /* of weights                         */
    double worst_nmse, worst_band, worst_oracle; /* the NMSE closest to its band, and that band */
} verify_totals;

typedef struct verify_session {
    const command *self;
    opreg_registry *reg;
    const gguf *file;
    const side_data *side;
    model_types types;
    device *devices; /* the CPU first */
    size_t num_devices;
    int json;
    int warned;    /* of the file's count of experts a token */
    int64_t rows; /* most rows of a tensor; 0: all */
    uint64_t seed;
    unsigned threads;
    int name_width, format_width, kernel_width;
    progress progress;
    verify_totals totals;
} verify_session;

/* Checks the blocks of a tensor against its format's rules.  0 after printing the first bad one. */
int verify_blocks(verify_session *v, const model_weight *weight);

/* Runs a tensor through every variant that is on, on every device.  Counts into v->totals. */
void verify_tensor(verify_session *v, const model_weight *weight);

/* A device on which no variant takes the tensor for m tokens. */
void verify_print_refused(verify_session *v, const model_weight *weight, const char *op,
                          const char *where, int64_t m, const char *reason);
void verify_print_head(const verify_session *v);
void verify_print_row(verify_session *v, const verify_row *row);
void verify_print_invalid(verify_session *v, const model_weight *weight, uint64_t offset,
                          const char *reason);

#endif /* OPREG_TOOLS_VERIFY_H */
