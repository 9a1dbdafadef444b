# SPDX-License-Identifier: Apache-2.0
"""numba-cuda on a pool: arrays, streams, deferred frees, failures."""
import ctypes

import numba_cuda
import numpy as np
from numba import cuda

import tidepool.numba
from tidepool._c_face import shared_pool

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
# Left alive: the interpreter ends with live memory.
left = cuda.device_array(10)
print("numba-cuda", numba_cuda.__version__, "OK")
