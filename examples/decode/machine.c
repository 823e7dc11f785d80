/* SPDX-License-Identifier: MIT
 * machine.c - memory, copies and the stream of the device, through its plugin. */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

int machine_done(opreg_status status, const char *what, reason *why) {
    return status == OPREG_OK ? 1 : refuse(why, "%s: %s", what, opreg_last_error());
}

int machine_open(machine *m, opreg_registry *registry, const opreg_device *device, reason *why) {
    memset(m, 0, sizeof *m);
    m->registry = registry;
    if (device) {
        m->device = *device;
    } else if (opreg_devices(registry, &m->device, sizeof m->device, 1) < 1) {
        return refuse(why, "the registry has no device");
    }
    return machine_done(opreg_device_io_get(registry, &m->device, &m->io, &m->host), "device",
                        why) &&
           machine_done(opreg_device_steps_get(registry, &m->device, &m->steps, &m->host), "device",
                        why) &&
           machine_done(m->io->stream_create(m->host, &m->device, &m->stream), "stream", why);
}

void machine_close(machine *m) {
    for (size_t i = 0; i < m->count; i++) {
        m->io->free(m->host, &m->device, m->blocks[i]);
    }
    if (m->io) {
        m->io->stream_destroy(m->host, &m->device, m->stream);
    }
    free(m->blocks);
    memset(m, 0, sizeof *m);
}

void *machine_alloc(machine *m, uint64_t bytes, reason *why) {
    size_t capacity = m->capacity ? 2 * m->capacity : 256;
    void *memory = NULL;
    if (m->count == m->capacity) {
        void **blocks = realloc(m->blocks, capacity * sizeof *blocks);
        if (!blocks) {
            refuse(why, "no memory");
            return NULL;
        }
        m->blocks = blocks;
        m->capacity = capacity;
    }
    if (!machine_done(m->io->alloc(m->host, &m->device, bytes, &memory), "memory", why)) {
        return NULL;
    }
    m->blocks[m->count++] = memory;
    return memory;
}

void machine_free(machine *m, void *memory) {
    for (size_t i = m->count; memory && i-- > 0;) {
        if (m->blocks[i] == memory) {
            m->blocks[i] = m->blocks[--m->count];
            m->io->free(m->host, &m->device, memory);
            return;
        }
    }
}

int machine_upload(const machine *m, void *dst, const void *src, uint64_t bytes, reason *why) {
    return machine_done(m->io->to_device(m->host, &m->device, dst, src, bytes, m->stream),
                        "copy to the device", why);
}

int machine_download(const machine *m, void *dst, const void *src, uint64_t bytes, reason *why) {
    return machine_done(m->io->to_host(m->host, &m->device, dst, src, bytes, m->stream),
                        "copy to the host", why);
}

const void *machine_place(machine *m, const void *bytes, uint64_t count, reason *why) {
    void *memory;
    if (m->device.kind == OPREG_CPU) {
        return bytes;
    }
    memory = machine_alloc(m, count, why);
    return memory && machine_upload(m, memory, bytes, count, why) ? memory : NULL;
}

void machine_unplace(machine *m, const void *placed) {
    if (m->device.kind != OPREG_CPU) {
        machine_free(m, (void *)(uintptr_t)placed);
    }
}

int machine_wait(const machine *m, reason *why) {
    return machine_done(m->io->stream_sync(m->host, &m->device, m->stream), "stream", why);
}
