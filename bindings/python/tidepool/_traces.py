# SPDX-License-Identifier: Apache-2.0
"""Traces, and the questions about them."""
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from . import _native
from ._answers import Answer
from ._commands import Path, Value, option_arguments, path_text, run, with_progress

Size = Union[int, float, str]
_REPEATED = ("policy", "category", "without")


# Notebooks show drawings and pages in elements of their own: styles and names of one would apply to all other outputs.
def _image(svg: str) -> str:
    import base64

    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="The memory of the trace" style="max-width: 100%" src="data:image/svg+xml;base64,{data}">'


def _frame(page: str) -> str:
    import html

    return f'<iframe sandbox="allow-scripts" style="border: 0; width: 100%; height: 50em" srcdoc="{html.escape(page)}"></iframe>'


class Report(Answer):
    """The figures of a report, and its drawing as SVG in `svg` where no file was asked for. Notebooks show the drawing, or the page
    that was written."""

    svg: str

    def _repr_html_(self) -> Optional[str]:
        if "svg" in self:
            return _image(self.svg)
        show = {".svg": _image, ".html": _frame}.get(os.path.splitext(self.output)[1])
        if show is None or not os.path.isfile(self.output):
            return None  # the notebook shows the text
        with open(self.output, encoding="utf-8") as file:
            return show(file.read())

    def __repr__(self) -> str:
        return f"Report({', '.join(f'{name}={value!r}' for name, value in vars(self).items() if name != 'svg')})"

    def to_dict(self) -> Dict[str, Any]:
        """Returns the figures as dictionaries and lists, without the drawing."""
        figures = super().to_dict()
        figures.pop("svg", None)
        return figures


