/* SPDX-License-Identifier: MIT
 * mutations.h - a plugin of wrong kernels: each is the CPU reference with one mistake. */
#ifndef OPREG_MUTATIONS_H
#define OPREG_MUTATIONS_H

#include "opreg/opreg_plugin.h"

/* The plugin "mutations", for opreg_add. */
opreg_status mutations_entry(const opreg_host *host, opreg_plugin *out);

/* The same kernels without a mistake, "faithful_OP": they must pass. */
extern const char *const mutation_controls[];
extern const size_t mutation_control_count;

/* The mistakes, by kernel name, and what each stands for. */
typedef struct mutation_note {
    const char *kernel, *story;
} mutation_note;
extern const mutation_note mutation_notes[];
extern const size_t mutation_count;

#endif /* OPREG_MUTATIONS_H */
