# SPDX-License-Identifier: Apache-2.0
"""Pools on the host device: buffers, their views, their ends, threads and forks."""
import concurrent.futures
import gc
import os
import subprocess
import sys
import threading
import weakref

import numpy
import pytest

import tidepool


def live(pool):
    return pool.statistics().live_bytes


def test_an_array_lies_in_the_pool():
    pool = tidepool.Pool("1MiB")
    array = pool.array((3, 4), "float32")
    array[:] = 2
    assert array.shape == (3, 4) and array.dtype == numpy.float32 and array.sum() == 24
    assert array.ctypes.data == pool.blocks()[0].address and live(pool) == 512


def test_an_array_takes_a_length_of_numpy():
    pool = tidepool.Pool("1MiB")
    assert pool.array(numpy.int64(5)).shape == (5,)
    assert pool.array([numpy.int64(2), 3]).shape == (2, 3)


def test_the_last_view_of_an_array_gives_its_memory_back():
    pool = tidepool.Pool("1MiB")
    view = pool.array(1000, "uint8")[10:20]
    assert live(pool) == 1024
    del view
    assert live(pool) == 0


# Before 2.1, NumPy's arrays of DLPack are read-only.
VIEWS = [memoryview, numpy.asarray]
if numpy.lib.NumpyVersion(numpy.__version__) >= "2.1.0":
    VIEWS.append(numpy.from_dlpack)


@pytest.mark.parametrize("view_of", [*VIEWS, tidepool.Buffer.array])
def test_a_buffer_is_viewed_without_a_copy(view_of):
    buffer = tidepool.Pool("1MiB").allocate(100)
    first, second = view_of(buffer), memoryview(buffer)
    first[7] = 42
    assert second[7] == 42 and len(first) == len(buffer) == buffer.nbytes == 100


@pytest.mark.parametrize("view_of", VIEWS)
def test_memory_outlives_its_buffer_as_long_as_a_view(view_of):
    pool = tidepool.Pool("1MiB")
    buffer = pool.allocate(100)
    view = view_of(buffer)
    buffer.free()
    buffer.free()
    assert buffer.freed and live(pool) == 512
    view[0] = 1
    del view
    assert live(pool) == 0


def test_a_with_block_frees_its_buffer():
    pool = tidepool.Pool("1MiB")
    with pool.allocate(100) as buffer:
        assert live(pool) == 512
    assert live(pool) == 0 and buffer.freed


def test_del_frees_a_buffer():
    pool = tidepool.Pool("1MiB")
    buffer = pool.allocate(100)
    del buffer
    assert live(pool) == 0


@pytest.mark.parametrize("use", [len, memoryview, numpy.from_dlpack, lambda buffer: buffer.address])
def test_a_freed_buffer_cannot_be_used(use):
    buffer = tidepool.Pool("1MiB").allocate(100)
    buffer.free()
    with pytest.raises(BufferError, match="the buffer was freed"):
        use(buffer)


def test_a_buffer_may_have_no_bytes():
    pool = tidepool.Pool("1MiB")
    buffer = pool.allocate(0)
    assert (len(buffer), buffer.address, len(memoryview(buffer)), live(pool)) == (0, 0, 0, 0)
    assert pool.array((3, 0)).shape == (3, 0)


def test_a_buffer_keeps_its_pool():
    buffer = tidepool.Pool("1MiB").allocate(100)
    gc.collect()
    memoryview(buffer)[99] = 1


def test_the_budget_is_never_exceeded():
    pool = tidepool.Pool("64KiB")
    keep = pool.allocate(60 << 10)
    with pytest.raises(tidepool.OutOfMemoryError, match="out of memory: 8.0 KiB") as raised:
        pool.allocate(8 << 10)
    assert isinstance(raised.value, MemoryError) and len(keep) == 60 << 10
    keep.free()
    assert len(pool.allocate(64 << 10)) == 64 << 10


def test_a_wait_ends_with_the_deadline():
    pool = tidepool.Pool("64KiB")
    keep = pool.allocate(64 << 10)
    with pytest.raises(tidepool.DeadlineError) as raised:
        pool.allocate(512, wait=0)
    assert isinstance(raised.value, TimeoutError) and not keep.freed


