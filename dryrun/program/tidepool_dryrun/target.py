# SPDX-License-Identifier: Apache-2.0
"""Finds the interpreter that a command runs, and its PyTorch, without importing it: an import takes seconds. Programs
without PyTorch are dry run too, for the memory that they take from the CUDA runtime itself."""
import dataclasses
import glob
import json
import os
import re
import shutil
import subprocess
import sys

from . import wrappers
from .errors import DryRunError

OLDEST_TORCH = (2, 6)
PYTHON = re.compile(r"(python|pypy)[0-9.]*$")
CUDA_MAJORS = (12, 13)  # the versions of the CUDA runtime that the stand-in replaces

PROBE = """
import glob, importlib.metadata, importlib.util, json, os, re, sys
found = {"python": list(sys.version_info[:2]), "executable": sys.executable}
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
    def metadata(read, package, nothing):
        try:
            return read(package) or nothing
        except importlib.metadata.PackageNotFoundError:
            return nothing
    needs = [re.match(r"(nvidia-cudnn-cu[0-9]+)==([0-9.]+)", need) for need in metadata(importlib.metadata.requires, "torch", [])]
    versions = [metadata(importlib.metadata.version, need[1], need[2]) for need in needs if need]
    found["cudnn"] = [int(part) for part in versions[0].split(".")[:3]] if versions else None
spec = importlib.util.find_spec("tidepool")
if spec is not None and spec.origin:
    places = (os.path.join(os.path.dirname(spec.origin), *part) for part in (("torch.py",), ("torch", "__init__.py")))
    found["compiles"] = any("\\ndef compile(" in open(path).read() for path in places if os.path.exists(path))
    points = (point for package in importlib.metadata.distributions() for point in package.entry_points)
    found["reads_budget"] = any((point.group, point.name) == ("torch.backends", "tidepool") for point in points)
for name in ("cupy", "numba", "pycuda"):
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.origin:
        found.setdefault("other", os.path.dirname(spec.origin))
print(json.dumps(found))
"""


@dataclasses.dataclass
class Target:
    python: str  # the interpreter
    torch: "str | None"  # its version; None: a program without PyTorch
    folder: "str | None"  # of the package torch
    cuda_major: int
    has_copies: bool  # libraries of NVIDIA that the program would load before those on LD_LIBRARY_PATH
    cudnn: "tuple | None"  # the version beside PyTorch, or else the one that its package names
    compiles: bool = False  # whether a tidepool beside PyTorch has tidepool.torch.compile
    reads_budget: bool = False  # whether `import torch` calls it, and it reads TIDEPOOL_BUDGET

    @property
    def library_folder(self):
        return os.path.join(self.folder, "lib")


def program_of(command):
    program = shutil.which(command[0])
    if program is None:
        raise DryRunError(f"{command[0]}: no such program, expected one that can be run")
    return program


def interpreter_of(program):
    """Returns the interpreter that a program is or that its script begins with, or None where it is no Python."""
    if PYTHON.match(os.path.basename(program)):
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
    return None


def interpreter_of_words(words):
    """Returns the interpreter of a command that a wrapper may start, with a PATH of its own."""
    if PYTHON.match(words[0]):
        return words[0]
    program = shutil.which(words[0])
    return program and interpreter_of(program)


def find(command):
    program = program_of(command)
    prefix, words = wrappers.unwrapped(command)
    own = interpreter_of_words(words)
    # Other programs, such as scripts of a shell, may start the Python that they find.
    python = own or shutil.which("python3") or sys.executable
    probe = subprocess.run([*prefix, python, "-c", PROBE], capture_output=True, text=True, timeout=60, check=False)
    if probe.returncode != 0:
        raise DryRunError(f"{python}: not a working Python: {probe.stderr.strip()[-300:]}")
    found = json.loads(probe.stdout.splitlines()[-1])
    python = found["executable"] if prefix else python
    if found.get("torch") is None and (own is None or "other" in found):
        return without_torch(python, program if own is None else found["other"])
    return checked(python, found)


def without_torch(python, user):
    """Returns the Target of a program that uses the CUDA runtime itself, or through the package in the folder `user`."""
    if os.path.isdir(user):
        modules = glob.glob(os.path.join(os.path.dirname(user), "cupy_backends", "cuda", "api", "runtime.*.so"))
    else:
        modules = [user]
    needs = "".join(subprocess.run(["ldd", module], capture_output=True, text=True, check=False).stdout for module in modules)
    major = re.search(r"libcudart\.so\.(\d+)", needs)
    if major and int(major[1]) not in CUDA_MAJORS:
        raise DryRunError(f"{modules[0]} needs {major[0]}, expected CUDA {' or '.join(map(str, CUDA_MAJORS))}")
    return Target(python, None, None, int(major[1]) if major else CUDA_MAJORS[-1], True, None)


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
    return Target(python, torch, found["folder"], major, bool(found["copies"]), found["cudnn"] and tuple(found["cudnn"]),
                  found.get("compiles", False), found.get("reads_budget", False))
