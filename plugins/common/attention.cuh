/* SPDX-License-Identifier: MIT
 * attention.cuh - what every paged attention kernel shares: which keys a query token sees, where a
 * position's page is, and the parts that merge in the canonical tree. */
#ifndef OPREG_PLUGINS_ATTENTION_CUH
#define OPREG_PLUGINS_ATTENTION_CUH

#include "baseline_args.h"
#include "device.h"

#include "canonical.h"

/* The keys of one query token: positions [begin, end) of request `request`. */
struct visible_keys {
    int32_t request, begin, end;
    int32_t pages; /* usable entries of the request's table                                        */
    const int32_t *table;
};

DEVICE int32_t clamp_to(int32_t value, int32_t low, int32_t high) {
    return value < low ? low : (value > high ? high : value);
}

/* Length and table of a request; nothing on the device is trusted. */
DEVICE int32_t request_length(const attention_args &a, int32_t request, visible_keys *out) {
    int64_t length;
    if (a.indptr != 0) {
        int32_t first = clamp_to(a.indptr[request], 0, a.table_stride);
        int32_t last = clamp_to(a.indptr[request + 1], first, a.table_stride);
        out->pages = last - first;
        out->table = a.table + first;
        length = out->pages == 0 ? 0
                                 : (int64_t)(out->pages - 1) * a.block_size +
                                       clamp_to(a.lens[request], 0, a.block_size);
    } else {
        out->pages = a.table_stride;
        out->table = a.table + (int64_t)request * a.table_stride;
        length = a.lens[request];
    }
    length = length < 0 ? 0 : length;
    return length > a.max_seq_len ? a.max_seq_len : (int32_t)length;
}

/* No request for the token: no keys. */
DEVICE visible_keys keys_of_token(const attention_args &a, int32_t token) {
    visible_keys keys = {token, 0, 0, 0, a.table};
    int32_t length, queries = 1, index = 0;
    int64_t position;
    if (a.q_indptr != 0) {
        int32_t r = 0;
        for (; r < a.seqs; r++) {
            int32_t first = clamp_to(a.q_indptr[r], 0, a.tokens);
            int32_t last = clamp_to(a.q_indptr[r + 1], 0, a.tokens);
            last = last > first + a.max_q ? first + a.max_q : last;
            index = token - first;
            queries = last - first;
            if (token >= first && token < last) {
                break;
            }
        }
        if (r == a.seqs) {
            return keys;
        }
        keys.request = r;
    }
    length = request_length(a, keys.request, &keys);
    position = (int64_t)length - queries + index; /* of the token itself                           */
    if (position < 0) {
        return keys;
    }
    keys.end = (int32_t)position + 1;
    keys.begin = a.window > 0 && keys.end > a.window ? keys.end - a.window : 0;
    return keys;
}

/* The page of a position, or -1 where the table's entry is not a page. */
DEVICE int32_t page_of(const attention_args &a, const visible_keys &keys, int32_t position) {
    int32_t index = position / a.block_size, page;
    if (index >= keys.pages) {
        return -1;
    }
    page = keys.table[index];
    return page >= 0 && page < a.num_blocks ? page : -1;
}

#endif /* OPREG_PLUGINS_ATTENTION_CUH */
