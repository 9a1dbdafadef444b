# SPDX-License-Identifier: Apache-2.0
"""Graphs that share a budget."""
import itertools
import weakref
from typing import TYPE_CHECKING, Any, List, Optional, Tuple

import torch

from . import _operators, _sharing, _slab
from ._outside import reserved

if TYPE_CHECKING:
    from ._planner import Planner
    from ._region import Region

__all__ = ["UNIT", "Job", "Nest", "jobs", "keys_of_copies"]

UNIT = 512  # bytes of which sizes in a slab are multiples
_MOST_NESTED = 512  # graphs


class Nest:
    """Graphs with passes within each other, in one slab: each runs in the hole that the one before leaves between its passes."""

    def __init__(self, regions: "List[Region]") -> None:
        self._regions = [weakref.ref(region) for region in regions]
        self.rooms: "dict[int, Tuple[int, int]]" = {}  # number of a graph, after the first -> offset and bytes in the slab
        for number, region in enumerate(regions):
            region.nest, region.number, region.keeps_gradients = self, number, True

    def regions(self) -> "List[Region]":
        return [region for region in (one() for one in self._regions) if region is not None]

    def gradient_bytes(self) -> int:
        """Returns the bytes of the results of all backward passes."""
        return sum(region.compiled.planner.gradient_bytes for region in self.regions())

    def share(self, first: "Planner", memory: int) -> None:
        """Gives each graph a share of the memory, or of the least in which all of them have room."""
        others = [region for region in self.regions() if region.number]
        all_needs = [first.nested_needs, *(region.compiled.planner.nested_needs for region in others)]
        memory = max(memory, _sharing.least_memory(all_needs))
        share = _sharing.largest_share(all_needs, memory)
        for i, region in enumerate([first.region, *others], 1):
            left = memory - _sharing.saved_before(all_needs, i, share) if i < len(all_needs) else 0
            planner = first if region is first.region else region.compiled.planner
            region.outside.between = left // UNIT * UNIT + planner.tangent_bytes if left else 0


