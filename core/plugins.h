/* SPDX-License-Identifier: MIT
 * plugins.h - how a registry comes to its plugins.  Everything here is called under its lock. */
#ifndef OPREG_PLUGINS_H
#define OPREG_PLUGINS_H

#include "registry.h"

/* A warning that strict mode turns into an error of creation; user is the registry. */
void registry_complain(void *user, const char *line);

/* A closed entry without a name; null where there is no memory. */
plugin_entry *entry_new(opreg_registry *reg, plugin_origin origin);
void entry_free(plugin_entry *entry); /* one that was not appended, or whose registry ends           */
opreg_status entry_append(opreg_registry *reg, plugin_entry *entry);

/* Makes the flag of the plugin's level; standard is its word when nobody says anything. */
opreg_status entry_define_flag(plugin_entry *entry, const char *standard);

/* Opens the plugin and makes its kernels' flags; the state and reason say how it went. */
opreg_status entry_open(plugin_entry *entry);

/* Adds a plugin that is linked into the process. */
opreg_status entry_add(opreg_registry *reg, opreg_entry_fn entry_fn);

/* Reads every manifest of a directory that it can; the status is that of the first it cannot. */
opreg_status manifests_read(opreg_registry *reg, const char *dir);

/* Opens what is switched on and not open yet; a failure is a complaint. */
void manifests_open_enabled(opreg_registry *reg);

/* Warns of variants that are switched on in a plugin that stays closed. */
void manifests_warn_closed(opreg_registry *reg);

#endif /* OPREG_PLUGINS_H */
