# SPDX-License-Identifier: Apache-2.0
"""The slab: one piece of a device's memory, in which the requests of planned passes have planned offsets.

An allocator around PyTorch's (bindings/torch/slab) serves them, compiled for the installed version of PyTorch on first
use. A request that is not as planned, or comes while its place is taken, goes on to PyTorch's allocator.

CUDA graphs have addresses of the slab. Then it stays as it is, and belongs to passes that are captured: all others take memory
beside it, since a replay would write over theirs.
"""
import collections
import contextlib
import ctypes
import functools
import warnings
from typing import Any, Callable, Iterator, List, NamedTuple, Sequence, Tuple

import torch

__all__ = ["Figures", "Note", "Pass", "figures_of", "hold", "is_held", "is_there", "let_go", "noted", "resize"]


class Note(NamedTuple):
    """A request for memory, or the free of one."""

    bytes: int  # rounded up; 0 for a free
    request: int  # its number
    address: int


class Figures(NamedTuple):
    """Figures of a slab. Sizes are bytes."""

    bytes: int
    live_bytes: int
    served: int  # requests that got their planned offset
    deviations: int  # requests that did not, and planned ones that did not come


@functools.lru_cache(maxsize=None)
def _library() -> Any:
    """Returns the compiled library, or None with a warning if it does not compile."""
    from .. import _torch_build

    try:
        library = ctypes.CDLL(str(_torch_build.compiled("slab")))
        for name in ("install", "resize", "begin", "end", "figures", "begin_notes", "end_notes"):
            getattr(library, f"tidepool_slab_{name}").restype = ctypes.c_char_p
        _torch_build.check(library.tidepool_slab_install())
    except (ImportError, OSError, RuntimeError) as error:
        warnings.warn(f"tidepool: PyTorch's allocator reserves more than the budget, since tensors have no planned addresses: {error}",
                      RuntimeWarning, stacklevel=2)
        return None
    return library


def is_there(device: torch.device) -> bool:
    """Returns whether tensors of a device can have planned addresses. The first call compiles the library."""
    return device.type == "cuda" and _library() is not None


def _call(name: str, *arguments: Any) -> None:
    from .. import _torch_build

    _torch_build.check(getattr(_library(), f"tidepool_slab_{name}")(*arguments))


_holders: "collections.Counter[int]" = collections.Counter()  # CUDA graphs with addresses in the slab of a device


def hold(device: torch.device) -> None:
    """Keeps the slab of a device for one more CUDA graph."""
    _holders[device.index] += 1


def let_go(device: torch.device) -> None:
    _holders[device.index] -= 1


def is_held(device: torch.device) -> bool:
    return _holders[device.index] > 0


@functools.lru_cache(maxsize=None)
def _warn_of_memory_beside() -> None:
    warnings.warn("tidepool: a step outside of the CUDA graph that holds the memory of the budget takes memory beside it. Replay the graph, or "
                  "delete it", RuntimeWarning, stacklevel=2)


def resize(device: torch.device, size: int) -> bool:
    """Gives a device's slab a size, or its memory back for 0. Returns False, without a change, while a tensor lives in it, or a CUDA graph
    holds it."""
    if is_held(device):
        return False
    done = ctypes.c_int()
    _call("resize", device.index, ctypes.c_int64(size), ctypes.byref(done))
    return bool(done.value)


def figures_of(device: torch.device) -> Figures:
    """Returns the figures of a device's slab; zeros where no slab was made."""
    figures = (ctypes.c_int64 * 4)()
    if device.type == "cuda" and _library.cache_info().currsize and _library() is not None:
        _call("figures", device.index, figures)
    return Figures(*figures)


def noted(function: Callable[[], Any]) -> Tuple[Any, List[Note]]:
    """Calls a function, and returns its result and the requests of the calling thread meanwhile."""
    count = ctypes.c_int64()
    _call("begin_notes")
    try:
        result = function()
    finally:
        _call("end_notes", ctypes.byref(count))
    fields = (ctypes.c_int64 * (3 * count.value))()
    _library().tidepool_slab_read_notes(fields)
    return result, [Note(*fields[i:i + 3]) for i in range(0, len(fields), 3)]


class Pass:
    """The requests of one pass in order: bytes, rounded up, and offsets in the slab, -1 for none."""

    def __init__(self, sizes: Sequence[int], offsets: Sequence[int]):
        self._sizes = (ctypes.c_int64 * len(sizes))(*sizes)
        self._offsets = (ctypes.c_int64 * len(offsets))(*offsets)

    @contextlib.contextmanager
    def followed(self, device: torch.device) -> Iterator[None]:
        """Serves the requests of the calling thread by the plan, but those of passes outside of the CUDA graphs that hold the slab."""
        if is_held(device) and not torch.cuda.is_current_stream_capturing():
            _warn_of_memory_beside()
            yield
            return
        _call("begin", device.index, ctypes.c_int64(len(self._sizes)), self._sizes, self._offsets)
        try:
            yield
        finally:
            _call("end")
