# SPDX-License-Identifier: Apache-2.0
"""cuda.core's buffers on a pool."""
import cuda.core
from cuda.core import Device

import tidepool.cuda_core

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
left_to_the_collector = resource.allocate(1000, stream=stream)
del left_to_the_collector
assert resource.pool.statistics().live_count == 0
try:
    resource.allocate(1 << 40, stream=stream)
    raise AssertionError("no error")
except MemoryError as error:
    assert "raise option 'budget'" in str(error), error

# Numba shares the pool: memory that cuda.core frees is Numba's next memory, under one budget.
import tidepool.numba  # noqa: E402
from numba import cuda as numba_cuda  # noqa: E402
from tidepool._c_face import Pool, shared_pool  # noqa: E402

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
