# SPDX-License-Identifier: Apache-2.0
"""Pools on the host device: buffers, their views, their ends, threads and forks."""
import concurrent.futures
import gc
import os
import threading

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


def test_the_last_view_of_an_array_gives_its_memory_back():
    pool = tidepool.Pool("1MiB")
    view = pool.array(1000, "uint8")[10:20]
    assert live(pool) == 1024
    del view
    assert live(pool) == 0


@pytest.mark.parametrize("view_of", [memoryview, numpy.asarray, numpy.from_dlpack, tidepool.Buffer.array])
def test_a_buffer_is_viewed_without_a_copy(view_of):
    buffer = tidepool.Pool("1MiB").allocate(100)
    first, second = view_of(buffer), memoryview(buffer)
    first[7] = 42
    assert second[7] == 42 and len(first) == len(buffer) == buffer.nbytes == 100


@pytest.mark.parametrize("view_of", [memoryview, numpy.asarray, numpy.from_dlpack])
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


def test_sizes_are_no_negative_numbers():
    with pytest.raises(TypeError):
        tidepool.Pool("1MiB").allocate(-1)


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
        status = 1
        try:
            pool.allocate(100)
        except tidepool.InputError as error:
            status = 0 if "process that made it" in str(error) else 2
        buffer.free()
        del pool
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert live(pool) == 512 and len(pool.allocate(100)) == 100


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
