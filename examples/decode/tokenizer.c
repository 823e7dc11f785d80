/* SPDX-License-Identifier: MIT
 * tokenizer.c - reads a vocabulary; cuts text, gives ids; gives the text of an id. */
#include "tokenizer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "vocabulary.h"

#define SPACE_MARK "\xe2\x96\x81" /* U+2581, how pieces write a space */

/* ---- opening -------------------------------------------------------------------------------- */

static int32_t read_id(const gguf *file, const char *key) {
    uint64_t value;
    return gguf_integer(file, key, &value) && value <= INT32_MAX ? (int32_t)value : -1;
}

static int read_texts(const gguf *file, const char *key, text **out, size_t *count, reason *why) {
    const uint8_t *at;
    uint64_t n;
    if (!gguf_array(file, key, GGUF_STRING, &at, &n) || n == 0 || n > INT32_MAX) {
        return refuse(why, "the file has no strings '%s'", key);
    }
    *out = calloc((size_t)n, sizeof **out);
    if (!*out) {
        return refuse(why, "no memory for %" PRIu64 " strings", n);
    }
    for (uint64_t i = 0; i < n; i++) {
        uint64_t length;
        (*out)[i].bytes = gguf_string_next(&at, &length);
        (*out)[i].length = (size_t)length;
    }
    *count = (size_t)n;
    return 1;
}

/* 32-bit values, one a token; null stays where the file has none. */
static int read_values(const tokenizer *t, const gguf *file, const char *key, gguf_element type,
                       void **out, reason *why) {
    const uint8_t *at;
    uint64_t n;
    if (!gguf_array(file, key, type, &at, &n)) {
        return 1;
    }
    if (n != t->count) {
        return refuse(why, "'%s' has %" PRIu64 " values for %zu tokens", key, n, t->count);
    }
    *out = malloc((size_t)n * 4);
    if (!*out) {
        return refuse(why, "no memory for '%s'", key);
    }
    memcpy(*out, at, (size_t)n * 4); /* little-endian, as the machines that this runs on */
    return 1;
}

static int type_of(const tokenizer *t, int32_t id) {
    return t->types ? t->types[id] : TOKEN_NORMAL;
}

/* Longest first, of equal length the lower id. */
static int open_special(tokenizer *t, reason *why) {
    t->special = malloc((t->count + 1) * sizeof *t->special);
    if (!t->special) {
        return refuse(why, "no memory for %zu tokens", t->count);
    }
    for (size_t i = 0; i < t->count; i++) {
        int type = type_of(t, (int32_t)i);
        if (t->tokens[i].length > 0 && (type == TOKEN_UNKNOWN || type == TOKEN_CONTROL ||
                                        type == TOKEN_USER_DEFINED)) {
            t->special[t->num_special++] = (int32_t)i;
        }
    }
    /* shell sort of few: they are sorted already but for a handful in most files */
    for (size_t gap = t->num_special / 2; gap > 0; gap /= 2) {
        for (size_t i = gap; i < t->num_special; i++) {
            int32_t id = t->special[i];
            size_t length = t->tokens[id].length, j = i;
            for (; j >= gap; j -= gap) {
                int32_t other = t->special[j - gap];
                size_t there = t->tokens[other].length;
                if (there > length || (there == length && other < id)) {
                    break;
                }
                t->special[j] = other;
            }
            t->special[j] = id;
        }
    }
    return 1;
}

static int open_pieces(tokenizer *t, const gguf *file, reason *why) {
    t->pieces = 1;
    t->space_prefix = 1;
    t->add_bos = 1;
    if (!read_values(t, file, "tokenizer.ggml.scores", GGUF_F32, (void **)&t->scores, why)) {
        return 0;
    }
    return t->scores ? 1 : refuse(why, "the file has no 'tokenizer.ggml.scores'");
}

static int open_byte_pairs(tokenizer *t, const gguf *file, reason *why) {
    const char *name = "";
    uint64_t length = 0;
    size_t merges;
    gguf_string(file, "tokenizer.ggml.pre", &name, &length);
    t->rule = words_rule_named(name, (size_t)length);
    if (t->rule == WORDS_UNKNOWN) {
        return refuse(why, "text rule '%.*s' is not one of gpt-2 smollm llama-bpe qwen2",
                      (int)(length < 32 ? length : 32), name);
    }
    t->whole_words = t->add_bos = t->rule == WORDS_LLAMA3;
    if (!read_texts(file, "tokenizer.ggml.merges", &t->merges, &merges, why)) {
        return 0;
    }
    return texts_open(&t->by_merge, t->merges, merges, 0) ? 1 : refuse(why, "no memory");
}

