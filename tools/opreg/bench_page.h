/* SPDX-License-Identifier: MIT
 * bench_page.h - the style and scripts of the page that opreg bench --html writes. */
#ifndef OPREG_TOOLS_BENCH_PAGE_H
#define OPREG_TOOLS_BENCH_PAGE_H

#include <stddef.h>

typedef struct page_file {
    const char *name, *text; /* page.css, page.js, and chart.min.js where the build had it */
} page_file;
extern const page_file page_files[];
extern const size_t page_file_count;

#endif /* OPREG_TOOLS_BENCH_PAGE_H */
