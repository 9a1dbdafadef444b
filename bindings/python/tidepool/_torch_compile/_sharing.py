# SPDX-License-Identifier: Apache-2.0
"""One budget for the graphs into which breaks divide a program.

The passes of such graphs nest: forward 1, forward 2, backward 2, backward 1. While a graph runs, those before it have
their saved data on the device. The first step plans each graph with the memory that is left, so the first one may leave too
little. Then each graph gets the same share of the data that it saves: the largest with which all of them can run.
"""
import math
from typing import Any, Dict, List, NamedTuple, Sequence, Set

__all__ = ["Needs", "largest_share", "least_memory", "needs_of", "saved_before"]


class Needs(NamedTuple):
    """Bytes of one graph."""

    saved: int  # data that crosses from forward to backward if nothing leaves and nothing is made again
    peak: int  # at the peak then
    least: int  # of the task that needs the most
    results: int  # of the forward pass, which the program holds meanwhile


def needs_of(document: Dict[str, Any], border: str, least: int) -> Needs:
    """Returns the needs of a task graph with its tasks in the order in which they run."""
    size = {datum["name"]: datum["bytes"] for datum in document["data"]}
    last = {name: i for i, task in enumerate(document["tasks"])
            for name in (*task["reads"], *task.get("writes", ()), *task.get("updates", ()))}
    held = {name for task in document["tasks"] for name in task.get("updates", ())}
    held -= {name for task in document["tasks"] for name in task.get("writes", ())}
    live = peak = sum(size[name] for name in held)
    saved = results = 0
    there: Set[str] = set(held)
    for i, task in enumerate(document["tasks"]):
        uses = {*task["reads"], *task.get("writes", ()), *task.get("updates", ()), *held}
        live += sum(size[name] for name in uses - there)
        there |= uses
        peak = max(peak, live + task["algorithms"][0].get("workspace", 0))
        if task["name"] == border:
            saved, results = live, sum(size[name] for name in uses)
        ended = {name for name in there if last[name] <= i}
        live -= sum(size[name] for name in ended)
        there -= ended
    return Needs(saved, peak, least, results)


_HALVINGS = 30
_LEAST_SHARE = 2.0 ** -_HALVINGS  # that a search finds


def _fits(graphs: Sequence[Needs], memory: int, share: float) -> bool:
    return all(saved_before(graphs, i, share) + max(graph.least, share * graph.peak) <= memory
               for i, graph in enumerate(graphs))


def saved_before(graphs: Sequence[Needs], number: int, share: float) -> int:
    """Returns the bytes that the graphs before one have saved when each saves its share."""
    return sum(max(graph.results, math.ceil(share * graph.saved)) for graph in graphs[:number])


def least_memory(graphs: Sequence[Needs]) -> int:
    """Returns the bytes in which all graphs run if each saves the least share."""
    return max(saved_before(graphs, i, _LEAST_SHARE) + max(graph.least, math.ceil(_LEAST_SHARE * graph.peak)) for i, graph in enumerate(graphs))


def largest_share(graphs: List[Needs], memory: int) -> float:
    """Returns the largest share of its data that each graph may save so that all run in `memory`; 0 if none does."""
    low, high = 0.0, 1.0
    if _fits(graphs, memory, high):
        return high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _fits(graphs, memory, middle) else (low, middle)
    return low
