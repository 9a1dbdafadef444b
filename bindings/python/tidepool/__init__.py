# SPDX-License-Identifier: Apache-2.0
"""A GPU memory pool that knows its trace: sizes, plans, schedules and pools.

    trace = tidepool.read("snapshot.pickle")
    for policy in trace.size().policies:
        print(policy.policy, policy.pool_bytes)

Answers have the names of the JSON that the command `tidepool` prints. Integrations with frameworks are submodules,
such as `tidepool.torch`, which import their framework.
"""
import atexit as _atexit

from ._answers import Answer
from ._dryrun import DryRun, dryrun, fits
from ._graphs import Graph, Schedule, front, model, read_graph, schedule, schedule_chain, simulate
from ._native import (Buffer, DeadlineError, Error, InputError, OutOfMemoryError, Stream, finish as _finish, parse_size,
                      version as __version__)
from ._pools import Pool
from ._progress import show_progress
from ._sweeps import Rows, sweep
from ._traces import Report, Trace, read

__all__ = [
    "Answer", "Buffer", "DeadlineError", "DryRun", "Error", "Graph", "InputError", "OutOfMemoryError", "Pool", "Report",
    "Rows", "Schedule", "Stream", "Trace", "__version__", "cmake_prefix", "dryrun", "fits", "front", "model",
    "parse_size", "read", "read_graph", "schedule", "schedule_chain", "show_progress", "simulate", "sweep",
]

_atexit.register(_finish)
for _error in (Error, InputError, OutOfMemoryError, DeadlineError):
    _error.__module__ = "tidepool"


def cmake_prefix() -> str:
    """Returns the folder with the C++ library, for CMAKE_PREFIX_PATH."""
    import os

    return os.path.dirname(os.path.abspath(__file__))
