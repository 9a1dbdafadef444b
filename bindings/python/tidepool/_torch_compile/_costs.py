# SPDX-License-Identifier: Apache-2.0
"""Times and workspaces of operators.

On a GPU each operator runs on empty tensors, once for each shape; elsewhere the times are assumed.
"""
import functools
import warnings
from typing import NamedTuple, Optional

import torch
from torch import fx

from . import _private, _slab

__all__ = ["Costs", "Request", "costs_of", "forget", "requests_of_results", "round_up", "tensors_of"]

# Assumed for tensors of the CPU, which play the part of a GPU.
_OPERATIONS_PER_SECOND = 400e12
_BYTES_PER_SECOND = 2.5e12
_LAUNCH_SECONDS = 5e-6

_BLOCK = 512  # bytes to which PyTorch's allocator rounds requests


def round_up(size):
    """Returns the bytes that a tensor of `size` bytes takes."""
    return max(-(-size // _BLOCK) * _BLOCK, _BLOCK)


def tensors_of(value):
    """Returns the tensors in a value of a node, which may be a tuple or nothing."""
    return [leaf for leaf in _private.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _values(node):
    """Returns the arguments of a node with the fake tensors in the place of nodes."""
    return fx.node.map_arg((node.args, node.kwargs), lambda argument: argument.meta["val"])


def assumed_seconds(node):
    """Returns the time of an operator by its operations and its bytes."""
    arguments, keywords = _values(node)
    result = node.meta["val"]
    moved = sum(t.numel() * t.element_size() for t in tensors_of((arguments, keywords, result)))
    operations = _private.flops_of(node.target, arguments, keywords, result)
    return max(operations / _OPERATIONS_PER_SECOND, moved / _BYTES_PER_SECOND) + _LAUNCH_SECONDS


def _signature(node):
    """Returns a key that operators of one kind on tensors of one shape share."""
    def describe(leaf):
        if isinstance(leaf, torch.Tensor):
            return (tuple(leaf.size()), tuple(leaf.stride()), leaf.dtype, str(leaf.device))
        return repr(leaf)

    arguments, keywords = _values(node)
    leaves, shape = _private.tree_flatten((arguments, _private.with_constants(node.target, keywords)))
    return (node.target, str(shape), tuple(describe(leaf) for leaf in leaves))


def _filled(leaf):
    """Returns a real tensor like a fake one. Zeros are right indices everywhere."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    elements = 1 + sum((size - 1) * stride for size, stride in zip(leaf.size(), leaf.stride())) if leaf.numel() else 0
    return torch.zeros(elements, dtype=leaf.dtype, device=leaf.device).as_strided(leaf.size(), leaf.stride())


class Request(NamedTuple):
    """A request for memory that an operator makes, or the free of one."""

    bytes: int  # 0 for a free
    request: int  # its number
    result: Optional[int]  # which of the operator's results it is for; None for a temporary one


class _Measured(NamedTuple):
    seconds: float
    taken: int  # bytes at the peak, results included
    requests: tuple  # of Request


def _taken(notes):
    """Returns the bytes at the peak of noted requests."""
    live = peak = 0
    sizes = {}
    for note in notes:
        sizes.setdefault(note.request, note.bytes)
        live += note.bytes or -sizes[note.request]
        peak = max(peak, live)
    return peak


def requests_of_results(node):
    """Returns the requests of an operator that makes its results alone, without those that are parts of its arguments."""
    given = {_private.storage_key(tensor) for one in node.all_input_nodes for tensor in tensors_of(one.meta.get("val"))}
    new = {}
    for i, tensor in enumerate(tensors_of(node.meta["val"])):
        new.setdefault(_private.storage_key(tensor), Request(round_up(tensor.untyped_storage().nbytes()), i, i))
    return tuple(request for key, request in new.items() if key not in given)


def _assumed(node, result_bytes, error):
    """Returns figures of an operator that cannot run alone, and warns of them."""
    seconds = assumed_seconds(node)
    warnings.warn(f"tidepool: the operator {node.name} ({node.target}) cannot run alone, on zeros: {str(error).partition(chr(10))[0]}. It is assumed to "
                  f"take {seconds * 1e6:.0f} us, and no memory besides its results; if it takes more, the step may exceed the budget. Expected an "
                  "operator that takes all tensors of its shapes", RuntimeWarning, stacklevel=2)
    return _Measured(seconds, result_bytes, requests_of_results(node))


class Costs:
    """The times, workspaces and requests of operators on one device, each measured once."""

    def __init__(self, device, with_requests=False):
        self._device = device
        self._with_requests = with_requests
        self._measured = {}

    def of(self, node, result_bytes):
        """Returns the seconds of a node and its workspace: the bytes beside its results while it runs."""
        if self._device.type != "cuda":
            return assumed_seconds(node), 0
        measured = self._measured_of(node, result_bytes)
        return measured.seconds, max(0, measured.taken - result_bytes)

    def requests_of(self, node):
        """Returns the requests that a node makes, in order; none where they are not known."""
        return self._measured_of(node, 0).requests

    def _measured_of(self, node, result_bytes):
        key = _signature(node)
        if key not in self._measured:
            self._measured[key] = self._measure(node, result_bytes)
        return self._measured[key]

    def _measure(self, node, result_bytes):
        try:
            with _private.real_tensors(), torch.no_grad(), torch.random.fork_rng([self._device.index]), \
                    torch.autocast("cuda", enabled=False):
                return self._run(node)
        except Exception as error:
            return _assumed(node, result_bytes, error)

    def _run(self, node):
        """Runs a node's operator on zeros. The first run pays for handles, plans and their memory."""
        torch.cuda.empty_cache()  # else blocks of all shapes would pile up beyond the budget
        arguments, keywords = fx.node.map_arg((node.args, node.kwargs), lambda argument: _filled(argument.meta["val"]))

        def run():
            return node.target(*arguments, **keywords)

        before = torch.cuda.memory_allocated(self._device)
        run()
        if torch.cuda.memory_allocated(self._device) > before:
            _in_backward(run, self._device)  # libraries keep memory for each thread that calls them
        before = torch.cuda.memory_allocated(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        seconds = begin.elapsed_time(end) * 1e-3
        if not self._with_requests:
            return _Measured(seconds, torch.cuda.max_memory_allocated(self._device) - before, ())
        result, notes = _slab.noted(run)
        return _Measured(seconds, _taken(notes), _requests(notes, result))


def _in_backward(run, device):
    """Runs an operator once more, in the thread that runs backward passes on a device, on the current stream."""
    def hook(_):
        run()

    with torch.enable_grad(), torch.autograd.set_multithreading_enabled(True):  # tracing disables it
        x = torch.zeros((), device=device, requires_grad=True).clone()
        x.register_hook(hook)
        x.backward()


def _requests(notes, result):
    """Returns noted requests with the results that they are for."""
    addresses = {tensor.untyped_storage().data_ptr(): i for i, tensor in reversed(list(enumerate(tensors_of(result))))}
    freed = {note.request for note in notes if not note.bytes}
    return tuple(Request(note.bytes, note.request, None if note.request in freed else addresses.get(note.address))
                 for note in notes)


def costs_of(device, with_requests=False):
    """Returns the costs of a device, which all plans of the process share. The requests need a slab.

    Libraries keep memory for each stream, so operators are measured on each stream with plans.
    """
    return _costs_on(device, torch.cuda.current_stream(device) if device.type == "cuda" else None, with_requests)


def forget():
    """Lets operators be measured again, since libraries have given their memory back."""
    _costs_on.cache_clear()


@functools.lru_cache(maxsize=None)
def _costs_on(device, stream, with_requests):
    return Costs(device, with_requests)
