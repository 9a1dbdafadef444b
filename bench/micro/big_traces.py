#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times `tidepool info` on big traces beside a count of their lines, and measures its peak memory. Has a file for each reader
of big traces; the tool itself converts an operation CSV for those of the other formats.

usage: python3 bench/micro/big_traces.py TOOL [--megabytes N]
"""
import argparse
import multiprocessing
import os
import pickle
import random
import statistics
import subprocess
import tempfile
import time

ROUNDS = 5
MEGABYTE = 10**6


def write_operations(path, size, has_details):
    """Writes an operation CSV of `size` bytes with 1,000 live allocations, or with streams and times."""
    draw = random.Random(1)
    live = [None] * 1000
    with open(path, "w", encoding="utf-8") as file:
        file.write("op,id,size,hint" + (",stream,time_ns" if has_details else "") + "\n")
        number = 0
        while file.tell() < size:
            for _ in range(10_000):
                slot = draw.randrange(len(live))
                rest = f",{slot % 4},{number * 1000}\n" if has_details else "\n"
                if live[slot] is not None:
                    file.write(f"f,{live[slot]},,{rest}")
                live[slot] = f"0x7f{number * 512:010x}" if has_details else number
                file.write(f"a,{live[slot]},{draw.randrange(1, 1 << 20)},{rest}")
                number += 1


def stacks_of(depth):
    """Returns a thousand stacks, of three thousand frames."""
    frames = [{"name": f"function_{i}", "filename": f"/model/part_{i % 50}.py", "line": i} for i in range(3000)]
    return [[frames[(stack * 7 + i * 31) % len(frames)] for i in range(depth)] for stack in range(1000)]


def event(action, number, frames):
    """Returns an event as torch.cuda.memory._snapshot() has it: with a text of its own for the context."""
    return {"action": action, "addr": 0x7f0000000000 + number % 1000 * 4096, "size": 1 + number % 1000 * 4, "stream": 0,
            "time_us": 1_700_000_000_000_000 + number, "compile_context": "/".join("NA"), "user_metadata": "", "frames": list(frames)}


def segments():
    """Returns segments without a live block. They come first, so that events refer to most of their texts by five bytes."""
    places = [{"address": 0x7e0000000000 + (i << 21), "size": 1 << 21, "requested_size": 1 << 21} for i in range(200)]
    return [{"device": 0, "address": place["address"], "total_size": 1 << 21, "stream": 0, "segment_type": "large",
             "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
             "blocks": [{**place, "state": "inactive", "frames": []}]} for place in places]


def write_snapshot(path, size, depth):
    """Writes a snapshot of about `size` bytes; each request has a stack of `depth` frames, and a list of its own for it."""
    stacks = stacks_of(depth)
    events = []
    for number in range(size // (3 * 75 + 5 * depth)):
        events.append(event("alloc", number, stacks[number * 7 % len(stacks)]))
        events += [event(action, number, []) for action in ("free_requested", "free_completed")]
    with open(path, "wb") as file:
        pickle.dump({"segments": segments(), "device_traces": [events], "allocator_settings": {}, "external_annotations": []}, file, 4)


def write_converted(tool, path, size, form):
    """Writes an operation CSV of `size` bytes, with streams and times, and converts it."""
    source = path + ".csv"
    write_operations(source, int(size), True)
    subprocess.run([tool, "convert", source, path, "--to", form], check=True, stdout=subprocess.DEVNULL)
    os.remove(source)


# The factors are bytes of operation CSV for a byte of the other format. Native traces are smaller than the others: they
# have six times the events for each byte.
FILES = {
    "operation CSV": lambda tool, path, size: write_operations(path, size, False),
    "operation CSV with streams and times": lambda tool, path, size: write_operations(path, size, True),
    "RMM log": lambda tool, path, size: write_converted(tool, path, 0.67 * size, "rmm-csv"),
    "lifetime CSV": lambda tool, path, size: write_converted(tool, path, 1.9 * size, "lifetime-csv"),
    "native trace": lambda tool, path, size: write_converted(tool, path, size, "native"),
    "Chrome trace": lambda tool, path, size: write_converted(tool, path, 0.09 * size, "chrome-trace"),
    "PyTorch snapshot, stacks of 3 frames": lambda tool, path, size: write_snapshot(path, size, 3),
    "PyTorch snapshot, stacks of 32 frames": lambda tool, path, size: write_snapshot(path, size, 32),
}


def write_apart(write, *arguments):
    """Writes a file in a process of its own: the peak memory of this one would count as that of its later children."""
    process = multiprocessing.Process(target=write, args=arguments)
    process.start()
    process.join()
    if process.exitcode != 0:
        raise SystemExit(f"{arguments[1]} was not written")


def count_lines(path):
    with open(path, "rb") as file:
        return sum(part.count(b"\n") for part in iter(lambda: file.read(1 << 18), b""))


def run_info(tool, path):
    """Returns the processor seconds and the peak bytes of the tool."""
    child = subprocess.Popen([tool, "info", path, "--json"], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        raise SystemExit(f"{tool} info {path} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def measure(tool, path):
    """Returns medians: elapsed and processor seconds of the tool, its peak bytes, and seconds of a count of lines."""
    rows = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        processor, peak = run_info(tool, path)
        middle = time.perf_counter()
        count_lines(path)
        rows.append((middle - begin, processor, peak, time.perf_counter() - middle))
    return [statistics.median(column) for column in zip(*rows)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool")
    parser.add_argument("--megabytes", type=int, default=200, help="bytes of each file, in millions (default 200)")
    arguments = parser.parse_args()
    print("load:", *(f"{load:.1f}" for load in os.getloadavg()), "on", os.cpu_count(), "processors")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace")
        for name, write in FILES.items():
            write_apart(write, arguments.tool, path, arguments.megabytes * MEGABYTE)
            size = os.path.getsize(path)
            elapsed, processor, peak, lines = measure(arguments.tool, path)
            print(f"{name}: {size / MEGABYTE:.0f} MB, {size / elapsed / MEGABYTE:.0f} MB/s elapsed, "
                  f"{size / processor / MEGABYTE:.0f} MB/s of processor time, {elapsed / lines:.1f} times a count of lines, "
                  f"peak memory {peak / size:.2f} times the file")


if __name__ == "__main__":
    main()
