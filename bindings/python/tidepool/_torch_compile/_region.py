# SPDX-License-Identifier: Apache-2.0
"""One graph of a program: decides before each step whether its plan still fits."""
import weakref
from typing import Any, List, Optional, Sequence

import torch

from . import _cuda_graphs, _operators, _optimizers, _options, _slab
from ._compiled import WARM_UP, compile_region
from ._jobs import Job, Nest, jobs, keys_of_copies
from ._outside import Outside, allocated, reserved, warn_of_loss, warn_of_outside
from ._plans import Plan
from ._planner import SMALL, TOO_HIGH

__all__ = ["Region"]

_OFTEN = 4  # calls within which memory that comes again belongs to the steps


class Region:
    """One graph of the program, and the plan for the memory that the program has had beside it."""

    def __init__(self, module: torch.fx.GraphModule, inputs: Any, options: _options.Options):
        self.module = module
        self.options = options
        self.outside = Outside()
        self.batch_bytes = sum(one.numel() * one.element_size() for one in inputs if _is_of_batch(one))
        self.keeps_gradients = False  # whether gradients are there when a step begins
        self.nest: Optional[Nest] = None
        self.number = 0  # in the nest
        self.planned_at = 0  # the call before the plan
        self._twin: Optional[Region] = None
        self.calls = 0
        self.results: "List[weakref.ref[torch.Tensor]]" = []  # of the last call
        self.has_warned = False  # of memory beyond the budget
        self.emptied_at = 0  # the last call that gave PyTorch's cache back
        _optimizers.watch()
        _cuda_graphs.watch(keys_of_copies)
        self.first_step = _optimizers.steps()
        self.job = jobs.setdefault(options.budget, Job(options.budget))
        self.compiled = compile_region(self, inputs)
        self.job.add(self)

    def has_stepped(self) -> bool:
        """Returns whether an optimizer has made a step since the first call."""
        return _optimizers.steps() > self.first_step

    def twin(self, arguments: Any) -> "Region":
        """Returns the same graph, with a plan of its own."""
        if self._twin is None:
            self._twin = Region(self.module, list(arguments), self.options)
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
            self.outside.most = max(self.outside.most, allocated(watch.device))
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
        if not self.job.open and not self.keeps_gradients and planner.gradient_bytes > SMALL:
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
        plan, loss, outside = planner.plan, self.outside.loss or 0, max(reserved(device), self.outside.reserved)
        self.outside.reserved = 0
        taken = planner.slab_taken + outside
        if taken <= plan.budget * TOO_HIGH:
            return False
        self.has_warned = True
        expected = planner.headroom + planner.tangent_bytes
        if loss <= expected or self.job.is_divided:
            warn_of_outside(plan, taken, outside)
            return False
        torch.cuda.empty_cache()
        warn_of_loss(plan, taken, loss, expected, reserved(device) + loss + max(loss, plan.slab_bytes))
        return True

    def _is_more_reserved(self, plan: Plan, device: torch.device) -> bool:
        most = plan.outside_bytes + plan.budget // 100
        if self.nest is not None and not self.is_measured():
            return False
        earlier = self.outside.most if self.keeps_gradients and self.nest is None else 0  # gradients come and go
        self.outside.most = max(earlier, reserved(device))
        if self.nest is None and self.outside.most > most and self.calls - self.emptied_at > _OFTEN:
            # An evaluation may have left it. Memory that each step takes is here again soon.
            self.emptied_at = self.calls
            torch.cuda.empty_cache()
            self.outside.most = max(earlier, reserved(device))
        is_known = self.has_stepped() and (self.nest is not None or not self.keeps_gradients)
        unused = plan.budget // 30
        if self.compiled.planner.batch_headroom:  # a step has told whether the program makes new batches
            unused = min(unused, self.compiled.planner.batch_headroom // 2)
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
        is_grown = reserved(planner.device) > planner.plan.outside_bytes + planner.plan.budget // 100
        return planner.nest is self.nest and self.calls > 1 and (self.calls > self.planned_at or not is_grown)

    def _run_captured(self, arguments: Any) -> Any:
        """Runs the step as it was planned. In a capture nothing is planned, measured or waited for."""
        planner, check = self.compiled.planner, _cuda_graphs.check
        is_first = planner.nest is None or not self.number
        check(self._is_settled(), f"step {self.calls + 1} is to be planned again. {WARM_UP}")
        figures = _slab.figures_of(planner.device)
        needed = max(offset + size for passes in (planner.places.forward, planner.places.backward) for size, offset in zip(*passes))
        check(figures.bytes >= needed, f"the last step had other shapes, or another graph holds memory for such: {figures.bytes} bytes, expected at "
              f"least {needed}. Run a step of these shapes before the capture, and capture the largest shapes first")
        check(not is_first or bool(self.job.open) or 2 * figures.live_bytes <= max(planner.gradient_bytes, 2 * SMALL), "tensors of an earlier step hold "
              f"{figures.live_bytes} bytes of its memory. Call optimizer.zero_grad(set_to_none=True) before the capture, and delete its results")
        return self.compiled.call(*arguments)

    def _run(self, arguments: Any) -> Any:
        self.calls += 1
        if self._is_outgrown():
            self._empty_slab(arguments)
            if self.nest is not None and self.nest is self.compiled.planner.nest:
                Nest(self.nest.regions())  # all of them are planned again
            self.compiled = compile_region(self, list(arguments))
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
