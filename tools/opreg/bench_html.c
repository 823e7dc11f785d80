/* SPDX-License-Identifier: MIT
 * bench_html.c - rows of a bench as one page that needs nothing else: tables that are read without
 * scripts, plots by an embedded library where scripts run. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "bench_page.h"

static const char *file_called(const char *name) {
    for (size_t i = 0; i < page_file_count; i++) {
        if (strcmp(page_files[i].name, name) == 0) {
            return page_files[i].text;
        }
    }
    return NULL;
}

static const char *text_of(const json_t *row, const char *key) {
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static void escaped(FILE *f, const char *text) {
    for (; *text; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", f);
            break;
        case '>':
            fputs("&gt;", f);
            break;
        case '&':
            fputs("&amp;", f);
            break;
        case '"':
            fputs("&quot;", f);
            break;
        default:
            fputc(*text, f);
        }
    }
}

/* A column of numbers: decimals below 0 are those of an exponent. */
typedef struct column {
    const char *key, *name, *unit;
    int decimals;
} column;

static const column number_columns[] = {
    {"us", "time", " \xc2\xb5s", 2},    {"spread", "\xc2\xb1", " \xc2\xb5s", 2},
    {"pct_floor", "of floor", " %", 1}, {"ratio", "over baseline", "\xc3\x97", 2},
    {"gbps", "rate", " GB/s", 1},       {"warm_us", "warm", " \xc2\xb5s", 2},
    {"nmse", "error", "", -1}};
#define NUMBERS (sizeof number_columns / sizeof *number_columns)

static void number_cell(FILE *f, const json_t *row, const column *c) {
    const json_t *value = json_object_get(row, c->key);
    fprintf(f, "<td class=\"number %s\" data-name=\"%s\"", c->key, c->name);
    if (strcmp(c->key, "pct_floor") == 0 && json_is_number(value)) {
        double part = json_number_value(value);
        fprintf(f, " style=\"--part:%.1f%%\"", part > 100.0 ? 100.0 : part);
    }
    fputc('>', f);
    if (json_is_number(value) && c->decimals < 0) {
        fprintf(f, "%.*e%s", -c->decimals, json_number_value(value), c->unit);
    } else if (json_is_number(value)) {
        fprintf(f, "%.*f%s", c->decimals, json_number_value(value), c->unit);
    } else {
        fputs("\xe2\x80\x93", f);
    }
    fputs("</td>", f);
}

static int same(const json_t *a, const json_t *b, const char *key) {
    return strcmp(text_of(a, key), text_of(b, key)) == 0;
}

/* What is the same for all variants of a problem. */
static void problem_row(FILE *f, const json_t *row) {
    const json_t *floor_us = json_object_get(row, "floor_us"),
                 *count = json_object_get(row, "count");
    char shape[160];
    bench_shape(row, shape, sizeof shape);
    fprintf(f, "<tbody><tr class=\"problem\"><th colspan=\"%d\" scope=\"rowgroup\"><b>",
            (int)NUMBERS + 2);
    escaped(f, text_of(row, "format"));
    fputs("</b> ", f);
    escaped(f, shape);
    if (json_is_number(floor_us)) {
        fprintf(f, " <span>floor %.2f \xc2\xb5s</span>", json_number_value(floor_us));
    }
    if (json_is_number(count)) {
        fprintf(f, " <span>%.0f a token</span>", json_number_value(count));
    }
    fputs("</th></tr>\n", f);
}

static void variant_row(FILE *f, const json_t *row) {
    int chosen = json_is_true(json_object_get(row, "chosen"));
    fprintf(f, "<tr%s><td class=\"kernel\">", chosen ? " class=\"chosen\"" : "");
    escaped(f, text_of(row, "kernel"));
    fprintf(f, "%s</td>", chosen ? " <span class=\"mark\">chosen</span>" : "");
    if (text_of(row, "failed")[0]) {
        fprintf(f, "<td class=\"failed\" colspan=\"%d\">failed: ", (int)NUMBERS + 1);
        escaped(f, text_of(row, "failed"));
        fputs("</td>", f);
    } else {
        for (size_t i = 0; i < NUMBERS; i++) {
            number_cell(f, row, &number_columns[i]);
        }
        fputs("<td class=\"level\" data-name=\"level\">", f);
        escaped(f, text_of(row, "level"));
        fputs("</td>", f);
    }
    fputs("</tr>\n", f);
}

/* What a model's token comes to. */
static void total(FILE *f, const json_t *row) {
    double us = json_number_value(json_object_get(row, "us"));
    double floor_us = json_number_value(json_object_get(row, "floor_us"));
    double ratio = json_number_value(json_object_get(row, "ratio"));
    fprintf(f, "<p class=\"total\"><b>%.3f ms a step</b> by the variants that a plan takes",
            us / 1e3);
    if (floor_us > 0) {
        fprintf(f, ", floor %.3f ms", floor_us / 1e3);
    }
    fprintf(f, ", baselines %.3f ms</p>\n", us * ratio / 1e3);
}

static void fact(FILE *f, const char *name, const char *text) {
    if (text[0]) {
        fprintf(f, "<div><dt>%s</dt><dd>", name);
        escaped(f, text);
        fputs("</dd></div>\n", f);
    }
}

