# SPDX-License-Identifier: MIT
"""The fenced code blocks of the documentation."""

import os
import pathlib
import re
from typing import NamedTuple

SOURCE = pathlib.Path(os.environ["TEST_SOURCE_DIR"])


class Block(NamedTuple):
    where: str    # file:line of the fence
    language: str
    origin: str   # file that the block is said to come from, or ""
    text: str


def blocks_of(path):
    """Every fenced block of a Markdown file, in order."""
    found, origin, inside = [], "", None
    for number, line in enumerate(path.read_text().split("\n"), 1):
        if inside is None:
            fence = re.match(r"^```(\w*)\s*$", line)
            comment = re.match(r"^<!-- from (\S+) -->$", line)
            if fence:
                inside = [f"{path.relative_to(SOURCE)}:{number}", fence.group(1), origin, []]
            if line:
                origin = comment.group(1) if comment else ""
        elif line.strip() == "```":
            found.append(Block(*inside[:3], "\n".join(inside[3]) + "\n"))
            inside, origin = None, ""
        else:
            inside[3].append(line)
    if inside is not None:
        raise AssertionError(f"{inside[0]}: the block does not end")
    return found


def documents():
    return [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *sorted(SOURCE.glob("docs/**/*.md"))]
