# SPDX-License-Identifier: Apache-2.0
"""The backend: compiles each graph of a program to run within the budget."""
import collections
import contextlib
import dataclasses
import itertools
import sys
import time
import warnings
import weakref
from typing import Any, Callable, ContextManager, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from functorch.compile import default_partition

from . import _buffers, _capture, _costs, _cuda_graphs, _fuse, _layouts, _link, _operators, _optimizers, _options, _places, _private, _random, _sharing, _simplify, _slab
from ._emit import write
from ._options import BudgetError
from ._order import Problem, carry_out
from ._search import search

__all__ = ["BudgetError", "Plan", "backend", "fallbacks", "plans"]


@dataclasses.dataclass
class Plan:
    """The schedule of one graph of a program. Sizes are bytes, times are predicted."""

    device: str
    kernels: str  # "eager" or "inductor"
    budget: int
    outside_bytes: int  # the most that the schedule does not move: weights, inputs, optimizer state; each step updates it
    graph_bytes: int  # of the graph's data and workspaces at the peak; of the slab, if the plan has one
    slab_bytes: int  # of the piece of memory in which its tensors have planned addresses; 0 without one
    least_bytes: int  # of the task of the graph that needs the most
    live_at_border: int  # bytes of the graph's data between the forward and the backward pass
    seconds: float  # of the step
    ideal_seconds: float  # of the step with memory enough
    tasks: int
    runs_again: int  # operators that run a second time
    copies_out: int
    copies_in: int
    planning_seconds: float  # capture and search, measured
    writing_seconds: float  # of both graphs, measured

    @property
    def peak_bytes(self) -> int:
        """The bytes on the device at the peak of the step."""
        return self.outside_bytes + self.graph_bytes

    @property
    def smallest_budget(self) -> int:
        """The bytes of the smallest budget in which the step can run."""
        return self.outside_bytes + self.least_bytes

    @property
    def overhead(self) -> float:
        """The time of the step over that with memory enough."""
        return self.seconds / self.ideal_seconds if self.ideal_seconds else 1.0


plans: List[Plan] = []
fallbacks: "collections.Counter[str]" = collections.Counter()  # graphs that run without a schedule, by reason


# Memory outside of the graph ------------------------------------------------------------------------


def _allocated(device: torch.device) -> int:
    """Returns the bytes of all tensors, without free bytes of a slab."""
    if device.type != "cuda":
        return 0
    slab = _slab.figures_of(device)
    return torch.cuda.memory_allocated(device) - slab.bytes + slab.live_bytes


def _reserved(device: torch.device) -> int:
    """Returns the bytes that PyTorch's allocator reserves beside the slab."""
    return torch.cuda.memory_reserved(device) - _slab.figures_of(device).bytes


def _most_allocated(device: torch.device) -> int:
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0


class _Outside:
    """The most memory that the program has held beside a graph's data, as far as its steps have shown."""

    def __init__(self) -> None:
        self.most = 0  # during the graph: weights, inputs, optimizer state, other graphs
        self.between = 0  # added between the forward and the backward pass, such as by a loss that is not compiled
        self.loss: Optional[int] = None  # of that, what PyTorch reserved beside the slab in the first step
        self.reserved = 0  # by PyTorch at the end of that; it may have given that back by the end of the step

    def estimate(self, captured: _capture.Captured, device: torch.device) -> int:
        """Returns the bytes to expect. The CPU has no count of its tensors, so there they are the graph's own inputs."""
        now = _allocated(device) + _optimizers.state_to_come(device) if device.type == "cuda" else captured.outside_bytes
        return max(self.most, now + captured.tangent_bytes + captured.clone_bytes)

    def estimate_reserved(self, captured: _capture.Captured, device: torch.device, to_come: int) -> int:
        """Returns the bytes to expect that PyTorch's allocator reserves beside the slab.

        to_come: bytes that nothing has asked for yet.
        """
        torch.cuda.empty_cache()  # the blocks of measured operators
        to_come += max(captured.tangent_bytes, self.loss or 0) + captured.clone_bytes
        to_come += _slab.figures_of(device).live_bytes if captured.kept_outside else 0
        return max(self.most, _reserved(device) + to_come)


def _warn_of_loss(plan: Plan, taken: int, loss: int, expected: int, enough: int) -> None:
    size = _options.size_text
    warnings.warn(f"tidepool: a step took {size(taken)} ({taken} bytes) in a budget of {size(plan.budget)}: between its forward and its backward pass "
                  f"the program took {size(loss)}, such as for a loss that is not compiled, where {size(expected)} were expected. The next step is "
                  f"planned with it. To keep the budget from the first step on, compile the loss with the model, or set a budget of {size(enough)} "
                  f"({enough} bytes)", RuntimeWarning, stacklevel=2)


def _warn_of_outside(plan: Plan, taken: int, outside: int) -> None:
    size = _options.size_text
    warnings.warn(f"tidepool: a step took {size(taken)} ({taken} bytes) in a budget of {size(plan.budget)}: {size(outside)} outside of the compiled "
                  f"graph, where {size(plan.outside_bytes)} were expected. The next step is planned with it", RuntimeWarning, stacklevel=2)


