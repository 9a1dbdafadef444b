#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""numba-cuda on a pool with real kernels: scaled arrays on several streams. Prints one JSON object."""
import json
import sys

import numba_cuda
import numpy

if not hasattr(numpy, "row_stack"):  # numba-cuda 0.30 names it when it compiles; NumPy 2.5 has the function as vstack alone
    numpy.row_stack = numpy.vstack

from numba import cuda

import tidepool.numba
from tidepool._c_api import shared_pool

ROUNDS, COUNT = 100, 1 << 18


def main():
    tidepool.numba.enable(budget="4GiB")

    @cuda.jit
    def scale(values, factor):
        i = cuda.grid(1)
        if i < values.size:
            values[i] *= factor

    streams, wrong = [cuda.stream() for _ in range(4)], 0
    host = numpy.arange(COUNT, dtype=numpy.float64)
    for i in range(ROUNDS):
        stream = streams[i % len(streams)]
        on_device = cuda.to_device(host, stream=stream)
        scale[(COUNT + 255) // 256, 256, stream](on_device, i)
        back = on_device.copy_to_host(stream=stream)
        stream.synchronize()
        wrong += not numpy.array_equal(back, host * i)
    print(json.dumps({"numba_cuda": numba_cuda.__version__, "rounds": ROUNDS, "wrong_rounds": wrong,
                      "live_count": shared_pool(0).statistics().live_count}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
