/* SPDX-License-Identifier: MIT
 * paper_gpu.h - a plugin whose device only looks like a GPU: memory of its own, streams, graphs, and
 * the CPU reference behind them.  Some of its variants do not keep what they declare. */
#ifndef OPREG_PAPER_GPU_H
#define OPREG_PAPER_GPU_H

#include "opreg/opreg_plugin.h"

/* The plugin "paper-gpu", for opreg_add. */
opreg_status paper_gpu_entry(const opreg_host *host, opreg_plugin *out);

/* The same without a device. */
opreg_status paper_gpu_absent_entry(const opreg_host *host, opreg_plugin *out);

#endif /* OPREG_PAPER_GPU_H */
