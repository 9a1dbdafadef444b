#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every source names its licence."""
import os
import subprocess
import sys

LINE = "SPDX-License-Identifier: Apache-2.0"
SOURCES = (".h", ".cc", ".cu", ".c", ".js", ".py", ".sh", ".cmake", "CMakeLists.txt", ".ci/run")


def main(root):
    names = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")
    sources = [name for name in names if name.endswith(SOURCES)]
    without = []
    for name in sources:
        with open(os.path.join(root, name), encoding="utf-8") as file:
            if LINE not in file.readline() + file.readline():
                without.append(name)
    for name in without:
        print(f"{name}: no licence in its first two lines, expected '{LINE}'")
    print(f"{len(sources)} sources")
    return 1 if without or not sources else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
