/* SPDX-License-Identifier: MIT
 * replay.c - gives a fuzz target the files of the named folders, where libFuzzer is not. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

static int replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(1u << 20), *exact;
    size_t got;
    if (file == NULL || bytes == NULL) {
        fprintf(stderr, "%s cannot be read\n", path);
        free(bytes);
        return 0;
    }
    got = fread(bytes, 1, 1u << 20, file);
    fclose(file);
    exact = malloc(got > 0 ? got : 1);
    if (exact == NULL) {
        free(bytes);
        return 0;
    }
    memcpy(exact, bytes, got);
    free(bytes);
    LLVMFuzzerTestOneInput(exact, got);
    free(exact);
    return 1;
}

static int replay_folder(const char *folder) {
    char path[4096];
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int count = 0;
    if (dir == NULL) {
        return 0;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
            if (!replay_file(path)) {
                count = 0;
                break;
            }
            count++;
        }
    }
    closedir(dir);
    return count;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s FOLDER...\n", argv[0]);
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        if (replay_folder(argv[i]) == 0) {
            fprintf(stderr, "%s: no input\n", argv[i]);
            return 1;
        }
    }
    return 0;
}
