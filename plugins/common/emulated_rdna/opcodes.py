#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests the opcodes that our kernels execute on the RDNA emulator and its own self-test does not.

opcodes.py EMULATOR SELFTEST_CODE gfx1100|gfx1201 RUN.ops.json... > tested_opcodes.txt

Runs the emulator's self-test (its kernels compiled in SELFTEST_CODE), then, for every other opcode
of the runs, a kernel of that one instruction on seeded operands against opcode_tests.py.  Prints
each opcode that a passing test executed; exits 1 when a test fails or an opcode has none.  Not in
CI: the emulator is outside this repository."""
import contextlib
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from opcode_tests import M32, bits_of, number, test_of

BLOCKS, WORDS = 48, 128  # a wave a block; four words a lane

SOURCE = """#include <stdint.h>
typedef uint32_t words16 __attribute__((ext_vector_type(16)));
typedef uint32_t words4 __attribute__((ext_vector_type(4)));
#define DEVICE static __attribute__((device)) inline __attribute__((always_inline))
#define SHARED __attribute__((shared))
#define FIRST(v) (uint32_t)__builtin_amdgcn_readfirstlane((int)(v))
"""
KERNEL = """
extern "C" __attribute__((global, amdgpu_flat_work_group_size(32, 32)))
void {name}(const uint32_t *inputs, uint32_t *out, uint32_t *spare) {{
    SHARED static uint32_t lds[1024];
    __attribute__((address_space(3))) uint32_t *shared =
        (__attribute__((address_space(3))) uint32_t *)lds;
#define lds_at(offset) ((uint32_t)(uintptr_t)shared + (offset))
    uint32_t lane = __builtin_amdgcn_workitem_id_x(), block = __builtin_amdgcn_workgroup_id_x();
    const uint32_t *x = inputs + {words}u * block;
    uint32_t a = x[4u * lane], b = x[4u * lane + 1u], c = x[4u * lane + 2u], d = x[4u * lane + 3u];
    uint32_t sa = FIRST(a), sb = FIRST(b), sc = FIRST(c), sd = FIRST(d), r0 = 0u, r1 = 0u;
    uint64_t A = (uint64_t)b << 32 | a, C = (uint64_t)d << 32 | c;
    uint64_t sA = (uint64_t)sb << 32 | sa, sC = (uint64_t)sd << 32 | sc;
    spare += 64u * block;
    lds[lane] = 0u;
    {body}
    (void)A, (void)C, (void)sA, (void)sC, (void)shared;
    out[2u * (32u * block + lane)] = r0;
    out[2u * (32u * block + lane) + 1u] = r1;
}}
#undef lds_at
"""


def operands(op):
    """Seeded words: any bits, equal ones, and for floats also what is no number."""
    seeded = random.Random(op)
    floats, edges = "F32" in op, [0, 1, M32, 0x80000000, 0x7fffffff, 0x00010000, 0xffff8000]
    if floats:
        edges = [0, 0x80000000, 0x3f800000, 0xbf800000, 0x7f7fffff]
        if "CMP" in op:
            edges += [0x7f800000, 0xff800000, 0x7fc00000]
    out = []
    for _ in range(BLOCKS * 32):
        v = [seeded.choice(edges) if seeded.random() < 0.2 else
             seeded.randrange(100, 150) << 23 | seeded.getrandbits(23) | seeded.getrandbits(1) << 31
             if floats else seeded.getrandbits(32) for _ in range(4)]
        if seeded.random() < 0.2:
            v[1] = v[0]
        if seeded.random() < 0.2:
            v[2:] = v[:2]
        out.append(v)
    return out


def compiled(arch, tests):
    source = SOURCE + "".join(KERNEL.format(name="t_" + op.lower(), words=WORDS, body=body)
                              for op, (body, _) in tests.items())
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "t.hip").write_text(source, encoding="utf-8")
        subprocess.run(["clang++-19", "-x", "hip", f"--offload-arch={arch}", "--cuda-device-only",
                        "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib",
                        "-mcode-object-version=5", "-O1", "-std=c++17", "-o", str(path / "t.co"),
                        str(path / "t.hip")], check=True)
        return (path / "t.co").read_bytes()


def wrong(kernel, op, reference, executed):
    """The first lane that differs, as text; None when all agree."""
    import numpy
    x = operands(op)
    out = numpy.zeros(BLOCKS * 64, numpy.uint32)
    stats = kernel.launch(BLOCKS, 32, [numpy.array(x, numpy.uint32).reshape(-1), out,
                                       numpy.zeros(BLOCKS * 64, numpy.uint32)])
    for at in range(BLOCKS * 32):
        block = x[at // 32 * 32:at // 32 * 32 + 32]
        want = reference(block, at % 32)
        got = tuple(int(v) for v in out[2 * at:2 * at + 2])
        if op.startswith(("V_FMAC", "S_FMA")):
            got = (bits_of(number(got[0])), got[1])
        if got != tuple(w & M32 for w in want):
            return f"lane {at % 32} of {[hex(v) for v in block[at % 32]]}: {got}, not {want}"
    if op not in {str(o) for o in stats.ops}:
        return f"the kernel did not execute it but {sorted(map(str, stats.ops))}"
    executed.update(map(str, stats.ops))
    return None


def main():
    emulator, code, arch, *runs = sys.argv[1:]
    sys.path.insert(0, emulator)
    import run_kernel
    import selftest
    tested, run = set(), run_kernel.Kernel.run

    def noting(self, *args, **named):
        stats = run(self, *args, **named)
        tested.update(map(str, stats.ops))
        return stats
    run_kernel.Kernel.run = noting
    sys.argv = ["selftest.py", "--co", code, arch]
    with contextlib.redirect_stdout(sys.stderr):
        failed = selftest.main()
    run_kernel.Kernel.run = run
    wanted = set()
    for path in runs:
        with open(path, encoding="utf-8") as file:
            wanted.update(op for _, _, ops in json.load(file).values() for op in ops)
    tests = {op: test_of(op, arch == "gfx1201") for op in sorted(wanted - tested)}
    for op in [op for op, test in tests.items() if test is None]:
        failed = print(f"{op}: no test", file=sys.stderr) or 1
        del tests[op]
    executed, image = set(), compiled(arch, tests)
    for op, (_, reference) in tests.items():
        problem = wrong(run_kernel.Kernel(image, "t_" + op.lower(), arch), op, reference, executed)
        if problem:
            failed = print(f"{op}: {problem}", file=sys.stderr) or 1
    print(f"{arch}: {len(tested)} opcodes of the emulator's own tests, {len(tests)} tested here",
          file=sys.stderr)
    print("\n".join(sorted(tested | executed)))
    return failed


if __name__ == "__main__":
    sys.exit(main())
