/* SPDX-License-Identifier: MIT
 * manual.c - opreg manual: the manual page of the command, made from its help and its flags. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "registry.h"

#define LONGEST_LINE 70 /* of the page's source, before its dashes */

/* Words of the page: no line of it is a request, and no dash a hyphen. */
static void page_words(const char *text, size_t length) {
    if (length > 0 && (*text == '.' || *text == '\'')) {
        fputs("\\&", stdout);
    }
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\\' || text[i] == '-') {
            printf("\\%c", text[i] == '-' ? '-' : 'e');
        } else {
            putchar(text[i]);
        }
    }
}

static void page_text(const char *text) {
    page_words(text, strlen(text));
}

/* Where to break a line of a page's source. */
static size_t line_length(const char *text) {
    size_t length = strcspn(text, "\n"), end;
    if (length <= LONGEST_LINE) {
        return length;
    }
    for (end = LONGEST_LINE; end > 0 && text[end] != ' '; end--) {
    }
    return end > 0 ? end : length;
}

/* Filled, but for lines with two spaces ahead: each of those stands alone. */
static void page_lines(const char *text) {
    int alone = 0;
    while (*text) {
        int indented = strncmp(text, "  ", 2) == 0;
        if (indented || alone) {
            puts(".br");
        }
        alone = indented;
        text += indented ? 2 : 0;
        for (int more = 1; more;) {
            size_t length = line_length(text);
            page_words(text, length);
            putchar('\n');
            more = text[length] == ' ';
            text += length + (text[length] != '\0');
        }
    }
}

static void page_option(void *user, const option *o) {
    (void)user;
    printf(".TP\n.B ");
    page_text(o->name);
    if (o->argument) {
        printf(" \\fI");
        page_text(o->argument);
        printf("\\fR");
    }
    putchar('\n');
    page_lines(o->help + (o->help[0] == '\n'));
}

static void page_command(const command *c) {
    printf(".SS opreg ");
    page_text(c->name);
    fputs(c->usage[0] ? " " : "", stdout);
    page_text(c->usage);
    putchar('\n');
    page_lines(c->text);
    options_visit(c, page_option, NULL);
}

static void page_flags(opreg_registry *reg) {
    size_t count;
    opreg_flag_row *rows = registry_flags(reg, &count);
    for (size_t i = 0; i < count; i++) {
        if (strchr(rows[i].flag, '/')) {
            continue; /* variants: opreg list has them */
        }
        printf(".TP\n.B ");
        page_text(rows[i].variable);
        printf(" \\fR(");
        page_text(rows[i].values);
        puts(")");
        page_lines(rows[i].summary);
    }
    free(rows);
}

static int run_manual(const command *self, int argc, char **argv) {
    const option table[] = {{NULL, NULL, OPTION_SWITCH, NULL, NULL}};
    /* what every installation has */
    const opreg_config config = {.struct_size = sizeof config,
                                 .flags = OPREG_CF_NO_ENV | OPREG_CF_NO_INSTALLED};
    opreg_registry *reg = NULL;
    size_t count;
    int status = options_read(self, table, argc, argv, NULL, 0, &count);
    if (status >= 0) {
        return status;
    }
    if (opreg_create(&config, &reg) != OPREG_OK) {
        complain(self, "%s", opreg_last_error());
        return EXIT_FAILED;
    }
    printf(".TH OPREG 1 2026-11-30 \"opreg %s\" \"User commands\"\n"
           ".SH NAME\nopreg \\- runs quantized decode operators through the opreg registry\n"
           ".SH SYNOPSIS\n.B opreg\n\\fICOMMAND\\fR [options]\n.br\n.B opreg\n"
           "\\-\\-help | \\-\\-version\n"
           ".SH DESCRIPTION\n"
           "opreg lists, explains, verifies, tests and times the variants of\n"
           "operators that plugins offer to inference engines.\n"
           "Everything but the CPU backend's baselines is off until a variable\n"
           "switches it on.\n"
           ".PP\n"
           "An option's value follows it as the next word, or after an equals sign.\n"
           "Results go to stdout, one line each; progress, warnings and summaries to stderr.\n"
           ".SH COMMANDS\n",
           opreg_version());
    for (size_t i = 0; commands[i]; i++) {
        page_command(commands[i]);
    }
    puts(".SH EXIT STATUS\n"
         ".TP\n.B 0\nEverything held.\n"
         ".TP\n.B 1\nA check failed, a variant could not be run, or the registry could not be "
         "opened.\n"
         ".TP\n.B 2\nA bad file, wrong usage, nothing to do, or output that cannot be\n"
         "written.\n"
         ".SH ENVIRONMENT");
    page_flags(reg);
    puts(".PP\nA plugin adds a variable for itself and one for each variant:\n"
         ".B opreg list \\-\\-env\nprints them all.\n"
         ".SH SEE ALSO\n.BR opreg\\-decode (1)");
    opreg_destroy(reg);
    return EXIT_HELD;
}

const command command_manual = {"manual", "", "the manual page",
                                "Prints the manual page of opreg as man reads it: "
                                "opreg manual | man -l -\n",
                                run_manual};
