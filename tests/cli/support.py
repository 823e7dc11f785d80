# SPDX-License-Identifier: MIT
"""Runs the opreg command for the tests, with an environment that no user's settings reach."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import gguf_model

COMMAND = os.environ["TEST_COMMAND"]
WRONG_PLUGIN = os.environ.get("TEST_WRONG_PLUGIN", "")
MISPRINT_PLUGIN = os.environ.get("TEST_MISPRINT_PLUGIN", "")
MISPRINT = os.environ.get("TEST_MISPRINT_NAME", "misprint")  # on a device: misprint-cuda-sm90
READINGS = ["--type", "42=q2_0", "--type", "107=rocmfp2:signbit"]


def run(*arguments, flags=None, **options):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPREG_")}
    environment.update(flags or {})
    return subprocess.run([COMMAND, *map(str, arguments)], env=environment, capture_output=True,
                          text=True, timeout=300, **options)


class CommandTest(unittest.TestCase):
    """Adds what most tests want: a folder of their own, and objects of --json."""

    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls._folder.name)

    @classmethod
    def tearDownClass(cls):
        cls._folder.cleanup()

    def write(self, name, model):
        path = self.folder / name
        path.write_bytes(model if isinstance(model, bytes) else model.bytes())
        return path

    def objects(self, done, status=0):
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def assert_refused(self, done, *parts):
        """Exit 2, nothing on stdout, one line on stderr with all the parts."""
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)


def small_model(**formats):
    """One matrix per format name, 64 rows of 512 by default."""
    v, m = gguf_model.Vectors(), gguf_model.Model()
    m.keys = [gguf_model.key_string("general.architecture", "test")]
    for name, (n, k) in formats.items():
        m.add(f"{name.lower()}.weight", (k, n), v.formats[name]["type_id"], v.matrix(name, n, k))
    return m
