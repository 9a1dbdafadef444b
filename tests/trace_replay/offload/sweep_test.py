#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares sweeps of `tidepool simulate` with single runs, point by point.

Usage: sweep_test.py TOOL
"""
import csv
import io
import json
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

TOOL = sys.argv[1]
NETWORK = ["alexnet", "--gpu", "gtx-1080-ti"]
MEMORIES = ["512MiB", "768MiB", "1GiB", "2GiB"]
POLICIES = ["none", "vdnn", "vdnn++", "base"]
SETS = ["conv", "dynamic"]
BATCHES = ["64", "128"]
SVG = "{http://www.w3.org/2000/svg}"


def simulate(*arguments, statuses=(0,)):
    run = subprocess.run([TOOL, "simulate", *arguments], capture_output=True, text=True)
    assert run.returncode in statuses, (arguments, run.returncode, run.stderr)
    return run


def series():
    for policy in POLICIES:
        for one in SETS[:1] if policy in ("none", "base") else SETS:
            yield policy, one


def singles():
    points = []
    for batch in BATCHES:
        for policy, one in series():
            for memory in MEMORIES:
                sets = () if policy in ("none", "base") else ("--offload", one)
                run = simulate(*NETWORK, "--batch", batch, "--memory", memory, "--policy", policy, *sets, "--json", statuses=(0, 2))
                points.append(json.loads(run.stdout))
                assert points[-1]["fits"] == (run.returncode == 0)
    return points


def check_csv(text, points):
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == len(points)
    for row, point in zip(rows, points):
        assert row["fits"] == json.dumps(point["fits"])
        for key, cell in row.items():
            if key == "fits" or (key == "ideal_seconds" and not point["fits"]):
                continue
            if key not in point:
                assert cell == "" and not point["fits"], (key, cell)
            elif point[key] is None:
                assert cell == "", (key, cell)
            elif isinstance(point[key], str):
                assert cell == point[key], (key, cell)
            else:
                assert float(cell) == point[key], (key, cell, point[key])


def check_drawing(path, points):
    root = xml.etree.ElementTree.parse(path).getroot()
    assert root.tag == SVG + "svg"
    lines = [path for path in root.iter(SVG + "path") if path.get("class").startswith("line p")]
    drawn = {(p["policy"], p["offload"], p["batch"]) for p in points if p["fits"]}
    assert len(lines) == len(drawn), (len(lines), drawn)
    assert len(list(root.iter(SVG + "circle"))) == sum(p["fits"] for p in points)
    texts = [text.text for text in root.iter(SVG + "text")]
    for policy, one, batch in drawn:
        name = policy if policy in ("none", "base") else f"{policy} {one}"
        assert f"{name}, batch {batch}" in texts, texts


def best(points, question, key, limit, choose):
    """Answers a question by looking at all points."""
    answers = {}
    for point in points:
        about = tuple(point[name] for name in question)
        good = point["fits"] and point["overhead"] <= limit
        answers.setdefault(about, [])
        if good:
            answers[about].append(point[key])
    return {about: choose(values) if values else None for about, values in answers.items()}


def check_answers(sweep, limit):
    points = sweep["points"]
    smallest = {(a["policy"], a["offload"], a["batch"]): a["memory_bytes"]
                for a in sweep["smallest_memory"]}
    assert smallest == best(points, ("policy", "offload", "batch"), "memory_bytes", limit, min)
    largest = {(a["policy"], a["offload"], a["memory_bytes"]): a["batch"]
               for a in sweep["largest_batch"]}
    assert largest == best(points, ("policy", "offload", "memory_bytes"), "batch", limit, max)


def main():
    several = [*NETWORK, "--batch", ",".join(BATCHES), "--memory", ",".join(MEMORIES), "--policy",
               ",".join(POLICIES), "--offload", ",".join(SETS)]
    expected = singles()
    with tempfile.TemporaryDirectory() as folder:
        drawing = folder + "/sweep.svg"
        run = simulate(*several, "--json", "--smallest-memory", "--largest-batch", "--slowdown",
                       "2.5", "--svg", drawing)
        sweep = json.loads(run.stdout)
        assert sweep["points"] == expected
        assert any(point["fits"] for point in expected)
        assert any(not point["fits"] for point in expected)
        check_answers(sweep, 2.5)
        check_csv(simulate(*several, "--csv").stdout, expected)
        check_drawing(drawing, expected)
        empty = folder + "/empty.svg"
        simulate(*NETWORK, "--batch", "64", "--memory", "1KiB..3KiB/1KiB", "--svg", empty,
                 statuses=(2,))
        check_drawing(empty, [])
    print(f"{len(expected)} points are those of single runs")


main()
