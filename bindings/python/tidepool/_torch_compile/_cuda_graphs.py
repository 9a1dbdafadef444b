# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs of steps. Each holds the slab's addresses and pinned memory for its copies, as long as it lives.

torch.cuda.graph() and make_graphed_callables() begin and end a capture by methods of torch.cuda.CUDAGraph. These are wrapped, so that all that
a capture prohibits comes before it: waits of the host, and allocation of pinned memory. The end of a capture joins the streams of copies.
"""
import contextlib
import functools
import weakref
from typing import Any, Callable, Dict, List, Optional, Set

import torch

from . import _costs, _operators, _pinning, _private, _slab

__all__ = ["check", "current", "is_captured", "watch"]

_Keys = Callable[[], List[int]]


class _Held:
    """The memory that the graph of one capture holds."""

    def __init__(self, keys: List[int]):
        self.pinned: Dict[int, torch.Tensor] = {}  # by the key of the copies
        self._devices: Set[torch.device] = set()  # with a slab
        for key in keys:
            try:
                self.pinned[key] = _operators.host_tensor(key)
            except RuntimeError as error:
                _pinning.warn_that_data_stays(_operators.bytes_of(key), error)

    def hold_slab(self, device: torch.device) -> None:
        """Keeps the memory of a device's slab where it is."""
        if device not in self._devices:
            self._devices.add(device)
            _slab.hold(device)

    def keep(self, keys: Set[int]) -> None:
        """Gives the pinned memory of other keys back."""
        self.pinned = {key: host for key, host in self.pinned.items() if key in keys}

    def let_go(self) -> None:
        # A replay may still run. During another capture the host must not wait.
        if _current is None and (self.pinned or self._devices):
            torch.cuda.synchronize()
        for device in self._devices:
            _slab.let_go(device)
        self._devices.clear()
        self.pinned.clear()


_current: Optional[_Held] = None  # of the capture under way
_ends: "weakref.WeakKeyDictionary[torch.cuda.CUDAGraph, weakref.finalize]" = weakref.WeakKeyDictionary()


def current() -> Optional[_Held]:
    """Returns the memory that the graph holds which is captured now; None outside of captures."""
    return _current


def is_captured(device: Optional[torch.device]) -> bool:
    """Returns whether the current stream of a device is captured."""
    return (device is not None and device.type == "cuda" and torch.cuda.is_initialized()
            and torch.cuda.is_current_stream_capturing())


def check(is_ready: bool, text: str) -> None:
    """Raises RuntimeError for a step that cannot be captured. text: why, and the remedy."""
    if not is_ready:
        raise RuntimeError(f"tidepool: this step cannot be captured into a CUDA graph: {text}")


def _wrapped(keys: _Keys, begin: Any, end: Any, reset: Any) -> "tuple[Any, Any, Any]":
    @functools.wraps(begin)
    def capture_begin(graph: torch.cuda.CUDAGraph, *arguments: Any, **keywords: Any) -> None:
        global _current
        _operators.begin_capture()
        # The graph takes workspaces of its own on the stream of the capture: those of the first steps make room for them.
        _private.clear_workspaces()
        _costs.forget()
        torch.cuda.empty_cache()
        held = _Held(keys())
        begin(graph, *arguments, **keywords)
        _current = held
        _operators.captured_hosts = held.pinned

    @functools.wraps(end)
    def capture_end(graph: torch.cuda.CUDAGraph) -> None:
        global _current
        held, _current, _operators.captured_hosts = _current, None, None
        with contextlib.ExitStack() as ends:
            if held is not None:
                ends.callback(held.let_go)
            try:
                _operators.join_captured()
            finally:
                end(graph)
            if held is not None:
                held.keep(_operators.end_capture())
                ends.pop_all()
                _ends[graph] = finalizer = weakref.finalize(graph, held.let_go)
                finalizer.atexit = False

    @functools.wraps(reset)
    def reset_graph(graph: torch.cuda.CUDAGraph) -> None:
        reset(graph)
        if graph in _ends:
            _ends.pop(graph)()

    return capture_begin, capture_end, reset_graph


@functools.lru_cache(maxsize=None)
def watch(keys: _Keys) -> None:
    """Prepares each capture from now on. keys: returns those of the copies of all plans."""
    graph = torch.cuda.CUDAGraph
    graph.capture_begin, graph.capture_end, graph.reset = _wrapped(  # type: ignore[method-assign]
        keys, graph.capture_begin, graph.capture_end, graph.reset)
