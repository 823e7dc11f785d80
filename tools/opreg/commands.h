/* SPDX-License-Identifier: MIT
 * commands.h - the subcommands of opreg. */
#ifndef OPREG_TOOLS_COMMANDS_H
#define OPREG_TOOLS_COMMANDS_H

#include "options.h"

extern const command command_list, command_explain, command_verify, command_bench, command_test,
    command_new_plugin, command_shadow, command_completion, command_manual;

/* All of them, as opreg --help lists them; null ends. */
extern const command *const commands[];

#endif /* OPREG_TOOLS_COMMANDS_H */
