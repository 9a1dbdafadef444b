# SPDX-License-Identifier: Apache-2.0
"""Addresses for a schedule: an offset in one slab for each request for memory that its two graphs make.

The requests of an operator were noted when it ran alone. A graph runs its operators in order, and frees each value after its last
use, so an offset found here is free when its request comes.
"""
import collections
import csv
import dataclasses
import pathlib
import tempfile
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

from torch import fx

from . import _operators, _private
from ._capture import BORDER, Captured
from ._costs import Costs, round_up, tensors_of
from ._costs import Request as _Requested

__all__ = ["Places", "Request", "levels", "plan", "requests_of", "shifted"]


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
    used: int  # bytes up to the end of the highest request
    height: int
    hole: int  # offset of the memory that the caller takes between the passes; 0 if it takes none
    hole_bytes: int


@dataclasses.dataclass(eq=False)
class _Storage:
    """Memory that an operator of a written graph makes, and that nodes hold."""

    maker: fx.Node
    request: Optional[int] = None
    lasts: bool = False  # whether the program holds it when both passes have ended


_Held = Dict[int, Optional[_Storage]]  # by the storage's key; None for memory of others


def _held_by(nodes: Sequence[fx.Node], given: Sequence[_Held]) -> Dict[fx.Node, _Held]:
    """Returns the storages of each node of a graph. `given`: those of its first inputs; others are memory of others."""
    held: Dict[fx.Node, _Held] = {}
    inputs = iter(given)
    for node in nodes:
        keys = [_private.storage_key(tensor) for tensor in tensors_of(node.meta.get("val"))]
        if node.op == "call_function":
            known: _Held = {}
            for argument in node.all_input_nodes:
                known.update(held[argument])
            held[node] = {}
            for key in keys:
                held[node].setdefault(key, known[key] if key in known else _Storage(node))
        else:
            held[node] = next(inputs, None) if node.op == "placeholder" else None
            if held[node] is None:
                held[node] = dict.fromkeys(keys)
    return held


def _storages(held: Iterable[_Held]) -> List[_Storage]:
    """Returns storages, each once."""
    return list(dict.fromkeys(storage for each in held for storage in each.values() if storage is not None))


def _ending(nodes: Sequence[fx.Node], held: Dict[fx.Node, _Held]) -> "Dict[fx.Node, List[_Storage]]":
    """Returns the storages that end with each node of a graph, the last that uses them."""
    position = {node: i for i, node in enumerate(nodes)}
    last_use: Dict[_Storage, int] = {}
    for node, each in held.items():
        for storage in _storages([each]):
            last_use[storage] = max(last_use.get(storage, 0), *(position[one] for one in (node, *node.users)))
    ending: "collections.defaultdict[fx.Node, List[_Storage]]" = collections.defaultdict(list)
    for storage, last in last_use.items():
        ending[nodes[last]].append(storage)
    return ending


def levels(forward: fx.Graph, backward: fx.Graph, captured: Captured) -> Dict[fx.Node, int]:
    """Returns the bytes of the schedule's data on the device when each operator of the written graphs begins."""
    size = {datum["name"]: datum["bytes"] for datum in captured.data}
    bytes_of: Dict[_Storage, int] = {}
    found: Dict[fx.Node, int] = {}
    count = len(captured.forward_results)
    given: Sequence[_Held] = ()
    live = 0
    kept: Set[_Storage] = set()  # results of the forward pass, which the program holds
    for graph in (forward, backward):
        nodes = list(graph.nodes)
        held = _held_by(nodes, given)
        ending = _ending(nodes, held)
        for node in nodes[:-1]:
            found[node] = live
            for key, storage in held[node].items():
                if storage is not None and storage.maker is node:
                    bytes_of[storage] = size.get(captured.datum.get(key, ""), 0)
                    live += bytes_of[storage]
            live -= sum(bytes_of[storage] for storage in ending[node] if storage not in kept)
        results = [held[one] if isinstance(one, fx.Node) else {} for one in nodes[-1].args[0]]
        kept.update(_storages(each for i, each in enumerate(results[:count]) if i not in captured.new_values))
        live -= sum(bytes_of[one] for one in set(_storages(results[:count])) - kept - set(_storages(results[count:])))
        given = results[count:]
    return found