class Job:
    """The graphs of a program that have one budget, in the order of their forward passes."""

    def __init__(self, budget: int):
        self.budget = budget
        self._graphs: "List[weakref.ref[Region]]" = []
        self.is_divided = False  # whether a forward pass began before the backward pass of the one before
        self.is_tangled = False  # whether such passes did not nest: then no slab
        self._sequence: "List[weakref.ref[Region]]" = []  # whose forward passes ran since no backward pass was due
        self.open: "List[Region]" = []  # whose forward passes ran in the slab, and whose backward passes have not begun
        self._border: Optional[Tuple[Region, int]] = None  # whose forward pass was the last pass that ended, and what was reserved then
        self.is_overdrawn = False  # in the step in which the graphs got shares

    def add(self, region: "Region") -> None:
        self._graphs.append(weakref.ref(region))

    def graphs(self) -> "List[Region]":
        """Returns the graphs that have a plan."""
        found = [region for region in (one() for one in self._graphs) if region is not None]
        return [region for region in found if region.compiled.planner.plan is not None]

    def begin(self, region: "Region", arguments: Any) -> "Region":
        """Begins a step if a graph is the first of the program, and returns the graph, or its twin, that runs."""
        planner = region.compiled.planner
        if planner.plan is None:
            return region
        device = planner.device
        if self.is_tangled and device is not None and _slab.figures_of(device).bytes > 0:
            _slab.resize(device, 0)  # not yet, if tensors of the last step live in it
        if planner.places is not None and not self.is_tangled:
            region = self._nest(region, arguments)
        graphs = self.graphs()
        if self.is_overdrawn and graphs[0] is region:
            self.is_overdrawn = False
            for one in graphs:
                one.outside.most = 0
        return region

    def _nest(self, region: "Region", arguments: Any) -> "Region":
        """Finds the graphs with passes within each other: those of the last step, or those that were planned before the first one.

        A layer that is compiled once and runs many times has a twin for each forward pass within its own passes.
        """
        self.find_division(region.compiled.planner.device)
        base = region
        while region in self.open:
            if len(self.open) > _MOST_NESTED:
                self.tangle()
                return base
            region = region.twin(arguments)
        if not self.open:
            last = [one for one in (one() for one in self._sequence) if one is not None] or self.graphs()
            if len(last) > 1 and last[0] is region and (
                    region.nest is None or any(one.nest is not region.nest for one in last)):
                Nest(last)
            self._sequence = []
        self._sequence.append(weakref.ref(region))
        return region

    def find_division(self, device: torch.device) -> None:
        """Finds out whether a forward pass begins within the passes of another. One without a backward pass has left nothing."""
        # The data of the others may be beside the slab.
        if self.open and 2 * _slab.figures_of(device).live_bytes <= self.open[0].compiled.planner.plan.live_at_border:
            self.open.clear()
        if self.open:
            self.is_divided = True

    def end_forward(self, region: "Region") -> None:
        self.open.append(region)
        planner = region.compiled.planner
        measures = region.outside.loss is None and not planner.was_captured
        self._border = (region, reserved(planner.device)) if measures else None

    def begin_backward(self, region: "Region") -> None:
        if self._border is not None and self._border[0] is region:
            region.outside.reserved = reserved(region.compiled.planner.device)
            region.outside.loss = max(0, region.outside.reserved - self._border[1])
        self._border = None
        if region in self.open:
            if self.open[-1] is not region:
                self.tangle()
            self.open.remove(region)

    def tangle(self) -> None:
        """Gives up the slab."""
        self.is_tangled = True
        for region in self.graphs():
            region.nest = None

    def shares(self) -> Any:
        """Returns the values that a plan of one graph changes for all graphs, for `restore`."""
        return self.is_overdrawn, [(region, region.outside.most, region.outside.between, region.compiled.between) for region in self.graphs()]

    def restore(self, shares: Any) -> None:
        """Undoes the changes of a plan that does not run."""
        self.is_overdrawn, of_graphs = shares
        for region, most, between, planned_between in of_graphs:
            region.outside.most, region.outside.between = most, between
            region.compiled.between = planned_between

    def share_all(self, first: "Region", needs: _sharing.Needs, outside: int) -> bool:
        """Gives the graphs shares when the first of them begins a step, and returns whether they have room.

        They were all planned before the first step, such as the graphs of DistributedDataParallel: each as if it was alone.
        """
        graphs = self.graphs()
        if len(graphs) < 2 or graphs[0] is not first:
            return False
        memory = self.budget - outside
        all_needs = [needs, *(region.compiled.planner.needs for region in graphs[1:])]
        share = _sharing.largest_share(all_needs, memory)
        if not share:
            return False
        for i, region in enumerate(graphs, 1):
            region.outside.most = 0
            region.outside.between = memory - _sharing.saved_before(all_needs, i, share) if i < len(graphs) else 0
            region.compiled.between = -1  # it is planned again
        return True

    def share(self, graph: "Region", needs: _sharing.Needs, outside: int) -> int:
        """Returns the memory of a graph, and makes those before it leave that to it; 0 if they cannot."""
        before = list(itertools.takewhile(lambda one: one is not graph, self.graphs()))
        if not before:
            return 0
        memory = self.budget - outside + sum(region.compiled.planner.plan.live_at_border for region in before)
        all_needs = [*(region.compiled.planner.needs for region in before), needs]
        share = _sharing.largest_share(all_needs, memory)
        if not share:
            return 0
        for i, region in enumerate(before, 1):
            region.outside.between = max(region.outside.between, memory - _sharing.saved_before(all_needs, i, share))
        self.is_overdrawn = True
        return memory - _sharing.saved_before(all_needs, len(before), share)


jobs: "dict[int, Job]" = {}


def keys_of_copies() -> List[int]:
    """Returns the keys of the copies of all plans."""
    return [key for job in jobs.values() for region in job.graphs() for key in region.compiled.planner.keys if _operators.bytes_of(key)]
