/* SPDX-License-Identifier: MIT
 * memory.c - device memory between guards. */
#define _GNU_SOURCE
#include "memory.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)
#define BAND UINT64_C(4096)
#define PERIOD UINT64_C(13) /* of the pattern                                                       */
#define WATCHED 256

/* The guard pages of live regions, and locked regions.  A signal handler can be told nothing, so this
 * is the one place where the kit keeps state outside its callers' memory. */
typedef struct watch {
    _Atomic(uintptr_t) page; /* the first                                                           */
    _Atomic(uintptr_t) bytes;
    _Atomic(uintptr_t) touched;
} watch;
static watch watches[WATCHED];
static struct sigaction old_segv, old_bus;

static void on_fault(int number, siginfo_t *info, void *context) {
    uintptr_t address = (uintptr_t)info->si_addr;
    (void)context;
    for (int i = 0; i < WATCHED; i++) {
        uintptr_t page = atomic_load(&watches[i].page), bytes = atomic_load(&watches[i].bytes);
        if (page != 0 && address >= page && address < page + bytes) {
            atomic_store(&watches[i].touched, address);
            if (mprotect((void *)page, bytes, PROT_READ | PROT_WRITE) == 0) {
                return; /* the access happens again and now succeeds */
            }
        }
    }
    sigaction(number, number == SIGBUS ? &old_bus : &old_segv, NULL);
}

void memory_watch_begin(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &old_segv);
    sigaction(SIGBUS, &action, &old_bus);
}

void memory_watch_end(void) {
    sigaction(SIGSEGV, &old_segv, NULL);
    sigaction(SIGBUS, &old_bus, NULL);
}

/* Whoever watches may not touch the pages before this returns. */
static void watch_pages(uintptr_t page, uintptr_t bytes) {
    for (int i = 0; i < WATCHED; i++) {
        uintptr_t none = 0;
        if (atomic_compare_exchange_strong(&watches[i].page, &none, page)) {
            atomic_store(&watches[i].bytes, bytes);
            atomic_store(&watches[i].touched, 0);
            return;
        }
    }
}

static uintptr_t page_touched(uintptr_t page) {
    for (int i = 0; i < WATCHED; i++) {
        if (atomic_load(&watches[i].page) == page) {
            return atomic_load(&watches[i].touched);
        }
    }
    return 0;
}

static void unwatch_page(uintptr_t page) {
    for (int i = 0; i < WATCHED; i++) {
        if (atomic_load(&watches[i].page) == page) {
            atomic_store(&watches[i].page, 0);
        }
    }
}

static int has_driver(opreg_registry *reg) {
    opreg_device rows[64];
    size_t count = opreg_devices(reg, rows, sizeof rows[0], 64);
    for (size_t i = 0; i < count && i < 64; i++) {
        if (rows[i].kind != OPREG_CPU) {
            return 1;
        }
    }
    return 0;
}

opreg_status place_open(opreg_registry *reg, const opreg_device *device, place *out) {
    opreg_status status;
    memset(out, 0, sizeof *out);
    out->device = *device;
    out->is_cpu = device->kind == OPREG_CPU;
    out->counts = out->is_cpu && opreg_kit_allocations != NULL && !has_driver(reg);
    status = opreg_device_io_get(reg, device, &out->io, &out->host);
    if (status == OPREG_OK && !out->is_cpu) {
        status = out->io->stream_create(out->host, &out->device, &out->stream);
    }
    if (status == OPREG_OK && !out->is_cpu) {
        out->arena_bytes = UINT64_C(96) << 20;
        status = out->io->alloc(out->host, &out->device, out->arena_bytes, (void **)&out->arena);
    }
    return status;
}

void place_close(place *where) {
    if (where->io == NULL) {
        return;
    }
    if (where->arena != NULL) {
        where->io->free(where->host, &where->device, where->arena);
    }
    if (where->stream != NULL) {
        where->io->stream_destroy(where->host, &where->device, where->stream);
    }
    memset(where, 0, sizeof *where);
}

