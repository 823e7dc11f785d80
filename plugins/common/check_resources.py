# SPDX-License-Identifier: MIT
"""Holds what ptxas reports of each CUDA kernel to resources.tsv, a plugin's committed bounds.

    check_resources.py resources.tsv REPORT...           0 when every kernel is within its row
    check_resources.py --write resources.tsv REPORT...   writes the reports' figures into the table

Columns: kernel, registers, stack (bytes of local memory a thread), spills (bytes stored and loaded),
shared (static bytes); a table may have three more: threads and dynamic (of the launch; by hand) and
blocks (resident on one multiprocessor; computed).  More of a resource, or fewer blocks, than the row
is a failure; so is a kernel without a row and a row without a kernel.
"""
import re
import sys

REPORTED = ["registers", "stack", "spills", "shared"]
LAUNCHED = ["threads", "dynamic", "blocks"]
# One multiprocessor of compute capability 6.0, whose table has LAUNCHED: NVIDIA, CUDA C++ Programming
# Guide.
REGISTERS, SHARED, THREADS, BLOCKS = 65536, 65536, 2048, 32


def read_report(path):
    """Rows of one report: {kernel: {registers, stack, spills, shared}}."""
    kernels, name = {}, None
    with open(path, errors="replace") as file:
        for line in file:
            found = re.search(r"Compiling entry function '(\w+)'", line)
            if found:
                name = found.group(1)
                kernels[name] = dict(registers=0, stack=0, spills=0, shared=0)
            found = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, "
                              r"(\d+) bytes spill loads", line)
            if found and name:
                kernels[name]["stack"] = int(found.group(1))
                kernels[name]["spills"] = int(found.group(2)) + int(found.group(3))
            found = re.search(r"Used (\d+) registers", line)
            if found and name:
                kernels[name]["registers"] = int(found.group(1))
                found = re.search(r"(\d+) bytes smem", line)
                kernels[name]["shared"] = int(found.group(1)) if found else 0
    return kernels


def resident_blocks(row):
    """Blocks of a launch that fit on one multiprocessor: registers go to waves in steps of 256."""
    waves = (row["threads"] + 31) // 32
    wave_registers = (row["registers"] * 32 + 255) // 256 * 256
    limits = [BLOCKS, THREADS // row["threads"], REGISTERS // wave_registers // waves]
    shared = (row["shared"] + row["dynamic"] + 255) // 256 * 256
    if shared:
        limits.append(SHARED // shared)
    return min(limits)


def read_table(path):
    """The comment lines, the columns and {kernel: {column: number}}."""
    comments, columns, table = [], [], {}
    with open(path) as file:
        for line in file:
            if line.startswith("#"):
                comments.append(line)
            elif not columns:
                columns = line.split()
                if columns not in (["kernel"] + REPORTED, ["kernel"] + REPORTED + LAUNCHED):
                    sys.exit(f"{path}: unknown columns {columns}")
            elif line.strip():
                name, *numbers = line.split()
                table[name] = dict(zip(columns[1:], map(int, numbers)))
    return comments, columns, table


def write_table(path, comments, columns, table):
    with open(path, "w") as file:
        file.writelines(comments)
        file.write("\t".join(columns) + "\n")
        for name in sorted(table):
            file.write("\t".join([name] + [str(table[name][c]) for c in columns[1:]]) + "\n")


def differences(name, found, bound):
    for column in REPORTED:
        if found[column] > bound[column]:
            yield f"{name}: {column} {found[column]}, the table allows {bound[column]}"
    if found.get("blocks", 0) < bound.get("blocks", 0):
        yield f"{name}: {found['blocks']} blocks fit, the table says {bound['blocks']}"


def main(arguments):
    write = arguments[:1] == ["--write"]
    path, reports = arguments[write], arguments[write + 1:]
    comments, columns, table = read_table(path)
    found = {}
    for report in reports:
        found.update(read_report(report))
    if "blocks" in columns:
        for name, row in found.items():
            row["threads"] = table.get(name, {}).get("threads", 128)
            row["dynamic"] = table.get(name, {}).get("dynamic", 0)
            row["blocks"] = resident_blocks(row)
    if write:
        write_table(path, comments, columns, found)
        return 0
    problems = [f"{name}: not in {path}" for name in sorted(set(found) - set(table))]
    problems += [f"{name}: in {path} but not compiled" for name in sorted(set(table) - set(found))]
    for name in sorted(set(found) & set(table)):
        problems += differences(name, found[name], table[name])
    print("\n".join(problems + [f"{len(found)} kernels, {len(problems)} problems"]))
    return 1 if problems or not found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
