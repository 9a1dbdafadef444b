# SPDX-License-Identifier: Apache-2.0
"""Makes the task graph of a training step from its operators and from PyTorch's record of memory.

Each request for memory that outlives an operator is a datum, and the record tells how long it lived. The operators that used it are
its uses. Memory that the program holds longer is read by a task of no time at its end, so the graph takes the memory that the run
took.
"""
import bisect
import gzip
import json
import pathlib
import pickle

from . import events, modules
from .errors import DryRunError

BLOCK = 512  # bytes: PyTorch takes whole ones
EMPTY = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "empty_permuted")
LARGEST = "-largest"  # of the file of the step that takes most memory
OUTSIDE = "outside"  # the name of tasks between two operators
MOST_TASKS = 50_000  # of more operators, neighbours are joined: policies take as long as the tasks are many
NAMED_DIFFERENCE = 0.01  # a share of the peak or of the time
OPAQUE = {"may_rerun": False, "statistics": False, "from_host": False, "is_cached": False}  # code that PyTorch's dispatcher does not see


def rounded(bytes_):
    return -(-bytes_ // BLOCK) * BLOCK


class Datum:
    """The memory of one request, or one of the values that it has in turn."""

    def __init__(self, address, bytes_, writer=None):
        self.address = address
        self.bytes = bytes_
        self.writer = self.begin = writer  # None: it is older than the step. Data from the host has a start alone
        self.death = None  # the task that ran last when it was freed; None: it outlives the step
        self.freed_at = None  # the position of its end in the step
        self.users = []  # tasks, in order
        self.kind = self.name = None
        self.homes = {}  # where they differ from those of the kind


class Task:
    """An operator. `most_live` has the most bytes of the run while it ran."""

    def __init__(self, operator, phase, layer="", line="", seconds=0.0, flags=OPAQUE):
        self.operator, self.phase, self.layer, self.line, self.seconds, self.flags = operator, phase, layer, line, seconds, flags
        self.number = -1
        self.name = operator
        self.is_left_out = False
        self.reads, self.writes, self.updates = [], [], []
        self.held = []  # data that the program lets go when it has run
        self.statistics = []  # data that it changes for later steps alone
        self.workspace = self.most_live = 0

    def use(self, datum, is_changed):
        (self.updates if is_changed else self.reads).append(datum)
        datum.users.append(self)

    def may_rerun(self):
        return self.flags["may_rerun"] and self.phase == "forward" and bool(self.writes) and not self.updates


class Replay:
    """The requests of a device, one after the other. `record` is an events.Record."""

    def __init__(self, record):
        self.events, self.offset = record.events, record.offset
        self.position = record.offset
        self.live = {}  # data by address
        self.bytes = 0  # that are live, in blocks
        self.requested = 0

    def groups(self, position):
        """Returns the ends of groups of requests up to a position: frees end a group."""
        has_freed, ends = False, []
        for at in range(self.position, position):
            is_request = self.events[at - self.offset]["action"] == "alloc"
            if is_request and has_freed:
                ends.append(at)
            has_freed = not is_request
        return [*ends, position]

    def advance(self, position):
        """Goes on to a position. Returns the data that was made, the data that was freed, and the most bytes on the way."""
        made, freed, most = [], [], self.bytes
        for at, event in enumerate(self.events[self.position - self.offset:position - self.offset], self.position):
            if event["action"] == "alloc":
                datum = self.live[event["addr"]] = Datum(event["addr"], event["size"])
                made.append(datum)
                self.requested += event["size"]
                self.bytes += rounded(datum.bytes)
                most = max(most, self.bytes)
            elif event["addr"] in self.live:
                datum = self.live.pop(event["addr"])
                datum.freed_at = at
                freed.append(datum)
                self.requested -= datum.bytes
                self.bytes -= rounded(datum.bytes)
        self.position = max(self.position, position)
        return made, freed, most


class Graph:
    """The graph of a step. `peak` is the most memory of the run in it, and `peak_bytes` that of the graph."""

    def __init__(self, step, record):
        self.step = step
        self.tasks = []
        self.replay = Replay(record)
        self.replay.advance(step["begin"])
        self.peak = self.replay.bytes
        self.peak_bytes = 0
        self.names = set()  # of data
        self.data = list(self.replay.live.values())
        self.replay_operators()
        if self.replay.requested != step["requested_bytes"]:
            raise DryRunError(f"the record of memory has {self.replay.requested} bytes at the end of step {step['number']}, and PyTorch "
                              f"{step['requested_bytes']}: there is no graph")
        self.end_backward()
        self.fill_outside()
        self.data = [datum for datum in self.data if datum.death is None or datum.death not in (BEFORE, datum.writer)]
        self.find_kinds()
        for task in self.tasks:
            self.take_from_host(task)
            self.divide_updates(task)
        self.operators = len(self.tasks) + step["joined"]
        if len(self.tasks) > MOST_TASKS:
            modules.join(self, MOST_TASKS)
        for task in self.tasks:
            task.name = f"{task.number}.{task.operator}" + (f" {task.line}" if task.line else "")
        for datum in self.data:
            hold(datum)
        self.find_workspaces()

    def replay_operators(self):
        clock = self.step["clock"][0]
        for name, phase, layer, line, begin, end, used, written, flags in self.step["operators"]:
            self.between(begin[0], begin[1] - clock, phase)
            self.run(Task(name, phase, layer, line, (end[1] - begin[1]) / 1e9, flags), end[0], used, written)
            clock = max(clock, end[1])
        self.between(self.step["end"], self.step["clock"][1] - clock, "update")

    def between(self, position, nanoseconds, phase):
        """Adds tasks for code between two operators, such as compiled kernels: one for each group of requests. They read the data that
        they free. Which of them took how long is not known."""
        ends = self.replay.groups(position)
        for end in ends:
            made, freed, most = self.replay.advance(end)
            if made or nanoseconds > 0:
                self.add(Task(OUTSIDE, phase, seconds=max(0, nanoseconds) / len(ends) / 1e9), made, freed, most)
            else:
                self.end(freed)

    def run(self, task, position, used, written):
        older = {id(datum): datum for datum in map(self.replay.live.get, used) if datum}
        made, freed, most = self.replay.advance(position)
        older = {key: datum for key, datum in older.items() if is_older(datum, used)}
        changed = {datum.address for datum in older.values() if datum.address in written and is_older(datum, written)}
        if not made and not task.seconds and not any(datum.address in changed for datum in older.values()):
            self.end(freed)  # a view
            return
        for datum in older.values():
            is_changed = datum.address in changed
            if is_changed and task.flags["statistics"]:
                task.statistics.append(datum)
            else:
                task.use(datum, is_changed)
        self.add(task, made, freed, most)

    def add(self, task, made, freed, most):
        self.peak = max(self.peak, most)
        task.most_live = most
        task.number = len(self.tasks)
        self.tasks.append(task)
        gone = {id(datum) for datum in freed}
        for datum in made:
            if id(datum) not in gone:
                datum.writer = datum.begin = task
                task.writes.append(datum)
                self.data.append(datum)
        self.end(freed)

    def end(self, freed):
        for datum in freed:
            datum.death = self.tasks[-1] if self.tasks else BEFORE
            if datum.death is datum.writer:  # it lived in the task alone: a workspace
                datum.writer.writes.remove(datum)

    def end_backward(self):
        """Lets all tasks after the last one of the backward pass belong to the update, such as those that limit the norm of gradients."""
        last = max((task.number for task in self.tasks if task.phase == "backward"), default=len(self.tasks))
        for task in self.tasks[last + 1:]:
            task.phase = "update"

    def fill_outside(self):
        """Lets code between two operators write the memory that one made without values and the next one reads, as kernels of an extension do: it
        must not be made again without that code."""
        outside = [task.number for task in self.tasks if task.operator == OUTSIDE]
        for datum in self.data:
            made_by = datum.writer
            if made_by is None or made_by.operator not in EMPTY or not datum.users or datum in datum.users[0].updates:
                continue
            at = bisect.bisect_left(outside, datum.users[0].number) - 1
            if at >= 0 and outside[at] > made_by.number:
                made_by.writes.remove(datum)
                made_by.is_left_out = not made_by.writes
                datum.writer = datum.begin = self.tasks[outside[at]]
                datum.writer.writes.append(datum)

    def find_kinds(self):
        step = self.step
        names = {address: ("input", name) for address, name in step["buffers"].items()}
        names.update({address: ("weight", name) for address, name in step["weights"].items()})
        names.update({address: ("optimizer-state", f"{parameter}.{state}") for address, (parameter, state, *_) in step["states"].items()})
        names.update({address: ("weight-gradient", f"{name}.gradient") for address, name in step["gradients"].items()})
        for number, datum in enumerate(self.data):
            kind, name = (None, None) if datum.death else names.get(datum.address, (None, None))
            set_kind(datum, kind)
            datum.name = self.free_name(name or f"d{number}")

    def free_name(self, name):
        """Returns the name, or one like it where other data has it."""
        while name in self.names:
            name += "'"
        self.names.add(name)
        return name

    def take_from_host(self, task):
        """Lets the data of a copy from the host be at home there. The copy then waits for it."""
        if not task.flags["from_host"] or len(task.writes) != 1 or task.reads or task.updates or task.statistics:
            return
        datum = task.writes.pop()
        datum.kind, datum.homes, datum.writer = "input", {"before": "host"}, None
        datum.death = datum.death or self.tasks[-1]  # the next step has another one
        datum.users.insert(0, task)
        task.reads.append(datum)

    def divide_updates(self, task):
        """Gives data a value of its own after each change in place, where the run has room for both. Then the operators may run
        again."""
        for datum in list(task.updates):
            if datum.writer is None or datum.kind == "weight-gradient":
                continue
            made_by = datum.writer
            if made_by.operator in EMPTY and made_by.writes == [datum] and datum.users[0] is task:
                task.updates.remove(datum)
                task.writes.append(datum)
                datum.users.remove(task)
                datum.writer = datum.begin = task
                made_by.is_left_out = True
            elif task.phase == "forward" and task.flags["may_rerun"] and task.most_live + rounded(datum.bytes) <= self.peak:
                self.data.append(divide(datum, task, self.free_name(f"{datum.name}.{task.number}")))
                task.most_live += rounded(datum.bytes)

    def is_joined(self):
        return len(self.tasks) < self.operators

    def find_workspaces(self):
        change = [0] * (len(self.tasks) + 1)
        for datum in self.data:
            change[datum.begin.number if datum.begin else 0] += rounded(datum.bytes)
            if datum.death:
                change[datum.death.number + 1] -= rounded(datum.bytes)
        live = 0
        for task, difference in zip(self.tasks, change):
            live += difference
            task.workspace = max(0, task.most_live - live)
            self.peak_bytes = max(self.peak_bytes, live + task.workspace)


def is_older(datum, firsts):
    """Returns whether a datum was still there at the first use of its address, where operators were joined: later ones are of other data."""
    return not isinstance(firsts, dict) or datum.freed_at is None or datum.freed_at >= firsts[datum.address]


def divide(datum, task, name):
    """Divides a datum at a task that changes it. Returns the datum of that name, with the later value."""
    later = Datum(datum.address, datum.bytes, task)
    later.name, later.kind, later.homes, later.death = name, datum.kind, datum.homes, datum.death
    at = datum.users.index(task)
    later.users, datum.users = datum.users[at + 1:], datum.users[:at + 1]
    for user in later.users:
        for uses in (user.reads, user.updates):
            uses[:] = [later if one is datum else one for one in uses]
    datum.homes, datum.death = {}, task
    task.updates.remove(datum)
    task.reads.append(datum)
    task.writes.append(later)
    return later


def hold(datum):
    """Lets a datum live as long as in the run."""
    death = datum.death
    if death is None or (datum.users and datum.users[-1].number >= death.number):
        return
    (death.held if death.is_left_out or death.may_rerun() else death.reads).append(datum)


BEFORE = Task("before", "forward")  # the first task


def set_kind(datum, kind):
    """Sets the kind and the homes of a datum. `kind` is that which the program says of it, or None."""
    lives = datum.death is None
    if datum.writer:
        datum.kind = kind if kind == "weight-gradient" else "activation" if datum.writer.phase == "forward" else "gradient"
        datum.homes = {"after": "device"} if lives else {}
    elif kind in ("weight", "optimizer-state"):
        datum.kind = kind
    elif kind == "weight-gradient":
        datum.kind, datum.homes = kind, {"before": "device", "after": "device"}
    else:  # a buffer, or memory that another step made
        datum.kind, datum.homes = "input", {"after": "device"} if lives else {}


def entries(graph, seconds):
    """Returns the data and the tasks of the file of a graph. `seconds` returns the time of a task."""
    data = [{"name": datum.name, "bytes": datum.bytes, "kind": datum.kind, **datum.homes} for datum in graph.data]
    tasks = [entry for task in graph.tasks for entry in entries_of(task, seconds(task))]
    # The result of a task that makes no data is the program's: a number that it reads, or memory that it lets go.
    results = [task for task in tasks if not task["writes"] and not task["updates"]]
    for task in results:
        task["writes"] = [f"{task['name']} done"]
        data.append({"name": task["writes"][0], "bytes": 1, "kind": "activation"})
    return data, tasks


def text(graph, name, gpu, seconds=lambda task: task.seconds):
    """Returns the file of a graph, in the form that tidepool writes. `seconds` returns the time of a task."""
    return text_of(graph, name, gpu, *entries(graph, seconds))


def text_of(graph, name, gpu, data, tasks):
    """Returns the file of a graph with these entries."""
    if graph.is_joined():
        name += f" ({graph.operators} operators joined by modules)"
    head = json.dumps({"tidepool_graph": 2, "name": name, "batch": 0, "gpu": gpu.title, "link": gpu.link_bytes_per_second})[1:-1]
    return (f"{{{head},\n \"data\": [\n  " + ",\n  ".join(map(json.dumps, data)) + "],\n \"tasks\": [\n  " +
            ",\n  ".join(map(json.dumps, tasks)) + "]}\n")


def entries_of(task, seconds):
    """Returns the tasks of the file for a task: changes for later steps, and the end of memory that the program held, are tasks of their
    own, so that it may run again without them."""
    entries = [] if task.is_left_out else [entry(task, task.name, task.reads, task.writes, task.updates, seconds)]
    if task.statistics:
        entries.append(entry(task, f"{task.name} statistics", [], [], task.statistics))
    if task.held:
        entries.append(entry(task, f"{task.name} end", task.held, [], []))
    return entries


def entry(task, name, reads, writes, updates, seconds=0):
    own = name == task.name
    found = {"name": name, "layer": task.layer, "operation": task.operator, "phase": task.phase,
             "reads": [datum.name for datum in reads], "writes": [datum.name for datum in writes],
             "updates": [datum.name for datum in updates], "may_rerun": own and task.may_rerun(),
             "algorithms": [{"name": "default", "seconds": seconds, "workspace": task.workspace if own else 0}]}
    if not task.layer:
        del found["layer"]
    return found


def step_of(rank):
    """Returns the step that the process of a rank noted, and the requests and frees of its device, or raises DryRunError. The step is the
    last one, or that which takes most memory where later ones take less and it was recorded whole."""
    snapshot = pathlib.Path(rank["snapshot"] or "none")
    path = snapshot.with_name(snapshot.stem.replace("process", "step"))
    if not path.exists():
        raise DryRunError(f"the program took {rank['steps']} step{'' if rank['steps'] == 1 else 's'} of an optimizer of PyTorch, so there is "
                          "no task graph: expected 2 complete ones, of which the first makes the state of the optimizer")
    step = read_step(path, rank)
    record = events.read(snapshot, step["device"])
    if step["begin"] < record.begin:
        raise DryRunError(f"step {step['number']} has {step['end'] - step['begin']} requests and frees of memory, and PyTorch recorded the last "
                          f"{step['end'] - record.begin} of them: there is no graph, expected shorter sequences or fewer micro-batches")
    largest = path.with_name(path.name + LARGEST)
    if largest.exists() and peak_of(step, record) < (1 - NAMED_DIFFERENCE) * rank["peak_live_bytes"]:
        other = {**read_step(largest, rank), "in_place_of": step["number"]}
        if other["begin"] >= record.begin:
            step = max(step, other, key=lambda one: peak_of(one, record))
    return step, record


def read_step(path, rank):
    step = pickle.loads(path.read_bytes())
    if step["device"] != rank["device"]:
        raise DryRunError(f"the optimizer steps on device {step['device']}, and device {rank['device']} takes most memory: a task graph "
                          "has one device, expected a process for each")
    return step


def peak_of(step, record):
    """Returns the most live bytes of a step that was recorded whole."""
    replay = Replay(record)
    replay.advance(step["begin"])
    return replay.advance(step["end"])[2]


@events.without_collection()
def make(rank):
    """Returns the graph of the step that the process of a rank noted."""
    return Graph(*step_of(rank))


@events.without_collection()
def write(graph, name, gpu, peak, file):
    """Writes a graph into a file, and returns its part of the answer. `peak` is the most live memory of the run."""
    data, tasks = entries(graph, lambda task: task.seconds)
    contents = text_of(graph, name, gpu, data, tasks).encode()
    try:
        pathlib.Path(file).write_bytes(gzip.compress(contents, mtime=0) if file.endswith(".gz") else contents)
    except OSError as error:
        raise OSError(error.errno, error.strerror, file) from None
    begin, end = graph.step["clock"]
    return {"file": file, "step": graph.step["number"], "tasks": len(tasks), "data": len(data), "seconds": (end - begin) / 1e9,
            "peak_bytes": graph.peak_bytes, "notes": notes(graph, peak)}


def notes(graph, peak):
    """Returns sentences on differences between a graph and the run, of which the most live memory is `peak`."""
    step, found = graph.step, []
    if abs(graph.peak_bytes - peak) > NAMED_DIFFERENCE * peak:
        place = "outside of this step" if graph.peak < peak else "less than in the graph"
        found.append(f"the peak of the run, {peak} bytes, is {place}, which has {graph.peak_bytes}")
    if "in_place_of" in step:
        found.append(f"step {step['number']} takes more memory than step {step['in_place_of']}, the last one")
    if step["differs_from_before"]:
        other = step["differs_from_before"]
        found.append(f"step {step['number']} has {other['operators']} operators and the one before {other['before']}: they differ from "
                     f"{other['name']}, number {other['at']}, on")
    if not any(task.phase == "backward" for task in graph.tasks):
        found.append("the step has no backward pass")
    if len(step["models"]) > 1:
        found.append(f"the step runs {len(step['models'])} models: {', '.join(step['models'])}")
    if graph.is_joined():
        found.append(f"{graph.operators} operators are joined to {len(graph.tasks)} tasks, each a module or a part of it")
    outside = sum(task.seconds for task in graph.tasks if task.operator == OUTSIDE)
    if outside > NAMED_DIFFERENCE * (step["clock"][1] - step["clock"][0]) / 1e9:
        found.append("code that PyTorch's dispatcher does not see, such as compiled kernels, is a task between two operators: it may not "
                     "run again")
    return found
