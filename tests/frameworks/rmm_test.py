# SPDX-License-Identifier: Apache-2.0
"""rmm's Python package on a pool: resources, adaptors, buffers, failures."""
import rmm
import rmm.mr

import tidepool.rmm
from tidepool._c_face import OutOfMemory, Pool, shared_pool

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
