/* SPDX-License-Identifier: MIT
 * main.c - the command opreg: finds the subcommand and hands over. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "opreg/opreg.h"
#include "output.h"

const command *const commands[] = {
    &command_list,       &command_explain, &command_verify,     &command_bench,  &command_test,
    &command_new_plugin, &command_shadow,  &command_completion, &command_manual, NULL};
#define COMMANDS (sizeof commands / sizeof *commands - 1)

static void print_help(void) {
    puts("usage: opreg COMMAND [options]\n\n"
         "Runs quantized decode operators through the opreg registry.\n\ncommands");
    for (size_t i = 0; i < COMMANDS; i++) {
        printf("  %-12s %s\n", commands[i]->name, commands[i]->summary);
    }
    puts("\noptions\n"
         "  --help       this text; opreg COMMAND --help tells a command's options\n"
         "  --version    the version of the library\n\n"
         "Everything but the CPU backend is off until a flag switches it on: opreg list --env\n"
         "prints every flag. Exit status: 0 everything held, 1 a check failed, 2 bad file or "
         "usage.");
}

static int unknown(const char *word) {
    const char *names[COMMANDS + 2] = {[COMMANDS] = "--help", [COMMANDS + 1] = "--version"};
    const char *near;
    for (size_t i = 0; i < COMMANDS; i++) {
        names[i] = commands[i]->name;
    }
    near = nearest_name(word, names, sizeof *names, COMMANDS + 2);
    fprintf(stderr, "opreg: unknown %s '%s'; ", word[0] == '-' ? "option" : "command", word);
    if (near) {
        fprintf(stderr, "did you mean %s?\n", near);
    } else {
        fputs("see opreg --help\n", stderr);
    }
    return EXIT_BAD_INPUT;
}

int main(int argc, char **argv) {
    int status = -1;
    /* a reader that goes away, as in `opreg list | head`, ends the command quietly */
    signal(SIGPIPE, SIG_DFL);
    if (argc < 2) {
        fputs("usage: opreg COMMAND [options]; see opreg --help\n", stderr);
        return EXIT_BAD_INPUT;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help();
        status = EXIT_HELD;
    } else if (strcmp(argv[1], "--version") == 0) {
        printf("opreg %s\n", opreg_version());
        status = EXIT_HELD;
    }
    for (size_t i = 0; i < COMMANDS && status < 0; i++) {
        if (strcmp(argv[1], commands[i]->name) == 0) {
            status = commands[i]->run(commands[i], argc - 1, argv + 1);
        }
    }
    if (status < 0) {
        status = unknown(argv[1]);
    }
    return finish_output() == 0 ? status : EXIT_BAD_INPUT;
}
