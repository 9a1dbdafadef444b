# SPDX-License-Identifier: Apache-2.0
"""The order in which a schedule is carried out on streams, where a copy takes time beside kernels.

A schedule has steps, and its times assume that a copy runs as early as it can. Three rules make a run equal to it:

1. A copy out begins right after the task that wrote its data.
2. A drop that waits for a copy out is put off until its room is needed, oldest first. Data that is wanted again before
   has never left.
3. A copy in begins earlier, as far as there is room, by at most three times its own time.

The result is a list of actions, (kind, number) with the number of a task or a datum: `run`, `offload` (the copy begins),
`release` (the copy has ended, and the data leaves), `drop` (the data leaves), `free` (the host's copy too), `prefetch`.
"""
from typing import Any, Dict, List, NamedTuple, Sequence, Set, Tuple

__all__ = ["Order", "Problem", "carry_out"]

Action = Tuple[str, int]
_AHEAD = 3  # the most times of a copy in by which it begins earlier


class Problem:
    """The figures of a task graph by number."""

    def __init__(self, document: Dict[str, Any], memory: int, border: str) -> None:
        number = {datum["name"]: i for i, datum in enumerate(document["data"])}
        self.bytes = [datum["bytes"] for datum in document["data"]]
        self.memory = memory
        self.link = document["link"] or float("inf")  # without one nothing is sent
        self.reads = [[number[name] for name in task.get("reads", ())] for task in document["tasks"]]
        self.writes = [[number[name] for name in task.get("writes", ())] for task in document["tasks"]]
        self.updates = [[number[name] for name in task.get("updates", ())] for task in document["tasks"]]
        self.seconds = [task["algorithms"][0]["seconds"] for task in document["tasks"]]
        self.workspace = [task["algorithms"][0].get("workspace", 0) for task in document["tasks"]]
        self.border = next(i for i, task in enumerate(document["tasks"]) if task["name"] == border)


class Order(NamedTuple):
    """The actions of an iteration, and the bytes of data and workspaces on the device."""

    actions: List[Action]
    peak: int
    live_at_border: int


def carry_out(steps: Sequence[Sequence[Any]], problem: Problem) -> Order:
    """Returns the actions for the steps of a schedule, a file's `steps`. Raises ValueError for steps of other kinds."""
    actions = _advance_copies_out(_actions(steps, problem), problem)
    return _put_off_drops(_advance_copies_in(actions, problem), problem)


def _actions(steps: Sequence[Sequence[Any]], problem: Problem) -> List[Action]:
    """Returns the steps as actions. Copies are of whole data here, and waiting is the operators' work."""
    actions = []
    for step in steps:
        kind, number = step[0], step[1] if len(step) > 1 else -1
        if kind == "synchronize":
            continue
        if kind not in ("allocate", "free", "run", "offload", "prefetch", "drop"):
            raise ValueError(f"the schedule has a step {kind!r}, which torch.compile does not carry out")
        if kind in ("offload", "prefetch", "drop") and tuple(step[2:4]) not in (
                (), (0,), (0, -1), (0, problem.bytes[number])):
            raise ValueError(f"the schedule moves a part of a datum ({step}), which torch.compile does not carry out")
        actions.append((kind, number))
    return actions


# Rule 1 ---------------------------------------------------------------------------------------------


def _advance_copies_out(actions: List[Action], problem: Problem) -> List[Action]:
    """Moves each copy out to the task that wrote its data, or to the copy in. Copies keep their order."""
    rest: List[Action] = []
    written: Dict[int, int] = {}  # datum -> the actions of `rest` up to its last value
    places: Dict[int, List[Action]] = {}
    last = 0
    for kind, number in actions:
        if kind == "offload":
            last = max(last, written.get(number, len(rest)))
            places.setdefault(last, []).append((kind, number))
            continue
        rest.append((kind, number))
        changed = [*problem.writes[number], *problem.updates[number]] if kind == "run" else [number] if kind == "prefetch" else []
        for datum in changed:
            written[datum] = len(rest)
    moved = list(places.get(0, ()))
    for i, action in enumerate(rest, 1):
        moved += [action, *places.get(i, ())]
    return moved


# Rule 3 ---------------------------------------------------------------------------------------------


def _levels(actions: List[Action], problem: Problem) -> List[int]:
    """Returns the bytes on the device during each action."""
    live, levels, there = 0, [], set()
    for kind, number in actions:
        if kind in ("allocate", "prefetch") and number not in there:
            there.add(number)
            live += problem.bytes[number]
        elif kind in ("drop", "free") and number in there:
            there.discard(number)
            live -= problem.bytes[number]
        levels.append(live + (problem.workspace[number] if kind == "run" else 0))
    return levels


def _may_pass(actions: List[Action], levels: List[int], at: int, datum: int, problem: Problem) -> bool:
    """Returns whether the copy in of a datum may begin before action at - 1."""
    kind, number = actions[at - 1]
    if max(levels[at - 1], levels[at - 2] if at > 1 else 0) + problem.bytes[datum] > problem.memory:
        return False
    return not (kind == "prefetch" or (kind in ("drop", "offload", "free") and number == datum)
                or (kind == "run" and number == problem.border))


