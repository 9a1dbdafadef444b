# SPDX-License-Identifier: Apache-2.0
"""Addresses for a schedule: an offset in one slab for each request for memory that its two graphs make.

The requests of an operator were noted when it ran alone. Their order, and the lifetimes that the schedule gives to data, are
those of a run, so an offset found here is free when its request comes.
"""
import collections
import csv
import pathlib
import tempfile
from typing import Any, Dict, List, NamedTuple, Sequence, Set, Tuple

from . import _private
from ._capture import BORDER, END, Captured
from ._costs import Costs, round_up, tensors_of

__all__ = ["Places", "Request", "plan", "requests_of", "shifted"]


# PyTorch's allocator takes memory of the device in pieces of these bytes, and gives the rest of a piece to other tensors.
_SEGMENT = 2 << 20


class Request(NamedTuple):
    """A request for memory. Times count requests and frees."""

    bytes: int
    lower: int
    upper: int
    is_backward: bool
    has_place: bool  # False: PyTorch's allocator serves it
    is_hole: bool  # the memory that the caller takes between the passes, which no pass asks for


class Places(NamedTuple):
    """Offsets of the requests of both passes, and the bytes of the slab."""

    forward: Tuple[List[int], List[int]]  # bytes, offsets
    backward: Tuple[List[int], List[int]]
    height: int
    hole: int  # offset of the memory that the caller takes between the passes; 0 if it takes none
    hole_bytes: int


class _Walk:
    """Follows the actions of an iteration, and notes requests."""

    def __init__(self, captured: Captured, costs: Costs):
        self.captured = captured
        self.costs = costs
        self.names = [datum["name"] for datum in captured.data]
        self.size = {datum["name"]: datum["bytes"] for datum in captured.data}
        self.time = 0
        self.is_backward = False
        self.begun: List[List[Any]] = []  # bytes, lower, upper, is_backward, has_place, is_hole
        self.live: Dict[str, int] = {}  # datum -> request
        self.small = {datum for task in captured.tasks if task["name"] in captured.small for datum in task["writes"]}
        self.ran: Set[str] = set()

    def request(self, size: int, has_place: bool = True, is_hole: bool = False) -> int:
        self.begun.append([size, self.time, None, self.is_backward, has_place, is_hole])
        self.time += 1
        return len(self.begun) - 1

    def end(self, request: int) -> None:
        self.begun[request][2] = self.time
        self.time += 1

    def run(self, number: int) -> None:
        name = self.captured.tasks[number]["name"]
        if name == BORDER:
            between = self.captured.tasks[number]["algorithms"][0]["workspace"]
            if between:
                self.end(self.request(between, is_hole=True))
            self.is_backward = True
        if name in (BORDER, END) or name in self.captured.small:
            return
        node = self.captured.node[name]
        data = [self.captured.datum.get(_private.storage_key(tensor)) for tensor in tensors_of(node.meta["val"])]
        numbers: Dict[int, int] = {}
        for note in self.costs.requests_of(node):
            if not note.bytes:
                self.end(numbers.pop(note.request))
                continue
            datum = data[note.result] if note.result is not None else None
            if datum in self.small and name in self.ran:
                datum = None  # the first one is there
            # Gradients and losses that the program keeps beyond its step are not in the slab, of which they would fix the size.
            has_place = datum not in self.captured.kept_outside and datum not in self.captured.small_results
            request = self.request(note.bytes, has_place)
            if datum is None:
                numbers[note.request] = request
            else:
                self.live[datum] = request
        for request in numbers.values():
            self.end(request)
        self.ran.add(name)

    def prefetch(self, number: int) -> None:
        self.live[self.names[number]] = self.request(round_up(self.size[self.names[number]]))

    def leave(self, number: int) -> None:
        request = self.live.pop(self.names[number], None)
        if request is not None:
            self.end(request)


def requests_of(captured: Captured, actions: Sequence[Tuple[str, int]], costs: Costs) -> List[Request]:
    """Returns the requests of both passes, in their order."""
    walk = _Walk(captured, costs)
    for kind, number in actions:
        if kind == "run":
            walk.run(number)
        elif kind == "prefetch":
            if walk.names[number] in captured.maker:
                walk.prefetch(number)
        elif kind != "offload":
            walk.leave(number)
    for request in walk.live.values():
        walk.end(request)
    return [Request(*each) for each in walk.begun]


def _offsets(rows: List[Request], seconds: float) -> List[int]:
    """Returns offsets for lifetimes, by the planner of recorded traces."""
    from ._search import run_plan

    with tempfile.TemporaryDirectory() as folder:
        lifetimes, found = (pathlib.Path(folder) / name for name in ("lifetimes.csv", "plan.csv"))
        with open(lifetimes, "w", encoding="utf-8") as file:
            file.write("id,lower,upper,size\n")
            file.writelines(f"{i},{row.lower},{row.upper},{row.bytes}\n" for i, row in enumerate(rows))
        run_plan(lifetimes, found, seconds)
        with open(found, encoding="utf-8", newline="") as file:
            offsets = {int(row["id"]): int(row["offset"]) for row in csv.DictReader(file)}
    return [offsets[i] for i in range(len(rows))]


def plan(requests: Sequence[Request], seconds: float = 1.0) -> Places:
    """Returns offsets for requests, such that none overlap, after a search of at most `seconds`."""
    placed = [request for request in requests if request.has_place]
    offsets = iter(_offsets(placed, seconds) if placed else [])
    passes: "collections.defaultdict[bool, Tuple[List[int], List[int]]]" = collections.defaultdict(lambda: ([], []))
    height = hole = hole_bytes = 0
    for request in requests:
        offset = next(offsets) if request.has_place else -1
        height = max(height, offset + request.bytes if request.has_place else 0)
        if request.is_hole:
            hole, hole_bytes = offset, request.bytes
            continue
        sizes, places = passes[request.is_backward]
        sizes.append(request.bytes)
        places.append(offset)
    return Places(passes[False], passes[True], -(-height // _SEGMENT) * _SEGMENT, hole, hole_bytes)


def shifted(places: Places, by: int) -> Places:
    """Returns places of a slab that begins at an offset of a larger one."""
    forward, backward = ((sizes, [offset + by if offset >= 0 else offset for offset in offsets])
                         for sizes, offsets in (places.forward, places.backward))
    return places._replace(forward=forward, backward=backward, hole=places.hole + by)
