#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CuPy on a pool with real kernels: sums on streams that end before their memory is used again. Prints one JSON object."""
import json
import sys

import cupy
import numpy

import tidepool.cupy

ROUNDS, COUNT = 200, 1 << 18
FIGURES = ("live_bytes", "reserved_bytes", "allocations", "stream_waits", "failures")


def is_right(random):
    host = random.random(COUNT)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        on_device = cupy.asarray(host)
        total = (on_device * 2 + 1).sum()
    del on_device, stream  # CuPy destroys the stream here, while its memory waits in the pool
    zeros = cupy.zeros(COUNT)  # the default stream takes that memory
    return bool(numpy.allclose(float(total), (host * 2 + 1).sum()) and not zeros.any())


def main():
    tidepool.cupy.enable(budget="4GiB")
    random = numpy.random.default_rng(1)
    wrong = sum(not is_right(random) for _ in range(ROUNDS))
    x = cupy.random.random((2048, 2048), dtype=cupy.float32)
    error = float(cupy.abs(x @ x - (x.astype("f8") @ x.astype("f8"))).max() / 2048)
    figures = tidepool.cupy.pool().statistics().as_dict()
    print(json.dumps({"cupy": cupy.__version__, "rounds": ROUNDS, "wrong_rounds": wrong, "product_error": error,
                      **{name: figures[name] for name in FIGURES if name in figures}}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
