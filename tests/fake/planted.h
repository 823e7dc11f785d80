/* SPDX-License-Identifier: MIT
 * planted.h - the plugin "planted": the reference's baselines, and wrong kernels beside them. */
#ifndef OPREG_PLANTED_H
#define OPREG_PLANTED_H

#include "opreg/opreg_plugin.h"

/* For opreg_add.  Its wrong kernels are those of mutations.h and a few that only an engine shows. */
opreg_status planted_entry(const opreg_host *host, opreg_plugin *out);

/* What the kernels remember between calls, which is their mistake. */
void planted_forget(void);

#endif /* OPREG_PLANTED_H */
