# SPDX-License-Identifier: MIT
"""An installation that was moved serves engines and plugins as if it had been made there."""

import os
import pathlib
import re
import shutil
import tempfile
import unittest

from settings import BUILD, CC, CMAKE, READELF, SOURCE, install, run

# x is 0.5: codes 127, scale 0.5 / 127 as f16 = 1032 / 2^18; 32 weights of 1 and of 2
RESULT = "15.9990 31.9980"


class MovedInstallation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        cls.first = cls.root / "first" / "prefix"
        cls.prefix = cls.root / "moved" / "elsewhere"
        install(cls.first)
        cls.prefix.parent.mkdir()
        shutil.move(cls.first, cls.prefix)
        cls.pkg_config = {**os.environ,
                          "PKG_CONFIG_PATH": str(cls.prefix / "lib" / "pkgconfig")}
        # the example plugin, as its author would build and install it
        cls.build_project(SOURCE / "plugins" / "example", "plugin")
        run(CMAKE, "--install", cls.root / "plugin", "--prefix", cls.prefix)
        cls.build_project(pathlib.Path(__file__).parent / "engine", "engine")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def build_project(cls, source, name):
        run(CMAKE, "-S", source, "-B", cls.root / name, "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={cls.prefix}", f"-DCMAKE_C_COMPILER={CC}",
            "-DCMAKE_INSTALL_LIBDIR=lib", "-DCMAKE_BUILD_TYPE=Release")
        run(CMAKE, "--build", cls.root / name)

    def run_engine(self, *command, **variables):
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith("OPREG_")}
        return run(*command, env={**clean, **variables}).strip()

    def words(self, *arguments):
        return run("pkg-config", *arguments, env=self.pkg_config).split()

    def test_the_engine_finds_the_plugin_beside_the_moved_library(self):
        self.assertEqual(self.run_engine(self.root / "engine" / "engine_shared", OPREG_EXAMPLE="on"),
                         f"example/matmul {RESULT}")

    def test_a_plugin_that_is_not_switched_on_is_not_used(self):
        output = self.run_engine(self.root / "engine" / "engine_shared")
        self.assertRegex(output, rf"^cpu/\w+ {re.escape(RESULT)}$")

    def test_a_variant_runs_when_its_own_flag_is_on(self):
        output = self.run_engine(self.root / "engine" / "engine_shared", OPREG_EXAMPLE="on",
                                 OPREG_EXAMPLE_MATMUL_SHARED="on")
        self.assertEqual(output, f"example/matmul_shared {RESULT}")

    def test_an_engine_built_with_pkg_config_runs(self):
        engine = self.root / "by_pkg_config"
        run(CC, "-std=c11", SOURCE / "tests/install/engine/engine.c", "-o", engine,
            *self.words("--cflags", "--libs", "opreg"),
            f"-Wl,-rpath,{self.prefix / 'lib'}")
        self.assertEqual(self.run_engine(engine, OPREG_EXAMPLE="on"),
                         f"example/matmul {RESULT}")

    def test_a_static_engine_built_with_pkg_config_runs_without_the_library(self):
        engine = self.root / "static_by_pkg_config"
        run(CC, "-std=c11", SOURCE / "tests/install/engine/engine.c", "-o", engine,
            *self.words("--cflags", "--libs", "opreg-static"))
        self.assertNotIn("libopreg", run(READELF, "-dW", engine))
        plugins = self.words("--variable=plugindir", "opreg-static")[0]
        self.assertEqual(self.run_engine(engine, OPREG_EXAMPLE="on", OPREG_PLUGIN_DIR=
                                         os.path.realpath(plugins)),
                         f"example/matmul {RESULT}")

    def test_a_static_engine_found_by_cmake_loads_a_plugin(self):
        engine = self.root / "engine" / "engine_static"
        self.assertNotIn("libopreg", run(READELF, "-dW", engine))
        plugins = (self.root / "engine" / "plugin_dir").read_text()
        self.assertEqual(self.run_engine(engine, OPREG_EXAMPLE="on", OPREG_PLUGIN_DIR=plugins),
                         f"example/matmul {RESULT}")

    def test_the_moved_command_finds_its_plugins(self):
        command = self.prefix / "bin" / "opreg"
        if not command.exists():
            self.skipTest("built without the opreg command")
        self.assertNotRegex(run(READELF, "-dW", command), r"R(UN)?PATH")
        listed = self.run_engine(command, "list", OPREG_EXAMPLE="on")
        self.assertRegex(listed, r"(?m)^example +ready +0\.1\.0")
        self.assertIn(str(self.prefix / "lib" / "opreg" / "example.manifest"), listed)

    def test_the_moved_example_finds_its_library(self):
        engine = self.prefix / "bin" / "opreg-decode"
        if not engine.exists():
            self.skipTest("built without the opreg command")
        self.assertRegex(run(READELF, "-dW", engine), r"R(UN)?PATH.*\[\$ORIGIN/\.\./lib")
        self.assertIn("usage: opreg-decode MODEL.gguf", self.run_engine(engine, "--help"))

    def test_pages_and_completions_are_where_they_are_looked_for(self):
        share = self.prefix / "share"
        command = self.prefix / "bin" / "opreg"
        if not command.exists():
            self.skipTest("built without the opreg command")
        for path, words in (("man/man1/opreg.1", ["manual"]),
                            ("bash-completion/completions/opreg", ["completion", "bash"]),
                            ("zsh/site-functions/_opreg", ["completion", "zsh"])):
            with self.subTest(path=path):
                self.assertEqual((share / path).read_text().strip(), self.run_engine(command, *words))
        self.assertTrue((share / "man" / "man1" / "opreg-decode.1").is_file())

    def test_the_manifest_lists_what_kernels_inc_lists(self):
        manifest = (self.prefix / "lib" / "opreg" / "example.manifest").read_text()
        listed = re.findall(r"^OPREG_KERNEL\((\w+)", (SOURCE / "plugins/example/kernels.inc")
                            .read_text(), re.MULTILINE)
        self.assertIn(f"kernels = {' '.join(listed)}\n", manifest)

    def test_no_text_file_names_the_first_prefix_or_the_build(self):
        for path in self.prefix.rglob("*"):
            if path.suffix in (".cmake", ".pc", ".h", ".inc", ".manifest"):
                text = path.read_text()
                with self.subTest(file=str(path.relative_to(self.prefix))):
                    self.assertNotIn(str(self.first), text)
                    self.assertNotIn(str(BUILD), text)
                    self.assertNotIn(str(SOURCE), text)

    def test_the_licence_is_installed(self):
        self.assertTrue((self.prefix / "share" / "doc" / "opreg" / "LICENSE").is_file())


if __name__ == "__main__":
    unittest.main()
