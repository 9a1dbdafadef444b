# SPDX-License-Identifier: Apache-2.0
"""Environments of Python for comparisons: those that are there, and those that pip makes from the one of the command.

An environment of pip has the packages that its name lists, and those of the command's interpreter for all else. It is kept.
"""
import contextlib
import dataclasses
import fcntl
import hashlib
import os
import pathlib
import shlex
import shutil
import subprocess

from . import program, target
from .errors import DryRunError

PIP = "pip:"
PROBE = "import site, sys; print(sys.version_info[0], sys.version_info[1], *map(repr, site.getsitepackages()), sep='\\n')"
LAST_LINES = 3  # of the errors of pip


@dataclasses.dataclass
class Environment:
    name: str  # as the user wrote it
    python: str

    @property
    def folder(self):
        """The folder of its programs."""
        return os.path.dirname(self.python)

    def command(self, words):
        """Returns a command with the program of this environment: the interpreter, or a script such as torchrun that names it. Other
        programs find the interpreter in PATH."""
        own = target.program_of(words)
        names = target.interpreter_of(own)
        if names == own:
            return [self.python, *words[1:]]
        place = os.path.join(self.folder, os.path.basename(own))
        if names and os.access(place, os.X_OK):
            return [place, *words[1:]]
        if names and not asks_env(own):
            raise DryRunError(f"{self.name} has no program {os.path.basename(own)} in {self.folder}, expected `python ...` as the command")
        return list(words)


def asks_env(script):
    """Returns whether a script is run by the interpreter that PATH has."""
    with open(script, "rb") as file:
        return file.readline(4096)[2:].split()[:1] == [b"/usr/bin/env"]


def find(name, command):
    """Returns the environment of a name: `pip:PACKAGE...`, an interpreter, or the folder of an environment."""
    if name.startswith(PIP):
        return Environment(name, made(name, interpreter(command)))
    path = pathlib.Path(name)
    if path.is_dir():
        path = path / "bin" / "python"
    if not os.access(path, os.X_OK) or path.is_dir():
        raise DryRunError(f"{name}: no environment, expected pip:PACKAGE==VERSION, an interpreter, or a folder with bin/python")
    return Environment(name, os.path.abspath(path))


def interpreter(command):
    """Returns the interpreter that an environment of pip is put on top of."""
    own = target.interpreter_of(target.program_of(command)) or shutil.which("python3")
    if own is None:
        raise DryRunError("no python3 in PATH, expected the interpreter of the program")
    return shutil.which(own) or own


def made(name, base):
    """Returns the interpreter of an environment of pip, which is made at its first use."""
    try:
        wanted = shlex.split(name[len(PIP):])
    except ValueError as error:
        raise DryRunError(f"{name}: {error}") from None
    if not any(not word.startswith("-") for word in wanted):
        raise DryRunError(f"{name}: no package, expected one such as pip:torch==2.10.0")
    probe = run([base, "-c", PROBE], f"{base} is no working Python")
    key = hashlib.sha256("\n".join([probe, os.path.realpath(base), *wanted]).encode()).hexdigest()[:16]
    folder = program.cache_folder() / "environments" / key
    python = folder / "bin" / "python"
    with lock(folder):
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            make(folder, base, probe.splitlines()[2:], wanted, name)
    return str(python)


def make(folder, base, packages, wanted, name):
    """Makes an environment. Its own packages come before those of the interpreter `base`, which lie in the folders `packages`."""
    python = str(folder / "bin" / "python")
    try:
        run([base, "-m", "venv", str(folder)], f"{name}: no environment can be made with {base}")
        site = run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], f"{name}: {python} does not run").strip()
        pathlib.Path(site, "tidepool-base.pth").write_text("".join(path.strip("'\"") + "\n" for path in packages), encoding="utf-8")
        run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", *wanted], f"{name}: pip failed")
        (folder / "done").write_text(name + "\n", encoding="utf-8")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def run(command, failure):
    """Returns the output of a program, or raises DryRunError with its last lines."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        last = "\n".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-LAST_LINES:])
        raise DryRunError(f"{failure}: {last or f'status {done.returncode}'}")
    return done.stdout


@contextlib.contextmanager
def lock(folder):
    """Lets one dry run make an environment."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
