#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the seeds of the fuzz targets below tests/fuzz/corpus: well-formed inputs to start from.

Inputs that a fuzzer found and that once crashed are there too, under names that start with found-;
this script leaves them alone.
"""
import pathlib
import random
import struct

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"
U8, U32, STRING, ARRAY = 0, 4, 8, 9


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf(version, tensors, keys):
    body = b"".join(keys) + b"".join(tensors)
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys)) + body
    return head + bytes(-len(head) % 32)


def tensor(name, ne, kind, offset):
    return text(name) + struct.pack(f"<I{len(ne)}QIQ", len(ne), *ne, kind, offset)


def book(levels):
    return b"".join(struct.pack("<f", i - 2.0)[2:] for _ in range(2) for i in range(levels))


def gqh(entries):
    return b"GQHh1\0\0\0" + struct.pack("<II", len(entries), 0) + b"".join(
        struct.pack("<I", len(n)) + n + struct.pack("<IfBxxx", t, s, g) for n, t, s, g in entries)


def dense(entries):
    return b"DMX2s1\0\0" + struct.pack("<II", len(entries), 0) + b"".join(
        struct.pack("<I", len(n)) + n + struct.pack("<IIIBxxx", t, 2, k, 1) + book(k)
        for n, t, k in entries)


def gguf_seeds():
    kv = [text("general.architecture") + struct.pack("<I", STRING) + text("llama"),
          text("general.alignment") + struct.pack("<II", U32, 32),
          text("list") + struct.pack("<IIQ", ARRAY, U32, 3) + struct.pack("<3I", 1, 2, 3),
          text("nested") + struct.pack("<IIQIQ", ARRAY, ARRAY, 1, U8, 2) + b"ab"]
    side = gqh([(b"w", 108, 0.5, 3)])
    key = text("geoquant.gqh.headers") + struct.pack("<IIQ", ARRAY, U8, len(side)) + side
    yield "empty", gguf(3, [], [])
    yield "keys", gguf(3, [], kv)
    yield "tensors", gguf(2, [tensor("a", [32, 2], 8, 0), tensor("b", [4], 0, 96)], kv) + bytes(112)
    yield "side", gguf(3, [tensor("w", [256], 12, 0)], [key]) + bytes(144)


def manifest_seeds():
    good = ("manifest = 1\nname = cuda-sm90\nlibrary = libopreg-cuda-sm90.so\nabi = 1.0\n"
            "device = cuda\narchs = sm_90\n")
    yield "short", (good + "kernels = base\n").encode()
    yield "full", (good + "kernels = a b_c d1\nswitches = jit\nremoved = x:y z\nbuilt_with = cc\n"
                   "# a comment\nlater = key\n").encode()
    yield "slash", good.replace("library = ", "library = ../").encode() + b"kernels = a\n"
    yield "long-word", (good + "kernels = " + "a" * 300 + " b\n").encode()


def flags_seeds():
    yield "good", (b"OPREG_TRACE=run\nOPREG_CPU=fast\nOPREG_CUDA_SM90=exact\n+cuda-sm90\n"
                   b"+cuda-sm90/a\ncuda-sm90 on\ntrace plan\nshadow 1/8\n-cuda-sm90/old:a\n")
    yield "bad", b"OPREG_TRACE=\nOPREG_TRCE=1\nOPREG_PLUGIN_DIR=here\ntrce on\ncpu off\n+cpu\n+c_pu\n"


def problem_seeds():
    texts = {1: "m=2 k=512 q=q8_k x=f16", 2: "m=3 n=64 k=256 b=q4_k glu=silu",
             3: "tokens=5 top_k=2 experts=8", 4: "tokens=4 n=32 k=64 experts=8 top_k=2 b=q8_0",
             5: "tokens=4 n=32 k=64 experts=8 top_k=2 b=q8_0 glu=swiglu_oai alpha=1.702 limit=7",
             6: "tokens=4 n=32 k=64 experts=8 top_k=2 b=mxfp4", 7: "tokens=3 n=64 top_k=2 y=bf16",
             8: "tokens=2 hidden=256 inter=256 experts=4 top_k=2 b=iq2_s down=q6_k glu=gelu_tanh",
             9: "seqs=4 hq=8 hk=2 d=128 len=1000 kv=f8_e4m3 flags=csr+lse window=64 softcap=30"}
    for op, words in texts.items():
        yield f"text-{op}", bytes([op]) + words.encode()
    yield "large", bytes([2]) + b"m=9223372036854775807 n=9223372036854775807 k=256 b=q4_k"
    yield "struct-2", bytes([0x82]) + struct.pack("<6I5q2I2f2I", 88, 1, 38, 0, 1, 0, 1, 4, 256, 256, 4,
                                                  0xffffffff, 0, 0, 0, 0, 0)


def weight_seeds():
    random.seed(7)
    for kind in range(35):
        side = {24 + 5: 17, 24 + 6: 17}.get(kind, 0)
        head = struct.pack("<BBHHHfB", kind, 0, 0, 3, side, 0.0, 0)
        yield f"kind-{kind}", head + random.randbytes(200)
    for kind in (31, 32, 33, 34):
        yield f"gqh-{kind}", (struct.pack("<BBHHHfB", kind, 0, 0, 3, 5, 0.0, 0) +
                              struct.pack("<fB", 0.5, 3) + random.randbytes(200))
    for kind, levels in ((29, 8), (30, 4)):
        yield f"mix-{kind}", (struct.pack("<BBHHHfB", kind, 0, 0, 3, 1 + 4 * levels, 0.0, 0) + b"\1" +
                              book(levels) + random.randbytes(200))


def route_seeds():
    for what in range(8):
        yield f"what-{what}", struct.pack("<BHHH", what, 3, 1, 5) + bytes(range(7)) * 40
    yield "layout", b"\0" + struct.pack("<qii", 1 << 31, 4, 128)


def table_seeds():
    for flags in range(0, 32):
        yield f"flags-{flags}", (struct.pack("<BBHHHHHHB", flags, flags % 12, 3, 3, 2, 1, 1, 5, 0) +
                                 b"".join(struct.pack("<i", i % 4) for i in range(40)) +
                                 bytes(range(40, 70)) * 20)


def sidecar_seeds():
    yield "gqh", b"\0" + gqh([(b"blk.0.a", 108, 0.5, 3), (b"blk.1.a", 111, 2.0, 11)])
    yield "dense", b"\1" + dense([(b"a", 105, 8), (b"b", 106, 4)])
    yield "down", b"\2" + b"P4MIXv1\0" + struct.pack("<8I", 1, 0, 0, 2, 4, 256, 2, 8) + b"\1\1\0\0" + (
        book(8) * 2)
    yield "experts", b"\3" + b"GUMIXs1\0" + struct.pack("<9I", 1, 0, 0, 1, 2, 4, 256, 2, 4) + (
        b"\1\1" + book(4) * 2)
    yield "attention", b"\4" + b"DMIXs1\0\0" + struct.pack("<8I", 1, 0, 0, 2, 105, 1, 2, 8) + (
        b"\1\0\0\0" + book(8))


def replay_seeds():
    def call(op, problem, kernel, inputs):
        lines = ["opreg-replay 1", f"op {op}", f"problem {problem}", f"kernel cpu/{kernel}",
                 f"reference cpu/reference_{kernel.rsplit('_', 1)[1]}", "device cpu:0", "difference none"]
        lines += [line for line, _ in inputs] + ["end\n"]
        return "\n".join(lines).encode() + b"".join(data for _, data in inputs)

    x = struct.pack("<64f", *(i / 16 - 2 for i in range(64)))
    blocks = b"".join(struct.pack("<e", 0.25) + bytes(range(i, i + 32)) for i in range(4))
    for kernel in ("reference_matmul", "rows16_avx2_matmul"):
        yield kernel, call("matmul_bt_quant", "m=1 n=2 k=64 b=q8_0 x=f32 y=f32", kernel,
                           [("buffer 1 256", x), ("weight 0 136 32 0 1 2 64 0 0x0p+0", blocks)])
    yield "route", call("moe_route", "tokens=2 top_k=2 experts=4", "reference_route",
                        [("buffer 1 16", struct.pack("<4i", 0, 3, -1, 2)),
                                   ("buffer 2 16", struct.pack("<4f", 0.5, 0.25, 1, 2))])
    yield "short", call("quantize_act", "m=1 k=64 q=q8_0 x=f32", "reference_quantize",
                        [("buffer 1 256", x[:100])])


def model(family, experts):
    """A model of one layer, 32 wide, in q8_0."""
    key = lambda name, value: text(f"{family}.{name}") + struct.pack("<II", U32, value)
    array = lambda name, kind, rows: text(name) + struct.pack("<IIQ", ARRAY, kind, len(rows)) + b"".join(rows)
    words = ["<unk>", "<s>", "</s>", "\u2581", "a", "b", "c", "d"]
    keys = [text("general.architecture") + struct.pack("<I", STRING) + text(family),
            key("block_count", 1), key("embedding_length", 32), key("attention.head_count", 2),
            key("attention.head_count_kv", 1), key("attention.key_length", 64),
            key("attention.value_length", 64), key("feed_forward_length", 32),
            key("expert_feed_forward_length", 32), key("context_length", 64),
            key("expert_count", experts), key("expert_used_count", min(experts, 2)),
            text("tokenizer.ggml.model") + struct.pack("<I", STRING) + text("llama" if experts else "gpt2"),
            text("tokenizer.ggml.pre") + struct.pack("<I", STRING) + text("smollm"),
            array("tokenizer.ggml.tokens", STRING, [text(word) for word in words]),
            array("tokenizer.ggml.scores", 6, [struct.pack("<f", -i) for i in range(8)]),
            array("tokenizer.ggml.token_type", 5, [struct.pack("<i", 1 if i > 2 else 3) for i in range(8)]),
            array("tokenizer.ggml.merges", STRING, [text("a b"), text("c d")])]
    rows = [("token_embd.weight", (32, 8)), ("output_norm.weight", (32,)), ("blk.0.attn_norm.weight", (32,)),
            ("blk.0.ffn_norm.weight", (32,)), ("blk.0.attn_q.weight", (32, 128)),
            ("blk.0.attn_k.weight", (32, 64)), ("blk.0.attn_v.weight", (32, 64)),
            ("blk.0.attn_output.weight", (128, 32))]
    if experts:
        rows += [("blk.0.ffn_gate_inp.weight", (32, experts))]
    rows += [(f"blk.0.ffn_{part}{'_exps' if experts else ''}.weight", (32, 32, experts)[:3 if experts else 2])
             for part in ("gate", "up", "down")]
    infos, data = [], b""
    for name, ne in rows:
        count = 1
        for size in ne:
            count *= size
        infos.append(tensor(name, ne, 0 if len(ne) == 1 else 8, len(data)))
        data += (struct.pack("<f", 1.0) * count if len(ne) == 1 else
                 b"".join(struct.pack("<e", 0.01) + random.randbytes(32) for _ in range(count // 32)))
        data += bytes(-len(data) % 32)
    return gguf(3, infos, keys) + data


def model_seeds():
    random.seed(11)
    for family, experts in (("llama", 0), ("llama", 3), ("qwen3", 0), ("qwen3moe", 2)):
        yield f"{family}-{experts}", model(family, experts)


for target, seeds in (("gguf", gguf_seeds), ("manifest", manifest_seeds), ("flags", flags_seeds),
                      ("problem", problem_seeds), ("weight", weight_seeds), ("route", route_seeds),
                      ("table", table_seeds), ("sidecar", sidecar_seeds),
                      ("replay", replay_seeds), ("model", model_seeds)):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in seeds():
        (folder / name).write_bytes(data)
