# SPDX-License-Identifier: Apache-2.0
"""The end of the interpreter while daemon threads are in calls of the package."""
import pytest

THREADS = 6
# Each script has a function `call` for the threads, and a function `has_begun` that tells whether they are in it.
SCRIPTS = {
    "wait for memory": """
pool = tidepool.Pool("1MiB")
keep = pool.allocate(1 << 20)
def call():
    pool.allocate(1 << 20, wait=float("inf"))
def has_begun():
    return pool.statistics().blocked == THREADS
""",
    "get memory at the end": """
pool = tidepool.Pool("1MiB")
class Owner:
    def __del__(self):
        self.buffer.free()
owner = Owner()
owner.buffer = pool.allocate(1 << 20)
def call():
    pool.allocate(1024, wait=float("inf"))
def has_begun():
    return pool.statistics().blocked == THREADS
""",
    "search": """
begun = set()
trace = tidepool.read(HARD)
tidepool.show_progress(lambda *progress: begun.add(threading.get_ident()))
def call():
    trace.plan(time_limit=600)
def has_begun():
    return len(begun) == THREADS
""",
    "show progress": """
begun = set()
def show(*progress):
    begun.add(threading.get_ident())
    while True:
        pass
trace = tidepool.read(HARD)
tidepool.show_progress(show)
def call():
    trace.plan(time_limit=600)
def has_begun():
    return len(begun) == THREADS
""",
    "make room": """
begun = set()
def make_room(request):
    begun.add(threading.get_ident())
    while True:
        pass
pool = tidepool.Pool("1MiB", on_out_of_memory=make_room)
keep = pool.allocate(1 << 20)
def call():
    pool.allocate(1 << 20)
def has_begun():
    return len(begun) == THREADS
""",
    "synchronize": """
begun = set()
pool = tidepool.Pool("32MiB")
buffers = [pool.allocate(16 << 20) for _ in range(2)]
def call():
    stream = pool.stream()
    while True:
        stream.copy(*buffers)
        begun.add(threading.get_ident())
        stream.synchronize()
def has_begun():
    return len(begun) == THREADS
""",
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_daemon_threads_in_calls_end_with_the_interpreter(python, hard, script):
    assert python(f"""
import threading, tidepool
HARD = {hard.path!r}
THREADS = {THREADS}
{script}
for _ in range(THREADS):
    threading.Thread(target=call, daemon=True).start()
while not has_begun():
    pass
print("end")
""") == "end\n"


def test_a_later_handler_of_the_end_may_wait(python):
    assert python("""
import atexit
def wait():
    buffer = pool.allocate(1 << 20, wait=60)
    stream = pool.stream()
    stream.fill(buffer, 1)
    stream.synchronize()
    print(buffer.array()[-1])
    try:
        pool.allocate(1 << 20, wait=0)
    except tidepool.DeadlineError:
        print("late")
atexit.register(wait)
import tidepool
pool = tidepool.Pool("1MiB")
""") == "1\nlate\n"
