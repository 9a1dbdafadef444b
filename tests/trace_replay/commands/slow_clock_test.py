#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks `best` on a machine that gives it a third of a core: slow_clock_test.py TOOL SLOW_CLOCK.

SLOW_CLOCK is a library that makes the clock run with the processor time, so that the load of the machine does not matter.
"""
import json
import os
import subprocess
import sys
import tempfile

TOOL, SLOW_CLOCK = sys.argv[1:]


def slowdown(graph, memory, kind, limit, parts):
    """Returns the time over the ideal of `best` on a machine that gives it 1/`parts` of a core."""
    environment = dict(os.environ, LD_PRELOAD=SLOW_CLOCK, SLOW_CLOCK=str(parts))
    made = subprocess.run([TOOL, "schedule", graph, "--memory", memory, "--link", "24e9", "--policy", "best", "--memory-kind", kind,
                           "--time-limit", limit, "--json"], env=environment, capture_output=True, text=True)
    answer = json.loads(made.stdout)
    assert answer["fits"], answer
    print(f"{memory}, {kind}, {limit}, 1/{parts} of a core: {answer['overhead']:.4f}, ended by {answer['ended_by']}")
    return answer


def main():
    with tempfile.TemporaryDirectory() as folder:
        graph = os.path.join(folder, "graph.json")
        subprocess.run([TOOL, "model", "inception-v3", "--batch", "128", "--gpu", "a100", "-o", graph], check=True, stdout=subprocess.DEVNULL)
        for memory in ("5832MiB", "2333MiB"):
            quiet = slowdown(graph, memory, "fixed", "2s", 1)["overhead"]
            short = slowdown(graph, memory, "fixed", "2s", 3)
            assert short["overhead"] <= quiet * 1.05, (memory, quiet, short)
            shared = slowdown(graph, memory, "fixed", "6s", 3)["overhead"]
            assert shared <= short["overhead"] * (1 + 1e-9), (memory, short, shared)
            assert short["ended_by"] in ("clock", "work"), short
        hurried = slowdown(graph, "2333MiB", "paged", "500ms", 20)
        assert hurried["ended_by"] == "clock", hurried


main()
