#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares docs/cli.md and cli_examples.md with the output of the command line, or writes the output there.

cli_docs_test.py TOOL SOURCE            compares
cli_docs_test.py TOOL SOURCE --write    replaces the outputs in the pages

Each block ```console holds command lines after "$ ", each with its output, standard error included. The lines run in the
order of the page, in one folder that holds examples/. A comment before a block says how it is compared:
<!-- masked: the figures depend on the machine --> without numbers; <!-- not run ... --> not at all;
<!-- to: TEXT --> up to the line that begins with the text.

Each block ```text after <!-- tidepool COMMAND: options --> holds the options of a command, as its help has them. Options that
several commands have stand once, in the block after <!-- tidepool COMMAND: shared options NAME, ... -->; a name is that of an option,
of an argument, or of a group of them. A line after each other block lists them, and "..." stands for a text that begins alike.
"""
import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile

import help_rows

BLOCK = re.compile(r"(?P<mode><!-- (?:masked|not run|to:)[^\n]*-->\n)?```console\n(?P<text>.*?)```\n", re.S)
PAGES = ("docs/cli.md", "tests/trace_replay/cli_examples.md")
OPTIONS = re.compile(r"(<!-- tidepool (?P<command>[a-z ]+): (?:shared options (?P<names>[^\n]+)|options) -->\n)```text\n.*?```\n"
                     r"(?:\nAnd \[options .*?\n(?=\n))?", re.S)
COMMAND_ROW = re.compile(r"^  ([a-z]+)  ", re.M)


def commands_in(text):
    """Splits a block into pairs of command line and output."""
    parts = re.split(r"^\$ ([^\n]*)\n", text, flags=re.M)
    return list(zip(parts[1::2], parts[2::2]))


def run(tool, line, folder):
    arguments = shlex.split(line)
    assert arguments[0] == "tidepool", line
    done = subprocess.run([tool, *arguments[1:]], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout


def masked(text):
    """Replaces figures with their units, and leaves out the rows of stalls and warnings of a busy machine: they depend on the machine."""
    text = re.sub(r"\n  longest stalls.*?(?=\n\n|\Z)", "", text, flags=re.S)
    text = re.sub(r"(run: )?the machine is busy[^\n]*\n+", "", text)
    text = re.sub(r"[\d,.]+(?: (?:[KMGT]?i?B(?:/s)?|[mun]?s)\b)?", "#", text)
    return re.sub(r" +", " ", text)


def check_commands(tool, page):
    """Returns the commands that have no section."""
    help_text = subprocess.run([tool, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    names = COMMAND_ROW.findall(help_text)
    assert len(names) >= 10, help_text
    listed = [match["command"].split(" ")[0] for match in OPTIONS.finditer(page) if not match["names"]]
    return [name for name in names if f"\n## tidepool {name}" not in page or name not in listed]


def shown(mode, output):
    """Returns the part of an output that a block has."""
    end = re.match(r"<!-- to: (.*) -->", mode)
    return output[:output.index("\n" + end[1])] + "\n..." if end else output


def with_options(tool, page):
    """Returns a page with the options of the tool."""
    shared = []
    chosen = {}
    for match in OPTIONS.finditer(page):
        if match["names"]:
            rows = help_rows.named_rows(help_rows.read_help(tool, match["command"])[1], match["names"].split(", "))
            chosen[match.start()] = help_rows.in_groups(rows)
            shared += rows

    def block(match):
        if match.start() in chosen:
            text, others = chosen[match.start()], ""
        else:
            text, others = help_rows.own_block(*help_rows.read_help(tool, match["command"]), shared)
        return f"{match[1]}```text\n{text}```\n" + (f"\n{others}\n" if others else "")

    return OPTIONS.sub(block, page)


def compare(tool, source, name, writes):
    """Returns the differences of a page, or writes the outputs there."""
    path = os.path.join(source, name)
    with open(path, encoding="utf-8") as file:
        page = file.read()
    differences = []
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.join(source, "examples"), os.path.join(folder, "examples"))

        def actual_block(match):
            mode = match["mode"] or ""
            if mode.startswith("<!-- not run"):
                return match[0]
            text = ""
            for line, expected in commands_in(match["text"]):
                actual = shown(mode, run(tool, line, folder))
                view = masked if mode.startswith("<!-- masked") else str
                same = view(actual.strip()) == view(expected.strip())
                # Figures of the last run stay, so that a page changes only where the tool does.
                text += f"$ {line}\n{expected if same else actual}"
                if not same:
                    differences.extend(difflib.unified_diff(expected.splitlines(), actual.splitlines(), name, line, lineterm="", n=1))
                if not text.endswith("\n\n"):
                    text += "\n"
            return f"{mode}```console\n{text.rstrip()}\n```\n"

        new_page = with_options(tool, page)
        differences.extend(difflib.unified_diff(page.splitlines(), new_page.splitlines(), name, "help", lineterm="", n=1))
        new_page = BLOCK.sub(actual_block, new_page)
    if writes:
        with open(path, "w", encoding="utf-8") as file:
            file.write(new_page)
    return differences


def main(tool, source, writes):
    with open(os.path.join(source, PAGES[0]), encoding="utf-8") as file:
        page = file.read()
    differences = [f"no section with options for the command {name}" for name in check_commands(tool, page)]
    for name in PAGES:
        differences += compare(tool, source, name, writes)
    if writes:
        return 0
    if differences:
        print("\n".join(differences))
        print("the pages differ from the tool; after a check of the new texts: cli_docs_test.py TOOL SOURCE --write")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), "--write" in sys.argv[3:]))
