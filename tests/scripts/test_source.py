# SPDX-License-Identifier: MIT
"""What holds for every file of the sources."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

SOURCE = pathlib.Path(os.environ["TEST_SOURCE_DIR"])
CODE = (".c", ".h", ".inc", ".cu", ".cuh", ".py", ".cmake", "CMakeLists.txt")


def tracked_files():
    """Files under version control; outside a checkout all that is not below build."""
    names = []
    if shutil.which("git"):
        done = subprocess.run(["git", "-C", str(SOURCE), "ls-files", "-z"], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        names = done.stdout.rstrip("\0").split("\0") if done.returncode == 0 else []
    if not any(names):
        names = [str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*")
                 if not path.relative_to(SOURCE).parts[0].startswith(("build", ".git"))]
    return [name for name in names if (SOURCE / name).is_file()]


class Licence(unittest.TestCase):
    def test_the_licence_is_mit(self):
        text = (SOURCE / "LICENSE").read_text()
        self.assertTrue(text.startswith("MIT License"))
        self.assertIn("WITHOUT WARRANTY OF ANY KIND", text)

    def test_every_source_file_names_the_licence_first(self):
        missing = []
        for name in tracked_files():
            if name.endswith(CODE):
                head = (SOURCE / name).read_text(errors="replace").split("\n", 2)[:2]
                if not any("SPDX-License-Identifier: MIT" in line for line in head):
                    missing.append(name)
        self.assertEqual(missing, [])


class Threads(unittest.TestCase):
    """tests/test_threads.c begins with the headers' sentences on threads and the tests of each."""

    # what says nothing that a test could break
    OTHER = ["Threads:", "multiprocessors, compute units or threads", "uint32_t threads;",
             "No other thread may use the registry's flags meanwhile"] # the caller's duty

    def words(self, text):
        return " ".join(re.sub(r"(?m)^ *\* ?", "", text).split())

    def headers(self):
        return [self.words(path.read_text())
                for path in sorted((SOURCE / "core" / "include" / "opreg").glob("*.h"))]

    def quotes(self):
        head = (SOURCE / "tests" / "test_threads.c").read_text().split("*/", 1)[0]
        return re.findall(r'"([^"]+)"', self.words(head))

    def test_what_is_quoted_is_in_a_header(self):
        self.assertGreater(len(self.quotes()), 15)
        for quote in self.quotes():
            with self.subTest(quote=quote):
                self.assertTrue([text for text in self.headers() if quote in text])

    def test_every_sentence_on_threads_is_quoted(self):
        for text in self.headers():
            for known in [*self.quotes(), *self.OTHER]:
                text = text.replace(known, "")
            self.assertEqual(re.findall(r".{60}\b[Tt]hreads?\b.{20}", text), [])


class Scripts(unittest.TestCase):
    def scripts(self):
        return [path for path in [*(SOURCE / "scripts").iterdir(), SOURCE / ".ci" / "run"]
                if path.is_file()]

    def test_every_script_can_be_started_and_says_what_it_does(self):
        for path in self.scripts():
            with self.subTest(script=path.name):
                self.assertTrue(os.access(path, os.X_OK))
                lines = path.read_text().split("\n")
                self.assertRegex(lines[0], r"^#!/usr/bin/env (bash|python3)$")
                self.assertIn("SPDX-License-Identifier: MIT", lines[1])
                self.assertRegex(lines[2], r'^(# |""")\w')

    def test_ci_calls_the_test_command_of_the_readme(self):
        text = (SOURCE / ".ci" / "run").read_text()
        self.assertEqual(text.strip().split("\n")[-1], "exec ./scripts/test")

    def test_every_package_that_is_installed_says_why(self):
        done = subprocess.run([str(SOURCE / "scripts" / "install-deps"), "--list"],
                              stdout=subprocess.PIPE, text=True, check=True)
        rows = [row for row in done.stdout.split("\n") if "|" in row]
        self.assertGreater(len(rows), 10)
        for row in rows:
            with self.subTest(row=row):
                self.assertTrue(re.match(r"^[a-z0-9.+=-]+ +\| \S.{5,}", row))

    def test_an_unknown_argument_is_refused_with_what_would_be_right(self):
        for name, word in (("install-deps", "--list"), ("test", "normal"), ("fuzz", "number of seconds")):
            with self.subTest(script=name):
                done = subprocess.run([str(SOURCE / "scripts" / name), "--no-such"],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                      stdin=subprocess.DEVNULL, check=False)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("'--no-such'", done.stderr)
                self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main()
