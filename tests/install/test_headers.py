# SPDX-License-Identifier: MIT
"""Every installed header compiles alone, as C11 and as C++11, without a warning."""

import pathlib
import tempfile
import unittest

from settings import CC, install, run

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror",
            # what a header offers is not used here
            "-Wno-unused-function", "-Wno-unused-const-variable", "-fsyntax-only"]

# C and device compilers alone: hexadecimal floats, which C++11 has not.
ARITHMETIC = ("canonical.h", "steps.h")


class InstalledHeaders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        prefix = pathlib.Path(cls.folder.name)
        install(prefix)
        cls.include = prefix / "include"
        cls.public = sorted((cls.include / "opreg").glob("*.h"))
        cls.formats = sorted((cls.include / "opreg" / "formats").rglob("*.h"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def compile_alone(self, header, language, standard, *more):
        name = header.relative_to(self.include)
        with self.subTest(header=str(name), standard=standard):
            unit = pathlib.Path(self.folder.name) / "unit"
            unit.write_text(f'#include "{name}"\n#include "{name}"\n')
            run(CC, "-x", language, f"-std={standard}", *WARNINGS, *more, "-I", self.include, unit)

    def test_there_are_public_headers_and_formats(self):
        names = {header.name for header in self.public}
        self.assertLessEqual({"opreg.h", "opreg_plugin.h", "opreg_test.h", *ARITHMETIC}, names)
        self.assertIn("q4_k.h", {header.name for header in self.formats})

    def test_each_public_header_compiles_alone_as_c11(self):
        for header in self.public:
            if header.name not in ARITHMETIC:
                self.compile_alone(header, "c", "c11", "-Wpadded")

    def test_each_public_header_compiles_alone_as_cxx11(self):
        for header in self.public:
            if header.name not in ARITHMETIC:
                self.compile_alone(header, "c++", "c++11", "-Wpadded")

    def test_each_header_for_plugins_compiles_alone_as_c11(self):
        for header in [*(self.include / "opreg" / name for name in ARITHMETIC), *self.formats]:
            self.compile_alone(header, "c", "c11", "-I", self.include / "opreg")


if __name__ == "__main__":
    unittest.main()
