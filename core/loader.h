/* SPDX-License-Identifier: MIT
 * loader.h - opens a plugin's library, agrees on a version, checks and copies its table. */
#ifndef OPREG_LOADER_H
#define OPREG_LOADER_H

#include "registry.h"

/* Opens the entry's library or calls its entry function, and fills its table and devices.  The name
 * in the table must be entry->name, unless that is "" (added plugins), where it is filled in.
 * On failure the entry stays closed: E_LOAD, E_ABI, E_NOMEM, E_DEVICE (probe), with the text. */
opreg_status loader_open(plugin_entry *entry);

/* Shuts the plugin down and frees the copies; the library stays mapped. */
void loader_close(plugin_entry *entry);

/* What a look at the library from a forked child found out. */
typedef enum trial_result {
    TRIAL_FINE,   /* opened, entered and probed without a crash                                     */
    TRIAL_FAILED, /* it will not work here: a text says why                                         */
    TRIAL_NONE    /* not tried: this process has several threads, or could not fork                 */
} trial_result;

/* Opens the library in a forked child first, so that a crash in its constructors, entry or probe
 * costs the plugin and not the process.  What it prints is caught and reported as a warning.
 * Only where the process has one thread: a fork of several is not safe for what a driver does. */
trial_result trial_run(plugin_entry *entry);

/* The steps of an open that can crash, in the child: 1 when all went well or failed politely. */
void loader_rehearse(plugin_entry *entry, void (*reached)(void *user, char step), void *user);

#endif /* OPREG_LOADER_H */
