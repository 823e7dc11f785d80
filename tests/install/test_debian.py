# SPDX-License-Identifier: MIT
"""The Debian packages of the build that is tested: what is in each, and that they run unpacked."""

import pathlib
import re
import shutil
import tempfile
import unittest

from settings import BUILD, CMAKE, run

CPACK = pathlib.Path(shutil.which(CMAKE) or CMAKE).parent / "cpack"


@unittest.skipUnless(shutil.which("dpkg-shlibdeps") and CPACK.exists(), "no cpack or dpkg-shlibdeps")
class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        run(CPACK, "-G", "DEB", "-B", cls.root / "debs", "-D", "CPACK_PACKAGING_INSTALL_PREFIX=/usr",
            cwd=BUILD)
        cls.debs = {run("dpkg-deb", "-f", path, "Package").strip(): path
                    for path in (cls.root / "debs").glob("*.deb")}
        for path in cls.debs.values():
            run("dpkg-deb", "-x", path, cls.root / "unpacked")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def files(self, package):
        listed = run("dpkg-deb", "-c", self.debs[package]).splitlines()
        return [row.split()[5] for row in listed if not row.startswith("d")]

    def test_each_file_is_in_the_package_of_its_use(self):
        self.assertIn("libopreg0", self.debs)
        library = self.files("libopreg0")
        self.assertTrue([name for name in library if re.search(r"/libopreg\.so\.0$", name)])
        self.assertFalse([name for name in library if name.endswith((".h", ".a", ".so", ".cmake"))])
        dev = self.files("libopreg-dev")
        for ending in ("/opreg/opreg.h", "/libopreg.so", "/libopreg.a", "opregConfig.cmake",
                       "/opreg.pc"):
            self.assertTrue([name for name in dev if name.endswith(ending)], ending)
        self.assertFalse([name for name in dev if "/bin/" in name])

    def test_no_file_is_in_two_packages(self):
        seen = {}
        for package in self.debs:
            for name in self.files(package):
                self.assertNotIn(name, seen)
                seen[name] = package

    def test_each_plugin_is_a_package_with_its_manifest(self):
        built = {path.stem for path in (BUILD / "lib" / "opreg").glob("*.manifest")}
        packaged = {name[len("opreg-plugin-"):] for name in self.debs
                    if name.startswith("opreg-plugin-")}
        with_text = "OPREG_SM60_PTX:BOOL=ON" in (BUILD / "CMakeCache.txt").read_text()
        self.assertEqual(packaged, built - ({"cuda-sm60"} if with_text else set()))
        for name in packaged:
            ends = sorted(pathlib.Path(path).name for path in self.files(f"opreg-plugin-{name}"))
            self.assertEqual(ends, [f"{name}.manifest", f"libopreg-{name}.so"])

    def test_packages_name_what_they_need_and_no_vendor_library(self):
        for package, path in self.debs.items():
            needs = run("dpkg-deb", "-f", path, "Depends")
            with self.subTest(package=package):
                self.assertNotRegex(needs, r"(?i)cuda|hip|rocm|nvidia")
                self.assertIn("libc6", needs)
                if package != "libopreg0":
                    self.assertIn("libopreg0 (", needs)

    def test_the_unpacked_command_runs_and_lists_the_unpacked_plugins(self):
        if "opreg-tools" not in self.debs:
            self.skipTest("built without the opreg command")
        listed = run(self.root / "unpacked" / "usr" / "bin" / "opreg", "list")
        self.assertRegex(listed, r"(?m)^cpu +ready")
        for package in self.debs:
            if package.startswith("opreg-plugin-"):
                self.assertRegex(listed, rf"(?m)^{package[len('opreg-plugin-'):]} +off")


if __name__ == "__main__":
    unittest.main()
