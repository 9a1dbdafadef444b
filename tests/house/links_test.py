#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that relative links in Markdown pages lead to files and headings that exist, and that files which pages name exist.

usage: links_test.py ROOT
"""
import os
import re
import subprocess
import sys

LINK = re.compile(r"!?\[[^\]]*\]\(<?([^()\s>]+(?:\([^()]*\))?[^()\s>]*)>?(?:\s+\"[^\"]*\")?\)")
REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?(\S+?)>?\s*$")
# Files, folders and programs in code spans. Names that begin with my or DATE are examples.
NAMED = re.compile(r"`((?:lib|policies|include|trace_replay|bindings|dryrun|tests|bench|scripts|examples|cmake|docs)/(?:[\w.-]+/)*(?!my|DATE)[\w-]+(?:\.\w+)?)/?`")
INSTALLED = "lib/tidepool/"
OUTSIDE = re.compile(r"^[a-z][a-z0-9+.-]*:|^//", re.I)


def text_lines(page):
    """Yields the lines outside code, with their numbers."""
    is_code = False
    for number, line in enumerate(page.split("\n"), 1):
        if re.match(r"\s*(```|~~~)", line):
            is_code = not is_code
        elif not is_code:
            yield number, re.sub(r"`[^`]*\]\([^`]*`", " ", line)


def links(page):
    """Yields the targets of the links outside code, with their lines. The text of a link may go on in the next line."""
    lines = list(text_lines(page))
    text = "\n".join(line for _, line in lines)
    for found in LINK.finditer(text):
        yield lines[text.count("\n", 0, found.start(1))][0], found[1]
    for number, line in lines:
        for target in REFERENCE.findall(line):
            yield number, target


def anchor(heading):
    """Returns the anchor that GitHub makes of a heading."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page):
    found = set()
    for _, line in text_lines(page):
        if match := re.match(r"#+\s+(.*?)\s*#*$", line):
            name, count = anchor(match[1]), 0
            while (name if count == 0 else f"{name}-{count}") in found:
                count += 1
            found.add(name if count == 0 else f"{name}-{count}")
        found.update(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", line))
    return found


def fault_of(root, name, target, page_of):
    """Returns the fault of a link in the page `name`, or None."""
    path, _, fragment = target.partition("#")
    place = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
    if place.startswith("..") or not os.path.exists(os.path.join(root, place)):
        return f"no file {place}"
    if fragment and place.endswith(".md") and fragment not in anchors(page_of(place)):
        return f"no heading #{fragment} in {place}"
    return None


def main(root):
    def page_of(name):
        with open(os.path.join(root, name), encoding="utf-8") as file:
            return file.read()

    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=root, capture_output=True,
                            text=True, check=True).stdout.split("\n")
    names = [name for name in listed if name and os.path.exists(os.path.join(root, name))]
    count, faults = 0, []
    for name in names:
        for number, target in links(page_of(name)):
            if OUTSIDE.match(target):
                continue
            count += 1
            if fault := fault_of(root, name, target, page_of):
                faults.append(f"{name}:{number}: {target}: {fault}")
        for number, line in text_lines(page_of(name)):
            if name != "CHANGELOG.md":
                faults += [f"{name}:{number}: {path}: no such file, folder or program" for path in NAMED.findall(line)
                           if not path.startswith(INSTALLED)
                           and not any(os.path.exists(os.path.join(root, path + end)) for end in ("", ".cc"))]
    print("\n".join(faults + [f"{count} links in {len(names)} pages, {len(faults)} faults, expected 0"]))
    return 1 if faults or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "."))
