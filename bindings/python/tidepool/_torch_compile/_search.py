# SPDX-License-Identifier: Apache-2.0
"""The search for a schedule: by the module tidepool._native, or by the command `tidepool` where that is not built."""
import json
import pathlib
import shutil
import subprocess
import tempfile
from typing import Any, Dict, Optional, Tuple

__all__ = ["run_plan", "search"]

Answer = Dict[str, Any]


def _options(document: Answer) -> Dict[str, str]:
    # Pages as small as the blocks of PyTorch's allocator: the schedule counts bytes, since it decides no addresses.
    options = {"policy": "best", "memory_kind": "paged"}
    return options if document["link"] else {**options, "link": "none"}


def search(document: Answer, memory: int, time_limit: float) -> Tuple[Optional[Answer], Answer]:
    """Returns the schedule of a task graph and the answer of the tool; None for the schedule if it does not fit."""
    try:
        from tidepool import Graph
    except ImportError:
        return _run_tool(document, memory, time_limit)
    schedule = Graph(json.dumps(document)).schedule(memory=memory, time_limit=time_limit, **_options(document))
    return (schedule.to_dict() if schedule.fits else None), schedule.answer.to_dict()


def _tool() -> str:
    """Returns the path of the command `tidepool`: of this installation or build tree, or of PATH."""
    package = pathlib.Path(__file__).absolute().parents[1]
    for path in (package / "bin" / "tidepool", package.parents[1] / "trace_replay" / "tidepool"):
        if path.is_file():
            return str(path)
    found = shutil.which("tidepool")
    if found is None:
        raise ImportError("neither tidepool._native nor the command tidepool was found: install the wheel for this Python")
    return found


def _run_tool(document: Answer, memory: int, time_limit: float) -> Tuple[Optional[Answer], Answer]:
    with tempfile.TemporaryDirectory() as folder:
        graph, schedule = (pathlib.Path(folder) / name for name in ("graph", "schedule"))
        graph.write_text(json.dumps(document), encoding="utf-8")
        options = [f"--{name.replace('_', '-')}={value}" for name, value in _options(document).items()]
        ran = subprocess.run([_tool(), "schedule", str(graph), f"--memory={memory}", f"--time-limit={time_limit}", *options,
                              "--json", "-o", str(schedule)], capture_output=True, text=True, check=False)
        if ran.returncode not in (0, 2):
            raise RuntimeError(f"tidepool schedule failed: {ran.stderr.strip()}")
        return (json.loads(schedule.read_text(encoding="utf-8")) if ran.returncode == 0 else None), json.loads(ran.stdout)


def run_plan(lifetimes: pathlib.Path, output: pathlib.Path, seconds: float) -> None:
    """Writes offsets for a lifetime CSV to `output`, found in a search of at most `seconds`."""
    try:
        from tidepool import read_trace
    except ImportError:
        ran = subprocess.run([_tool(), "plan", str(lifetimes), f"--time-limit={seconds}s", "-o", str(output)],
                             capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            raise RuntimeError(f"tidepool plan failed: {ran.stderr.strip()}") from None
        return
    read_trace(str(lifetimes)).plan(output, time_limit=seconds)
