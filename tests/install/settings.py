# SPDX-License-Identifier: MIT
"""Where the sources, the build and the tools of these tests are, as ctest says."""

import os
import pathlib
import subprocess

SOURCE = pathlib.Path(os.environ["TEST_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["TEST_BUILD_DIR"])
CMAKE = os.environ["TEST_CMAKE"]
CC = os.environ["TEST_CC"]
NM = os.environ["TEST_NM"]
READELF = os.environ["TEST_READELF"]
BUILD_TYPE = os.environ.get("TEST_BUILD_TYPE", "")


def run(*command, **options):
    """The command's output; a failure shows the command and all that it printed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(words)}\nexit status {done.returncode}\n{done.stdout}")
    return done.stdout


def install(prefix):
    """Installs the build that is being tested."""
    run(CMAKE, "--install", BUILD, "--prefix", prefix)