class Trace:
    """A recording of the requests that a program made to its allocator. `read` makes it.

    Each method asks the command of the tool with its name, and takes its options as keywords: `time_limit=5` is
    `--time-limit 5`. Sizes are bytes, or texts such as "80GiB". Methods raise `InputError` for a wrong value.
    """

    def __init__(self, data: "_native.TraceData", path: str) -> None:
        self._data = data
        self._path = path

    @property
    def path(self) -> str:
        """The file that was read."""
        return self._path

    @property
    def format(self) -> str:
        """The format of the file: native, rmm-csv, operation-csv, lifetime-csv, pytorch-snapshot, chrome-trace,
        memory-timeline, heap-profile or rmm-debug-log."""
        return self._data.format

    @property
    def device(self) -> int:
        """The device of the trace; -1 is the host."""
        return self._data.device

    @property
    def events(self) -> int:
        """The number of events."""
        return self._data.events

    @property
    def allocations(self) -> int:
        """The number of allocations."""
        return self._data.allocations

    def info(self, *ranks: "Trace", category: Optional[Sequence[str]] = None, **options: Value) -> Answer:
        """Tells the contents in figures; with other ranks of the job, which rank needs the most.

        `category` is a list of "NAME=REGEX".
        """
        return self._ask("info", ranks, {"category": category, **options})

    def size(self, *ranks: "Trace", policy: Union[None, str, Sequence[str]] = None, plan: bool = False,
             fits: Optional[Size] = None, time_limit: Union[None, float, str] = None, **options: Value) -> Answer:
        """Finds the smallest pool of each placement policy: `.policies` with `policy`, `pool_bytes` and more.

        `plan=True` adds `.plan`. With `fits=SIZE` the answer tells in `.fits` whether the trace fits into this memory.
        Searches take at most `time_limit` seconds each.
        """
        return self._ask("size", ranks, {"policy": policy, "plan": plan, "fits": fits, "time_limit": time_limit,
                                         **options})

    def plan(self, output: Optional[Path] = None, *, capacity: Optional[Size] = None,
             time_limit: Union[None, float, str] = None, **options: Value) -> Answer:
        """Finds an offset for every allocation, and writes the plan to `output`, a CSV file.

        With `regions=True` it finds the memory that the recorded regions need as they sleep and wake, or of a trace without
        regions, that the phases need in any order; `without` lists regions or phases to leave out.

        After Ctrl-C the `answer` of the KeyboardInterrupt is the best plan so far.
        """
        return self._ask("plan", (), {"output": output, "capacity": capacity, "time_limit": time_limit, **options})

    def replay(self, *, pool: Optional[Size] = None, policy: Optional[str] = None, device: Optional[str] = None,
               **options: Value) -> Answer:
        """Serves the trace from a pool of a size; with `device="host"` from a real one."""
        return self._ask("replay", (), {"pool": pool, "policy": policy, "device": device, **options})

    def diff(self, other: "Trace", **options: Value) -> Answer:
        """Compares this trace with a later one: growth by stack, category and size."""
        return self._ask("diff", (other,), options)

    def report(self, output: Optional[Path] = None, *, policy: Union[None, str, Sequence[str]] = None,
               pool: Optional[Size] = None, before: Optional["Trace"] = None, **options: Value) -> Report:
        """Draws the trace. The answer has the figures, and the drawing as `svg`, which notebooks show.

        With `output` it writes a file instead: *.html is a page, which may compare with the trace `before` and which
        notebooks show, *.svg a drawing, *.folded collapsed stacks.
        """
        asked = {"policy": policy, "pool": pool, **options}
        if output is not None:
            return self._report(os.fspath(output), asked, before)
        import tempfile  # its imports take longer than the package

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.svg")
            report = self._report(path, asked, before)
            with open(path, encoding="utf-8") as file:
                report.svg = file.read()
            report.output = None
        return report

    def convert(self, output: Path, *, to: Optional[str] = None, policy: Optional[str] = None) -> Answer:
        """Writes the trace in the format `to`, by default the one of the new name. `.left_out` lists the losses.

        A PyTorch snapshot needs addresses: `policy` gives them to a trace that has none.
        """
        (name, data), = self._named(())
        return run(["convert", name, path_text(output), *option_arguments({"to": to, "policy": policy})], {name: data})

    def _report(self, output: str, asked: Dict[str, Value], before: Optional["Trace"]) -> Report:
        traces = self._named((before,) if before is not None else ())
        arguments = option_arguments({**asked, "output": output}, _REPEATED)
        if before is not None:
            arguments.append("--before=" + traces[1][0])
        answer = run(["report", traces[0][0], *arguments], dict(traces))
        return Report(**vars(answer))

    def _ask(self, command: str, others: Sequence["Trace"], options: Dict[str, Value]) -> Answer:
        traces = self._named(others)
        paths = [path for path, _ in traces]
        return run([command, *paths, *option_arguments(options, _REPEATED)], dict(traces))

    def _named(self, others: Sequence["Trace"]) -> List[Tuple[str, Any]]:
        """Returns the traces of a command with the names of its arguments, which differ for different traces."""
        named: Dict[str, Any] = {}
        result = []
        for trace in (self, *others):
            if not isinstance(trace, Trace):
                raise TypeError(f"{trace!r} is no trace, expected one that tidepool.read returned")
            name = path_text(trace._path)
            while named.setdefault(name, trace._data) is not trace._data:
                name += f" (device {trace.device})"
            result.append((name, trace._data))
        return result

    def __repr__(self) -> str:
        return f"<tidepool.Trace {self.path!r}, {self.format}, {self.events:,} events>"

    def _repr_html_(self) -> Optional[str]:
        try:
            return self.report()._repr_html_()
        except _native.Error:
            return None  # the notebook shows the text

    def __reduce__(self) -> Tuple[Any, ...]:
        return read, (os.path.abspath(self.path), self.device)


def read(path: Path, device: Optional[int] = None) -> Trace:
    """Reads a trace of any format, which its contents tell; gzip too.

    Of a trace with several devices it reads `device`, by default the first GPU that refused a request, or the first
    one with events. A pickled trace is its path, and is read again where it is loaded.
    """
    text = os.fspath(path)
    return Trace(with_progress(_native.read_trace, text, device), text)
