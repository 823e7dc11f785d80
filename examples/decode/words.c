/* SPDX-License-Identifier: MIT
 * words.c - the rules of words.h, written out by hand instead of as regular expressions. */
#include "words.h"

#include <stdint.h>
#include <string.h>

#include "letters.h"

/* Where cutting is: characters from at. */
typedef struct cut {
    const char *text;
    size_t length;
} cut;

#define NOTHING 0xffffffffu /* the code point after the end */

size_t words_character(const char *text, size_t length) {
    unsigned char c = (unsigned char)text[0];
    size_t bytes = c < 0x80 ? 1 : c < 0xc2 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 1;
    if (bytes > length) {
        return 1;
    }
    for (size_t i = 1; i < bytes; i++) {
        if (((unsigned char)text[i] & 0xc0u) != 0x80u) {
            return 1;
        }
    }
    return bytes;
}

/* The code point at a byte offset, NOTHING past the end; *next is the offset behind it. */
static uint32_t code_at(const cut *c, size_t at, size_t *next) {
    static const unsigned char lead[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    size_t bytes;
    uint32_t code;
    *next = at;
    if (at >= c->length) {
        return NOTHING;
    }
    bytes = words_character(c->text + at, c->length - at);
    code = (unsigned char)c->text[at] & lead[bytes];
    if (bytes == 1 && (unsigned char)c->text[at] >= 0x80) {
        code = 0xfffd;
    }
    for (size_t i = 1; i < bytes; i++) {
        code = code << 6 | ((unsigned char)c->text[at + i] & 0x3fu);
    }
    *next = at + bytes;
    return code;
}

static int in_ranges(const code_range *ranges, size_t count, uint32_t code) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (code > ranges[middle].last) {
            low = middle + 1;
        } else if (code < ranges[middle].first) {
            high = middle;
        } else {
            return 1;
        }
    }
    return 0;
}

static int is_letter(uint32_t code) {
    return in_ranges(letter_ranges, sizeof letter_ranges / sizeof letter_ranges[0], code);
}

static int is_number(uint32_t code) {
    return in_ranges(number_ranges, sizeof number_ranges / sizeof number_ranges[0], code);
}

static int is_space(uint32_t code) {
    return (code >= 0x09 && code <= 0x0d) || code == 0x20 || code == 0x85 || code == 0xa0 ||
           code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
           code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

static int is_line_end(uint32_t code) { return code == '\r' || code == '\n'; }

static int is_mark(uint32_t code) {
    return code != NOTHING && !is_space(code) && !is_letter(code) && !is_number(code);
}

/* Offset behind the characters of a kind from at; most 0 is any number of them. */
static size_t run_of(const cut *c, size_t at, int (*kind)(uint32_t), int most) {
    size_t next;
    for (int count = 0; (most == 0 || count < most) && kind(code_at(c, at, &next)); count++) {
        at = next;
    }
    return at;
}

/* 's 't 're 've 'm 'll 'd; 0: none. */
static size_t contraction(const cut *c, int any_case) {
    static const char *const endings[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    for (size_t i = 0; c->text[0] == '\'' && i < sizeof endings / sizeof endings[0]; i++) {
        size_t bytes = strlen(endings[i]), same = 0;
        while (same < bytes && same + 1 < c->length &&
               (c->text[same + 1] == endings[i][same] ||
                (any_case && c->text[same + 1] == endings[i][same] - 'a' + 'A'))) {
            same++;
        }
        if (same == bytes) {
            return bytes + 1;
        }
    }
    return 0;
}

/* Spaces up to the last one before a word, which belongs to the word; a lone one stays. */
static size_t spaces(const cut *c) {
    size_t end = run_of(c, 0, is_space, 0), at = 0, last = 0, next;
    if (end == c->length) {
        return end;
    }
    while (at < end) {
        last = at;
        code_at(c, at, &next);
        at = next;
    }
    return last > 0 ? last : end;
}

static size_t next_gpt2(const cut *c) {
    size_t start, end, second;
    uint32_t first = code_at(c, 0, &second);
    if ((end = contraction(c, 0)) > 0) {
        return end;
    }
    start = first == ' ' ? second : 0;
    if ((end = run_of(c, start, is_letter, 0)) > start ||
        (end = run_of(c, start, is_number, 0)) > start ||
        (end = run_of(c, start, is_mark, 0)) > start) {
        return end;
    }
    return spaces(c);
}

static size_t next_llama3(const cut *c, int digits) {
    size_t start, end, second, at, next;
    uint32_t first = code_at(c, 0, &second);
    if ((end = contraction(c, 1)) > 0) {
        return end;
    }
    start = is_line_end(first) || is_letter(first) || is_number(first) ? 0 : second;
    if ((end = run_of(c, start, is_letter, 0)) > start ||
        (end = run_of(c, 0, is_number, digits)) > 0) {
        return end;
    }
    start = first == ' ' ? second : 0;
    if ((end = run_of(c, start, is_mark, 0)) > start) {
        return run_of(c, end, is_line_end, 0);
    }
    /* spaces up to and with the last line end among them */
    end = 0;
    for (at = 0; is_space(first = code_at(c, at, &next)); at = next) {
        end = is_line_end(first) ? next : end;
    }
    return end > 0 ? end : spaces(c);
}

/* Bytes before the first number, or the number where text starts with one. */
static size_t digit_boundary(const cut *c) {
    size_t at = 0, next;
    uint32_t code = code_at(c, 0, &next);
    if (is_number(code)) {
        return next;
    }
    while (code != NOTHING && !is_number(code)) {
        at = next;
        code = code_at(c, at, &next);
    }
    return at;
}

size_t words_next(words_rule rule, const char *text, size_t length) {
    cut c = {text, length};
    if (rule == WORDS_LLAMA3) {
        return next_llama3(&c, 3);
    }
    if (rule == WORDS_QWEN2) {
        return next_llama3(&c, 1);
    }
    if (rule == WORDS_SMOLLM) {
        c.length = digit_boundary(&c);
    }
    return next_gpt2(&c);
}

words_rule words_rule_named(const char *name, size_t length) {
    static const struct {
        const char *name;
        words_rule rule;
    } rules[] = {{"gpt-2", WORDS_GPT2},        {"smollm", WORDS_SMOLLM},
                 {"starcoder", WORDS_SMOLLM},  {"llama-bpe", WORDS_LLAMA3},
                 {"llama3", WORDS_LLAMA3},     {"llama-v3", WORDS_LLAMA3},
                 {"qwen2", WORDS_QWEN2}};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (length == strlen(rules[i].name) && memcmp(name, rules[i].name, length) == 0) {
            return rules[i].rule;
        }
    }
    return WORDS_UNKNOWN;
}
