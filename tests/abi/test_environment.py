# SPDX-License-Identifier: MIT
"""The environment is read in core/flags.c and nowhere else in the library."""
import pathlib
import re
import unittest

CORE = pathlib.Path(__file__).resolve().parents[2] / "core"
READS = re.compile(r"\b(secure_getenv|getenv|environ|setenv|putenv)\b")


def code_of(path):
    """The text without comments and strings."""
    text = path.read_text(encoding="utf-8")
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.S)


class Environment(unittest.TestCase):
    def test_only_flags_c_reads_the_environment(self):
        files = [p for s in ("*.c", "*.h", "*.inc") for p in CORE.rglob(s)]
        self.assertGreater(len(files), 20)
        reading = sorted(p.name for p in files if READS.search(code_of(p)))
        self.assertEqual(reading, ["flags.c"])


if __name__ == "__main__":
    unittest.main()
