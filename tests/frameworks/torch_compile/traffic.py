# SPDX-License-Identifier: Apache-2.0
"""The memory that the operators of a step read and write, to compare a step in a CUDA graph with one outside of it.

Under a dry run kernels compute nothing. A step has the right values if its operators are those of a right one, in their order, and if each reads
results of the same ones.
"""
import contextlib
import ctypes
import unittest.mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tidepool._torch_compile import _slab


def _ranges(values):
    """Returns the memory of tensors as (begin, end), each once."""
    storages = [value.untyped_storage() for value in tree_leaves(values) if isinstance(value, torch.Tensor)]
    return list(dict.fromkeys((one.data_ptr(), one.data_ptr() + one.nbytes()) for one in storages if one.nbytes()))


class Traffic(TorchDispatchMode):
    """Notes operators as (name, memory that they read, memory that they write): those that run, and those that are captured."""

    def __init__(self):
        super().__init__()
        self.operators, self.captured = [], []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        reads = _ranges((args, kwargs))
        changed = [value for value, one in zip(args, function._schema.arguments) if one.alias_info is not None and one.alias_info.is_write]
        writes = [one for one in _ranges(result) if one not in reads] + _ranges(changed)
        (self.captured if torch.cuda.is_current_stream_capturing() else self.operators).append((str(function), reads, writes))
        return result


@contextlib.contextmanager
def noted():
    """Notes the operators of passes in the slab, which are not those of the optimizer and of the program."""
    traffic, followed = Traffic(), _slab.Pass.followed

    @contextlib.contextmanager
    def followed_and_noted(planned, device):
        with followed(planned, device), traffic:
            yield

    with unittest.mock.patch.object(_slab.Pass, "followed", followed_and_noted):
        yield traffic


def sources(operators, rounds=1):
    """Returns for each round the operators, with those that wrote the memory that they read, as (rounds ago, number)."""
    written, found = [], []  # (begin, end, round, number)
    for turn in range(rounds):
        found.append([])
        for number, (name, reads, writes) in enumerate(operators):
            found[-1].append((name, [sorted((turn - at, writer) for begin, end, at, writer in written if begin < last and first < end)
                                     for first, last in reads]))
            for first, last in writes:
                rest = [(begin, min(end, first), at, writer) for begin, end, at, writer in written if begin < first]
                rest += [(max(begin, last), end, at, writer) for begin, end, at, writer in written if end > last]
                written = [one for one in rest if one[0] < one[1]] + [(first, last, turn, number)]
    return found


# The stand-in ---------------------------------------------------------------------------------------

# PyTorch 2.15 itself waits for a stream before the first random numbers of a capture.
_WAITS = ("cudaDeviceSynchronize", "cudaEventSynchronize", "cudaEventQuery", "cudaHostAlloc", "cudaMallocHost")


def _runtime():
    runtime = ctypes.CDLL("libcudart.so.13")
    runtime.cudartHostAssumedTime.restype = runtime.cudartHostCountCalls.restype = ctypes.c_longlong
    return runtime


def work_of(body):
    """Returns the nanoseconds that all work of a device is assumed to take."""
    torch.cuda.synchronize()
    begin = _runtime().cudartHostAssumedTime(0)
    body()
    torch.cuda.synchronize()
    return _runtime().cudartHostAssumedTime(0) - begin


def milliseconds_of(body):
    """Returns the time of a step on the clock of events."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    body()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)


def calls_that_wait():
    """Returns how many calls have been made that no capture allows, by name."""
    return {name: _runtime().cudartHostCountCalls(name.encode()) for name in _WAITS}


def nodes_of(graph):
    """Returns how many kernels and how many copies a graph has. It was made with keep_graph=True."""
    runtime, count, kind = _runtime(), ctypes.c_size_t(), ctypes.c_int()
    handle = ctypes.c_void_p(graph.raw_cuda_graph())
    runtime.cudaGraphGetNodes(handle, None, ctypes.byref(count))
    nodes = (ctypes.c_void_p * count.value)()
    runtime.cudaGraphGetNodes(handle, nodes, ctypes.byref(count))
    kinds = []
    for node in nodes:
        runtime.cudaGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind))
        kinds.append(kind.value)
    return kinds.count(0), kinds.count(1)
