/* SPDX-License-Identifier: MIT
 * host.c - the registry's lock and log, and the functions that it lends to plugins. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "registry.h"

/* ---- lock ----------------------------------------------------------------------------------- */

static uintptr_t this_thread(void) { return (uintptr_t)pthread_self(); }

opreg_status registry_lock_of(const opreg_registry *reg, pthread_mutex_t *mutex, const char *used) {
    if (reg->pid == getpid()) {
        pthread_mutex_lock(mutex);
    } else if (pthread_mutex_trylock(mutex) != 0) {
        return fail(OPREG_E_BUSY, "this process was forked while another thread used %s: create a new "
                                  "registry in the child", used);
    }
    return OPREG_OK;
}

opreg_status registry_lock(opreg_registry *reg) {
    opreg_status status = registry_lock_of(reg, &reg->mutex, "the registry");
    if (status != OPREG_OK) {
        return status;
    }
    atomic_store_explicit(&reg->owner, this_thread(), memory_order_relaxed);
    return OPREG_OK;
}

static void give_out(const opreg_registry *reg, opreg_log_level level, int trace,
                     const char *text) {
    if (reg->config.log != NULL) {
        reg->config.log(reg->config.log_user, level, text);
    } else if (trace) {
        fprintf(stderr, "opreg: %s\n", text);
    } else if (level <= OPREG_LOG_WARN) {
        fprintf(stderr, "opreg: %s: %s\n", level == OPREG_LOG_ERROR ? "error" : "warning", text);
    }
}

void registry_unlock(opreg_registry *reg) {
    log_line *line = reg->lines;
    reg->lines = NULL;
    reg->lines_end = &reg->lines;
    atomic_store_explicit(&reg->owner, 0, memory_order_relaxed);
    pthread_mutex_unlock(&reg->mutex);
    while (line != NULL) {
        log_line *next = line->next;
        give_out(reg, line->level, line->trace, line->text);
        free(line);
        line = next;
    }
}

/* ---- log ------------------------------------------------------------------------------------ */

/* A copy of the text, in which what would end a line or move a terminal's cursor is a space. */
static log_line *line_of(opreg_log_level level, int trace, const char *text) {
    size_t bytes = strlen(text) + 1;
    log_line *line = malloc(sizeof *line + bytes);
    if (line == NULL) {
        return NULL;
    }
    line->next = NULL;
    line->level = level;
    line->trace = trace;
    memcpy(line->text, text, bytes);
    for (char *at = line->text; *at != '\0'; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f) {
            *at = ' ';
        }
    }
    return line;
}

static void log_text(opreg_registry *reg, opreg_log_level level, int trace, const char *text) {
    log_line *line = line_of(level, trace, text);
    if (line == NULL) {
        return; /* a lost line is better than a callback under the lock */
    }
    if (atomic_load_explicit(&reg->owner, memory_order_relaxed) != this_thread()) {
        give_out(reg, level, trace, line->text);
        free(line);
        return;
    }
    *reg->lines_end = line;
    reg->lines_end = &line->next;
}

void registry_log(opreg_registry *reg, opreg_log_level level, const char *format, ...) {
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    log_text(reg, level, 0, text);
}

void registry_trace(opreg_registry *reg, const char *text) {
    log_text(reg, OPREG_LOG_INFO, 1, text);
}

/* ---- what a plugin may call ----------------------------------------------------------------- */

static void host_log(void *ctx, opreg_log_level level, const char *line) {
    const plugin_entry *entry = ctx;
    if (line != NULL) {
        registry_log(entry->reg, level, "%s: %s", entry->name, line);
    }
}

__attribute__((format(printf, 2, 3))) static void host_error(void *ctx, const char *format, ...) {
    va_list arguments;
    (void)ctx;
    va_start(arguments, format);
    fail_v(OPREG_OK, format, arguments);
    va_end(arguments);
}

typedef struct lent_task {
    void (*task)(void *arg, int64_t i);
    void *arg;
} lent_task;

/* The engine's threads may be in a float mode of their own. */
static void run_lent_task(void *arg, int64_t i) {
    const lent_task *t = arg;
    uint32_t before = float_enter();
    t->task(t->arg, i);
    float_leave(before);
}

static void host_parallel_for(void *ctx, int64_t count, void (*task)(void *arg, int64_t i),
                              void *arg) {
    const plugin_entry *entry = ctx;
    const opreg_registry *reg = entry->reg;
    if (count <= 0) {
        return;
    }
    if (reg->config.parallel_for != NULL) {
        lent_task lent = {task, arg};
        reg->config.parallel_for(reg->config.parallel_user, count, run_lent_task, &lent);
    } else {
        pool_run(reg->workers, count, task, arg);
    }
}

/* Asked at entry, probe and prepare.  A switch's row never moves out from under a reader: the words
 * of flags are only written under the lock, which prepare does not hold, so take it. */
static int host_switch_on(void *ctx, const char *name) {
    plugin_entry *entry = ctx;
    opreg_registry *reg = entry->reg;
    int mine = atomic_load_explicit(&reg->owner, memory_order_relaxed) == this_thread();
    char flag[160];
    size_t index;
    int on = 0;
    if (name == NULL || (!mine && registry_lock(reg) != OPREG_OK)) {
        return 0;
    }
    snprintf(flag, sizeof flag, "%s/%s", entry->name, name);
    index = flags_find(&reg->flags, flag);
    if (index != FLAG_NONE && reg->flags.rows[index].kind == FLAG_SWITCH) {
        on = flags_on(&reg->flags, index);
    }
    if (!mine) {
        registry_unlock(reg);
    }
    return on;
}

void host_init(plugin_entry *entry) {
    entry->host = (opreg_host){.struct_size = sizeof(opreg_host),
                               .abi_major = OPREG_ABI_MAJOR,
                               .abi_minor_min = 0,
                               .abi_minor_max = OPREG_ABI_MINOR,
                               .ctx = entry,
                               .log = host_log,
                               .error = host_error,
                               .parallel_for = host_parallel_for,
                               .switch_on = host_switch_on};
}
