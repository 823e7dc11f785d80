/* SPDX-License-Identifier: MIT
 * stored_host.h - symbols of the kernels over stored weights, in the order of rows32_list.inc. */
#ifndef OPREG_SM90_STORED_HOST_H
#define OPREG_SM90_STORED_HOST_H

#include "program.h"

/* Kernels of a format, from its first symbol on; those that go by words have the last. */
enum stored_method {
    STORED_ONE_W8,
    STORED_ONE_W4,
    STORED_EIGHT,
    STORED_TEAM
};

/* The symbol of a format of rows32_formats; UINT32_MAX where it has no such kernel. */
uint32_t stored_symbol(uint32_t format, enum stored_method method);

#endif /* OPREG_SM90_STORED_HOST_H */
