#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the code objects of a HIP plugin to a committed table of resources and instructions.

check_code.py --table resources.tsv --manifest M --library L.so [--write] OBJECT.co...

Every kernel must be in the table and every row must be a kernel.  Columns: kernel, waves (that a
SIMD holds, from the VGPRs), sgprs (at most), lds (static bytes), needs and lacks (instruction
prefixes, space separated, - for none).  For all kernels alike: wave32, no spill, no scratch, no
dynamic stack, no flat or scratch instruction, no flat_scratch operand, no register indexing; and what
OF_OBJECT says of their object.  Each object's target must be the manifest's, and its bytes must be
inside the library.  --write makes the table from the objects and keeps what it needs and lacks: look
at the change.
"""
import argparse
import pathlib
import re
import subprocess
import sys

FIELDS = (".vgpr_count", ".vgpr_spill_count", ".sgpr_count", ".sgpr_spill_count",
          ".group_segment_fixed_size", ".private_segment_fixed_size", ".wavefront_size")
NEVER = ("scratch_", "flat_", "buffer_load", "buffer_store", "v_movrel", "s_setreg")
# every integer dot is four products of signed bytes an instruction, or a tile of them
OF_OBJECT = {"baseline_sums": "v_dot4_i32_iu8", "qdot": "v_dot4_i32_iu8",
             "wmma": "v_wmma_i32_16x16x16_iu8"}
# what --write notes as needed by a kernel that has it
WATCHED = ("v_dot4_i32_iu8", "v_wmma_i32_16x16x16_iu8", "global_load_b128", "ds_load_b128")
# VGPRs of a SIMD in wave32 and the unit they are given out in, both targets alike
VGPRS, GRANULE, MOST_WAVES = 1536, 24, 16
# SGPRs cost no waves here: the bound is what --write found, rounded up to this
SGPR_STEP = 8


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def waves_of(vgprs):
    given = -(-max(vgprs, 1) // GRANULE) * GRANULE
    return min(MOST_WAVES, VGPRS // given)


def kernels_of(readelf, path):
    """Each kernel's metadata; .symbol ends with .kd."""
    kernels, current = {}, {}
    for line in output(readelf, "--notes", path).splitlines():
        found = re.match(r"\s+(?:- )?(\.[a-z_]+):\s+(\S+)$", line)
        if not found:
            continue
        name, value = found.groups()
        if name in FIELDS:
            current[name] = int(value)
        elif name == ".uses_dynamic_stack":
            current[name] = value
        elif name == ".symbol":
            current[name] = value.removesuffix(".kd")
        if name == ".wavefront_size":  # the last one of a kernel, in alphabetical order
            kernels[current[".symbol"]] = current
            current = {}
    return kernels


def instructions_of(objdump, target, path):
    """Mnemonics of each function."""
    counts, current = {}, None
    for line in output(objdump, "-d", "--no-show-raw-insn", f"--mcpu={target}", path).splitlines():
        found = re.match(r"[0-9a-f]+ <(\w+)>:", line)
        if found:
            current = counts.setdefault(found.group(1), {})
        elif line.startswith("\t") and current is not None:
            word = line.split()[0]
            current[word] = current.get(word, 0) + 1
            if "flat_scratch" in line:
                current["flat_scratch operand"] = current.get("flat_scratch operand", 0) + 1
    return counts


def read_table(path):
    rows = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("#") or not line.strip():
                continue
            kernel, waves, sgprs, lds, needs, lacks = line.rstrip("\n").split("\t")
            rows[kernel] = (int(waves), int(sgprs), int(lds), needs, lacks)
    return rows


def write_table(path, rows, seen):
    with open(path, "w", encoding="utf-8") as out:
        out.write("# kernel\twaves\tsgprs\tlds\tneeds\tlacks\n")
        for name, (data, mnemonics, _) in seen.items():
            needs, lacks = (words(old) for old in rows.get(name, ("-", "-"))[-2:])
            needs += [w for w in WATCHED
                      if w not in needs and any(m.startswith(w) for m in mnemonics)]
            out.write(f"{name}\t{waves_of(data['.vgpr_count'])}\t"
                      f"{-(-data['.sgpr_count'] // SGPR_STEP) * SGPR_STEP}\t"
                      f"{data['.group_segment_fixed_size']}\t{' '.join(needs) or '-'}\t"
                      f"{' '.join(lacks) or '-'}\n")


def words(text):
    return [] if text == "-" else text.split()


def check_kernel(name, data, mnemonics, row, needed=None):
    """What is wrong with a kernel; needed: an instruction beside the row's."""
    problems = []
    waves, sgprs, lds, needs, lacks = row
    for field in (".vgpr_spill_count", ".sgpr_spill_count", ".private_segment_fixed_size"):
        if data[field] != 0:
            problems.append(f"{field} is {data[field]}, not 0")
    if data.get(".uses_dynamic_stack", "false") != "false":
        problems.append("it uses a dynamic stack")
    if data[".wavefront_size"] != 32:
        problems.append(f"wavefront size {data['.wavefront_size']}, not 32")
    if waves_of(data[".vgpr_count"]) < waves:
        problems.append(f"{data['.vgpr_count']} VGPRs leave {waves_of(data['.vgpr_count'])} waves, "
                        f"the table says {waves}")
    if data[".sgpr_count"] > sgprs:
        problems.append(f"{data['.sgpr_count']} SGPRs, the table says {sgprs}")
    if data[".group_segment_fixed_size"] != lds:
        problems.append(f"{data['.group_segment_fixed_size']} bytes of LDS, the table says {lds}")
    for need in words(needs) + ([needed] if needed else []):
        if not any(m.startswith(need) for m in mnemonics):
            problems.append(f"no {need}")
    for lack in list(NEVER) + words(lacks):
        for mnemonic in mnemonics:
            if mnemonic.startswith(lack):
                problems.append(f"{mnemonics[mnemonic]} times {mnemonic}")
    return [f"{name}: {p}" for p in problems]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", required=True)
    parser.add_argument("--manifest", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--readelf", default="llvm-readelf-19")
    parser.add_argument("--objdump", default="llvm-objdump-19")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("objects", nargs="+")
    options = parser.parse_args()
    manifest = open(options.manifest, encoding="utf-8").read()
    found = re.search(r"^archs[ =:]+(\S+)$", manifest, re.M)
    if not found:
        sys.exit(f"{options.manifest} names no archs")
    target = found.group(1).strip('"')
    library = open(options.library, "rb").read()
    problems, seen = [], {}
    for path in options.objects:
        flags = re.search(r"Flags:.*\b(gfx\w+)", output(options.readelf, "-h", path))
        if not flags or flags.group(1) != target:
            problems.append(f"{path}: target {flags and flags.group(1)}, the manifest says {target}")
        if open(path, "rb").read() not in library:
            problems.append(f"{path}: its bytes are not in {options.library}")
        mnemonics = instructions_of(options.objdump, target, path)
        for name, data in kernels_of(options.readelf, path).items():
            seen[name] = (data, mnemonics[name], OF_OBJECT.get(pathlib.Path(path).stem))
    rows = read_table(options.table)
    if options.write:
        write_table(options.table, rows, seen)
        return
    for name in sorted(set(rows) - set(seen)):
        problems.append(f"{name}: in the table, not in the objects")
    for name, (data, mnemonics, needed) in seen.items():
        if name not in rows:
            problems.append(f"{name}: not in the table")
        else:
            problems += check_kernel(name, data, mnemonics, rows[name], needed)
    for problem in problems:
        print(problem)
    if not seen:
        sys.exit("no kernel was found")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
