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

OLDEST_TORCH = (2, 6)
CUDA_MAJORS = (12, 13)  # the versions of the CUDA runtime that the stand-in replaces

PROBE = """
import glob, importlib.metadata, importlib.util, json, os, re, sys
found = {"python": list(sys.version_info[:2])}
spec = importlib.util.find_spec("torch")
if spec is not None and spec.origin:
    folder = os.path.dirname(spec.origin)
    names = {}
    with open(os.path.join(folder, "version.py")) as file:
        exec(file.read(), names)
    found.update(torch=names.get("__version__"), cuda=names.get("cuda"), hip=names.get("hip"), folder=folder)
    # Places of NVIDIA's own libraries, which PyTorch would load before those on LD_LIBRARY_PATH: wheels, and Conda's packages.
    found["copies"] = [entry for entry in sys.path if os.path.isdir(os.path.join(entry, "nvidia"))]
    found["copies"] += glob.glob(os.path.join(sys.prefix, "lib", "libcudart.so*"))
    try:
        needs = importlib.metadata.requires("torch") or []
    except importlib.metadata.PackageNotFoundError:
        needs = []
    cudnn = [re.match(r"nvidia-cudnn-cu[0-9]+==([0-9]+)\\.([0-9]+)\\.([0-9]+)", need) for need in needs]
    found["cudnn"] = next((list(map(int, match.groups())) for match in cudnn if match), None)
print(json.dumps(found))
"""


@dataclasses.dataclass
class Target:
    python: str  # the interpreter
    torch: str  # its version
    folder: str  # of the package torch
    cuda_major: int
    has_copies: bool  # libraries of NVIDIA that PyTorch would load before those on LD_LIBRARY_PATH
    cudnn: "tuple | None"  # the version that PyTorch was built for, where its package says it

    @property
    def library_folder(self):
        return os.path.join(self.folder, "lib")


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
    return checked(python, found)


def checked(python, found):
    """Returns the Target, or raises DryRunError where the stand-in has nothing for this PyTorch."""
    torch = found.get("torch")
    if torch is None:
        raise DryRunError(f"{python} has no PyTorch, expected an environment in which the program runs")
    build = f"torch {torch} of {python} is built"
    if found["cuda"] is None:
        kind = f"for ROCm {found['hip']}" if found["hip"] else "without CUDA"
        raise DryRunError(f"{build} {kind}, expected a build for CUDA: pip install torch")
    major = int(found["cuda"].split(".")[0])
    if major not in CUDA_MAJORS:
        raise DryRunError(f"{build} for CUDA {found['cuda']}, expected one for CUDA {' or '.join(map(str, CUDA_MAJORS))}")
    if tuple(map(int, re.match(r"(\d+)\.(\d+)", torch).groups())) < OLDEST_TORCH:
        raise DryRunError(f"torch {torch} of {python} is too old, expected {'.'.join(map(str, OLDEST_TORCH))} or newer")
    return Target(python, torch, found["folder"], major, bool(found["copies"]), found["cudnn"] and tuple(found["cudnn"]))
