# SPDX-License-Identifier: Apache-2.0
"""Dry runs of functions: the memory that they need on a GPU that is not there."""
import functools
import html
import importlib
import importlib.util
import json
import multiprocessing.spawn
import os
import pathlib
import pickle
import sys
import tempfile
from typing import Any, Callable, Dict, List, Optional, Sequence, TypeVar, Union

from . import _native
from ._answers import Answer, parse
from ._commands import Path

Size = Union[int, float, str]
Function = TypeVar("Function", bound=Callable[..., Any])
_PACKAGE = pathlib.Path(os.path.abspath(__file__)).parent
_FOLDER = "TIDEPOOL_DRYRUN_FOLDER"  # in the environment of each process of a dry run
of_check: Optional[Callable[["DryRun"], None]] = None  # called with the answer of each test that `fits` made, if it fits


class DryRun(Answer):
    """The answer of a dry run, with the names of the JSON that `tidepool dryrun --json` prints.

    `str()` gives the lines that the command prints, and notebooks show them.
    """

    _lines: List[str]

    def __str__(self) -> str:
        return "\n".join(self._lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def to_dict(self) -> Dict[str, Any]:
        """Returns the answer as dictionaries and lists."""
        answer = super().to_dict()
        answer.pop("_lines", None)
        return answer


class _Tool:
    """The commands of the tool, in this process."""

    def ask(self, *arguments: Any) -> Any:
        return json.loads(_native.run_command([*map(str, arguments), "--json"], {}, None))

    def report(self, snapshot: str, file: str) -> None:
        self.ask("report", snapshot, "-o", file)


def folder(part: str = "cudart_host") -> pathlib.Path:
    """Returns the folder of dry runs that has this part: of an installation, or of a build tree."""
    places = (_PACKAGE / "lib" / "tidepool" / "dryrun", _PACKAGE.parent.parent / "dryrun")
    for place in places:
        if (place / part).is_dir():
            return place
    raise _native.Error(f"{_PACKAGE} has no stand-in for the CUDA runtime, expected a build with the CUDA Toolkit 13")


def _parts(place: pathlib.Path) -> Any:
    """Returns the package tidepool_dryrun, which is outside of this one because the command line runs it too."""
    name = "tidepool_dryrun"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, place / name / "__init__.py",
                                                      submodule_search_locations=[str(place / name)])
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return importlib.import_module(name + ".main")


def write_graph(part: str, *arguments: Any) -> Dict[str, Any]:
    """Writes the task graph of a training step for tidepool.torch.graph(): `live` runs it on the GPU, and `model` needs none."""
    main = _parts(folder("tidepool_dryrun"))
    try:
        found: Dict[str, Any] = importlib.import_module(f"tidepool_dryrun.{part}").write(*arguments)
    except main.DryRunError as error:
        raise _native.Error(str(error)) from None
    return found