class _Watch:
    """Watches one pair of passes, and tells `outside` of memory that the plan did not know."""

    def __init__(self, plan: Plan, device: torch.device, outside: _Outside, job: "_Job"):
        self.plan = plan
        self.device = device
        self.outside = outside
        self.job = job
        self.peak = self.peak_after_forward = self.live_after_forward = 0

    def begin(self) -> None:
        self.peak = _most_allocated(self.device)

    def begin_backward(self) -> None:
        self.begin()
        if self.job.is_overdrawn:
            return
        self.outside.most = max(self.outside.most, _allocated(self.device) - self.plan.live_at_border)
        if self.peak > max(self.peak_after_forward, self.plan.budget):
            between = self.peak - self.live_after_forward
            if between <= self.outside.between:
                self._exceeded()
            elif not self.job.is_divided:
                _warn_of_loss(self.plan, self.peak, between, self.outside.between, self.peak)
            self.outside.between = max(self.outside.between, between)

    def end(self) -> None:
        peak = self.peak
        self.peak = _most_allocated(self.device)
        if self.peak > max(peak, self.plan.budget) and not self.job.is_overdrawn:
            self._exceeded()

    def _exceeded(self) -> None:
        """Learns how far a pass went beyond the budget: PyTorch hands out blocks that are larger than asked for."""
        self.outside.most = max(self.outside.most, self.plan.outside_bytes + self.peak - self.plan.budget)

    def end_forward(self) -> None:
        self.end()
        self.peak_after_forward = self.peak
        self.live_after_forward = _allocated(self.device)


# Graphs that share a budget -------------------------------------------------------------------------


class _Nest:
    """Graphs with passes within each other, in one slab: each runs in the hole that the one before leaves between its passes."""

    def __init__(self, regions: "List[_Region]") -> None:
        self._regions = [weakref.ref(region) for region in regions]
        self.rooms: "dict[int, Tuple[int, int]]" = {}  # number of a graph, after the first -> offset and bytes in the slab
        for number, region in enumerate(regions):
            region.nest, region.number, region.keeps_gradients = self, number, True

    def regions(self) -> "List[_Region]":
        return [region for region in (one() for one in self._regions) if region is not None]

    def gradient_bytes(self) -> int:
        """Returns the bytes of the results of all backward passes."""
        return sum(region.compiled.planner.gradient_bytes for region in self.regions())

    def share(self, first: "_Planner", memory: int) -> None:
        """Gives each graph a share of the memory, or of the least in which all of them have room."""
        others = [region for region in self.regions() if region.number]
        all_needs = [first.nested_needs, *(region.compiled.planner.nested_needs for region in others)]
        memory = max(memory, _sharing.least_memory(all_needs))
        share = _sharing.largest_share(all_needs, memory)
        for i, region in enumerate([first.region, *others], 1):
            left = memory - _sharing.saved_before(all_needs, i, share) if i < len(all_needs) else 0
            planner = first if region is first.region else region.compiled.planner
            region.outside.between = left // _UNIT * _UNIT + planner.tangent_bytes if left else 0


class _Job:
    """The graphs of a program that have one budget, in the order of their forward passes."""

    def __init__(self, budget: int):
        self.budget = budget
        self._graphs: "List[weakref.ref[_Region]]" = []
        self.is_divided = False  # whether a forward pass began before the backward pass of the one before
        self.is_tangled = False  # whether such passes did not nest: then no slab
        self._sequence: "List[weakref.ref[_Region]]" = []  # whose forward passes ran since no backward pass was due
        self.open: "List[_Region]" = []  # whose forward passes ran in the slab, and whose backward passes have not begun
        self._border: Optional[Tuple[_Region, int]] = None  # whose forward pass was the last pass that ended, and what was reserved then
        self.is_overdrawn = False  # in the step in which the graphs got shares

    def add(self, region: "_Region") -> None:
        self._graphs.append(weakref.ref(region))

    def graphs(self) -> "List[_Region]":
        """Returns the graphs that have a plan."""
        found = [region for region in (one() for one in self._graphs) if region is not None]
        return [region for region in found if region.compiled.planner.plan is not None]

    def begin(self, region: "_Region", arguments: Any) -> "_Region":
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

    def _nest(self, region: "_Region", arguments: Any) -> "_Region":
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
                _Nest(last)
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

    def end_forward(self, region: "_Region") -> None:
        self.open.append(region)
        planner = region.compiled.planner
        measures = region.outside.loss is None and not planner.was_captured
        self._border = (region, _reserved(planner.device)) if measures else None

    def begin_backward(self, region: "_Region") -> None:
        if self._border is not None and self._border[0] is region:
            region.outside.reserved = _reserved(region.compiled.planner.device)
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

    def share_all(self, first: "_Region", needs: _sharing.Needs, outside: int) -> bool:
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

    def share(self, graph: "_Region", needs: _sharing.Needs, outside: int) -> int:
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


_jobs: "dict[int, _Job]" = {}


def _keys_of_copies() -> List[int]:
    """Returns the keys of the copies of all plans."""
    return [key for job in _jobs.values() for region in job.graphs() for key in region.compiled.planner.keys if _operators.bytes_of(key)]


# Planning -------------------------------------------------------------------------------------------


def _refuse(captured: _capture.Captured, budget: int, outside: int, working: int, is_alone: bool) -> BudgetError:
    """Returns the error for a budget in which there is no schedule.

    working: the bytes of one that works, at least those of the largest task.
    is_alone: whether no other graph shares the budget, which may need more.
    """
    least, task = _capture.least_memory(captured.document)
    size = _options.size_text
    if budget >= least + outside:
        return BudgetError(f"tidepool: no schedule was found for a budget of {size(budget)} ({budget} bytes), of which "
                           f"{size(outside)} are weights, inputs and other tensors. The largest task needs {least + outside} bytes; expected a "
                           f"larger budget, such as {size(working)} ({working} bytes), or a longer time_limit", working)
    more = working - least - outside
    found = "Expected a larger budget, such as" if more or not is_alone else "The smallest that works is"
    besides = f", and the schedule {size(more)} more" if more else ""
    return BudgetError(f"tidepool: a budget of {size(budget)} ({budget} bytes) is too small. {found} "
                       f"{size(working)} ({working} bytes): {_capture.describe_task(captured, task)} needs "
                       f"{size(least)}, beside {size(outside)} of weights, inputs and other tensors{besides}", working)


