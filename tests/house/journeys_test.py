#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the journeys of docs/design/README.md are true: that each enters the C++ sources and the Python modules that it names.

usage: journeys_test.py SOURCE BUILD [PYTHON]

BUILD is of the preset `coverage`, with the targets of scripts/check_all.sh, which runs this test. PYTHON has PyTorch, and makes the
journeys in Python; without it they are left out, with a line that says so.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

JOURNEY = re.compile(r"^### (.+?)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
SOURCE = re.compile(r"`((?:lib|policies|trace_replay|dryrun)/[\w/]+\.(?:cc|h|py))`")
FOLDER = re.compile(r"`((?:dryrun|bindings)/[\w/]+)`")
MODULE = re.compile(r"`(\w+\.py)`")
PROGRAMS = ("train.py",)  # of a user
RMM = "Thread,Time,Action,Pointer,Size,Stream\n" + "".join(
    f"1,00:00:0{i}:000000,allocate,0x{16 * i:x},{1000 + i},0\n" for i in range(1, 9)) + "1,00:00:09:000000,free,0x10,1001,0\n"
OPERATIONS = "op,id,size,hint,stream\na,1,1000,,1\nf,1,,,1\na,2,1000,,2\nf,2,,,2\na,3,1000,,2\n"
TOOL = "trace_replay/tidepool"

# Notes each Python file in which a function is called, and those that load this one. The program may end without its handlers, so each
# is noted at once.
WATCH = """
import os, sys, threading
noted = set()
def keep(name):
    if name not in noted:
        noted.add(name)
        with open(os.environ["TIDEPOOL_JOURNEY"], "a") as file:
            file.write(os.path.realpath(name) + "\\n")
def note(frame, event, _):
    if event == "call" and frame.f_code.co_name != "<module>":
        keep(frame.f_code.co_filename)
frame = sys._getframe()
while frame := frame.f_back:
    keep(frame.f_code.co_filename)
sys.setprofile(note)
threading.setprofile(note)
"""
TRAIN = """
import torch
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(), torch.nn.Linear(8 * 30 * 30, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(4096, 3, 32, 32, device="cuda")).square().sum().backward()
    optimizer.step()
"""
BUDGET = """
import torch
import tidepool.torch
layers = [layer for _ in range(8) for layer in (torch.nn.Linear(1024, 1024), torch.nn.GELU(), torch.nn.Dropout())]
model = torch.nn.Sequential(torch.nn.Conv2d(1, 1, 1), torch.nn.Flatten(), *layers).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
compiled = tidepool.torch.compile(model, budget=1 << 30, kernels="inductor")
for _ in range(2):
    optimizer.zero_grad()
    compiled(torch.randn(16384, 1, 32, 32, device="cuda")).square().mean().backward()
    optimizer.step()
"""


def write(folder, name, text):
    path = os.path.join(folder, name)
    pathlib.Path(path).write_text(text, encoding="utf-8")
    return path


def commands(folder):
    """Returns the commands of the build that make each journey, by its heading."""
    rmm, operations = write(folder, "rmm.csv", RMM), write(folder, "operations.csv", OPERATIONS)
    graph = os.path.join(folder, "graph.json")
    replay = [TOOL, "replay", operations, "--pool", "1MiB", "--device", "host"]
    schedule = [TOOL, "schedule", graph, "--policy", "best", "-o", os.path.join(folder, "schedule.json")]
    return {
        "A pool allocates": [replay],
        "A pool frees": [replay],
        "`tidepool size FILE`": [[TOOL, "size", rmm, "--plan", "--policy", "best-fit", "--policy", "planned"]],
        "A buffer is offloaded": [["examples/offload_a_buffer"], ["examples/compress_on_the_way"]],
        "A buffer comes back": [["examples/offload_a_buffer"]],
        "`tidepool schedule GRAPH --memory BYTES --policy best`": [
            [TOOL, "model", "alexnet", "--batch", "64", "-o", graph],
            *([*schedule, "--memory", memory] for memory in ("700MiB", "500MiB"))],
    }


def python_commands(folder, python):
    """Returns the same for the journeys in Python. A program that ends by itself leaves the counts of its functions."""
    dry_run = [TOOL, "dryrun", "--steps", "0"]
    return {
        "`tidepool dryrun -- python train.py`": [
            [*dry_run, "--memory", memory, "--", python, write(folder, "train.py", TRAIN)] for memory in ("2GiB", "700MiB")],
        "A model trains in a budget": [[*dry_run, "--", python, write(folder, "budget.py", BUDGET)]],
    }


def environment_for_python(root, build, folder):
    """Returns the environment in which Python notes its files and finds the sources of the package."""
    write(folder, "sitecustomize.py", WATCH)
    package = os.path.join(folder, "tidepool")
    os.makedirs(package)
    source = os.path.join(os.path.abspath(root), "bindings/python")
    for name in os.listdir(os.path.join(source, "tidepool")):
        os.symlink(os.path.join(source, "tidepool", name), os.path.join(package, name))
    os.symlink(os.path.join(source, "tidepool_startup"), os.path.join(folder, "tidepool_startup"))
    return {"TIDEPOOL_JOURNEY": os.path.join(folder, "noted"), "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1",
            "TIDEPOOL_C_LIBRARY": str(build / "bindings/c"), "PATH": f"{build / 'trace_replay'}:{os.environ['PATH']}"}


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


def named_in(root, text):
    """Returns the real paths of the sources and modules that a journey names. A module without a path lies in a folder that it names."""
    sources = SOURCE.findall(text)
    folders = FOLDER.findall(text) + [os.path.dirname(source) for source in sources if source.endswith(".py")]
    for module in MODULE.findall(text):
        places = sorted({place for folder in folders if os.path.isfile(os.path.join(root, place := f"{folder}/{module}"))})
        if module not in PROGRAMS:
            assert len(places) == 1, f"{module} is in {places or 'no folder'}, expected one folder that the journey names"
            sources += places
    return [os.path.realpath(os.path.join(root, source)) for source in sources]


def check(root, build, heading, text, lines, environment):
    """Makes a journey and returns the sources that it names and does not enter."""
    for path in build.rglob("*.gcda"):
        path.unlink()
    for line in lines:
        made = subprocess.run([build / line[0], *line[1:]], env={**os.environ, **environment}, capture_output=True, text=True, check=False)
        # A program that does not fit into its memory makes a journey, too.
        if made.returncode not in (0, 2 if "dryrun" in line else 0):
            return [f"{heading}: {' '.join(line)} ended with {made.returncode}: {made.stderr.strip()}"]
    ran, known = entered(build)
    notes = pathlib.Path(environment.get("TIDEPOOL_JOURNEY", ""))
    if notes.is_file():
        ran |= set(notes.read_text(encoding="utf-8").splitlines())
        notes.unlink()
    named = named_in(root, text)
    faults = [name for name in named if name not in ran and (name in known or name.endswith((".cc", ".py")))]
    print(f"{heading}: {len(named)} sources", flush=True)
    return [f"{heading}: {os.path.relpath(name, root)} is named and not entered" for name in faults]


def main(root, build, python=None):
    text = pathlib.Path(root, "docs/design/README.md").read_text(encoding="utf-8")
    journeys = dict(JOURNEY.findall(text))
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        made = {heading: (lines, {}) for heading, lines in commands(folder).items()}
        if python is None:
            print("without PYTHON: journeys in Python are left out")
        else:
            environment = environment_for_python(root, build, folder)
            made |= {heading: (lines, environment) for heading, lines in python_commands(folder, python).items()}
            faults += [f"the journey '{heading}' is not made, expected one of {list(made)}" for heading in set(journeys) - set(made)]
        for heading, (lines, environment) in made.items():
            if heading not in journeys:
                faults.append(f"docs/design/README.md has no journey '{heading}', expected one of {list(journeys)}")
                continue
            faults += check(root, build, heading, journeys[heading], lines, environment)
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), *sys.argv[3:4]))