def _is_of_main(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__module__", None) == "__main__"


def _write_call(path: pathlib.Path, function: Any, arguments: Any) -> None:
    """Writes the call for a new process. Functions of a script or notebook go by value where cloudpickle is installed."""
    pickler: Any = pickle
    preparation = multiprocessing.spawn.get_preparation_data("dry run")
    preparation.pop("authkey", None)
    if not os.path.isfile(preparation.get("init_main_from_path", "")):
        preparation.pop("init_main_from_path", None)  # a notebook, or a script from standard input
    if _is_of_main(function):
        if importlib.util.find_spec("cloudpickle") is not None:
            pickler = importlib.import_module("cloudpickle")
            preparation.pop("init_main_from_path", None)
        elif not {"init_main_from_path", "init_main_from_name"} & preparation.keys():
            raise _native.InputError("functions of a notebook need the package cloudpickle: pip install cloudpickle")
    with open(path, "wb") as file:
        pickle.dump(preparation, file)
        try:
            pickler.dump((function, arguments), file)
        except (AttributeError, TypeError, pickle.PicklingError) as error:
            raise _native.InputError(f"the function and its arguments cannot be sent to a new process: {error}") from error


def _error_of_call(path: pathlib.Path) -> Optional[BaseException]:
    """Returns the exception that ended the function, with its traceback as its cause."""
    try:
        error: BaseException = pickle.loads(path.read_bytes())
    except Exception:  # none was kept, or its class cannot be made here
        return None
    return error


def _bytes_of(size: Optional[Size]) -> Optional[int]:
    if size is None:
        return None
    return _native.parse_size(size) if isinstance(size, str) else int(size)


def _seconds_of(time: Union[float, str]) -> float:
    return _native.parse_seconds(time) if isinstance(time, str) else float(time)


def _text_of_ranks(ranks: Union[int, str, Sequence[int]]) -> str:
    return str(ranks) if isinstance(ranks, (int, str)) else ",".join(map(str, ranks))


def is_inside() -> bool:
    """Returns whether this process is a program of a dry run."""
    return _FOLDER in os.environ


def dryrun(function: Callable[..., Any], *arguments: Any, gpu: str = "h100", memory: Optional[Size] = None,
           devices: Optional[int] = None, world: Optional[int] = None, ranks: Union[int, str, Sequence[int]] = "", steps: int = 3, time_limit: Union[float, str] = 300,
           initialize: bool = True, density: float = 0.5, cudnn_workspace: Optional[Size] = None, snapshot: Optional[Path] = None,
           report: Optional[Path] = None, graph: Optional[Path] = None, front: Optional[Path] = None,
           prices: Optional[Path] = None, by: str = "") -> DryRun:
    """Calls the function in a new process on a stand-in for CUDA, without a GPU, and returns the memory that it needs on one.

        answer = tidepool.dryrun(train, config, gpu="rtx-4090")
        answer.fits, answer.peak_reserved_bytes

    The process ends after `steps` steps of optimizers (0: at the end of the function) or `time_limit`, seconds or text such as
    "40m". `memory` is the memory of each GPU instead of that of the model. `initialize=False` skips `torch.nn.init`. `density`
    is the share of elements that operations such as `nonzero` keep. `cudnn_workspace` is the workspace of each convolution, which its shape
    decides otherwise. `world` is the number of ranks of a job of which only `ranks` run: a number, several, or "representative".
    `snapshot`, `report`, `graph` and `front` are files to write, and `prices` one to read. `by="module"` adds a table of the peak by module, and "line" prints one by line. Raises the exception of the function, `InputError` for
    wrong arguments, and `Error` where there is no answer.
    Running out of memory is an answer: `fits` is False, and `out_of_memory` has the bytes asked for and the line.

    The function and its arguments are pickled. Functions of a notebook need the package cloudpickle. Ctrl-C ends the run with
    the memory so far.
    """
    if is_inside():
        raise _native.Error("a dry run inside of a dry run: call tidepool.dryrun under if __name__ == '__main__'")
    place = folder()
    main = _parts(place)
    title = getattr(function, "__name__", type(function).__name__)
    with tempfile.TemporaryDirectory(prefix="tidepool-dryrun-") as name:
        at = pathlib.Path(name)
        _write_call(at / "call.pickle", function, arguments)
        command = [sys.executable, str(place / "tidepool_dryrun" / "call.py"), name]
        options = main.Options(command=command, stand_in=str(place / "cudart_host"), gpu=gpu, memory_bytes=_bytes_of(memory),
                             devices=devices, world=world, ranks=_text_of_ranks(ranks), steps=steps, time_limit_seconds=_seconds_of(time_limit),
                             initializes=initialize, density=density, cudnn_workspace_bytes=_bytes_of(cudnn_workspace), snapshot=os.fspath(snapshot or ""),
                             report=os.fspath(report or ""), graph=os.fspath(graph or ""), front=os.fspath(front or ""), prices=os.fspath(prices or ""),
                             by=by, is_function=True)
        failure: Optional[BaseException] = None
        try:
            run = main.DryRun(options, _Tool())
            answer = run.answer(command, at)
            main.keep_files(run, answer, title)
        except ValueError as error:
            raise _native.InputError(str(error)) from None
        except main.DryRunError as error:
            failure = _error_of_call(at / "error.pickle") or _native.Error(str(error))
    if failure is not None:
        raise failure
    return DryRun(**vars(parse(json.dumps(answer))), _lines=main.text.lines(answer, title) + main.text.by(by, answer))


def fits(memory: Optional[Size] = None, gpu: str = "h100", **options: Any) -> Callable[[Function], Function]:
    """Makes a test of a function: it fails when the function needs more than the memory.

        @tidepool.fits("24GiB", gpu="rtx-4090")
        def test_a_step_of_training():
            train(steps=1)

    The function runs as in `dryrun`, which has the other options. Arguments, as those from fixtures of pytest, are pickled.
    Raises AssertionError with the parts of the peak and, where the program ran out of memory, the line. It fails too where the time
    limit or an interrupt stopped the function.
    """
    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def check(*arguments: Any, **named: Any) -> Any:
            if is_inside():
                return function(*arguments, **named)
            call = functools.partial(check, *arguments, **named)
            setattr(call, "__name__", function.__name__)  # the title of the answer
            answer = dryrun(call, memory=memory, gpu=gpu, **options)
            if not answer.fits:
                raise AssertionError(f"{function.__name__} does not fit\n{answer}")
            if answer.so_far:
                raise AssertionError(f"{function.__name__} was stopped before its end, expected a longer time_limit or fewer steps\n{answer}")
            if of_check is not None:
                of_check(answer)
            return None

        return check  # type: ignore[return-value]

    return decorate