def _too_high(budget: int, excess: int, searches: int) -> str:
    size = _options.size_text
    return (f"tidepool: a budget of {size(budget)} ({budget} bytes) is too small: the addresses found for a schedule take {size(excess)} more, after "
            f"{'1 search' if searches == 1 else f'{searches} searches'}. Expected a larger budget")


_MOST_NESTED = 512  # graphs
_UNIT = 512  # bytes of which sizes in a slab are multiples
_MOST_SEARCHES = 6  # of a schedule that fits with its addresses
_TIGHT = 1.1  # times the time with memory enough, above which PyTorch's own kernels may be as fast as fused ones
_TOO_HIGH = 1.01  # of the room for a plan, above which its addresses are refused


class _TooSlow(Exception):
    """A graph that would take longer than one that is already there."""


class _NoPlan(Exception):
    """A budget in which a planner has found no plan."""

    def __init__(self, planner: "_Planner", smallest: int):
        super().__init__()
        self.planner = planner
        self.smallest = smallest  # bytes of the budget that may work


class _Planner:
    """Makes the graphs of one Dynamo graph. AOTAutograd calls `partition`."""

    def __init__(self, region: "_Region", kernels: str, most_seconds: float = float("inf")):
        self.region = region
        self.options = region.options
        self.is_fused = kernels == "inductor"
        self.most_seconds = most_seconds
        self.outside = region.outside
        self.job = region.job
        self.plan: Optional[Plan] = None
        self.places: Optional[_places.Places] = None
        self.nest = region.nest
        self.needs: Any = None  # of the graph alone
        self.nested_needs: Any = None  # of the graph alone, without gradients
        self.tangent_bytes = 0
        self.least = 0  # bytes of the task that needs the most, or of the caller between the passes
        self.is_shared = False  # whether this plan made graphs share the budget, which changes what it leaves to others
        self.costs: Any = None
        self.for_loss = 0  # bytes that this plan leaves to a loss of unknown size, beside its gradient, or to the next batch
        self.for_batch = 0  # of these
        self.excess = 0  # bytes by which the addresses take more than the budget
        self.searches = 0  # after which this is so
        self._problem: Any = None  # the arguments of the search
        self.gradient_bytes = 0
        self.writing_seconds = 0.0
        self.fusion: Optional[_capture.Fusion] = None
        self.keys: List[int] = []  # of copies
        self.was_captured = False  # whether the last forward pass was
        self.had_slab = False  # whether the last forward pass had a slab of the size of the plan
        self.slab_taken = 0  # bytes of the slab in the last forward pass, which may be more
        self.device: Optional[torch.device] = None

    def partition(self, joint: torch.fx.GraphModule, inputs: Any, *, num_fwd_outputs: int, **keywords: Any) -> Any:
        joint.graph.eliminate_dead_code()
        try:
            if _private.has_nested_regions(self.region.module):  # AOTAutograd asks for their parts, too
                raise _capture.Unsupported("it has graphs of its own, of nested_compile_region")
            return self._scheduled(joint, num_fwd_outputs)
        except _capture.Unsupported as reason:
            fallbacks[str(reason)] += 1
            if fallbacks[str(reason)] == 1:
                warnings.warn(f"tidepool: a graph runs without a schedule, so the budget may be exceeded: {reason}",
                              RuntimeWarning, stacklevel=2)
            passes = default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **keywords)
            self.fuse(passes)
            return passes

    def fuse(self, passes: Sequence[torch.fx.GraphModule]) -> None:
        """Fuses operators of graphs that have no schedule."""
        if self.is_fused:
            for module in passes:
                _fuse.fuse(module.graph)

    def _fuse_written(self, written: Any, captured: _capture.Captured, memory: int) -> None:
        """Fuses operators of written graphs, as far as there is memory for all that each function holds at once."""
        if not self.is_fused:
            return
        graphs = written.forward.graph, written.backward.graph
        _fuse.mark_updates(graphs[0], captured.new_values)
        divide = _fuse.within(memory, _places.levels(*graphs, captured), captured)
        for graph in graphs:
            _fuse.fuse(graph, divide)

    def _scheduled(self, joint: torch.fx.GraphModule, forward_count: int) -> Any:
        begin = time.perf_counter()
        self.device = device = _capture.device_of(joint.graph)
        _private.mark_backward(joint.graph)
        _capture.check(joint.graph)  # a graph that runs without a schedule stays as it is
        _simplify.simplify(joint.graph)
        if self.is_fused:
            _layouts.put_channels_last(joint, device)
        _buffers.update_in_place(joint.graph, forward_count)
        self.job.find_division(device)
        has_slab = self.options.slab and not self.job.is_tangled and _slab.is_there(device)
        self.costs = _costs.costs_of(device, has_slab)
        with _private.real_tensors():
            link = _link.link_rate(device) if self.options.link is None else self.options.link
        if self.is_fused:
            self.fusion = self._fusion(joint, forward_count)
        captured = self._captured(joint, forward_count, link, has_slab)
        ideal_seconds = sum(task["algorithms"][0]["seconds"] for task in captured.tasks)
        if ideal_seconds >= self.most_seconds:
            raise _TooSlow
        outside = self._outside(captured, has_slab)
        if self.is_shared:
            captured = self._captured(joint, forward_count, link, has_slab)
        answer, order, written, self.places = self._searched_beside_loss(joint, captured, outside, has_slab)
        outside += self.for_loss
        self._move_into_room()
        self.keys = written.keys if device.type == "cuda" else []
        if device.type == "cuda":
            torch.cuda.empty_cache()  # the blocks of measured operators
        slab_bytes = self.places.height if self.places is not None else 0
        extra = _fuse.extra_seconds((written.forward.graph, written.backward.graph), self.fusion.seconds, self.costs) if self.fusion else 0
        self.plan = Plan(
            device=str(device), kernels="inductor" if self.is_fused else "eager", budget=self.options.budget, outside_bytes=outside, graph_bytes=slab_bytes or order.peak,
            slab_bytes=slab_bytes, least_bytes=self.least, live_at_border=order.live_at_border,
            seconds=answer["seconds"] + extra, ideal_seconds=ideal_seconds,
            tasks=len(captured.tasks), runs_again=written.runs_again, copies_out=written.copies_out,
            copies_in=written.copies_in, planning_seconds=time.perf_counter() - begin - self.writing_seconds,
            writing_seconds=self.writing_seconds)
        return written.forward, written.backward

    def _fusion(self, joint: torch.fx.GraphModule, forward_count: int) -> _capture.Fusion:
        """Returns how operators fuse, with the times that they have where all run once, in their order."""
        _random.compute_from_seeds(joint.graph, self.device)
        _fuse.advance_reductions(joint.graph)
        inlined = _fuse.inlined(joint.graph)
        assumed = _fuse.assumed_times(joint.graph, inlined)
        fusion = _capture.Fusion(inlined, assumed, _fuse.written_over(joint.graph, inlined))
        captured = _capture.capture(joint, forward_count, self.costs, fusion=fusion)
        written = write(joint, captured, [("run", i) for i in range(len(captured.tasks))])
        self._fuse_written(written, captured, sys.maxsize)
        graphs = written.forward.graph, written.backward.graph
        over = _fuse.found_over(graphs, fusion.over)
        return _capture.Fusion(inlined, _fuse.measured_times(graphs, assumed, self.costs), over)

    def _captured(self, joint: torch.fx.GraphModule, forward_count: int, link: float, has_slab: bool) -> _capture.Captured:
        between = 0 if has_slab and self.nest is None else self.outside.between
        captured = _capture.capture(joint, forward_count, self.costs, link, between, self.region.keeps_gradients, self.fusion)
        self.gradient_bytes = captured.gradient_bytes
        self.least = _capture.least_memory(captured.document)[0]
        own = _capture.without_between(captured.document)
        self.needs = _sharing.needs_of(own, _capture.BORDER, _capture.least_memory(own)[0])
        own = _capture.without_gradients(own)
        self.nested_needs = _sharing.needs_of(own, _capture.BORDER, _capture.least_memory(own)[0])
        self.tangent_bytes = captured.tangent_bytes
        return captured

    def _outside(self, captured: _capture.Captured, has_slab: bool) -> int:
        """Returns the bytes to expect beside the graph's data."""
        if has_slab and self.nest is not None:
            return self._outside_of_room(captured)
        if has_slab:
            return self._outside_of_slab(captured)
        outside = self.outside.estimate(captured, self.device)
        return self._shared(captured, outside) if self.options.budget - outside < self.least else outside

    def _outside_of_room(self, captured: _capture.Captured) -> int:
        """Returns the bytes beside the room of a nested graph. The first one gives all of them their rooms."""
        if self.region.number:
            return self.options.budget - self.nest.rooms[self.region.number][1]
        outside = self.outside.most
        if not self.region.is_measured():
            outside = self._outside_of_slab(captured) + self.nest.gradient_bytes()
        self.nest.share(self, self.options.budget - outside)
        self.is_shared = True
        return outside

    def _move_into_room(self) -> None:
        """Moves the places into the room of the graph."""
        if self.places is not None and self.nest is not None and self.region.number:
            self.places = _places.shifted(self.places, self.nest.rooms[self.region.number][0])

    def accept(self) -> None:
        """Takes the plan as that of the graph: lists it, and tells the next graph of the nest its room."""
        if self.plan is None:
            return
        plans.append(self.plan)
        if self.excess:
            warnings.warn(_too_high(self.options.budget, self.excess, self.searches), RuntimeWarning, stacklevel=2)
        if self.places is not None and self.nest is not None:
            self.nest.rooms[self.region.number + 1] = self.places.hole, self.places.hole_bytes

    def _outside_of_slab(self, captured: _capture.Captured) -> int:
        if self.job.open and self.nest is None:
            # Data of the open graphs is beside the slab in this step alone.
            first = self.job.open[0].compiled.planner
            return first.plan.outside_bytes - first.for_loss
        if self.region.has_stepped():  # PyTorch may just have given back what each step takes for a time
            return self.outside.estimate_reserved(captured, self.device, _optimizers.temporary_bytes(self.device))
        to_come, is_known = _optimizers.bytes_to_come(self.device, captured.trained_bytes)
        if captured.kept_outside:  # these are there before the first step, so further ones are added to them
            to_come += captured.gradient_bytes
        known = self.outside.estimate_reserved(captured, self.device, to_come if is_known else 0)
        outside = known + (0 if is_known else to_come)
        # The size of an optimizer that does not exist yet is no reason to refuse a budget.
        return outside if self.options.budget - outside >= self.least else known

    def _written(self, joint: torch.fx.GraphModule, captured: _capture.Captured, order: Any, memory: int) -> Any:
        begin = time.perf_counter()
        written = write(joint, captured, order.actions)
        self._fuse_written(written, captured, memory)
        self.writing_seconds += time.perf_counter() - begin
        return written

    def _searched_beside_loss(self, joint: torch.fx.GraphModule, captured: _capture.Captured, outside: int, has_slab: bool) -> Any:
        """Returns what `_searched` does, beside `_unknown` bytes if it can."""
        self._problem = joint, captured, outside, has_slab
        room = self.options.budget - outside
        unknown = min(self._unknown(captured, room), room - self.least)
        if has_slab and unknown > 0:
            found = self._searched(joint, captured, room - unknown, has_slab)
            self.for_loss = min(unknown, room - found[3].height) if found is not None else 0
            self.for_batch = 0 if self._may_have_loss(captured) else self.for_loss
            if self.for_loss > 0:  # as much as the addresses leave
                self.excess = 0
                return found
        self.for_loss = self.for_batch = 0
        found = self._searched(joint, captured, room, has_slab)
        if found is None:
            raise _NoPlan(self, outside + max(room, self.least))
        return found

    def _unknown(self, captured: _capture.Captured, room: int) -> int:
        """Returns the bytes to leave to memory of which no step has told yet: half of the room for a loss that is not compiled, or the next batch,
        which the program makes before it lets this one go."""
        if self._may_have_loss(captured):
            return room // 2
        is_measured = self.region.has_stepped() and (not self.region.keeps_gradients or self.region.planned_at > 0)
        is_small = self.region.batch_bytes < self.options.budget // 100
        return 0 if is_measured or is_small or self.nest is not None or self.job.open else self.region.batch_bytes

    def _may_have_loss(self, captured: _capture.Captured) -> bool:
        """Returns whether a loss that is not compiled may take memory of which no step has told."""
        is_first = self.nest is None and not self.job.open and not self.region.has_stepped() and self.outside.loss is None
        return is_first and captured.tangent_bytes > _SMALL

    def _searched(self, joint: torch.fx.GraphModule, captured: _capture.Captured, room: int, has_slab: bool) -> Any:
        """Returns the answer of the search, the order of actions, the graphs in that order, and their places in a slab or None.

        A slab may be higher than the data that is live in it. Then the search gets less memory. Returns None if there is no schedule.
        """
        memory = room
        best = None
        if room < self.least:
            return None
        for self.searches in range(1, _MOST_SEARCHES + 1):
            schedule, answer = search(captured.document, memory, self.options.time_limit)
            if schedule is None:
                break
            order = carry_out(schedule["steps"], Problem(captured.document, memory, _capture.BORDER))
            written = self._written(joint, captured, order, memory)
            if not has_slab:
                return answer, order, written, None
            places = _places.plan(_places.requests_of(written.forward.graph, written.backward.graph, captured, self.costs))
            if best is None or places.height < best[3].height:
                best = answer, order, written, places
            if places.height <= room or memory == self.least:
                break
            memory = max(self.least, memory - int((places.height - room) * 1.02) - _UNIT)
        self.excess = best[3].height - room if best is not None and best[3].used > room * _TOO_HIGH else 0
        return best

    def refusal(self) -> BudgetError:
        """Returns the error for a budget in which there is no schedule, or no addresses, with one for which a plan was made."""
        joint, captured, outside, has_slab = self._problem
        budget, excess, searches = self.options.budget, self.excess, self.searches
        room, more = max(budget - outside + excess, self.least), 0.02
        while self._searched(joint, captured, room, has_slab) is None or self.excess:
            room = max(room + self.excess, int(room * (1 + more)))
            more *= 2
        working = outside + room
        if not excess:
            is_alone = all(region is self.region for region in self.job.graphs())
            error = _refuse(captured, budget, outside, working, is_alone)
        else:
            error = BudgetError(f"{_too_high(budget, excess, searches)}, such as {_options.size_text(working)} ({working} bytes)", working)
        if self._may_have_loss(captured):
            error.args = (f"{error}. A loss that is not compiled comes on top",)
        return error

    def _shared(self, captured: _capture.Captured, outside: int) -> int:
        """Returns the bytes outside of this graph once all graphs leave memory to each other, or as many as now if they cannot."""
        if self.device.type != "cuda":
            return outside
        self.is_shared = self.job.share_all(self.region, self.needs, outside)
        memory = self.options.budget - outside if self.is_shared else self.job.share(self.region, self.needs, outside)
        if not memory:
            return outside
        warnings.warn("tidepool: graph breaks divide the program, and its graphs share the budget from the second step on. "
                      "The first step may exceed it", RuntimeWarning, stacklevel=2)
        return self.options.budget - memory


