# SPDX-License-Identifier: Apache-2.0
"""Buffers of cuda.core on a pool of tidepool."""
# [cuda_core]
from cuda.core import Device

import tidepool.cuda_core

device = Device(0)
device.set_current()
resource = tidepool.cuda_core.MemoryResource(0, budget="80%")
buffer = resource.allocate(1 << 20, stream=device.create_stream())
# [/cuda_core]
print(f"{resource.pool.statistics().live_bytes} bytes live in the pool")
