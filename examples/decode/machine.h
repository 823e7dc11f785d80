/* SPDX-License-Identifier: MIT
 * machine.h - the device that a model runs on, as its plugin offers it: memory, one stream, steps. */
#ifndef DECODE_MACHINE_H
#define DECODE_MACHINE_H

#include <stddef.h>

#include "opreg/opreg_plugin.h"
#include "reason.h"

typedef struct machine {
    opreg_registry *registry; /* borrowed */
    opreg_device device;
    const opreg_device_io *io;
    const opreg_device_steps *steps;
    const opreg_host *host;
    void *stream;
    void **blocks; /* everything that was allocated and not freed */
    size_t count, capacity;
} machine;

/* device may be null: the registry's first, which is the CPU.  0 with the reason. */
int machine_open(machine *m, opreg_registry *registry, const opreg_device *device, reason *why);

/* Frees all of its memory, too.  Of zeros it is fine. */
void machine_close(machine *m);

/* Memory of the device, aligned to 256; null with the reason. */
void *machine_alloc(machine *m, uint64_t bytes, reason *why);
void machine_free(machine *m, void *memory); /* null is fine */

/* Copies on the stream: src may be reused, dst has the bytes when they return. */
int machine_upload(const machine *m, void *dst, const void *src, uint64_t bytes, reason *why);
int machine_download(const machine *m, void *dst, const void *src, uint64_t bytes, reason *why);

/* Bytes of the host as bytes that the device reads: themselves on the CPU, else a copy. */
const void *machine_place(machine *m, const void *bytes, uint64_t count, reason *why);
void machine_unplace(machine *m, const void *placed);

int machine_wait(const machine *m, reason *why);

/* 1 for OPREG_OK; else 0 with opreg_last_error. */
int machine_done(opreg_status status, const char *what, reason *why);

/* Runs a step with its arguments on the machine's stream. */
#define MACHINE_STEP(m, name, args, why)                                                           \
    machine_done((m)->steps->name((m)->host, &(m)->device, args, (m)->stream), #name, why)

#endif /* DECODE_MACHINE_H */
