# SPDX-License-Identifier: Apache-2.0
"""One rank, or some, of a job of many: the ranks that a command line asks for, and the program that a launcher would start."""
import dataclasses
import json
import os
import pathlib
import re
import sys

from . import gpus, target, wrappers

STARTER = pathlib.Path(__file__).resolve().parent / "start_ranks.py"
REPRESENTATIVE = "representative"
MOST_RANKS = 1 << 20
OLD_LAUNCHER = "torch.distributed.launch"  # gives programs their rank as an option, unless it is told --use-env
LAUNCHERS = ("torch.distributed.run", OLD_LAUNCHER)
# Options of torchrun that no value follows.
FLAGS = {"standalone", "no-python", "module", "m", "run-path", "use-env", "virtual-local-rank"}
OTHER_LAUNCHERS = ("accelerate", "deepspeed", "mpirun", "mpiexec", "srun", "horovodrun")


@dataclasses.dataclass
class World:
    size: int
    ranks: "tuple[int, ...]"  # those asked for
    per_node: int  # ranks, and GPUs
    adds_stages: bool = False  # whether one rank of each pipeline stage is asked for too, where the program makes stages
    one_device: bool = False  # whether each rank sees its own GPU alone
    rank_option_at: "int | None" = None  # the number of words of the program before --local-rank=N; None: no such option

    @property
    def nodes(self):
        return self.size // self.per_node

    def answer(self, folder):
        """Returns the world as answers have it."""
        note = pathlib.Path(folder) / "stages"
        return {"size": self.size, "representative": self.adds_stages, "stages": json.loads(note.read_text()) if note.exists() else None}

    def start(self, command, folder):
        """Returns the command that starts the ranks of the program."""
        options = {"size": self.size, "ranks": self.ranks, "per_node": self.per_node, "folder": str(folder), "adds_stages": self.adds_stages,
                   "one_device": self.one_device, "rank_option_at": self.rank_option_at}
        return [sys.executable, "-I", str(STARTER), json.dumps(options), *command]


@dataclasses.dataclass
class Launch:
    """The numbers and the program of a command with torchrun."""
    nodes: str
    per_node: str
    program: list = dataclasses.field(default_factory=list)
    one_device: bool = False  # as in World
    rank_option_at: "int | None" = None


def launch_of(command):
    """Returns the Launch of a command that is torchrun's, or None."""
    own = os.path.basename(command[0])
    if own == "torchrun":
        return read_launch([target.interpreter_of(target.program_of(command)) or sys.executable], command[1:])
    if re.match(r"python[0-9.]*$", own) and "-m" in command:
        at = command.index("-m")
        if command[at + 1:at + 2] and command[at + 1] in LAUNCHERS:
            return read_launch(command[:at], command[at + 2:], command[at + 1] == OLD_LAUNCHER)
    return None


def read_launch(python, words, is_old=False):
    """Reads torchrun's own options, which end at the program, and the variables with their defaults. `python` begins the command of a
    script, and `is_old` says if the launcher is OLD_LAUNCHER."""
    found, flags = Launch(os.environ.get("PET_NNODES", "1"), os.environ.get("PET_NPROC_PER_NODE", "1")), set()
    words = list(words)
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word == "--":
            break
        name, _, value = word.lstrip("-").replace("_", "-").partition("=")
        if name in FLAGS:
            flags.add(name)
            continue
        if not value and not re.match("-[rt].", word):  # -r3
            if not words:
                raise ValueError(f"--{name} of torchrun has no value, expected one")
            value = words.pop(0)
        if name == "nnodes":
            found.nodes = value
        elif name == "nproc-per-node":
            found.per_node = value
    if not words:
        raise ValueError("torchrun without a program, expected one after its options")
    if flags & {"module", "m"}:
        python = [*python, "-m"]
    found.program = words if "no-python" in flags else [*python, *words]
    found.one_device = "virtual-local-rank" in flags
    if is_old and not flags & {"use-env", "no-python"}:
        found.rank_option_at = len(python) + 1
    return found


def nodes_of(text):
    """Returns the number of nodes that torchrun's option says."""
    least, _, most = text.partition(":")
    if most and most != least:
        raise ValueError(f"--nnodes {text} is an elastic job, expected one number of nodes: its ranks are known only then")
    return whole(least, "--nnodes")


