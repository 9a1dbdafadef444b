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
    del on_device
    zeros = cupy.zeros(COUNT)  # the default stream takes that memory while the stream may still read it
    is_sum_right = numpy.allclose(float(total.get(stream=stream)), (host * 2 + 1).sum())
    del total, stream  # CuPy destroys the stream here; its memory waits in the pool
    return bool(is_sum_right and not zeros.any() and not cupy.zeros(COUNT).any())


def is_graph_right():
    """A launch writes to memory of its capture, which no other array got meanwhile."""
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = cupy.arange(COUNT, dtype=cupy.float64)
        out = x * 3 + 1  # compiles the kernels before the capture
        stream.synchronize()
        stream.begin_capture()
        inside = x * 3
        cupy.add(inside, 1, out=out)
        del inside
        graph = stream.end_capture()
        out.fill(0)
    stream.synchronize()
    others = [cupy.zeros(COUNT) for _ in range(64)]
    cupy.cuda.Device().synchronize()
    graph.launch(stream)
    stream.synchronize()
    return bool((out == x * 3 + 1).all() and not any(zeros.any() for zeros in others))


def main():
    tidepool.cupy.enable(budget="4GiB")
    random = numpy.random.default_rng(1)
    wrong = sum(not is_right(random) for _ in range(ROUNDS))
    graph = is_graph_right()
    x = cupy.random.random((2048, 2048), dtype=cupy.float32)
    error = float(cupy.abs(x @ x - (x.astype("f8") @ x.astype("f8"))).max() / 2048)
    figures = tidepool.cupy.pool().statistics().as_dict()
    print(json.dumps({"cupy": cupy.__version__, "rounds": ROUNDS, "wrong_rounds": wrong, "graph_is_right": graph, "product_error": error,
                      **{name: figures[name] for name in FIGURES if name in figures}}))
    return 0 if graph and wrong == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
