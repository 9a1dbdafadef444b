# SPDX-License-Identifier: Apache-2.0
"""tidepool dryrun: how much memory will this program need on a GPU that is not there?"""
import dataclasses
import functools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from . import answer as answers
from . import compare, fit, front, gpus, graph, inputs, layouts, layouts_picture, outputs, outside, program, remedies, target, text, world
from .errors import DryRunError

NO_OUTPUT = "standard output cannot be written, expected a file or pipe with room"


@dataclasses.dataclass
class Options:
    """The options of a dry run, from the command line or from Python. DryRun checks those that depend on each other."""
    command: list
    stand_in: str  # the folder of the stand-in for the CUDA runtime
    tool: str = "tidepool"  # the program
    gpu: str = "h100"
    memory_bytes: "int | None" = None  # None: that of the GPU
    devices: "int | None" = None  # GPUs; None: one, or those of the ranks of a node
    world: "int | str | None" = None  # ranks of the job, of which some run; text: a number, or names of `fit` with * between them
    ranks: str = ""  # those that run
    steps: int = 3
    time_limit_seconds: float = 300
    fit: tuple = ()  # a range, and choices of values; none: one run
    jobs: int = 1  # dry runs at a time, where there are choices
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
    budget: int = 0  # bytes of tensors in which a further run trains by tidepool.torch.offload; 0: none
    is_function: bool = False  # whether the command calls a function of another process
    records_steps: "bool | None" = None  # whether the program notes the operators of its steps; None: for a graph or a picture

    def __post_init__(self):
        if self.records_steps is None:
            self.records_steps = bool(self.graph or self.front)


def check_fit(options):
    """Raises ValueError for options that belong to one run beside --fit, which makes several."""
    has_layouts = bool(options.fit and fit.split(options.fit)[1])  # --front draws them
    names = ("by", "snapshot", "report", "graph", "prices") + (() if has_layouts else ("front",))
    of_run = next((name for name in names if getattr(options, name)), None)
    if of_run and options.fit:
        raise ValueError(f"--{of_run} with --fit: it is that of one run, remove one of the two options")


class DryRun:
    """The runs of one command. `tool` answers questions about snapshots, and `source` has standard input; None: the program gets none."""

    def __init__(self, options, tool=None, source=None):
        self.options = options = dataclasses.replace(options, world=world.size_with(options.world, {}))
        self.world, self.command = world.find(options)
        if options.by not in ("", *text.TABLES):
            raise ValueError(f"a table by {options.by!r}, expected {' or '.join(text.TABLES)}")
        of_step = "--graph" if options.graph else "--front" if options.front else ""
        if of_step and options.steps == 1:
            raise ValueError(f"{of_step} with --steps 1, expected 2 or more: the graph is that of the last step, and the first one makes the "
                             "state of the optimizer")
        if options.prices and not options.front:
            raise ValueError("--prices without --front: prices are those of the GPUs that --front tells, add --front FILE")
        outputs.check(options)
        gpu = gpus.find(options.gpu)
        memory_bytes = gpu.memory_bytes if options.memory_bytes is None else options.memory_bytes
        if memory_bytes <= 0:
            raise ValueError(f"memory of {memory_bytes} bytes, expected more than 0")
        devices = self.world.per_node if self.world else options.devices or 1
        if gpu.is_integrated and devices > 1:
            raise ValueError(f"{devices} GPUs on a node, expected 1: the {gpu.title} is a part of its host")
        self.machine = program.Machine(gpu, memory_bytes, devices)
        self.tool = tool or answers.Tool(options.tool)
        self.target = target.find(self.command)
        self.source = source

    def answer(self, command, folder, options=None, machine=None):
        """Runs the command and returns the answer, which has files in the folder. Further runs have options and a machine of their own."""
        options, machine = options or self.options, machine or self.machine
        own = program.environment(self.target, machine, options.stand_in, folder, options, self.world is not None)
        program.check_loads(self.target, own)
        started = self.world.start(command, folder) if self.world else command
        stdin = self.source.of_run() if self.source else subprocess.DEVNULL
        finished = program.run(started, own, options.time_limit_seconds, stdin)
        has_nodes = self.world is not None and self.world.nodes > 1
        around = outside.Around(machine.gpu, machine.devices, has_nodes, self.options.memory_bytes is None)
        return answers.collect(folder, finished, around, machine.memory_bytes, self.tool, self.world)


def keep_files(run, answer, title):
    """Writes the files that the options ask for, from the rank that takes most. `title` names the program."""
    try:
        write_files(run, answer, title)
    finally:
        for one in answer["ranks"]:
            del one["snapshot"]


