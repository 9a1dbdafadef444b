# SPDX-License-Identifier: Apache-2.0
"""Runs the stages of a model by modes, within a budget. The first step of each shape is measured."""
import contextlib
import dataclasses
import functools
import time
import types
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from .._torch_compile import _options, _private
from .._torch_compile._link import link_rate
from ._chain import AGAIN, AGAIN_FROM_HOST, SEND, Chain, Phase, Prediction, Stage, changes, least, predict, search
from ._copies import Bundle, Streams, addresses_of, bytes_of, bytes_of_all

__all__ = ["Prediction", "Training", "stages_of"]

_STAGES = "stages are the modules in its lists and sequences of two or more, or else its children"
_MOST_CORRECTIONS = 4  # of a prediction, by steps with a plan


def stages_of(model: nn.Module) -> List[nn.Module]:
    """Returns the modules that are stages: the members of the outermost lists and sequences of two or more modules.

    A model without any has its children as stages, or those of the only model in it.
    """
    stages: List[nn.Module] = []

    def visit(module: nn.Module) -> None:
        for child in module.children():
            if isinstance(child, (nn.ModuleList, nn.Sequential)) and len(child) > 1:
                stages.extend(child)
            else:
                visit(child)

    if isinstance(model, (nn.ModuleList, nn.Sequential)):
        return list(model)
    visit(model)
    children = list(model.children())
    while len(children) == 1 and list(children[0].children()):  # as in DistributedDataParallel
        children = list(children[0].children())
    return stages or children


def _tensors(values: Any) -> List[torch.Tensor]:
    return [leaf for leaf in _private.tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _signature(values: Any) -> Tuple[Any, ...]:
    return tuple((tuple(tensor.size()), tensor.dtype) for tensor in _tensors(values))


_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def _copy(module: nn.Module, name: str, buffer: torch.Tensor) -> Optional[torch.Tensor]:
    """Returns a copy of a buffer for a second run. A batch norm that trains does not read its own."""
    if not module.training or type(module) not in _BATCH_NORMS:
        return buffer.clone()
    return torch.empty_like(buffer) if name != "num_batches_tracked" else None


@contextlib.contextmanager
def _own_buffers(module: nn.Module) -> Iterator[None]:
    """Lets a module change copies of its buffers: a second run must not count twice in running statistics."""
    kept = [(each, name, buffer) for each in module.modules() for name, buffer in each._buffers.items() if buffer is not None]
    for each, name, buffer in kept:
        each._buffers[name] = _copy(each, name, buffer)
    try:
        yield
    finally:
        for each, name, buffer in kept:
            each._buffers[name] = buffer


class _Wrapped:
    """The forward function of the model or of a stage within the context. Copies of the module, and those that
    pickles load, have their own one in its place."""

    def __init__(self, training: "Training", module: nn.Module, call: Callable[..., Any]):
        self.training = training
        self.module = module
        self.forward = module.forward
        self.call = call
        functools.update_wrapper(self, self.forward)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.call(self.module, self.forward, arguments, keywords)

    def __reduce__(self) -> Tuple[Any, ...]:
        return getattr, (self.module, "forward")


def _is_replaced(module: nn.Module) -> bool:
    """Returns whether the forward function of a module was replaced. A copy from within a context has that of its class as its own."""
    forward = module.__dict__.get("forward")
    return forward is not None and forward != types.MethodType(type(module).forward, module)


class _Repeatable:
    """The forward function of a stage for torch.utils.checkpoint, which calls it again."""

    def __init__(self, module: nn.Module, forward: Callable[..., Any]):
        self.module = module
        self.forward = forward
        self.has_run = False

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        with _own_buffers(self.module) if self.has_run else contextlib.nullcontext():
            self.has_run = True
            return self.forward(*arguments, **keywords)


# Measuring ------------------------------------------------------------------------------------------


class _Clock:
    """Times and memory of a device between two calls."""

    def __init__(self, device: torch.device):
        self.is_cuda = device.type == "cuda"
        self.device = device

    def now(self) -> Any:
        if not self.is_cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.device))
        return event

    def seconds(self, begin: Any, end: Any) -> float:
        if not self.is_cuda:
            return end - begin
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3

    def live(self) -> int:
        return torch.cuda.memory_allocated(self.device) if self.is_cuda else 0

    def peak(self) -> int:
        return torch.cuda.max_memory_allocated(self.device) if self.is_cuda else 0

    def reset(self) -> None:
        if self.is_cuda:
            torch.cuda.reset_peak_memory_stats(self.device)


