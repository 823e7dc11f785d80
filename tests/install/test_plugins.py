# SPDX-License-Identifier: MIT
"""With no plugin, with each alone and with all: what is built, installed and listed.

The device compilers are a stand-in that writes empty files: how code for a device is found, what is
configured without it and what goes into an installation are the same as with the real ones.
"""

import os
import pathlib
import re
import shutil
import tempfile
import unittest

from settings import CC, CMAKE, SOURCE, run

COMPILERS = {"cuda-sm60": "OPREG_CUDA_SM60_NVCC", "cuda-sm90": "OPREG_CUDA_SM90_NVCC",
             "hip-gfx1100": "OPREG_HIP_GFX1100_CLANG", "hip-gfx1201": "OPREG_HIP_GFX1201_CLANG"}
PRODUCTS = ["opreg", "opreg_archive", "opreg_kit", "opreg_command", "opreg_words", "opreg_decode"]
STAND_IN = """#!/bin/sh
case "$*" in
*--version*) echo "stand-in clang version 19.0.0, release 12.9"; exit ;;
esac
while [ $# -gt 0 ]; do
    case "$1" in
    -o | -MF) shift; : >"$1" ;;
    esac
    shift
done
"""


class Plugins(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        cls.compiler = cls.root / "compiler"
        cls.compiler.write_text(STAND_IN)
        cls.compiler.chmod(0o755)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def installation(self, *plugins):
        """The prefix of an installation with these plugins, from the one build folder."""
        build = self.root / "build"
        prefix = self.root / "-".join(["prefix", *plugins])
        options = [f"-D{variable}={self.compiler if name in plugins else 'OFF'}"
                   for name, variable in COMPILERS.items()]
        if shutil.which("ccache"):
            options.append("-DCMAKE_C_COMPILER_LAUNCHER=ccache")
        said = run(CMAKE, "-S", SOURCE, "-B", build, "-G", "Ninja", f"-DCMAKE_C_COMPILER={CC}",
                   "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DCMAKE_INSTALL_LIBDIR=lib", *options)
        for name in COMPILERS:
            self.assertIn(f"plugin {name} is {'built with' if name in plugins else 'not built'}", said)
        run(CMAKE, "--build", build, "--target", *PRODUCTS, *(f"opreg-{name}" for name in plugins))
        run(CMAKE, "--install", build, "--prefix", prefix)
        return prefix

    def check(self, *plugins):
        prefix = self.installation(*plugins)
        self.assertEqual(sorted(path.name for path in (prefix / "lib").glob("opreg/*")),
                         sorted([f"{name}.manifest" for name in plugins] +
                                [f"libopreg-{name}.so" for name in plugins]))
        for library in ("libopreg.so", "libopreg.a", "libopreg_kit.so"):
            self.assertTrue((prefix / "lib" / library).exists())
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith("OPREG_")}
        listed = run(prefix / "bin" / "opreg", "list", env=clean)
        self.assertRegex(listed, r"(?m)^cpu +ready")
        self.assertEqual(re.findall(r"(?m)^([a-z]+-[a-z0-9]+) +off", listed), sorted(plugins))
        for name in plugins: # opens, as far as a machine without its driver and images lets it
            variable = "OPREG_" + name.upper().replace("-", "_")
            listed = run(prefix / "bin" / "opreg", "list", env={**clean, variable: "on"})
            self.assertRegex(listed, rf"(?m)^{name} +(no-device|failed) ")
            self.assertNotIn("symbol", listed)

    def test_without_a_plugin(self):
        self.check()

    def test_cuda_sm60_alone(self):
        self.check("cuda-sm60")

    def test_cuda_sm90_alone(self):
        self.check("cuda-sm90")

    def test_hip_gfx1100_alone(self):
        self.check("hip-gfx1100")

    def test_hip_gfx1201_alone(self):
        self.check("hip-gfx1201")

    def test_with_every_plugin(self):
        self.check(*COMPILERS)


if __name__ == "__main__":
    unittest.main()
