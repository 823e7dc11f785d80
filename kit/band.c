/* SPDX-License-Identifier: MIT
 * band.c - sums of errors, and what they are held to. */
#include "band.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double half_ulp(uint32_t dtype, double value) {
    int exponent;
    if (dtype == OPREG_F32 || !isfinite(value)) {
        return 0;
    }
    (void)frexp(value, &exponent); /* |value| in [2^(exponent - 1), 2^exponent) */
    return dtype == OPREG_F16 ? fmax(ldexp(1, exponent - 12), 0x1p-25)
                              : fmax(ldexp(1, exponent - 9), 0x1p-134);
}

static void add(band *b, uint32_t dtype, double got, double want, double energy) {
    double store = half_ulp(dtype, fmax(fabs(got), fabs(want)));
    b->error += (got - want) * (got - want);
    b->energy += energy;
    b->store += store * store;
    b->count++;
}

void band_add(band *b, uint32_t y_dtype, double got, double want) {
    add(b, y_dtype, got, want, want * want);
}

void band_close(const band *b, double limit, finding *f) {
    double most = sqrt(limit * b->energy) + sqrt(b->store);
    if (b->count >= 256 && !(sqrt(b->error) <= most)) {
        finding_set(f, "band", "NMSE %.3g over %lld outputs, at most %.3g is admitted",
                    b->energy > 0 ? b->error / b->energy : INFINITY, (long long)b->count,
                    b->energy > 0 ? most * most / b->energy : 0.0);
    }
}

double band_limit(uint32_t format) {
    opreg_format_row row;
    memset(&row, 0, sizeof row);
    row.struct_size = sizeof row;
    if (format == OPREG_IQ1_S || format == OPREG_IQ1_M) {
        return 2e-3;
    }
    return opreg_format_by_id(format, &row) == OPREG_OK && row.act_dtype == OPREG_F32 ? 1e-10 : 5e-4;
}

double band_admitted(const opreg_kernel_row *of, uint32_t format) {
    return of->band > 0 ? of->band : band_limit(format);
}

int banded_open(banded *b, uint32_t dtype, double limit, int64_t rows, int64_t columns) {
    memset(b, 0, sizeof *b);
    b->dtype = dtype;
    b->limit = limit;
    b->num_rows = rows;
    b->num_columns = columns;
    b->rows = calloc((size_t)(rows + columns) + 1, sizeof *b->rows);
    b->columns = b->rows + rows;
    return b->rows != NULL;
}

void banded_add(banded *b, int64_t row, int64_t column, double got, double want, double power) {
    band_add(&b->all, b->dtype, got, want);
    b->power += power;
    /* weights with a common mean make errors alike, and results: their own energy counts too */
    add(&b->rows[row], b->dtype, got, want, power + want * want);
    add(&b->columns[column], b->dtype, got, want, power + want * want);
}

/* The mean of count squared gaussian errors is over (1 + 6 / sqrt(count))^2 times its expectation in
 * less than one of 10^9 cases, whatever the count.  The errors of a row come from the same activations:
 * with weights that share a mean they are not independent, so more than 64 count as 64. */
static void close_groups(const band *groups, int64_t count, double limit, const char *what,
                         finding *f) {
    for (int64_t i = 0; i < count; i++) {
        const band *b = &groups[i];
        double independent = b->count < 64 ? (double)b->count : 64.0;
        double most = sqrt(limit * b->energy) * (1 + 6 / sqrt(independent)) + sqrt(b->store);
        if (b->count > 0 && isfinite(b->energy) && !(sqrt(b->error) <= most)) {
            finding_set(f, "band", "%s %lld: the error of its %lld outputs is %.3g, at most %.3g is "
                                   "admitted",
                        what, (long long)i, (long long)b->count, sqrt(b->error), most);
            return;
        }
    }
}

void banded_close(banded *b, finding *f) {
    if (f != NULL) {
        b->all.energy = fmax(b->all.energy, b->power);
        band_close(&b->all, b->limit, f);
        close_groups(b->rows, b->num_rows, b->limit, "row", f);
        close_groups(b->columns, b->num_columns, b->limit, "column", f);
    }
    free(b->rows);
    memset(b, 0, sizeof *b);
}
