# SPDX-License-Identifier: MIT
"""The closing line of scripts/test counts what ran and never hides a failure."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SUMMARISE = pathlib.Path(os.environ["TEST_SOURCE_DIR"]) / "scripts" / "summarise-tests"


def case(name, output="", status="run", inside=""):
    return (f'<testcase name="{name}" classname="{name}" time="0" status="{status}">{inside}'
            f"<system-out>{output}</system-out></testcase>")


def summarise(*cases):
    """The last line printed and the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "tests.xml"
        report.write_text(f"<testsuite>{''.join(cases)}</testsuite>")
        done = subprocess.run([sys.executable, str(SUMMARISE), str(report)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.stdout.splitlines()[-1], done.returncode


class ClosingLine(unittest.TestCase):
    def test_a_plain_entry_counts_one(self):
        self.assertEqual(summarise(case("a"), case("b")),
                         ("2 passed, 0 failed, 0 skipped, 0 never-run", 0))

    def test_cmocka_cases_are_counted(self):
        output = "[==========] Running 3 test(s).\n[  PASSED  ] 2 test(s).\n" \
                 "[  SKIPPED ] 1 test(s), listed below:\n"
        self.assertEqual(summarise(case("a", output)),
                         ("2 passed, 0 failed, 1 skipped, 0 never-run", 0))

    def test_several_cmocka_groups_of_one_program_are_added(self):
        output = "[  PASSED  ] 2 test(s).\n[  PASSED  ] 5 test(s).\n"
        self.assertEqual(summarise(case("a", output)),
                         ("7 passed, 0 failed, 0 skipped, 0 never-run", 0))

    def test_cmocka_failures_are_counted(self):
        output = "[  PASSED  ] 2 test(s).\n[  FAILED  ] 3 test(s), listed below:\n"
        self.assertEqual(summarise(case("a", output, "fail", "<failure message=''/>")),
                         ("2 passed, 3 failed, 0 skipped, 0 never-run", 1))

    def test_the_closing_line_of_opreg_test_is_added(self):
        output = "chatter\n120 passed, 0 failed, 4 skipped, 0 never-run"
        self.assertEqual(summarise(case("kit", output), case("b")),
                         ("121 passed, 0 failed, 4 skipped, 0 never-run", 0))

    def test_a_kernel_that_never_ran_is_a_failure(self):
        output = "120 passed, 0 failed, 4 skipped, 2 never-run"
        self.assertEqual(summarise(case("kit", output)),
                         ("120 passed, 0 failed, 4 skipped, 2 never-run", 1))

    def test_unittest_runs_are_counted(self):
        output = "Ran 9 tests in 1.2s\n\nOK (skipped=2)\n"
        self.assertEqual(summarise(case("a", output)),
                         ("7 passed, 0 failed, 2 skipped, 0 never-run", 0))

    def test_unittest_failures_and_errors_are_counted(self):
        output = "Ran 9 tests in 1.2s\n\nFAILED (failures=1, errors=2)\n"
        self.assertEqual(summarise(case("a", output, "fail", "<failure message=''/>")),
                         ("6 passed, 3 failed, 0 skipped, 0 never-run", 1))

    def test_a_crash_counts_as_a_failure_though_its_output_tells_of_none(self):
        output = "[  PASSED  ] 2 test(s).\n"
        self.assertEqual(summarise(case("a", output, "fail", "<failure message='SIGSEGV'/>")),
                         ("2 passed, 1 failed, 0 skipped, 0 never-run", 1))

    def test_an_entry_that_could_not_start_is_a_failure(self):
        self.assertEqual(summarise(case("a"), case("b", status="notrun")),
                         ("1 passed, 1 failed, 0 skipped, 0 never-run", 1))

    def test_an_entry_whose_program_or_fixture_is_missing_is_a_failure(self):
        for message in ("Unable to find executable", "Fixture dependency failed"):
            inside = f"<skipped message='{message}'/>"
            self.assertEqual(summarise(case("a"), case("b", status="notrun", inside=inside)),
                             ("1 passed, 1 failed, 0 skipped, 0 never-run", 1))

    def test_a_skipped_entry_is_not_a_pass(self):
        inside = "<skipped message='SKIP_RETURN_CODE=77'/>"
        self.assertEqual(summarise(case("a"), case("b", status="notrun", inside=inside)),
                         ("1 passed, 0 failed, 1 skipped, 0 never-run", 0))

    def test_a_run_without_any_test_is_a_failure(self):
        self.assertEqual(summarise(), ("0 passed, 0 failed, 0 skipped, 0 never-run", 1))

    def test_a_missing_report_is_a_failure(self):
        done = subprocess.run([sys.executable, str(SUMMARISE), "/nowhere/tests.xml"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual(done.stdout.splitlines()[-1], "0 passed, 1 failed, 0 skipped, 0 never-run")
        self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    unittest.main()
