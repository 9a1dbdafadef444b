# SPDX-License-Identifier: Apache-2.0
"""Measurements of convolutions from a file, and the questions about them."""
import contextlib
import sqlite3

import pytest

import tidepool
from tidepool import cudnn

MIB = 2**20


@pytest.fixture
def store(tmp_path):
    """A profile with a convolution in two directions, and a task of a graph."""
    path = tmp_path / "times.sqlite"
    database = sqlite3.connect(path)
    database.executescript("""
        CREATE TABLE task_time (device TEXT, library TEXT, layer TEXT, layout TEXT, types TEXT, algorithm TEXT,
                                samples INTEGER, seconds REAL, workspace_bytes INTEGER, runs INTEGER);
        PRAGMA application_id = 1953064037; PRAGMA user_version = 1;""")
    key = ("gpu", "cuDNN 91900, driver 13000")
    layer = ("cudnn convolution {} x=48x27x27 w=128x48x5x5 y=128x27x27", "x=1 y=1 w=NCHW", "float float float float math=0")
    rows = [(direction, algorithm, samples, seconds, bytes_)
            for direction in ("forward", "backward-data")
            for algorithm, samples, seconds, bytes_ in (("0 FLOAT math=0 deterministic", 8, 8e-3, 0),
                                                        ("4 FLOAT math=1", 8, 2e-3, 80 * MIB),
                                                        ("4 FLOAT math=1", 4, 1.5e-3, 40 * MIB))]
    for direction, algorithm, samples, seconds, bytes_ in rows:
        database.execute("INSERT INTO task_time VALUES (?,?,?,?,?,?,?,?,?,1)",
                         (*key, layer[0].format(direction), *layer[1:], algorithm, samples, seconds, bytes_))
    database.execute("INSERT INTO task_time VALUES ('gpu','','relu forward','','','only',8,1,0,1)")
    database.commit()
    database.close()
    return path


def test_measurements_are_rows_of_convolutions(store):
    times = cudnn.measurements(store)
    assert len(times) == 6 and len(times.layers) == 2
    row = times[-1]
    assert (row["direction"], row["samples"], row["algorithm"], row["precision"], row["math"]) == ("forward", 8, 4, "FLOAT", 1)
    assert (row["seconds"], row["workspace_bytes"], row["deterministic"]) == (2e-3, 80 * MIB, False)
    pandas = pytest.importorskip("pandas")
    frame = times.to_frame()
    assert isinstance(frame, pandas.DataFrame) and frame.seconds.min() == 1.5e-3


def test_engines_are_algorithms_with_numbers_of_their_own(store):
    with contextlib.closing(sqlite3.connect(store)) as database:
        key = ("gpu", "cuDNN 91900, driver 13000", "cudnn convolution forward x=48x27x27 w=128x48x5x5 y=128x27x27",
               "x=1 y=1 w=NCHW")
        for types, engine, samples in (("float float float float math=0", "engine 3 knobs=2:1,5:0 notes=16", 8),
                                       ("float float float float math=0", "engine 3 knobs=2:1,5:0 notes=16", 4),
                                       ("half half half half math=0", "engine 1 knobs= notes=0", 8)):
            database.execute("INSERT INTO task_time VALUES (?,?,?,?,?,?,?,1e-3,1024,1)", (*key, types, engine, samples))
        database.commit()
    times = cudnn.measurements(store)
    engines = [row for row in times if row["engine"]]
    assert [(row["samples"], row["algorithm"], row["precision"], row["deterministic"]) for row in engines] == [
        (4, 2**20, "FLOAT", False), (8, 2**20, "FLOAT", False), (8, 2**20 + 1, "TRUE_HALF", True)]
    rows = times.layer(engines[0]["layer"])
    assert cudnn.front(rows, batch=8)[-1] == {"seconds": 1e-3, "workspace_bytes": 1024}


def test_a_broken_file_is_an_error(tmp_path):
    with pytest.raises(tidepool.InputError, match="expected a profile"):
        cudnn.measurements(tmp_path / "missing.sqlite")
    assert not (tmp_path / "missing.sqlite").exists()
    (tmp_path / "text").write_text("text that is no database, and long enough to be read as one" * 20)
    with pytest.raises(tidepool.InputError, match="not a database"):
        cudnn.measurements(tmp_path / "text")


def test_a_front_has_the_trade_offs_of_a_layer(store):
    times = cudnn.measurements(store)
    rows = times.layer(times.layers[0])
    assert cudnn.front(rows, batch=8) == [{"seconds": 8e-3, "workspace_bytes": 0},
                                          {"seconds": 3e-3, "workspace_bytes": 40 * MIB},
                                          {"seconds": 2e-3, "workspace_bytes": 80 * MIB}]
    assert [row["seconds"] for row in cudnn.front(rows, batch=8, limit="64MiB")] == [8e-3, 3e-3]
    assert [row["seconds"] for row in cudnn.front(rows, batch=8, policy="undivided", limit=0)] == [8e-3]
    assert cudnn.front(rows, batch=3) == []


def test_a_batch_is_split_over_unlike_gpus():
    split = cudnn.best_batch_size(64, [{24: 0.1, 32: 0.2}, {24: 0.1, 40: 0.3}, {16: 0.123}])
    assert split == ([24, 24, 16], 0.123)
    assert cudnn.best_batch_size(32, [{32: 0.1}, {32: 0.3}]).samples == [32, 0]
    assert cudnn.best_batch_size(33, [{32: 0.1}, {32: 0.3}]) is None
    assert cudnn.best_batch_size(32, [{32: 0.3, 16: 0.1, 8: 0.05}, {16: 0.1, 24: 0.11}], multiple=16).samples == [16, 16]
    with pytest.raises(tidepool.InputError):
        cudnn.best_batch_size(0, [{32: 0.1}])


def test_fronts_are_drawn_as_steps():
    class Axes:
        def __init__(self):
            self.calls = []

        def __getattr__(self, name):
            return lambda *values, **options: self.calls.append((name, values, options.get("label")))

    axes = Axes()
    rows = [{"seconds": 8e-3, "workspace_bytes": 0}, {"seconds": 2e-3, "workspace_bytes": 80 * MIB}]
    assert cudnn.plot_fronts({"conv2": rows}, axes) is axes
    assert axes.calls[0] == ("step", ([0, 80], [8, 2]), "conv2")
    assert [name for name, _, _ in axes.calls] == ["step", "set_xlabel", "set_ylabel", "legend"]