uint8_t region_pattern(uint32_t fill, uint64_t at) {
    /* fill 0 reads as NaN in every float type, fill 1 as ordinary numbers */
    return fill ? (uint8_t)(0x31u + at % PERIOD) : (uint8_t)0xffu;
}

/* The pattern over a slab whose byte `front` is byte 0 of the region. */
static void pattern_fill(uint8_t *out, uint64_t bytes, uint32_t fill, uint64_t front) {
    uint64_t done = bytes < PERIOD ? bytes : PERIOD;
    for (uint64_t i = 0; i < done; i++) {
        out[i] = region_pattern(fill, i + PERIOD - front % PERIOD);
    }
    while (done < bytes) { /* done stays a multiple of the period but for the last round */
        uint64_t more = bytes - done < done ? bytes - done : done;
        memcpy(out + done, out, more);
        done += more;
    }
}

static uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

static opreg_status open_host(region *r, uint32_t align, uint32_t shift, int at_end) {
    uint64_t inside = r->before + r->bytes + r->after;
    uint64_t room = round_up(inside + align + shift, PAGE);
    uint8_t *map = mmap(NULL, room + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
        return OPREG_E_NOMEM;
    }
    r->mapped = room + 2 * PAGE;
    r->slab = map + PAGE;
    r->slab_bytes = room;
    if (mprotect(r->slab, room, PROT_READ | PROT_WRITE) != 0) {
        munmap(map, r->mapped);
        return OPREG_E_NOMEM;
    }
    if (at_end) {
        r->front = room - r->after - r->bytes;
        r->front -= r->front % align;
    } else {
        r->front = round_up(r->before, align) + shift;
    }
    watch_pages((uintptr_t)map, PAGE);
    watch_pages((uintptr_t)(r->slab + room), PAGE);
    return OPREG_OK;
}

static opreg_status open_device(place *where, region *r, uint32_t shift) {
    uint64_t bytes = round_up(2 * BAND + r->before + r->bytes + r->after + shift, 256);
    r->front = round_up(BAND + r->before, 256) + shift;
    r->slab_bytes = bytes + 256;
    if (where->arena_used + r->slab_bytes <= where->arena_bytes) {
        r->slab = where->arena + where->arena_used;
        where->arena_used += round_up(r->slab_bytes, 256);
        return OPREG_OK;
    }
    r->owned = 1;
    return where->io->alloc(where->host, &where->device, r->slab_bytes, (void **)&r->slab);
}

opreg_status region_open(place *where, const void *data, uint64_t bytes, uint32_t align,
                         uint32_t shift, uint64_t before, uint64_t after, int at_end, uint32_t fill,
                         region *out) {
    opreg_status status;
    memset(out, 0, sizeof *out);
    out->bytes = bytes;
    out->before = before;
    out->after = after;
    out->fill = fill;
    out->frozen = data != NULL;
    status = where->is_cpu ? open_host(out, align, shift, at_end) : open_device(where, out, shift);
    if (status != OPREG_OK) {
        memset(out, 0, sizeof *out);
        return status;
    }
    out->ptr = out->slab + out->front;
    out->image = malloc(out->slab_bytes);
    if (out->image == NULL) {
        region_close(where, out);
        return OPREG_E_NOMEM;
    }
    pattern_fill(out->image, out->slab_bytes, fill, out->front);
    if (data != NULL && bytes > 0) {
        memcpy(out->image + out->front, data, bytes);
    }
    if (where->is_cpu) {
        memcpy(out->slab, out->image, out->slab_bytes);
        return OPREG_OK;
    }
    return where->io->to_device(where->host, &where->device, out->slab, out->image, out->slab_bytes,
                                where->stream);
}

void region_close(place *where, region *r) {
    if (r->slab != NULL && where->is_cpu) {
        unwatch_page((uintptr_t)(r->slab - PAGE));
        unwatch_page((uintptr_t)(r->slab + r->slab_bytes));
        munmap(r->slab - PAGE, r->mapped);
    } else if (r->slab != NULL && r->owned) {
        where->io->free(where->host, &where->device, r->slab);
    }
    free(r->image);
    memset(r, 0, sizeof *r);
}