# Running --------------------------------------------------------------------------------------------


class _Compiled:
    """The two graphs of one plan."""

    def __init__(self, region: "_Region", inputs: Any, planner: _Planner):
        self.planner = planner
        self._watch: Optional[_Watch] = None
        self.call = _private.compile_joint(
            region.module, inputs, partition=self.planner.partition, compile_forward=self._forward,
            compile_backward=self._backward, compile_inference=self._inference,
            taken_apart=_fuse.TAKEN_APART if planner.is_fused else ())
        self.between = region.outside.between  # in the plan

    def watch(self) -> Optional[_Watch]:
        """Returns the watch of the passes; None where there is no plan, or no count of the device's memory."""
        plan, device = self.planner.plan, self.planner.device
        if self._watch is None and plan is not None and not plan.slab_bytes and device is not None and device.type == "cuda":
            self._watch = _Watch(plan, device, self.planner.outside, self.planner.job)
        return self._watch

    def _forward(self, module: torch.fx.GraphModule, inputs: Any) -> Callable[[List[Any]], Any]:
        if self.planner.places is not None:
            slab = _SlabRun(self.planner)
            return _guarded(module, self.planner.device, slab.begin_forward, slab.end_forward,
                            slab.passes(self.planner.places.forward))
        watch = self.watch()
        return _guarded(module, self.planner.device, watch and watch.begin, watch and watch.end_forward)

    def _backward(self, module: torch.fx.GraphModule, inputs: Any) -> Callable[[List[Any]], Any]:
        if self.planner.places is not None:
            slab = _SlabRun(self.planner)
            return _guarded(module, self.planner.device, slab.begin_backward, None, slab.passes(self.planner.places.backward))
        watch = self.watch()
        return _guarded(module, self.planner.device, watch and watch.begin_backward, watch and watch.end)

    def _inference(self, module: torch.fx.GraphModule, inputs: Any) -> Callable[[List[Any]], Any]:
        """Returns a function for a graph without a backward pass, which has no schedule."""
        self.planner.fuse([module])
        return _guarded(module, None, None, None)


