/* SPDX-License-Identifier: MIT
 * reason.h - why something was refused, as one line of text. */
#ifndef DECODE_REASON_H
#define DECODE_REASON_H

typedef struct reason {
    char text[512];
} reason;

/* Sets the text; always 0, so that a function can return it. */
__attribute__((format(printf, 2, 3))) int refuse(reason *why, const char *format, ...);

#endif /* DECODE_REASON_H */