opreg_status region_write(place *where, region *r, const void *data) {
    if (r->bytes == 0) {
        return OPREG_OK;
    }
    memcpy(r->image + r->front, data, r->bytes);
    if (where->is_cpu) {
        memcpy(r->ptr, data, r->bytes);
        return OPREG_OK;
    }
    return where->io->to_device(where->host, &where->device, r->ptr, data, r->bytes,
                                where->stream);
}

opreg_status region_freeze(place *where, region *r) {
    r->frozen = 1;
    if (where->is_cpu) {
        memcpy(r->image + r->front, r->ptr, r->bytes);
        return OPREG_OK;
    }
    return where->io->to_host(where->host, &where->device, r->image + r->front, r->ptr, r->bytes,
                              where->stream);
}

void region_lock(const place *where, region *r) {
    if (where->is_cpu && r->frozen && r->slab != NULL) {
        watch_pages((uintptr_t)r->slab, r->slab_bytes);
        (void)mprotect(r->slab, r->slab_bytes, PROT_READ);
    }
}

void region_unlock(const place *where, region *r) {
    if (where->is_cpu && r->frozen && r->slab != NULL) {
        uintptr_t touched = page_touched((uintptr_t)r->slab);
        r->touched = touched != 0 ? touched : r->touched; /* of all runs */
        unwatch_page((uintptr_t)r->slab);
        (void)mprotect(r->slab, r->slab_bytes, PROT_READ | PROT_WRITE);
    }
}

static void check_guard_pages(const region *r, const char **fault, int64_t *at) {
    const uint8_t *pages[2] = {r->slab - PAGE, r->slab + r->slab_bytes};
    for (int i = 0; i < 2; i++) {
        uintptr_t touched = page_touched((uintptr_t)pages[i]);
        if (touched == 0) {
            continue;
        }
        *fault = "read outside";
        *at = (int64_t)touched - (int64_t)(uintptr_t)r->ptr;
        for (uint64_t b = 0; b < PAGE; b++) {
            if (pages[i][b] != 0) {
                *fault = "wrote outside";
            }
        }
        return;
    }
}

opreg_status region_read(place *where, region *r, void *data, const char **fault,
                         int64_t *at) {
    uint8_t *now = r->slab;
    opreg_status status = OPREG_OK;
    *fault = NULL;
    *at = 0;
    if (!where->is_cpu) {
        now = malloc(r->slab_bytes);
        if (now == NULL) {
            return OPREG_E_NOMEM;
        }
        status = where->io->to_host(where->host, &where->device, now, r->slab,
                                    r->slab_bytes, where->stream);
    }
    if (status == OPREG_OK) {
        uint64_t end = r->front + r->bytes;
        for (uint64_t i = 0; r->frozen && i < r->bytes && *fault == NULL; i++) {
            if (i == 0 && memcmp(now + r->front, r->image + r->front, r->bytes) == 0) {
                break;
            }
            if (now[r->front + i] != r->image[r->front + i]) {
                *fault = "changed";
                *at = (int64_t)i;
            }
        }
        for (uint64_t i = 0; i < r->slab_bytes && *fault == NULL; i++) {
            if (i == r->front) {
                i = end;
                if (i >= r->slab_bytes) {
                    break;
                }
            }
            if (now[i] != r->image[i]) {
                *fault = "wrote outside";
                *at = (int64_t)i - (int64_t)r->front;
            }
        }
        if (*fault == NULL && where->is_cpu) {
            check_guard_pages(r, fault, at);
        }
        if (*fault == NULL && r->touched != 0) {
            *fault = "changed";
            *at = (int64_t)r->touched - (int64_t)(uintptr_t)r->ptr;
        }
        if (data != NULL && r->bytes > 0) {
            memcpy(data, now + r->front, r->bytes);
        }
    }
    if (!where->is_cpu) {
        free(now);
    }
    return status;
}
