# SPDX-License-Identifier: Apache-2.0
"""cuda.core's buffers on a pool."""
import ctypes

import cuda.core
from cuda.core import Device

import tidepool.cuda_core
from tidepool._c_api import PoolError, Pool, shared_pool

device = Device(0)
device.set_current()
resource = tidepool.cuda_core.MemoryResource(0, budget="64MiB")
stream = device.create_stream()
assert resource.device_id == 0 and resource.is_device_accessible and not resource.is_host_accessible

buffer = resource.allocate(1000, stream=stream)
assert buffer.size == 1000 and buffer.memory_resource is resource
assert resource.pool.owns(int(buffer.handle))
assert resource.pool.blocks()[0]["stream"] == int(stream.handle)
buffer.close(stream)
assert resource.pool.statistics().live_count == 0
# Versions before 0.5 pass the stream by its position.
by_position = resource.allocate(1000, stream)
assert resource.pool.blocks()[0]["stream"] == int(stream.handle)
by_position.close(stream)
raw = resource.pool.allocate(1000, int(stream.handle))
resource.deallocate(raw, 1000, stream)
assert resource.pool.statistics().live_count == 0
left_to_the_collector = resource.allocate(1000, stream=stream)
del left_to_the_collector
assert resource.pool.statistics().live_count == 0
# In versions in which a buffer has no stream, the memory is used again after the work of the stream of the request.
class WithoutStream:
    @staticmethod
    def from_handle(address, size, mr):
        return address


tidepool.cuda_core.Buffer, buffers = WithoutStream, tidepool.cuda_core.Buffer
late, free_late = [], resource.pool.free_late
resource.pool.free_late = lambda address: (late.append(address), free_late(address))
for stream_of_the_end in (None, stream):
    address = resource.allocate(1000, stream=stream)
    resource.deallocate(address, 1000, stream_of_the_end)
    assert late.pop() == address and resource.pool.statistics().live_count == 0
del resource.pool.free_late
tidepool.cuda_core.Buffer = buffers
try:
    resource.allocate(1 << 40, stream=stream)
    raise AssertionError("no error")
except MemoryError as error:
    assert "raise option 'budget'" in str(error), error

# A stream ends, and another one gets its handle: it waits for the work of the first.
stand_in = ctypes.CDLL("libcudart.so.13")
short = device.create_stream()
handle = int(short.handle)
read = resource.allocate(1000, stream=short)
address = int(read.handle)
read.fill(1, stream=short)
short.sync()
page_locked = ctypes.c_void_p()
assert stand_in.cudaMallocHost(ctypes.byref(page_locked), ctypes.c_size_t(1000)) == 0
stand_in.cudartHostHoldCopies(0)
assert stand_in.cudaMemcpyAsync(page_locked, ctypes.c_void_p(address), ctypes.c_size_t(1000), 2, ctypes.c_void_p(handle)) == 0
read.close(short)
short.close()
later = device.create_stream()
assert int(later.handle) == handle, "the stand-in gives the handle out again"
written = resource.allocate(1000, stream=later)
assert int(written.handle) == address
written.fill(2, stream=later)
stand_in.cudartHostReleaseCopies(0)
later.sync()
assert ctypes.string_at(page_locked.value, 1000) == bytes([1]) * 1000
written.close(later)
assert stand_in.cudaFreeHost(page_locked) == 0

# Memory that a capture was given belongs to the graph as long as it can be launched.
result = resource.allocate(1000, stream=stream)
stream.sync()
# [cuda-core-graph]
builder = stream.create_graph_builder()
with resource.capture(builder) as memory:
    builder.begin_building()
    inside = resource.allocate(1000, stream=builder)
    inside.fill(3, stream=builder)
    result.copy_from(inside, stream=builder)
    builder.end_building()
graph = memory.keep_for(builder.complete())
# [/cuda-core-graph]
written = int(inside.handle)
inside.close(stream)
others = [resource.allocate(1000, stream=stream) for _ in range(20)]
for other in others:
    other.fill(0, stream=stream)
assert written not in [int(other.handle) for other in others]
graph.launch(stream)
stream.sync()
assert ctypes.string_at(int(result.handle), 1000) == bytes([3]) * 1000
reserved = resource.pool.statistics().live_bytes
del graph
assert resource.pool.statistics().live_bytes < reserved, "the graph's memory is back"
del result, others, other

# A capture that is not told, and one that is told too late, are refused in words, and live on.
builder = device.create_graph_builder()
builder.begin_building()
for refused in (lambda: resource.allocate(1000, stream=builder), lambda: resource.capture(builder)):
    try:
        refused()
        raise AssertionError("no error")
    except PoolError as error:
        assert "before" in str(error) and "tidepool_begin_graph" in str(error), error
builder.end_building().complete()
# An error in the block is told, and the memory comes back after the capture.
builder = device.create_graph_builder()
try:
    with resource.capture(builder) as memory:
        builder.begin_building()
        raise ZeroDivisionError
except ZeroDivisionError:
    assert not memory.has_ended
builder.end_building()
memory.release()
memory.release()
assert resource.pool.statistics().live_count == 0

# In a pool of a framework that keeps its streams, others may end after any call that names them.
stays = Pool.of_handle(Pool(device="cuda:0", budget="1MiB", streams="stay").handle)
streams = [device.create_stream() for _ in range(3)]
handles = [int(each.handle) for each in streams]
stays.free(stays.allocate(1 << 20, handles[0]), handles[1])
streams[1].close()
stays.free(stays.allocate(1 << 20, handles[2]), handles[2])

# Numba shares the pool: memory that cuda.core frees is Numba's next memory, under one budget.
import tidepool.numba  # noqa: E402
from numba import cuda as numba_cuda  # noqa: E402

tidepool.numba.enable()
half = resource.allocate(32 << 20, stream=device.default_stream)
address = int(half.handle)
try:
    numba_cuda.device_array(40 << 20, dtype="uint8")
    raise AssertionError("no error")
except MemoryError as error:
    assert "raise option 'budget'" in str(error), error
half.close(device.default_stream)
array = numba_cuda.device_array(32 << 20, dtype="uint8")
assert array.device_ctypes_pointer.value == address
same = Pool.of_handle(shared_pool(0).handle)
assert same.statistics().live_bytes == 32 << 20 and same.device == 0
print("cuda.core", cuda.core.__version__, "OK")