static int open_all(tokenizer *t, const gguf *file, reason *why) {
    const char *kind = "";
    uint64_t length = 0;
    int pieces;
    gguf_string(file, "tokenizer.ggml.model", &kind, &length);
    pieces = length == 5 && memcmp(kind, "llama", 5) == 0;
    if (!pieces && !(length == 4 && memcmp(kind, "gpt2", 4) == 0)) {
        return refuse(why, "tokenizer '%.*s' is neither gpt2 nor llama",
                      (int)(length < 32 ? length : 32), kind);
    }
    if (!read_texts(file, "tokenizer.ggml.tokens", &t->tokens, &t->count, why) ||
        !read_values(t, file, "tokenizer.ggml.token_type", GGUF_I32, (void **)&t->types, why) ||
        !(pieces ? open_pieces(t, file, why) : open_byte_pairs(t, file, why))) {
        return 0;
    }
    if (!texts_open(&t->by_text, t->tokens, t->count, 1)) {
        return refuse(why, "no memory for %zu tokens", t->count);
    }
    gguf_bool(file, "tokenizer.ggml.add_space_prefix", &t->space_prefix);
    gguf_bool(file, "tokenizer.ggml.add_bos_token", &t->add_bos);
    t->bos = read_id(file, "tokenizer.ggml.bos_token_id");
    t->eos = read_id(file, "tokenizer.ggml.eos_token_id");
    t->eot = read_id(file, "tokenizer.ggml.eot_token_id");
    if (t->eot < 0) {
        t->eot = texts_find(&t->by_text, "<end_of_turn>", 13);
    }
    return open_special(t, why);
}

tokenizer *tokenizer_open(const gguf *file, reason *why) {
    tokenizer *t = calloc(1, sizeof *t);
    if (!t) {
        refuse(why, "no memory");
        return NULL;
    }
    if (!open_all(t, file, why)) {
        tokenizer_close(t);
        return NULL;
    }
    return t;
}

void tokenizer_close(tokenizer *t) {
    if (!t) {
        return;
    }
    texts_close(&t->by_text);
    texts_close(&t->by_merge);
    free(t->tokens);
    free(t->types);
    free(t->scores);
    free(t->merges);
    free(t->special);
    free(t);
}

/* ---- text to ids ------------------------------------------------------------------------------ */

/* GPT-2 writes each byte as a printable character: what prints stands for itself, the rest are
 * U+0100 and up in order. */
static unsigned character_of_byte(unsigned byte) {
    if ((byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae) {
        return byte;
    }
    return byte < 0x21 ? 0x100 + byte : byte < 0xa1 ? 0x121 + byte - 0x7f : 0x143;
}

static int byte_of_character(unsigned code) {
    if (code < 0x100) {
        return character_of_byte(code) == code ? (int)code : -1;
    }
    return code < 0x121   ? (int)(code - 0x100)
           : code < 0x143 ? (int)(code - 0x121 + 0x7f)
           : code == 0x143 ? 0xad
                           : -1;
}

static size_t put_character(unsigned code, char *out) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    out[0] = (char)(0xc0u | code >> 6);
    out[1] = (char)(0x80u | (code & 0x3fu));
    return 2;
}

static int add_words(const tokenizer *t, const char *bytes, size_t length, id_list *out,
                     reason *why) {
    char *word = malloc(2 * length + 1);
    int done = word != NULL;
    for (size_t at = 0, step; done && at < length; at += step) {
        size_t size = 0;
        int32_t id;
        step = words_next(t->rule, bytes + at, length - at);
        for (size_t i = 0; i < step; i++) {
            size += put_character(character_of_byte((unsigned char)bytes[at + i]), word + size);
        }
        id = t->whole_words ? texts_find(&t->by_text, word, size) : -1;
        done = id >= 0 ? id_list_add(out, id) : merge_symbols(t, word, size, out, why);
    }
    free(word);
    return done;
}

