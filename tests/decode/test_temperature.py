# SPDX-License-Identifier: MIT
"""opreg-decode with a temperature: what a user who repeats a run, or asks for copies, gets."""
import os
import subprocess
import unittest


def ids(*options, model=os.environ.get("TEST_MODEL"), flags=None):
    """The new ids of each sequence."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPREG_")}
    done = subprocess.run([os.environ["TEST_DECODE"], model, "-p", "the", "-n", "24", "--ids",
                           "--ignore-end", *options], env={**environment, **(flags or {})},
                          capture_output=True, text=True, check=True)
    prompt, *lines = [[int(word) for word in line.split()] for line in done.stdout.splitlines()]
    return lines


class Temperature(unittest.TestCase):
    def test_a_seed_repeats_its_text_whatever_the_threads_and_the_kernels(self):
        first = ids("--temp", "1.5", "--seed", "7")
        self.assertEqual(len(first[0]), 24)
        self.assertEqual(ids("--temp", "1.5", "--seed", "7", "--threads", "1"), first)
        self.assertEqual(ids("--temp", "1.5", "--seed", "7", flags={"OPREG_CPU": "exact"}), first)

    def test_other_seeds_draw_other_texts(self):
        texts = {tuple(ids("--temp", "1.5", "--seed", str(seed))[0]) for seed in range(1, 4)}
        self.assertEqual(len(texts), 3)

    def test_copies_are_what_their_seeds_give_alone(self):
        together = ids("--temp", "1.5", "--seed", "7", "--copies", "3")
        alone = [ids("--temp", "1.5", "--seed", str(seed))[0] for seed in (7, 8, 9)]
        self.assertEqual(together, alone)

    def test_temperature_0_is_the_greedy_text(self):
        greedy = ids()
        self.assertEqual(ids("--temp", "0", "--seed", "9"), greedy)
        self.assertNotEqual(ids("--temp", "1.5", "--seed", "9"), greedy)


if __name__ == "__main__":
    unittest.main()
