# SPDX-License-Identifier: Apache-2.0
"""Finds the interpreter that a command runs, and its PyTorch, without importing it: an import takes seconds."""
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys

from .errors import DryRunError

STAND_IN_CUDA = "13"  # the major version of the CUDA runtime that the stand-in replaces

PROBE = """
import importlib.util, json, os, sys
found = {"version": list(sys.version_info[:2]), "prefix": sys.prefix}
spec = importlib.util.find_spec("torch")
if spec is not None and spec.origin:
    folder = os.path.dirname(spec.origin)
    names = {}
    with open(os.path.join(folder, "version.py")) as file:
        exec(file.read(), names)
    found.update(torch=names.get("__version__"), cuda=names.get("cuda"), folder=folder)
print(json.dumps(found))
"""


@dataclasses.dataclass
class Target:
    python: str  # the interpreter
    torch: str  # its version
    folder: str  # of the package torch

    @property
    def library_folder(self):
        return os.path.join(self.folder, "lib")

    @property
    def has_nvidia_wheels(self):
        """Whether libraries of NVIDIA lie beside PyTorch, which it would load before those on LD_LIBRARY_PATH."""
        return os.path.isdir(os.path.join(os.path.dirname(self.folder), "nvidia"))


def interpreter_of(command):
    """Returns the interpreter of a command: its first word, or the one that the script of that name begins with."""
    program = shutil.which(command[0])
    if program is None:
        raise DryRunError(f"{command[0]}: no such program, expected one that can be run")
    if re.match(r"(python|pypy)[0-9.]*$", os.path.basename(program)):
        return program
    with open(program, "rb") as file:
        first = file.readline(4096)
    words = first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []
    if words and os.path.basename(words[0]) == "env":
        words = words[1:]
    if words and "python" in os.path.basename(words[0]):
        found = shutil.which(words[0])
        if found is not None:
            return found
    return shutil.which("python3") or sys.executable


def find(command):
    python = interpreter_of(command)
    probe = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, timeout=60, check=False)
    if probe.returncode != 0:
        raise DryRunError(f"{python}: not a working Python: {probe.stderr.strip()[-300:]}")
    found = json.loads(probe.stdout.splitlines()[-1])
    if found.get("torch") is None:
        raise DryRunError(f"{python} has no PyTorch, expected an environment in which the program runs")
    if found["cuda"] is None:
        raise DryRunError(f"torch {found['torch']} of {python} is built without CUDA, expected a build with it")
    if found["cuda"].split(".")[0] != STAND_IN_CUDA:
        raise DryRunError(f"torch {found['torch']} of {python} is built for CUDA {found['cuda']}, "
                          f"expected one for CUDA {STAND_IN_CUDA}")
    return Target(python, found["torch"], found["folder"])
