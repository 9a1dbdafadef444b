# SPDX-License-Identifier: Apache-2.0
"""Options of the backend, and the memory that they name."""
import dataclasses
import difflib
from typing import Any, Mapping, Optional

import torch


class BudgetError(RuntimeError):
    """A budget in which a step cannot run."""

    def __init__(self, message: str, smallest: int):
        super().__init__(message)
        self.smallest = smallest  # bytes of the smallest budget that works, as far as it is known; else of a larger one that may


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of torch.compile(..., backend="tidepool", options=...), checked."""

    budget: int  # bytes of the device
    link: Optional[float]  # bytes a second in each direction; 0: nothing is sent; None: measured
    time_limit: float  # seconds of a search
    kernels: str  # "eager": those of PyTorch, one for each operator; "inductor": Inductor fuses operators that follow each other
    slab: bool  # whether tensors of the step have planned addresses, so that the budget is what PyTorch reserves


_KERNELS = ("eager", "inductor")
_KNOWN = ("budget", "kernels", "link", "slab", "time_limit")


def _parse_bytes(name: str, text: str) -> int:
    try:
        from tidepool import parse_size
    except ImportError:
        raise ValueError(f"{name} {text!r} is a text, which needs tidepool._native; expected a number of bytes") from None
    try:
        return parse_size(text)
    except Exception as error:
        raise ValueError(f"{name}: {error}") from None


def size_bytes(name: str, value: Any) -> int:
    """Returns the bytes of a number, or of a text such as "23GiB"."""
    if isinstance(value, str):
        value = _parse_bytes(name, value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or value in (float("inf"), 0):
        raise ValueError(f"{name} {value!r}, expected bytes, more than 0, such as 24696061952 or '23GiB'")
    if value < 0 or value != int(value):
        raise ValueError(f"{name} {value!r}, expected a whole number of bytes, more than 0")
    return int(value)


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ValueError(f"time_limit {value!r}, expected seconds, more than 0")
    return float(value)


def _rate(link: Any) -> Optional[float]:
    if link is None:
        return None
    if link == "none":
        return 0.0
    if isinstance(link, str) and link.endswith("/s"):
        link = link[:-2]
    return float(size_bytes("link", link))


def check(given: Optional[Mapping[str, Any]]) -> Options:
    """Returns the options of a mapping. Raises ValueError for a missing budget, an unknown name and a wrong value."""
    given = dict(given or {})
    for name in given:
        if name not in _KNOWN:
            near = difflib.get_close_matches(str(name), _KNOWN, 1)
            raise ValueError(f"unknown option {name!r} of the backend 'tidepool', expected one of {', '.join(_KNOWN)}"
                             + (f"; did you mean {near[0]!r}?" if near else ""))
    if given.get("budget") is None:
        raise ValueError("the backend 'tidepool' needs a budget: torch.compile(model, backend=\"tidepool\", "
                         "options={\"budget\": \"23GiB\"})")
    link = _rate(given.get("link"))
    slab = given.get("slab", True)
    if not isinstance(slab, bool):
        raise ValueError(f"slab {slab!r}, expected True or False")
    kernels = given.get("kernels", "eager")
    if kernels not in _KERNELS:
        raise ValueError(f"kernels {kernels!r}, expected {' or '.join(map(repr, _KERNELS))}")
    return Options(budget=size_bytes("budget", given["budget"]), link=link, kernels=kernels,
                   time_limit=_seconds(given.get("time_limit", 8)), slab=slab)


def refuse_capture(device_type: str) -> None:
    """Raises RuntimeError while the current stream is captured into a CUDA graph."""
    if device_type == "cuda" and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        raise RuntimeError("tidepool: a step within tidepool.torch.offload() cannot be captured into a CUDA graph: a replay would plan no step "
                           "and take no pinned memory. Compile the model with tidepool.torch.compile(), or run the step without "
                           "torch.cuda.graph() and make_graphed_callables()")


def size_text(size: float) -> str:
    """Returns bytes as people read them: '8.35 GiB'."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.2f} {unit}"
    return f"{size:.0f} bytes"