def _compile(region: "_Region", inputs: Any) -> _Compiled:
    """Returns the graphs of a plan with the kernels that the program asks for, or with PyTorch's own where those of Inductor do not keep the
    budget, or take longer there."""
    _cuda_graphs.check(not _cuda_graphs.is_captured(_CUDA), f"its graph of operators is not planned yet. {_WARM_UP}")
    before = region.job.shares()
    compiled, refusal = _compiled_or_refused(region, inputs, region.options.kernels)
    if region.options.kernels == "inductor" and _may_be_bettered(compiled):
        rank, shares = _rank(compiled), region.job.shares()
        region.job.restore(before)
        other, other_refusal = _compiled_or_refused(region, inputs, "eager", rank[1] if rank[0] == 0 else float("inf"))
        if _rank(other) < rank:
            compiled = other
            _warn_of_eager_kernels(region)
        else:
            region.job.restore(shares)
        refusal = min(filter(None, (refusal, other_refusal)), key=lambda one: one.smallest, default=None)
    if compiled is None:
        region.job.restore(before)
        raise refusal.planner.refusal() if isinstance(refusal, _NoPlan) else refusal or AssertionError("a graph without a plan has a reason")
    compiled.planner.accept()
    return compiled


def _may_be_bettered(fused: Optional[_Compiled]) -> bool:
    """Returns whether PyTorch's own kernels may keep a budget that fused ones do not keep, or be faster there."""
    if fused is None:
        return True
    planner = fused.planner
    return planner.plan is not None and (planner.excess > 0 or planner.plan.overhead > _TIGHT)


