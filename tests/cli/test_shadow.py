# SPDX-License-Identifier: MIT
"""opreg shadow: a file that shadow left is run again; nothing in such a file is trusted."""
import unittest

from support import WRONG_PLUGIN, CommandTest, run

FLAGS = {"OPREG_PLUGIN_DIR": WRONG_PLUGIN}


class Replay(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bench = run("bench", "--problem", "n=256 k=512 b=q8_0", "--plugin", "wrong",
                        "--kernel", "other_order",
                        flags={**FLAGS, "OPREG_WRONG": "on", "OPREG_WRONG_OTHER_ORDER": "on",
                               "OPREG_SHADOW": "1/100", "OPREG_SHADOW_DIR": str(cls.folder)})
        cls.files = sorted(cls.folder.glob("*.replay"))

    def replay(self, path, *more):
        return run("shadow", "replay", path, *more, flags=FLAGS)

    def test_shadow_leaves_one_file_a_problem_and_says_so(self):
        self.assertEqual(len(self.files), 1, self.bench.stderr)
        self.assertIn(f"replay: {self.files[0]}", self.bench.stderr)
        self.assertIn("wrong/other_order is not wrong/right", self.bench.stderr)

    def test_the_replay_finds_the_same_difference(self):
        done = self.replay(self.files[0])
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertTrue(done.stdout.endswith("the same difference\n"), done.stdout)

    def test_another_variant_may_have_no_difference(self):
        done = self.replay(self.files[0], "--kernel", "wrong/same_sums", "--guard", "--json")
        row = self.objects(done)[0]
        self.assertEqual(row["verdict"], "no difference")
        self.assertEqual(row["kernel"], "wrong/same_sums")
        self.assertIn("buffer 0 (y) row 0", row["recorded"])

    def test_guard_runs_with_it(self):
        done = self.replay(self.files[0], "--kernel", "wrong/unwritten", "--guard")
        self.assertEqual(done.returncode, 1)
        self.assertIn("guard: wrong/unwritten did not write", done.stdout)

    def test_a_file_that_is_cut_or_grown_is_refused(self):
        whole = self.files[0].read_bytes()
        for name, data, part in [("cut", whole[:-1], "its length"), ("grown", whole + b"x", "its length"),
                                 ("empty", b"", "does not begin"),
                                 ("head", whole[:200], "missing"),
                                 ("op", whole.replace(b"op matmul", b"op mutmal", 1), "operator"),
                                 ("problem", whole.replace(b" n=256", b" n=-56", 1), "n"),
                                 ("buffer", whole.replace(b"buffer 1 2048", b"buffer 9 2048", 1), "")]:
            with self.subTest(name):
                path = self.folder / f"{name}.bin"
                path.write_bytes(data)
                self.assert_refused(self.replay(path), part)

    def test_a_wrong_call_is_wrong_usage(self):
        self.assert_refused(run("shadow"), "usage: opreg shadow replay FILE")
        self.assert_refused(run("shadow", "replay", "/nowhere"), "/nowhere: it cannot be opened")
        self.assert_refused(run("shadow", "replay", self.files[0]), "wrong")


if __name__ == "__main__":
    unittest.main()