class _Walk:
    """Follows the written graphs, and notes requests. The code of a graph frees each value after its last use."""

    def __init__(self, captured: Captured, costs: Costs):
        self.captured = captured
        self.costs = costs
        self.time = 0
        self.is_backward = False
        self.begun: List[List[Any]] = []  # bytes, lower, upper, is_backward, has_place, is_hole

    def request(self, size: int, has_place: bool = True, is_hole: bool = False) -> int:
        self.begun.append([size, self.time, None, self.is_backward, has_place, is_hole])
        self.time += 1
        return len(self.begun) - 1

    def end(self, request: Optional[int]) -> None:
        if request is not None and self.begun[request][2] is None:
            self.begun[request][2] = self.time
            self.time += 1

    def follow(self, graph: fx.Graph, given: Sequence[_Held]) -> List[_Held]:
        """Follows a pass, and returns the storages of its results, which do not end with it."""
        nodes = list(graph.nodes)
        held = _held_by(nodes, given)
        ending = _ending(nodes, held)
        for node in nodes[:-1]:
            self.run(node, held[node])
            for storage in ending[node]:
                if not storage.lasts:
                    self.end(storage.request)
        return [held[one] if isinstance(one, fx.Node) else {} for one in nodes[-1].args[0]]

    def run(self, node: fx.Node, held: _Held) -> None:
        made = {key: storage for key, storage in held.items() if storage is not None and storage.maker is node}
        if not made:
            return
        keys = [_private.storage_key(tensor) for tensor in tensors_of(node.meta["val"])]
        temporary: Dict[int, int] = {}
        for note in self._requests_of(node):
            if not note.bytes:
                self.end(temporary.pop(note.request))
                continue
            key = keys[note.result] if note.result is not None else None
            datum = self.captured.datum.get(key)
            # Gradients and losses that the program keeps beyond its step are not in the slab, of which they would fix the size.
            has_place = datum not in self.captured.kept_outside and datum not in self.captured.small_results
            request = self.request(note.bytes, has_place)
            if key in made:
                made[key].request = request
            else:
                temporary[note.request] = request
        for request in temporary.values():
            self.end(request)

    def _requests_of(self, node: fx.Node) -> Sequence[Any]:
        if node.target is _operators.offload:
            return ()
        if node.target is _operators.prefetch:
            return (_Requested(round_up(node.meta["val"].untyped_storage().nbytes()), 0, 0),)
        return self.costs.requests_of(node)


def requests_of(forward: fx.Graph, backward: fx.Graph, captured: Captured, costs: Costs) -> List[Request]:
    """Returns the requests of both passes, in their order."""
    walk = _Walk(captured, costs)
    results = walk.follow(forward, ())
    count = len(captured.forward_results)
    saved = _storages(results[count:])
    for storage in _storages(held for i, held in enumerate(results[:count]) if i not in captured.new_values):
        storage.lasts = True
    between = next(task for task in captured.tasks if task["name"] == BORDER)["algorithms"][0]["workspace"]
    if between:
        walk.end(walk.request(between, is_hole=True))
    for storage in _storages(results[:count]):
        if storage not in saved and not storage.lasts:
            walk.end(storage.request)
    walk.is_backward = True
    walk.follow(backward, results[count:])
    for number in range(len(walk.begun)):
        walk.end(number)
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
    used = hole = hole_bytes = 0
    for request in requests:
        offset = next(offsets) if request.has_place else -1
        used = max(used, offset + request.bytes if request.has_place else 0)
        if request.is_hole:
            hole, hole_bytes = offset, request.bytes
            continue
        sizes, places = passes[request.is_backward]
        sizes.append(request.bytes)
        places.append(offset)
    return Places(passes[False], passes[True], used, -(-used // _SEGMENT) * _SEGMENT, hole, hole_bytes)


def shifted(places: Places, by: int) -> Places:
    """Returns places of a slab that begins at an offset of a larger one."""
    forward, backward = ((sizes, [offset + by if offset >= 0 else offset for offset in offsets])
                         for sizes, offsets in (places.forward, places.backward))
    return places._replace(forward=forward, backward=backward, hole=places.hole + by)
