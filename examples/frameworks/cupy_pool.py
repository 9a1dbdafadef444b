# SPDX-License-Identifier: Apache-2.0
"""CuPy's arrays on a pool of tidepool."""
# [cupy]
import cupy

import tidepool.cupy

tidepool.cupy.enable(budget="80%")
array = cupy.zeros(1 << 17)
# [/cupy]
print(f"{tidepool.cupy.pool().statistics().live_bytes} bytes live in the pool")
