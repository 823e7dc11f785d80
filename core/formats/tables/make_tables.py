#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the table headers from the csv files beside this script.

usage: make_tables.py           writes every NAME.h
       make_tables.py --check   writes nothing; exit status 1 when a header differs"""
import csv
import os
import struct
import sys
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))


def integer(row):
    return str(row[0])


def float_bits(row):
    """An exact literal; NaN has none, so it stays a pattern the reader must refuse: 480 * sign."""
    value = struct.unpack("<f", struct.pack("<I", row[0]))[0]
    if value != value:
        value = -480.0 if row[0] >> 31 else 480.0
    return literal(value)


def literal(value):
    text = value.hex()
    mantissa, exponent = text.split("p")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    if value == 0.0:
        mantissa, exponent = ("-0x0" if text[0] == "-" else "0x0"), "+0"
    return f"{mantissa}p{int(exponent)}f"


def float_row(row):
    numbers = "{" + ", ".join(float_bits([bits]) for bits in row) + "}"
    return ("\n" + " " * 5).join(textwrap.wrap(numbers, 94))


def bytes_low_first(row):
    value = sum((byte & 255) << 8 * j for j, byte in enumerate(row))
    return f"0x{value:0{2 * len(row)}x}u" + ("ll" if len(row) == 8 else "")


def nibbles_plus_one(row):
    assert len(row) == 8 and all(-1 <= level <= 1 for level in row)
    value = sum((row[j] + 1 | row[j + 4] + 1 << 4) << 8 * j for j in range(4))
    return f"0x{value:08x}u"


# name: element type, columns of a row in C (0: one element a row), rows, how a row is written
TABLES = {
    "kvalues_iq4nl": ("int8_t", 0, 16, integer),
    "kvalues_fp4": ("int8_t", 0, 16, integer),
    "rocmfp4_codebook": ("int8_t", 0, 16, integer),
    "rocmfp3_levels": ("int8_t", 0, 8, integer),
    "rocmfp2_levels": ("int8_t", 0, 4, integer),
    "rocmfp6_levels": ("int8_t", 0, 64, integer),
    "ksigns_iq2xs": ("uint8_t", 0, 128, integer),
    "gqh2c_signs": ("uint8_t", 0, 128, integer),
    "ue4m3_half_scale": ("float", 0, 127, float_bits),
    "e8m0_half_scale": ("float", 0, 255, float_bits),
    "gqh_e4m3_lut": ("float", 0, 256, float_bits),
    "gqh_ratio": ("float", 0, 16, float_bits),
    "gqh2h_grid": ("float", 4, 12, float_row),
    "gqh3_grid": ("float", 8, 12, float_row),
    "gqh4_grid": ("float", 16, 12, float_row),
    "iq1s_grid": ("uint32_t", 0, 2048, nibbles_plus_one),
    "iq2xxs_grid": ("uint64_t", 0, 256, bytes_low_first),
    "iq2xs_grid": ("uint64_t", 0, 512, bytes_low_first),
    "iq2s_grid": ("uint64_t", 0, 1024, bytes_low_first),
    "iq3xxs_grid": ("uint32_t", 0, 256, bytes_low_first),
    "iq3s_grid": ("uint32_t", 0, 512, bytes_low_first),
    "gqh2c_codebook": ("uint64_t", 0, 256, bytes_low_first),
}


def rows_of(name):
    with open(os.path.join(HERE, name + ".csv"), newline="") as source:
        if not source.readline().startswith("#"):
            sys.exit(f"{name}.csv: the first line is not a comment")
        rows = list(csv.reader(source))
    for index, row in enumerate(rows):
        if int(row[0], 0) != index:
            sys.exit(f"{name}.csv: row {index} has index {row[0]}")
    # a third column of a float table is the value as text, for people
    one_number = TABLES[name][3] in (integer, float_bits)
    return [[int(field, 0) for field in (row[1:2] if one_number else row[1:])] for row in rows]


def header(name):
    element, columns, count, write = TABLES[name]
    rows = rows_of(name)
    if len(rows) != count:
        sys.exit(f"{name}.csv: {len(rows)} rows, not {count}")
    guard = "OPREG_TABLE_" + name.upper()
    lines = [
        "/* SPDX-License-Identifier: MIT",
        f" * {name}.h - written by make_tables.py from {name}.csv; sources there. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        '#include "formats/format.h"',
        "",
    ]
    if name == "gqh_e4m3_lut":
        lines.append("/* 0x7F and 0xFF are NaN in the csv, 480 and -480 here: a reader refuses them. */")
    size = f"[{count}]" + (f"[{columns}]" if columns else "")
    lines.append(f"OPREG_TABLE {element} {name}{size} = {{")
    line = "   "
    for text in map(write, rows):
        if line.strip() and (columns or len(line) + len(text) + 2 > 100):
            lines.append(line)
            line = "   "
        line += f" {text},"
    lines += [line, "};", "", f"#endif /* {guard} */", ""]
    return "\n".join(lines)


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    stale = []
    for name in TABLES:
        path, text = os.path.join(HERE, name + ".h"), header(name)
        if sys.argv[1:]:
            with open(path) as current:
                if current.read() != text:
                    stale.append(name + ".h")
        else:
            with open(path, "w") as target:
                target.write(text)
    if stale:
        sys.exit("differ from their csv: " + " ".join(stale))


if __name__ == "__main__":
    main()
