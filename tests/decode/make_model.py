#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a small model of a family with seeded weights, the same bytes everywhere.

    make_model.py FAMILY OUT.gguf           FAMILY: llama-moe qwen2 qwen3 qwen3moe gemma3
    make_model.py FAMILY --check IDS.json   are they the bytes that llama.cpp decoded?

Two layers, 256 wide, four heads over two.  Matrices are Q8_0, norms and routers F32.  The tokens are
the bytes, some merges, and words that never occur; the text means nothing.  The logits have a
deviation of about 1: rounding moves them by under 0.05 then, a wrong engine by several.
"""
import hashlib
import json
import struct
import sys

U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5
HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD, INTER, EXPERTS, USED, VOCAB = 256, 2, 4, 2, 64, 256, 8, 2, 512


class Random:
    """A 64-bit linear congruential generator; its upper bits."""

    def __init__(self, seed):
        self.state = seed * 2862933555777941757 + 3037000493 & (1 << 64) - 1

    def code(self):
        """An integer from -127 to 127, near a normal one of deviation 37."""
        self.state = self.state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        bits = self.state >> 16
        return sum(bits >> 8 * i & 127 for i in range(4)) // 2 - 127

    def scale(self):
        """Of a block: 3/4 to 5/4, in 64ths."""
        self.state = self.state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        return 48 + (self.state >> 58) % 33


def q8_0(random, rows, length, size):
    """Blocks of 32 whose values have about the deviation size."""
    out = bytearray()
    for _ in range(rows * length // 32):
        out += struct.pack("<e", size / 37 * random.scale() / 64)
        out += struct.pack("<32b", *[random.code() for _ in range(32)])
    return bytes(out)


def floats(random, count, middle, size):
    return struct.pack(f"<{count}f", *[middle + size * random.code() / 128 for _ in range(count)])


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def vocabulary():
    """GPT-2's 256 characters, then merges of two, three, ... of them."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in printable]
    character = {byte: chr(byte) for byte in printable}
    character.update({byte: chr(256 + i) for i, byte in enumerate(rest)})
    tokens, merges = [character[byte] for byte in range(256)], []
    space = character[32]
    for pair in ["t h", "th e", "i n", "e r", "a n", f"{space} the", f"{space} a", "o n", "r e",
                 "1 2", "an d", f"{space} and", "in g", "l l", "s t"]:
        merges.append(pair)
        tokens.append(pair.replace(" ", ""))
    while len(tokens) < VOCAB - 1:
        tokens.append(f"~{len(tokens)}~")
    return [*tokens, "<|end|>"], merges


def keys(family):
    """(key, type, value bytes) of the file."""
    arch = "llama" if family == "llama-moe" else family
    moe = family.endswith("moe")
    tokens, merges = vocabulary()
    string = lambda value: (STRING, text(value))
    u32 = lambda value: (U32, struct.pack("<I", value))
    f32 = lambda value: (F32, struct.pack("<f", value))
    strings = lambda all_: (ARRAY, struct.pack("<IQ", STRING, len(all_)) + b"".join(map(text, all_)))
    types = [1] * (VOCAB - 1) + [3]
    found = {"general.architecture": string(arch), f"{arch}.block_count": u32(LAYERS),
             f"{arch}.context_length": u32(512), f"{arch}.embedding_length": u32(HIDDEN),
             f"{arch}.feed_forward_length": u32(INTER), f"{arch}.attention.head_count": u32(HEADS),
             f"{arch}.attention.head_count_kv": u32(KV_HEADS),
             f"{arch}.attention.key_length": u32(HEAD),
             f"{arch}.attention.value_length": u32(HEAD),
             f"{arch}.rope.dimension_count": u32(HEAD), f"{arch}.rope.freq_base": f32(10000.0),
             f"{arch}.attention.layer_norm_rms_epsilon": f32(1e-6)}
    if moe:
        found[f"{arch}.expert_count"] = u32(EXPERTS)
        found[f"{arch}.expert_used_count"] = u32(USED)
    if family == "qwen3moe":
        found["qwen3moe.expert_feed_forward_length"] = u32(INTER)
    if family == "gemma3":
        found["gemma3.attention.sliding_window"] = u32(16)
    found.update({"tokenizer.ggml.model": string("gpt2"),
                  "tokenizer.ggml.pre": string("llama-bpe" if arch == "llama" else "qwen2"),
                  "tokenizer.ggml.tokens": strings(tokens),
                  "tokenizer.ggml.token_type":
                      (ARRAY, struct.pack(f"<IQ{VOCAB}i", I32, VOCAB, *types)),
                  "tokenizer.ggml.merges": strings(merges),
                  "tokenizer.ggml.add_bos_token": (BOOL, b"\0"),
                  "tokenizer.ggml.bos_token_id": u32(VOCAB - 1),
                  "tokenizer.ggml.eos_token_id": u32(VOCAB - 1)})
    return found


