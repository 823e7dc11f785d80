#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the opcodes of emulated runs to those that a passing test of the emulator executed.

check_opcodes.py TESTED.txt RUN.ops.json...

A run's file has {kernel: [launches, wave-instructions, {opcode: count}]}; one kernel is one
variant of one format.  Prints each kernel with opcodes that were never tested, then a count; exits
1 when there is one or when nothing ran.  TESTED.txt is what opcodes.py prints."""
import json
import pathlib
import sys


def main():
    tested_path, *runs = sys.argv[1:]
    tested = set(pathlib.Path(tested_path).read_text(encoding="utf-8").split())
    kernels = untested = instructions = 0
    used = set()
    for path in runs:
        for name, (_, count, ops) in json.loads(pathlib.Path(path).read_text("utf-8")).items():
            missing = sorted(set(ops) - tested)
            kernels += 1
            instructions += count
            used |= set(ops)
            if missing:
                untested += 1
                print(f"{pathlib.Path(path).name}: {name}: {' '.join(missing)}")
    print(f"{len(runs)} runs, {kernels} kernels, {instructions} wave-instructions, {len(used)} "
          f"opcodes, {untested} kernels with untested ones")
    return 1 if untested or not kernels else 0


if __name__ == "__main__":
    sys.exit(main())
