# SPDX-License-Identifier: MIT
"""What the built libraries and programs export, and how they are linked."""

import pathlib
import re
import tempfile
import unittest

from settings import BUILD, BUILD_TYPE, CC, NM, READELF, SOURCE, install, run

INCLUDE = SOURCE / "core" / "include" / "opreg"
SHARED = BUILD / "lib" / "libopreg.so"
STATIC = BUILD / "lib" / "libopreg.a"


def declared(header):
    """Functions that a header declares with OPREG_API."""
    text = run(CC, "-std=c11", "-E", "-P", "-DOPREG_API=@api@", INCLUDE / header,
               "-I", INCLUDE.parent)
    return set(re.findall(r"@api@[^;(]*?(\w+)\s*\(", text))


def dynamic_symbols(path):
    """Names that a library gives to the dynamic linker; version names left out."""
    rows = run(NM, "-D", "--defined-only", path).splitlines()
    return {row.split()[2].split("@")[0] for row in rows if row.split()[1] != "A"}


def plugins():
    return sorted(BUILD.glob("lib/opreg/libopreg-*.so")) + \
        sorted(BUILD.glob("plugins/example/libopreg-*.so"))


class Symbols(unittest.TestCase):
    def test_the_shared_library_exports_what_the_headers_declare_and_no_more(self):
        public = declared("opreg.h") | declared("opreg_plugin.h")
        public.discard("opreg_plugin_entry")
        self.assertGreater(len(public), 20)
        self.assertEqual(dynamic_symbols(SHARED), public)

    def test_the_static_library_keeps_its_internal_names_to_itself(self):
        public = declared("opreg.h") | declared("opreg_plugin.h")
        public.discard("opreg_plugin_entry")
        rows = run(NM, "-g", "--defined-only", STATIC).splitlines()
        names = {row.split()[2] for row in rows if len(row.split()) == 3}
        self.assertEqual(names, public)

    def test_a_plugin_exports_its_entry_alone(self):
        self.assertTrue(plugins())
        for plugin in plugins():
            with self.subTest(plugin=plugin.name):
                self.assertEqual(dynamic_symbols(plugin), {"opreg_plugin_entry"})

    def test_the_shared_library_has_its_soname_and_symbol_version(self):
        dynamic = run(READELF, "-dW", SHARED)
        self.assertRegex(dynamic, r"SONAME.*\[libopreg\.so\.0\]")
        self.assertIn("OPREG_1.0", run(NM, "-D", "--defined-only", SHARED))

    def test_no_plugin_needs_a_vendor_library(self):
        for plugin in plugins():
            with self.subTest(plugin=plugin.name):
                needed = re.findall(r"NEEDED.*\[(.*?)\]", run(READELF, "-dW", plugin))
                known = re.compile(r"(libc|libm|libpthread|libdl)\.so\.\d+$|ld-linux")
                self.assertEqual([name for name in needed if not known.match(name)], [])


class Hardening(unittest.TestCase):
    """Of every library and program that an installation has, and of the example plugin."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.prefix = pathlib.Path(cls.folder.name)
        install(cls.prefix)
        cls.installed = sorted(path for path in cls.prefix.rglob("*")
                               if path.is_file() and not path.is_symlink()
                               and path.read_bytes()[:4] == b"\x7fELF")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def binaries(self):
        return [*self.installed, *BUILD.glob("plugins/example/libopreg-*.so")]

    def test_every_installed_binary_is_seen(self):
        names = {re.sub(r"[.]so[.].*", ".so", path.name) for path in self.installed}
        self.assertLessEqual({"libopreg.so", "libopreg_kit.so"}, names)
        if (BUILD / "CMakeCache.txt").read_text().find("OPREG_TOOLS:BOOL=ON") >= 0:
            self.assertLessEqual({"opreg", "opreg-decode"}, names)
        manifests = {path.stem for path in self.prefix.glob("lib*/**/*.manifest")}
        self.assertEqual({f"libopreg-{name}.so" for name in manifests},
                         {name for name in names if name.startswith("libopreg-")})
        self.assertEqual(len(names), 2 + len(manifests) + 2 * ("opreg" in names))

    def test_the_stack_is_not_executable(self):
        for path in self.binaries():
            with self.subTest(binary=path.name):
                row = re.search(r"GNU_STACK.*", run(READELF, "-lW", path))
                self.assertIsNotNone(row)
                self.assertRegex(row.group(), r" RW +0x")

    def test_no_segment_is_both_writable_and_executable(self):
        for path in self.binaries():
            with self.subTest(binary=path.name):
                loads = re.findall(r"LOAD.*", run(READELF, "-lW", path))
                self.assertTrue(loads)
                self.assertFalse([row for row in loads if "RWE" in row])

    def test_relocations_are_bound_at_start_and_then_read_only(self):
        for path in self.binaries():
            with self.subTest(binary=path.name):
                self.assertIn("GNU_RELRO", run(READELF, "-lW", path))
                self.assertRegex(run(READELF, "-dW", path), r"FLAGS.*(BIND_NOW|NOW)")

    def test_code_is_position_independent(self):
        for path in self.binaries():
            with self.subTest(binary=path.name):
                self.assertIn("DYN (", run(READELF, "-hW", path))
                self.assertNotIn("TEXTREL", run(READELF, "-dW", path))

    def test_only_opreg_decode_names_a_folder_to_search(self):
        for path in self.binaries():
            if path.name != "opreg-decode": # test_package.py says which
                with self.subTest(binary=path.name):
                    self.assertNotRegex(run(READELF, "-dW", path), r"R(UN)?PATH")

    def checked(self):
        """Binaries with buffers on the stack and calls that fill them: all but the example."""
        return [path for path in self.binaries() if path.name != "libopreg-example.so"]

    def test_the_stack_is_guarded(self):
        for path in self.checked():
            with self.subTest(binary=path.name):
                self.assertIn("__stack_chk_fail", run(NM, "-D", "--undefined-only", path))

    @unittest.skipIf(BUILD_TYPE == "Debug", "fortified functions need the optimizer")
    def test_c_library_calls_are_the_checked_ones(self):
        for path in self.checked():
            with self.subTest(binary=path.name):
                self.assertRegex(run(NM, "-D", "--undefined-only", path), r"__(?!stack)\w+_chk\b")

    @unittest.skipIf(BUILD_TYPE == "Debug", "fortified functions need the optimizer")
    @unittest.skipUnless((BUILD / "build.ninja").exists(), "the flags are read from Ninja's file")
    def test_they_are_checked_at_level_3_everywhere(self):
        rules = re.findall(r"build \S+\.c\.o: .*\n(?:  .*\n)+", (BUILD / "build.ninja").read_text())
        code = [rule for rule in rules if re.match(r"build (core|kit|tools|plugins/[^ ]*opreg-)", rule)]
        self.assertGreater(len(code), 50)
        self.assertEqual([rule for rule in code if "-D_FORTIFY_SOURCE=3" not in rule or
                          "-fstack-protector-strong" not in rule], [])

    @unittest.skipIf(BUILD_TYPE == "Debug", "fortified functions need the optimizer")
    def test_the_static_library_is_guarded_alike(self):
        names = run(NM, "--undefined-only", STATIC)
        self.assertIn("__stack_chk_fail", names)
        self.assertRegex(names, r"__(?!stack)\w+_chk")


if __name__ == "__main__":
    unittest.main()
