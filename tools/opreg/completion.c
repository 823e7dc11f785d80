/* SPDX-License-Identifier: MIT
 * completion.c - opreg completion: what a shell needs to complete the command's words, made from
 * the tables that read them. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "opreg/opreg.h"

/* What the value of an option can be. */
typedef enum value_kind {
    VALUE_FREE,
    VALUE_FILE,
    VALUE_OP,
    VALUE_PLUGIN,
    VALUE_DEVICE,
    VALUE_KERNEL
} value_kind;

static value_kind value_of(const option *o) {
    static const struct {
        const char *name;
        value_kind kind;
    } rows[] = {{"--op", VALUE_OP},
                {"--plugin", VALUE_PLUGIN},
                {"--device", VALUE_DEVICE},
                {"--kernel", VALUE_KERNEL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, o->name) == 0 && !strchr(o->argument, '/')) {
            return rows[i].kind;
        }
    }
    return o->kind == OPTION_FILE ? VALUE_FILE : VALUE_FREE;
}

/* What a command's other words can be, from its usage: "OP key=value...", "MODEL.gguf", "replay
 * FILE". */
static value_kind word_of(const command *c) {
    if (strncmp(c->usage, "OP", 2) == 0) {
        return VALUE_OP;
    }
    return strstr(c->usage, "FILE ") || strncmp(c->usage, "MODEL", 5) == 0 ? VALUE_FILE
                                                                           : VALUE_FREE;
}

/* "replay" of "replay FILE", "bash zsh" of "bash|zsh"; "" where the first word is free. */
static void fixed_words(const command *c, char out[64]) {
    size_t length = strspn(c->usage, "abcdefghijklmnopqrstuvwxyz|");
    snprintf(out, 64, "%.*s", (int)(length < 63 ? length : 63), c->usage);
    for (char *p = out; *p; p++) {
        *p = *p == '|' ? ' ' : *p;
    }
}

static void print_ops(void) {
    for (uint32_t op = 1; op <= OPREG_OP_COUNT; op++) {
        printf("%s%s", op > 1 ? " " : "", opreg_op_name((opreg_op)op));
    }
}

/* ---- bash ---- */

static void bash_name(void *user, const option *o) {
    (void)user;
    printf(" %s", o->name);
}

static void bash_value(void *user, const option *o) {
    static const char *const calls[] = {"",
                                        "_opreg_files;",
                                        "_opreg_words \"$ops\";",
                                        "_opreg_listed plugin plugin;",
                                        "_opreg_listed device device;",
                                        "_opreg_listed variant kernel;"};
    if (o->argument) {
        printf("    \"%s %s\") %s return ;;\n", ((const command *)user)->name, o->name,
               calls[value_of(o)]);
    }
}

static void print_bash(void) {
    puts("# bash completion for opreg, written by `opreg completion bash`\n"
         "_opreg_words() { COMPREPLY=($(compgen -W \"$1\" -- \"$word\")); }\n"
         "_opreg_files() { compopt -o filenames 2>/dev/null || :; "
         "mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); }\n"
         "# the KEY of each object of a KIND that opreg list prints\n"
         "_opreg_listed() {\n"
         "    local names\n"
         "    names=$(\"${COMP_WORDS[0]}\" list --json 2>/dev/null |\n"
         "        sed -n 's/^{\"kind\":\"'\"$1\"'\",.*\"'\"$2\"'\":\"\\([^\"]*\\)\".*/\\1/p' |\n"
         "        sort -u)\n"
         "    _opreg_words \"$names\"\n"
         "    # a colon may end a word of bash\n"
         "    if declare -F __ltrim_colon_completions >/dev/null; then\n"
         "        __ltrim_colon_completions \"$word\"\n"
         "    fi\n"
         "}\n"
         "_opreg() {");
    puts("    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
         "    local options=\"\" others=\"\"");
    printf("    local ops=\"");
    print_ops();
    puts("\"\n    COMPREPLY=()\n"
         "    # --name=value comes as three words\n"
         "    if [[ $word == = ]]; then word=\"\"\n"
         "    elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD - 2]}; fi");
    printf("    if ((COMP_CWORD == 1)); then\n        _opreg_words \"");
    for (size_t i = 0; commands[i]; i++) {
        printf("%s ", commands[i]->name);
    }
    puts("--help --version\"\n        return\n    fi\n"
         "    case \"${COMP_WORDS[1]} $before\" in");
    for (size_t i = 0; commands[i]; i++) {
        options_visit(commands[i], bash_value, (void *)(uintptr_t)commands[i]);
    }
    puts("    esac\n    case ${COMP_WORDS[1]} in");
    for (size_t i = 0; commands[i]; i++) {
        char fixed[64];
        fixed_words(commands[i], fixed);
        printf("    %s) options=\"", commands[i]->name);
        options_visit(commands[i], bash_name, NULL);
        printf(" --help\" others=\"%s%s\" ;;\n", fixed,
               word_of(commands[i]) == VALUE_OP ? "$ops" : "");
    }
    puts("    esac\n"
         "    if [[ $word == -* ]]; then _opreg_words \"$options\"\n"
         "    elif [[ -n $others ]] && ((COMP_CWORD == 2)); then _opreg_words \"$others\"\n"
         "    elif [[ -n $options ]]; then _opreg_files; fi\n"
         "}\n"
         "complete -F _opreg opreg");
}

