/* SPDX-License-Identifier: MIT
 * new_plugin.h - the files of plugins/example, as the command carries them. */
#ifndef OPREG_TOOLS_NEW_PLUGIN_H
#define OPREG_TOOLS_NEW_PLUGIN_H

#include <stddef.h>

typedef struct example_file {
    const char *name, *text;
} example_file;

extern const example_file example_files[];
extern const size_t example_file_count;

#endif /* OPREG_TOOLS_NEW_PLUGIN_H */
