/* SPDX-License-Identifier: MIT
 * sidecar.c - parses the side data of a whole model, which GGUF files carry as u8 arrays. */
#include "formats/sidecar.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "formats/format.h"
#include "formats/formats.h"
#include "formats/side.h"

#define HEADER_BYTES 16u
#define MAX_NAME     1024u
#define MAX_SLICES   4096u
#define TYPE_MIX8    105
#define TYPE_MIX4    106

/* What a wire looks like, but for its entries. */
static const struct wire_row {
    const char *key;
    char magic[8];
    uint32_t smallest_entry; /* bytes: what bounds the count before anything is allocated */
    uint32_t surfaces;       /* values that surface may have; 1: the wire has no such field */
} wires[SIDECAR_WIRES] = {
    [SIDECAR_GQH] = {"geoquant.gqh.headers", "GQHh1\0\0", 17, 1},
    [SIDECAR_DENSE] = {"geoquant.dmix2.sidecar", "DMX2s1\0", 37, 1},
    [SIDECAR_DOWN] = {"deepseek4.p4mix.sidecar", "P4MIXv1", 58, 1},
    [SIDECAR_EXPERTS] = {"deepseek4.gumix.sidecar", "GUMIXs1", 45, 3},
    [SIDECAR_ATTENTION] = {"deepseek4.dmix.sidecar", "DMIXs1\0", 44, 5},
};

/* The bytes, and how far they have been read. */
typedef struct reader {
    const uint8_t *bytes;
    uint64_t size, at;
    uint64_t entry; /* offset of the entry being read, for the error text */
    const char *key;
} reader;

static opreg_status refuse(const reader *in, uint64_t offset, const char *reason) {
    return fail(OPREG_E_ARG, "%s, offset %llu (entry at %llu): %s", in->key,
                (unsigned long long)offset, (unsigned long long)in->entry, reason);
}

/* The next `bytes` bytes; null past the end. */
static const uint8_t *take(reader *in, uint64_t bytes) {
    const uint8_t *p = in->bytes + in->at;
    if (in->size - in->at < bytes) {
        return NULL;
    }
    in->at += bytes;
    return p;
}