def _rank(compiled: Optional[_Compiled]) -> Tuple[int, float]:
    """Returns numbers that are less for a better plan: 0 if it keeps the budget, and its seconds."""
    if compiled is None:
        return 2, float("inf")
    planner = compiled.planner
    return int(planner.plan is None or planner.excess > 0), planner.plan.seconds if planner.plan is not None else float("inf")


def _compiled_or_refused(region: "_Region", inputs: Any, kernels: str,
                         most_seconds: float = float("inf")) -> "Tuple[Optional[_Compiled], Union[_NoPlan, BudgetError, None]]":
    """Returns the graphs of a plan, or None and the reason. None and no reason: it would take `most_seconds` at least.

    Addresses that exceed the budget are no reason where graphs share it, since their next plans may fit.
    """
    try:
        compiled = _Compiled(region, inputs, _Planner(region, kernels, most_seconds))
    except (BudgetError, _NoPlan) as error:
        return None, error
    except _TooSlow:
        return None, None
    is_refused = compiled.planner.excess > 0 and compiled.planner.nest is None
    return (None, _NoPlan(compiled.planner, region.options.budget + compiled.planner.excess)) if is_refused else (compiled, None)


def _warn_of_eager_kernels(region: "_Region") -> None:
    operators = sum(node.op.startswith("call") for node in region.module.graph.nodes)
    warnings.warn(f"tidepool: PyTorch's own kernels run in the place of Inductor's for a graph of {operators} operators in a budget of "
                  f"{_options.size_text(region.options.budget)}, which fused ones do not keep, or in which they take longer", RuntimeWarning, stacklevel=2)


class _SlabRun:
    """Runs the passes of a plan in the slab of its device."""

    def __init__(self, planner: _Planner):
        self.planner = planner

    def begin_forward(self) -> None:
        job, plan, region = self.planner.job, self.planner.plan, self.planner.region
        device = self.planner.device
        self.planner.was_captured = self._hold()
        if self.planner.was_captured:
            return
        slab = _slab.figures_of(device)
        if self.planner.nest is not None and region.number:
            return
        # Graphs of several shapes share the slab, if the budget has room for the largest one.
        wanted = max([plan.slab_bytes, *(region.compiled.planner.plan.slab_bytes for region in job.graphs())])
        if job.is_divided or plan.outside_bytes + wanted > plan.budget:
            wanted = plan.slab_bytes
        is_done = slab.bytes == wanted or _slab.resize(device, wanted)
        self.planner.had_slab = is_done or slab.bytes >= plan.slab_bytes
        self.planner.slab_taken = wanted if is_done else slab.bytes

    def _hold(self) -> bool:
        """Lets the CUDA graph that is captured now hold the slab, and returns whether there is one."""
        held = _cuda_graphs.current() if _cuda_graphs.is_captured(self.planner.device) else None
        if held is not None:
            held.hold_slab(self.planner.device)
        return held is not None

    def end_forward(self) -> None:
        self.planner.job.end_forward(self.planner.region)

    def begin_backward(self) -> None:
        if self._hold():
            _cuda_graphs.check(self.planner.was_captured, "its forward pass was not captured. Capture both passes")
        self.planner.job.begin_backward(self.planner.region)

    def passes(self, requests: Tuple[List[int], List[int]]) -> Callable[[], ContextManager[None]]:
        """Returns a function that makes a context in which a pass gets its places."""
        planned = _slab.Pass(*requests)
        return lambda: planned.followed(self.planner.device)