def whole(text, option):
    if not re.fullmatch(r"[0-9]+", text) or int(text) == 0:
        raise ValueError(f"{option} {text}, expected a whole number from 1 on")
    return int(text)


def names_of(size):
    """Returns the names in the size of a world that is a product of them, as "tensor*pipeline"."""
    return [] if size is None or isinstance(size, int) or size.isdecimal() else size.split("*")


def size_with(size, values):
    """Returns the number of ranks of a size, which may be text: a number, or names of `values` with * between them."""
    if size is None or isinstance(size, int):
        return size
    ranks = 1
    for factor in size.split("*"):
        value = values.get(factor, factor)
        if not re.fullmatch(r"[0-9]{1,7}", value) or not 1 <= int(value) <= MOST_RANKS:
            raise ValueError(f"--world {size}: {'' if value == factor else factor + ' '}'{value}', expected 1 to {MOST_RANKS} ranks, or names "
                             "of --fit NAME=VALUE,VALUE with * between them")
        ranks *= int(value)
    if ranks > MOST_RANKS:
        raise ValueError(f"--world {size}: {ranks} ranks, expected at most {MOST_RANKS}")
    return ranks


def find(options):
    """Returns the World that the options ask for and the command of one rank, or None and the command as it is."""
    if options.world is None and not options.ranks:
        return None, options.command
    prefix, words = wrappers.unwrapped(options.command)
    launch = launch_of(words)
    if launch is None:
        check_program(words[0])
    size, per_node = size_of(options, launch)
    if size % per_node != 0:
        raise ValueError(f"{size} ranks on nodes of {per_node} GPUs, expected a number that divides the ranks: --devices N")
    ranks, adds_stages = ranks_of(options.ranks or "0", size)
    if launch is None:
        return World(size, ranks, per_node, adds_stages), options.command
    option_at = None if launch.rank_option_at is None else len(prefix) + launch.rank_option_at
    return World(size, ranks, per_node, adds_stages, launch.one_device, option_at), [*prefix, *launch.program]


def check_program(program):
    name = os.path.basename(program)
    if name in OTHER_LAUNCHERS:
        raise ValueError(f"{name} starts ranks of its own, expected the program of one rank (python train.py) or torchrun, of which "
                          "--world needs the options alone")


def size_of(options, launch):
    """Returns the ranks of the world and of each node."""
    per_node = options.devices or gpus.find(options.gpu).per_node
    if launch is None:
        if options.world is None:
            name = "--rank" if options.ranks.isdecimal() else "--ranks"
            raise ValueError(f"{name} {options.ranks} without --world, expected the number of all ranks, or torchrun with --nnodes and "
                              "--nproc-per-node")
        return options.world, options.devices or min(options.world, per_node)
    if launch.per_node not in ("auto", "gpu"):
        per_node = whole(launch.per_node, "--nproc-per-node")
    nodes = nodes_of(launch.nodes)
    size = nodes * per_node
    started = f"torchrun starts {nodes} nodes of {per_node} ranks, which are {size}"
    if size > MOST_RANKS:
        raise ValueError(f"{started}, expected at most {MOST_RANKS}")
    if options.world not in (None, size):
        raise ValueError(f"--world {options.world}, but {started}: leave --world out, or give the same number")
    if options.devices is not None and options.devices != per_node:
        raise ValueError(f"--devices {options.devices}, but torchrun starts {per_node} ranks on each node: leave --devices out, each rank "
                          "has a GPU")
    return size, per_node


def ranks_of(text, size):
    """Returns the ranks that a text names, and whether those of pipeline stages come on top."""
    if text == REPRESENTATIVE:
        return tuple(sorted({0, size - 1})), True
    ranks = []
    for word in text.split(","):
        if not re.fullmatch(r"[0-9]+", word):
            raise ValueError(f"--ranks {text}: '{word}' is no rank, expected numbers with commas between them, or {REPRESENTATIVE}")
        if int(word) >= size:
            raise ValueError(f"rank {word} is outside of a world of {size} ranks, expected 0 to {size - 1}")
        ranks.append(int(word))
    return tuple(sorted(set(ranks))), False