static int add_pieces(const tokenizer *t, const char *bytes, size_t length, int prefix,
                      id_list *out, reason *why) {
    char *marked = malloc(3 * (length + 1));
    size_t size = 0;
    int done;
    if (!marked) {
        return 0;
    }
    for (size_t i = 0; i < length + (prefix ? 1 : 0); i++) {
        char c = prefix ? (i == 0 ? ' ' : bytes[i - 1]) : bytes[i];
        size_t step = c == ' ' ? 3 : 1;
        memcpy(marked + size, c == ' ' ? SPACE_MARK : &c, step);
        size += step;
    }
    done = merge_symbols(t, marked, size, out, why);
    free(marked);
    return done;
}

/* Cuts the special tokens from index on out of the text; what is left between them is plain. */
static int add_text(const tokenizer *t, size_t index, const char *bytes, size_t length,
                    id_list *out, reason *why) {
    for (; length > 0 && index < t->num_special; index++) {
        const text *token = &t->tokens[t->special[index]];
        size_t at = 0;
        while (at + token->length <= length &&
               memcmp(bytes + at, token->bytes, token->length) != 0) {
            at++;
        }
        if (at + token->length > length) {
            continue;
        }
        if (!add_text(t, index + 1, bytes, at, out, why) ||
            !id_list_add(out, t->special[index])) {
            return 0;
        }
        bytes += at + token->length;
        length -= at + token->length;
        index--; /* the rest may have the same token again */
    }
    if (length == 0) {
        return 1;
    }
    if (t->pieces) {
        int first = out->count == 0 || type_of(t, out->ids[out->count - 1]) != TOKEN_NORMAL;
        return add_pieces(t, bytes, length, t->space_prefix && first, out, why);
    }
    return add_words(t, bytes, length, out, why);
}

int tokenizer_encode(const tokenizer *t, const char *bytes, size_t length, int32_t **ids,
                     int32_t *count, reason *why) {
    id_list list = {0};
    refuse(why, "no memory for the tokens of %zu bytes", length);
    if ((t->add_bos && t->bos >= 0 && !id_list_add(&list, t->bos)) ||
        !add_text(t, 0, bytes, length, &list, why)) {
        free(list.ids);
        return 0;
    }
    *ids = list.ids;
    *count = list.count;
    return 1;
}

/* ---- ids to text ------------------------------------------------------------------------------ */

/* What is written so far, and how much there would be. */
typedef struct writing {
    char *out;
    size_t capacity, length;
} writing;

static void put(writing *w, char c) {
    if (w->length < w->capacity) {
        w->out[w->length] = c;
    }
    w->length++;
}

static void put_piece(writing *w, const text *token) {
    for (size_t i = 0; i < token->length; i++) {
        if (i + 3 <= token->length && memcmp(token->bytes + i, SPACE_MARK, 3) == 0) {
            put(w, ' ');
            i += 2;
        } else {
            put(w, token->bytes[i]);
        }
    }
}

static void put_byte_pairs(writing *w, const text *token) {
    for (size_t i = 0, step; i < token->length; i += step) {
        const unsigned char *at = (const unsigned char *)token->bytes + i;
        int byte;
        step = words_character(token->bytes + i, token->length - i);
        byte = step == 1   ? byte_of_character(at[0])
               : step == 2 ? byte_of_character((at[0] & 0x1fu) << 6 | (at[1] & 0x3fu))
                           : -1;
        for (size_t j = 0; byte < 0 && j < step; j++) {
            put(w, (char)at[j]);
        }
        if (byte >= 0) {
            put(w, (char)byte);
        }
    }
}

size_t tokenizer_piece(const tokenizer *t, int32_t id, char *out, size_t capacity) {
    writing w = {out, capacity, 0};
    const text *token;
    if (id < 0 || (size_t)id >= t->count) {
        return 0;
    }
    token = &t->tokens[id];
    switch (type_of(t, id)) {
    case TOKEN_CONTROL:
    case TOKEN_UNKNOWN:
        break;
    case TOKEN_BYTE: { /* <0xAB> */
        char digits[3] = {0};
        if (token->length == 6) {
            memcpy(digits, token->bytes + 3, 2);
            put(&w, (char)strtoul(digits, NULL, 16));
        }
        break;
    }
    case TOKEN_USER_DEFINED:
        if (!t->pieces) { /* written as it is */
            for (size_t i = 0; i < token->length; i++) {
                put(&w, token->bytes[i]);
            }
            break;
        }
        put_piece(&w, token);
        break;
    default:
        (t->pieces ? put_piece : put_byte_pairs)(&w, token);
    }
    return w.length;
}

int tokenizer_is_end(const tokenizer *t, int32_t id) {
    return id >= 0 && (id == t->eos || id == t->eot);
}
