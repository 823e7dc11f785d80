/* SPDX-License-Identifier: MIT
 * refuses.c - a plugin whose entry says that it cannot work. */
#include "opreg/opreg_plugin.h"

opreg_status opreg_plugin_entry(const opreg_host *host, opreg_plugin *out) {
    (void)out;
    host->error(host->ctx, "driver %d is too old", 7);
    return OPREG_E_DEVICE;
}
