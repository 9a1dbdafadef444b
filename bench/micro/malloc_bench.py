#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: jemalloc makes the command line faster than glibc's malloc on large traces. Times each of the given programs on
the same files, in turn, and prints the best of several rounds of each as JSON.

Build a second program with `cmake -B build/glibc -DTIDEPOOL_JEMALLOC=OFF -DCMAKE_BUILD_TYPE=Release`.

usage: bench/micro/malloc_bench.py ROUNDS TIDEPOOL [TIDEPOOL ...]
"""
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
import time

EVENTS = 1_000_000
LIVE = 1_000
SNAPSHOT_EVENTS = 390_000


def write_log(path):
    draw = random.Random(1)
    live = []
    with open(path, "w", encoding="ascii") as file:
        file.write("Thread,Time,Action,Pointer,Size,Stream\n")
        for event in range(EVENTS):
            time_text = f"12:{event // 60000 % 60:02d}:{event // 1000 % 60:02d}:{event % 1000 * 1000:06d}"
            if len(live) < LIVE:
                live.append((f"0x7f{event * 512:010x}", int(2 ** draw.uniform(9, 26))))
                file.write(f"1,{time_text},allocate,{live[-1][0]},{live[-1][1]},0x0\n")
            else:
                victim = draw.randrange(LIVE)
                live[victim], live[-1] = live[-1], live[victim]
                pointer, size = live.pop()
                file.write(f"1,{time_text},free,{pointer},{size},0x0\n")


def write_snapshot(path):
    """Writes a snapshot like torch.cuda.memory._dump_snapshot, with 400 stacks of twenty frames."""
    draw = random.Random(2)
    frames = [{"name": f"function_{i}", "filename": f"/model/layers/file_{i % 40}.py", "line": i} for i in range(2_000)]
    stacks = [draw.sample(frames, 20) for _ in range(400)]
    live, history = [], []
    for event in range(SNAPSHOT_EVENTS):
        if len(live) < LIVE:
            block = {"addr": 0x7F0000000000 + event * 512, "size": int(2 ** draw.uniform(9, 26)), "stream": 0}
            live.append(block)
            history.append({"action": "alloc", "time_us": event, "frames": draw.choice(stacks), **block})
        else:
            victim = draw.randrange(LIVE)
            live[victim], live[-1] = live[-1], live[victim]
            block = live.pop()
            for action in ("free_requested", "free_completed"):
                history.append({"action": action, "time_us": event, "frames": draw.choice(stacks), **block})
    with open(path, "wb") as file:
        pickle.dump({"segments": [], "device_traces": [history], "allocator_settings": {}}, file, protocol=4)


def seconds_of(command):
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - began


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    rounds, tools = int(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory(prefix="tidepool-bench-") as folder:
        log, snapshot = os.path.join(folder, "log.csv"), os.path.join(folder, "snapshot.pickle")
        write_log(log)
        write_snapshot(snapshot)
        tasks = {
            "info, snapshot": ["info", snapshot],
            "convert, snapshot to native": ["convert", snapshot, os.path.join(folder, "x.tide")],
            "report, snapshot": ["report", snapshot, "-o", os.path.join(folder, "x.html")],
            "info, RMM log": ["info", log],
            "replay, RMM log": ["replay", log, "--pool", "64GiB"],
        }
        best = {task: [min(times) for times in zip(*([seconds_of([tool, *arguments]) for tool in tools]
                                                     for _ in range(rounds)))]
                for task, arguments in tasks.items()}
        print(json.dumps({"programs": tools, "rounds": rounds, "log_events": EVENTS, "log_bytes": os.path.getsize(log),
                          "snapshot_bytes": os.path.getsize(snapshot),
                          "best_seconds": {task: [round(s, 3) for s in row] for task, row in best.items()}}, indent=1))


if __name__ == "__main__":
    main()
