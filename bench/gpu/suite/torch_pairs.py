#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nanoseconds of a request and its free through PyTorch, without Python in between, for an allocator. Prints one JSON object.

The compiled allocator of tidepool.torch has the loops, and a floor: the same loop without an allocator.
usage: torch_pairs.py native|expandable|tidepool
"""
import ctypes
import json
import os
import sys

SIZES = {"4 KiB": 4 << 10, "64 KiB": 64 << 10, "2 MiB": 2 << 20, "64 MiB": 64 << 20}
PAIRS, ROUNDS = 20000, 7


def nanoseconds(function, size):
    """Returns the median of several rounds."""
    function.restype = ctypes.c_char_p
    function.argtypes = [ctypes.c_size_t, ctypes.c_long, ctypes.POINTER(ctypes.c_double)]
    taken, times = ctypes.c_double(), []
    for _ in range(ROUNDS):
        error = function(size, PAIRS, ctypes.byref(taken))
        if error is not None:
            sys.exit(error.decode(errors="replace"))
        times.append(taken.value)
    return round(sorted(times)[ROUNDS // 2], 1)


def main(allocator):
    if allocator == "expandable":
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    import torch

    import tidepool.torch as tidepool

    if allocator == "tidepool":
        tidepool.enable(method="compiled", nvtx="off")
    library = ctypes.CDLL(str(tidepool._compiled()))
    in_use = [torch.empty(1 << 20, device="cuda") for _ in range(200)]
    row = {"allocator": allocator, "pairs_ns": {name: nanoseconds(library.tidepool_torch_time_pairs, size) for name, size in SIZES.items()},
           "floor_ns": nanoseconds(library.tidepool_torch_time_floor_pairs, 64 << 10)}
    if allocator == "tidepool":
        row["pool_alone_ns"] = {name: nanoseconds(library.tidepool_torch_time_pool_pairs, size) for name, size in SIZES.items()}
    del in_use
    print(json.dumps(row))


if __name__ == "__main__":
    main(sys.argv[1])