class _Region:
    """One graph of the program, and the plan for the memory that the program has had beside it."""

    def __init__(self, module: torch.fx.GraphModule, inputs: Any, options: _options.Options):
        self.module = module
        self.options = options
        self.outside = _Outside()
        self.batch_bytes = sum(one.numel() * one.element_size() for one in inputs if _is_of_batch(one))
        self.keeps_gradients = False  # whether gradients are there when a step begins
        self.nest: Optional[_Nest] = None
        self.number = 0  # in the nest
        self.planned_at = 0  # the call before the plan
        self._twin: Optional[_Region] = None
        self.calls = 0
        self.results: "List[weakref.ref[torch.Tensor]]" = []  # of the last call
        self.has_warned = False  # of memory beyond the budget
        self.emptied_at = 0  # the last call that gave PyTorch's cache back
        _optimizers.watch()
        _cuda_graphs.watch(_keys_of_copies)
        self.first_step = _optimizers.steps()
        self.job = _jobs.setdefault(options.budget, _Job(options.budget))
        self.compiled = _compile(self, inputs)
        self.job.add(self)

    def has_stepped(self) -> bool:
        """Returns whether an optimizer has made a step since the first call."""
        return _optimizers.steps() > self.first_step

    def twin(self, arguments: Any) -> "_Region":
        """Returns the same graph, with a plan of its own."""
        if self._twin is None:
            self._twin = _Region(self.module, list(arguments), self.options)
        return self._twin

    def is_measured(self) -> bool:
        """Returns whether a whole step has run with the plan of the nest, so that the reserved memory is that of its peak."""
        nest = self.compiled.planner.nest if self.planned_at else None
        return nest is not None and self.has_stepped() and self.calls > self.planned_at + 1

    def _is_outgrown(self) -> bool:
        """Returns whether there are more tensors than planned, such as the state of an optimizer after the first step."""
        if self.compiled.planner.places is not None and _slab.is_held(self.compiled.planner.device):
            return False
        if not _operators.stayed.isdisjoint(self.compiled.planner.keys):  # another plan would not make room for copies that stay on the device
            return False
        if self.compiled.planner.nest is not self.nest:
            return self.nest is None or not self.number or self.number in self.nest.rooms
        if self.compiled.planner.places is not None:
            return self._is_slab_outgrown()
        watch = self.compiled.watch()
        if watch is None:
            return False
        if not self.job.is_overdrawn:
            self.outside.most = max(self.outside.most, _allocated(watch.device))
        watch.plan.outside_bytes = max(watch.plan.outside_bytes, self.outside.most)
        return watch.plan.peak_bytes > watch.plan.budget or self.outside.between > self.compiled.between

    def _is_slab_outgrown(self) -> bool:
        """Returns whether a slab of another size is due, for the memory that PyTorch's allocator reserves beside it."""
        planner = self.compiled.planner
        plan, device = planner.plan, planner.device
        if self.nest is not None and self.number:
            return False
        if not self.has_warned and self._has_unexpected_loss(device):
            return True
        if self.job.is_tangled:
            return True
        if not self.job.open and not self.keeps_gradients and planner.gradient_bytes > _SMALL:
            results = sum(one.untyped_storage().nbytes() for one in self._kept_results())
            self.keeps_gradients = 2 * (_slab.figures_of(device).live_bytes - results) > planner.gradient_bytes
            if self.keeps_gradients:
                return True
        if not planner.had_slab:
            torch.cuda.empty_cache()  # its requests were served beside the slab
            return False
        return self._is_more_reserved(plan, device)

    def _has_unexpected_loss(self, device: torch.device) -> bool:
        """Warns of a step that took more than the budget, once. Returns whether it was for a loss."""
        planner = self.compiled.planner
        plan, loss, outside = planner.plan, self.outside.loss or 0, max(_reserved(device), self.outside.reserved)
        self.outside.reserved = 0
        taken = planner.slab_taken + outside
        if taken <= plan.budget * _TOO_HIGH:
            return False
        self.has_warned = True
        expected = planner.for_loss + planner.tangent_bytes
        if loss <= expected or self.job.is_divided:
            _warn_of_outside(plan, taken, outside)
            return False
        torch.cuda.empty_cache()
        _warn_of_loss(plan, taken, loss, expected, _reserved(device) + loss + max(loss, plan.slab_bytes))
        return True

    def _is_more_reserved(self, plan: Plan, device: torch.device) -> bool:
        most = plan.outside_bytes + plan.budget // 100
        if self.nest is not None and not self.is_measured():
            return False
        earlier = self.outside.most if self.keeps_gradients and self.nest is None else 0  # gradients come and go
        self.outside.most = max(earlier, _reserved(device))
        if self.nest is None and self.outside.most > most and self.calls - self.emptied_at > _OFTEN:
            # An evaluation may have left it. Memory that each step takes is here again soon.
            self.emptied_at = self.calls
            torch.cuda.empty_cache()
            self.outside.most = max(earlier, _reserved(device))
        is_known = self.has_stepped() and (self.nest is not None or not self.keeps_gradients)
        unused = plan.budget // 30
        if self.compiled.planner.for_batch:  # a step has told whether the program makes new batches
            unused = min(unused, self.compiled.planner.for_batch // 2)
        if is_known and plan.overhead > 1 and self.outside.most < plan.outside_bytes - unused:
            return True
        plan.outside_bytes = max(0 if is_known else plan.outside_bytes, min(self.outside.most, most))
        return self.outside.most > most

    def __call__(self, *arguments: Any) -> Any:
        if self.compiled.planner.plan is not None and _cuda_graphs.is_captured(self.compiled.planner.device):
            self._refuse_capture()
            return self.job.begin(self, arguments)._run_captured(arguments)
        return self.job.begin(self, arguments)._run(arguments)

    def _refuse_capture(self) -> None:
        """Raises RuntimeError for a step that no CUDA graph can hold."""
        planner = self.compiled.planner
        _cuda_graphs.check(_cuda_graphs.current() is not None, "the capture did not begin by a torch.cuda.CUDAGraph. Use torch.cuda.graph() "
                           "or make_graphed_callables()")
        _cuda_graphs.check(planner.places is not None and not self.job.is_tangled, "its tensors have no planned addresses. They need slab=True, a C++ "
                           "compiler, and backward passes in the reverse order of their forward passes")

    def _is_settled(self) -> bool:
        """Returns whether the next step keeps the plan."""
        planner = self.compiled.planner
        is_grown = _reserved(planner.device) > planner.plan.outside_bytes + planner.plan.budget // 100
        return planner.nest is self.nest and self.calls > 1 and (self.calls > self.planned_at or not is_grown)

    def _run_captured(self, arguments: Any) -> Any:
        """Runs the step as it was planned. In a capture nothing is planned, measured or waited for."""
        planner, check = self.compiled.planner, _cuda_graphs.check
        is_first = planner.nest is None or not self.number
        check(self._is_settled(), f"step {self.calls + 1} is to be planned again. {_WARM_UP}")
        figures = _slab.figures_of(planner.device)
        needed = max(offset + size for passes in (planner.places.forward, planner.places.backward) for size, offset in zip(*passes))
        check(figures.bytes >= needed, f"the last step had other shapes, or another graph holds memory for such: {figures.bytes} bytes, expected at "
              f"least {needed}. Run a step of these shapes before the capture, and capture the largest shapes first")
        check(not is_first or bool(self.job.open) or 2 * figures.live_bytes <= max(planner.gradient_bytes, 2 * _SMALL), "tensors of an earlier step hold "
              f"{figures.live_bytes} bytes of its memory. Call optimizer.zero_grad(set_to_none=True) before the capture, and delete its results")
        return self.compiled.call(*arguments)

    def _run(self, arguments: Any) -> Any:
        self.calls += 1
        if self._is_outgrown():
            self._empty_slab(arguments)
            if self.nest is not None and self.nest is self.compiled.planner.nest:
                _Nest(self.nest.regions())  # all of them are planned again
            self.compiled = _compile(self, list(arguments))
            self.planned_at = self.calls
        results = self.compiled.call(*arguments)
        self.results = [weakref.ref(one) for one in results if type(one) is torch.Tensor]
        return results

    def _kept_results(self) -> List[torch.Tensor]:
        """Returns the results of the last call that the program still has."""
        return [one for one in (reference() for reference in self.results) if one is not None and one.device == self.compiled.planner.device]

    def _empty_slab(self, arguments: Any) -> None:
        """Gives the slab back, so that operators can be measured and it can have another size. What the program keeps beyond a step moves out of
        it: its last results, and gradients."""
        device = self.compiled.planner.device
        if self.job.open or device.type != "cuda" or not _slab.figures_of(device).bytes:
            return
        kept = self._kept_results()
        if self.keeps_gradients:
            kept += [one.grad for one in arguments if isinstance(one, torch.nn.Parameter) and type(one.grad) is torch.Tensor and one.grad.device == device]
        _move_out_of_slab(kept, device)


def _is_of_batch(argument: Any) -> bool:
    """Returns whether an argument may be another tensor in the next step: it is no parameter, and no result of a graph before this one."""
    return isinstance(argument, torch.Tensor) and argument.is_cuda and not isinstance(argument, torch.nn.Parameter) and not argument.requires_grad


def _move_out_of_slab(tensors: Sequence[torch.Tensor], device: torch.device) -> None:
    """Moves the memory of tensors out of the slab, and gives it back if no others live there. Their values wait on the host, since the device has
    no room for both."""
    storages = {one.data_ptr(): one for one in (tensor.untyped_storage() for tensor in tensors)}.values()  # shared ones once
    waiting = [(one, one.nbytes(), one.cpu()) for one in storages]
    for one, _, _ in waiting:
        one.resize_(0)
    if _slab.resize(device, 0):
        torch.cuda.empty_cache()
    for one, size, values in waiting:
        one.resize_(size)
        one.copy_(values)


_CUDA = torch.device("cuda")
_WARM_UP = ("Run 3 steps outside of the capture first, or 6 of a program with graph breaks, such as by num_warmup_iters of "
            "make_graphed_callables()")
_OFTEN = 4  # calls within which memory that comes again belongs to the steps
_SMALL = 1 << 20  # bytes of gradients that may stay in a slab


def _guarded(module: torch.fx.GraphModule, device: Optional[torch.device], begin: Optional[Callable[[], None]],
             end: Optional[Callable[[], None]],
             context: Callable[[], ContextManager[None]] = contextlib.nullcontext) -> Callable[[List[Any]], Any]:
    """Returns a function of a list of arguments. After an error no copy writes to memory that is free."""
    module.graph.set_codegen(_private.BoxedCode())
    module.recompile()

    def run(arguments: List[Any]) -> Any:
        if begin is not None:
            begin()
        try:
            with context():
                results = module.forward(arguments)
        except BaseException:
            if device is not None and device.type == "cuda":
                _operators.join(device)
            raise
        if end is not None:
            end()
        return results

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def backend(module: torch.fx.GraphModule, inputs: Any, *, options: Optional[Mapping[str, Any]] = None,
            **unknown: Any) -> Callable[..., Any]:
    """Compiles a graph of Dynamo for torch.compile(model, backend="tidepool", options={"budget": ...})."""
    if unknown:
        raise ValueError(f"the backend 'tidepool' takes no {', '.join(map(repr, unknown))}, expected options={{\"budget\": ...}}")
    return torch.compiler.disable(_Region(module, inputs, _options.check(options)).__call__)
