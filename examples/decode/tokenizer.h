/* SPDX-License-Identifier: MIT
 * tokenizer.h - text to token ids and back, with the vocabulary in a GGUF file. */
#ifndef DECODE_TOKENIZER_H
#define DECODE_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "gguf.h"
#include "reason.h"

typedef struct tokenizer tokenizer;

/* Byte-pair (tokenizer.ggml.model "gpt2") and SentencePiece ("llama") vocabularies.  The file stays
 * open as long as the tokenizer. */
tokenizer *tokenizer_open(const gguf *file, reason *why);
void tokenizer_close(tokenizer *t); /* null is fine */

/* Ids of the text, with the beginning-of-text token where the model wants one.  Control tokens in
 * the text, like <|im_start|>, are read as such.  *ids is the caller's to free. */
int tokenizer_encode(const tokenizer *t, const char *bytes, size_t length, int32_t **ids,
                     int32_t *count, reason *why);

/* Writes at most capacity bytes of the token's text, and returns how many there are.  A token may
 * be part of a UTF-8 character; control tokens have no text. */
size_t tokenizer_piece(const tokenizer *t, int32_t id, char *out, size_t capacity);

/* Whether the token ends a text. */
int tokenizer_is_end(const tokenizer *t, int32_t id);

#endif /* DECODE_TOKENIZER_H */
