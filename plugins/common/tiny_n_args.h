/* SPDX-License-Identifier: MIT
 * tiny_n_args.h - launch shape of the tiny_n_gemv kernels, for host and device. */
#ifndef OPREG_PLUGINS_TINY_N_ARGS_H
#define OPREG_PLUGINS_TINY_N_ARGS_H

#define TINY_N_THREADS                                                                             \
    64 /* two waves, an output each: few outputs reach many multiprocessors     */

#endif /* OPREG_PLUGINS_TINY_N_ARGS_H */
