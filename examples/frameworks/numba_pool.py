# SPDX-License-Identifier: Apache-2.0
"""Numba's arrays on a pool of tidepool: run it with NUMBA_CUDA_MEMORY_MANAGER=tidepool.numba."""
# [numba]
import numpy as np
from numba import cuda

array = cuda.to_device(np.arange(1000.0))
manager = cuda.current_context().memory_manager
# [/numba]
print(f"{manager.pool.statistics().live_bytes} bytes live in the pool")
