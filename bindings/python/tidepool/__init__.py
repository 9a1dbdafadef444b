# SPDX-License-Identifier: Apache-2.0
"""A GPU memory pool that knows its trace: sizes, plans, schedules and pools.

    trace = tidepool.read("snapshot.pickle")
    for policy in trace.size().policies:
        print(policy.policy, policy.pool_bytes)

Answers have the names of the JSON that the command `tidepool` prints. Integrations with frameworks are submodules,
such as `tidepool.torch`, which import their framework. They need libtidepool_c.so alone, so the compiled module
`tidepool._native` is loaded when a name of this module is used for the first time.
"""
import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any, List as _List

if _TYPE_CHECKING:
    from ._answers import Answer
    from ._c_api import metrics
    from ._dryrun import DryRun, dryrun, fits
    from ._graphs import Graph, Schedule, front, model, read_graph, schedule, schedule_chain, simulate
    from ._native import (Buffer, DeadlineError, Error, InputError, OutOfMemoryError, Stream, parse_size,
                          version as __version__)
    from ._pools import Pool
    from ._progress import show_progress
    from ._sweeps import Rows, sweep
    from ._traces import Report, Trace, read

__all__ = [
    "Answer", "Buffer", "DeadlineError", "DryRun", "Error", "Graph", "InputError", "OutOfMemoryError", "Pool", "Report",
    "Rows", "Schedule", "Stream", "Trace", "__version__", "cmake_prefix", "dryrun", "fits", "front", "metrics", "model",
    "parse_size", "read", "read_graph", "schedule", "schedule_chain", "show_progress", "simulate", "sweep",
]

_MODULES = {  # with the names that each gives this module
    "_answers": ("Answer",),
    "_c_api": ("metrics",),
    "_dryrun": ("DryRun", "dryrun", "fits"),
    "_graphs": ("Graph", "Schedule", "front", "model", "read_graph", "schedule", "schedule_chain", "simulate"),
    "_native": ("Buffer", "DeadlineError", "Error", "InputError", "OutOfMemoryError", "Stream", "parse_size"),
    "_pools": ("Pool",),
    "_progress": ("show_progress",),
    "_sweeps": ("Rows", "sweep"),
    "_traces": ("Report", "Trace", "read"),
}


def __getattr__(name: str) -> _Any:
    """Loads the module of a name. Python calls it for names that are not there yet, also in `from . import _native`."""
    if name == "_native":
        return _load_native()
    home = next((module for module, names in _MODULES.items() if name in names), None)
    if home is None and name != "__version__":
        raise AttributeError(f"module 'tidepool' has no attribute {name!r}")
    if home != "_c_api":
        _load_native()
    if home is None:
        value = _load_native().version
    else:
        value = getattr(_importlib.import_module("." + home, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> _List[str]:
    return sorted({*globals(), *__all__})


def _load_native() -> _Any:
    """Returns the compiled module. When it is loaded first, its errors become those of this module."""
    if "_native" in globals():
        return globals()["_native"]
    try:
        native = _importlib.import_module("._native", __name__)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}._native":
            raise
        import sys

        raise ImportError(f"tidepool._native is not built for this Python {sys.version_info[0]}.{sys.version_info[1]} in "
                          f"{cmake_prefix()}: install the wheel for it. tidepool.torch, cupy, numba and rmm work without it",
                          name=error.name) from None
    import atexit

    atexit.register(native.finish)
    for error in (native.Error, native.InputError, native.OutOfMemoryError, native.DeadlineError):
        error.__module__ = "tidepool"
    return native


def cmake_prefix() -> str:
    """Returns the folder with the C++ library, for CMAKE_PREFIX_PATH."""
    import os

    return os.path.dirname(os.path.abspath(__file__))
