# SPDX-License-Identifier: MIT
"""opreg bench: the documented columns, every operator, a model's shapes, another run, the page."""
import html.parser
import json
import pathlib
import re
import unittest

import gguf_model
from support import WRONG_PLUGIN, CommandTest, run, small_model

KEYS = ["op", "format", "m", "n", "k", "problem", "kernel", "level", "us", "spread", "floor_us",
        "pct_floor", "gbps", "ratio", "nmse", "cold", "device", "driver", "toolkit", "date", "command"]
BASELINES = pathlib.Path(__file__).parents[2] / "bench" / "baselines"

# problem, what its error must stay below (None: it has no float result)
OPERATORS = [
    ("m=2 n=64 k=512 b=q6_k x=q8_k", 5e-4),
    ("m=3 n=64 k=512 b=iq2_xxs glu=swiglu_oai x=bf16 y=f16", 5e-4),
    ("m=1 n=64 k=512 b=nvfp4 flags=bias x_stride=640", 5e-4),
    ("quantize_act m=2 k=512 q=q8_0", 5e-4),
    ("moe_matmul tokens=2 n=64 k=256 experts=16 top_k=4 b=rocmfp2_mix", 1e-10),
    ("moe_glu tokens=2 n=64 k=256 experts=16 top_k=4 b=q4_0 glu=gelu_tanh", 5e-4),
    ("moe_down tokens=2 n=64 k=256 experts=5 top_k=4 b=iq4_nl", 5e-4),
    ("moe_ffn tokens=2 hidden=256 inter=256 experts=16 top_k=4 b=q4_k down=q6_k", 1e-3),
    ("moe_route tokens=3 top_k=4 experts=16", None),
    ("moe_combine tokens=3 n=512 top_k=4", 1e-10),
    ("paged_attn_decode seqs=2 hq=8 hk=2 d=64 len=300 blocks=200 window=100 softcap=30 "
     "flags=sinks+lse+q_indptr max_q=3", 1e-6),
    ("paged_attn_decode seqs=3 hq=8 hk=2 d=64 len=257 flags=csr kv=f8_e4m3", 1e-6),
]


