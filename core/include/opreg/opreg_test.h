/* SPDX-License-Identifier: MIT
 * opreg_test.h - the conformance kit: what plugin authors link to test their plugin.
 *
 * The kit drives a registry through its public functions alone: it plans every variant of every
 * plugin that is open on seeded cases, runs it between guard bands, and holds it to what it
 * declares.  The truth is the CPU backend of the same registry and a float64 oracle of the kit's
 * own.  Nothing here is needed by an engine.
 *
 * Link libopreg_kit.  C11, also valid C++11. */
#ifndef OPREG_OPREG_TEST_H
#define OPREG_OPREG_TEST_H

#include "opreg.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What an event tells.  Values are frozen; new ones are appended. */
typedef enum opreg_kit_kind {
    OPREG_KIT_CASE = 1,     /* one case of one variant was run; verdict says how it ended           */
    OPREG_KIT_SKIP = 2,     /* something could not be tested here; detail says what is missing      */
    OPREG_KIT_CELL = 3,     /* the count of one (variant, device, format, dtypes), at the end       */
    OPREG_KIT_PROGRESS = 4  /* where the run is: done of total cases                                */
} opreg_kit_kind;

typedef enum opreg_kit_verdict {
    OPREG_KIT_PASSED = 0,
    OPREG_KIT_FAILED = 1,
    OPREG_KIT_NEVER_RUN = 2 /* of a cell: declared, but no case was executed                         */
} opreg_kit_verdict;

/* Texts are "" where they do not apply, never null, and valid during the call only. */
typedef struct opreg_kit_event {
    uint32_t struct_size;
    uint32_t kind;       /* opreg_kit_kind                                                          */
    uint32_t verdict;    /* opreg_kit_verdict                                                       */
    uint32_t op;         /* opreg_op; 0 where it does not apply                                     */
    uint64_t seed;       /* of the whole run: repeats it                                            */
    uint64_t cases;      /* cell: cases executed; progress: cases done                              */
    uint64_t refused;    /* cell: cases the variant's supports refused; progress: cases in all      */
    const char *plugin;  /* "cuda-sm90"                                                             */
    const char *kernel;  /* "q4_k_gemv"                                                             */
    const char *device;  /* "cuda:0/sm_90"                                                          */
    const char *format;  /* weight format, "-" where the operator has none                          */
    const char *dtypes;  /* "f32->bf16"                                                             */
    const char *check;   /* the check that failed: bits, oracle, band, unwritten, outside, guard, ... */
    const char *data;    /* data kind: gaussian, heavy, extreme, ...                                */
    const char *problem; /* what opreg_problem_parse reads back                                     */
    const char *detail;  /* what was found, in words and numbers                                    */
} opreg_kit_event;

#define OPREG_KIT_FULL 0x1u /* the whole product of dtypes and edges instead of a covering sample     */
#define OPREG_KIT_QUICK 0x2u /* a few cases a format: for slow emulators; coverage of cells is kept   */

typedef struct opreg_kit_options {
    uint32_t struct_size;
    uint32_t flags;     /* OPREG_KIT_*                                                               */
    uint64_t seed;      /* 0: the kit's fixed default                                                */
    const char *plugin; /* null: every plugin that is open.  A named one is switched on             */
    const char *kernel; /* null: every variant; else the variant's name without its plugin          */
    const char *op;     /* null: every operator; else an operator's name                             */
    /* optional: called on the thread of opreg_kit_run, in order */
    void (*event)(void *user, const opreg_kit_event *event);
    void *user;
    const char *format; /* null: every weight format; else a built-in one's name, and no operator
                         * without weights */
} opreg_kit_options;

typedef struct opreg_kit_report {
    uint32_t struct_size, reserved;
    uint64_t seed;
    uint64_t passed, failed; /* cases                                                                */
    uint64_t skipped;        /* absent devices and the like, each one event                          */
    uint64_t never_run;      /* cells without a case                                                 */
} opreg_kit_report;

/* Tests the plugins of a registry.  OPREG_OK when the kit itself could work, whatever it found: the
 * run is good when failed and never_run are 0 and passed is not.  E_ARG: unknown plugin, kernel,
 * operator or format.  options may be null.  No other thread may use the registry's flags meanwhile. */
OPREG_API opreg_status opreg_kit_run(opreg_registry *reg, const opreg_kit_options *options,
                                     opreg_kit_report *report);

/* One line without a newline: for people, or one JSON object with the keys kind, verdict, op,
 * plugin, kernel, device, format, dtypes, check, data, problem, detail, seed, cases, refused.
 * Returns the length without the end mark, as snprintf does; text may be null, which counts only.  A
 * null event or report is "". */
OPREG_API size_t opreg_kit_event_print(const opreg_kit_event *event, int json, char *text, size_t cap);

/* "N passed, 0 failed, N skipped, 0 never-run" */
OPREG_API size_t opreg_kit_report_print(const opreg_kit_report *report, char *text, size_t cap);

#ifdef __cplusplus
}
#endif
#endif /* OPREG_OPREG_TEST_H */
