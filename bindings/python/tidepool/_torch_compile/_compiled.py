# SPDX-License-Identifier: Apache-2.0
"""Compiles the two passes of a plan, with the kernels that serve the budget best, and runs them in the slab."""
import contextlib
import warnings
from typing import TYPE_CHECKING, Any, Callable, ContextManager, List, Optional, Tuple, Union

import torch

from . import _cuda_graphs, _fuse, _operators, _options, _private, _slab
from ._options import BudgetError
from ._outside import Watch
from ._planner import NoPlan, Planner, TooSlow

if TYPE_CHECKING:
    from ._region import Region

__all__ = ["WARM_UP", "Compiled", "compile_region"]

_TIGHT = 1.1  # times the time with memory enough, above which PyTorch's own kernels may be as fast as fused ones
_CUDA = torch.device("cuda")
WARM_UP = ("Run 3 steps outside of the capture first, or 6 of a program with graph breaks, such as by num_warmup_iters of "
           "make_graphed_callables()")


class Compiled:
    """The two graphs of one plan."""

    def __init__(self, region: "Region", inputs: Any, planner: Planner):
        self.planner = planner
        self._watch: Optional[Watch] = None
        self.call = _private.compile_joint(
            region.module, inputs, partition=self.planner.partition, compile_forward=self._forward,
            compile_backward=self._backward, compile_inference=self._inference,
            taken_apart=_fuse.TAKEN_APART if planner.is_fused else ())
        self.between = region.outside.between  # in the plan

    def watch(self) -> Optional[Watch]:
        """Returns the watch of the passes; None where there is no plan, or no count of the device's memory."""
        plan, device = self.planner.plan, self.planner.device
        if self._watch is None and plan is not None and not plan.slab_bytes and device is not None and device.type == "cuda":
            self._watch = Watch(plan, device, self.planner.outside, self.planner.job)
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


def compile_region(region: "Region", inputs: Any) -> Compiled:
    """Returns the graphs of a plan with the kernels that the program asks for, or with PyTorch's own where those of Inductor do not keep the
    budget, or take longer there."""
    _cuda_graphs.check(not _cuda_graphs.is_captured(_CUDA), f"its graph of operators is not planned yet. {WARM_UP}")
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
        raise refusal.planner.refusal() if isinstance(refusal, NoPlan) else refusal or AssertionError("a graph without a plan has a reason")
    compiled.planner.accept()
    return compiled


def _may_be_bettered(fused: Optional[Compiled]) -> bool:
    """Returns whether PyTorch's own kernels may keep a budget that fused ones do not keep, or be faster there."""
    if fused is None:
        return True
    planner = fused.planner
    return planner.plan is not None and (planner.excess > 0 or planner.plan.overhead > _TIGHT)


def _rank(compiled: Optional[Compiled]) -> Tuple[int, float]:
    """Returns numbers that are less for a better plan: 0 if it keeps the budget, and its seconds."""
    if compiled is None:
        return 2, float("inf")
    planner = compiled.planner
    return int(planner.plan is None or planner.excess > 0), planner.plan.seconds if planner.plan is not None else float("inf")


def _compiled_or_refused(region: "Region", inputs: Any, kernels: str,
                         most_seconds: float = float("inf")) -> "Tuple[Optional[Compiled], Union[NoPlan, BudgetError, None]]":
    """Returns the graphs of a plan, or None and the reason. None and no reason: it would take `most_seconds` at least.

    Addresses that exceed the budget are no reason where graphs share it, since their next plans may fit.
    """
    try:
        compiled = Compiled(region, inputs, Planner(region, kernels, most_seconds))
    except (BudgetError, NoPlan) as error:
        return None, error
    except TooSlow:
        return None, None
    is_refused = compiled.planner.excess > 0 and compiled.planner.nest is None
    return (None, NoPlan(compiled.planner, region.options.budget + compiled.planner.excess)) if is_refused else (compiled, None)


def _warn_of_eager_kernels(region: "Region") -> None:
    operators = sum(node.op.startswith("call") for node in region.module.graph.nodes)
    warnings.warn(f"tidepool: PyTorch's own kernels run in the place of Inductor's for a graph of {operators} operators in a budget of "
                  f"{_options.size_text(region.options.budget)}, which fused ones do not keep, or in which they take longer", RuntimeWarning, stacklevel=2)


class _SlabRun:
    """Runs the passes of a plan in the slab of its device."""

    def __init__(self, planner: Planner):
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
