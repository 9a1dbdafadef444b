#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the figures of docs/guide/papers.md against its commands: papers_page_test.py TOOL SOURCE.

A command of `tidepool` is run, in a folder with examples/ and the graphs of the page. A program of the benchmarks is looked up in the newest file
of bench/results that has its command. Each text in backticks in the third column must be there, with any spaces.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

TOOL, SOURCE = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
PAGE = (SOURCE / "docs" / "guide" / "papers.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([^|]+) \| `([^`]+)` \| ([^|]+) \| [^|]+ \|$", re.M)


def printed(command, folder):
    """Returns the output of a command of the tool."""
    name, *arguments = shlex.split(command)
    assert name == "tidepool", command
    done = subprocess.run([TOOL, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stderr}{done.stdout}"
    return done.stdout


def recorded(command):
    """Returns the newest recorded output of a benchmark."""
    for path in sorted((SOURCE / "bench" / "results").glob("*.txt"), reverse=True):
        blocks = re.split(r"^\$ (.*)\n", path.read_text(encoding="utf-8"), flags=re.M)
        for own, output in zip(blocks[1::2], blocks[2::2]):
            if own == command:
                return output
    raise AssertionError(f"no file of bench/results has the command {command}")


def main():
    rows = ROW.findall(PAGE)
    lines = [line for line in PAGE.split("\n") if line.startswith("| ")]
    assert len(rows) == len(lines) - 1, "a row has no command in backticks, or not four columns"
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(SOURCE / "examples", os.path.join(folder, "examples"))
        for line in re.search(r"```sh\n(.*?)```", PAGE, re.S)[1].splitlines():
            printed(line, folder)
        wrong = []
        for item, command, ours in rows:
            output = " ".join((printed(command, folder) if command.startswith("tidepool ") else recorded(command)).split())
            figures = re.findall(r"`([^`]+)`", ours)
            assert figures, f"{item}: no figure in backticks"
            wrong += [f"{item}: `{command}` does not print `{figure}`" for figure in figures if figure not in output]
    for line in wrong:
        print(line)
    return bool(wrong)


sys.exit(main())