def _advance_copies_in(actions: List[Action], problem: Problem) -> List[Action]:
    """Moves each copy in ahead, where its memory is free and no other copy in is passed."""
    actions = list(actions)
    levels = _levels(actions, problem)
    for i, (kind, datum) in enumerate(actions):
        if kind != "prefetch":
            continue
        at, ahead = i, 0.0
        while at > 1 and ahead < _AHEAD * problem.bytes[datum] / problem.link and _may_pass(
                actions, levels, at, datum, problem):
            at -= 1
            if actions[at][0] == "run":
                ahead += problem.seconds[actions[at][1]]
        if at < i:
            actions.insert(at, actions.pop(i))
            levels = _levels(actions, problem)
    return actions


# Rule 2 ---------------------------------------------------------------------------------------------


class _Device:
    """The data on the device while drops are put off."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.actions: List[Action] = []
        self.there: Set[int] = set()
        self.on_host: Set[int] = set()
        self.sent: Set[int] = set()  # there, and a copy out has begun
        self.leaving: Dict[int, None] = {}  # dropped, but still there; oldest first
        self.live = 0
        self.peak = 0
        self.live_at_border = 0

    def make_room(self, size: int) -> None:
        while self.leaving and self.live + size > self.problem.memory:
            self.release(next(iter(self.leaving)))
        self.peak = max(self.peak, self.live + size)

    def release(self, datum: int) -> None:
        del self.leaving[datum]
        self.remove("release", datum)

    def remove(self, kind: str, datum: int) -> None:
        if datum in self.there:
            self.there.discard(datum)
            self.live -= self.problem.bytes[datum]
        self.actions.append((kind, datum))

    def take(self, datum: int) -> None:
        if datum in self.leaving:
            self.release(datum)
        self.make_room(self.problem.bytes[datum])
        if datum not in self.there:
            self.there.add(datum)
            self.live += self.problem.bytes[datum]

    def offload(self, datum: int) -> None:
        if datum not in self.on_host:
            self.on_host.add(datum)
            self.sent.add(datum)
            self.actions.append(("offload", datum))

    def drop(self, datum: int) -> None:
        if datum in self.sent:
            self.sent.discard(datum)
            self.leaving[datum] = None
        else:
            self.remove("drop", datum)

    def free(self, datum: int) -> None:
        self.leaving.pop(datum, None)
        self.sent.discard(datum)
        self.on_host.discard(datum)
        self.remove("free", datum)

    def prefetch(self, datum: int) -> None:
        if datum in self.leaving:
            del self.leaving[datum]
            self.sent.add(datum)
            return
        self.take(datum)
        self.actions.append(("prefetch", datum))

    def run(self, task: int) -> None:
        self.make_room(self.problem.workspace[task])
        self.sent.difference_update(self.problem.updates[task])
        self.on_host.difference_update(self.problem.updates[task])
        if task == self.problem.border:
            self.live_at_border = self.live
        self.actions.append(("run", task))


def _put_off_drops(actions: List[Action], problem: Problem) -> Order:
    device = _Device(problem)
    do = {"allocate": device.take, "free": device.free, "run": device.run, "offload": device.offload,
          "prefetch": device.prefetch, "drop": device.drop}
    for kind, number in actions:
        do[kind](number)
    if device.peak > problem.memory:
        raise ValueError(f"the schedule takes {device.peak} bytes, expected at most {problem.memory}")
    return Order(_without_idle_copies(_without_idle_runs(device.actions, problem)), device.peak, device.live_at_border)


def _without_idle_runs(actions: List[Action], problem: Problem) -> List[Action]:
    """Leaves out runs with results that are dropped before anything reads them: a later run makes them for their readers."""
    wanted: Set[int] = set()  # data on the device that a later action reads
    wanted_on_host: Set[int] = set()
    kept = []
    for kind, number in reversed(actions):
        if kind == "run":
            writes = problem.writes[number]
            if writes and wanted.isdisjoint(writes) and number != problem.border:
                continue
            wanted.difference_update(writes)
            wanted.update(problem.reads[number], problem.updates[number])
        elif kind == "offload":
            if number in wanted_on_host:
                wanted_on_host.discard(number)
                wanted.add(number)
        else:
            if kind == "prefetch" and number in wanted:
                wanted_on_host.add(number)
            wanted.discard(number)
        kept.append((kind, number))
    return kept[::-1]


def _without_idle_copies(actions: List[Action]) -> List[Action]:
    """Leaves out copies to the host that nothing brings back."""
    wanted: Set[int] = set()
    idle: Set[int] = set()  # positions of copies
    for i in reversed(range(len(actions))):
        kind, number = actions[i]
        if kind == "prefetch":
            wanted.add(number)
        elif kind == "offload" and number in wanted:
            wanted.discard(number)
        elif kind == "offload":
            idle.add(i)
    kept, copied = [], set()
    for i, (kind, number) in enumerate(actions):
        if i in idle:
            continue
        if kind == "offload":
            copied.add(number)
        kept.append(("drop", number) if kind == "release" and number not in copied else (kind, number))
    return kept
