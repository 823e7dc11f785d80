/* SPDX-License-Identifier: MIT
 * fuzz_replay.c - opreg shadow replay runs a file of any bytes or refuses it, and ends with one of the
 * statuses of the command. */
#define _GNU_SOURCE
#include "memory_file.h"

#include "commands.h"

/* Lines of the command go here; a sanitizer and libFuzzer write to the descriptor itself. */
static FILE *quiet(void) {
    static FILE *sink;
    if (sink == NULL) {
        sink = fopen("/dev/null", "w");
        FUZZ_CHECK(sink != NULL);
    }
    return sink;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64], name[] = "shadow", word[] = "replay", guard[] = "--guard";
    int file = memory_file(data, size, path);
    char *words[] = {name, word, path, guard, NULL};
    FILE *out = stdout, *err = stderr;
    int status;
    stdout = quiet();
    stderr = quiet();
    status = command_shadow.run(&command_shadow, 3 + (int)(size & 1), words);
    stdout = out;
    stderr = err;
    FUZZ_CHECK(status == EXIT_HELD || status == EXIT_FAILED || status == EXIT_BAD_INPUT);
    close(file);
    return 0;
}
