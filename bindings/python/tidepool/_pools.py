# SPDX-License-Identifier: Apache-2.0
"""Pools on the host device."""
import operator
import os
from typing import Any, Callable, List, Optional, Union

from . import _native
from ._answers import Answer
from ._commands import Path

Size = Union[int, float, str]
_MOST_BYTES = (1 << 63) - 1


def _bytes(size: Size) -> int:
    return _native.parse_size(size) if isinstance(size, str) else int(size)


def _bytes_of_request(size: Union[int, str]) -> int:
    """Returns the bytes of a request. The binding itself would raise a TypeError with its own names."""
    try:
        count = _native.parse_size(size) if isinstance(size, str) else operator.index(size)
    except TypeError:
        raise _native.InputError(f"{size!r} is no size, expected a whole number of bytes or a text such as \"1MiB\"") from None
    if not 0 <= count <= _MOST_BYTES:
        raise _native.InputError(f"a request of {count} bytes, expected 0 to {_MOST_BYTES}")
    return count


def _with_request(function: Callable[[Answer], Any]) -> Callable[[int, str, int], bool]:
    return lambda bytes, hint, attempt: bool(function(Answer(bytes=bytes, hint=hint, attempt=attempt)))


class Pool(_native.HostPool):
    """A pool on the host device: memory of the host, under a hard budget. Thread-safe.

    `placement` is the name of a placement policy. `initial` is taken at once. `trace` names a file that records the
    requests, for `tidepool.read`. `plan` names a plan, which `Trace.plan` writes: its requests get the offsets of the
    plan. `shared_budget` names a file by which pools of several processes share the budget. Sizes are bytes, or texts such as "1GiB".

    `on_out_of_memory` is called with the request (`bytes`, `hint`, `attempt`) before a request is refused, or waits.
    It may free buffers, and returns whether the pool tries again, at most 100 times a request. An exception of
    it ends the request and reaches the caller.

    A pool belongs to its process: in a forked child every call raises `InputError`.
    """

    _make_room: Optional[Callable[[int, str, int], bool]] = None

    def __init__(self, budget: Size, *, placement: Optional[str] = None, initial: Size = 0, alignment: int = 512,
                 growth: float = 1 / 32, remap: bool = False, memory: str = "automatic",
                 trace: Optional[Path] = None, plan: Optional[Path] = None, shared_budget: Optional[Path] = None,
                 on_out_of_memory: Optional[Callable[[Answer], Any]] = None) -> None:
        if on_out_of_memory is not None and not callable(on_out_of_memory):
            raise TypeError(f"on_out_of_memory is {on_out_of_memory!r}, expected a function")
        if placement is None:
            placement = "best-fit" if plan is None else "planned"
        super().__init__(_bytes(budget), placement=placement, initial=_bytes(initial), alignment=alignment,
                         growth=growth, remap=remap, memory=memory, trace="" if trace is None else os.fspath(trace),
                         plan="" if plan is None else os.fspath(plan),
                         shared_budget="" if shared_budget is None else os.fspath(shared_budget))
        self._make_room = None if on_out_of_memory is None else _with_request(on_out_of_memory)

    def allocate(self, bytes: Union[int, str], *, hint: str = "resident", wait: Optional[float] = None,
                 stream: Optional[_native.Stream] = None) -> _native.Buffer:
        """Returns a Buffer of that many bytes, or of a text such as "1MiB", for work on `stream`, by default a stream of the pool.

        Work of another stream on the buffer must wait for that stream first, by `Stream.wait`.
        Raises OutOfMemoryError when the pool has no room. With wait=SECONDS, waits so long for buffers that other
        threads free, and then raises DeadlineError. The hint 'offloadable' is for memory that will be freed soon.
        """
        return self.allocate_buffer(_bytes_of_request(bytes), hint, wait, stream, self._make_room)

    def array(self, shape: Any, dtype: Any = "float64", *, hint: str = "resident",
              wait: Optional[float] = None) -> Any:
        """Returns a NumPy array in the pool's memory, which returns to the pool with the last view of the array."""
        import numpy

        try:
            shape = (operator.index(shape),)
        except TypeError:
            shape = tuple(shape)
        count = 1
        for length in shape:
            count *= length
        buffer = self.allocate(count * numpy.dtype(dtype).itemsize, hint=hint, wait=wait)
        return buffer.array(dtype, shape)

    def statistics(self) -> Answer:
        """Returns the figures of the pool, with the names of `PoolStats` in C++."""
        return Answer(**self.read_statistics())

    def blocks(self) -> List[Answer]:
        """Returns every block in the order of addresses, with `address`, `bytes` and `used`."""
        return [Answer(**block) for block in self.read_blocks()]

    def trim(self, keep: Size = 0) -> int:
        """Gives unused memory back to the device, as long as the pool keeps `keep`. Returns the bytes given back."""
        return self.trim_bytes(_bytes(keep))

    def __repr__(self) -> str:
        figures = self.statistics()
        return f"<tidepool.Pool, {figures.live_bytes:,} of {figures.max_bytes:,} bytes live>"