def tensors(family):
    """(name, dims, type, bytes) in order."""
    random = Random(7)
    wide = HIDDEN ** -0.5
    matrix = lambda name, k, n, size: (name, (k, n), 8, q8_0(random, n, k, size))
    vector = lambda name, n, middle=1.0, size=0.25: (name, (n,), 0, floats(random, n, middle, size))
    tied = family == "gemma3"  # the embeddings, 16 times as large there, are also the output
    yield matrix("token_embd.weight", HIDDEN, VOCAB, 1 / 64 if tied else 1.0)
    yield vector("output_norm.weight", HIDDEN, 4.0 if tied else 1.0)
    if not tied:
        yield matrix("output.weight", HIDDEN, VOCAB, 1.0 * wide)
    for i in range(LAYERS):
        b = f"blk.{i}."
        yield vector(b + "attn_norm.weight", HIDDEN)
        for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            yield matrix(b + f"attn_{name}.weight", HIDDEN, heads * HEAD, 1.5 * wide)
            if family == "qwen2":
                yield vector(b + f"attn_{name}.bias", heads * HEAD, 0.0)
        yield matrix(b + "attn_output.weight", HEADS * HEAD, HIDDEN, 1.5 * wide)
        if family in ("qwen3", "qwen3moe", "gemma3"):
            yield vector(b + "attn_q_norm.weight", HEAD)
            yield vector(b + "attn_k_norm.weight", HEAD)
        if family == "gemma3":
            yield vector(b + "post_attention_norm.weight", HIDDEN)
            yield vector(b + "post_ffw_norm.weight", HIDDEN)
        yield vector(b + "ffn_norm.weight", HIDDEN)
        if not family.endswith("moe"):
            yield matrix(b + "ffn_gate.weight", HIDDEN, INTER, 1.5 * wide)
            yield matrix(b + "ffn_up.weight", HIDDEN, INTER, 1.5 * wide)
            yield matrix(b + "ffn_down.weight", INTER, HIDDEN, 1.5 * wide)
            continue
        yield (b + "ffn_gate_inp.weight", (HIDDEN, EXPERTS), 0,
               floats(random, HIDDEN * EXPERTS, 0.0, 8 * wide))
        for name, k, n in (("gate", HIDDEN, INTER), ("up", HIDDEN, INTER), ("down", INTER, HIDDEN)):
            yield (b + f"ffn_{name}_exps.weight", (k, n, EXPERTS), 8,
                   q8_0(random, n * EXPERTS, k, 1.5 * wide))


def model(family):
    found, rows = keys(family), list(tensors(family))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(rows), len(found))
    for key, (kind, value) in found.items():
        head += text(key) + struct.pack("<I", kind) + value
    data = bytearray()
    for name, dims, kind, raw in rows:
        head += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(data))
        data += raw + bytes(-len(raw) % 32)
    return head + bytes(-len(head) % 32) + bytes(data)


def main():
    made = model(sys.argv[1])
    if sys.argv[2] == "--check":
        with open(sys.argv[3]) as ids:
            expected = json.load(ids)["sha256"]
        sys.exit(hashlib.sha256(made).hexdigest() != expected)
    with open(sys.argv[2], "wb") as out:
        out.write(made)


if __name__ == "__main__":
    main()
