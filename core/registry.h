/* SPDX-License-Identifier: MIT
 * registry.h - the registry's insides: plugins, their tables and devices, and the lock around them.
 *
 * The lock guards everything but what is marked atomic.  Callbacks of the engine (log) are never
 * called under it: lines are kept and given out when it is released. */
#ifndef OPREG_REGISTRY_H
#define OPREG_REGISTRY_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "discover.h"
#include "flags.h"
#include "opreg/opreg_plugin.h"
#include "pool.h"
#include "problem.h"
#include "summary.h"

typedef enum plugin_origin { ORIGIN_BUILT_IN, ORIGIN_ADDED, ORIGIN_MANIFEST } plugin_origin;

/* One plugin, open or not.  Entries are never freed or moved before the registry is. */
typedef struct plugin_entry {
    opreg_registry *reg;
    char name[32], path[512];
    char reason[1024]; /* why it failed or is not there, "" when all is well                        */
    char conflict[1100]; /* two files have this name: it is never opened                            */
    plugin_origin origin;
    opreg_plugin_state state;
    opreg_entry_fn entry;  /* built in and added ones                                               */
    manifest *about;       /* null but for ORIGIN_MANIFEST                                          */
    size_t flag;           /* of its level                                                          */
    opreg_host host;
    void *library;         /* dlopen's handle, kept for the process's life                          */
    /* copies of the plugin's table, zero-extended to this library's sizes; counts are 0 when closed */
    opreg_plugin table;
    opreg_kernel *kernels;
    size_t *kernel_flags;  /* of each kernel, in the flag store                                     */
    opreg_layout *layouts;
    opreg_plugin_format *formats;
    const opreg_plugin_format **format_rows; /* the same, as problem_formats wants them             */
    opreg_device_io io;
    opreg_device_steps steps; /* where table.steps is not null                                       */
    opreg_device *devices;
    size_t num_devices;
    atomic_uint live;  /* plans, weights and plans in the making                                    */
    atomic_uint sides; /* side data in its memory, of weights that may be another plugin's          */
} plugin_entry;

typedef struct log_line {
    struct log_line *next;
    opreg_log_level level;
    int trace;
    char text[];
} log_line;

struct opreg_registry {
    pthread_mutex_t mutex;
    pid_t pid;
    _Atomic(uintptr_t) owner; /* the thread that holds the lock, 0 when free                        */
    log_line *lines, **lines_end;
    opreg_config config;
    flags flags;
    size_t flag_trace, flag_strict, flag_shadow, flag_guard, flag_dir, flag_shadow_dir;
    plugin_entry **plugins; /* in order of discovery; the built-in one is first                     */
    size_t num_plugins;
    const opreg_plugin_format **formats; /* of every open plugin                                    */
    size_t num_formats;
    char *complaints; /* what strict mode makes of the warnings at creation; null when none         */
    int creating;
    int strict;
    atomic_int trace; /* 0 off, 1 plan, 2 run                                                       */
    atomic_int watching;   /* trace, shadow or guard is on: new plans get a watch                   */
    uint64_t shadow_every; /* 0: off                                                                */
    int guard_on;
    char shadow_dir[512];  /* "" when no replay files are wanted                                    */
    run_summary summary;       /* has a lock of its own                                                 */
    pool *workers;    /* null where the engine brings parallel_for                                  */
};

/* E_BUSY, with the reason, in a forked child whose parent held the lock elsewhere. */
opreg_status registry_lock(opreg_registry *reg);

/* The same for a lock of a part of it, which the text calls `used`. */
opreg_status registry_lock_of(const opreg_registry *reg, pthread_mutex_t *mutex, const char *used);

/* Releases the lock and gives out the lines that were logged under it. */
void registry_unlock(opreg_registry *reg);

/* Logs one line, at once or when the lock is released. */
void registry_log(opreg_registry *reg, opreg_log_level level, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* A trace line: printed even where the default log shows warnings only. */
void registry_trace(opreg_registry *reg, const char *text);

/* Sets entry->host up. */
void host_init(plugin_entry *entry);

/* A loaded plugin that is switched on, by name; null when there is none. */
plugin_entry *registry_plugin(opreg_registry *reg, const char *name);

/* 1 when the plugin is open, ready and its level is not off. */
int plugin_is_on(const plugin_entry *entry);

/* 1 when a plan may take the kernel: by its own flag, else by the plugin's level. */
int kernel_is_on(const plugin_entry *entry, size_t kernel);

/* The device row of the plugin that is the caller's device; null when it has none. */
const opreg_device *plugin_device(const plugin_entry *entry, const opreg_device *dev);

/* Reads the caller's device row. */
opreg_status device_load(const opreg_device *dev, opreg_device *out);

/* "cuda:0/sm_90" into out. */
void device_text(const opreg_device *dev, char *out, size_t cap);

/* The built-in backend. */
opreg_status opreg_cpu_entry(const opreg_host *host, opreg_plugin *out);

#endif /* OPREG_REGISTRY_H */