/* ---- zsh ---- */

/* A description inside '...[...]' or '...:...'. */
static void zsh_text(const char *text) {
    while (*text == '\n') {
        text++;
    }
    for (; *text; text++) {
        if (*text == '\'') {
            fputs("'\\''", stdout);
        } else if (*text == '\n') {
            putchar(' ');
        } else {
            printf("%s%c", strchr("[]:\\", *text) ? "\\" : "", *text);
        }
    }
}

static void zsh_action(value_kind kind) {
    static const char *const actions[] = {" ",
                                          "_files",
                                          NULL,
                                          " _opreg_listed plugin plugin",
                                          " _opreg_listed device device",
                                          " _opreg_listed variant kernel"};
    if (kind == VALUE_OP) {
        fputs("(", stdout);
        print_ops();
        fputs(")", stdout);
    } else {
        fputs(actions[kind], stdout);
    }
}

static void zsh_option(void *user, const option *o) {
    (void)user;
    printf(" \\\n            '%s%s%s[", o->kind == OPTION_LIST ? "*" : "", o->name,
           o->argument ? "=" : "");
    zsh_text(o->help);
    putchar(']');
    if (o->argument) {
        putchar(':');
        zsh_text(o->argument);
        putchar(':');
        zsh_action(value_of(o));
    }
    putchar('\'');
}

static void print_zsh(void) {
    puts("#compdef opreg\n"
         "# zsh completion for opreg, written by `opreg completion zsh`\n"
         "_opreg_listed() {\n"
         "    local -a names\n"
         "    names=(${(f)\"$($words[1] list --json 2>/dev/null |\n"
         "        sed -n 's/^{\"kind\":\"'$1'\",.*\"'$2'\":\"\\([^\"]*\\)\".*/\\1/p')\"})\n"
         "    compadd -a names\n"
         "}\n"
         "_opreg() {\n"
         "    local -a commands\n"
         "    commands=(");
    for (size_t i = 0; commands[i]; i++) {
        printf("        '%s:", commands[i]->name);
        zsh_text(commands[i]->summary);
        puts("'");
    }
    puts("    )\n"
         "    if ((CURRENT == 2)); then\n"
         "        _describe command commands\n"
         "        _arguments '--help[what the commands are]' '--version[of the library]'\n"
         "        return\n"
         "    fi\n"
         "    local command=$words[2]\n"
         "    words=($words[1] ${words[3,-1]})\n"
         "    ((CURRENT--))\n"
         "    case $command in");
    for (size_t i = 0; commands[i]; i++) {
        char fixed[64];
        fixed_words(commands[i], fixed);
        printf("        %s)\n            _arguments", commands[i]->name);
        options_visit(commands[i], zsh_option, NULL);
        printf(" \\\n            '--help[the options of the command]'");
        if (fixed[0]) {
            printf(" \\\n            '1: :(%s)'", fixed);
        } else if (word_of(commands[i]) != VALUE_FREE) {
            printf(" \\\n            '1: :");
            zsh_action(word_of(commands[i]));
            putchar('\'');
        }
        puts(strncmp(fixed, "replay", 6) == 0 ? " '2: :_files' ;;" : " ;;");
    }
    puts("    esac\n"
         "}\n"
         "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _opreg \"$@\"; "
         "else compdef _opreg opreg; fi");
}

/* ---- the command ---- */

static int run_completion(const command *self, int argc, char **argv) {
    const option table[] = {{NULL, NULL, OPTION_SWITCH, NULL, NULL}};
    const char *shell = "";
    size_t count;
    int status = options_read(self, table, argc, argv, &shell, 1, &count);
    if (status >= 0) {
        return status;
    }
    if (strcmp(shell, "bash") == 0) {
        print_bash();
    } else if (strcmp(shell, "zsh") == 0) {
        print_zsh();
    } else {
        return complain(self, "which shell?  usage: opreg completion %s", self->usage);
    }
    return EXIT_HELD;
}

const command command_completion = {
    "completion", "bash|zsh", "what a shell needs to complete the words of opreg",
    "Prints a script that completes commands, options and names of plugins, devices and variants:\n"
    "  bash   source <(opreg completion bash)\n"
    "  zsh    source <(opreg completion zsh), after compinit\n"
    "An installation has both where the shells look for them.\n",
    run_completion};
