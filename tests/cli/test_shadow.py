# SPDX-License-Identifier: MIT
"""opreg shadow: a file that shadow left is run again; nothing in such a file is trusted."""
import re
import unittest

from support import MISPRINT, MISPRINT_PLUGIN, WRONG_PLUGIN, CommandTest, run

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
                                 ("buffer", whole.replace(b"buffer 1 2048", b"buffer 9 2048", 1), "buffer 1 (x)"),
                                 ("rows", whole.replace(b" n=256", b" n=255", 1), "weight 0 (W)"),
                                 ("tokens", whole.replace(b"problem m=1", b"problem m=24444444444444", 1),
                                  "buffer 1 (x)"),
                                 ("gaps", whole.replace(b"y_stride=256", b"y_stride=244444444444", 1)
                                  .replace(b"m=1 ", b"m=2 ", 1).replace(b"buffer 1 2048", b"buffer 1 4096", 1)
                                  + bytes(2048), "outputs")]:
            with self.subTest(name):
                path = self.folder / f"{name}.bin"
                path.write_bytes(data)
                self.assert_refused(self.replay(path), part)

    def test_a_wrong_call_is_wrong_usage(self):
        self.assert_refused(run("shadow"), "usage: opreg shadow replay FILE")
        self.assert_refused(run("shadow", "replay", "/nowhere"), "/nowhere: it cannot be opened")
        self.assert_refused(run("shadow", "replay", self.files[0]), "wrong")


# One problem an operator at least; stored and prepared weights, raw and quantized activations.
PROBLEMS = [
    "quantize_act m=2 k=512 q=q8_k",
    "matmul_bt_quant m=2 n=64 k=512 b=q6_k x=q8_k layout=0",
    "matmul_bt_quant m=1 n=64 k=512 b=q4_0 layout=1 glu=silu y=f16",
    "moe_route tokens=3 top_k=4 experts=16",
    "moe_matmul tokens=2 n=64 k=256 experts=16 top_k=4 b=rocmfp2_mix layout=0",
    "moe_glu tokens=2 n=64 k=256 experts=16 top_k=4 b=q4_0 glu=gelu_tanh layout=1",
    "moe_down tokens=2 n=64 k=256 experts=5 top_k=4 b=iq4_nl layout=1",
    "moe_combine tokens=3 n=512 top_k=4",
    "moe_ffn tokens=2 hidden=256 inter=256 experts=16 top_k=4 b=q4_k down=q6_k layout=1",
    "paged_attn_decode seqs=2 hq=4 hk=2 d=64 len=80 flags=sinks+lse+q_indptr max_q=3",
]


class EveryOperator(CommandTest):
    """A variant of each operator writes a wrong first word: a file each, and each reproduces it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.flags = {"OPREG_PLUGIN_DIR": MISPRINT_PLUGIN}
        cls.bench = run("bench", *[word for problem in PROBLEMS for word in ("--problem", problem)],
                        "--plugin", MISPRINT,
                        flags={**cls.flags, f"OPREG_{MISPRINT.upper().replace('-', '_')}": "fast",
                               "OPREG_SHADOW": "1/50", "OPREG_SHADOW_DIR": str(cls.folder)})
        cls.files = sorted(cls.folder.glob("*.replay"))

    def test_every_operator_is_replayed_to_the_same_difference(self):
        found = set()
        for path in self.files:
            head = dict(line.split(" ", 1) for line in
                        path.read_bytes().split(b"\nend\n")[0].decode("latin-1").splitlines()[1:7])
            with self.subTest(head["problem"]):
                done = run("shadow", "replay", path, flags=self.flags)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertTrue(done.stdout.endswith("the same difference\n"), done.stdout)
                self.assertIn("row 0 column 0 is 0x", head["difference"])
                self.assertRegex(head["difference"], "; [124] of [0-9]+ elements differ")
                found.add((head["op"], "layout=1" in head["problem"]))
        prepared = {"matmul_bt_quant", "moe_glu", "moe_down", "moe_ffn"}
        self.assertEqual(found & {(op, True) for op in prepared}, {(op, True) for op in prepared})
        self.assertEqual(len({op for op, _ in found}), 9, self.bench.stderr)

    def test_the_cost_of_each_comparison_is_printed(self):
        costs = re.findall(rf"v1 shadow {MISPRINT}/\w+ compared=(\d+) of \d+ differing=(\d+) "
                           r"cost=[0-9.]+ ms, [0-9.]+ ms a comparison", self.bench.stderr)
        self.assertEqual(len(costs), 9, self.bench.stderr)
        for compared, differing in costs:  # captured runs of a plan differ together, once
            self.assertGreater(int(differing), 0)
            self.assertLessEqual(int(differing), int(compared))


if __name__ == "__main__":
    unittest.main()
