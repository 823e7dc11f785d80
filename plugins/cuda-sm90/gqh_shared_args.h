/* SPDX-License-Identifier: MIT
 * gqh_shared_args.h - shared memory of the kernels over GQH weights: what is the block's alone, then at
 * the address GQH_TABLE an entry of 256 bytes for each byte of codes, then x. */
#ifndef OPREG_SM90_GQH_SHARED_ARGS_H
#define OPREG_SM90_GQH_SHARED_ARGS_H

#include "baseline_args.h"

#define GQH_TABLE    0x10000u
#define GQH_X        0x20000u
#define GQH_RESERVED 1024u /* the device's own bytes below the block's                              */
#define GQH_X_MOST   (227u * 1024u + GQH_RESERVED - GQH_X)

#endif /* OPREG_SM90_GQH_SHARED_ARGS_H */
