#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the figures of allocators on a GPU, from the results of part A of the GPU suite.

usage: pool_picture.py RESULTS.json -o PICTURE.svg

Bars show the time of an allocation and a free, alone and through PyTorch, and the memory that PyTorch reserves in a
training of GPT-2 small over the most that is live.
"""
import json
import math
from xml.sax.saxutils import escape

import picture

# Sizes in pixels.
WIDTH, LEFT, RIGHT, TOP, ROW = 760, 250, 90, 56, 22
OF_PYTORCH = {"native": "PyTorch's own", "expandable": "PyTorch's own, expandable segments", "tidepool": "tidepool", "planned": "tidepool, planned"}


def alone(steps):
    rows = next(row["pairs"] for row in steps["bench_pairs"]["result"] if "pairs" in row)
    names = {"tidepool, virtual memory": "tidepool", "cudaMallocAsync": "cudaMallocAsync", "cudaMalloc": "cudaMalloc"}
    times = {row["allocator"]: row["ns"] for row in rows if row["workload"] == "random/1000"}
    return "An allocation and a free, 1,000 live blocks of random sizes (logarithmic)", "{:,.0f} ns", {
        name: (time, math.log10(time)) for known, name in names.items() for time in [times[known]]}


def through_pytorch(steps):
    times = {OF_PYTORCH[row["allocator"]]: row["pairs_ns"]["2 MiB"] for row in steps["pairs_torch"]["result"] if "pairs_ns" in row}
    return "A tensor of 2 MiB through PyTorch and its end, 200 live", "{:,.0f} ns", {
        name: (time, time) for name, time in sorted(times.items(), key=lambda item: item[1])}


def reserved(steps):
    runs = [row for row in steps["training"]["result"] if "peaks_of_steps" in row and row["model"] == "gpt2"]
    shares = {OF_PYTORCH[run["allocator"]]: run["peaks_of_steps"][-1][1] / max(peak[0] for peak in run["peaks_of_steps"]) for run in runs}
    return "Memory that PyTorch reserves for GPT-2 small, beyond the most that is live", "{:.1f} %", {
        name: (100 * (share - 1),) * 2 for name, share in sorted(shares.items(), key=lambda item: item[1])}


def panel(top, title, form, bars):
    """Yields the lines of a panel, of bars (value, length) by name."""
    yield f'<text x="16" y="{top}">{escape(title)}</text>'
    longest = max(length for _, length in bars.values())
    for number, (name, (value, length)) in enumerate(bars.items()):
        y = top + 12 + ROW * number
        width = round((WIDTH - LEFT - RIGHT) * length / longest, 1)
        yield f'<text x="{LEFT - 8}" y="{y + 12}" class="t e">{escape(name)}</text>'
        yield f'<rect class="{"tidepool" if name.startswith("tidepool") else "other"}" x="{LEFT}" y="{y}" width="{width}" height="{ROW - 6}"/>'
        yield f'<text x="{LEFT + width + 6}" y="{y + 12}">{form.format(value)}</text>'


def svg_of(text):
    results = json.loads(text)
    lines, top = [], TOP
    for title, form, bars in (found(results["steps"]) for found in (alone, through_pytorch, reserved)):
        lines += panel(top, title, form, bars)
        top += ROW * len(bars) + 44
    return picture.page(f"The pool on an {results['machine']['gpu']['name']}", WIDTH, top - 24, lines)


if __name__ == "__main__":
    picture.draw(__doc__, svg_of)