class Page(html.parser.HTMLParser):
    """Rows of the tables, addresses of anything outside, and whether every element is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.outside, self.unclosed = [], 0, [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br"):
            self.open.append(tag)
        self.rows += tag == "td" and ("class", "kernel") in attrs
        self.outside += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.unclosed.append(tag)


class Bench(CommandTest):
    def rows_file(self, name, rows):
        return self.write(name, "".join(json.dumps(row) + "\n" for row in rows).encode())

    def test_a_line_has_time_floor_error_and_ratio(self):
        rows = self.objects(run("bench", "--json", "--problem", "n=256 k=1024 b=q4_k",
                                flags={"OPREG_CPU": "fast"}))
        self.assertEqual(list(rows[0])[:len(KEYS)], KEYS)
        baseline = [r for r in rows if r["kernel"] == "cpu/reference_matmul"]
        self.assertEqual(len(baseline), 1)
        self.assertEqual(baseline[0]["ratio"], 1)
        self.assertEqual([r["chosen"] for r in rows], [True] + [False] * (len(rows) - 1))
        self.assertTrue(rows[0]["command"].startswith("OPREG_CPU=fast opreg bench "))
        for r in rows:
            with self.subTest(kernel=r["kernel"]):
                self.assertGreater(r["us"], 0)
                self.assertGreater(r["floor_us"], 0)
                self.assertLess(r["nmse"], 5e-4)
                self.assertTrue(r["cold"])
                self.assertAlmostEqual(r["ratio"], baseline[0]["us"] / r["us"], delta=r["ratio"] / 100)
                self.assertAlmostEqual(r["pct_floor"], 100 * r["floor_us"] / r["us"],
                                       delta=r["pct_floor"] / 100)

    def test_every_operator_has_a_time_and_an_error_in_its_band(self):
        problems = [word for problem, _ in OPERATORS for word in ("--problem", problem)]
        rows = self.objects(run("bench", "--json", *problems))
        self.assertEqual(len(rows), len(OPERATORS))
        for row, (problem, band) in zip(rows, OPERATORS):
            with self.subTest(problem=problem):
                self.assertGreater(row["us"], 0)
                self.assertGreater(row["warm_us"], 0)
                self.assertGreater(row["bytes"], 0)
                if band is None:
                    self.assertIsNone(row["nmse"])
                else:
                    self.assertLess(row["nmse"], band)
                    self.assertGreater(row["nmse"], 0)

    def test_a_wrong_result_has_its_error_beside_the_time(self):
        rows = self.objects(run("bench", "--json", "--problem", "n=64 k=256 b=q8_0", "--device",
                                "cpu:7", flags={"OPREG_PLUGIN_DIR": WRONG_PLUGIN, "OPREG_WRONG": "on",
                                                "OPREG_WRONG_BEYOND_BAND": "on"}))
        errors = {row["kernel"]: row["nmse"] for row in rows}
        self.assertLess(errors["wrong/right"], 5e-4)
        self.assertAlmostEqual(errors["wrong/beyond_band"], 0.01, delta=0.001)

    def test_people_get_one_line_a_case(self):
        done = run("bench", "--problem", "n=64 k=256 b=q8_0")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^matmul_bt_quant +q8_0 +m1 n64 k256 +cpu/reference_matmul +"
                         r"[\d.]+ us \+/- [\d.]+ +floor [\d.]+ us +[\d.]+ % .* warm [\d.]+ us +err .*"
                         r"\( 1\.00x\) +chosen\n$")
        self.assertIn("1 lines, 0 failed", done.stderr.splitlines()[-1])

    def test_the_shape_on_the_line_tells_problems_apart(self):
        rows = [{"op": "paged_attn_decode", "kernel": "p/k", "us": 1, "problem":
                 f"seqs=2 hq=8 hk=4 d=64 len=512 kv=f16 window={window}"} for window in (0, 128)]
        rows.append({"op": "moe_glu", "kernel": "p/k", "us": 1, "m": 4, "n": 640, "k": 2560,
                     "problem": "tokens=4 n=640 k=2560 experts=512 top_k=10 b=q4_k"})
        done = run("bench", "--from", self.rows_file("shapes.jsonl", rows))
        lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
        self.assertIn("- s2 len512 hq8 hk4 d64 f16 p/k", lines[0])
        self.assertIn("d64 window128 f16 p/k", lines[1])
        self.assertIn("m4 n640 k2560 e512 top10 p/k", lines[2])

    def test_a_variant_that_fails_is_said_and_counted(self):
        done = run("bench", "--problem", "n=64 k=256 b=q8_0", "--device", "cpu:7",
                   flags={"OPREG_PLUGIN_DIR": WRONG_PLUGIN, "OPREG_WRONG": "on",
                          "OPREG_WRONG_BREAKS": "on"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("FAILED: ", done.stdout)
        self.assertIn("driver error 700", done.stdout)

    def test_wrong_usage_is_refused(self):
        model = self.write("some.gguf", small_model(q8_0=(64, 512)))
        for arguments, part in [
            (["--problem", "n=64 k=250 b=q8_0"], "250"),
            (["--op", "nothing"], "--op 'nothing'"),
            (["--problem", "n=64 k=256 b=q8_0", "--model", model], "exclude each other"),
            (["--model", model, "--tokens", "0"], "--tokens"),
            (["--model", self.folder / "none.gguf"], "none.gguf"),
            (["--from", self.folder / "none.jsonl"], "none.jsonl"),
            (["--from", self.write("bad.jsonl", b'{"op":"x","kernel":"y"}\n{"op":1}\n')], "line 2"),
            (["--from", self.write("bad.tsv", b"no row\n")], "line 1"),
        ]:
            with self.subTest(part=part):
                self.assert_refused(run("bench", *arguments), part)

    def test_checks_that_are_timed_are_warned_of(self):
        for variable, word in (("OPREG_GUARD", "on"), ("OPREG_SHADOW", "1/4")):
            done = run("bench", "--problem", "n=64 k=256 b=q8_0", flags={variable: word})
            self.assertIn(f"warning: {variable} is {word}: its checks are in the times", done.stderr)

    # ---- a model ----

    def model(self):
        v, m = gguf_model.Vectors(), gguf_model.Model()
        name, text, number = "general.architecture", gguf_model.key_string, gguf_model.key_u32
        m.keys = [text(name, "test")] + [number(f"test.{key}", value) for key, value in (
            ("block_count", 2), ("embedding_length", 256), ("attention.head_count", 4),
            ("attention.head_count_kv", 2), ("context_length", 64), ("expert_used_count", 2))]

        def add(tensor, dims, form):
            rows = dims[1] * (dims[2] if len(dims) > 2 else 1)
            m.add(tensor, dims, v.formats[form]["type_id"], v.matrix(form, rows, dims[0]))

        add("token_embd.weight", (256, 96), "q8_0")
        add("output.weight", (256, 96), "q6_K")
        for layer in range(2):
            add(f"blk.{layer}.attn_q.weight", (256, 256), "q4_K")
            add(f"blk.{layer}.attn_output.weight", (256, 256), "q4_K")
            add(f"blk.{layer}.ffn_gate_exps.weight", (256, 64, 4), "q4_0")
            add(f"blk.{layer}.ffn_up_exps.weight", (256, 64, 4), "q4_0")
            add(f"blk.{layer}.ffn_down_exps.weight", (64, 256, 4), "q8_0")
        return self.write("model.gguf", m)

    def test_a_model_gives_each_of_its_problems_once_and_their_sum(self):
        done = run("bench", "--json", "--model", self.model(), "--tokens", 3)
        rows = self.objects(done)
        seen = {(r["op"], r["format"], r["m"], r["n"], r["k"]): r["count"] for r in rows[:-1]}
        self.assertEqual(seen, {
            ("matmul_bt_quant", "q6_k", 3, 96, 256): 1,
            ("matmul_bt_quant", "q4_k", 3, 256, 256): 4,
            ("moe_glu", "q4_0", 3, 64, 256): 2,
            ("moe_down", "q8_0", 3, 256, 64): 2,
            ("moe_ffn", "q4_0", 3, 64, 256): 2,
            ("moe_route", None, 3, None, None): 2,
            ("moe_combine", None, 3, 256, None): 2,
            ("paged_attn_decode", None, None, None, None): 2,
        })
        attention = [r for r in rows if r["op"] == "paged_attn_decode"][0]
        self.assertIn("seqs=3 hq=4 hk=2 d=64 len=64 ", attention["problem"])
        for row in rows[:-1]:
            self.assertTrue(row["nmse"] is None or row["nmse"] < 1e-3, row)
        spent = {r["op"]: 0 for r in rows}
        for row in rows[:-1]:
            spent[row["op"]] += row["count"] * row["us"]
        staged = spent["moe_glu"] + spent["moe_down"] + spent["moe_combine"]
        rest = spent["matmul_bt_quant"] + spent["moe_route"] + spent["paged_attn_decode"]
        self.assertEqual(rows[-1]["op"], "token")
        self.assertAlmostEqual(rows[-1]["us"], rest + min(staged, spent["moe_ffn"]),
                               delta=rows[-1]["us"] / 1000)

    # ---- another run ----

    def earlier(self):
        """Rows of a run with times that leave no doubt."""
        rows = self.objects(run("bench", "--json", "--problem", "n=64 k=256 b=q8_0", "--problem",
                                "n=64 k=256 b=q4_0", flags={"OPREG_CPU": "fast"}))
        for row in rows:
            row.update(us=100.0, spread=1.0)
        return rows

    def against(self, now, then, *more):
        return run("bench", "--from", self.rows_file("now.jsonl", now), "--against",
                   self.rows_file("then.jsonl", then), *more)

    def test_another_run_is_compared_by_time_and_choice(self):
        then = self.earlier()
        now = [dict(row) for row in then]
        self.assertEqual(self.against(now, then).returncode, 0)
        with self.subTest("inside the spreads"):
            now[0]["us"] = 102.0
            self.assertEqual(self.against(now, then).returncode, 0)
        with self.subTest("slower than both spreads and the tolerance"):
            now[0]["us"] = 102.5
            done = self.against(now, then)
            self.assertEqual(done.returncode, 1)
            self.assertIn("was 100.00 us, +2.5 %: REGRESSED", done.stdout.splitlines()[0])
            self.assertIn("1 worse", done.stderr)
            self.assertEqual(self.against(now, then, "--tolerance", 3).returncode, 0)
        with self.subTest("faster"):
            now[0]["us"] = 50.0
            rows = self.objects(self.against(now, then, "--json"))
            self.assertEqual((rows[0]["change"], rows[0]["was_us"]), ("faster", 100.0))
        with self.subTest("a plan takes another variant"):
            now[0].update(us=100.0, chosen=False)
            now[1]["chosen"] = True
            done = self.against(now, then)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"WAS CHOSEN: {then[0]['kernel']}", done.stdout.splitlines()[1])
        with self.subTest("nothing of this device"):
            for row in now:
                row["device"] = "another"
            done = self.against(now, then)
            self.assertEqual(done.returncode, 2)
            self.assertIn("nothing in ", done.stderr)

    def test_a_measured_run_is_compared_as_it_goes(self):
        then = self.earlier()
        for row in then:
            row.update(us=1e-3, spread=0.0)
        done = run("bench", "--problem", "n=64 k=256 b=q8_0", "--against",
                   self.rows_file("fast.jsonl", then))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"  was 0\.00 us, \+\d+")
        self.assertIn("  WAS CHOSEN: cpu/", done.stdout)

    def test_the_baselines_of_the_repository_are_rows(self):
        path = BASELINES / "h200.tsv"
        done = run("bench", "--from", path, "--against", path)
        lines = len([x for x in path.read_text().splitlines() if x and not x.startswith(("#", "op\t"))])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{lines} lines, 0 failed, {lines} compared with {path}, 0 worse", done.stderr)

    def test_columns_are_those_of_the_baselines(self):
        path = BASELINES / "h200.tsv"
        done = run("bench", "--from", path, "--tsv")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines(), path.read_text().splitlines())

    # ---- the page ----

    def test_the_page_needs_nothing_else_and_has_every_row(self):
        rows = self.earlier()
        rows[0]["command"] = "opreg bench '</script><b>' & more"
        path = self.folder / "page.html"
        done = run("bench", "--from", self.rows_file("rows.jsonl", rows), "--html", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = path.read_text()
        page = Page(text)
        self.assertEqual((page.open, page.unclosed, page.outside), ([], [], []))
        self.assertEqual(page.rows, len(rows))
        self.assertIn("opreg bench '&lt;/script&gt;&lt;b&gt;' &amp; more", text)
        data = re.search(r'<script type="application/json" id="rows">(.*?)</script>', text).group(1)
        self.assertEqual(json.loads(data)[0]["command"], rows[0]["command"])
        self.assertNotIn("@import", text)

    def test_rows_of_a_file_cannot_put_elements_into_the_page(self):
        keys = ["op", "format", "problem", "kernel", "level", "device", "driver", "toolkit", "date",
                "command", "failed", "device_id"]
        row = {**dict.fromkeys(keys, "<i id=bad>\"'&</script>"), "us": 1, "m": 1e300, "n": -1, "k": {},
               "nmse": 1e-300, "pct_floor": 1e308, "count": "many", "cold": 7}
        path = self.folder / "hostile.html"
        for failed in (row["failed"], None):
            done = run("bench", "--from", self.rows_file("hostile.jsonl", [{**row, "failed": failed}]),
                       "--html", path)
            self.assertIn(done.returncode, (0, 1), done.stderr)
            page = Page(path.read_text())
            self.assertEqual((page.open, page.unclosed, page.rows), ([], [], 1))
            self.assertNotIn("<i id", path.read_text())

    def test_a_page_that_cannot_be_written_is_said(self):
        done = run("bench", "--from", self.rows_file("r.jsonl", self.earlier()), "--html",
                   self.folder / "no" / "page.html")
        self.assertEqual(done.returncode, 2)
        self.assertIn("cannot write", done.stderr)


if __name__ == "__main__":
    unittest.main()
