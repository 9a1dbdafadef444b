# SPDX-License-Identifier: Apache-2.0
"""RMM's buffers on a pool of tidepool."""
# [rmm]
import rmm

import tidepool.rmm

resource = tidepool.rmm.MemoryResource(0, budget="80%")
buffer = rmm.DeviceBuffer(size=1 << 20, mr=resource)
# [/rmm]
print(f"{resource.pool.statistics().live_bytes} bytes live in the pool")