def write_files(run, answer, title):
    options = run.options
    rank = answers.largest_of(answer["ranks"])
    if (options.snapshot or options.report) and rank["snapshot"] is None:
        raise DryRunError("a program that takes no memory through PyTorch has no snapshot and no report, expected neither --snapshot "
                          "nor --report")
    if options.records_steps and rank["snapshot"] is None:
        raise DryRunError("a program that takes no memory through PyTorch has no task graph, expected neither --graph nor --front")
    if options.snapshot:
        shutil.copyfile(rank["snapshot"], options.snapshot)
    if options.report:
        # The report has the name of its file as its title.
        named = pathlib.Path(rank["snapshot"]).with_name(f"{text.program_name(title)} on {answer['gpu']}")
        named.symlink_to(rank["snapshot"])
        run.tool.report(named, options.report)
    each_fits = all(one["fits"] for one in answer["ranks"])
    step = graph_of(rank, answer) if options.records_steps and each_fits else None
    if step:
        write_graph(run, step, answer, answer, title)
    if answer["torch"] and not (answer["interrupted"] or answer["ran_out_of_time"]):
        if each_fits and answer["shared"]:
            return  # what a change of one process does to the sum is not known
        if each_fits:
            with remedies.FurtherRuns(run, answer) as further:
                answer["larger_batch"] = further.larger_batch(step)
        else:
            explain(run, answer, title)


def graph_of(rank, answer):
    """Returns the graph of the step of a rank. Raises DryRunError with the cause where a run that was stopped has none."""
    try:
        return graph.make(rank)
    except DryRunError as error:
        if not answer["so_far"]:
            raise
        stop = "the time limit, expected a longer --time-limit" if answer["ran_out_of_time"] else "an interrupt"
        raise DryRunError(f"{error}; the program was ended by {stop}") from None


def write_graph(run, step, answer, needed, title):
    """Writes the files of the task graph of a step that the options name. `needed` is the answer of the run that the step belongs to."""
    name = text.program_name(title)
    if run.options.graph:
        answer["graph"] = write_graphs(run, step, needed["ranks"], name)
    if run.options.front:
        ratio = min(1.0, needed["peak_live_bytes"] / needed["reserved_range"][1])  # PyTorch is assumed to reserve as much more in less memory
        answer["front"] = front.write(run, step, ratio, name)


def write_graphs(run, step, ranks, name):
    """Writes the graph of the step of the rank that takes most, or those of all ranks where the name of the file has a place for their numbers.
    Returns the part of the answer of the first."""
    file, largest = run.options.graph, answers.largest_of(ranks)
    others = [one for one in ranks if one is not largest] if outputs.RANK in file else []

    def write(made, rank):
        return graph.write(made, name, run.machine.gpu, rank["peak_live_bytes"], file.replace(outputs.RANK, str(rank["rank"])))

    for one in others:
        write(graph.make(one), one)
    return write(step, largest)


def explain(run, answer, title):
    """Adds to an answer the memory that the program needs, and changes that would make it fit: nothing where it does not run in more
    memory either."""
    with remedies.FurtherRuns(run, answer) as further:
        try:
            needed, rank = further.with_enough()
        except DryRunError:
            if run.options.records_steps:
                raise
            return
        changes = remedies.Remedies(further, needed, rank)
        here = changes.need_here()
        answer["follows_memory"] = here is not None
        answer["needed_bytes"] = needed["reserved_range"][1] if here is None else here if here > further.memory else None
        if run.options.records_steps:
            write_graph(run, changes.graph or graph.make(rank), answer, needed, title)
        # Runs in more memory tell nothing of a program that takes all that is free.
        answer["remedies"] = [] if answer["follows_memory"] else changes.find()
        answer["no_graph"] = changes.no_graph


def run_once(run, options):
    with tempfile.TemporaryDirectory(prefix="tidepool-dryrun-") as folder:
        answer = run.answer(run.command, pathlib.Path(folder))
        failure = failure_of(keep_files, run, answer, script_of(run.command))
    print_answer(json.dumps(answer) if options.json else "\n".join(text.lines(answer, script_of(run.command)) + text.by(options.by, answer)))
    if failure:
        complain(failure)
        return 1
    return 0 if answer["fits"] else 2


def failure_of(call, *arguments):
    """Returns the error of a call that is no reason to lose an answer, or None."""
    try:
        call(*arguments)
    except (DryRunError, OSError) as error:
        return error
    return None


def check_output():
    """Raises DryRunError where the answer has no place."""
    if sys.stdout is None:
        raise DryRunError(NO_OUTPUT)


