# SPDX-License-Identifier: MIT
"""The gate on the HIP plugins' code objects refuses what its table does not allow."""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["TEST_SOURCE_DIR"]) / "plugins" / "common"))
import check_code  # noqa: E402

ROW = (16, 48, 1024, "global_load_b128", "ds_bpermute")
MNEMONICS = {"global_load_b128": 2, "v_dot4_i32_iu8": 8}
DATA = {".vgpr_count": 96, ".vgpr_spill_count": 0, ".sgpr_count": 48, ".sgpr_spill_count": 0,
        ".group_segment_fixed_size": 1024, ".private_segment_fixed_size": 0, ".wavefront_size": 32}


def problems(mnemonics=None, needed="v_dot4_i32_iu8", **fields):
    data = dict(DATA, **{"." + name: value for name, value in fields.items()})
    return check_code.check_kernel("k", data, mnemonics or MNEMONICS, ROW, needed)


class CodeGate(unittest.TestCase):
    def test_a_kernel_within_its_row_passes(self):
        self.assertEqual(problems(), [])

    def test_each_resource_over_its_bound_is_named(self):
        for name, value, text in (("vgpr_count", 97, "97 VGPRs leave 12 waves"),
                                  ("vgpr_spill_count", 1, ".vgpr_spill_count is 1"),
                                  ("sgpr_count", 49, "49 SGPRs, the table says 48"),
                                  ("sgpr_spill_count", 1, ".sgpr_spill_count is 1"),
                                  ("group_segment_fixed_size", 1028, "1028 bytes of LDS"),
                                  ("private_segment_fixed_size", 4, ".private_segment_fixed_size"),
                                  ("wavefront_size", 64, "not 32"),
                                  ("uses_dynamic_stack", "true", "dynamic stack")):
            with self.subTest(name):
                found = problems(**{name: value})
                self.assertEqual(len(found), 1, found)
                self.assertIn(text, found[0])

    def test_an_instruction_that_is_needed_and_absent_is_named(self):
        self.assertEqual(problems({"v_dot4_i32_iu8": 1}), ["k: no global_load_b128"])
        self.assertEqual(problems({"global_load_b128": 1}), ["k: no v_dot4_i32_iu8"])
        self.assertEqual(problems({"global_load_b128": 1}, needed=None), [])

    def test_an_instruction_that_is_forbidden_is_named(self):
        for name in ("ds_bpermute_b32", "scratch_load_b32", "flat_load_b32", "v_movrels_b32",
                     "flat_scratch operand"):
            with self.subTest(name):
                self.assertEqual(problems(dict(MNEMONICS, **{name: 3})), [f"k: 3 times {name}"])


if __name__ == "__main__":
    unittest.main()
