# SPDX-License-Identifier: MIT
"""Counts the instructions of each staged kernel's inner loop, which multiplies 32 weights.

    count_sass.py NVDISASM CUBIN [TABLE]     prints a row a kernel; with TABLE, 1 where a count of
                                             instructions on the integer pipe exceeds its row
    count_sass.py NVDISASM CUBIN --blocks K  prints kernel K's basic blocks, to add up a path by hand

NVDISASM is of CUDA 12 (Triton 3.0's wheel on PyPI has one; 13's does not know sm_60).  The inner loop
is the shortest around 32 products.  Columns, per 32 weights: integer,
products (XMAD on halves, VMAD or FFMA), float (FFMA among them), shared (loads and stores), slots
(issue slots of the arithmetic pipes: 1 a full-rate instruction, 2 a half-rate, 4 a quarter-rate one).
"""
import re
import subprocess
import sys

HALF = {"SHL", "SHR", "SHF", "BFE", "BFI", "PRMT", "VMAD", "SEL", "ISETP", "ISET", "IMNMX", "FMNMX"}
QUARTER = {"I2F", "F2I", "F2F", "POPC", "I2I"}
INTEGER = HALF | {"XMAD", "IADD", "IADD3", "IADD32I", "LOP", "LOP3", "LOP32I", "ISCADD", "LEA",
                  "ISETP", "MOV", "MOV32I", "IMNMX", "POPC", "I2I"}
FLOAT = {"FFMA", "FMUL", "FADD", "HADD2", "HMUL2", "HFMA2", "I2F", "F2I", "F2F"}
SHARED = {"LDS", "STS"}
COLUMNS = ["kernel", "integer", "products", "float", "shared", "slots"]


def functions(text):
    """{kernel: [(label or None, opcode, operands)]} of a disassembly."""
    kernels, rows = {}, None
    for line in text.splitlines():
        found = re.match(r"\.text\.(\w+):", line)
        if found:
            rows = kernels.setdefault(found.group(1), [])
            continue
        found = re.match(r"(\.L\w+):", line)
        if found and rows is not None:
            rows.append((found.group(1), None, ""))
        found = re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+\{?\s*(@!?P\d\s+)?([A-Z0-9]+)([.\w]*)(.*)", line)
        if found and rows is not None:
            rows.append((None, found.group(2), found.group(3) + found.group(4)))
    return kernels


def is_product(opcode, rest):
    return opcode == "FFMA" or opcode == "VMAD" or (opcode == "XMAD" and rest.startswith(".S16.S16"))


def inner_loop(rows):
    labels = {row[0]: i for i, row in enumerate(rows) if row[0]}
    best = []
    for end, (_, opcode, rest) in enumerate(rows):
        target = re.search(r"`\((\.L\w+)\)", rest) if opcode == "BRA" else None
        start = labels.get(target.group(1), end) if target else end
        body = [row for row in rows[start:end + 1] if row[1]]
        enough = sum(is_product(o, r) for _, o, r in body) >= 32
        if enough and (not best or len(body) < len(best)):
            best = body
    return best


def count(body):
    row = dict(integer=0, products=0, float=0, shared=0, slots=0)
    for _, opcode, rest in body:
        row["integer"] += opcode in INTEGER
        row["products"] += is_product(opcode, rest)
        row["float"] += opcode in FLOAT
        row["shared"] += opcode in SHARED
        if opcode in INTEGER or opcode in FLOAT:
            row["slots"] += 2 if opcode in HALF else 4 if opcode in QUARTER else 1
    return row


def print_blocks(rows):
    """One line a basic block: first row, label, slots, shared, how it ends."""
    start, name = 0, "-"
    for at, (label, opcode, rest) in enumerate(rows + [(".end", None, "")]):
        ends = opcode in {"BRA", "EXIT", "SYNC", "BRK", "BAR"}
        if label or ends:
            body = [row for row in rows[start:at + ends] if row[1]]
            if body:
                target = re.search(r"`\((\.L\w+)\)", rest)
                row = count(body)
                print(f"{start}\t{name}\t{row['slots']}\t{row['shared']}\t{opcode if ends else ''} "
                      f"{target.group(1) if target and ends else ''}")
            start, name = at + 1, label or "-"


def main(arguments):
    nvdisasm, cubin = arguments[0], arguments[1]
    text = subprocess.run([nvdisasm, "-c", cubin], check=True, capture_output=True, text=True).stdout
    if arguments[2:3] == ["--blocks"]:
        print_blocks(functions(text)[arguments[3]])
        return 0
    table, failed = {}, False
    if len(arguments) > 2:
        with open(arguments[2]) as file:
            for line in file:
                fields = line.split()
                if fields and not line.startswith("#") and fields[0] != COLUMNS[0]:
                    table[fields[0]] = int(fields[1])
    print("\t".join(COLUMNS))
    for kernel, rows in sorted(functions(text).items()):
        row = count(inner_loop(rows))
        print("\t".join([kernel] + [str(row[c]) for c in COLUMNS[1:]]))
        if table and row["integer"] > table.get(kernel, -1):
            print(f"{kernel}: {row['integer']} integer instructions, the table says "
                  f"{table.get(kernel)}")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
