# SPDX-License-Identifier: Apache-2.0
"""Progress of long calls: a bar in terminals and notebooks."""
import importlib
import sys
from typing import Any, Callable, Optional, Union

Show = Callable[[str, float, float], None]

_AFTER_SECONDS = 1.0
_WIDTH = 20
_chosen: Union[None, bool, Show] = None


def show_progress(how: Union[None, bool, Show]) -> None:
    """Chooses the progress of long calls.

    None shows a bar in terminals and notebooks after a second, which is the default. True shows it everywhere, False
    nowhere. A function takes its place: it is called with a text, the part of the work that is done (0 to 1, or -1 if
    unknown) and the seconds since the beginning.
    """
    global _chosen
    _chosen = how


def bar_text(text: str, part: float, seconds: float) -> str:
    """Returns the line of a bar."""
    if part < 0:
        return f"{text}, {seconds:.0f} s"
    full = round(min(part, 1.0) * _WIDTH)
    return f"[{'#' * full}{'.' * (_WIDTH - full)}] {part:4.0%} {text}, {seconds:.0f} s"


class TerminalBar:
    """A line of standard error that each call replaces."""

    def __init__(self) -> None:
        self._is_shown = False

    def __call__(self, text: str, part: float, seconds: float) -> None:
        if seconds < _AFTER_SECONDS:
            return
        self._is_shown = True
        sys.stderr.write("\r\x1b[K" + bar_text(text, part, seconds))
        sys.stderr.flush()

    def close(self) -> None:
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class NotebookBar:
    """An output of a notebook's cell that each call replaces."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None

    def __call__(self, text: str, part: float, seconds: float) -> None:
        if seconds < _AFTER_SECONDS:
            return
        line = {"text/plain": bar_text(text, part, seconds)}
        if self._handle is None:
            self._handle = self._display(line, raw=True, display_id=True)
        else:
            self._handle.update(line, raw=True)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)


class FunctionBar:
    """A function of the user."""

    def __init__(self, function: Show) -> None:
        self._function = function

    def __call__(self, text: str, part: float, seconds: float) -> None:
        self._function(text, part, seconds)

    def close(self) -> None:
        pass


Bar = Union[TerminalBar, NotebookBar, FunctionBar]


def _notebook_display() -> Optional[Callable[..., Any]]:
    """Returns IPython's display in a notebook; None elsewhere. Does not import IPython."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    display: Callable[..., Any] = importlib.import_module("IPython.display").display
    return display


def make_bar() -> Optional[Bar]:
    """Returns the bar of a call; None where progress is not shown."""
    if callable(_chosen):
        return FunctionBar(_chosen)
    if _chosen is False:
        return None
    display = _notebook_display()
    if display is not None:
        return NotebookBar(display)
    return TerminalBar() if _chosen or (sys.stderr is not None and sys.stderr.isatty()) else None
