#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the Python package: its import, reading a trace beside the tool, and calls of a pool.

usage: PYTHONPATH=build/release/python build/python/bin/python bench/micro/python_package.py TOOL TRACE...
"""
import argparse
import statistics
import subprocess
import sys
import time
import timeit

import tidepool

ROUNDS = 9


def median_seconds(call, rounds=ROUNDS):
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def pair_nanoseconds(pool):
    count = 100_000
    return min(timeit.repeat(lambda: pool.allocate(1000), number=count, repeat=5)) / count * 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool")
    parser.add_argument("traces", nargs="+")
    arguments = parser.parse_args()
    bare = median_seconds(lambda: run(sys.executable, "-c", "pass"))
    whole = median_seconds(lambda: run(sys.executable, "-c", "import tidepool"))
    print(f"import tidepool: {(whole - bare) * 1e3:.0f} ms, in an interpreter that starts in {bare * 1e3:.0f} ms")
    for path in arguments.traces:
        in_package = median_seconds(lambda path=path: tidepool.read(path).info())
        by_tool = median_seconds(lambda path=path: run(arguments.tool, "info", path, "--json"))
        print(f"read and info of {path}: {in_package * 1e3:.1f} ms, by the tool {by_tool * 1e3:.1f} ms")
    print(f"allocate and free of a buffer: {pair_nanoseconds(tidepool.Pool('64MiB')):.0f} ns")


if __name__ == "__main__":
    main()
