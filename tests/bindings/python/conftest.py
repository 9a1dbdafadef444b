# SPDX-License-Identifier: Apache-2.0
"""Files and programs that the tests share."""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys

import pytest

import tidepool

ROOT = pathlib.Path(__file__).parents[3]


# A shell starts programs in the background without Ctrl-C. Calls that a test interrupts would then never end.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def in_the_sources(monkeypatch):
    """Runs each test in the top folder, so that paths are short, and without a bar."""
    monkeypatch.chdir(ROOT)
    tidepool.show_progress(None)


@pytest.fixture(scope="session")
def vgg():
    """A recording of VGG-16."""
    return tidepool.read(ROOT / "examples/traces/vgg16-b4-sgd.rmm.csv.gz")


@pytest.fixture(scope="session")
def hard(tmp_path_factory):
    """A trace for which the search for a smaller plan goes on for hours."""
    path = tmp_path_factory.mktemp("traces") / "hard.csv"
    draw = random.Random(1)
    rows = []
    for number in range(3000):
        lower = draw.randrange(200)
        rows.append(f"{number},{lower},{lower + draw.randrange(1, 60)},{draw.randrange(1, 1 << 30)}")
    path.write_text("id,lower,upper,size\n" + "\n".join(rows) + "\n")
    return tidepool.read(path)


@pytest.fixture(scope="session")
def alexnet():
    """The graph of AlexNet."""
    return tidepool.model("alexnet", batch=8)


@pytest.fixture
def tool():
    """Runs the program `tidepool` and returns the object that it prints."""
    def run(*arguments):
        done = subprocess.run([os.environ["TIDEPOOL_TOOL"], *map(str, arguments), "--json"], capture_output=True,
                              text=True)
        assert done.returncode in (0, 2), done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture
def python():
    """Runs a script in an interpreter of its own and returns its standard output."""
    def run(script):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=120)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout

    return run
