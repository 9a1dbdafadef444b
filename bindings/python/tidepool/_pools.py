# SPDX-License-Identifier: Apache-2.0
"""Pools on the host device."""
import os
from typing import Any, List, Optional, Union

from . import _native
from ._answers import Answer
from ._commands import Path

Size = Union[int, float, str]


def _bytes(size: Size) -> int:
    return _native.parse_size(size) if isinstance(size, str) else int(size)


class Pool(_native.HostPool):
    """A pool on the host device: memory of the host, under a hard budget. Thread-safe.

    `placement` is the name of a placement policy. `initial` is taken at once. `trace` names a file that records the
    requests, for `tidepool.read`. Sizes are bytes, or texts such as "1GiB".

    A pool belongs to its process: in a forked child every call raises `InputError`.
    """

    def __init__(self, budget: Size, *, placement: str = "best-fit", initial: Size = 0, alignment: int = 512,
                 growth: float = 1 / 32, remap: bool = False, memory: str = "automatic",
                 trace: Optional[Path] = None) -> None:
        super().__init__(_bytes(budget), placement=placement, initial=_bytes(initial), alignment=alignment,
                         growth=growth, remap=remap, memory=memory, trace="" if trace is None else os.fspath(trace))

    def array(self, shape: Any, dtype: Any = "float64", *, hint: str = "resident",
              wait: Optional[float] = None) -> Any:
        """Returns a NumPy array in the pool's memory, which returns to the pool with the last view of the array."""
        import numpy

        shape = (shape,) if isinstance(shape, int) else tuple(shape)
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
