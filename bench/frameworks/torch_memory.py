#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory and times of PyTorch's allocators and tidepool for the same training steps, without a GPU.

usage: BENCH=1 scripts/framework_tests.sh torch

Prints for each model and allocator the peak of live and of reserved bytes, in MiB, over the first two steps,
over the steps from the third on, and in the last step. Then come the nanoseconds of a request and its free: through
PyTorch, of the pool alone through its C interface, and of an allocator that does nothing through PyTorch. The last is the
part of PyTorch and of the CUDA runtime. Kernels do nothing, and cuDNN's workspaces are guesses, so the requests of
convolutions are not those of a GPU.
"""
import ctypes
import json
import os
import pathlib
import sys
import warnings

ROOT = pathlib.Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests/frameworks/torch")]
warnings.filterwarnings("ignore")

STEPS = 8
MODELS = ["mlp", "resnet18", "gpt", "gpt-recomputed", "gpt-larger", "lstm"]
ALLOCATORS = ["native", "expandable", "best-fit", "planned"]
MIB = 1 << 20


def enable(allocator):
    """Chooses the allocator; returns a function that is called before each step."""
    import tidepool.torch as tidepool
    if allocator in ("native", "expandable"):
        return tidepool, lambda i: None
    tidepool.enable(placement=allocator)
    if allocator == "best-fit":
        return tidepool, lambda i: None

    def begin(_):
        tidepool.await_plans()  # steps take milliseconds here, and plans seconds
        tidepool.mark_iteration()

    return tidepool, begin


def measure(model, allocator):
    """Trains in this process, and returns the figures."""
    if allocator == "expandable":
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    import models
    import torch
    tidepool, begin = enable(allocator)
    figures = []

    def before(i):
        begin(i)
        torch.cuda.reset_peak_memory_stats()

    def after(_):
        figures.append([torch.cuda.max_memory_allocated() / MIB, torch.cuda.max_memory_reserved() / MIB])

    models.train(model, STEPS, before_step=before, after_step=after)
    # The timing function calls the current allocator, also PyTorch's own.
    library = ctypes.CDLL(str(tidepool._compiled()))
    pool = pair_time(library.tidepool_torch_time_pool_pairs) if tidepool.is_enabled() else None
    return {"steps": figures, "pair": pair_time(library.tidepool_torch_time_pairs), "pool": pool,
            "floor": pair_time(library.tidepool_torch_time_floor_pairs)}


def pair_time(function):
    """Returns the nanoseconds of a request of 64 KiB and its free: the fastest of several runs."""
    function.restype = ctypes.c_char_p
    function.argtypes = [ctypes.c_size_t, ctypes.c_long, ctypes.POINTER(ctypes.c_double)]
    nanoseconds = ctypes.c_double()
    times = []
    for _ in range(20):
        error = function(64 << 10, 20000, ctypes.byref(nanoseconds))
        assert error is None, error
        times.append(nanoseconds.value)
    return min(times)


def in_child(model, allocator):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, json.dumps(measure(model, allocator)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(f"{model} with {allocator} failed")
    return json.loads(text)


def memory(steps):
    """Returns the text of the peaks of some steps."""
    live, reserved = (max(column) for column in zip(*steps))
    return f"{live:8.1f} {reserved:8.1f} {reserved / live:6.3f}"


def main():
    columns = f"{'live':>8} {'reserved':>8} {'ratio':>6}"
    print(f"{'':26} {'steps 1 and 2':^24}   {'from step 3':^24}   {'last step':^24}   {'nanoseconds of a pair':^21}")
    print(f"{'model':15} {'allocator':10} " + f"{columns}   " * 3 + f"{'PyTorch':>7} {'pool':>6} {'floor':>6}")
    for model in MODELS:
        for allocator in ALLOCATORS:
            result = in_child(model, allocator)
            steps = result["steps"]
            pool = "" if result["pool"] is None else format(result["pool"], ".0f")
            print(f"{model:15} {allocator:10} {memory(steps[:2])}   {memory(steps[2:])}   {memory(steps[-1:])}   "
                  f"{result['pair']:7.0f} {pool:>6} {result['floor']:6.0f}", flush=True)


if __name__ == "__main__":
    main()
