# SPDX-License-Identifier: Apache-2.0
"""numba-cuda on a pool: arrays, streams, deferred frees, failures."""
import ctypes

import numba_cuda
import numpy as np
from cuda.core import Device
from numba import cuda

import tidepool.numba
from tidepool._c_api import PoolError, shared_pool, stream_handle

tidepool.numba.enable(budget="64MiB")


def live():
    return shared_pool(0).statistics().live_count


numbers = np.arange(1000.0)
on_device = cuda.to_device(numbers)
assert live() == 1 and (on_device.copy_to_host() == numbers).all()
other = cuda.device_array((10, 10))
view = other[:5]
assert live() == 2
del on_device, other
cuda.current_context().deallocations.clear()
assert live() == 1
del view
cuda.current_context().deallocations.clear()
assert live() == 0
assert cuda.device_array(0).size == 0

info = cuda.current_context().get_memory_info()
assert info.total == 64 << 20 and info.free == 64 << 20, info
assert cuda.pinned_array(10).shape == (10,) and cuda.mapped_array(10).shape == (10,)
with cuda.pinned(numbers):
    stream = cuda.stream()
    on_stream = cuda.to_device(numbers, stream=stream)
    stream.synchronize()
    assert (on_stream.copy_to_host() == numbers).all()
with cuda.defer_cleanup():
    del on_stream
assert live() == 0, live()

# Memory that was freed while a stream still copies from it is used by another stream after the copy.
stand_in = ctypes.CDLL("libcudart.so.13")
reading, writing = cuda.stream(), cuda.stream()
pinned = cuda.pinned_array(1000)
before = cuda.to_device(numbers)
address = before.device_ctypes_pointer.value
stand_in.cudartHostHoldCopies(0)
before.copy_to_host(pinned, stream=reading)
del before
after = cuda.device_array(1000)
assert after.device_ctypes_pointer.value == address
done = cuda.event()
done.record(writing)
for _ in range(50000):  # time for a thread of the stand-in
    assert not done.query()
stand_in.cudartHostReleaseCopies(0)
done.synchronize()
assert (pinned == numbers).all()
del after



# Memory that a capture was given belongs to the graph as long as it can be launched.
def copy_async(to, array, stream):
    assert stand_in.cudaMemsetAsync(address_of(array), 3, ctypes.c_size_t(array.nbytes), on(stream)) == 0
    assert stand_in.cudaMemcpyAsync(address_of(to), address_of(array), ctypes.c_size_t(array.nbytes), 3, on(stream)) == 0


def address_of(array):
    return ctypes.c_void_p(array.device_ctypes_pointer.value)


def on(stream):
    return ctypes.c_void_p(stream_handle(stream))


device = Device(0)
device.set_current()
result = cuda.device_array(1000)
# [numba-graph]
builder = device.create_stream().create_graph_builder()
with tidepool.numba.capture(builder) as memory:
    builder.begin_building()
    inside = cuda.device_array(1000)
    copy_async(result, inside, builder)
    builder.end_building()
graph = memory.keep_for(builder.complete())
# [/numba-graph]
written = inside.device_ctypes_pointer.value
del inside
others = [cuda.to_device(numbers) for _ in range(20)]
assert written not in [other.device_ctypes_pointer.value for other in others]
launched_on = device.create_stream()
cuda.synchronize()
graph.launch(launched_on)
launched_on.sync()
assert (result.copy_to_host().view(np.uint8) == 3).all() and all((other.copy_to_host() == numbers).all() for other in others)
del result, others
live_bytes = shared_pool(0).statistics().live_bytes
del graph
assert shared_pool(0).statistics().live_bytes < live_bytes, "the graph's memory is back"

# A stream of Numba is blocking: its capture survives no work of the default stream.
capturing = cuda.stream()
earlier, freed = cuda.to_device(numbers), cuda.to_device(numbers)
cuda.current_context().deallocations.clear()
before = live()
with tidepool.numba.capture(capturing) as memory:
    assert stand_in.cudaStreamBeginCapture(on(capturing), 0) == 0
    inside = cuda.device_array(1000)
    address = inside.device_ctypes_pointer.value
    del inside
    inside = cuda.device_array(1000)
    assert inside.device_ctypes_pointer.value == address, "a capture uses its memory again"
    del inside, freed
    try:
        tidepool.numba.capture(capturing)
        raise AssertionError("no error")
    except PoolError as error:
        assert "captures a graph already" in str(error), error
    captured = ctypes.c_void_p()
    assert stand_in.cudaStreamEndCapture(on(capturing), ctypes.byref(captured)) == 0
memory.release()
assert stand_in.cudaStreamBeginCapture(on(capturing), 0) == 0
try:
    cuda.device_array(1000)
    raise AssertionError("no error")
except PoolError as error:
    assert "tidepool.numba.capture(stream)" in str(error), error
del earlier
assert stand_in.cudaStreamEndCapture(on(capturing), ctypes.byref(captured)) == 0, "the capture lives on"
after = cuda.device_array(1000)
assert live() == before - 2 + 1, "what was freed meanwhile is back"
del after

try:
    cuda.device_array(1 << 40, dtype=np.uint8)
    raise AssertionError("no error")
except MemoryError as error:
    assert "raise option 'budget'" in str(error), error
try:
    cuda.device_array(10).get_ipc_handle()
    raise AssertionError("no error")
except NotImplementedError as error:
    assert "pool" in str(error), error
# The end of the context is the end of the pool, and the next context has another one with the same options.
pool, left = shared_pool(0), cuda.device_array(10)
cuda.get_current_device().reset()  # which cuda.close() calls for each device
after = cuda.to_device(numbers)
assert shared_pool(0) is not pool and cuda.current_context().get_memory_info().total == 64 << 20
del left
cuda.current_context().deallocations.clear()
assert live() == 1 and (after.copy_to_host() == numbers).all()
another = cuda.device_array(1000)
assert another.device_ctypes_pointer.value != after.device_ctypes_pointer.value
del after, another
# Left alive: the interpreter ends with live memory.
left = cuda.device_array(10)
print("numba-cuda", numba_cuda.__version__, "OK")
