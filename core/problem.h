/* SPDX-License-Identifier: MIT
 * problem.h - what the core knows of each operator: its fields, its rules, its buffers and weights.
 * One table of fields drives printing, parsing and the generic checks. */
#ifndef OPREG_PROBLEM_H
#define OPREG_PROBLEM_H

#include "opreg/opreg_plugin.h"

#define PROBLEM_MAX_BYTES 256 /* no operator's struct is longer                                   */
#define PROBLEM_MAX_BUFS 12
#define PROBLEM_MAX_WEIGHTS 3
#define PROBLEM_TEXT_BYTES 1024 /* enough for any problem's text                                    */

/* Storage for any problem, aligned for all of them. */
typedef union problem_any {
    uint32_t struct_size;
    opreg_quantize_act quantize;
    opreg_matmul_bt_quant matmul;
    opreg_moe_route route;
    opreg_moe_matmul moe;
    opreg_moe_combine combine;
    opreg_moe_ffn ffn;
    opreg_paged_attn_decode attn;
    unsigned char bytes[PROBLEM_MAX_BYTES];
} problem_any;

/* Block shape of a format; plugins' formats come through problem_formats. */
typedef struct problem_formats {
    const opreg_plugin_format *const *rows; /* null when count is 0                                 */
    size_t count;
} problem_formats;

/* The formats of a registry's open plugins. */
problem_formats registry_formats(const opreg_registry *reg);

typedef enum field_kind {
    FIELD_DTYPE,   /* u32: an opreg_dtype that is an element type or a format                       */
    FIELD_DIALECT, /* u32: opreg_dialect                                                            */
    FIELD_LEVEL,   /* u32: opreg_level                                                              */
    FIELD_LAYOUT,  /* u32: stored, any, or an id                                                    */
    FIELD_GLU,     /* u32: opreg_glu                                                                */
    FIELD_ROWS,    /* u32: OPREG_X_BY_*                                                             */
    FIELD_FORM,    /* u32: OPREG_ROUTE_*                                                            */
    FIELD_FLAGS,   /* u32: OPREG_PF_*                                                               */
    FIELD_I32,
    FIELD_I64,
    FIELD_F32
} field_kind;

typedef enum field_presence {
    FIELD_DEFAULTED, /* has a default; a brief text leaves it out where it has that value           */
    FIELD_REQUIRED,  /* a text must name it                                                         */
    FIELD_SHOWN      /* has a default, and is printed all the same                                  */
} field_presence;

typedef struct problem_field {
    const char *name; /* key in texts                                                               */
    uint16_t offset;
    uint16_t kind;     /* field_kind                                                                */
    uint32_t presence; /* field_presence                                                            */
} problem_field;

typedef struct problem_op {
    opreg_op op;
    uint32_t size;          /* sizeof of the problem                                                */
    uint32_t flags;         /* OPREG_PF_* it knows                                                  */
    uint32_t num_bufs;
    uint32_t level_offset;
    uint32_t flags_offset;
    int32_t reserved_offset; /* -1: none                                                            */
    uint32_t num_fields;
    const char *name;
    const problem_field *fields;
} problem_op;

/* Null for an unknown operator; sets no error text. */
const problem_op *problem_op_find(opreg_op op);

typedef enum buffer_use {
    BUFFER_UNUSED = 0,  /* must be {NULL, 0}: no argument is ignored                                */
    BUFFER_REQUIRED = 1, /* may be null where bytes is 0                                            */
    BUFFER_OPTIONAL = 2 /* absent, or at least bytes                                                */
} buffer_use;

typedef struct problem_buffer {
    uint64_t bytes; /* at least                                                                     */
    uint32_t align; /* of the pointer, a power of two                                               */
    uint16_t use;   /* buffer_use                                                                   */
    uint16_t output; /* 1: a run writes it                                                          */
    const char *name;
} problem_buffer;

typedef struct problem_weight {
    uint32_t format, dialect, layout; /* layout as in the problem, may be ANY                       */
    uint32_t reserved;
    int64_t experts, n, k;
    const char *name; /* "W", "gate", "up", "down"                                                  */
} problem_weight;

/* Copies the caller's problem into *out, zero-extended to full size, with the library's
 * struct_size: E_ARG for a null problem, unknown op, a bad struct_size or unknown bytes set. */
opreg_status problem_load(opreg_op op, const void *problem, problem_any *out);

/* Checks a loaded problem: E_ARG for bad values, E_SHAPE for contradictions. */
opreg_status problem_check(opreg_op op, const problem_any *problem, const problem_formats *extra);

/* Number of weights, and what each must be, of a checked problem. */
uint32_t problem_weights(opreg_op op, const problem_any *problem,
                         problem_weight out[PROBLEM_MAX_WEIGHTS]);

/* Fills out for every buffer of the operator and returns how many; the problem is checked. */
uint32_t problem_buffers(opreg_op op, const problem_any *problem,
                         problem_buffer out[PROBLEM_MAX_BUFS]);

/* 1 when a run of the checked problem has nothing to write, so that no kernel is called.  A route of
 * no tokens is not empty: its header and group_start are written. */
int problem_is_empty(opreg_op op, const problem_any *problem);

/* As opreg_problem_print for a loaded problem; brief leaves out fields that have their defaults
 * (opreg_problem_parse reads either form back to the same bytes). */
size_t problem_text(opreg_op op, const problem_any *problem, int brief, char *text, size_t cap);

/* Fills every field that has its "not named" value with its default, which may depend on others. */
void problem_defaults(opreg_op op, problem_any *problem, const unsigned char *named);

/* Block shape of a format: OPREG_OK, or E_ARG for an unknown id. */
opreg_status problem_block(uint32_t format, const problem_formats *extra, uint32_t *values,
                           uint32_t *bytes);

/* a * b and a + b into *out for values >= 0; 0 on overflow, 1 when right. */
int size_mul(int64_t a, int64_t b, int64_t *out);
int size_add(int64_t a, int64_t b, int64_t *out);

/* Copies a caller's struct of at most `known` bytes, zero-extended; see opreg.h on struct_size. */
opreg_status struct_load(void *out, size_t known, const void *in, const char *what);

/* Copies a row out to a caller's row of row_bytes, with its struct_size set to what was written. */
void struct_store(void *out, size_t row_bytes, const void *row, size_t known);

#endif /* OPREG_PROBLEM_H */
