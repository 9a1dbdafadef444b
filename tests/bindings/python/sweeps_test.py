# SPDX-License-Identifier: Apache-2.0
"""Sweeps: rows in the order of the grid on any executor, errors, interrupts, frames."""
import concurrent.futures
import multiprocessing
import threading

import pytest

import tidepool

GRID = {"memory": ["1GiB", "2GiB"], "policy": ["none", "vdnn"]}


def square(x, y=0):
    return x * x + y


def fail_at_three(x):
    if x == 3:
        raise ValueError("three")
    return x


def simulate(graph, memory, policy):
    return graph.simulate(memory=memory, policy=policy)


@pytest.fixture(params=["none", "threads", "processes", "dask"])
def executor(request):
    if request.param == "none":
        yield None
    elif request.param == "threads":
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            yield threads
    elif request.param == "dask":
        distributed = pytest.importorskip("distributed")
        with distributed.Client(n_workers=2, processes=False, dashboard_address=None) as client:
            yield client.get_executor()
    else:
        with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as processes:
            yield processes


def test_rows_have_the_order_of_the_grid(executor):
    rows = tidepool.sweep(square, {"x": [3, 1], "y": [10, 20]}, executor=executor)
    assert [(row["x"], row["y"], row["result"]) for row in rows] == [(3, 10, 19), (3, 20, 29), (1, 10, 11), (1, 20, 21)]


def test_answers_become_columns(executor, alexnet):
    rows = tidepool.sweep(simulate, {"graph": [alexnet], **GRID}, executor=executor)
    assert [(row["memory"], row["policy"]) for row in rows] == [
        (memory, policy) for memory in GRID["memory"] for policy in GRID["policy"]]
    assert rows[1]["seconds"] == alexnet.simulate(memory="1GiB", policy="vdnn").seconds


def test_best_is_no_slower_than_known_schedules():
    graph = tidepool.model("alexnet", batch=128)
    options = {"policy": "best", "memory_kind": "paged", "recompute": "off", "time_limit": "1ms"}
    in_parts = graph.schedule(memory="880MB", part="4MiB", **{**options, "time_limit": "5s"})  # enough on a busy machine too
    none = graph.schedule(memory="1MB", **options)
    assert not none.fits
    assert graph.schedule(memory="880MB", **options).answer.seconds > in_parts.answer.seconds
    known = [none, in_parts]

    def point(memory):
        made = graph.schedule(memory=memory, known=known, **options)
        known.append(made)
        return made.answer

    rows = tidepool.sweep(point, {"memory": ["880MB", "1060MB", "1100MB"]})
    seconds = [in_parts.answer.seconds, *(row["seconds"] for row in rows)]
    assert seconds == sorted(seconds, reverse=True)


def test_values_of_the_grid_win_over_fields():
    rows = tidepool.sweep(lambda x: {"x": 7, "y": 8}, {"x": [1]})
    assert rows == [{"x": 1, "y": 8}]


def test_the_first_exception_is_raised_with_the_rows_so_far(executor):
    with pytest.raises(ValueError, match="three") as raised:
        tidepool.sweep(fail_at_three, {"x": [1, 2, 3]}, executor=executor)
    assert all(row["result"] == row["x"] != 3 for row in raised.value.rows)
    if executor is None:
        assert len(raised.value.rows) == 2


def test_errors_can_be_kept(executor):
    rows = tidepool.sweep(fail_at_three, {"x": [3, 4]}, executor=executor, keep_errors=True)
    assert rows == [{"x": 3, "error": "ValueError: three"}, {"x": 4, "result": 4}]


def test_an_interrupt_keeps_the_rows_so_far():
    def interrupt_at_two(x):
        if x == 2:
            raise KeyboardInterrupt
        return x

    with pytest.raises(KeyboardInterrupt) as raised:
        tidepool.sweep(interrupt_at_two, {"x": [0, 1, 2, 3]}, keep_errors=True)
    assert raised.value.rows == [{"x": 0, "result": 0}, {"x": 1, "result": 1}]


def test_an_error_cancels_calls_that_have_not_begun():
    begun = []
    gate = threading.Event()

    def fail_first(x):
        begun.append(x)
        if x == 0:
            raise ValueError(x)
        gate.wait()

    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        with pytest.raises(ValueError):
            tidepool.sweep(fail_first, {"x": range(100)}, executor=threads)
        gate.set()
    assert len(begun) <= 2


@pytest.mark.parametrize("grid, rows", [({}, 1), ({"x": []}, 0)])
def test_a_grid_may_be_empty(grid, rows):
    assert len(tidepool.sweep(lambda **point: 1, grid)) == rows


def test_progress_counts_points():
    shown = []
    tidepool.show_progress(lambda text, part, seconds: shown.append((text, part)))
    tidepool.sweep(square, {"x": [1, 2]})
    assert shown == [("0 of 2 points", 0), ("1 of 2 points", 0.5)]


def test_rows_become_a_frame():
    pandas = pytest.importorskip("pandas")
    frame = tidepool.sweep(square, {"x": [1, 2]}).to_frame()
    assert isinstance(frame, pandas.DataFrame) and list(frame["result"]) == [1, 4]
