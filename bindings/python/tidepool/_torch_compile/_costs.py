# SPDX-License-Identifier: Apache-2.0
"""Times and workspaces of operators, and the rate of the link.

On a GPU each operator runs on empty tensors, once for each shape; elsewhere the times are assumed.
"""
import functools

import torch
from torch import fx
from torch.utils._pytree import tree_flatten

from . import _private

__all__ = ["Costs", "link_rate", "round_up", "tensors_of"]

# Assumed for tensors of the CPU, which play the part of a GPU.
_OPERATIONS_PER_SECOND = 400e12
_BYTES_PER_SECOND = 2.5e12
_LAUNCH_SECONDS = 5e-6
_LINK_BYTES_PER_SECOND = 50e9

_BLOCK = 512  # bytes to which PyTorch's allocator rounds requests


def round_up(size):
    """Returns the bytes that a tensor of `size` bytes takes."""
    return max(-(-size // _BLOCK) * _BLOCK, _BLOCK)


def tensors_of(value):
    """Returns the tensors in a value of a node, which may be a tuple or nothing."""
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


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

    leaves, shape = tree_flatten(_values(node))
    return (node.target, str(shape), tuple(describe(leaf) for leaf in leaves))


def _filled(leaf):
    """Returns a real tensor like a fake one. Zeros are right indices everywhere."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    elements = 1 + sum((size - 1) * stride for size, stride in zip(leaf.size(), leaf.stride())) if leaf.numel() else 0
    return torch.zeros(elements, dtype=leaf.dtype, device=leaf.device).as_strided(leaf.size(), leaf.stride())


class Costs:
    """The times and workspaces of operators on one device, each measured once."""

    def __init__(self, device):
        self._device = device
        self._measured = {}
        self.failures = []  # operators that could not run alone, for which the time is assumed

    def of(self, node, result_bytes):
        """Returns the seconds of a node and its workspace: the bytes beside its results while it runs."""
        if self._device.type != "cuda":
            return assumed_seconds(node), 0
        key = _signature(node)
        if key not in self._measured:
            self._measured[key] = self._measure(node, result_bytes)
        seconds, taken = self._measured[key]
        return seconds, max(0, taken - result_bytes)

    def _measure(self, node, result_bytes):
        try:
            with _private.real_tensors(), torch.no_grad(), torch.random.fork_rng([self._device.index]), \
                    torch.autocast("cuda", enabled=False):
                return self._run(node)
        except Exception as error:
            self.failures.append(f"{node.name}: {error}")
            return assumed_seconds(node), result_bytes

    def _run(self, node):
        """Runs a node's operator twice on zeros. The first run pays for handles, plans and their memory."""
        arguments, keywords = fx.node.map_arg((node.args, node.kwargs), lambda argument: _filled(argument.meta["val"]))
        node.target(*arguments, **keywords)
        before = torch.cuda.memory_allocated(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        node.target(*arguments, **keywords)
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3, torch.cuda.max_memory_allocated(self._device) - before


@functools.lru_cache(maxsize=None)
def costs_of(device):
    """Returns the costs of a device, which all plans of the process share."""
    return Costs(device)


@functools.lru_cache(maxsize=None)
def link_rate(device):
    """Returns the bytes a second of the slower direction between a device and pinned memory."""
    if device.type != "cuda":
        return _LINK_BYTES_PER_SECOND
    size = 32 << 20
    with _private.real_tensors():
        here = torch.empty(size, dtype=torch.uint8, device=device)
        host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        return size / max(_copy_seconds(host, here), _copy_seconds(here, host))


def _copy_seconds(target, source):
    """Returns the time of the second of two copies."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    target.copy_(source, non_blocking=True)
    begin.record()
    target.copy_(source, non_blocking=True)
    end.record()
    end.synchronize()
    return max(begin.elapsed_time(end) * 1e-3, 1e-9)
