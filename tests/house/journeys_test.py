#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the journeys of docs/design/README.md are true: that each enters the C++ sources that it names.

usage: journeys_test.py SOURCE BUILD, where BUILD is of the preset `coverage` and has the tool and the examples offload_a_buffer and
compress_on_the_way. scripts/check_all.sh runs it.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

JOURNEY = re.compile(r"^### (.+?)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
SOURCE = re.compile(r"`((?:lib|policies|trace_replay)/[\w/]+\.(?:cc|h))`")
RMM = "Thread,Time,Action,Pointer,Size,Stream\n" + "".join(
    f"1,00:00:0{i}:000000,allocate,0x{16 * i:x},{1000 + i},0\n" for i in range(1, 9)) + "1,00:00:09:000000,free,0x10,1001,0\n"
OPERATIONS = "op,id,size,hint,stream\na,1,1000,,1\nf,1,,,1\na,2,1000,,2\nf,2,,,2\na,3,1000,,2\n"


def commands(folder):
    """Returns the commands of the build that make each journey, by its heading."""
    files = {name: os.path.join(folder, name) for name in ("rmm.csv", "operations.csv", "graph.json")}
    pathlib.Path(files["rmm.csv"]).write_text(RMM)
    pathlib.Path(files["operations.csv"]).write_text(OPERATIONS)
    tool = "trace_replay/tidepool"
    replay = [tool, "replay", files["operations.csv"], "--pool", "1MiB", "--device", "host"]
    schedule = [tool, "schedule", files["graph.json"], "--policy", "best", "-o", os.path.join(folder, "schedule.json")]
    return {
        "A pool allocates": [replay],
        "A pool frees": [replay],
        "`tidepool size FILE`": [[tool, "size", files["rmm.csv"], "--plan", "--policy", "best-fit", "--policy", "planned"]],
        "A buffer is offloaded": [["examples/offload_a_buffer"], ["examples/compress_on_the_way"]],
        "A buffer comes back": [["examples/offload_a_buffer"]],
        "`tidepool schedule GRAPH --memory BYTES --policy best`": [
            [tool, "model", "alexnet", "--batch", "64", "-o", files["graph.json"]],
            *([*schedule, "--memory", memory] for memory in ("700MiB", "500MiB"))],
    }


def entered(build):
    """Returns the sources of which a function ran, and those that have functions, by their real paths."""
    ran, known = set(), set()
    objects = [str(path) for path in build.rglob("*.gcda")]
    read = subprocess.run(["gcov", "--json-format", "--stdout", *objects], capture_output=True, text=True, check=True).stdout
    for unit in map(json.loads, read.splitlines()):
        for source in unit["files"]:
            name = os.path.realpath(os.path.join(unit["current_working_directory"], source["file"]))
            if source["functions"]:
                known.add(name)
            if any(function["execution_count"] > 0 for function in source["functions"]):
                ran.add(name)
    return ran, known


def check(root, build, heading, text, lines):
    """Makes a journey and returns the sources that it names and does not enter."""
    for path in build.rglob("*.gcda"):
        path.unlink()
    for line in lines:
        made = subprocess.run([build / line[0], *line[1:]], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            return [f"{heading}: {' '.join(line)} ended with {made.returncode}: {made.stderr.strip()}"]
    ran, known = entered(build)
    named = [os.path.realpath(os.path.join(root, name)) for name in SOURCE.findall(text)]
    faults = [name for name in named if name not in ran and (name in known or name.endswith(".cc"))]
    print(f"{heading}: {len(named)} sources")
    return [f"{heading}: {os.path.relpath(name, root)} is named and not entered" for name in faults]


def main(root, build):
    text = pathlib.Path(root, "docs/design/README.md").read_text(encoding="utf-8")
    journeys = dict(JOURNEY.findall(text))
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        for heading, lines in commands(folder).items():
            if heading not in journeys:
                faults.append(f"docs/design/README.md has no journey '{heading}', expected one of {list(journeys)}")
                continue
            faults += check(root, build, heading, journeys[heading], lines)
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2]).resolve()))
