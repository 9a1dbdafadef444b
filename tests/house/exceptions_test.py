#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the library builds without exceptions and RTTI: exceptions_test.py SOURCE [--compile COMPILER FLAGS...].

Looks for their keywords; two files alone may catch an exception. With --compile, each file is compiled without
them too, which takes minutes.
"""
import os
import re
import subprocess
import sys

KEYWORDS = re.compile(r"\b(try|catch|throw|dynamic_cast|dynamic_pointer_cast|typeid)\b")
MAY_CATCH = ("lib/base/locks/thread.h", "lib/memory/pool/without_host_memory.h")
COMMENT = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"')


def files_of(root):
    for top in ("lib", "policies", "include/tidepool"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith((".h", ".cc")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def uses(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        for number, line in enumerate(COMMENT.sub("", file.read()).split("\n"), 1):
            for word in KEYWORDS.findall(line):
                yield f"{path}:{number}: {word}, expected code that needs no exceptions and no RTTI"


def compile_error(root, path, command):
    done = subprocess.run([*command, "-fsyntax-only", "-fno-exceptions", "-fno-rtti", path], cwd=root,
                          stderr=subprocess.PIPE, text=True)
    return [] if done.returncode == 0 else [f"{path}: {done.stderr}"]


def main(root, command):
    files = list(files_of(root))
    errors = [error for path in files if path not in MAY_CATCH for error in uses(root, path)]
    errors += [f"{path} is missing" for path in MAY_CATCH if path not in files]
    compiled = [path for path in files if path.endswith(".cc") and "/cuda/" not in path] if command else []
    for path in compiled:
        errors += compile_error(root, path, command)
    print("\n".join(errors) or f"{len(files)} files use no exceptions and no RTTI; {len(compiled)} were compiled without")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[3:] if sys.argv[2:3] == ["--compile"] else []))
