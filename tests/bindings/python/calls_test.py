# SPDX-License-Identifier: Apache-2.0
"""Long calls: progress, Ctrl-C, threads, and the end of the interpreter."""
import concurrent.futures
import contextlib
import gzip
import io
import os
import signal
import sys
import time
import types

import pytest

import tidepool
from tidepool import _progress

MINUTES = 600
MOST_OVERTAKES = 16  # of a request that waits


def test_a_function_takes_the_progress(vgg):
    shown = []
    tidepool.show_progress(lambda *progress: shown.append(progress))
    vgg.size(policy=["best-fit", "first-fit"])
    text, part, seconds = shown[-1]
    assert (text, part) == ("policy first-fit, 2 of 2", 0.5) and seconds >= 0


def test_an_exception_of_the_progress_ends_the_call(hard):
    def fail(text, part, seconds):
        raise LookupError(text)

    tidepool.show_progress(fail)
    with pytest.raises(LookupError, match="planning"):
        hard.size(policy="planned", time_limit=MINUTES)


def test_ctrl_c_ends_a_plan_with_the_best_so_far(hard):
    tidepool.show_progress(lambda *progress: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt) as raised:
        hard.plan(time_limit=MINUTES)
    answer = raised.value.answer
    assert answer.interrupted and answer.pool_bytes >= answer.lower_bound_bytes


def test_ctrl_c_ends_a_call_without_an_answer(hard):
    tidepool.show_progress(lambda *progress: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt) as raised:
        hard.size(policy="planned", time_limit=MINUTES)
    assert raised.value.answer is None
    assert hard.info().trace.allocations == 3000


def test_ctrl_c_ends_the_reading_of_a_file(python, tmp_path):
    path = tmp_path / "endless.csv.gz"
    blank_lines = gzip.compress(b"\n" * (1 << 26))
    with open(path, "wb") as file:
        for _ in range(2000):  # 128 GiB, which takes minutes to read
            file.write(blank_lines)
    # The end of the process waits for the thread of the call, which has ended.
    assert python(f"""
import os, signal, tidepool
signal.signal(signal.SIGINT, signal.default_int_handler)
tidepool.show_progress(lambda *progress: os.kill(os.getpid(), signal.SIGINT))
try:
    tidepool.read({str(path)!r})
except KeyboardInterrupt as interrupt:
    print(type(interrupt).__name__)
""") == "KeyboardInterrupt\n"


def test_ctrl_c_ends_a_wait_for_memory():
    pool = tidepool.Pool("64KiB")
    keep = pool.allocate(64 << 10)
    with concurrent.futures.ThreadPoolExecutor() as threads:
        def interrupt():
            while pool.statistics().blocked == 0:
                pass
            os.kill(os.getpid(), signal.SIGINT)

        threads.submit(interrupt)
        with pytest.raises(KeyboardInterrupt):
            pool.allocate(512, wait=MINUTES)
    assert pool.statistics().live_count == 1 and not keep.freed


def test_ctrl_c_ends_a_wait_for_a_stream(python):
    # The other thread runs when synchronize() gives the GIL up. The process ends with os._exit: otherwise it would wait
    # for the copies.
    assert python("""
import os, signal, sys, threading, tidepool
signal.signal(signal.SIGINT, signal.default_int_handler)
pool = tidepool.Pool("32MiB")
buffers = [pool.allocate(16 << 20) for _ in range(2)]
stream = pool.stream()
for _ in range(4000):  # seconds of work
    stream.copy(*buffers)
stream.fill(buffers[0], 1)
go = threading.Event()
threading.Thread(target=lambda: go.wait() and os.kill(os.getpid(), signal.SIGINT)).start()
sys.setswitchinterval(60)
try:
    go.set()
    stream.synchronize()
except KeyboardInterrupt:
    print(buffers[0].array()[-1], flush=True)
os._exit(0)
""") == "0\n"


def test_a_wait_for_memory_is_overtaken_seldom():
    pool = tidepool.Pool("64KiB")
    half = pool.allocate(32 << 10)
    with concurrent.futures.ThreadPoolExecutor() as threads:
        waiting = threads.submit(pool.allocate, 64 << 10, wait=MINUTES)
        while pool.statistics().blocked == 0:
            pass
        overtakes = 0
        end = time.monotonic() + 0.5  # more tries would find a wait that loses its place
        while time.monotonic() < end and overtakes <= MOST_OVERTAKES:
            with contextlib.suppress(tidepool.OutOfMemoryError):
                pool.allocate(32 << 10).free()
                overtakes += 1
        half.free()
        assert len(waiting.result()) == 64 << 10
    assert overtakes == MOST_OVERTAKES
    assert pool.statistics().blocked == 1


def test_threads_ask_at_once(vgg, hard):
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        pools = [threads.submit(trace.size, policy=["best-fit", "first-fit"]) for trace in (vgg, hard) * 4]
    answers = [[policy.pool_bytes for policy in pool.result().policies] for pool in pools]
    assert answers == answers[:2] * 4


def test_a_child_may_ask_after_a_fork(vgg):
    child = os.fork()
    if child == 0:
        os._exit(0 if vgg.size(policy="best-fit").policies[0].pool_bytes == 908195840 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_ctrl_c_ends_a_search_for_the_smallest_pool(python, hard):
    assert python(f"""
import os, signal, tidepool
signal.signal(signal.SIGINT, signal.default_int_handler)
trace = tidepool.read({hard.path!r})
tidepool.show_progress(lambda *progress: os.kill(os.getpid(), signal.SIGINT))
try:
    trace.size(policy="exact-fit-first")  # seconds of work
except KeyboardInterrupt:
    tidepool.show_progress(False)
    print(trace.info().trace.events)
""") == "6000\n"


@pytest.mark.parametrize("part, seconds, line", [
    (-1, 3.2, "planning, 3 s"),
    (0, 1, "[....................]   0% planning, 1 s"),
    (0.5, 1, "[##########..........]  50% planning, 1 s"),
    (1, 1, "[####################] 100% planning, 1 s"),
    (7, 1, "[####################] 700% planning, 1 s"),
])
def test_the_text_of_a_bar(part, seconds, line):
    assert _progress.bar_text("planning", part, seconds) == line


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_a_line_after_a_second_and_removes_it(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    bar = _progress.make_bar()
    bar("planning", 0.5, 0.9)
    assert sys.stderr.getvalue() == ""
    bar("planning", 0.5, 1.0)
    assert "50% planning, 1 s" in sys.stderr.getvalue()
    bar.close()
    assert sys.stderr.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize("stderr", [io.StringIO(), None])
def test_no_bar_without_a_terminal(monkeypatch, stderr):
    monkeypatch.setattr(sys, "stderr", stderr)
    assert _progress.make_bar() is None


def test_progress_can_be_turned_off(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    tidepool.show_progress(False)
    assert _progress.make_bar() is None


def test_a_notebook_shows_one_output(monkeypatch):
    outputs = []

    class Handle:
        def update(self, data, raw):
            outputs.append(data["text/plain"])

    def display(data, raw, display_id):
        outputs.append(data["text/plain"])
        return Handle()

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    bar = _progress.make_bar()
    for seconds in (0, 1, 2):
        bar("planning", -1, seconds)
    bar.close()
    assert outputs == ["planning, 1 s", "planning, 2 s", ""]
