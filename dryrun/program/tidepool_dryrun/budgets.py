# SPDX-License-Identifier: Apache-2.0
"""The command line that trains the models of a program in a budget of memory, with the program as it is."""
import itertools
import os
import shlex

from . import target, world

WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")  # options of Python that a word follows


def command_with(command, budget, reads_variable):
    """Returns the text of the command with a budget, or None for one that only its code can change. `reads_variable` says if PyTorch there
    calls tidepool, which reads TIDEPOOL_BUDGET."""
    if reads_variable:
        return f"TIDEPOOL_BUDGET={budget} {shlex.join(command)}"
    at = place_of_program(command)
    return at and shlex.join([*command[:at], "-m", "tidepool.torch", "--budget", budget, *command[at:]])


def place_of_program(command):
    """Returns the number of words before the script, or the option -m, that an interpreter or torchrun runs; None for another command."""
    launch = world.launch_of(command)
    if launch is None:
        return place_after_python(command)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(reversed(command), reversed(launch.program))))
    return len(command) - same if 0 < same < len(launch.program) else None


def place_after_python(command):
    if not target.PYTHON.match(os.path.basename(command[0])):
        return None
    at = 1
    while command[at:] and command[at].startswith("-") and command[at] != "-m":
        if command[at].startswith("-c") or command[at] == "-":
            return None
        at += 2 if command[at] in WITH_VALUE else 1
    return at if command[at:] else None
