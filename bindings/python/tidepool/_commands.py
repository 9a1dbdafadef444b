# SPDX-License-Identifier: Apache-2.0
"""Runs commands of the tool in this process."""
import os
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, TypeVar, Union

from . import _native
from ._answers import Answer, parse
from ._progress import make_bar

Path = Union[str, "os.PathLike[str]"]
# A value of an option of the tool: sizes are bytes, or texts such as "80GiB".
Value = Union[None, bool, int, float, str, "os.PathLike[str]", Sequence[Any]]
Result = TypeVar("Result")


def path_text(path: Path) -> str:
    """Returns a path that no command takes for an option."""
    text = os.fspath(path)
    return os.path.join(os.curdir, text) if text.startswith("-") else text


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def option_arguments(options: Mapping[str, Value], repeated: Iterable[str] = ()) -> List[str]:
    """Returns the arguments for options by name: {"time_limit": 5} becomes --time-limit 5.

    None and False leave an option out. A sequence is a list with commas, or for the names in `repeated` the option
    once for each value.
    """
    arguments: List[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            arguments.append(option)
            continue
        is_list = isinstance(value, Iterable) and not isinstance(value, (str, bytes, os.PathLike))
        values = [_text(one) for one in value] if is_list else [_text(value)]  # type: ignore[union-attr]
        for one in values if name in repeated else [",".join(values)]:
            # After "=" the tool would take the next argument for an empty value.
            arguments += [f"{option}={one}"] if one else [option, ""]
    return arguments


def with_progress(function: Any, *arguments: Any) -> Any:
    """Calls a function of the module with a bar as its last argument."""
    bar = make_bar()
    try:
        return function(*arguments, bar)
    finally:
        if bar is not None:
            bar.close()


def run(arguments: List[str], traces: Optional[Dict[str, Any]] = None) -> Answer:
    """Runs a command and returns its answer.

    After Ctrl-C the KeyboardInterrupt has the attribute `answer`, where the command had one by then: the best so far.
    """
    try:
        return parse(with_progress(_native.run_command, [*arguments, "--json"], traces or {}))
    except KeyboardInterrupt as interrupt:
        text = getattr(interrupt, "answer", None)
        interrupt.answer = parse(text) if isinstance(text, str) else None  # type: ignore[attr-defined]
        raise
