/* SPDX-License-Identifier: MIT
 * memory.h - device memory between guards.
 *
 * Host memory gets guard pages: a touch of one is caught, noted and let through, so that the run
 * goes on and the case names the buffer.  Other devices get bands of a known pattern. */
#ifndef OPREG_KIT_MEMORY_H
#define OPREG_KIT_MEMORY_H

#include "opreg/opreg_plugin.h"

/* Where a variant runs. */
typedef struct place {
    opreg_device device;
    const opreg_device_io *io;
    const opreg_host *host;
    void *stream;   /* null on the CPU                                                              */
    uint8_t *arena; /* device memory for all regions of one run; null on the CPU                    */
    uint64_t arena_bytes, arena_used;
    int is_cpu;
    int counts; /* allocations, of a run on the CPU: in a program that can, and where no driver's own
                 * threads allocate meanwhile                                                       */
} place;

/* Allocations that the process has made.  optional: a program that has no such function, for one that
 * is built with sanitizers, is told that they are not counted. */
extern uint64_t opreg_kit_allocations(void) __attribute__((weak));

opreg_status place_open(opreg_registry *reg, const opreg_device *device, place *out);
void place_close(place *where);

typedef struct region {
    uint8_t *ptr; /* on the device                                                                  */
    uint64_t bytes;
    uint8_t *slab; /* guards, slack and bytes                                                       */
    uint64_t slab_bytes, front; /* front: from slab to ptr                                          */
    uint64_t before, after;     /* readable slack around bytes                                      */
    uint8_t *image;             /* host copy of what was put there, slab_bytes                      */
    uint64_t mapped;            /* host only: bytes of the mapping, guard pages included            */
    uint32_t fill;
    int owned; /* device only: the slab is an allocation of its own                                 */
    int frozen; /* a run must not change the bytes                                                  */
    uintptr_t touched; /* host only: where a write was tried while the region was locked            */
} region;

/* Places bytes of host data.  On the host, `at_end` puts the end against a guard page as near as
 * align lets it, else the start against one.  align is a power of two up to 256; shift adds that
 * many bytes to an aligned base (device) and must be a multiple of the least alignment.
 * fill 0 or 1 picks the pattern around the bytes and in the slack.  data may be null: the pattern;
 * with data the region is frozen. */
opreg_status region_open(place *where, const void *data, uint64_t bytes, uint32_t align,
                         uint32_t shift, uint64_t before, uint64_t after, int at_end, uint32_t fill,
                         region *out);
void region_close(place *where, region *r);

/* Makes new contents visible to the device without moving the region. */
opreg_status region_write(place *where, region *r, const void *data);

/* Freezes a region whose bytes a plugin has written. */
opreg_status region_freeze(place *where, region *r);

/* Makes a frozen region read-only, on the host, until it is unlocked: a write is noted and let through,
 * so that it is seen even where the bytes are put back. */
void region_lock(const place *where, region *r);
void region_unlock(const place *where, region *r);

/* Copies the bytes back and checks everything around them, and them where the region is frozen.
 * *fault is set to what went wrong, "changed" where the bytes were, or to null; at is the byte it
 * happened at, relative to ptr. */
opreg_status region_read(place *where, region *r, void *data, const char **fault, int64_t *at);

/* The pattern of a fill at a byte: different everywhere between fills 0 and 1. */
uint8_t region_pattern(uint32_t fill, uint64_t at);

/* Installs the handler for guard pages, and puts the old one back.  Not nested. */
void memory_watch_begin(void);
void memory_watch_end(void);

#endif /* OPREG_KIT_MEMORY_H */
