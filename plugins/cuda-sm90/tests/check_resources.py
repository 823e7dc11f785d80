# SPDX-License-Identifier: MIT
"""Holds every kernel to the registers, stack, spills and shared memory of resources.tsv.

    check_resources.py resources.tsv REPORT...           0 when no kernel takes more than its row
    check_resources.py --write resources.tsv REPORT...   writes the reports' figures

A kernel without a row and a row without a kernel are failures too.  Reports are what ptxas -v says.
"""
import re
import sys

COLUMNS = ["kernel", "registers", "stack", "spills", "shared"]


def read_reports(paths):
    """{kernel: [registers, stack, spills, shared]}; spills are bytes stored and loaded."""
    rows, name = {}, None
    for path in paths:
        with open(path, errors="replace") as file:
            for line in file:
                if found := re.search(r"Compiling entry function '(\w+)'", line):
                    name = found.group(1)
                    rows[name] = [0, 0, 0, 0]
                if found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, "
                                      r"(\d+) bytes spill loads", line):
                    rows[name][1] = int(found.group(1))
                    rows[name][2] = int(found.group(2)) + int(found.group(3))
                if found := re.search(r"Used (\d+) registers", line):
                    rows[name][0] = int(found.group(1))
                    found = re.search(r"(\d+) bytes smem", line)
                    rows[name][3] = int(found.group(1)) if found else 0
    return rows


def read_table(path):
    with open(path) as file:
        lines = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    if lines[0] != COLUMNS:
        sys.exit(f"{path}: the columns are not {COLUMNS}")
    return {line[0]: [int(field) for field in line[1:]] for line in lines[1:]}


def main():
    write = sys.argv[1] == "--write"
    table_path, *reports = sys.argv[1 + write:]
    rows = read_reports(reports)
    if write:
        with open(table_path, "w") as file:
            file.write("# Most that CUDA 13.0 gives each kernel, bytes but for registers; "
                       "written by check_resources.py --write.\n")
            file.write("\t".join(COLUMNS) + "\n")
            for name in sorted(rows):
                file.write("\t".join([name] + [str(value) for value in rows[name]]) + "\n")
        return 0
    table, bad = read_table(table_path), 0
    for name in sorted(set(rows) | set(table)):
        if name not in rows or name not in table:
            print(f"{name}: {'no such kernel' if name not in rows else 'no row in the table'}")
            bad += 1
            continue
        for column, value, most in zip(COLUMNS[1:], rows[name], table[name]):
            if value > most:
                print(f"{name}: {column} {value}, the table says {most}")
                bad += 1
    print(f"{len(rows)} kernels, {bad} beyond their rows")
    return 1 if bad or not rows else 0


sys.exit(main())
