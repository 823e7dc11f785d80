# SPDX-License-Identifier: MIT
"""The page of opreg bench --html, in a real browser: plots, two schemes, two widths."""
import pathlib
import re
import unittest

from browser import Tab, browser
from support import CommandTest, run

BASELINES = pathlib.Path(__file__).parents[2] / "bench" / "baselines" / "h200.tsv"
WIDTHS = {"desktop": 1280, "phone": 390}
# text and background of every element that has text of its own, and whether it is cut off
TEXTS = """[...document.querySelectorAll("main *, header *")].filter((e) => e.checkVisibility() &&
  [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())).map((e) => {
    let back = e;
    while (back && getComputedStyle(back).backgroundColor === "rgba(0, 0, 0, 0)") back = back.parentElement;
    return [e.tagName + "." + e.className, getComputedStyle(e).color,
            back ? getComputedStyle(back).backgroundColor : "rgb(255, 255, 255)",
            parseFloat(getComputedStyle(e).fontSize)];
  })"""
# how many colours a plot has: an empty canvas has one
COLOURS = """[...document.querySelectorAll("canvas")].map((c) => {
    const data = c.getContext("2d").getImageData(0, 0, c.width, c.height).data, seen = new Set();
    for (let i = 0; i < data.length; i += 4) seen.add(data.slice(i, i + 4).join());
    return seen.size;
  })"""


def luminance(colour):
    parts = [int(v) / 255 for v in re.findall(r"\d+", colour)[:3]]
    parts = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


class PageInABrowser(CommandTest):
    @classmethod
    def setUpClass(cls):
        if not browser():
            raise unittest.SkipTest("no browser: scripts/install-deps --browser installs one")
        super().setUpClass()
        cls.path = cls.folder / "page.html"
        done = run("bench", "--from", BASELINES, "--html", cls.path)
        if done.returncode != 0:
            raise AssertionError(done.stderr)

    def open(self, width, dark):
        tab = Tab(self.path.as_uri(), width, dark)
        self.addCleanup(tab.close)
        return tab

    def test_it_is_drawn_and_readable_light_and_dark_wide_and_narrow(self):
        backgrounds = {}
        for name, width in WIDTHS.items():
            for dark in (False, True):
                with self.subTest(width=name, dark=dark):
                    tab = self.open(width, dark)
                    tab.ask('document.querySelectorAll("details").forEach((d) => d.open = true)')
                    self.assertEqual(tab.errors, [])
                    colours = tab.ask(COLOURS)
                    self.assertGreaterEqual(len(colours), 5, "plots")
                    self.assertGreater(min(colours), 5, "an empty plot")
                    self.assertLessEqual(tab.ask("document.documentElement.scrollWidth"), width,
                                         "it must not scroll sideways")
                    texts = tab.ask(TEXTS)
                    self.assertGreater(len(texts), 1000)
                    for where, colour, back, size in texts:
                        self.assertGreater(contrast(colour, back), 4.5, (where, colour, back))
                        self.assertGreaterEqual(size, 11, where)
                    backgrounds[dark] = tab.ask("getComputedStyle(document.body).backgroundColor")
        self.assertGreater(luminance(backgrounds[False]), 0.9)
        self.assertLess(luminance(backgrounds[True]), 0.1)

    def test_the_table_has_the_numbers_of_the_rows(self):
        tab = self.open(1280, False)
        lines = [line.split("\t") for line in BASELINES.read_text().splitlines()
                 if line and not line.startswith(("#", "op\t"))]
        self.assertEqual(tab.ask('document.querySelectorAll("td.kernel").length'), len(lines))
        first = tab.ask('document.querySelector("td.us").textContent')
        self.assertEqual(first, f"{float(lines[0][8]):.2f} µs")


if __name__ == "__main__":
    unittest.main()
