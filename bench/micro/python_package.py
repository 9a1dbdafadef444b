#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the Python package: its import, reading a trace beside the tool, and calls of a pool.

usage: PYTHONPATH=build/release/python build/python/bin/python bench/micro/python_package.py TOOL
"""
import argparse
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import timeit

import tidepool

ROUNDS = 9


def processor_time():
    """Returns the processor time of this process and its children, which other work on the machine changes little."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


CLOCKS = {"elapsed": time.perf_counter, "processor": processor_time}


def median_ms(call, clock):
    times = []
    for _ in range(ROUNDS):
        begin = clock()
        call()
        times.append(clock() - begin)
    return statistics.median(times) * 1e3


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def pair_nanoseconds(pool):
    count = 100_000
    return min(timeit.repeat(lambda: pool.allocate(1000), number=count, repeat=5)) / count * 1e9


def write_trace(path):
    """Writes an operation CSV of 999,500 events, with 500 live allocations."""
    draw = random.Random(1)
    live = []
    with open(path, "w", encoding="utf-8") as file:
        file.write("op,id,size,hint\n")
        for number in range(500_000):
            file.write(f"a,{number},{draw.randrange(1, 1 << 20)},\n")
            live.append(number)
            if len(live) > 500:
                file.write(f"f,{live.pop(draw.randrange(500))},,\n")


def print_times(tool, path, name, clock):
    bare = median_ms(lambda: run(sys.executable, "-c", "pass"), clock)
    whole = median_ms(lambda: run(sys.executable, "-c", "import tidepool"), clock)
    print(f"{name} time: import tidepool {whole - bare:.0f} ms, in an interpreter that starts in {bare:.0f} ms")
    in_package = median_ms(lambda: tidepool.read(path).info(), clock)
    by_tool = median_ms(lambda: run(tool, "info", path, "--json"), clock)
    print(f"{name} time: read and info of 999,500 events {in_package:.0f} ms, by the tool {by_tool:.0f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.csv")
        write_trace(path)
        for name, clock in CLOCKS.items():
            print_times(arguments.tool, path, name, clock)
    print(f"allocate and free of a buffer: {pair_nanoseconds(tidepool.Pool('64MiB')):.0f} ns")


if __name__ == "__main__":
    main()
