/* SPDX-License-Identifier: MIT
 * job.h - one case, ready to run on any device: a problem, the host bytes of its buffers and
 * weights, and what is known about each byte. */
#ifndef OPREG_KIT_JOB_H
#define OPREG_KIT_JOB_H

#include "opreg/opreg_plugin.h"
#include "random.h"

#define JOB_BUFS 12
#define JOB_WEIGHTS 3

typedef enum job_role { JOB_ABSENT = 0, JOB_INPUT = 1, JOB_OUTPUT = 2 } job_role;

/* Elements of a buffer that are no opreg_dtype. */
#define JOB_I32 0x8001u
#define JOB_I16 0x8002u
#define JOB_I8 0x8003u

typedef struct job_buffer {
    uint32_t role;  /* job_role                                                                     */
    uint32_t dtype; /* of its elements: F32 F16 BF16 F8_E4M3 or JOB_*                               */
    uint32_t align; /* of the base, as the contract admits; the element size is the least           */
    uint32_t exact; /* output: compared as bytes, a NaN is not any NaN                              */
    uint64_t bytes;
    uint8_t *data;  /* input: what the run reads; output: what the reference wrote                  */
    uint8_t *owned; /* output, a byte each: 1 where a run must write, else it must not; null: all   */
    uint8_t *loose; /* input, a byte each: 1 where the contents must not matter; null: none         */
} job_buffer;

typedef struct job_weight {
    uint32_t format, dialect;
    int64_t experts, n, k;
    int64_t row_bytes, expert_stride;
    uint64_t bytes, side_bytes;
    uint64_t slack_before, slack_after;
    uint8_t *data, *side;
    uint8_t *loose;      /* gaps between experts; null: none                                        */
    opreg_side *records; /* [experts], decoded: for the oracle                                      */
    float tensor_scale;
    uint32_t shift; /* bytes that the base is off a multiple of 256                                 */
} job_weight;

typedef union job_problem {
    uint32_t struct_size;
    opreg_quantize_act quantize;
    opreg_matmul_bt_quant matmul;
    opreg_moe_route route;
    opreg_moe_matmul moe;
    opreg_moe_combine combine;
    opreg_moe_ffn ffn;
    opreg_paged_attn_decode attn;
} job_problem;

typedef enum data_kind {
    DATA_GAUSSIAN = 0, /* the only one that the band is asked of                                    */
    DATA_HEAVY,        /* gaussian with heavy tails                                                 */
    DATA_OUTLIER,      /* one huge activation a row                                                 */
    DATA_EXTREME,      /* extreme and zero block scales                                             */
    DATA_SUBNORMAL,
    DATA_CODES,        /* every activation code, ties included; blocks of zeros between             */
    DATA_NONFINITE,    /* a NaN or Inf in some rows                                                 */
    DATA_KINDS
} data_kind;
extern const char *const data_names[DATA_KINDS];

typedef struct job {
    opreg_op op;
    data_kind data;
    uint64_t seed;
    job_problem problem;
    uint32_t num_bufs, num_weights;
    job_buffer bufs[JOB_BUFS];
    job_weight weights[JOB_WEIGHTS];
    uint32_t prepare;   /* 1: the weights are laid out as the plan wants before the run              */
    const char *format; /* "-" where the operator has none                                          */
    char dtypes[32];
    void *extra; /* the operator's own notes for its oracle; freed with the job                     */
} job;

/* Frees what the job owns; the job may be used again after it is zeroed. */
void job_clear(job *j);

/* Zeroed host bytes; the kit has no use for going on without them, so 0 marks the job as out of
 * memory and 1 is success.  role, dtype, align and bytes of the buffer are set. */
int job_buffer_set(job *j, uint32_t index, job_role role, uint32_t dtype, uint64_t count);

/* Bytes of one element. */
uint32_t element_bytes(uint32_t dtype);

/* Stores and reads an element of a float dtype. */
void element_store(uint32_t dtype, void *at, float value);
float element_load(uint32_t dtype, const void *at);

/* Fills the elements whose bytes are loose: fill 0 with NaN and -1, fill 1 with the largest. */
void loose_fill(uint32_t dtype, uint8_t *data, const uint8_t *loose, uint64_t bytes, uint32_t fill);

/* Marks rows x columns elements of a buffer as owned, all others as not. */
int buffer_own_rows(job_buffer *buffer, int64_t rows, int64_t columns, int64_t stride);

/* Marks everything but rows x columns elements of a buffer as loose. */
int buffer_loose_gaps(job_buffer *buffer, int64_t rows, int64_t columns, int64_t stride);

/* ---- data ------------------------------------------------------------------------------------- */

/* rows of activations of one kind into a float buffer. */
void data_rows(random_state *random, data_kind kind, job_buffer *buffer, int64_t rows,
               int64_t columns, int64_t stride);

/* Divides rows by about sqrt(columns), so that gate and up are about 1 in size, as in a model: far
 * from it a glu says nothing about a band (a clamp at 1 of numbers around 30). */
void data_rows_shrink(job_buffer *buffer, int64_t rows, int64_t columns, int64_t stride);

/* The quantized activations of one row, by the kit's own reading of the rules.  act is Q8_0 or Q8_K;
 * codes [k], scales [k / block], sums [k / 16]. */
void activation_quantize(uint32_t act, const float *x, int64_t k, int8_t *codes, float *scales,
                         int16_t *sums);

/* ---- weights ---------------------------------------------------------------------------------- */

/* A random valid weight of the format: blocks, side data, decoded records.  0 when out of memory or
 * the format is unknown. */
int weight_make(random_state *random, data_kind kind, uint32_t format, uint32_t dialect,
                int64_t experts, int64_t n, int64_t k, job_weight *out);
void weight_clear(job_weight *weight);

/* The smallest step of k that the format admits. */
int64_t weight_k_step(uint32_t format);

/* Decodes one row to double, with the absolute size of its parts: |scale part| + |min part|. */
void weight_row(const job_weight *weight, int64_t expert, int64_t row, double *values, double *sizes);

#endif /* OPREG_KIT_JOB_H */
