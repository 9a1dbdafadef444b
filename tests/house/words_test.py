#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds words that docs/writing.md forbids in comments, help texts and errors."""
import os
import re
import subprocess
import sys

CODE = (".h", ".cc", ".cu", ".c", ".js")
SCRIPTS = (".py", ".sh", ".cmake", "CMakeLists.txt")
# Strings are read by users where they are errors, help or output; those of tests are names and inputs.
SPOKEN = ("lib/", "policies/", "trace_replay/", "bindings/", "include/")

RULES = {
    "a person": r"\b(who|whom|whose|whoever|somebody|someone|nobody|anybody|everybody|everyone)\b",
    "a time that is a place": r"\b(behind|anew|in vain|(is|are|was|were|be) over)\b",
    "existence by negation": r"\b(is|are|was|were) none\b",
    "a number without a name": r"\bso many\b",
}

TOKENS = re.compile(r"""(?P<comment>//[^\n]*|/\*.*?\*/)|R"\w*\(.*?\)\w*"|(?P<string>"(?:\\.|[^"\\\n])*")|'(?:\\.|[^'\\\n])+'""",
                    re.S)


def join_comments(comments):
    """Joins comments on lines that follow each other. Yields (line, text)."""
    begin, last, texts = 0, -1, []
    for line, text in comments:
        if line != last + 1 and texts:
            yield begin, " ".join(texts)
            texts = []
        if not texts:
            begin = line
        texts.append(text)
        last = line
    if texts:
        yield begin, " ".join(texts)


def texts_of_code(source, spoken):
    comments = []
    for match in TOKENS.finditer(source):
        line = source.count("\n", 0, match.start()) + 1
        if match["comment"]:
            comments.append((line, match["comment"].strip("/* \n")))
        elif spoken and match["string"]:
            yield line, match["string"][1:-1]
    yield from join_comments(comments)


def texts_of_script(source):
    lines = [(number, line.strip()) for number, line in enumerate(source.split("\n"), 1)]
    yield from join_comments((number, line.lstrip("# ")) for number, line in lines if re.match(r"#(?!!)", line))
    for match in re.finditer(r'"""(.*?)"""', source, re.S):
        yield source.count("\n", 0, match.start()) + 1, match[1]


def faults_in(text):
    for rule, pattern in RULES.items():
        for match in re.finditer(pattern, text, re.I):
            yield rule, match[0]


def main(root):
    names = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")
    faults = []
    for name in names:
        if not name.endswith(CODE + SCRIPTS) or name.endswith("words_test.py"):
            continue
        with open(os.path.join(root, name), encoding="utf-8") as file:
            source = file.read()
        texts = texts_of_code(source, name.startswith(SPOKEN)) if name.endswith(CODE) else texts_of_script(source)
        faults += [(name, line, *fault) for line, text in texts for fault in faults_in(text)]
    for name, line, rule, word in faults:
        print(f"{name}:{line}: {rule}: '{word}'")
    print(f"{len(faults)} words that docs/writing.md forbids")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
