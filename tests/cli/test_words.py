# SPDX-License-Identifier: MIT
"""The manual pages and what shells complete: made from the option tables, read by the real programs."""
import json
import os
import pathlib
import platform
import pty
import re
import select
import shutil
import signal
import subprocess
import time
import unittest

from support import COMMAND, CommandTest, run

HERE = pathlib.Path(__file__).parent
SOURCE = HERE.parents[1]
DECODE_PAGE = SOURCE / "examples" / "decode" / "opreg-decode.1"
COMMANDS = re.findall(r"^  ([a-z-]+) {2,}", run("--help").stdout.split("commands\n")[1].split("\n\n")[0],
                      re.MULTILINE)
PLUGINS = [row["plugin"] for row in map(json.loads, run("list", "--json").stdout.splitlines())
           if row["kind"] == "plugin"]


def options_of(command):
    return re.findall(r"^  (--[a-z-]+)", run(command, "--help").stdout, re.MULTILINE)


class Completion(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.scripts = {}
        for shell in ("bash", "zsh"):
            cls.scripts[shell] = cls.folder / f"opreg.{shell}"
            cls.scripts[shell].write_text(run("completion", shell).stdout)
        cls.environment = {**{k: v for k, v in os.environ.items() if not k.startswith("OPREG_")},
                           "PATH": f"{pathlib.Path(COMMAND).parent}:{os.environ['PATH']}"}

    def bash(self, *words):
        done = subprocess.run([HERE / "completion.bash", self.scripts["bash"], "opreg", *words],
                              env=self.environment, capture_output=True, text=True, cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_bash_completes_every_command(self):
        self.assertEqual(self.bash(""), [*COMMANDS, "--help", "--version"])
        self.assertEqual(self.bash("ver"), ["verify"])

    def test_bash_completes_every_option_of_every_command(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                self.assertEqual(sorted(self.bash(command, "--")), sorted(options_of(command)))

    def test_bash_completes_values(self):
        (self.folder / "my.gguf").touch()
        for words, expected in [
            (["bench", "--op", "moe_d"], ["moe_down"]),
            (["bench", "--plugin", ""], PLUGINS),
            (["bench", "--plugin", "=", "cp"], ["cpu"]),
            (["bench", "--device", "cp"], [f"cpu:0/{platform.machine()}"]),
            (["bench", "--kernel", "reference_r"], ["reference_route"]),
            (["bench", "--model", "my"], ["my.gguf"]),
            (["bench", "--seed", ""], []),
            (["verify", "my"], ["my.gguf"]),
            (["explain", "paged"], ["paged_attn_decode"]),
            (["shadow", ""], ["replay"]),
            (["completion", ""], ["bash", "zsh"]),
        ]:
            with self.subTest(words=words):
                self.assertEqual(self.bash(*words), expected)

    def zsh(self, *lines):
        """What each line is after a tab, typed in a terminal."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execvpe("zsh", ["zsh", "-f", "-i"], {**self.environment, "TERM": "dumb", "PS1": "> "})
        seen = ""

        def wait(pattern):
            nonlocal seen
            end = time.monotonic() + 60
            while not re.search(pattern, seen):
                self.assertLess(time.monotonic(), end, f"no {pattern!r} in {seen!r}")
                if select.select([terminal], [], [], 1)[0]:
                    seen += os.read(terminal, 4096).decode()
            found, seen = re.search(pattern, seen), ""
            return found

        try:
            os.write(terminal, (
                f"autoload -Uz compinit; compinit -u -D; source {self.scripts['zsh']}; unsetopt beep; "
                "show() { print -r -- \"{$BUFFER}\"; BUFFER=; }; zle -N show; bindkey '^G' show; "
                "print rea''dy\n").encode())
            wait("ready\r\n")
            for line in lines:
                os.write(terminal, f"{line}\t\a".encode())
                yield wait(r"\{(.*)\}\r\n")[1]
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(terminal)

    def test_zsh_completes_commands_options_and_values(self):
        if not shutil.which("zsh"):
            self.skipTest("no zsh")
        (self.folder / "my.gguf").touch()
        asked = {"opreg ver": "opreg verify ", "opreg bench --mod": "opreg bench --model=",
                 "opreg bench --model=my": "opreg bench --model=my.gguf ",
                 "opreg bench --op=moe_d": "opreg bench --op=moe_down ",
                 "opreg bench --plugin=cp": "opreg bench --plugin=cpu ",
                 "opreg explain quant": "opreg explain quantize_act ",
                 "opreg completion z": "opreg completion zsh ", "opreg shadow r": "opreg shadow replay "}
        self.assertEqual(dict(zip(asked, self.zsh(*asked))), asked)

    def test_zsh_is_told_every_option(self):
        if not shutil.which("zsh"):
            self.skipTest("no zsh")
        subprocess.run(["zsh", "-n", self.scripts["zsh"]], check=True)
        text = self.scripts["zsh"].read_text()
        for command in COMMANDS:
            part = text.split(f"        {command})\n")[1].split(";;")[0]
            self.assertEqual(re.findall(r"^ +'\*?(--[a-z-]+)=?\[", part, re.MULTILINE),
                             options_of(command))


class Pages(CommandTest):
    def check(self, page):
        done = []
        if shutil.which("mandoc"):
            done.append(subprocess.run(["mandoc", "-Tlint", "-Wstyle", page], capture_output=True, text=True))
        if shutil.which("man") and shutil.which("groff"):
            done.append(subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True,
                                       stdin=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"}))
        if not done:
            self.skipTest("neither mandoc nor man")
        for one in done:
            self.assertEqual((one.returncode, one.stderr), (0, ""), one.stdout)
        self.assertTrue(all(one.stdout == "" for one in done if "mandoc" in one.args[0]), done[0].stdout)

    def page(self):
        return self.write("opreg.1", run("manual").stdout.encode())

    def test_the_page_of_opreg_renders_without_a_warning(self):
        self.check(self.page())

    def test_the_page_of_opreg_decode_renders_without_a_warning(self):
        self.check(DECODE_PAGE)

    def test_the_page_of_opreg_has_every_command_and_option(self):
        text = self.page().read_text().replace("\\-", "-")
        sections = dict(part.split(" ", 1) if " " in part.split("\n", 1)[0] else part.split("\n", 1)
                        for part in text.split(".SS opreg ")[1:])
        self.assertEqual(list(sections), COMMANDS)
        for command in COMMANDS:
            told = re.findall(r"^\.B (--[a-z-]+)", sections[command], re.MULTILINE)
            self.assertEqual([*told, "--help"], options_of(command))

    def test_the_page_of_opreg_decode_has_every_option_of_its_help(self):
        decode = pathlib.Path(COMMAND).parent / "opreg-decode"
        if not decode.exists():
            self.skipTest("built without opreg-decode")
        usage = subprocess.run([decode, "--help"], capture_output=True, text=True, check=True).stdout
        told = re.findall(r"^\.TP\n\.B (\\-\S+)", DECODE_PAGE.read_text(), re.MULTILINE)
        self.assertEqual([word.replace("\\-", "-") for word in told],
                         re.findall(r"^  (-\S+)", usage, re.MULTILINE))


if __name__ == "__main__":
    unittest.main()