class _Measure:
    """The phases of one step."""

    def __init__(self, clock: _Clock, gradient_bytes: Callable[[], int]):
        self.clock = clock
        self.gradient_bytes = gradient_bytes  # that exist now
        self.gradients = gradient_bytes()  # that existed at the start
        self.begin = clock.live()
        self.phases: List[Tuple[str, int, int, Any, Any, int]] = []  # kind, stage, peak, begin, end, gradients that came before
        self.stages: Dict[int, Tuple[Bundle, int]] = {}  # bundle, bytes of inputs
        self.saved: Dict[int, List[Any]] = {}  # by stage: when it saved each tensor for its backward pass
        self.two_nows = clock.now(), clock.now()
        self.open: Optional[Tuple[str, int, int, Any]] = None
        self.is_whole = False
        self.enter("other", -1)

    def enter(self, kind: str, stage: int) -> None:
        self.close()
        self.clock.reset()
        self.open = (kind, stage, self.gradient_bytes() - self.gradients, self.clock.now())

    def close(self) -> None:
        if self.open is not None:
            kind, stage, gradients, begin = self.open
            self.phases.append((kind, stage, self.clock.peak() - self.begin, begin, self.clock.now(), gradients))
            self.open = None

    def timed(self, stage: int, pack: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
        """Returns the hook `pack`, which notes when the stage saves a tensor."""

        def timed_pack(tensor: torch.Tensor) -> Any:
            self.saved.setdefault(stage, []).append(self.clock.now())
            return pack(tensor)

        return timed_pack

    def chain(self, count: int, link: float) -> Chain:
        of_now = self.clock.seconds(*self.two_nows)  # an event takes time of its own
        phases, again = [], {}
        for kind, stage, peak, begin, end, gradients in self.phases:
            nows = self.saved.get(stage, []) if kind == "forward" else []
            if kind == "forward":
                # The checkpoint ends a second run with its last saved tensor.
                again[stage] = max(0.0, self.clock.seconds(begin, nows[-1]) - len(nows) * of_now) if nows else 0.0
            phases.append(Phase(kind, stage, peak, max(0.0, self.clock.seconds(begin, end) - len(nows) * of_now), gradients))
        stages = [Stage(self.stages[i][0].bytes(), self.stages[i][1], again[i]) for i in range(count)]
        return Chain(stages, phases, link)


@dataclasses.dataclass
class _Plan:
    """The measured chain and the modes of the steps of one shape."""

    stages: Tuple[Any, ...] = ()  # the modules that ran, in order
    chain: Optional[Chain] = None
    modes: List[str] = dataclasses.field(default_factory=list)
    gradients: int = 0  # bytes that existed when the step was measured
    correction: int = 0  # bytes by which steps took more than predicted
    corrections: int = 0
    base: int = 0  # bytes at the start of the step, in the plan
    prediction: Optional[Prediction] = None  # of the step with the most bytes at its start
    expected: int = 0  # bytes of the step that runs
    is_stale: bool = False  # whether a step took another amount than predicted
    fastest: Optional[Tuple[List[str], Prediction]] = None  # modes of a step that kept to the budget


class _Step:
    """One forward pass of the model, and its backward pass."""

    def __init__(self, training: "Training", plan: _Plan, measure: Optional[_Measure]):
        self.training = training
        self.plan = plan
        self.measure = measure
        self.bundles: List[Optional[Bundle]] = []
        self.modules: List[nn.Module] = []
        self.pending: Dict[int, Bundle] = {}  # stages that have sent data, which is not free yet
        self.is_in_backward = False

    # Forward ----------------------------------------------------------------------------------------

    def mode(self, number: int, module: nn.Module) -> str:
        if self.measure is not None:
            return SEND
        is_known = number < len(self.plan.modes) and self.plan.stages[number] is module
        return self.plan.modes[number] if is_known else changes(self.training.rate)[-1]

    def run(self, module: nn.Module, forward: Callable[..., Any], arguments: Any, keywords: Any) -> Any:
        number = len(self.bundles)
        mode = self.mode(number, module)
        self.modules.append(module)
        self.bundles.append(None)
        self._release(number - 2)
        bundle = None
        if mode in (SEND, AGAIN_FROM_HOST):
            # fully_shard gathers the parameters of a stage just before it.
            bundle = Bundle(self.training.streams, self.training.stays | addresses_of(module))
        self.bundles[number] = bundle
        if self.measure is not None:
            self.measure.stages[number] = (bundle, sum(map(bytes_of, _tensors((arguments, keywords)))))
            self.measure.enter("forward", number)
        hooks = contextlib.nullcontext()
        if bundle is not None:
            pack = bundle.pack if self.measure is None else self.measure.timed(number, bundle.pack)
            hooks = saved_tensors_hooks(pack, bundle.unpack)
        with hooks:
            if mode in (AGAIN, AGAIN_FROM_HOST):
                results = checkpoint(_Repeatable(module, forward), *arguments, use_reentrant=False, **keywords)
            else:
                results = forward(*arguments, **keywords)
        if bundle is not None:
            self.pending[number] = bundle
        if self.measure is not None:
            self.measure.close()
            self._release(number)
            self.measure.enter("other", -1)
        for tensor in _tensors(results):
            if tensor.requires_grad and not tensor.is_leaf:
                tensor.register_hook(lambda _, number=number: self.begin_backward(number))
        return results

    def _release(self, last: int) -> None:
        """Frees the data on the device of stages up to `last` that were sent."""
        for number in [each for each in self.pending if each <= last]:
            self.pending.pop(number).release()

    # Backward ---------------------------------------------------------------------------------------

    def begin_backward(self, number: int) -> None:
        """Called when the gradient of a stage's result is there."""
        if not self.is_in_backward:
            self.is_in_backward = True
            _private.at_end_of_backward(self.end_backward)
        self._release(len(self.bundles))
        if self.measure is None:
            for each in (number, number - 1):
                self._fetch(each)
            return
        self.measure.close()
        self._fetch(number)
        if self.bundles[number] is not None:
            self.bundles[number].arrive()
        self.measure.enter("backward", number)

    def _fetch(self, number: int) -> None:
        if 0 <= number < len(self.bundles) and self.bundles[number] is not None:
            self.bundles[number].fetch()
            if self.measure is None:
                self.bundles[number] = None  # once; the tensors of the graph hold it

    def end_backward(self) -> None:
        self.is_in_backward = False
        if self.measure is not None:
            self.measure.close()
            self.measure.is_whole = True
        self.training.end_backward(self)


# The context ----------------------------------------------------------------------------------------


class Training:
    """Training of a model within a budget, by `with tidepool.torch.offload(model, budget=...) as training`.

    Not thread-safe: one thread calls the model.
    """

    def __init__(self, model: nn.Module, budget: int, link: Optional[float]):
        self.model = model
        self.budget = budget
        self.link = link
        self._stages = stages_of(model)
        self._plans: Dict[Any, _Plan] = {}
        self._plan: Optional[_Plan] = None  # of the last step
        self._step: Optional[_Step] = None  # whose forward pass runs
        self._measured: Optional[Tuple[_Plan, _Step]] = None
        self._watched: Optional[_Plan] = None  # whose peak counts from the start of its step
        self._has_warned = False

    # Plans -------------------------------------------------------------------------------

    @property
    def prediction(self) -> Optional[Prediction]:
        """The memory and the time of the last step's plan; None before the second step."""
        return self._plan.prediction if self._plan is not None else None

    @property
    def modes(self) -> List[Tuple[str, str]]:
        """The name of each stage and its mode: "keep", "send", "again", or "again from host"."""
        if self._plan is None:
            return []
        names = {module: name for name, module in self.model.named_modules()}
        return [(names[module], mode) for module, mode in zip(self._plan.stages, self._plan.modes)]

    # Begin and end ----------------------------------------------------------------------------------

    def __enter__(self) -> "Training":
        tensors = [*self.model.parameters(), *self.model.buffers()]
        if not tensors:
            raise ValueError("tidepool: the model has no parameters")
        devices = {tensor.device for tensor in tensors}
        if len(devices) > 1:
            raise ValueError(f"tidepool: the model is on several devices ({', '.join(sorted(map(str, devices)))}): move it to one")
        self.device = next(iter(devices))
        if not self._stages:
            raise ValueError(f"tidepool: the model has no stages: {_STAGES}")
        if _is_replaced(self.model):
            raise RuntimeError("tidepool: the model's forward is replaced already, by another offload() or another library")
        _private.watch_saved_tensors_hooks()
        self.streams = Streams(self.device)
        self.clock = _Clock(self.device)
        self.rate = link_rate(self.device) if self.link is None else self.link
        self._wrap(self.model, self._begin)
        for stage in self._stages:
            if not _is_replaced(stage):
                self._wrap(stage, self._run_stage)
        return self

    def __exit__(self, *exception: Any) -> None:
        for module in [self.model, *self._stages]:
            forward = module.__dict__.get("forward")
            if isinstance(forward, _Wrapped) and forward.training is self:
                del module.forward
        self.streams.join()
        self._step = self._measured = None

    def _wrap(self, module: nn.Module, call: Callable[..., Any]) -> None:
        module.forward = _Wrapped(self, module, call)  # type: ignore[method-assign]

    # Steps ------------------------------------------------------------------------------------------

    def _begin(self, module: nn.Module, forward: Callable[..., Any], arguments: Any, keywords: Any) -> Any:
        if not torch.is_grad_enabled() or self._step is not None:
            return forward(*arguments, **keywords)
        _options.refuse_capture(self.device.type)
        # After an error in the last step, its copies still use memory that is free.
        self.streams.join()
        self.stays = addresses_of(self.model)
        plan = self._plan = self._plans.setdefault((_signature((arguments, keywords)), *self._state()), _Plan())
        measure = None
        self._finish_measure()
        if plan.chain is None:
            measure = _Measure(self.clock, self._gradient_bytes)
        else:
            self._fit(plan)
        step = self._step = _Step(self, plan, measure)
        if measure is not None:
            self._measured = plan, step
        try:
            results = forward(*arguments, **keywords)
        finally:
            self._step = None
        if not step.modules and not self._has_warned and any(tensor.requires_grad for tensor in _tensors(results)):
            self._has_warned = True
            warnings.warn(f"tidepool: no stage of the model ran, so the model is not kept within its budget: {_STAGES}", RuntimeWarning, stacklevel=2)
        return results

    def _state(self) -> Tuple[Any, ...]:
        """Returns the settings of a step that decide, beside its inputs, which data the stages save."""
        autocast = torch.is_autocast_enabled(self.device.type) and torch.get_autocast_dtype(self.device.type)
        return self.model.training, autocast, tuple(parameter.requires_grad for parameter in self.model.parameters())

    def _run_stage(self, module: nn.Module, forward: Callable[..., Any], arguments: Any, keywords: Any) -> Any:
        if self._step is None or not torch.is_grad_enabled() or _private.has_saved_tensors_hooks():  # of others, such as a checkpoint around the stage
            return forward(*arguments, **keywords)
        return self._step.run(module, forward, arguments, keywords)

    def _gradient_bytes(self) -> int:
        return bytes_of_all(parameter.grad for parameter in self.model.parameters() if parameter.grad is not None)

    def _finish_measure(self) -> None:
        """Takes the figures of a measured step, if its backward pass came to its end."""
        measured, self._measured = self._measured, None
        if measured is None or not measured[1].measure.is_whole:
            return
        plan, step = measured
        plan.stages = tuple(step.modules)
        plan.chain = step.measure.chain(len(step.modules), self.rate)
        plan.gradients = step.measure.gradients

    # Search -----------------------------------------------------------------------------------------

    def _start(self, plan: _Plan) -> Tuple[int, Chain]:
        """Returns the bytes at the start of a step, with no fewer gradients than the measured step had then, and its chain."""
        if self.device.type != "cuda":
            return bytes_of_all((*self.model.parameters(), *self.model.buffers())), plan.chain
        more = self._gradient_bytes() - plan.gradients
        return self.clock.live() + max(0, -more), plan.chain.with_gradients(max(0, more))

    def _fit(self, plan: _Plan) -> None:
        """Finds modes for the memory that there is, when that is less than in the plan."""
        base, chain = self._start(plan)
        if base > plan.base:
            plan.fastest = None
        if plan.prediction is None or plan.is_stale or base > plan.base:
            self._search(plan, base, chain)
        is_planned = base >= plan.base - plan.base // 100  # not the first of several micro-batches, which has more room
        if self.device.type == "cuda" and is_planned and plan.corrections < _MOST_CORRECTIONS:
            plan.expected = predict(chain, plan.modes).peak_bytes + base + plan.correction
            self.clock.reset()
            self._watched = plan

    def _search(self, plan: _Plan, base: int, chain: Chain) -> None:
        memory = self.budget - base - plan.correction
        modes = search(chain, memory)
        if modes is None:
            smallest = predict(chain, least(chain)).peak_bytes + base + plan.correction
            size = _options.size_text
            raise _options.BudgetError(
                f"tidepool: a budget of {size(self.budget)} ({self.budget} bytes) is too small. The smallest that works is "
                f"{size(smallest)} ({smallest} bytes), of which {size(base)} are there at the start of a step", smallest)
        plan.modes, plan.base = modes, base
        peak, seconds = predict(chain, modes)
        plan.prediction = Prediction(peak + base + plan.correction, seconds)
        plan.is_stale = False

    def end_backward(self, step: _Step) -> None:
        """Corrects the prediction by the peak of a step."""
        plan, self._watched = self._watched, None
        if plan is None or step.plan is not plan:
            return
        off = self.clock.peak() - plan.expected
        plan.corrections += 1
        if abs(off) > plan.expected // 200:
            plan.correction += off
            plan.prediction = plan.prediction._replace(peak_bytes=plan.prediction.peak_bytes + off)
            plan.is_stale = True
        is_within = plan.prediction.peak_bytes <= self.budget
        if is_within and (plan.fastest is None or plan.prediction.seconds < plan.fastest[1].seconds):
            plan.fastest = plan.modes, plan.prediction
        if plan.corrections == _MOST_CORRECTIONS and plan.fastest is not None:
            plan.modes, plan.prediction = plan.fastest
            plan.is_stale = False


def offload(model: nn.Module, budget: Any, link: Any = None) -> Training:
    """Returns the context of tidepool.torch.offload()."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"tidepool: offload() takes a torch.nn.Module, not {type(model).__name__}")
    options = _options.check({"budget": budget, **({} if link is None else {"link": link})})
    return Training(model, options.budget, options.link)
