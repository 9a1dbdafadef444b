# SPDX-License-Identifier: Apache-2.0
"""rmm's Python package on a pool: resources, adaptors, buffers, failures."""
import ctypes

import rmm
import rmm.mr
from rmm.pylibrmm.stream import Stream

import tidepool.rmm
from tidepool._c_api import OutOfMemory, Pool, shared_pool, stream_handle

stand_in = ctypes.CDLL("libcudart.so.13")


def check(error):
    assert error == 0, error


class OwnStream:
    """A stream of the stand-in: RMM's wheel holds NVIDIA's runtime, which makes none here."""

    def __init__(self):
        self.handle = ctypes.c_void_p()
        check(stand_in.cudaStreamCreateWithFlags(ctypes.byref(self.handle), 1))

    def __cuda_stream__(self):
        return 0, self.handle.value


def begin_capture(stream):
    check(stand_in.cudaStreamBeginCapture(ctypes.c_void_p(stream_handle(stream)), 0))


def end_capture(stream):
    graph, launched = ctypes.c_void_p(), ctypes.c_void_p()
    check(stand_in.cudaStreamEndCapture(ctypes.c_void_p(stream_handle(stream)), ctypes.byref(graph)))
    check(stand_in.cudaGraphInstantiate(ctypes.byref(launched), graph, ctypes.c_ulonglong(0)))
    return launched


def launch(graph, stream):
    check(stand_in.cudaGraphLaunch(graph, ctypes.c_void_p(stream_handle(stream))))
    check(stand_in.cudaStreamSynchronize(ctypes.c_void_p(stream_handle(stream))))


def fill(buffer, value, stream):
    check(stand_in.cudaMemsetAsync(ctypes.c_void_p(buffer.ptr), value, ctypes.c_size_t(buffer.size),
                                   ctypes.c_void_p(stream_handle(stream))))

resource = tidepool.rmm.MemoryResource(0, budget="64MiB")
pool = resource.pool
assert pool is shared_pool(0)

address = resource.allocate(1000)
assert pool.statistics().live_bytes == 1024
resource.deallocate(address, 1000)
assert pool.statistics().live_bytes == 0

adaptor = rmm.mr.StatisticsResourceAdaptor(resource)
adaptor.deallocate(adaptor.allocate(500), 500)
assert adaptor.allocation_counts.total_bytes == 500
assert pool.statistics().allocations == 2

buffer = rmm.DeviceBuffer(size=100, mr=resource)
assert pool.statistics().live_count == 1
del buffer
assert pool.statistics().live_count == 0

# Memory that a capture was given belongs to the graph as long as it can be launched.
stream = Stream(OwnStream())
# [rmm-graph]
with resource.capture(stream) as memory:
    begin_capture(stream)
    inside = rmm.DeviceBuffer(size=1000, stream=stream, mr=resource)
    fill(inside, 3, stream)
    graph = end_capture(stream)
launch(graph, stream)
# [/rmm-graph]
written = inside.ptr
assert ctypes.string_at(written, 1000) == bytes([3]) * 1000
del inside
others = [rmm.DeviceBuffer(size=1000, stream=stream, mr=resource) for _ in range(20)]
assert written not in [other.ptr for other in others]
del others
memory.release()
assert pool.statistics().live_count == 0
begin_capture(stream)
try:
    rmm.DeviceBuffer(size=1000, stream=stream, mr=resource)
    raise AssertionError("no error")
except RuntimeError as error:
    assert "capture() in Python" in str(error), error
end_capture(stream)  # it lives on

try:
    resource.allocate(1 << 40)
    raise AssertionError("no error")
except MemoryError as error:
    assert "raise option 'budget'" in str(error), error

own = tidepool.rmm.MemoryResource(pool=Pool(device="cuda:0", budget="1MiB"))
assert own.pool.statistics().max_bytes == 1 << 20
try:
    tidepool.rmm.MemoryResource(0, budget="1MiB")
    raise AssertionError("no error")
except ValueError as error:
    assert "exists already" in str(error), error
try:
    Pool(device="cuda:0", bugdet="1MiB")
    raise AssertionError("no error")
except ValueError as error:
    assert str(error).startswith("no option 'bugdet', expected one of budget"), error
try:
    Pool(device="cuda:0", budget="1MiB").allocate(2 << 20)
    raise AssertionError("no error")
except OutOfMemory:
    pass
assert tidepool.rmm.enable()[0].pool is pool
# Left alive: the interpreter ends with live memory.
left = rmm.DeviceBuffer(size=100, mr=resource)
print("rmm", rmm.__version__, "in Python: OK")
