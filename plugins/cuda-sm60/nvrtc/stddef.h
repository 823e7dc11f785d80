/* SPDX-License-Identifier: MIT
 * stddef.h - what device code needs of it, for NVRTC, which has no C library headers. */
#ifndef OPREG_NVRTC_STDDEF_H
#define OPREG_NVRTC_STDDEF_H

#define NULL 0

#endif /* OPREG_NVRTC_STDDEF_H */
