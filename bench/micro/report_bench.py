#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claims: the report of a million events is written in less than 5 s, is smaller than 30 MB, opens in Chromium in less
than 3 s, and is drawn again in less than 50 ms at every zoom. Prints the best of several rounds as JSON.

The trace is random replacement of 1,000 live blocks, 512 B to 64 MiB log-uniform.

usage: bench/micro/report_bench.py [TIDEPOOL] [ROUNDS]
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from chromium import Chromium, find_chromium  # noqa: E402

EVENTS = 1_000_000
LIVE = 1_000


def write_trace(path):
    draw = random.Random(1)
    live, now = [], 0
    with open(path, "w", encoding="ascii") as file:
        file.write("op,id,size,hint,stream,time_ns\n")
        for event in range(EVENTS):
            now += draw.randint(100, 3000)
            if len(live) < LIVE:
                live.append(f"0x7f{event * 512:010x}")
                file.write(f"a,{live[-1]},{int(2 ** draw.uniform(9, 26))},,{event % 3},{now}\n")
            else:
                victim = draw.randrange(LIVE)
                live[victim], live[-1] = live[-1], live[victim]
                file.write(f"f,{live.pop()},,,0,{now}\n")


def main():
    tool = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "release", "trace_replay", "tidepool")
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory(prefix="tidepool-bench-") as folder:
        rows, trace, page = (os.path.join(folder, name) for name in ("x.csv", "x.tide", "x.html"))
        write_trace(rows)
        subprocess.run([tool, "convert", rows, trace], check=True, stderr=subprocess.DEVNULL)
        result = {"events": EVENTS, "policies": 4}
        for kind in ("html", "svg", "folded"):
            seconds = []
            for _ in range(rounds):
                began = time.monotonic()
                subprocess.run([tool, "report", trace, "-o", os.path.join(folder, "x." + kind)], check=True,
                               stdout=subprocess.DEVNULL)
                seconds.append(time.monotonic() - began)
            result[kind] = {"write_seconds": round(min(seconds), 2), "bytes": os.path.getsize(os.path.join(folder, "x." + kind))}
        if find_chromium():
            opening, whole, part = [], [], []
            for _ in range(rounds):
                with Chromium(1280, 1000) as browser:
                    opening.append(browser.open(page, "window.tidepoolReport"))
                    whole += [browser.evaluate("tidepoolReport.redraw()") for _ in range(5)]
                    browser.evaluate("document.getElementById('map').focus()")
                    for _ in range(8):
                        browser.press("+")
                    part += [browser.evaluate("tidepoolReport.redraw()") for _ in range(5)]
            result["chromium"] = {"open_seconds": round(min(opening), 2), "draw_all_ms": round(min(whole), 1),
                                  "draw_a_seventeenth_ms": round(min(part), 1)}
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
