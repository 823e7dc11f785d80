/* SPDX-License-Identifier: MIT
 * format_bits.c - a device and the host give the same bits for a unit of every format, on random
 * blocks and activations of every size, among them Inf, NaN, zeros and subnormals.
 *
 * Needs a device, so it is no part of ctest.  README.md here has the commands. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format_bits.h"
#include "formats/act.h"
#include "formats/formats.h"

enum { CASES = 4096 };

static uint64_t seed = 1;

static uint32_t random_bits(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 32);
}

static float random_value(int exponent) {
    uint32_t bits = random_bits();
    return float_of((bits & 0x80000000u) | (uint32_t)(exponent - (int)(bits % 6u)) << 23 |
                    (random_bits() & 0x7fffffu));
}

static uint32_t random_dialect(uint32_t format) {
    uint32_t bits = random_bits();
    switch (format) {
    case OPREG_ROCMFP2:
        return OPREG_DIALECT_ROCMFP2_PLAIN + bits % 4u;
    case OPREG_NVFP4:
        return OPREG_DIALECT_NVFP4_HOST + bits % 2u;
    case OPREG_ROCMFP4:
    case OPREG_ROCMFP4_FAST:
        return bits % 2u ? OPREG_DIALECT_ROCMFP4_HIP : OPREG_DIALECT_DEFAULT;
    default:
        return OPREG_DIALECT_DEFAULT;
    }
}

static void make_case(const format_info *f, int number, unit_case *c) {
    static const uint32_t special[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0x00000000u,
                                       0x80000000u, 0x00000001u, 0x807fffffu, 0x7f7fffffu};
    int blocks = f->values == 1 ? f->unit : 1;
    int exponent = number % 4 == 0 ? 6 + (int)(random_bits() % 248u) : 120;
    memset(c, 0, sizeof *c);
    c->format = f->id;
    c->part = f->values > f->unit ? (int)(random_bits() % (uint32_t)(f->values / f->unit)) : 0;
    c->count = f->values == 1 ? 1 + (int)(random_bits() % (uint32_t)f->unit) : f->unit;
    c->weight = (int)(random_bits() % (uint32_t)f->values);
    c->side.tensor_scale = random_value(124);
    c->side.dialect = random_dialect(f->id);
    c->side.mode =
        f->side == FORMAT_SIDE_MIX4 || f->side == FORMAT_SIDE_MIX8 ? random_bits() & 1u : 0;
    for (int i = 0; i < 16; i++) {
        c->side.levels[i] = random_value(127);
    }
    for (int i = 0; i < 256; i++) {
        c->x[i] = random_value(exponent);
    }
    if (number % 8 == 1) {
        c->x[random_bits() % (uint32_t)f->unit] = float_of(special[random_bits() % 8u]);
    }
    if (number % 64 == 2) {
        memset(c->x, 0, sizeof c->x);
    }
    for (int b = 0; b < blocks; b++) {
        uint8_t *block = c->block + b * f->bytes;
        do {
            for (int i = 0; i < f->bytes; i++) {
                block[i] = (uint8_t)random_bits();
            }
        } while (f->invalid(block, &c->side) != NULL);
    }
}

static void host_unit(const format_info *f, const unit_case *c, unit_result *r) {
    memset(r, 0, sizeof *r);
    r->value = f->value(c->block, c->weight, &c->side);
    r->scale = f->act_dtype == OPREG_Q8_0   ? act_q8_0(c->x, r->q, r->q_sums)
               : f->act_dtype == OPREG_Q8_K ? act_q8_k(c->x, r->q, r->q_sums)
                                            : 1.0f;
    if (f->kind == FORMAT_SUMS) {
        f->sums(c->block, c->part, r->q, r->q_sums, &c->side, r->n);
        r->y = f->term(c->block, c->part, r->n, r->scale, &c->side);
    } else {
        r->y = f->fold(c->block, c->part, c->x, c->count, 0.5f, &c->side);
    }
}

/* Any NaN is any other. */
static int same(float a, float b) {
    return bits_of(a) == bits_of(b) || (a != a && b != b);
}

int main(void) {
    static unit_case cases[CASES];
    static unit_result device[CASES], host;
    int failed = 0;
    for (size_t row = 0; row < format_count(); row++) {
        const format_info *f = format_at(row);
        int wrong = 0, error;
        for (int i = 0; i < CASES; i++) {
            make_case(f, i, &cases[i]);
        }
        error = device_units(cases, CASES, device);
        for (int i = 0; i < CASES; i++) {
            const unit_result *d = &device[i];
            host_unit(f, &cases[i], &host);
            if (!same(d->value, host.value) || !same(d->y, host.y) || !same(d->scale, host.scale) ||
                memcmp(d->n, host.n, sizeof host.n) || memcmp(d->q, host.q, sizeof host.q) ||
                memcmp(d->q_sums, host.q_sums, sizeof host.q_sums)) {
                if (wrong++ == 0) {
                    printf("%s case %d: value %a %a, y %a %a, scale %a %a, n %d %d\n", f->name, i,
                           (double)d->value, (double)host.value, (double)d->y, (double)host.y,
                           (double)d->scale, (double)host.scale, (int)d->n[0], (int)host.n[0]);
                }
            }
        }
        failed += wrong > 0 || error != 0;
        if (error != 0) {
            printf("%s: device error %d\n", f->name, error);
        }
    }
    printf("%zu formats, %d units each, %d formats differ\n", format_count(), (int)CASES, failed);
    return failed != 0;
}
