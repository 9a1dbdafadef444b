# SPDX-License-Identifier: Apache-2.0
"""The rows of a command's help, and the text of those that a page shows."""
import re
import subprocess
import textwrap
from typing import NamedTuple

COLUMN = 26  # in help texts and pages
WIDTH = 140  # of pages
SECTION = "[options of several commands](#options-of-several-commands)"
# A default ends the text of a row. Commands that share an option may differ in it.
DEFAULT = re.compile(r" \(default\b.*\)$")
# Headings that every command has, and options.
PLAIN = ("Arguments:", "Options:")
EVERYWHERE = ("--json", "-h", "--help-all")


class Row(NamedTuple):
    group: str
    name: str  # of an argument, or the names of an option with its value
    text: str

    @property
    def keys(self):
        return re.split(r",", self.name.split(" ")[0])

    @property
    def shown(self):
        indent = " " * COLUMN
        name = f"  {self.name}".ljust(COLUMN)
        if len(name) > COLUMN or not name.endswith(" "):
            name = f"  {self.name}\n{indent}"
        lines = textwrap.wrap(self.text, WIDTH - COLUMN, break_on_hyphens=False, break_long_words=False)
        return name + f"\n{indent}".join(lines) + "\n"


def split_row(line):
    """Returns the name and the beginning of the text of a row's first line."""
    alone = len(line) <= COLUMN or line[COLUMN - 1] != " " or re.fullmatch(r"  \S+ [A-Z]+", line)
    return (line.strip(), "") if alone else (line[:COLUMN].strip(), line[COLUMN:])


def read_help(tool, command):
    """Returns the usage of a command and the rows of all its help, without its examples."""
    def help_of(option):
        return subprocess.run([tool, *command.split(), option], stdout=subprocess.PIPE, text=True, check=True).stdout
    text = help_of("--help")
    if "\n  --help-all " in text:
        hidden = help_of("--help-all")
        text = text[:text.index("\nExamples:")] + hidden[hidden.index("\nMore:"):]
    usage, rows, group = "", {}, ""
    for line in text.split("\n"):
        if line.startswith("Usage: "):
            usage = line
        elif re.match(r"\S.*:$", line):
            group = line
        elif re.match(r"  \S", line) and group and group != "Examples:":
            name, begin = split_row(line)
            row = [group, begin]
            rows.setdefault(name, row)  # --help-all repeats rows
        elif line.startswith(" " * COLUMN) and group != "Examples:":
            row[1] += " " + line.strip()
    return usage, [Row(group, name, text.strip()) for name, (group, text) in rows.items()]


def in_groups(rows):
    """Returns rows as text, each group below its heading but those that every command has."""
    text, heading = "", ""
    for row in rows:
        if row.group not in (heading, *PLAIN):
            heading = row.group
            text += f"{heading}\n"
        text += row.shown
    return text


def named_rows(rows, names):
    """Returns the rows of the given names, each of an option, an argument or a group."""
    found = []
    for name in names:
        matches = [row for row in rows if name in row.keys or row.group == name + ":"]
        assert matches, f"no option, argument or group '{name}'"
        found += matches
    return found


def own_rows(rows, shared):
    """Returns the rows of a command that are not in `shared`, and the shared ones of the others."""
    own, taken = [], []
    for row in rows:
        if row.keys[0] in EVERYWHERE:
            continue
        alike = [other for other in shared if set(other.keys) & set(row.keys)]
        same = [other for other in alike if other.text == row.text]
        if same:
            taken.append(same[0])
            continue
        begin = next((text for text in (DEFAULT.sub("", other.text) for other in alike) if row.text.startswith(text)), "")
        own.append(row._replace(text="..." + row.text[len(begin):]) if begin else row)
    return own, taken


def names_of(taken, shared):
    """Returns the names of shared rows; of a whole group its heading instead."""
    names = []
    for row in taken:
        whole = row.group not in PLAIN and all(other in taken for other in shared if other.group == row.group)
        name = f"*{row.group.rstrip(':')}*" if whole else f"`{row.keys[0]}`"
        if name not in names:
            names.append(name)
    return ", ".join(names)


def own_block(usage, rows, shared):
    """Returns the options of a command that it shares with none, and a line that names the others."""
    own, taken = own_rows(rows, shared)
    line = textwrap.fill(f"And {SECTION}: {names_of(taken, shared)}", WIDTH, break_on_hyphens=False) if taken else ""
    return f"{usage}\n{in_groups(own)}", line