/* ---- names ---------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 sequence at p; 0 when there is none, or it is a control character. */
static uint32_t sequence_bytes(const uint8_t *p, uint32_t left) {
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t length = p[0] < 0x80 ? 1 : p[0] >> 5 == 6 ? 2 : p[0] >> 4 == 14 ? 3 : 4;
    uint32_t code = p[0], i;
    if (length == 1) {
        return code >= 0x20 && code != 0x7f;
    }
    if ((length == 4 && p[0] >> 3 != 30) || length > left) {
        return 0;
    }
    code &= 0x7fu >> length;
    for (i = 1; i < length; i++) {
        if (p[i] >> 6 != 2) {
            return 0;
        }
        code = code << 6 | (p[i] & 63u);
    }
    return code < smallest[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0
                                                                                           : length;
}

static opreg_status read_name(reader *in, sidecar_entry *entry) {
    const uint8_t *head = take(in, 4), *name;
    uint32_t bytes, i, step;
    if (head == NULL) {
        return refuse(in, in->at, "the name's length is cut off");
    }
    bytes = load_u32(head);
    if (bytes == 0 || bytes > MAX_NAME) {
        return refuse(in, in->at - 4, "the name's length is not 1..1024");
    }
    name = take(in, bytes);
    if (name == NULL) {
        return refuse(in, in->at, "the name is cut off");
    }
    for (i = 0; i < bytes; i += step) {
        step = sequence_bytes(name + i, bytes - i);
        if (step == 0) {
            return refuse(in, in->at - bytes + i, "the name has bytes that are not text");
        }
    }
    entry->name = (const char *)name;
    entry->name_bytes = bytes;
    return OPREG_OK;
}

/* ---- entries -------------------------------------------------------------------------------- */

static opreg_status read_gqh(reader *in, sidecar_entry *entry) {
    opreg_status status = read_name(in, entry);
    const uint8_t *p;
    uint32_t type;
    if (status != OPREG_OK) {
        return status;
    }
    p = take(in, 12);
    if (p == NULL) {
        return refuse(in, in->at, "the entry is cut off");
    }
    type = load_u32(p);
    if (type != 108 && type != 109 && type != 111) {
        return refuse(in, in->at - 12, "the type is not 108, 109 or 111");
    }
    if (p[9] != 0 || p[10] != 0 || p[11] != 0) {
        return refuse(in, in->at - 3, "the padding is not zero");
    }
    entry->ggml_type = (int32_t)type;
    entry->experts = 1;
    entry->side = p + 4;
    entry->side_bytes = 5;
    return OPREG_OK;
}

/* Type, C and K of the MIX wires; type is 0 where the wire does not have the field. */
static opreg_status check_books(const reader *in, uint32_t type, uint32_t c, uint32_t k) {
    if (type != TYPE_MIX8 && type != TYPE_MIX4) {
        return refuse(in, in->entry, "the type is not 105 or 106");
    }
    if (c != 2) {
        return refuse(in, in->entry, "C, the number of codebooks, is not 2");
    }
    if (k != (type == TYPE_MIX8 ? 8u : 4u)) {
        return refuse(in, in->entry, "K, the levels of a codebook, is not 8 for 105 or 4 for 106");
    }
    return OPREG_OK;
}

/* u8 mode, 3 bytes, both books: what side_decode takes for one codebook. */
static opreg_status take_one_codebook(reader *in, uint32_t k, sidecar_entry *entry) {
    entry->side_bytes = 4 + 4 * k;
    entry->side = take(in, entry->side_bytes);
    return entry->side != NULL ? OPREG_OK : refuse(in, in->at, "the codebook is cut off");
}

static opreg_status read_dense(reader *in, sidecar_entry *entry) {
    opreg_status status = read_name(in, entry);
    const uint8_t *p;
    if (status != OPREG_OK) {
        return status;
    }
    p = take(in, 12);
    if (p == NULL) {
        return refuse(in, in->at, "the entry is cut off");
    }
    entry->ggml_type = (int32_t)load_u32(p);
    entry->experts = 1;
    status = check_books(in, load_u32(p), load_u32(p + 4), load_u32(p + 8));
    return status != OPREG_OK ? status : take_one_codebook(in, load_u32(p + 8), entry);
}

/* P4MIXv1 and GUMIXs1. */
static opreg_status read_experts(reader *in, sidecar_entry *entry) {
    int has_surface = entry->wire == SIDECAR_EXPERTS;
    uint32_t type = has_surface ? TYPE_MIX4 : TYPE_MIX8, per_expert = has_surface ? 17 : 34;
    const uint8_t *p = take(in, has_surface ? 28 : 24);
    opreg_status status;
    if (p == NULL) {
        return refuse(in, in->at, "the entry is cut off");
    }
    entry->layer = load_u32(p);
    if (has_surface) {
        p += 4;
        entry->surface = load_u32(p);
    }
    entry->ggml_type = (int32_t)type;
    entry->experts = load_u32(p + 4);
    entry->out = load_u32(p + 8);
    entry->in = load_u32(p + 12);
    status = check_books(in, type, load_u32(p + 16), load_u32(p + 20));
    if (status != OPREG_OK) {
        return status;
    }
    if (entry->experts == 0 || entry->out == 0 || entry->in == 0) {
        return refuse(in, in->entry, "experts, out or in is 0");
    }
    entry->side_bytes = (uint64_t)entry->experts * per_expert;
    entry->side = take(in, entry->side_bytes);
    return entry->side != NULL ? OPREG_OK : refuse(in, in->at, "modes and codebooks are cut off");
}

static opreg_status read_attention(reader *in, sidecar_entry *entry) {
    const uint8_t *p = take(in, 24);
    opreg_status status;
    if (p == NULL) {
        return refuse(in, in->at, "the entry is cut off");
    }
    entry->layer = load_u32(p);
    entry->surface = load_u32(p + 4);
    entry->ggml_type = (int32_t)load_u32(p + 8);
    entry->experts = load_u32(p + 12);
    status = check_books(in, load_u32(p + 8), load_u32(p + 16), load_u32(p + 20));
    if (status != OPREG_OK) {
        return status;
    }
    if (entry->experts == 0 || entry->experts > MAX_SLICES) {
        return refuse(in, in->entry, "the number of slices is not 1..4096");
    }
    return take_one_codebook(in, load_u32(p + 20), entry);
}

static opreg_status read_entry(reader *in, sidecar_entry *entry) {
    opreg_weight_desc desc = {.struct_size = sizeof desc};
    opreg_status status;
    switch (entry->wire) {
    case SIDECAR_GQH:
        status = read_gqh(in, entry);
        break;
    case SIDECAR_DENSE:
        status = read_dense(in, entry);
        break;
    case SIDECAR_ATTENTION:
        status = read_attention(in, entry);
        break;
    default:
        status = read_experts(in, entry);
        break;
    }
    if (status != OPREG_OK) {
        return status;
    }
    if (entry->surface >= wires[entry->wire].surfaces) {
        return refuse(in, in->entry, "the surface or class is unknown");
    }
    desc.format = format_by_ggml_type(entry->ggml_type)->id;
    desc.experts = entry->experts;
    desc.side = entry->side;
    desc.side_bytes = entry->side_bytes;
    status = side_decode(&desc, NULL);
    return status == OPREG_OK ? OPREG_OK
                              : refuse(in, (uint64_t)((const uint8_t *)entry->side - in->bytes),
                                       opreg_last_error());
}

/* ---- tensors that have two entries ------------------------------------------------------------
 */

static int compare_u32(uint32_t a, uint32_t b) {
    return (a > b) - (a < b);
}

static int compare_tensors(const sidecar_entry *a, const sidecar_entry *b) {
    int order = compare_u32(a->layer, b->layer);
    order = order != 0 ? order : compare_u32(a->surface, b->surface);
    order = order != 0 ? order : compare_u32(a->name_bytes, b->name_bytes);
    return order != 0 || a->name_bytes == 0 ? order : memcmp(a->name, b->name, a->name_bytes);
}

static int compare_for_sort(const void *a, const void *b) {
    return compare_tensors(*(const sidecar_entry *const *)a, *(const sidecar_entry *const *)b);
}

static opreg_status refuse_duplicates(reader *in, const sidecar_entry *entries, size_t count) {
    const sidecar_entry **sorted = malloc(count * sizeof *sorted);
    opreg_status status = OPREG_OK;
    size_t i;
    if (sorted == NULL) {
        return fail(OPREG_E_NOMEM, "no memory for %zu entries of side data", count);
    }
    for (i = 0; i < count; i++) {
        sorted[i] = &entries[i];
    }
    qsort(sorted, count, sizeof *sorted, compare_for_sort);
    for (i = 1; i < count && status == OPREG_OK; i++) {
        if (compare_tensors(sorted[i - 1], sorted[i]) == 0) {
            uint64_t a = sorted[i - 1]->offset, b = sorted[i]->offset;
            in->entry = a > b ? a : b;
            status = refuse(in, a < b ? a : b, "one tensor has two entries");
        }
    }
    free(sorted);
    return status;
}

/* ---- the wire ---------------------------------------------------------------------------------
 */

const char *sidecar_key(sidecar_wire wire) {
    return (uint32_t)wire < SIDECAR_WIRES ? wires[wire].key : NULL;
}

static opreg_status read_header(reader *in, const struct wire_row *wire, size_t *count) {
    const uint8_t *p = take(in, HEADER_BYTES);
    if (p == NULL) {
        return refuse(in, 0, "shorter than the 16 bytes of its header");
    }
    if (memcmp(p, wire->magic, 8) != 0) {
        return refuse(in, 0, "the magic is another one");
    }
    if (load_u32(p + 12) != 0) {
        return refuse(in, 12, "the reserved field is not zero");
    }
    if (load_u32(p + 8) > (in->size - in->at) / wire->smallest_entry) {
        return refuse(in, 8, "more entries are counted than fit in the bytes");
    }
    *count = load_u32(p + 8);
    return OPREG_OK;
}

opreg_status sidecar_parse(sidecar_wire wire, const void *bytes, uint64_t size,
                           sidecar_entry **entries, size_t *count) {
    reader in = {bytes, size, 0, 0, sidecar_key(wire)};
    sidecar_entry *rows = NULL;
    opreg_status status;
    size_t n = 0, i;
    if (in.key == NULL || (bytes == NULL && size != 0) || entries == NULL || count == NULL) {
        return fail(OPREG_E_ARG, "side data: a pointer is null or the wire is unknown");
    }
    status = read_header(&in, &wires[wire], &n);
    if (status == OPREG_OK && n != 0) {
        rows = calloc(n, sizeof *rows);
        status = rows != NULL ? OPREG_OK
                              : fail(OPREG_E_NOMEM, "no memory for %zu entries of side data", n);
    }
    for (i = 0; i < n && status == OPREG_OK; i++) {
        in.entry = in.at;
        rows[i].wire = wire;
        rows[i].offset = in.at;
        status = read_entry(&in, &rows[i]);
    }
    if (status == OPREG_OK && in.at != size) {
        status = refuse(&in, in.at, "bytes are left after the last entry");
    }
    if (status == OPREG_OK && n != 0) {
        status = refuse_duplicates(&in, rows, n);
    }
    if (status != OPREG_OK) {
        free(rows);
        return status;
    }
    *entries = rows;
    *count = n;
    return OPREG_OK;
}

/* ---- the tensor of an entry -------------------------------------------------------------------
 */

opreg_status sidecar_fits(const sidecar_entry *entry, int32_t ggml_type, const int64_t *ne,
                          uint32_t dims) {
    int by_expert = entry->wire == SIDECAR_DOWN || entry->wire == SIDECAR_EXPERTS;
    /* not the block length: what loaders of these wires read at a time */
    int64_t multiple = entry->wire == SIDECAR_GQH                                      ? 256
                       : entry->wire == SIDECAR_DENSE || entry->ggml_type == TYPE_MIX4 ? 128
                                                                                       : 32;
    if (ggml_type != entry->ggml_type) {
        return fail(OPREG_E_SHAPE, "side data is for type %d, the tensor has type %d",
                    entry->ggml_type, ggml_type);
    }
    if (dims != (by_expert ? 3u : 2u)) {
        return fail(OPREG_E_SHAPE, "the tensor has %u dimensions, its side data is for %u", dims,
                    by_expert ? 3u : 2u);
    }
    if (ne[0] < 1 || ne[0] % multiple != 0) {
        return fail(OPREG_E_SHAPE, "row length %lld is not a multiple of %lld", (long long)ne[0],
                    (long long)multiple);
    }
    if (by_expert && (ne[0] != entry->in || ne[1] != entry->out || ne[2] != entry->experts)) {
        return fail(OPREG_E_SHAPE,
                    "the tensor is %lld by %lld by %lld, its side data is for %u by %u by %u",
                    (long long)ne[0], (long long)ne[1], (long long)ne[2], entry->in, entry->out,
                    entry->experts);
    }
    if (ne[1] < 1 || (!by_expert && ne[1] % entry->experts != 0)) {
        return fail(OPREG_E_SHAPE, "%lld rows are not a multiple of %u slices", (long long)ne[1],
                    entry->experts);
    }
    return OPREG_OK;
}
