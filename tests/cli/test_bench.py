# SPDX-License-Identifier: MIT
"""opreg bench: the documented columns, the ratio, the floor."""
import unittest

from support import WRONG_PLUGIN, CommandTest, run

KEYS = ["op", "format", "m", "n", "k", "problem", "kernel", "level", "us", "spread", "floor_us",
        "pct_floor", "gbps", "ratio", "nmse", "cold", "device", "driver", "toolkit", "date", "command"]


class Bench(CommandTest):
    def test_a_line_has_time_floor_error_and_ratio(self):
        rows = self.objects(run("bench", "--json", "--problem", "n=256 k=1024 b=q4_k",
                                flags={"OPREG_CPU": "fast"}))
        self.assertEqual(list(rows[0])[:len(KEYS)], KEYS)
        baseline = [r for r in rows if r["kernel"] == "cpu/reference_matmul"]
        self.assertEqual(len(baseline), 1)
        self.assertEqual(baseline[0]["ratio"], 1)
        for r in rows:
            with self.subTest(kernel=r["kernel"]):
                self.assertGreater(r["us"], 0)
                self.assertGreater(r["floor_us"], 0)
                self.assertLess(r["nmse"], 5e-4)
                self.assertTrue(r["cold"])
                self.assertAlmostEqual(r["ratio"], baseline[0]["us"] / r["us"], delta=r["ratio"] / 100)
                self.assertAlmostEqual(r["pct_floor"], 100 * r["floor_us"] / r["us"],
                                       delta=r["pct_floor"] / 100)

    def test_people_get_one_line_a_case(self):
        done = run("bench", "--problem", "n=64 k=256 b=q8_0")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^matmul_bt_quant q8_0 +m1 +n64 +k256 +cpu/reference_matmul +"
                         r"[\d.]+ us \+/- [\d.]+ .* err .*\( 1\.00x\)\n$")
        self.assertIn("1 lines, 0 failed", done.stderr.splitlines()[-1])

    def test_a_variant_that_fails_is_said_and_counted(self):
        done = run("bench", "--problem", "n=64 k=256 b=q8_0", "--device", "cpu:7",
                   flags={"OPREG_PLUGIN_DIR": WRONG_PLUGIN, "OPREG_WRONG": "on",
                          "OPREG_WRONG_BREAKS": "on"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("FAILED: ", done.stdout)
        self.assertIn("driver error 700", done.stdout)

    def test_a_wrong_problem_is_wrong_usage(self):
        self.assert_refused(run("bench", "--problem", "n=64 k=250 b=q8_0"), "250")
        self.assert_refused(run("bench", "--op", "nothing"), "--op 'nothing'")


if __name__ == "__main__":
    unittest.main()
