#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a small GGUF with a matrix of every weight format, expert tensors and side data.

The blocks are the golden vectors' (tests/data/vectors), repeated.  Used by the tests of the command:

    gguf_model.py OUT.gguf
"""
import json
import pathlib
import struct
import sys

VECTORS = pathlib.Path(__file__).resolve().parent.parent / "data" / "vectors"
U32, STRING, ARRAY, U8 = 4, 8, 9, 0
EXPERTS = 6


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def key_u32(key, value):
    return text(key) + struct.pack("<II", U32, value)


def key_string(key, value):
    return text(key) + struct.pack("<I", STRING) + text(value)


def key_bytes(key, value):
    return text(key) + struct.pack("<IIQ", ARRAY, U8, len(value)) + value


class Model:
    """Keys and tensors of a file to be."""

    def __init__(self):
        self.keys, self.tensors = [], []

    def add(self, name, ne, type_id, data):
        self.tensors.append((name, ne, type_id, data))

    def bytes(self, alignment=32):
        infos, data = b"", b""
        for name, ne, type_id, blocks in self.tensors:
            infos += text(name) + struct.pack("<I", len(ne)) + struct.pack(f"<{len(ne)}Q", *ne)
            infos += struct.pack("<IQ", type_id, len(data))
            data += blocks + bytes(-len(blocks) % alignment)
        head = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.keys))
        head += b"".join(self.keys) + infos
        return head + bytes(-len(head) % alignment) + data


class Vectors:
    """Encoded blocks of the golden vectors."""

    def __init__(self):
        self.formats = json.loads((VECTORS / "manifest.json").read_text())["formats"]

    def blocks(self, name, expert=None):
        """Blocks of the format; where it has experts, those of one."""
        if name in ("f32", "f16", "bf16"):  # the vectors' floats include the largest there are
            return self.floats(name)
        section = self.formats[name]["sections"]
        section = section.get("quantized") or section["random"]
        raw = self.raw(section["encoded"])
        size = self.formats[name]["bytes"]
        blocks = [raw[i:i + size] for i in range(0, len(raw), size)]
        if expert is None:
            return blocks
        per = section["blocks_per_expert"]
        at = section["expert_index"].index(expert)
        return blocks[at * per:(at + 1) * per]

    def experts(self, name):
        """Those that have blocks, as indices of the format's list."""
        return sorted(set(self.formats[name]["sections"]["quantized"]["expert_index"]))

    def raw(self, record):
        raw = (VECTORS / record["file"]).read_bytes()
        return raw[record["offset"]:record["offset"] + record["bytes"]]

    def floats(self, name):
        raw = self.raw(self.formats["q8_0"]["sections"]["quantized"]["decoded"])
        values = [v for (v,) in struct.iter_unpack("<f", raw) if abs(v) < 1000]
        pack = {"f32": lambda v: struct.pack("<f", v), "f16": lambda v: struct.pack("<e", v),
                "bf16": lambda v: struct.pack("<f", v)[2:]}[name]
        return [pack(v) for v in values]

    def matrix(self, name, n, k, expert=None):
        """n rows of k weights.  Rows start at different blocks."""
        blocks, row = self.blocks(name, expert), k // self.formats[name]["block"]
        return b"".join(blocks[(r * (row + 1) + i) % len(blocks)]
                        for r in range(n) for i in range(row))


def bf16(values):
    return struct.pack(f"<{len(values)}H", *values)


def full_model():
    """A matrix of each format, experts of four, a norm, a scale, side data for what needs it."""
    v, m = Vectors(), Model()
    gqh, dense = [], []
    for name, about in v.formats.items():
        n, k = 64, 512
        tensor = f"{name}.weight".lower()
        first = v.experts(name)[0] if "experts" in about else None
        m.add(tensor, (k, n), about["type_id"], v.matrix(name, n, k, first))
        if "tensors" in about:
            header = about["tensors"][3]
            gqh.append(struct.pack("<I", len(tensor)) + tensor.encode() +
                       struct.pack("<IfB3x", about["type_id"], header["tensor_scale"],
                                   header["grid_code"]))
        if "experts" in about:
            levels = len(about["experts"][first]["codebooks_bf16"]) // 2
            dense.append(struct.pack("<I", len(tensor)) + tensor.encode() +
                         struct.pack("<IIIB3x", about["type_id"], 2, levels,
                                     about["experts"][first]["mode"]) +
                         bf16(about["experts"][first]["codebooks_bf16"]))
    m.add("nvfp4.scale", (1,), 0, struct.pack("<f", 0.75))
    m.add("output_norm.weight", (512,), 0, struct.pack("<512f", *[1.0] * 512))

    for part, name in (("gate", "q4_K"), ("up", "iq4_nl"), ("down", "q8_0")):
        m.add(f"blk.0.ffn_{part}_exps.weight", (256, 40, EXPERTS), v.formats[name]["type_id"],
              v.matrix(name, 40 * EXPERTS, 256))
    mixed = {"up": "rocmfp2_mix", "down": "rocmfp3_mix"}
    entries = {}
    for part, name in mixed.items():
        about = v.formats[name]
        shown = v.experts(name)
        shown = [shown[e % len(shown)] for e in range(EXPERTS)]
        experts = [about["experts"][e] for e in shown]
        data = b"".join(v.matrix(name, 40, 256, e) for e in shown)
        m.add(f"blk.1.ffn_{part}_exps.weight", (256, 40, EXPERTS), about["type_id"], data)
        levels = len(experts[0]["codebooks_bf16"]) // 2
        entries[part] = (struct.pack("<IIIII", EXPERTS, 40, 256, 2, levels) +
                         bytes(e["mode"] for e in experts) +
                         (bytes(EXPERTS) if part == "down" else b"") +
                         b"".join(bf16(e["codebooks_bf16"]) for e in experts))
    m.keys = [key_string("general.architecture", "test"), key_u32("test.expert_count", EXPERTS),
              key_u32("test.expert_used_count", 2),
              key_bytes("geoquant.gqh.headers",
                        b"GQHh1\0\0\0" + struct.pack("<II", len(gqh), 0) + b"".join(gqh)),
              key_bytes("geoquant.dmix2.sidecar",
                        b"DMX2s1\0\0" + struct.pack("<II", len(dense), 0) + b"".join(dense)),
              key_bytes("deepseek4.gumix.sidecar",
                        b"GUMIXs1\0" + struct.pack("<IIII", 1, 0, 1, 1) + entries["up"]),
              key_bytes("deepseek4.p4mix.sidecar",
                        b"P4MIXv1\0" + struct.pack("<III", 1, 0, 1) + entries["down"])]
    return m


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_bytes(full_model().bytes())
