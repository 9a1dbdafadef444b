# SPDX-License-Identifier: Apache-2.0
"""tidepool dryrun: how much memory will this program need on a GPU that is not there?"""
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile

from . import answer as answers
from . import batches, compare, fit, front, gpus, graph, outside, program, remedies, target, text, world
from .errors import DryRunError

@dataclasses.dataclass
class Orders:
    """The options of the command line, checked there."""
    command: list
    stand_in: str  # the folder of the stand-in for the CUDA runtime
    tool: str = "tidepool"  # the program
    gpu: str = "h100"
    memory_bytes: "int | None" = None  # None: that of the GPU
    devices: "int | None" = None  # GPUs; None: one, or those of the ranks of a node
    world: "int | None" = None  # ranks of the job, of which some run
    ranks: str = ""  # those that run
    steps: int = 3
    time_limit_seconds: float = 300
    fit: str = ""  # empty: one run
    initializes: bool = True
    density: float = 0.5
    cudnn_workspace_bytes: "int | None" = None  # of each convolution; None: its shape decides
    snapshot: str = ""
    report: str = ""
    graph: str = ""  # the file of the task graph
    front: str = ""  # the file of the picture of time against memory
    prices: str = ""  # the file with prices of GPUs
    compare: tuple = ()  # the names of two environments
    by: str = ""  # "line" or "module": a table of the peak
    json: bool = False
    checkpoints: tuple = ()  # modules that keep their input alone, in a further run with a task graph

    @property
    def records_steps(self):
        """Whether the program notes the operators of its steps."""
        return bool(self.graph or self.front)


class DryRun:
    """The runs of one command. `tool` answers questions about snapshots."""

    def __init__(self, orders, tool=None):
        self.orders = orders
        self.world, self.command = world.find(orders)
        if orders.by not in ("", *text.TABLES):
            raise ValueError(f"a table by {orders.by!r}, expected {' or '.join(text.TABLES)}")
        if orders.by and orders.fit:
            raise ValueError("--by with --fit, expected one of them: the table is that of one run")
        of_step = "--graph" if orders.graph else "--front" if orders.front else ""
        if of_step and orders.steps == 1:
            raise ValueError(f"{of_step} with --steps 1, expected 2 or more: the graph is that of the last step, and the first one makes the "
                             "state of the optimizer")
        if of_step and orders.fit:
            raise ValueError(f"{of_step} with --fit, expected one of them: the graph is that of one run")
        if orders.prices and not orders.front:
            raise ValueError("--prices without --front, expected both: prices are those of the GPUs that --front tells")
        front.prices(orders.prices)  # before the run
        gpu = gpus.find(orders.gpu)
        memory_bytes = gpu.memory_bytes if orders.memory_bytes is None else orders.memory_bytes
        if memory_bytes <= 0:
            raise ValueError(f"memory of {memory_bytes} bytes, expected more than 0")
        devices = self.world.per_node if self.world else orders.devices or 1
        self.machine = program.Machine(gpu, memory_bytes, devices)
        self.tool = tool or answers.Tool(orders.tool)
        self.target = target.find(self.command)

    def answer(self, command, folder, orders=None, machine=None):
        """Runs the command and returns the answer, which has files in the folder. Further runs have orders and a machine of their own."""
        orders, machine = orders or self.orders, machine or self.machine
        own = program.environment(self.target, machine, orders.stand_in, folder, orders, self.world is not None)
        program.check_loads(self.target, own)
        started = self.world.start(command, folder) if self.world else command
        finished = program.run(started, own, orders.time_limit_seconds)
        has_nodes = self.world is not None and self.world.nodes > 1
        around = outside.Around(machine.gpu, machine.devices, has_nodes, self.orders.memory_bytes is None)
        return answers.collect(folder, finished, around, machine.memory_bytes, self.tool, self.world)


def keep_files(run, answer, title):
    """Writes the files that the options ask for, from the rank that takes most. `title` names the program."""
    orders = run.orders
    rank = answers.largest_of(answer["ranks"])
    if (orders.snapshot or orders.report) and rank["snapshot"] is None:
        raise DryRunError("a program that takes no memory through PyTorch has no snapshot and no report, expected neither --snapshot "
                          "nor --report")
    if orders.records_steps and rank["snapshot"] is None:
        raise DryRunError("a program that takes no memory through PyTorch has no task graph, expected neither --graph nor --front")
    if orders.snapshot:
        shutil.copyfile(rank["snapshot"], orders.snapshot)
    if orders.report:
        # The report has the name of its file as its title.
        named = pathlib.Path(rank["snapshot"]).with_name(f"{text.program_name(title)} on {answer['gpu']}")
        named.symlink_to(rank["snapshot"])
        run.tool.report(named, orders.report)
    step = graph.make(rank) if orders.records_steps and answer["fits"] else None
    if step:
        write_graph(run, step, answer, answer, title)
    if answer["torch"] and not (answer["interrupted"] or answer["ran_out_of_time"]):
        if answer["fits"]:
            answer["larger_batch"] = batches.larger(run.command, answer, step)
        else:
            explain(run, answer, title)
    for one in answer["ranks"]:
        del one["snapshot"]


