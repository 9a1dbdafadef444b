# SPDX-License-Identifier: Apache-2.0
"""PyTorch's caching allocator under the workload of gpu_bench: random/N of log-uniform sizes from 512 B to 64 MiB.

Calls come from Python, so the time of a call that does nothing is given beside. Prints one JSON object.
usage: python3 bench/gpu/pytorch_allocator_bench.py
"""
import json
import math
import random
import time

import torch

STEPS = 50_000
ROUNDS = 7


def sizes(count, seed=1):
    source = random.Random(seed)
    low, high = math.log2(512), math.log2(64 << 20)
    return [int(2 ** source.uniform(low, high)) for _ in range(count)]


def replacement(live, allocate, free):
    """Returns the nanoseconds per pair: the median of several rounds."""
    table = sizes(1 << 16)
    victims = [random.Random(2).randrange(live) for _ in range(1 << 16)]
    blocks = [allocate(table[i]) for i in range(live)]
    rounds = []
    for _ in range(ROUNDS + 1):  # the first reaches the steady state
        begin = time.perf_counter_ns()
        for i in range(STEPS):
            victim = victims[i & 0xFFFF]
            free(blocks[victim])
            blocks[victim] = allocate(table[i & 0xFFFF])
        rounds.append((time.perf_counter_ns() - begin) / STEPS)
    for block in blocks:
        free(block)
    return sorted(rounds[1:])[ROUNDS // 2]


def main():
    torch.cuda.init()
    stream = torch.cuda.current_stream().cuda_stream
    raw_allocate = torch._C._cuda_cudaCachingAllocator_raw_alloc
    raw_free = torch._C._cuda_cudaCachingAllocator_raw_delete
    rows = []
    for live in (100, 1000):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        pair = replacement(live, lambda size: raw_allocate(size, stream), raw_free)
        empty = replacement(live, lambda size: divmod(size, stream + 1), id)
        stats = torch.cuda.memory_stats()
        rows.append({"workload": f"random/{live}", "ns": pair, "python_alone_ns": empty,
                     "reserved_per_peak_live": stats["reserved_bytes.all.peak"] / stats["requested_bytes.all.peak"]})
    print(json.dumps({"torch": torch.__version__, "gpu": torch.cuda.get_device_name(), "pairs": rows}))


if __name__ == "__main__":
    main()
