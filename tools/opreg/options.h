/* SPDX-License-Identifier: MIT
 * options.h - command line options from a table, and the nearest name for a wrong one. */
#ifndef OPREG_TOOLS_OPTIONS_H
#define OPREG_TOOLS_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

/* Exit statuses of every subcommand (docs/command.md). */
enum { EXIT_HELD = 0, EXIT_FAILED = 1, EXIT_BAD_INPUT = 2 };

typedef enum option_kind {
    OPTION_SWITCH, /* value is int *, set to 1                                                    */
    OPTION_TEXT,   /* value is const char **                                                      */
    OPTION_FILE,   /* the same: the name of a file                                                */
    OPTION_INTEGER, /* value is int64_t *, 0 and up */
    OPTION_LIST /* value is option_list *: may be given several times                          */
} option_kind;

#define OPTION_LIST_MAX 64
typedef struct option_list {
    size_t count;
    const char *items[OPTION_LIST_MAX];
} option_list;

typedef struct option {
    const char *name;     /* "--json"; the last row of a table has null     */
    const char *argument; /* its name in the help; null for a switch */
    option_kind kind;
    void *value;
    const char *help; /* lines after the first are indented by the printer                        */
} option;

typedef struct command {
    const char *name;
    const char *usage; /* after "opreg NAME"                                                     */
    const char *summary; /* one line for opreg --help */
    const char *text; /* whole lines for opreg NAME --help                                      */
    int (*run)(const struct command *self, int argc, char **argv);
} command;

/* Reads argv[1..argc) by the table; what is not an option goes to others, at most cap of them.
 * Returns -1 to go on, or the exit status: after --help, or after a line on stderr about what is
 * wrong. */
int options_read(const command *self, const option *table, int argc, char **argv,
                 const char **others, size_t cap, size_t *count);

/* Calls visit for each option of a command, in the order of its help, in place of running it.  Not
 * nested, one thread. */
typedef void (*option_visit)(void *user, const option *row);
void options_visit(const command *self, option_visit visit, void *user);

/* The row of a list of names that a user may have meant; null when nothing is near. stride is the
 * distance in bytes between two const char * of the list. */
const char *nearest_name(const char *word, const char *const *first, size_t stride, size_t count);

/* "opreg NAME: text" on stderr; always EXIT_BAD_INPUT. */
__attribute__((format(printf, 2, 3))) int complain(const command *self, const char *format, ...);

#endif /* OPREG_TOOLS_OPTIONS_H */