def write_graph(run, step, answer, needed, title):
    """Writes the files of the task graph of a step that the options name. `needed` is the answer of the run that the step belongs to."""
    name, peak = text.program_name(title), needed["peak_live_bytes"]
    if run.orders.graph:
        answer["graph"] = graph.write(step, name, run.machine.gpu, peak, run.orders.graph)
    if run.orders.front:
        ratio = min(1.0, peak / needed["reserved_range"][1])  # PyTorch is assumed to reserve as much more in less memory
        answer["front"] = front.write(run, step, ratio, name)


def explain(run, answer, title):
    """Adds to an answer the memory that the program needs, and changes that would make it fit: nothing where it does not run in more
    memory either."""
    with remedies.Remedies(run, answer) as further:
        try:
            needed, rank = further.need()
        except DryRunError:
            if run.orders.records_steps:
                raise
            return
        answer["needed_bytes"] = needed["reserved_range"][1]
        if run.orders.records_steps:
            write_graph(run, further.graph or graph.make(rank), answer, needed, title)
        answer["remedies"] = further.find()


def run_once(run, orders):
    with tempfile.TemporaryDirectory(prefix="tidepool-dryrun-") as folder:
        answer = run.answer(run.command, pathlib.Path(folder))
        keep_files(run, answer, script_of(run.command))
    if orders.json:
        print(json.dumps(answer))
    else:
        print("\n".join(text.lines(answer, script_of(run.command)) + text.by(orders.by, answer)))
    return 0 if answer["fits"] else 2


def run_fit(run, orders):
    name, least, most = fit.parse(orders.fit)
    if not any("{" + name + "}" in word for word in run.command):
        raise DryRunError(f"--fit {orders.fit}: the command has no {{{name}}}, expected it in place of the value")
    tried = []

    def fits(value):
        with tempfile.TemporaryDirectory(prefix="tidepool-dryrun-") as folder:
            answer = run.answer(fit.with_value(run.command, name, value), pathlib.Path(folder))
        tried.append({"value": value, "fits": answer["fits"], "peak_reserved_bytes": answer["peak_reserved_bytes"]})
        verdict = "fits" if answer["fits"] else "does not fit"
        print(f"{name} {value}: {verdict}, {text.size(answer['peak_reserved_bytes'])} reserved", file=sys.stderr)
        return answer["fits"]

    found = fit.largest(least, most, fits)
    if orders.json:
        print(json.dumps({"dry_run": True, "gpu": run.machine.gpu.title, "memory_bytes": run.machine.memory_bytes, "name": name,
                          "largest": found, "runs": tried}))
    elif found is None:
        print(f"{name} {least} does not fit in {text.size(run.machine.memory_bytes)} ({run.machine.gpu.title} assumed)")
    else:
        print(f"{name} {found} is the largest that fits in {text.size(run.machine.memory_bytes)} ({run.machine.gpu.title} assumed)")
    return 2 if found is None else 0


def run_compare(orders):
    compare.check(orders)
    found = compare.run(DryRun, orders)
    print(json.dumps(found) if orders.json else "\n".join(compare.lines(found, script_of(orders.command))))
    return 0 if all(answer["fits"] for answer in found["compared"]) else 2


def script_of(command):
    """Returns the word that names the program to people."""
    return next((word for word in command if word.endswith(".py")), command[0])


def of_bytes(value):
    """Returns a text of the command line, which has a character for each byte, or a list of texts."""
    if isinstance(value, list):
        return tuple(map(of_bytes, value))
    return os.fsdecode(value.encode("latin-1")) if isinstance(value, str) else value


def interrupt_at_signals():
    """Ends the run as Ctrl-C does at the signals that would end this process and leave the program: a job is cancelled, or its
    scheduler warns it, a terminal closes, or `timeout` strikes."""
    ends = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)

    def interrupt(*_):
        for number in ends:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in ends:
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup sets it
            signal.signal(number, interrupt)


def main(words, command):
    """Runs the command with the options in `words`."""
    interrupt_at_signals()
    orders = Orders(command=command, **{name: of_bytes(value) for name, value in json.loads(words).items()})
    try:
        if orders.compare:
            return run_compare(orders)
        run = DryRun(orders)
        return run_fit(run, orders) if orders.fit else run_once(run, orders)
    except (DryRunError, ValueError) as error:
        print(f"tidepool: {text.printable_lines(str(error))}", file=sys.stderr)
    except OSError as error:
        place = f"{text.printable(os.fsdecode(error.filename))}: " if error.filename else ""
        print(f"tidepool: {place}{error.strerror}", file=sys.stderr)
    except KeyboardInterrupt:
        print("tidepool: interrupted before there was an answer", file=sys.stderr)
    return 1
