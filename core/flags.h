/* SPDX-License-Identifier: MIT
 * flags.h - every switch of a registry: its name, variable, words, and the word in force.
 * The environment is copied once, when the store is made; nothing reads it later. */
#ifndef OPREG_FLAGS_H
#define OPREG_FLAGS_H

#include "opreg/opreg.h"

#define FLAG_NONE ((size_t)-1)

typedef enum flag_kind {
    FLAG_LEVEL,     /* a plugin: off on exact fast                                                  */
    FLAG_CPU_LEVEL, /* the built-in backend: on exact fast                                          */
    FLAG_VARIANT,   /* one kernel: on off                                                           */
    FLAG_REFERENCE, /* a baseline of the built-in backend, the truth for all others: on              */
    FLAG_SWITCH,    /* on off                                                                       */
    FLAG_TRACE,     /* off plan run                                                                 */
    FLAG_SHADOW,    /* off 1/n                                                                      */
    FLAG_DIR        /* an absolute directory                                                        */
} flag_kind;

typedef struct flag_setting {
    char flag[96], variable[128], summary[128];
    char standard[16]; /* the word when nobody says anything                                        */
    char env[32], api[32]; /* accepted words in their first spelling, "" when not set               */
    const char *text;  /* what the environment says, as it stands; null when it says nothing        */
    uint32_t kind;     /* flag_kind                                                                 */
    uint32_t implied;  /* 1: without a word of its own the value follows from another flag          */
} flag_setting;

/* One warning that strict mode turns into an error. */
typedef void (*flags_complain)(void *user, const char *line);

typedef struct flag_removed {
    char variable[128], instead[128];
} flag_removed;

typedef struct flag_env {
    char *variable, *value;
    int known;
} flag_env;

typedef struct flags {
    flag_setting *rows;
    size_t count, cap;
    size_t *by_flag, *by_variable; /* hash tables of 2 * cap places: index of a row + 1, 0 where free  */
    flag_env *env;
    size_t num_env;
    flag_removed *removed;
    size_t num_removed;
    int elevated; /* the process has more rights than its caller: nothing was read                   */
    flags_complain complain;
    void *user;
} flags;

/* Copies the OPREG_* variables of the process when read_env is 1.  E_NOMEM. */
opreg_status flags_init(flags *store, int read_env, flags_complain complain, void *user);

/* The same from given "NAME=value" strings, null at the end; for tests and flags_init. */
opreg_status flags_init_from(flags *store, const char *const *env, int elevated,
                             flags_complain complain, void *user);
void flags_free(flags *store);

/* "cuda-sm60/q4_k_gemv" to "OPREG_CUDA_SM60_Q4_K_GEMV". */
void flags_variable(const char *flag, char *out, size_t cap);

/* Adds a switch and gives it the environment's word, complaining about a bad one.  Defining the same
 * flag again returns the old row.  E_ARG when another flag has the same variable. */
opreg_status flags_define(flags *store, const char *flag, flag_kind kind, const char *standard,
                          const char *summary, size_t *index);

/* Remembers that a flag is gone and what to use now ("" when nothing). */
opreg_status flags_define_removed(flags *store, const char *flag, const char *instead);

/* Complains about every variable that no definition has asked for, once each. */
void flags_check_unknown(flags *store);

/* FLAG_NONE when there is none; sets no error text. */
size_t flags_find(const flags *store, const char *flag);

/* E_ARG for an unknown flag or a bad word, with the nearest real one; on success the API's word. */
opreg_status flags_set(flags *store, const char *flag, const char *word, size_t *index);

/* The word in force and where it comes from (OPREG_SOURCE_*; source may be null). */
const char *flags_word(const flags *store, size_t index, uint32_t *source);

/* 1 when the word in force is not off. */
int flags_on(const flags *store, size_t index);

/* The words that a kind takes, for lists and texts. */
const char *flags_words(flag_kind kind);

/* The environment's OPREG_PLUGIN_DIR, null when not set. */
const char *flags_text(const flags *store, size_t index);

#endif /* OPREG_FLAGS_H */
