/* SPDX-License-Identifier: MIT
 * compile.c - build-time program: compiles one device source for sm_60 with NVRTC, which needs no
 * CUDA toolkit but its one library.
 *
 *   opreg-sm60-compile LIBNVRTC SOURCE CUBIN PTX REPORT OPTION...
 *   opreg-sm60-compile LIBNVRTC --version
 *
 * LIBNVRTC is libnvrtc.so.12.  REPORT gets what ptxas says of registers and spills. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct program_handle program_handle;

/* NVRTC's own names and signatures. */
#define NVRTC_FUNCTIONS(ROW)                                                                       \
    ROW(version, "nvrtcVersion", (int *major, int *minor))                                         \
    ROW(create, "nvrtcCreateProgram",                                                              \
        (program_handle * *out, const char *source, const char *name, int num_headers,             \
         const char *const *headers, const char *const *names))                                    \
    ROW(compile, "nvrtcCompileProgram",                                                            \
        (program_handle * program, int num_options, const char *const *options))                   \
    ROW(log_bytes, "nvrtcGetProgramLogSize", (program_handle * program, size_t * bytes))           \
    ROW(log, "nvrtcGetProgramLog", (program_handle * program, char *out))                          \
    ROW(cubin_bytes, "nvrtcGetCUBINSize", (program_handle * program, size_t * bytes))              \
    ROW(cubin, "nvrtcGetCUBIN", (program_handle * program, char *out))                             \
    ROW(ptx_bytes, "nvrtcGetPTXSize", (program_handle * program, size_t * bytes))                  \
    ROW(ptx, "nvrtcGetPTX", (program_handle * program, char *out))

#define MEMBER(name, symbol, arguments) int(*name) arguments;
typedef struct compiler {
    NVRTC_FUNCTIONS(MEMBER)
} compiler;

static int open_compiler(const char *path, compiler *out) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return -1;
    }
#define RESOLVE(name, symbol, arguments)                                                           \
    {                                                                                              \
        void *address = dlsym(library, symbol);                                                    \
        if (address == NULL) {                                                                     \
            fprintf(stderr, "%s has no %s\n", path, symbol);                                       \
            return -1;                                                                             \
        }                                                                                          \
        memcpy(&out->name, &address, sizeof address);                                              \
    }
    NVRTC_FUNCTIONS(RESOLVE)
    return 0;
}

static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    long bytes;
    if (file == NULL) {
        return NULL;
    }
    if (fseek(file, 0, SEEK_END) == 0 && (bytes = ftell(file)) >= 0 &&
        fseek(file, 0, SEEK_SET) == 0) {
        text = calloc((size_t)bytes + 1u, 1);
        if (text != NULL && fread(text, 1, (size_t)bytes, file) != (size_t)bytes) {
            free(text);
            text = NULL;
        }
    }
    fclose(file);
    return text;
}

static int write_bytes(const char *path, const char *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    int failed;
    if (file == NULL) {
        perror(path);
        return -1;
    }
    failed = fwrite(data, 1, bytes, file) != bytes;
    failed |= fclose(file) != 0;
    if (failed) {
        perror(path);
    }
    return failed ? -1 : 0;
}

typedef int (*size_function)(program_handle *program, size_t *bytes);
typedef int (*text_function)(program_handle *program, char *out);

/* Fetches one result and writes it; a text ends before its first NUL. */
static int save(program_handle *program, size_function size, text_function get, const char *path,
                int is_text) {
    size_t bytes = 0;
    char *data;
    int failed = -1;
    if (size(program, &bytes) != 0) {
        fprintf(stderr, "NVRTC has nothing for %s\n", path);
        return -1;
    }
    data = calloc(bytes + 1u, 1);
    if (data != NULL && get(program, data) == 0) {
        failed = write_bytes(path, data, is_text ? strlen(data) : bytes);
    }
    free(data);
    return failed;
}

static void print_log(const compiler *nvrtc, program_handle *program) {
    size_t bytes = 0;
    char *text;
    if (nvrtc->log_bytes(program, &bytes) != 0 || (text = calloc(bytes + 1u, 1)) == NULL) {
        return;
    }
    if (nvrtc->log(program, text) == 0) {
        fputs(text, stderr);
    }
    free(text);
}

int main(int argc, char **argv) {
    compiler nvrtc;
    program_handle *program = NULL;
    char *source;
    int major = 0, minor = 0;
    if (argc < 3 || open_compiler(argv[1], &nvrtc) != 0) {
        return 2;
    }
    if (strcmp(argv[2], "--version") == 0) {
        if (nvrtc.version(&major, &minor) != 0) {
            return 1;
        }
        printf("NVRTC release %d.%d\n", major, minor);
        return 0;
    }
    if (argc < 6 || (source = read_text(argv[2])) == NULL) {
        fprintf(stderr, "usage: LIBNVRTC SOURCE CUBIN PTX REPORT OPTION...\n");
        return 2;
    }
    if (nvrtc.create(&program, source, argv[2], 0, NULL, NULL) != 0 ||
        nvrtc.compile(program, argc - 6, (const char *const *)(argv + 6)) != 0) {
        print_log(&nvrtc, program);
        return 1;
    }
    return save(program, nvrtc.cubin_bytes, nvrtc.cubin, argv[3], 0) != 0 ||
           save(program, nvrtc.ptx_bytes, nvrtc.ptx, argv[4], 1) != 0 ||
           save(program, nvrtc.log_bytes, nvrtc.log, argv[5], 1) != 0;
}
