#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes letters.h: the ranges of code points of Unicode's categories L and N, from Python's tables.

    make_letters.py >letters.h
"""
import unicodedata


def ranges(category):
    found, first = [], None
    for code in range(0x110000):
        if unicodedata.category(chr(code)).startswith(category):
            first = code if first is None else first
        elif first is not None:
            found.append((first, code - 1))
            first = None
    return found


def table(name, category):
    cells = [f"{{0x{a:x}, 0x{b:x}}}" for a, b in ranges(category)]
    lines, line = [], "   "
    for cell in cells:
        if len(line) + len(cell) + 2 > 100:
            lines.append(line)
            line = "   "
        line += f" {cell},"
    return f"static const code_range {name}[] = {{\n" + "\n".join([*lines, line]) + "\n};\n"


print("/* SPDX-License-Identifier: MIT\n"
      " * letters.h - Unicode's letters and numbers, made by make_letters.py (Unicode "
      f"{unicodedata.unidata_version}). */\n"
      "#ifndef DECODE_LETTERS_H\n#define DECODE_LETTERS_H\n\n#include <stdint.h>\n\n"
      "typedef struct code_range {\n    uint32_t first, last;\n} code_range;\n")
print(table("letter_ranges", "L"))
print(table("number_ranges", "N"))
print("#endif /* DECODE_LETTERS_H */")