def test_a_wait_ends_when_another_thread_frees():
    pool = tidepool.Pool("64KiB")
    keep = pool.allocate(64 << 10)
    with concurrent.futures.ThreadPoolExecutor() as threads:
        waiting = threads.submit(pool.allocate, 512, wait=60)
        while pool.statistics().blocked == 0 and not waiting.done():
            pass
        keep.free()
        assert len(waiting.result()) == 512


def test_threads_share_a_pool():
    pool = tidepool.Pool("8MiB")

    def work(value):
        for _ in range(200):
            array = pool.array(1000, "uint8")
            array[:] = value
            assert (array == value).all()

    threads = [threading.Thread(target=work, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (live(pool), pool.statistics().allocations) == (0, 800)


def test_a_trace_of_a_pool_can_be_read(tmp_path):
    pool = tidepool.Pool("1MiB", trace=tmp_path / "step.tide")
    pool.mark("forward")
    pool.mark_iteration()
    first = pool.allocate(600)
    pool.allocate(100, hint="offloadable")
    pool.close_trace()
    figures = tidepool.read(tmp_path / "step.tide").info()
    assert (figures.trace.allocations, figures.trace.peak_live_bytes, figures.marks) == (2, 1536, 2)
    assert figures.offloadable == 1 and not first.freed


def test_a_planned_pool_learns_iterations():
    pool = tidepool.Pool("1MiB", placement="planned")
    for _ in range(20):
        pool.mark_iteration()
        for size in (1000, 5000, 3000):
            pool.allocate(size).free()
    assert pool.statistics().iterations > 0


def test_a_pool_follows_the_plan_of_a_trace(tmp_path):
    sizes = (3000, 5000, 1000, 4000)

    def step(pool):
        buffers = [pool.allocate(size) for size in sizes[:3]]
        buffers[1].free()
        buffers.append(pool.allocate(sizes[3]))
        base = pool.blocks()[0].address
        return [buffer.address - base for buffer in buffers if not buffer.freed]

    recorded = tidepool.Pool("1MiB", trace=tmp_path / "step.tide")
    step(recorded)
    recorded.close_trace()
    plan = tidepool.read(tmp_path / "step.tide").plan(tmp_path / "plan.csv")
    pool = tidepool.Pool("1MiB", plan=tmp_path / "plan.csv")
    pool.mark_iteration()
    step(pool)
    figures = pool.statistics()
    assert (figures.planned, figures.deviations) == (4, 0)
    assert figures.high_water_bytes == plan.pool_bytes < sum(sizes)
    with pytest.raises(tidepool.InputError, match="plan.csv: the plan needs .* bytes, and the budget is 4096"):
        tidepool.Pool(4096, plan=tmp_path / "plan.csv")
    with pytest.raises(tidepool.InputError, match="missing.csv"):
        tidepool.Pool("1MiB", plan="missing.csv")
    with pytest.raises(tidepool.InputError, match="alignment"):
        tidepool.Pool("1MiB", plan=tmp_path / "plan.csv", alignment=0)


def test_work_of_a_stream_runs_in_order():
    pool = tidepool.Pool("1MiB")
    stream = pool.stream()
    first, second = pool.allocate(1000, stream=stream), pool.allocate(1000, stream=stream)
    stream.fill(first, 1)
    stream.copy(second, first)
    stream.fill(first, 2)
    stream.synchronize()
    assert (first.array() == 2).all() and (second.array() == 1).all()


def test_a_stream_waits_for_another():
    pool = tidepool.Pool("64MiB")
    one, other = pool.stream(), pool.stream()
    first, second = pool.allocate(8 << 20, stream=one), pool.allocate(8 << 20, stream=other)
    one.fill(first, 7)
    other.wait(one)
    other.copy(second, first)
    other.synchronize()
    assert (second.array() == 7).all()


def test_memory_goes_to_another_stream_after_the_work_of_the_first():
    pool = tidepool.Pool("8MiB")
    streams = [pool.stream(), pool.stream()]
    for value in range(20):
        stream = streams[value % 2]
        buffer = pool.allocate(8 << 20, stream=stream)  # the memory that the other stream fills
        stream.fill(buffer, value)
        if value % 2 == 1:
            stream.synchronize()
            assert (buffer.array() == value).all()
        buffer.free()
    assert pool.statistics().allocations == 20


def test_the_use_of_another_stream_is_recorded():
    pool = tidepool.Pool("8MiB")
    reader, writer = pool.stream(), pool.stream()
    for value in range(10):
        buffer = pool.allocate(8 << 20, stream=reader)
        reader.fill(buffer, 1)
        buffer.record_use(writer)
        buffer.free(writer)
        again = pool.allocate(8 << 20, stream=writer)  # waits for the work of the reader, on the device
        writer.fill(again, 2)
        writer.synchronize()
        assert (again.array() == 2).all()
        again.free()
    assert pool.statistics().event_records >= 10


@pytest.mark.parametrize("call", [
    lambda pool, stream, buffer, other: other.allocate(1, stream=stream),
    lambda pool, stream, buffer, other: buffer.free(other.stream()),
    lambda pool, stream, buffer, other: buffer.record_use(other.stream()),
    lambda pool, stream, buffer, other: stream.wait(other.stream()),
    lambda pool, stream, buffer, other: stream.fill(other.allocate(1), 1),
    lambda pool, stream, buffer, other: stream.copy(buffer, other.allocate(100)),
    lambda pool, stream, buffer, other: stream.copy(buffer, pool.allocate(99)),
])
def test_streams_and_memory_of_two_pools_do_not_mix(call):
    pool, other = tidepool.Pool("1MiB"), tidepool.Pool("1MiB")
    buffer = pool.allocate(100)
    with pytest.raises(tidepool.InputError, match="expected"):
        call(pool, pool.stream(), buffer, other)
    assert live(pool) == 512 and not buffer.freed


def test_a_stream_may_go_before_its_work_and_its_memory():
    pool = tidepool.Pool("8MiB")
    stream = pool.stream()
    buffer = pool.allocate(8 << 20, stream=stream)
    stream.fill(buffer, 3)
    del stream, buffer
    assert live(pool) == 0
    other = pool.stream()
    again = pool.allocate(8 << 20, stream=other)
    other.fill(again, 4)
    other.synchronize()
    assert (again.array() == 4).all()


def test_a_function_makes_room():
    cache = []

    def make_room(request):
        requests.append((request.bytes, request.hint, request.attempt))
        if not cache:
            return False
        cache.pop().free()
        return True

    requests = []
    pool = tidepool.Pool("64KiB", on_out_of_memory=make_room)
    cache += [pool.allocate(32 << 10), pool.allocate(32 << 10)]
    buffer = pool.allocate(64 << 10, hint="offloadable")
    assert requests == [(64 << 10, "offloadable", 1), (64 << 10, "offloadable", 2)]
    with pytest.raises(tidepool.OutOfMemoryError):
        pool.allocate(512)
    assert requests[2:] == [(512, "resident", 1)] and not buffer.freed


def test_a_function_may_allocate():
    def make_room(request):
        if request.bytes == 512:
            return False
        with pytest.raises(tidepool.OutOfMemoryError):
            pool.allocate(512)
        keep.free()
        return pool.allocate(1024).nbytes == 1024

    pool = tidepool.Pool("64KiB", on_out_of_memory=make_room)
    keep = pool.allocate(64 << 10)
    assert len(pool.allocate(32 << 10)) == 32 << 10


def test_a_function_must_be_callable():
    with pytest.raises(TypeError, match="on_out_of_memory is 5, expected a function"):
        tidepool.Pool("1MiB", on_out_of_memory=5)


@pytest.mark.parametrize("budget", [0, -1])
def test_a_budget_that_is_too_small_is_named(budget):
    with pytest.raises(tidepool.InputError, match=f"budget of {budget} bytes"):
        tidepool.Pool(budget)


def test_a_path_has_no_null_character(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("kept")
    monkeypatch.chdir(tmp_path)
    for call in (lambda: tidepool.Pool("1MiB", trace="a\0.x"), lambda: tidepool.Pool("1MiB", plan="a\0.x"),
                 lambda: tidepool.read("a\0.x"), lambda: tidepool.model("alexnet", batch=8, gpu="a\0.x")):
        with pytest.raises(tidepool.InputError, match=r"a\\x00.x' has a null character"):
            call()
    assert (tmp_path / "a").read_text() == "kept"


def test_a_text_of_a_framework_pool_has_no_null_character(python):
    script = """from tidepool._c_api import Pool
pool = Pool(device="host", budget="7MiB", recording=True)
pool.allocate_in("weights", 1000)
tag = "weights\\0x"
for call in (lambda: pool.pause(tag), lambda: pool.resume(tag), lambda: pool.discard_contents(tag), lambda: pool.limit_region(tag),
             lambda: pool.allocate_in(tag, 1), lambda: pool.on_out_of_memory(print, tag), lambda: pool.mark(tag), lambda: pool.owner(tag),
             lambda: pool.pause("weights", "disk", folder="/tmp\\0x"), lambda: pool.start_trace("a\\0x"),
             lambda: Pool(device="host\\0x", budget="7MiB")):
    try:
        call()
    except ValueError as error:
        assert "has a null character" in str(error), error
        print(end="refused ")
print(list(pool.regions()), pool.regions()["weights"]["is_asleep"])
"""
    assert python(script) == "refused " * 11 + "['weights'] False\n"


@pytest.mark.parametrize("error", [LookupError("no cache"), KeyboardInterrupt()])
def test_an_exception_of_the_function_reaches_the_caller(error):
    def fail(request):
        raise error

    pool = tidepool.Pool("64KiB", on_out_of_memory=fail)
    keep = pool.allocate(64 << 10)
    with pytest.raises(type(error)) as raised:
        pool.allocate(512)
    assert raised.value is error
    assert pool.statistics().live_count == 1 and pool.statistics().failures == 1
    keep.free()
    assert len(pool.allocate(512)) == 512


def test_a_function_that_uses_its_pool_leaks_nothing():
    class Cache:
        def make_room(self, request):
            return self.pool is None

    cache = Cache()
    cache.pool = tidepool.Pool("64KiB", on_out_of_memory=cache.make_room)
    with pytest.raises(tidepool.OutOfMemoryError):
        cache.pool.allocate(65 << 10)
    gone = weakref.ref(cache)
    del cache
    gc.collect()
    assert gone() is None


def test_a_request_that_would_wait_asks_the_function_before():
    requests, cache = [], []

    def make_room(request):
        requests.append(request.attempt)
        if cache:
            cache.pop().free()
            return True
        return False

    pool = tidepool.Pool("64KiB", on_out_of_memory=make_room)
    cache += [pool.allocate(32 << 10), pool.allocate(32 << 10)]
    keep = pool.allocate(64 << 10, wait=1000)
    assert requests == [1, 2]
    with pytest.raises(tidepool.DeadlineError):
        pool.allocate(512, wait=0)
    assert requests == [1, 2, 1] and not keep.freed
    failing = tidepool.Pool("64KiB", on_out_of_memory=lambda request: 1 / 0)
    keep = failing.allocate(64 << 10)
    with pytest.raises(ZeroDivisionError):
        failing.allocate(512, wait=1000)
    assert not keep.freed


def test_trim_gives_memory_back():
    pool = tidepool.Pool("1MiB", initial="1MiB")
    assert pool.trim("512KiB") == 512 << 10 and pool.statistics().reserved_bytes == 512 << 10


@pytest.mark.parametrize("options, text", [
    ({"budget": 0}, "budget of 0 bytes"),
    ({"budget": -1}, "budget"),
    ({"budget": 2**63 - 1}, "9223372036854775807"),
    ({"budget": "lots"}, "'lots' is not a size"),
    ({"budget": "1MiB", "placement": "best"}, "no placement policy 'best'"),
    ({"budget": "1MiB", "memory": "paper"}, "unknown memory 'paper'"),
    ({"budget": "1MiB", "alignment": 3}, "alignment"),
    ({"budget": "1MiB", "growth": float("nan")}, "growth"),
    ({"budget": "1MiB", "initial": "2MiB"}, "initial"),
    ({"budget": "1MiB", "trace": "/missing/step.tide"}, "/missing/step.tide"),
])
def test_wrong_options_are_errors(options, text):
    with pytest.raises(tidepool.Error, match=text):
        tidepool.Pool(**options)


@pytest.mark.parametrize("call", [
    lambda pool: pool.allocate(100, hint="soon"),
    lambda pool: pool.allocate(100, wait=-1.0),
    lambda pool: pool.allocate(100, wait=float("nan")),
])
def test_wrong_calls_are_errors(call):
    with pytest.raises(tidepool.InputError):
        call(tidepool.Pool("1MiB"))


@pytest.mark.parametrize("size, error", [(-1, "a request of -1 bytes, expected 0 to 9223372036854775807"), (1 << 63, "a request of 9223372036854775808 bytes"),
                                         (1.5, "1.5 is no size"), (None, "None is no size"), ("much", "'much' is not a size"), ("-1MiB", "-1MiB")])
def test_sizes_of_requests_are_whole_numbers_or_texts(size, error):
    with pytest.raises(tidepool.InputError, match=error):
        tidepool.Pool("1MiB").allocate(size)


def test_a_request_may_be_a_text():
    pool = tidepool.Pool("4MiB")
    buffer = pool.allocate("1MiB")
    assert len(memoryview(buffer)) == 1 << 20 and live(pool) == 1 << 20


@pytest.mark.filterwarnings("ignore:nanobind")
def test_a_pool_that_was_not_made_has_no_use():
    pool = tidepool.Pool.__new__(tidepool.Pool)
    with pytest.raises(TypeError):
        pool.allocate(1)


def test_a_forked_child_leaves_the_pool_alone():
    pool = tidepool.Pool("1MiB")
    buffer = pool.allocate(100)
    child = os.fork()
    if child == 0:
        status = 0
        for call in (lambda: pool.allocate(100), buffer.free):
            try:
                call()
                status = 1
            except tidepool.InputError as error:
                status |= 0 if "process that made it" in str(error) else 2
        del pool, buffer
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert live(pool) == 512 and len(pool.allocate(100)) == 100


# Another process holds the budget until it reads a line.
HOLDER = """
import sys, tidepool
pool = tidepool.Pool("8MiB", shared_budget=sys.argv[1])
buffer = pool.allocate("8MiB")
print("holds", flush=True)
sys.stdin.readline()
assert pool.take_wanted_by_others() == 3 << 20
buffer.free()
pool.trim()
print("gave back", flush=True)
sys.stdin.readline()
"""


def test_processes_share_a_budget(tmp_path):
    path = tmp_path / "budget"
    with subprocess.Popen([sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "holds\n"
        pool = tidepool.Pool("8MiB", shared_budget=path)
        with pytest.raises(tidepool.OutOfMemoryError, match=f"process {holder.pid} holds 8.0 MiB"):
            pool.allocate("3MiB")
        holder.stdin.write("\n")
        holder.stdin.flush()
        buffer = pool.allocate("3MiB", wait=60)
        assert holder.stdout.readline() == "gave back\n"
        with pytest.raises(tidepool.InputError, match="the same max_bytes"):
            tidepool.Pool("9MiB", shared_budget=path)
        buffer.free()
        holder.communicate("\n")
    assert holder.returncode == 0


def test_the_interpreter_exits_with_live_buffers(python):
    assert python("""
import numpy, tidepool
pool = tidepool.Pool("1MiB", trace="/dev/shm/tidepool-exit-test.tide")
array, buffer, other = pool.array(10), pool.allocate(100), pool.allocate(100)
view = memoryview(buffer)
keep = [array, view, other]
keep.append(keep)
import os
os.unlink("/dev/shm/tidepool-exit-test.tide")
print("done")
""") == "done\n"


def test_a_forked_child_exits_with_live_buffers(python):
    assert python("""
import os, sys, tidepool
pool = tidepool.Pool("1MiB")
buffer = pool.allocate(100)
child = os.fork()
if child == 0:
    sys.exit(0)
print(os.waitpid(child, 0)[1])
""") == "0\n"
