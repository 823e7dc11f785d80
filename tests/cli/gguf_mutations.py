#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Truncates and damages a GGUF at random: each time, opreg verify must end in a clean run or in a
clean refusal (exit 2 and one line with offset and reason).  Use a build with sanitizers.

    gguf_mutations.py OPREG [--model FILE] [--count N] [--seed S] [--jobs J]

Without --model, the small file of gguf_model.py.  A failure prints what was done to the file.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import gguf_model  # noqa: E402

REFUSAL = re.compile(r"^opreg verify: .*offset \d+: \S.*$")
OPTIONS = ["verify", "--rows", "4", "--threads", "1", "--type", "42=q2_0", "--type",
           "107=rocmfp2:signbit"]
SECONDS = 120


def mutation(chance, size, header):
    """What to do: ("cut", length) or ("set", offset, bytes)."""
    if chance.random() < 0.4:
        limit = header if chance.random() < 0.7 else size
        return "cut", chance.randrange(limit)
    where = chance.random()
    limit = 256 if where < 0.2 else header if where < 0.75 else size
    at = chance.randrange(limit)
    kind = chance.random()
    if kind < 0.6:
        return "flip", at, bytes([1 << chance.randrange(8)])
    if kind < 0.8:
        return "set", at, bytes(chance.randrange(256) for _ in range(chance.randrange(1, 9)))
    return "set", at, chance.choice([b"\xff" * 8, b"\0" * 8, b"\xff\xff\xff\x7f", b"\x80"])


def verdict(opreg, path):
    """(kind, text): kind is run, refused, invalid, or the fault."""
    try:
        done = subprocess.run([opreg, *OPTIONS, path], capture_output=True, text=True,
                              errors="replace", timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "FAULT", f"no end within {SECONDS} s"
    lines = done.stderr.splitlines()
    if "Sanitizer" in done.stderr or "runtime error" in done.stderr:
        return "FAULT", done.stderr[:4000]
    if done.returncode == 0 and lines and lines[-1].startswith("opreg verify: OK: "):
        return "run", ""
    if done.returncode == 2 and len(lines) == 1 and REFUSAL.match(lines[0]):
        return "refused", lines[0]
    if (done.returncode == 2 and len(lines) >= 2 and all(map(REFUSAL.match, lines[:-1])) and
            lines[-1].startswith("opreg verify: INVALID: ")):
        return "invalid", lines[0]
    if done.returncode == 2 and lines and lines[-1].startswith("opreg verify: NOTHING RUN: "):
        return "run", ""
    return "FAULT", f"exit {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-1500:]}"


def worker(opreg, original, size, header, seeds, folder, number):
    """Runs the mutations of the seeds on a copy of its own."""
    results = []
    path = os.path.join(folder, f"copy{number}.gguf")
    shutil.copyfile(original, path)
    for seed in seeds:
        change = mutation(random.Random(seed), size, header)
        if change[0] == "cut":
            cut = os.path.join(folder, f"cut{number}.gguf")
            with open(original, "rb") as source, open(cut, "wb") as out:
                out.write(source.read(change[1]))
            kind, text = verdict(opreg, cut)
        else:
            with open(path, "r+b") as copy:
                copy.seek(change[1])
                old = copy.read(len(change[2]))
                new = bytes([old[0] ^ change[2][0]]) if change[0] == "flip" else change[2][:len(old)]
                copy.seek(change[1])
                copy.write(new)
            kind, text = verdict(opreg, path)
            with open(path, "r+b") as copy:
                copy.seek(change[1])
                copy.write(old)
        results.append((seed, change, kind, text))
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("opreg")
    parser.add_argument("--model")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = options.model
        if model is None:
            model = os.path.join(folder, "model.gguf")
            pathlib.Path(model).write_bytes(gguf_model.full_model().bytes())
        size = os.path.getsize(model)
        head = pathlib.Path(model).open("rb").read(min(size, 16 << 20))
        header = min(size, head.rfind(b".weight") + 4096)
        kind, text = verdict(options.opreg, model)
        if kind != "run":
            sys.exit(f"the file is refused as it is: {text}")
        seeds = [options.seed * 1000003 + i for i in range(options.count)]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            runs = [pool.submit(worker, options.opreg, model, size, header,
                                seeds[i::options.jobs], folder, i) for i in range(options.jobs)]
            results = [r for run in runs for r in run.result()]
    counts = collections.Counter(kind for _, _, kind, _ in results)
    for seed, change, kind, text in results:
        if kind == "FAULT":
            print(f"FAULT: seed {seed}: {change}: {text}")
    print(f"{len(results)} mutations of {size} bytes: {counts['run']} clean runs, "
          f"{counts['refused']} files refused, {counts['invalid']} with bad blocks named, "
          f"{counts['FAULT']} faults")
    sys.exit(1 if counts["FAULT"] or not results else 0)


if __name__ == "__main__":
    main()
