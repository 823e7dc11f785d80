# SPDX-License-Identifier: MIT
"""What README and docs/ show is true: commands run, programs compile and run, quotes are verbatim.

Shell blocks run in order, the README's first, in one home folder, as a reader would type them.
"""

import json
import os
import pathlib
import re
import struct
import subprocess
import tempfile
import unittest

from blocks import SOURCE, blocks_of, documents

LANGUAGES = {"sh", "c", "cmake", "text", ""}


def write_gguf(path, rows=256, length=64):
    """A GGUF file with one q8_0 tensor."""
    text = lambda word: struct.pack("<Q", len(word)) + word.encode()
    head = struct.pack("<4sIQQ", b"GGUF", 3, 1, 1)
    head += text("general.architecture") + struct.pack("<I", 8) + text("llama")
    head += text("blk.0.ffn_up.weight") + struct.pack("<IQQIQ", 2, length, rows, 8, 0)
    head += b"\0" * (-len(head) % 32)
    data = bytearray()
    for block in range(rows * length // 32):
        data += struct.pack("<e", 0.01 + 0.0001 * (block % 7))
        data += bytes((block * 37 + i * 11) % 251 for i in range(32))
    path.write_bytes(head + bytes(data))


class Documents(unittest.TestCase):
    def test_every_block_says_what_it_is(self):
        for path in documents():
            for block in blocks_of(path):
                with self.subTest(block=block.where):
                    self.assertIn(block.language, LANGUAGES)

    def test_quoted_code_is_verbatim(self):
        quotes = 0
        for path in documents():
            for block in blocks_of(path):
                if block.origin:
                    quotes += 1
                    with self.subTest(block=block.where):
                        self.assertIn(block.text, (SOURCE / block.origin).read_text())
        self.assertGreater(quotes, 0)

    def test_every_c_or_cmake_block_is_quoted_or_a_program(self):
        for path in documents():
            for block in blocks_of(path):
                if block.language in ("c", "cmake") and not block.origin:
                    with self.subTest(block=block.where):
                        self.assertIn("int main(", block.text)

    def test_links_to_files_lead_somewhere(self):
        for path in documents():
            for target in re.findall(r"\]\(([^)#]+)", path.read_text()):
                if not re.match(r"[a-z]+:", target):
                    with self.subTest(link=f"{path.name}: {target}"):
                        self.assertTrue((path.parent / target).exists())

    def test_the_table_of_variables_is_what_the_command_lists(self):
        command = pathlib.Path(os.environ["TEST_BUILD_DIR"]) / "bin" / "opreg"
        if not command.exists():
            self.skipTest("built without the opreg command")
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith("OPREG_")}
        done = subprocess.run([str(command), "list", "--env", "--json"], env=clean, text=True,
                              stdout=subprocess.PIPE, check=True)
        flags = [json.loads(line) for line in done.stdout.splitlines()]
        of_core = {flag["variable"] for flag in flags if "/" not in flag["flag"]
                   and not flag["variable"].startswith(("OPREG_CUDA_", "OPREG_HIP_"))}
        page = (SOURCE / "docs" / "environment.md").read_text()
        told = set(re.findall(r"^\| `(OPREG_[A-Z_]+)` \|", page, re.MULTILINE))
        self.assertEqual(told, of_core)
        readme = set(re.findall(r"^\| `(OPREG_[A-Z_]+)` \|", (SOURCE / "README.md").read_text(),
                                re.MULTILINE))
        self.assertLessEqual(readme, of_core)

    def test_the_commands_run_in_order(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        work = pathlib.Path(home.name) / "work"
        work.mkdir()
        (work / "plugins").symlink_to(SOURCE / "plugins")
        write_gguf(work / "my.gguf")
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(("OPREG_", "TEST_"))}
        clean["BUILD_CACHE"] = os.environ.get("BUILD_CACHE", str(SOURCE / "build" / "cache"))
        clean.setdefault("CCACHE_DIR", str(pathlib.Path.home() / ".cache" / "ccache"))
        clean["HOME"] = home.name
        # device code is compiled by the other tests' build, and once is enough
        subprocess.run(["cmake", "-S", str(SOURCE), "-B", str(SOURCE / "build" / "release"), "-G",
                        "Ninja", "-DOPREG_DEVICE_PLUGINS=OFF", "-DCMAKE_C_COMPILER_LAUNCHER=ccache"],
                       env=clean, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        exports = ""
        pages = [block for path in documents() for block in blocks_of(path)]
        for block in pages:
            if block.language == "c" and not block.origin:
                (work / "engine.c").write_text(block.text)
            if block.language != "sh":
                continue
            lines = block.text.splitlines()
            if "./scripts/test" in lines:
                # this test is part of that command
                self.assertTrue(os.access(SOURCE / "scripts" / "test", os.X_OK))
                lines.remove("./scripts/test")
            in_source = any(re.search(r"\./scripts/| -S \. ", line) for line in lines)
            script = "set -eu\n" + exports + "\n".join(lines)
            with self.subTest(block=block.where):
                done = subprocess.run(["bash", "-c", script], cwd=SOURCE if in_source else work,
                                      env=clean, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, check=False)
                self.assertEqual(done.returncode, 0, f"{block.text}\n{done.stdout[-4000:]}")
                if "./engine" in lines: # what the README says of it
                    self.assertEqual(done.stdout.count("gave 127 and 254"), 2, done.stdout)
            exports += "".join(line + "\n" for line in lines if line.startswith("export "))


if __name__ == "__main__":
    unittest.main()
