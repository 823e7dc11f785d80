/* SPDX-License-Identifier: MIT
 * fuzz_sidecar.c - the side data of a model, of any bytes, is read within its bounds or refused. */
#include "fuzz.h"

#include "formats/side.h"
#include "formats/sidecar.h"

static void check_entry(const sidecar_entry *e, const uint8_t *bytes, size_t size) {
    int64_t ne[3] = {e->in > 0 ? e->in : 256, e->out > 0 ? e->out : 4, e->experts};
    static volatile uint8_t sum; /* so that the reads stay */
    FUZZ_CHECK(e->offset <= size);
    FUZZ_CHECK((const uint8_t *)e->side >= bytes && e->side_bytes <= size);
    for (uint64_t i = 0; i < e->side_bytes; i++) {
        sum = (uint8_t)(sum + ((const uint8_t *)e->side)[i]);
    }
    for (uint32_t i = 0; i < e->name_bytes; i++) {
        sum = (uint8_t)(sum + (uint8_t)e->name[i]);
    }
    sidecar_fits(e, e->ggml_type, ne, 3);
    sidecar_fits(e, e->ggml_type, ne, 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input in = {data, size};
    sidecar_wire wire = (sidecar_wire)(fuzz_u8(&in) % SIDECAR_WIRES);
    size_t bytes = in.left, count = 77;
    uint8_t *exact = fuzz_bytes(&in, bytes);
    sidecar_entry *entries = NULL;
    opreg_status status = sidecar_parse(wire, exact, bytes, &entries, &count);
    FUZZ_CHECK(status == OPREG_OK || status == OPREG_E_ARG);
    if (status == OPREG_OK) {
        FUZZ_CHECK(count <= bytes);
        for (size_t i = 0; i < count; i++) {
            check_entry(&entries[i], exact, bytes);
        }
        free(entries);
    } else {
        FUZZ_CHECK(entries == NULL && count == 77);
    }
    free(exact);
    return 0;
}
