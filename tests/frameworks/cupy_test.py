# SPDX-License-Identifier: Apache-2.0
"""CuPy on a pool: arrays, streams, page-locked memory, failures."""
import ctypes
import gc

import cupy
import numpy as np

import tidepool.cupy
from tidepool._c_api import shared_pool

before = cupy.asarray(np.arange(10.0))  # memory of CuPy's own pool
tidepool.cupy.enable(budget="64MiB")
pool = shared_pool(0)


def live():
    return pool.statistics().live_count


numbers = np.arange(1000.0)
array = cupy.asarray(numbers)
assert live() == 1 and pool.owns(array.data.ptr)
assert (array.get() == numbers).all() and (before.get() == np.arange(10.0)).all()
view = array[10:]
copy = cupy.empty_like(array)
copy.data.copy_from_device(array.data, array.nbytes)
assert live() == 2 and (copy.get() == numbers).all()
del array, copy
assert live() == 1
del view
assert live() == 0
assert cupy.zeros(1000).get().sum() == 0
assert cupy.empty(0).size == 0

# Memory goes to the stream that is current.
stream = cupy.cuda.Stream(non_blocking=True)
with stream:
    on_stream = cupy.empty(1000)
    on_stream.set(numbers)
    assert (on_stream.get() == numbers).all()
    assert [block["stream"] for block in pool.blocks() if block["live"]] == [stream.ptr]

# Work of the stream that is current at the free has finished before other streams use the memory.
stand_in = ctypes.CDLL("libcudart.so.13")
other, third = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
address, size = on_stream.data.ptr, on_stream.nbytes
stand_in.cudartHostHoldCopies(0)
page_locked = cupy.cuda.alloc_pinned_memory(size)
target = np.frombuffer(page_locked, dtype=np.float64, count=1000)
with other:
    cupy.cuda.runtime.memcpyAsync(page_locked.ptr, address, size, 2, other.ptr)
    del on_stream
with third:
    again = cupy.empty(1000)
    assert again.data.ptr == address
    again.data.memset_async(0, size, third)
    for _ in range(50000):  # time for a thread of the stand-in
        assert not third.done
stand_in.cudartHostReleaseCopies(0)
third.synchronize()
assert (target == numbers).all()
del again, target, page_locked
assert live() == 0

# A stream that CuPy destroys is used no more: the stand-in ends a process that names one.
for _ in range(3):
    short = cupy.cuda.Stream(non_blocking=True)
    with short:
        passing = cupy.empty(1000)
    del passing, short
    assert live() == 0
    cupy.empty(pool.statistics().max_bytes, dtype=np.uint8)

# In a cycle of references the stream may be destroyed before its memory is freed.
class Holder:
    pass


holder = Holder()
holder.itself, holder.stream = holder, cupy.cuda.Stream(non_blocking=True)
with holder.stream:
    holder.array = cupy.empty(1000)
del holder
gc.collect()
assert live() == 0

# So it may where its owner is another library.
handle = cupy.cuda.runtime.streamCreateWithFlags(1)
with cupy.cuda.ExternalStream(handle):
    of_others = cupy.empty(1000)
cupy.cuda.runtime.streamDestroy(handle)
del of_others
assert live() == 0
cupy.empty(pool.statistics().max_bytes, dtype=np.uint8)

# Memory that a capture was given belongs to the graph as long as it can be launched.
capturing = cupy.cuda.Stream(non_blocking=True)
result = cupy.empty(1000)
result.data.memset_async(0, result.nbytes, capturing)
with capturing:
    capturing.begin_capture()
    inside = cupy.empty(1000)
    inside.data.memset_async(3, inside.nbytes, capturing)
    result.data.copy_from_device_async(inside.data, result.nbytes, capturing)
    written = inside.data.ptr
    del inside
    assert cupy.empty(1000).data.ptr == written, "a capture uses its memory again"
    graph = capturing.end_capture()
taken = [cupy.zeros(1000) for _ in range(100)]
assert written not in [array.data.ptr for array in taken]
graph.launch(capturing)
capturing.synchronize()
assert (result.get().view(np.uint8) == 3).all() and all((array.get() == 0).all() for array in taken)
del taken, result
reserved = live()
del graph
assert live() < reserved, "the graph's memory is back"
with capturing:
    capturing.begin_capture()
    outlives = cupy.empty(1000)
    outlives.data.memset_async(3, outlives.nbytes, capturing)
    graph = capturing.end_capture()
del graph, outlives
assert live() == 0
with capturing:
    capturing.begin_capture()
    abandoned = cupy.empty(1000)
del abandoned, capturing  # with its capture
assert live() == 0

limit = pool.statistics().max_bytes
try:
    cupy.empty(limit + 1, dtype=np.uint8)
    raise AssertionError("no error")
except cupy.cuda.memory.OutOfMemoryError as error:
    assert isinstance(error, MemoryError) and "raise option 'budget'" in str(error), error
held = cupy.empty(limit // 2, dtype=np.uint8)
try:
    cupy.empty(limit // 2 + 1, dtype=np.uint8)
    raise AssertionError("no error")
except MemoryError as error:
    assert "free 1 bytes" in str(error), error
del held
assert cupy.empty(limit // 2 + 1, dtype=np.uint8).size == limit // 2 + 1

tidepool.cupy.disable()
own = cupy.empty(100)
assert not pool.owns(own.data.ptr) and live() == 0
tidepool.cupy.enable()
# Left alive: the interpreter ends with live memory.
left = cupy.empty(100)
print("CuPy", cupy.__version__, "OK")