/* Who and what measured: the same for all rows of a device. */
static void facts(FILE *f, const json_t *row) {
    char stream[64] = "";
    const json_t *rate = json_object_get(row, "stream_gbps");
    if (json_is_number(rate)) {
        snprintf(stream, sizeof stream, "%.1f GB/s", json_number_value(rate));
    }
    fputs("<dl class=\"facts\">\n", f);
    fact(f, "opened as", text_of(row, "device_id"));
    fact(f, "driver", text_of(row, "driver"));
    fact(f, "built with", text_of(row, "toolkit"));
    fact(f, "stream ceiling, same run", stream);
    fact(f, "date", text_of(row, "date"));
    fputs("</dl>\n<p class=\"command\"><code>", f);
    escaped(f, text_of(row, "command"));
    fputs("</code></p>\n", f);
}

static int is_of(const json_t *row, const json_t *of, const char *op) {
    return same(row, of, "device") && same(row, of, "device_id") &&
           strcmp(text_of(row, "op"), op) == 0;
}

/* All problems of one operator. */
static void table(FILE *f, const json_t *rows, const json_t *of, const char *op) {
    const json_t *row, *above = NULL;
    size_t i;
    fprintf(f, "<details%s><summary>", json_array_size(rows) <= 100 ? " open" : "");
    escaped(f, op);
    fputs("</summary>\n<table><thead><tr><th>variant</th>", f);
    for (i = 0; i < NUMBERS; i++) {
        fprintf(f, "<th class=\"number\">%s</th>", number_columns[i].name);
    }
    fputs("<th>level</th></tr></thead>\n", f);
    json_array_foreach(rows, i, row) {
        if (is_of(row, of, op)) {
            if (!above || !same(row, above, "problem")) {
                fputs(above ? "</tbody>\n" : "", f);
                problem_row(f, row);
            }
            variant_row(f, row);
            above = row;
        }
    }
    fputs("</tbody></table></details>\n", f);
}

static void tables(FILE *f, const json_t *rows, const json_t *of) {
    const json_t *row, *other;
    size_t i, k;
    json_array_foreach(rows, i, row) {
        const char *op = text_of(row, "op");
        int seen = 0;
        json_array_foreach(rows, k, other) {
            seen |= k < i && is_of(other, of, op);
        }
        if (is_of(row, of, op) && !seen && strcmp(op, "token") != 0) {
            table(f, rows, of, op);
        }
    }
}

static int is_first_of_device(const json_t *rows, size_t at) {
    for (size_t i = 0; i < at; i++) {
        if (same(json_array_get(rows, i), json_array_get(rows, at), "device") &&
            same(json_array_get(rows, i), json_array_get(rows, at), "device_id")) {
            return 0;
        }
    }
    return 1;
}

/* As a script's data: "<" would end it. */
static void data(FILE *f, const json_t *rows) {
    char *text = json_dumps(rows, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(6));
    fputs("<script type=\"application/json\" id=\"rows\">", f);
    for (const char *p = text; p && *p; p++) {
        if (*p == '<') {
            fputs("\\u003c", f);
        } else {
            fputc(*p, f);
        }
    }
    fputs("</script>\n", f);
    free(text);
}

static void script(FILE *f, const char *text) {
    if (text) {
        fprintf(f, "<script>%s</script>\n", text);
    }
}

static void page(FILE *f, const json_t *rows) {
    const json_t *row, *other;
    size_t i, k;
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<title>opreg bench: ",
          f);
    escaped(f, text_of(json_array_get(rows, 0), "device"));
    fprintf(f, "</title>\n<style>%s</style>\n</head>\n<body>\n", file_called("page.css"));
    fputs("<header><h1>opreg bench</h1><p>How long quantized decode operators take, and how near "
          "that is to what the device can do. Data is cold, times are medians of interleaved "
          "batches, the error is NMSE against float64.</p></header>\n<main>\n",
          f);
    json_array_foreach(rows, i, row) {
        if (is_first_of_device(rows, i)) {
            fputs("<section class=\"device\" data-device=\"", f);
            escaped(f, text_of(row, "device"));
            fputs("\" data-id=\"", f);
            escaped(f, text_of(row, "device_id"));
            fputs("\">\n<h2>", f);
            escaped(f, text_of(row, "device"));
            fputs("</h2>\n", f);
            facts(f, row);
            json_array_foreach(rows, k, other) {
                if (is_of(other, row, "token")) {
                    total(f, other);
                }
            }
            fputs("<div class=\"plots\"></div>\n", f);
            if (!file_called("chart.min.js")) {
                fputs("<p class=\"note\">This opreg was built without a plotting library: the "
                      "table has every number.</p>\n",
                      f);
            }
            fputs("<noscript><p class=\"note\">The plots need scripts; the table has every "
                  "number.</p></noscript>\n<h3>All rows</h3>\n",
                  f);
            tables(f, rows, row);
            fputs("</section>\n", f);
        }
    }
    fprintf(f, "</main>\n<footer>opreg %s%s</footer>\n", opreg_version(),
            file_called("chart.min.js") ? "; plots by Chart.js, MIT licence, \xc2\xa9 Chart.js "
                                          "Contributors"
                                        : "");
    data(f, rows);
    script(f, file_called("chart.min.js"));
    script(f, file_called("page.js"));
    fputs("</body>\n</html>\n", f);
}

int bench_html(const command *self, const char *path, const json_t *rows) {
    FILE *f = fopen(path, "w");
    int failed = !f;
    if (f) {
        page(f, rows);
        failed = ferror(f) != 0;
        failed |= fclose(f) != 0;
    }
    if (failed) {
        complain(self, "%s: cannot write: %s", path, strerror(errno));
    }
    return !failed;
}
