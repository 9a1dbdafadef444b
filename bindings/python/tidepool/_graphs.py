# SPDX-License-Identifier: Apache-2.0
"""Task graphs, their schedules, and simulated iterations."""
import contextlib
import json
import os
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Union

from . import _native
from ._answers import Answer
from ._commands import Path, Value, option_arguments, path_text, run
from ._traces import Size


@contextlib.contextmanager
def _files(**texts: str) -> Iterator[Dict[str, str]]:
    """Gives texts as files to a command. Its errors name them by their keys."""
    import tempfile  # its imports take longer than the package

    with tempfile.TemporaryDirectory() as folder:
        paths = {name: os.path.join(folder, name) for name in texts}
        for name, text in texts.items():
            with open(paths[name], "w", encoding="utf-8") as file:
                file.write(text)
        paths["folder"] = folder
        try:
            yield paths
        except _native.InputError as error:
            raise _native.InputError(str(error).replace(folder + os.sep, "")) from None


def _contents(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


class _Document:
    """A JSON text that files hold."""

    def __init__(self, text: str) -> None:
        self._text = text

    @property
    def text(self) -> str:
        """The JSON text, as a file holds it."""
        return self._text

    def to_dict(self) -> Dict[str, Any]:
        """Returns the document as dictionaries and lists."""
        document: Dict[str, Any] = json.loads(self._text)
        return document

    def write(self, path: Path) -> None:
        """Writes the document to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._text)


class Graph(_Document):
    """The task graph of a training iteration, or of iterations at any batch. `model` and `read_graph` make it."""

    def __init__(self, text: str, info: Optional[Answer] = None) -> None:
        super().__init__(text)
        self.info = info  # the figures that `tidepool model` prints; None for a graph from a file

    def schedule(self, **options: Any) -> "Schedule":
        """Makes the schedule of an iteration, as `tidepool.schedule` does."""
        return schedule(self, **options)

    def simulate(self, **options: Any) -> Answer:
        """Simulates an iteration, as `tidepool.simulate` does."""
        return simulate(self, **options)

    def __repr__(self) -> str:
        if self.info is None:
            return f"<tidepool.Graph of {len(self._text):,} bytes of JSON>"
        return f"<tidepool.Graph {self.info.model}>"


class Schedule(_Document):
    """The schedule of an iteration, with the answer of the tool: `schedule.answer.seconds`.

    A schedule that does not fit has `fits` False, an empty text, and cannot be simulated.
    """

    def __init__(self, graph: Graph, text: str, answer: Answer, batch: Optional[int]) -> None:
        super().__init__(text)
        self.graph = graph
        self.answer = answer
        self._batch = batch

    @property
    def fits(self) -> bool:
        """Whether the iteration runs in the memory."""
        return bool(self.answer.fits)

    def simulate(self, **options: Value) -> Answer:
        """Simulates the iteration. Options of `tidepool simulate` change the machine, such as `link="25GB/s"`."""
        if not self.fits:
            raise _native.InputError("the schedule does not fit its memory, expected one that fits")
        with _files(graph=self.graph.text, schedule=self._text) as files:
            return run(["simulate", files["graph"],
                        *option_arguments({"schedule": files["schedule"], "batch": self._batch, **options})])

    def __repr__(self) -> str:
        how = f"{self.answer.seconds:.6g} s" if self.fits else "does not fit"
        return f"<tidepool.Schedule of {self.answer.graph}, {self.answer.policy}, {how}>"


def model(name: str, *, batch: Optional[int] = None, family: bool = False, **options: Value) -> Graph:
    """Makes the task graph of a known network, for `batch` samples or with `family=True` for any batch.

    Options are those of `tidepool model`, such as `precision="bfloat16"` and `optimizer="adam"`.
    """
    with _files() as files:
        path = os.path.join(files["folder"], "graph")
        asked = {"batch": batch, "family": family, "output": path, **options}
        info = run(["model", path_text(name), *option_arguments(asked)])
        info.output = None
        return Graph(_contents(path), info)


def read_graph(path: Path) -> Graph:
    """Reads a graph file, compressed by gzip or not. Commands check it when they use it."""
    with open(path, "rb") as file:
        contents = file.read()
    import gzip

    return Graph((gzip.decompress(contents) if contents[:2] == b"\x1f\x8b" else contents).decode("utf-8"))


def schedule(graph: Graph, *, memory: Size, policy: Optional[str] = None, batch: Optional[int] = None,
             known: Sequence[Schedule] = (), **options: Value) -> Schedule:
    """Makes the schedule of an iteration in a device's memory under an offload policy.

    A graph at any batch needs `batch`. The policy `best` is no slower than the schedules of `known` that keep to the
    memory, such as those for less memory. Options are those of `tidepool schedule`, such as `link`, `offload`,
    `sub_batch`, `devices`, `peer_bandwidth` and `reduction`.
    """
    texts = {f"known{i}": one.text for i, one in enumerate(known) if one.fits}
    with _files(graph=graph.text, **texts) as files:
        path = os.path.join(files["folder"], "schedule")
        asked = {"memory": memory, "policy": policy, "batch": batch, "output": path,
                 "known": [files[name] for name in texts] or None, **options}
        answer = run(["schedule", files["graph"], *option_arguments(asked, repeated=["known"])])
        text = _contents(path) if answer.fits else ""
        if "output" in answer:
            answer.output = None
        return Schedule(graph, text, answer, batch)


def front(graph: Graph, *, memory: Optional[Size] = None, batch: Optional[int] = None, **options: Value) -> Answer:
    """Returns the front of time against memory: sub-batch, transfers, tasks that run again and algorithms together.

    `memory` is the most memory. `answer.points` have ascending memories. Options are those of `tidepool front`,
    such as `points`, `time_limit`, and `gpus=True`, for `answer.gpus`.
    """
    with _files(graph=graph.text) as files:
        asked = {"memory": memory, "batch": batch, **options}
        return run(["front", files["graph"], *option_arguments(asked)])


def schedule_chain(chain: Union[Path, Mapping[str, Any]], *, memory: Optional[Size] = None,
                   policy: Optional[str] = None, **options: Value) -> Answer:
    """Makes the schedule of a chain, which is a file or its contents as a dictionary."""
    asked = option_arguments({"memory": memory, "policy": policy, **options})
    if not isinstance(chain, Mapping):
        return run(["chain", path_text(chain), *asked])
    with _files(chain=json.dumps(chain)) as files:
        return run(["chain", files["chain"], *asked])


def simulate(graph: Union[Graph, str], *, memory: Union[None, Size, Sequence[Size]] = None,
             policy: Union[None, str, Sequence[str]] = None, batch: Union[None, int, str, Sequence[int]] = None,
             **options: Value) -> Answer:
    """Simulates an iteration of a graph, or of a known network by its name, which needs `batch`.

    Several memories, policies or batches are a sweep of the tool. Options are those of `tidepool simulate`.
    """
    asked = option_arguments({"memory": memory, "policy": policy, "batch": batch, **options})
    if not isinstance(graph, Graph):
        return run(["simulate", path_text(graph), *asked])
    with _files(graph=graph.text) as files:
        return run(["simulate", files["graph"], *asked])
