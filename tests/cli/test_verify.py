# SPDX-License-Identifier: MIT
"""opreg verify: good models, wrong variants, bad files."""
import struct
import unittest

import gguf_model
from support import READINGS, WRONG_PLUGIN, CommandTest, run, small_model

KEYS = {"tensor", "format", "n", "k", "m", "kernel", "level", "nmse", "bits_equal", "us", "gbps"}


class GoodModels(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.full = cls.folder / "full.gguf"
        cls.full.write_bytes(gguf_model.full_model().bytes())

    def test_every_format_holds_on_the_reference(self):
        done = run("verify", self.full, "--json", *READINGS)
        rows = self.objects(done)
        formats = {name.lower() for name in gguf_model.Vectors().formats}
        self.assertEqual({r["format"] for r in rows}, formats)
        for r in rows:
            with self.subTest(tensor=r["tensor"], m=r["m"]):
                self.assertTrue(r["bits_equal"])
                self.assertIsNone(r["failed"])
                self.assertLessEqual(r["nmse"], 2e-3)
                self.assertLessEqual(r["oracle"], 1)
        summary = done.stderr.splitlines()[-1]
        self.assertTrue(summary.startswith("opreg verify: OK: "), summary)

    def test_every_format_holds_on_every_cpu_variant(self):
        rows = self.objects(run("verify", self.full, "--json", *READINGS,
                                flags={"OPREG_CPU": "fast"}))
        self.assertGreaterEqual({r["kernel"] for r in rows},
                                {"cpu/reference_matmul", "cpu/reference_moe_matmul"})
        self.assertTrue(all(r["bits_equal"] for r in rows if r["level"] == "canonical"))

    def test_the_documented_keys_are_there(self):
        row = self.objects(run("verify", self.full, "--json", *READINGS, "--tensor",
                               "q8_0.weight"))[0]
        self.assertLessEqual(KEYS, set(row))
        self.assertEqual((row["tensor"], row["format"], row["n"], row["k"], row["m"]),
                         ("q8_0.weight", "q8_0", 64, 512, 1))
        self.assertGreater(row["us"], 0)
        self.assertGreater(row["gbps"], 0)

    def test_widths_one_and_four_are_run(self):
        rows = self.objects(run("verify", self.full, "--json", *READINGS, "--tensor", "q4_0.weight"))
        self.assertEqual([r["m"] for r in rows], [1, 4])

    def test_expert_tensors_go_through_the_grouped_operator(self):
        rows = self.objects(run("verify", self.full, "--json", *READINGS, "--tensor", "*_exps*"))
        self.assertEqual({r["op"] for r in rows}, {"moe_matmul"})
        self.assertEqual({r["experts"] for r in rows}, {6})
        self.assertEqual({r["top_k"] for r in rows}, {2})  # test.expert_used_count

    def experts_of(self, value_key, warning):
        v, model = gguf_model.Vectors(), gguf_model.Model()
        model.keys = [gguf_model.key_string("general.architecture", "test")]
        model.keys += [value_key] if value_key else []
        for layer in range(2):
            model.add(f"blk.{layer}.ffn_up_exps.weight", (64, 4, 6), v.formats["q8_0"]["type_id"],
                      v.matrix("q8_0", 4 * 6, 64))
        done = run("verify", self.write("experts.gguf", model), "--json")
        lines = done.stderr.splitlines()
        if warning:
            self.assertEqual(len(lines), 2, done.stderr)  # once for both layers, and the summary
            self.assertIn(f"warning: key 'test.expert_used_count' is {warning}, not 1..6; run with "
                          "4 experts a token", lines[0])
        else:
            self.assertEqual(len(lines), 1, done.stderr)
        return {r["top_k"] for r in self.objects(done)}

    def test_a_count_of_used_experts_that_cannot_be_is_said_once(self):
        key = "test.expert_used_count"
        for value in (0, 7, 1 << 31):
            with self.subTest(value=value):
                self.assertEqual(self.experts_of(gguf_model.key_u32(key, value), str(value)), {4})
        self.assertEqual(self.experts_of(gguf_model.key_string(key, "2"), "no number from 0"), {4})
        self.assertEqual(self.experts_of(gguf_model.key_u32(key, 6), ""), {6})
        self.assertEqual(self.experts_of(None, ""), {4})

    def test_two_dimensions_are_run_even_when_one_is_1(self):
        v, model = gguf_model.Vectors(), gguf_model.Model()
        for name, ne in (("two", (64, 1)), ("three", (64, 1, 1)), ("one", (64,))):
            model.add(name, ne, v.formats["q8_0"]["type_id"], v.matrix("q8_0", 1, 64))
        done = run("verify", self.write("rows.gguf", model), "--json")
        self.assertEqual({(r["tensor"], r["n"], r["op"]) for r in self.objects(done)},
                         {("two", 1, "matmul_bt_quant"), ("three", 1, "matmul_bt_quant")})
        self.assertIn("skipped 1 (1 one dimension", done.stderr)

    def test_rows_samples_and_says_so(self):
        done = run("verify", self.full, "--json", *READINGS, "--rows", "8")
        self.assertEqual({r["rows"] for r in self.objects(done)}, {8})
        self.assertIn("at most 8 rows of each tensor", done.stderr)

    def test_the_table_fits_and_ends_with_a_summary(self):
        done = run("verify", self.full, *READINGS)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(all(len(line) <= 120 for line in done.stdout.splitlines()))
        self.assertTrue(done.stdout.startswith("TENSOR"))
        self.assertIn("skipped 2 (2 one dimension", done.stderr.splitlines()[-1])

    def test_the_same_seed_gives_the_same_errors(self):
        def errors(seed):
            rows = self.objects(run("verify", self.full, "--json", *READINGS, "--tensor", "q4_k*",
                                    "--seed", seed))
            return [r["nmse"] for r in rows]
        self.assertEqual(errors(5), errors(5))
        self.assertNotEqual(errors(5), errors(6))

    def test_the_tensor_scale_of_a_file_reaches_the_product(self):
        # a wrong scale would be 25 % off everywhere
        rows = self.objects(run("verify", self.full, "--json", *READINGS, "--tensor", "nvfp4.w*"))
        self.assertTrue(all(r["nmse"] < 5e-4 for r in rows))

    def test_readings_of_107_differ(self):
        def error(reading):
            rows = self.objects(run("verify", self.full, "--json", "--type", "42=q2_0", "--type",
                                    f"107=rocmfp2:{reading}", "--tensor", "rocmfp2.*"))
            return rows[0]["nmse"]
        self.assertNotEqual(error("plain"), error("s40"))

    def test_header_only_runs_nothing(self):
        done = run("verify", self.full, "--header-only", *READINGS)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertIn("the structure is sound", done.stderr)

    def test_nothing_to_run_is_no_success(self):
        done = run("verify", self.full, *READINGS, "--tensor", "no such tensor")
        self.assertEqual(done.returncode, 2)
        self.assertIn("NOTHING RUN", done.stderr)


class WrongVariants(CommandTest):
    """A plugin whose variants are wrong: each is named with the check that it fails."""

    FLAGS = {"OPREG_PLUGIN_DIR": WRONG_PLUGIN, "OPREG_WRONG": "on"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.folder / "model.gguf"
        cls.model.write_bytes(small_model(q8_0=(300, 2048)).bytes())

    def verify(self, variant, *more):
        flags = dict(self.FLAGS)
        if variant:
            flags[f"OPREG_WRONG_{variant.upper()}"] = "on"
        return run("verify", self.model, *more, flags=flags)

    def row(self, variant, status):
        rows = self.objects(self.verify(variant, "--json"), status)
        return [r for r in rows if r["kernel"] == f"wrong/{variant}"][-1]

    def test_the_right_baseline_passes(self):
        rows = self.objects(self.verify(None, "--json"))
        self.assertEqual({r["kernel"] for r in rows}, {"cpu/reference_matmul", "wrong/right"})
        self.assertTrue(all(r["bits_equal"] for r in rows))

    def test_another_order_of_sums_is_not_canonical(self):
        row = self.row("other_order", 1)
        self.assertEqual((row["failed"], row["bits_equal"]), ("bits", False))
        self.assertRegex(row["detail"], r"output row \d+ column \d+ is .*, the reference has")

    def test_another_order_of_sums_is_int(self):
        row = self.row("same_sums", 0)
        self.assertEqual((row["failed"], row["bits_equal"]), (None, False))

    def test_a_sum_beyond_its_bound_fails_the_oracle(self):
        row = self.row("beyond_bound", 1)
        self.assertEqual(row["failed"], "oracle")
        self.assertIn("column 299", row["detail"])

    def test_a_result_beyond_the_band_fails_it(self):
        row = self.row("beyond_band", 1)
        self.assertEqual(row["failed"], "band")
        self.assertIsNone(row["oracle"])  # not asked of a band

    def test_an_unwritten_output_fails(self):
        row = self.row("unwritten", 1)
        self.assertEqual(row["failed"], "band")
        self.assertIsNone(row["nmse"])  # not a number

    def test_a_run_that_fails_carries_the_plugins_text(self):
        row = self.row("breaks", 1)
        self.assertEqual(row["failed"], "run")
        self.assertIn("driver error 700", row["detail"])

    def test_the_table_names_the_failed_check(self):
        done = self.verify("other_order")
        self.assertEqual(done.returncode, 1)
        self.assertIn("\n  FAILED bits: output row", done.stdout)
        self.assertTrue(done.stderr.splitlines()[-1].startswith("opreg verify: FAILED: "))

    def test_device_limits_the_devices(self):
        rows = self.objects(self.verify("other_order", "--json", "--device", "cpu:0"))
        self.assertEqual({r["kernel"] for r in rows}, {"cpu/reference_matmul"})

    def test_a_format_that_a_device_does_not_take_is_said(self):
        path = self.write("other.gguf", small_model(q4_0=(64, 512)))
        done = run("verify", path, flags=self.FLAGS)
        self.assertEqual(done.returncode, 0)
        self.assertIn("not run on cpu:7/any: ", done.stdout)
        self.assertIn("2 times no variant of a device took a tensor", done.stderr)


class BadFiles(CommandTest):
    def refused(self, name, data, *parts, options=()):
        self.assert_refused(run("verify", self.write(name, data), *options), "offset ", *parts)

    def test_a_missing_file(self):
        self.assert_refused(run("verify", self.folder / "none.gguf"), "cannot open: No such file")

    def test_a_folder(self):
        self.assert_refused(run("verify", self.folder), "not a regular file")

    def test_an_empty_file(self):
        self.refused("empty.gguf", b"", "the file is empty")

    def test_something_else(self):
        self.refused("text.gguf", b"hello world, this is no model", "starts with 'hell'")

    def test_an_old_version(self):
        self.refused("v1.gguf", b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "GGUF version 1")

    def test_a_truncated_file(self):
        data = small_model(q8_0=(64, 512)).bytes()
        self.refused("cut.gguf", data[:-1], "end past")
        self.refused("cut2.gguf", data[:60], "more")

    def test_an_unknown_type(self):
        model = small_model()
        model.add("w", (32, 2), 4242, bytes(64))
        self.refused("type.gguf", model, "tensor 'w'", "type id 4242 is unknown")

    def test_ids_with_several_meanings_are_never_guessed(self):
        self.refused("q2_0.gguf", small_model(q2_0=(4, 64)), "--type 42=q2_0")
        self.refused("fp2.gguf", small_model(rocmfp2=(4, 64)), "--type 107=rocmfp2:DIALECT")

    def test_a_wrong_reading_is_wrong_usage(self):
        path = self.write("good.gguf", small_model(q8_0=(4, 64)))
        for text, part in (("42", "ID=FORMAT"), ("42=q9", "q9"), ("107=rocmfp2:loud", "loud")):
            self.assert_refused(run("verify", path, "--type", text), part)

    def test_an_id_that_means_one_thing_gets_no_other_format(self):
        path = self.write("known.gguf", small_model(q8_0=(4, 64)))
        for text, means in (("8=q4_0", "q8_0"), ("0=f16", "f32"), ("24=q8_0", "i8"),
                            ("40=q8_0", "nvfp4")):
            self.assert_refused(run("verify", path, "--type", text),
                                f"type id {text.split('=')[0]} means {means} in every file")
        for text in ("8=q8_0", "40=nvfp4:signed", "4242=q8_0"):
            done = run("verify", path, "--header-only", "--type", text)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_unknown_id_may_be_given_a_format(self):
        model = small_model()
        model.add("w", (64, 4), 4242, gguf_model.Vectors().matrix("q8_0", 4, 64))
        path = self.write("own.gguf", model)
        rows = self.objects(run("verify", path, "--json", "--type", "4242=q8_0"))
        self.assertEqual({r["format"] for r in rows}, {"q8_0"})

    def test_an_id_is_a_number_from_0(self):
        path = self.write("signs.gguf", small_model(q8_0=(4, 64)))
        for text in ("-1=q8_0", "+8=q8_0", " 8=q8_0", "4294967304=q8_0", "=q8_0"):
            self.assert_refused(run("verify", path, "--type=" + text), "ID a number from 0")

    def test_missing_side_data(self):
        self.refused("gqh.gguf", small_model(gqh3=(4, 256)), "tensor 'gqh3.weight'", "side data")

    def test_broken_side_data(self):
        model = small_model(gqh3=(4, 256))
        model.keys.append(gguf_model.key_bytes("geoquant.gqh.headers",
                                               b"GQHh1\0\0\0" + struct.pack("<II", 5, 0)))
        self.refused("side.gguf", model, "geoquant.gqh.headers")

    def test_a_bad_block_is_named_by_tensor_and_block(self):
        model = small_model(q8_0=(64, 512), q4_0=(64, 512))
        data = bytearray(model.bytes())
        at = data.rindex(model.tensors[0][3][:600])  # the q8_0 tensor
        block = at + (5 * 16 + 3) * 34               # row 5, block 3
        data[block:block + 2] = struct.pack("<H", 0x7c00)
        done = run("verify", self.write("bad.gguf", bytes(data)), "--json")
        rows = self.objects(done, 2)
        bad = [r for r in rows if "invalid" in r]
        self.assertEqual(len(bad), 1)
        self.assertEqual((bad[0]["tensor"], bad[0]["offset"]), ("q8_0.weight", block))
        self.assertTrue(bad[0]["invalid"].startswith("row 5, block 3: "), bad[0]["invalid"])
        self.assertEqual({r["tensor"] for r in rows if "kernel" in r}, {"q4_0.weight"})
        self.assertEqual(len(done.stderr.splitlines()), 2)
        self.assertIn("INVALID", done.stderr.splitlines()[-1])

    def test_a_bad_block_of_an_expert_is_named_by_expert(self):
        v, model = gguf_model.Vectors(), gguf_model.Model()
        blocks = bytearray(v.matrix("q8_0", 4 * 3, 64))
        at = (2 * 4 + 1) * 68 + 34  # expert 2, row 1, block 1
        blocks[at:at + 2] = struct.pack("<H", 0xfc00)
        model.add("blk.0.ffn_up_exps.weight", (64, 4, 3), 8, bytes(blocks))
        done = run("verify", self.write("expert.gguf", model))
        self.assertEqual(done.returncode, 2)
        self.assertIn("expert 2, row 1, block 1: ", done.stderr)

    def test_huge_counts_take_no_memory(self):
        head = b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0)
        self.refused("huge.gguf", head, "do not fit")

    def test_a_name_is_never_printed_raw(self):
        model = small_model()
        model.add("\x1b[31mred", (1, 2), 0, bytes(8))
        done = run("verify", self.write("name.gguf", model))
        self.assertEqual(done.returncode, 2)
        self.assertNotIn("\x1b", done.stderr)


if __name__ == "__main__":
    unittest.main()