def print_answer(answer):
    """Prints the answer at once. Raises DryRunError where standard output takes none of it."""
    try:
        print(answer, flush=True)
    except OSError:
        sys.stdout = None  # the interpreter would write again at its end
        raise DryRunError(NO_OUTPUT) from None


def complain(error):
    """Prints an error for people."""
    if isinstance(error, OSError):
        place = f"{text.printable(os.fsdecode(error.filename))}: " if error.filename else ""
        print(f"tidepool: {place}{error.strerror}", file=sys.stderr)
    else:
        print(f"tidepool: {text.printable_lines(str(error))}", file=sys.stderr)


def run_fit(run, options):
    name, least, most = fit.parse(options.fit[0])
    fit.check_names(run.command, [name])
    tried = []

    def fits(value):
        with tempfile.TemporaryDirectory(prefix="tidepool-dryrun-") as folder:
            try:
                answer = run.answer(fit.with_value(run.command, name, value), pathlib.Path(folder))
            except DryRunError as error:
                raise DryRunError(f"{name} {value}: {error}") from None
        if answer["interrupted"]:
            raise KeyboardInterrupt
        if answer["ran_out_of_time"] and answer["fits"]:
            raise DryRunError(f"{name} {value}: out of time, expected a longer --time-limit")
        tried.append({"value": value, "fits": answer["fits"], "peak_reserved_bytes": answer["peak_reserved_bytes"]})
        verdict = "fits" if answer["fits"] else "does not fit"
        print(f"{name} {value}: {verdict}, {text.size(answer['peak_reserved_bytes'])} reserved", file=sys.stderr)
        return answer["fits"]

    found = fit.largest(least, most, fits)
    of_machine = f"{text.size(run.machine.memory_bytes)} ({run.machine.gpu.title} assumed)"
    if options.json:
        print_answer(json.dumps({"dry_run": True, "gpu": run.machine.gpu.title, "memory_bytes": run.machine.memory_bytes, "name": name,
                                 "largest": found, "runs": tried}))
    elif found is None:
        print_answer(f"{name} {least} does not fit in {of_machine}")
    else:
        print_answer(f"{name} {found} is the largest that fits in {of_machine}")
    return 2 if found is None else 0


def run_layouts(options, values_of_range, choices):
    outputs.check(options)
    made = layouts.make(options, values_of_range, choices)
    runnable = next((layout for layout in made if layout.refused is None), None)
    if runnable is None:
        raise DryRunError(f"{layouts.named(made[0].values)}: {made[0].refused}")
    machine = DryRun(runnable.options).machine  # checks the options
    name = fit.parse(values_of_range)[0] if values_of_range else ""

    def tell(layout):
        print(f"{layouts.named(layout.values)}: {layouts.verdict(layout, name)}", file=sys.stderr)

    tried = layouts.search_here(made, options.jobs, tell)
    if options.front:
        pathlib.Path(options.front).write_text(layouts_picture.svg(tried, machine, name, text.program_name(script_of(options.command))), encoding="utf-8")
    print_answer(json.dumps(layouts.answer(tried, machine)) if options.json else "\n".join(layouts.lines(tried, machine, name)))
    return 0 if any(layout.fits for layout in tried) else 2


def run_compare(options):
    compare.check(options)
    found = compare.run(functools.partial(DryRun, source=inputs.Input(options.command)), options)
    print_answer(json.dumps(found) if options.json else "\n".join(compare.lines(found, script_of(options.command))))
    return 0 if all(answer["fits"] for answer in found["compared"]) else 2


def script_of(command):
    """Returns the word that names the program to people: a script, a module of `-m`, or the first word."""
    starters = ("-", "python", "pypy", "torchrun")  # of a word before -m
    modules = [name for before, option, name in zip(command, command[1:], command[2:])
               if option == "-m" and os.path.basename(before).startswith(starters)]
    return next((word for word in command if word.endswith(".py")), (modules or command)[0])


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
    options = Options(command=command, **{name: of_bytes(value) for name, value in json.loads(words).items()})
    try:
        check_output()
        if options.compare:
            return run_compare(options)
        check_fit(options)
        values_of_range, choices = fit.split(options.fit)
        if choices:
            return run_layouts(options, values_of_range, choices)
        if options.jobs > 1:
            raise ValueError(f"--jobs {options.jobs} without --fit NAME=VALUE,VALUE: there is one dry run at a time, remove --jobs")
        run = DryRun(options, source=inputs.Input(options.command))
        return run_fit(run, options) if options.fit else run_once(run, options)
    except (DryRunError, ValueError, OSError) as error:
        complain(error)
    except KeyboardInterrupt:
        print("tidepool: interrupted before there was an answer", file=sys.stderr)
    return 1
