# SPDX-License-Identifier: Apache-2.0
"""Measurements of cuDNN's convolutions, and the micro-batches and batches that they suggest.

    times = tidepool.cudnn.measurements("times.sqlite")
    times.to_frame().groupby("layer").seconds.min()
    front = tidepool.cudnn.front(times.layer(times.layers[0]), batch=256)
    tidepool.cudnn.best_batch_size(256, [{32: 0.13, 48: 0.19}, {16: 0.12, 32: 0.24}])

The file is one that TIDEPOOL_CUDNN_DATABASE named. Nothing here needs cuDNN or a GPU.
"""
import contextlib
import json
import os
import pathlib
import sqlite3
import tempfile
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

from ._answers import Answer
from ._commands import Path, run
from ._native import InputError, parse_size
from ._sweeps import Rows

__all__ = ["BatchSplit", "Measurements", "best_batch_size", "front", "measurements", "plot_fronts"]

Size = Union[int, str]

_PREFIX = "cudnn convolution "
_FIRST_ENGINE = 2**20
_NONDETERMINISTIC = 4  # the bit of this numerical note
_QUERY = ("SELECT device, library, layer, layout, types, algorithm, samples, seconds, workspace_bytes FROM task_time "
          "WHERE layer GLOB 'cudnn convolution *' ORDER BY device, library, layer, layout, types, samples, algorithm")


class Measurements(Rows):
    """Rows of a file: a dictionary for each algorithm and micro-batch of a convolution."""

    @property
    def layers(self) -> List[str]:
        """The layers, in order. Rows of one layer have the same name here and differ in algorithm and samples only."""
        return sorted({row["layer"] for row in self})

    def layer(self, name: str) -> "Measurements":
        """Returns the rows of one layer."""
        return Measurements(row for row in self if row["layer"] == name)


def _row(device: str, library: str, layer: str, layout: str, types: str, algorithm: str, samples: int, seconds: float,
         workspace_bytes: int, engines: Dict[str, int]) -> Dict[str, Any]:
    its = {"device": device, "library": library, "direction": layer[len(_PREFIX):].split()[0],
           "layer": " ".join((device, library, layer, layout, types)), "samples": samples, "seconds": seconds,
           "workspace_bytes": workspace_bytes}
    # Such as "4 FLOAT math=0 deterministic", and "engine 3 knobs=2:1 notes=16".
    words = algorithm.split()
    if words[0] == "engine":
        data, _, _, compute = types.split()[:4]
        precision = "FLOAT" if data != "half" else "TRUE_HALF" if compute == "half" else "PSEUDO_HALF"
        notes = int(words[3].partition("=")[2])
        return {**its, "algorithm": engines.setdefault(algorithm, _FIRST_ENGINE + len(engines)), "engine": algorithm,
                "precision": precision, "math": 0, "deterministic": not notes >> _NONDETERMINISTIC & 1}
    return {**its, "algorithm": int(words[0]), "engine": "", "precision": words[1], "math": int(words[2].partition("=")[2]),
            "deterministic": len(words) > 3}


def measurements(path: Path) -> Measurements:
    """Returns all measurements of convolutions in a profile. The file is not changed.

    Engines of the graph API have numbers from 2**20 on in `algorithm`, in this answer alone, and texts in `engine`.

    `to_frame()` makes a pandas DataFrame. A file that is missing or no profile is an InputError.
    """
    uri = pathlib.Path(os.path.abspath(path)).as_uri() + "?mode=ro"
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as database:
            engines: Dict[str, int] = {}
            return Measurements(_row(*row, engines) for row in database.execute(_QUERY))
    except sqlite3.Error as error:
        raise InputError(f"{os.fspath(path)}: {error}, expected a profile") from None


def _ask(case: Mapping[str, Any]) -> Answer:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "case.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(case, file)
        return run(["workspace", path])


def front(rows: Sequence[Mapping[str, Any]], batch: int, policy: str = "powerOfTwo", limit: Optional[Size] = None,
          precision: str = "TRUE_HALF") -> Rows:
    """Returns the trade-offs of a layer between time and workspace: rows with `seconds` and `workspace_bytes`.

    `rows` are measurements of one layer. Each trade-off is faster than all with less workspace. Empty when nothing
    fits the limit.
    """
    case = {"kind": "wr", "B": batch, "M": parse_size(limit) if isinstance(limit, str) else 2**62 if limit is None else limit,
            "policy": policy, "precision": precision,
            "table": [[row["samples"], row["algorithm"], row["seconds"], row["workspace_bytes"], row["precision"]]
                      for row in rows]}
    answer = _ask(case).to_dict()
    if not answer["fits"]:
        return Rows()
    return Rows({"seconds": seconds, "workspace_bytes": bytes_} for seconds, bytes_ in answer["front"])


class BatchSplit(NamedTuple):
    """The samples of each GPU, 0 for one that stays out, and the time of the slowest one."""

    samples: List[int]
    seconds: float


def best_batch_size(mb: int, gpus: Sequence[Mapping[int, float]], multiple: int = 1) -> Optional[BatchSplit]:
    """Returns the split of a mini-batch of `mb` samples over GPUs, with the least time of the slowest one.

    Each GPU is a mapping from samples to seconds, the sizes that it may take. `multiple` divides the samples of each.
    The answer is exact. None when no sizes add up to the mini-batch.
    """
    case = {"kind": "hetero", "B": mb, "multiple": multiple,
            "gpus": [sorted([int(samples), float(seconds)] for samples, seconds in gpu.items()) for gpu in gpus]}
    answer = _ask(case).to_dict()
    if not answer["fits"]:
        return None
    return BatchSplit([gpu["batch"] for gpu in answer["gpus"]], answer["time"])


def plot_fronts(fronts: Mapping[str, Sequence[Mapping[str, Any]]], axes: Any = None) -> Any:
    """Draws fronts by name, workspace in MiB against milliseconds, and returns the axes.

    Without `axes` of Matplotlib it makes some, which needs Matplotlib.
    """
    if axes is None:
        import matplotlib.pyplot

        axes = matplotlib.pyplot.figure().add_subplot()
    for name, rows in fronts.items():
        axes.step([row["workspace_bytes"] / 2**20 for row in rows], [row["seconds"] * 1e3 for row in rows], where="post",
                  marker="o", label=name)
    axes.set_xlabel("workspace (MiB)")
    axes.set_ylabel("time (ms)")
    axes.legend()
    return axes
