#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the workflows and actions of .github: each step runs one thing, shell scripts parse, files that they name exist, names of the
matrix are in it, and no job asks in a container for a Python that is made for runners alone.
usage: workflows_test.py SOURCE
"""
import pathlib
import re
import subprocess
import sys

try:
    import yaml
except ImportError:
    print("PyYAML was not found, so the workflows are not read: scripts/setup.sh installs it")
    sys.exit(0)

root = pathlib.Path(sys.argv[1])
FILES = re.compile(r"(?<![\w./-])(?:scripts|tests|\.ci)/[\w./-]+")
# actions/setup-python has Pythons for the systems of runners.
SYSTEMS_OF_RUNNERS = ("ubuntu:",)


def faults_of_script(script):
    """Yields the faults of a shell script."""
    plain = re.sub(r"\$\{\{.*?\}\}", "value", script)
    done = subprocess.run(["bash", "-n"], input=plain, capture_output=True, text=True, check=False)
    if done.returncode:
        yield done.stderr.strip()
    for name in FILES.findall(plain):
        if not (root / name).exists():
            yield f"no {name} in the sources"


def faults_of_step(step):
    """Yields the faults of a step."""
    if ("run" in step) == ("uses" in step):
        yield f"step {step}, expected either run or uses"
    yield from faults_of_script(step.get("run", ""))


def has_setup_python(steps):
    return any(step.get("uses", "").startswith("actions/setup-python@") for step in steps)


def faults_of_job(job):
    """Yields the faults of a job."""
    matrix = job.get("strategy", {}).get("matrix", {})
    given = {*matrix, *(key for row in matrix.get("include", []) for key in row)}
    for name in sorted(set(re.findall(r"\$\{\{\s*matrix\.(\w+)", yaml.dump(job, width=10000))) - given):
        yield f"no {name} in the matrix"
    container = job.get("container", "")
    if container and not container.startswith(SYSTEMS_OF_RUNNERS) and has_setup_python(job["steps"]):
        yield f"actions/setup-python has no Python for {container}"
    for step in job["steps"]:
        yield from faults_of_step(step)


complaints = []
workflows = sorted(root.glob(".github/workflows/*.yml"))
actions = sorted(root.glob(".github/actions/*/action.yml"))
for path in workflows + actions:
    read = yaml.safe_load(path.open(encoding="utf-8"))
    jobs = {"": read["runs"]} if path in actions else read["jobs"]
    complaints += [f"{path.relative_to(root)}: {name}: {fault}" for name, job in jobs.items() for fault in faults_of_job(job)]

print("\n".join(complaints + [f"{len(workflows)} workflows and {len(actions)} actions, {len(complaints)} faults"]))
sys.exit(1 if complaints else 0)
