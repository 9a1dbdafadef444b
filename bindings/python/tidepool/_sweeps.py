# SPDX-License-Identifier: Apache-2.0
"""Sweeps: a function at every point of a grid, on any executor."""
import functools
import itertools
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Generator, List, Mapping, Optional, Sequence, Tuple

from ._answers import Answer
from ._progress import make_bar

if TYPE_CHECKING:
    import concurrent.futures

Call = Callable[[], Any]
Calls = Generator[Tuple[int, Call], None, None]


class Rows(List[Dict[str, Any]]):
    """The rows of a sweep: dictionaries with the values of the grid and the answer's fields."""

    def to_frame(self) -> Any:
        """Returns the rows as a pandas DataFrame. Needs pandas."""
        import pandas

        return pandas.DataFrame(list(self))


def _row(point: Mapping[str, Any], result: Any) -> Dict[str, Any]:
    """Returns the row of a point. Values of the grid win over fields of the same name."""
    if isinstance(result, Answer):
        result = result.to_dict()
    fields = dict(result) if isinstance(result, Mapping) else {"result": result}
    return {**point, **{name: value for name, value in fields.items() if name not in point}}


def _row_of_call(point: Mapping[str, Any], call: Call, keep_errors: bool) -> Dict[str, Any]:
    try:
        return _row(point, call())
    except Exception as error:
        if not keep_errors:
            raise
        return {**point, "error": f"{type(error).__name__}: {error}"}


def _points(grid: Mapping[str, Sequence[Any]]) -> List[Dict[str, Any]]:
    return [dict(zip(grid, values)) for values in itertools.product(*grid.values())]


def _one_by_one(function: Callable[..., Any], points: Sequence[Mapping[str, Any]]) -> Calls:
    for index, point in enumerate(points):
        yield index, functools.partial(function, **point)


def _on_executor(executor: "concurrent.futures.Executor", function: Callable[..., Any],
                 points: Sequence[Mapping[str, Any]]) -> Calls:
    """Yields points in the order in which they are done. Cancels the others when the caller takes no more."""
    import concurrent.futures

    futures = {executor.submit(function, **point): index for index, point in enumerate(points)}
    try:
        for future in concurrent.futures.as_completed(futures):
            yield futures[future], future.result
    finally:
        for future in futures:
            future.cancel()


def _show(bar: Any, done: int, points: int, begin: float) -> None:
    if bar is not None:
        bar(f"{done} of {points} points", done / points, time.monotonic() - begin)


def sweep(function: Callable[..., Any], grid: Mapping[str, Sequence[Any]], *,
          executor: Optional["concurrent.futures.Executor"] = None, keep_errors: bool = False) -> Rows:
    """Calls `function(**point)` at every point of a grid, and returns a row for each, in the order of the grid.

    The grid maps names of arguments to their values. Any executor of `concurrent.futures` carries the calls: threads
    (calls of tidepool run in parallel), processes, or those of Dask, MPI and others; without one they run one after
    another. The function returns an `Answer`, a dictionary, or a single value, which becomes the field `result`.

    The first exception of the function cancels the calls that have not begun, and is raised. With `keep_errors=True`
    the row of that point has the field `error` instead. An exception, also KeyboardInterrupt, has the rows so far in
    its attribute `rows`.
    """
    points = _points(grid)
    calls = _one_by_one(function, points) if executor is None else _on_executor(executor, function, points)
    rows: Dict[int, Dict[str, Any]] = {}
    bar = make_bar()
    begin = time.monotonic()
    try:
        for index, call in calls:
            _show(bar, len(rows), len(points), begin)
            rows[index] = _row_of_call(points[index], call, keep_errors)
    except BaseException as error:
        error.rows = Rows(rows[index] for index in sorted(rows))  # type: ignore[attr-defined]
        raise
    finally:
        calls.close()
        if bar is not None:
            bar.close()
    return Rows(rows[index] for index in sorted(rows))
