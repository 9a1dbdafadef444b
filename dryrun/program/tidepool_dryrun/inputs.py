# SPDX-License-Identifier: Apache-2.0
"""Standard input of the program, which may run more than once."""
import os
import shutil
import subprocess
import sys
import tempfile

from . import target

NAMES = ("-", "/dev/stdin")  # of standard input, in a command


class Input:
    """Standard input of this process for the runs of a command. A terminal is not given: a question to it would hold up the run."""

    def __init__(self, command):
        self.command = command
        self.kept = None  # the contents of a pipe that the command reads as a whole
        self.begin = None  # the position of a file; None: another kind

    def of_run(self):
        """Returns the descriptor for the next run. Files begin where they did for the first one."""
        if sys.stdin is None or os.isatty(sys.stdin.fileno()):
            return subprocess.DEVNULL
        descriptor = self.descriptor()
        if self.begin is not None:
            os.lseek(descriptor, self.begin, os.SEEK_SET)
        return descriptor

    def descriptor(self):
        if self.kept:
            return self.kept.fileno()
        own = sys.stdin.fileno()
        if self.begin is None:
            self.begin = position_of(own)
        if self.begin is not None or not is_read(self.command):
            return own
        self.kept, self.begin = tempfile.TemporaryFile(), 0
        with open(own, "rb", closefd=False) as file:
            shutil.copyfileobj(file, self.kept)
        self.kept.flush()
        return self.kept.fileno()


def position_of(descriptor):
    """Returns the position of a file, or None where there is no going back."""
    try:
        return os.lseek(descriptor, 0, os.SEEK_CUR)
    except OSError:
        return None


def is_read(command):
    """Returns whether a command says that it reads standard input: its program, as of `python -`, or its data."""
    return any(word in NAMES for word in command) or (len(command) == 1 and bool(target.PYTHON.match(os.path.basename(command[0]))))
