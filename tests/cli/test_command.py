# SPDX-License-Identifier: MIT
"""opreg itself, list, explain and test: output, wrong usage, exit status."""
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from support import COMMAND, WRONG_PLUGIN, CommandTest, run, small_model

PROBLEM = ["matmul_bt_quant", "m=1", "n=4096", "k=4096", "b=q4_k", "x=f32", "y=f32"]


class Usage(CommandTest):
    def test_version_is_the_librarys(self):
        done = run("--version")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^opreg \d+\.\d+\.\d+\n$")

    def test_help_names_every_command(self):
        done = run("--help")
        self.assertEqual(done.returncode, 0)
        for word in ("list", "explain", "verify", "bench", "test", "completion", "manual"):
            self.assertIn(f"  {word} ", done.stdout)

    def test_each_command_has_help_of_its_own(self):
        for word in ("list", "explain", "verify", "bench", "test"):
            with self.subTest(command=word):
                done = run(word, "--help")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertTrue(done.stdout.startswith(f"usage: opreg {word} "))
                self.assertIn("--help", done.stdout)

    def test_no_command_is_wrong_usage(self):
        self.assert_refused(run(), "usage: opreg COMMAND")

    def test_an_unknown_command_names_the_nearest(self):
        self.assert_refused(run("verfy"), "unknown command 'verfy'", "did you mean verify?")

    def test_a_command_like_no_other_points_to_the_help(self):
        self.assert_refused(run("xyzzyplugh"), "opreg --help")

    def test_an_unknown_option_names_the_nearest(self):
        self.assert_refused(run("list", "--jsn"), "unknown option '--jsn'", "did you mean --json?")
        self.assert_refused(run("verify", "--row=3", "x"), "did you mean --rows?")

    def test_an_option_without_its_value_is_wrong_usage(self):
        self.assert_refused(run("explain", "--device"), "--device needs its NAME")
        self.assert_refused(run("verify", "--rows", "many", "x"), "--rows takes a number", "'many'")
        self.assert_refused(run("list", "--json=yes"), "--json takes no value")

    def test_an_argument_too_many_is_wrong_usage(self):
        self.assert_refused(run("list", "everything"), "'everything' is one argument too many")

    def test_it_runs_from_any_folder_and_without_a_home(self):
        done = run("list", cwd="/", flags={"HOME": "/nonexistent"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("cpu/reference_matmul", done.stdout)

    def test_plugins_are_found_beside_it_however_it_is_called(self):
        prefix = self.folder / "prefix"
        (prefix / "bin").mkdir(parents=True)
        (prefix / "lib" / "opreg").mkdir(parents=True)
        shutil.copy(COMMAND, prefix / "bin" / "opreg")
        shutil.copy(pathlib.Path(WRONG_PLUGIN) / "wrong.manifest", prefix / "lib" / "opreg")
        environment = {"PATH": f"{prefix}/bin:/usr/bin:/bin"}
        for folder, word in (("/", "opreg"), (prefix, "bin/opreg"), ("/", f"{prefix}/bin/opreg")):
            with self.subTest(command=word):
                done = subprocess.run(["sh", "-c", f"{word} list"], cwd=folder, env=environment,
                                      capture_output=True, text=True)
                self.assertIn("\nwrong ", done.stdout, done.stderr)

    def test_a_reader_that_leaves_ends_it_quietly(self):
        done = subprocess.run(["bash", "-c", 'set -o pipefail; "$0" list --env | head -n 1; '
                               'echo "${PIPESTATUS[0]}"', COMMAND], capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        self.assertIn(done.stdout.splitlines()[-1], ("0", "141"))

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "w") as full:
            environment = {k: v for k, v in os.environ.items() if not k.startswith("OPREG_")}
            done = subprocess.run([COMMAND, "list"], stdout=full, stderr=subprocess.PIPE, text=True,
                                  env=environment)
        self.assertEqual(done.returncode, 2)
        self.assertIn("cannot write the output", done.stderr)


class List(CommandTest):
    def test_the_cpu_backend_is_always_there(self):
        rows = self.objects(run("list", "--json"))
        plugins = [r for r in rows if r["kind"] == "plugin" and r["plugin"] == "cpu"]
        self.assertEqual([p["state"] for p in plugins], ["ready"])
        devices = [r for r in rows if r["kind"] == "device"]
        self.assertTrue(devices[0]["device"].startswith("cpu:0/"))

    def test_every_variant_says_whether_it_is_on(self):
        rows = [r for r in self.objects(run("list", "--json")) if r["kind"] == "variant"]
        self.assertGreater(len(rows), 8)
        for r in rows:
            with self.subTest(kernel=r["kernel"]):
                self.assertEqual(r["enabled"], r["baseline"])  # nothing else is on by default

    def test_a_level_in_the_environment_switches_variants_on(self):
        rows = self.objects(run("list", "--json", "--plugin", "cpu", flags={"OPREG_CPU": "fast"}))
        self.assertTrue(all(r["enabled"] for r in rows if r["kind"] == "variant"))

    def test_env_lists_each_flag_with_value_and_source(self):
        rows = self.objects(run("list", "--env", "--json", flags={"OPREG_CPU": "exact"}))
        flags = {r["variable"]: r for r in rows}
        self.assertEqual(flags["OPREG_CPU"]["value"], "exact")
        self.assertEqual(flags["OPREG_CPU"]["source"], "environment")
        self.assertEqual(flags["OPREG_TRACE"]["source"], "default")
        self.assertEqual(set(flags["OPREG_TRACE"]), {"kind", "flag", "variable", "value", "source",
                                                     "values", "summary"})

    def test_a_plugin_that_is_off_is_listed_with_its_variants(self):
        rows = self.objects(run("list", "--json", flags={"OPREG_PLUGIN_DIR": WRONG_PLUGIN}))
        states = {r["plugin"]: r["state"] for r in rows if r["kind"] == "plugin"}
        self.assertEqual(states["wrong"], "off")
        kernels = {r["kernel"] for r in rows if r["kind"] == "variant" and r["plugin"] == "wrong"}
        self.assertIn("other_order", kernels)

    def test_plugin_limits_the_variants(self):
        rows = self.objects(run("list", "--json", "--plugin", "wrong",
                                flags={"OPREG_PLUGIN_DIR": WRONG_PLUGIN}))
        self.assertEqual({r["plugin"] for r in rows if r["kind"] == "variant"}, {"wrong"})

    def test_an_unknown_plugin_names_the_nearest(self):
        flags = {"OPREG_PLUGIN_DIR": WRONG_PLUGIN}
        for more in ([], ["--env"], ["--json"]):
            self.assert_refused(run("list", "--plugin", "wrogn", *more, flags=flags),
                                "no plugin 'wrogn'", "did you mean wrong?")
        self.assert_refused(run("list", "--plugin", "xyzzyplugh"), "opreg list prints")

    def test_an_unknown_variable_is_warned_about_with_the_nearest_name(self):
        done = run("list", flags={"OPREG_TRACR": "on"})
        self.assertEqual(done.returncode, 0)
        self.assertIn("OPREG_TRACE", done.stderr)


class Explain(CommandTest):
    def test_every_variant_has_a_verdict(self):
        rows = self.objects(run("explain", *PROBLEM, "--json"))
        self.assertEqual(rows[0]["kernel"], "cpu/reference_matmul")
        self.assertEqual((rows[0]["verdict"], rows[0]["rank"]), ("ok", 0))
        for r in rows[1:]:
            self.assertEqual((r["verdict"], r["rank"]), ("off", -1))
            self.assertIn("OPREG_CPU_", r["reason"])

    def test_a_refusal_has_a_reason(self):
        rows = self.objects(run("explain", "matmul_bt_quant", "n=64", "k=64", "b=q4_0", "--json",
                                flags={"OPREG_PLUGIN_DIR": WRONG_PLUGIN, "OPREG_WRONG": "fast"}))
        refused = [r for r in rows if r["verdict"] == "refused"]
        self.assertGreater(len(refused), 0)
        self.assertTrue(all(r["reason"] for r in refused))

    def test_people_get_a_table_with_the_whole_problem(self):
        done = run("explain", *PROBLEM)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(done.stdout.startswith("matmul_bt_quant m=1 n=4096 k=4096 b=q4_k"))
        self.assertRegex(done.stdout, r"\n +0  cpu/reference_matmul +canonical ok")

    def test_device_limits_the_devices(self):
        flags = {"OPREG_PLUGIN_DIR": WRONG_PLUGIN, "OPREG_WRONG": "on"}
        rows = self.objects(run("explain", *PROBLEM, "--json", flags=flags))
        self.assertEqual({r["device"].split("/")[0] for r in rows}, {"cpu:0", "cpu:7"})
        rows = self.objects(run("explain", *PROBLEM, "--json", "--device", "cpu:7", flags=flags))
        self.assertEqual({r["device"].split("/")[0] for r in rows}, {"cpu:7"})
        self.assert_refused(run("explain", *PROBLEM, "--device", "cuda:9"), "no device 'cuda:9'")

    def test_an_unknown_operator_names_the_nearest(self):
        self.assert_refused(run("explain", "matmul_bt_qant", "n=1"), "did you mean matmul_bt_quant?")
        self.assert_refused(run("explain"), "which operator?")

    def test_a_wrong_key_or_value_is_named(self):
        self.assert_refused(run("explain", "matmul_bt_quant", "n=64", "k=64", "b=q4_0", "wide=3"),
                            "wide")
        self.assert_refused(run("explain", "matmul_bt_quant", "n=64", "k=64", "b=q9_x"), "q9_x")

    def test_a_problem_that_contradicts_itself_is_refused(self):
        self.assert_refused(run("explain", "matmul_bt_quant", "n=64", "k=65", "b=q4_0"), "65", "32")


    def test_a_size_is_never_negative(self):
        # h alone is more than 2^63 bytes: the library may refuse that, and a row may have null
        done = run("explain", "moe_ffn", "tokens=2000000000", "top_k=1", "experts=1", "hidden=32",
                   "inter=1073741824", "b=q8_0", "down=q8_0", "--json")
        if done.returncode != 0:
            self.assert_refused(done)
            return
        for r in self.objects(done):
            self.assertTrue(r["workspace"] is None or r["workspace"] >= 0, r)


class NewPlugin(CommandTest):
    def test_the_next_commands_are_printed_as_documented(self):
        done = run("new-plugin", "my-chip", cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        text = (Documentation.PAGES / "writing-a-plugin.md").read_text()
        lines = [line.strip() for line in done.stdout.splitlines()[1:]]
        self.assertEqual(len(lines), 3)
        for line in lines:
            plain = line.replace('"my-chip"', "my-chip").replace('"my-chip/build"', "my-chip/build")
            with self.subTest(line=line):
                self.assertIn("\n" + plain + "\n", text)

    def test_a_folder_from_the_root_stays_one(self):
        folder = self.folder / "a folder"
        done = run("new-plugin", "my-chip", folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(f'OPREG_PLUGIN_DIR="{folder}/build" opreg test', done.stdout)

    def test_an_installed_command_names_its_own_place(self):
        prefix = self.folder / "prefix"
        (prefix / "bin").mkdir(parents=True)
        (prefix / "include" / "opreg").mkdir(parents=True)
        (prefix / "include" / "opreg" / "opreg_plugin.h").touch()
        shutil.copy(COMMAND, prefix / "bin" / "opreg")
        done = subprocess.run([prefix / "bin" / "opreg", "new-plugin", "other-chip"],
                              cwd=self.folder, capture_output=True, text=True)
        self.assertIn(f'-DCMAKE_PREFIX_PATH="{prefix}"', done.stdout, done.stderr)

    def test_names_of_the_library_are_refused(self):
        for name in ("trace", "strict", "shadow", "guard", "cpu", "plugin-dir", "shadow-dir",
                     "cpu-reference-matmul"):
            with self.subTest(name=name):
                self.assert_refused(run("new-plugin", name, cwd=self.folder), f"'{name}'",
                                    "OPREG_" + name.upper().replace("-", "_"))
                self.assertFalse((self.folder / name).exists())


class Documentation(CommandTest):
    """docs/command.md has every key that --json prints, and every option."""

    PAGES = pathlib.Path(__file__).resolve().parents[2] / "docs"
    TEXT = (PAGES / "command.md").read_text()

    def test_every_key_is_documented(self):
        model = self.write("model.gguf", small_model(q8_0=(64, 512)))
        flags = {"OPREG_PLUGIN_DIR": WRONG_PLUGIN, "OPREG_WRONG": "on"}
        for arguments in (["list"], ["list", "--env"], ["explain", *PROBLEM], ["verify", model],
                          ["bench", "--problem", "n=64 k=256 b=q8_0", "--device", "cpu:7"]):
            for row in self.objects(run(*arguments, "--json", flags=flags)):
                for key in row:
                    with self.subTest(command=arguments[0], key=key):
                        self.assertIn(f"`{key}`", self.TEXT + "`kind`")

    def test_every_option_is_documented(self):
        for word in ("list", "explain", "verify", "bench", "test"):
            for option in re.findall(r"^  (--[a-z-]+)", run(word, "--help").stdout, re.MULTILINE):
                if option not in ("--help", "--json", "--threads"):
                    with self.subTest(command=word, option=option):
                        self.assertIn(option, self.TEXT)


if __name__ == "__main__":
    unittest.main()
