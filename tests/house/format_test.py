#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every C++ source is formatted as .clang-format says. Skips where clang-format is not installed."""
import shutil
import subprocess
import sys


def main(root):
    if not shutil.which("clang-format"):
        print("clang-format was not found")
        return 0
    names = subprocess.run(
        ["git", "ls-files", "*.h", "*.cc"], cwd=root, capture_output=True, text=True, check=True).stdout.split()
    if not names:
        print("no C++ sources were found, expected some")
        return 1
    check = subprocess.run(["clang-format", "--dry-run", "-Werror", *names], cwd=root, check=False)
    print(f"{len(names)} sources; to mend one: clang-format -i FILE")
    return check.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
