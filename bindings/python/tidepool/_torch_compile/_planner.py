# SPDX-License-Identifier: Apache-2.0
"""Makes the plan of a graph: captures it, searches a schedule, and writes both passes in its order."""
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any, List, Optional, Sequence

import torch
from functorch.compile import default_partition

from . import _buffers, _capture, _costs, _fuse, _layouts, _link, _optimizers, _options, _places, _private, _random, _sharing, _simplify, _slab
from ._emit import write
from ._jobs import UNIT
from ._options import BudgetError
from ._order import Problem, carry_out
from ._plans import Plan, fallbacks, plans
from ._search import search

if TYPE_CHECKING:
    from ._region import Region

__all__ = ["SMALL", "TOO_HIGH", "NoPlan", "Planner", "TooSlow"]

_MOST_SEARCHES = 6  # of a schedule that fits with its addresses
TOO_HIGH = 1.01  # of the room for a plan, above which its addresses are refused
SMALL = 1 << 20  # bytes of gradients that may stay in a slab


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


class TooSlow(Exception):
    """A graph that would take longer than one that is already there."""


class NoPlan(Exception):
    """A budget in which a planner has found no plan."""

    def __init__(self, planner: "Planner", smallest: int):
        super().__init__()
        self.planner = planner
        self.smallest = smallest  # bytes of the budget that may work


class Planner:
    """Makes the graphs of one Dynamo graph. AOTAutograd calls `partition`."""

    def __init__(self, region: "Region", kernels: str, most_seconds: float = float("inf")):
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
        self.headroom = 0  # bytes left to a loss of unknown size, beside its gradient, or to the next batch
        self.batch_headroom = 0  # of these, to the next batch
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
            raise TooSlow
        outside = self._outside(captured, has_slab)
        if self.is_shared:
            captured = self._captured(joint, forward_count, link, has_slab)
        answer, order, written, self.places = self._searched_with_headroom(joint, captured, outside, has_slab)
        outside += self.headroom
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
            return first.plan.outside_bytes - first.headroom
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

    def _searched_with_headroom(self, joint: torch.fx.GraphModule, captured: _capture.Captured, outside: int, has_slab: bool) -> Any:
        """Returns what `_searched` does, with the headroom that is wanted if there is a schedule beside it."""
        self._problem = joint, captured, outside, has_slab
        room = self.options.budget - outside
        wanted = min(self._wanted_headroom(captured, room), room - self.least)
        if has_slab and wanted > 0:
            found = self._searched(joint, captured, room - wanted, has_slab)
            self.headroom = min(wanted, room - found[3].height) if found is not None else 0
            self.batch_headroom = 0 if self._may_have_loss(captured) else self.headroom
            if self.headroom > 0:  # as much as the addresses leave
                self.excess = 0
                return found
        self.headroom = self.batch_headroom = 0
        found = self._searched(joint, captured, room, has_slab)
        if found is None:
            raise NoPlan(self, outside + max(room, self.least))
        return found

    def _wanted_headroom(self, captured: _capture.Captured, room: int) -> int:
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
        return is_first and captured.tangent_bytes > SMALL

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
            memory = max(self.least, memory - int((places.height - room) * 1.02) - UNIT)
        self.excess = best[3].height - room if best is not None and best[3].used > room * TOO_HIGH else 0
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
