#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares `per_device` of `tidepool info --json` with a slow, obvious evaluation in Python: refused requests, needs,
frames, categories by regular expressions, reserved and free memory, and memory from before a profile. On random files,
and on the snapshots of a folder.

usage: info_oracle_test.py TIDEPOOL FOLDER_OF_SNAPSHOTS
"""
import collections
import glob
import gzip
import json
import os
import pickle
import random
import re
import subprocess
import sys
import tempfile

ROUNDS = 40
OMITTED_NAMES = ("unwind::unwind", "CapturedTraceback::gather", "gather_with_cpp", "_start", "__libc_start_main",
                 "PyEval_", "PyObject_", "PyFunction_")
OMITTED_FILES = ("core/boxing", "/Register", "/Redispatch", "pythonrun.c", "Modules/main.c", "Objects/call.c",
                 "Objects/methodobject.c", "pycore_ceval.h", "ceval.c", "cpython/abstract.h")
RULES = {"gelu": r"gelu|activation", "line 3": r"model\.py:3 ", "optimizer": "optim"}


def rounded(size):
    return (size + 511) // 512 * 512


def expect(what, got, expected):
    if got != expected:
        sys.exit(f"{what}: tidepool says {got}, expected {expected}")


def info(tool, path, *arguments):
    done = subprocess.run([tool, "info", path, "--json", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{path}: {done.stderr}")
    return json.loads(done.stdout)


def is_shown(frame):
    return not any(text in frame["name"] for text in OMITTED_NAMES) and not any(
        text in frame["filename"] for text in OMITTED_FILES)


def name_of(frames):
    """Returns the innermost frame of Python outside of site-packages; None without such a frame."""
    for frame in frames:
        if is_shown(frame) and frame["filename"].endswith(".py") and "site-packages" not in frame["filename"]:
            return f"{os.path.basename(frame['filename'])}:{frame['line']} {frame['name']}"
    return None


def category_of(frames):
    texts = [f"{f['filename']}:{f['line']} {f['name']}" if f["filename"] not in ("", "??") else f["name"]
             for f in frames]
    for name, rule in RULES.items():
        if any(re.search(rule, text) for text in texts):
            return name
    return None


def tells_peak(events, begins_late):
    """Whether a history has a refusal, or all requests, or requests and more than a few events."""
    if any(event["action"] == "oom" for event in events):
        return True
    count = sum(event["action"] != "snapshot" for event in events)
    return (count >= 8 and any(event["action"] == "alloc" for event in events)) if begins_late else count > 0


def evaluated(snapshot, device):
    """Steps through the history of a device; returns the figures at its worst refusal, or else at its peak."""
    events = snapshot["device_traces"][device] if device < len(snapshot["device_traces"]) else []
    touched = set()
    live = {}
    for event in events:
        if event["action"] == "free_completed" and event["addr"] not in touched:
            live[event["addr"]] = (event["size"], [])
        if event["action"] in ("alloc", "free_completed"):
            touched.add(event["addr"])
    segments = [s for s in snapshot["segments"] if s["device"] == device]
    for segment in segments:
        at = segment["address"]
        for block in segment["blocks"]:
            address = block.get("address", at)
            at = address + block["size"]
            if block["state"] != "inactive" and address not in touched:
                live[address] = (block["requested_size"], block.get("frames", []))
    sign = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
    taken = [sign.get(e["action"], 0) * e["size"] for e in events]
    at_end = sum(s["total_size"] for s in segments)
    reserved = at_end - sum(taken)

    def total():
        return sum(rounded(size) for size, _ in live.values())

    has_peak = tells_peak(events, bool(live) or reserved != 0)
    moments = {"peak": (total(), reserved, dict(live))}
    refused, worst = [], -1
    for event, more in zip(events, taken):
        reserved += more
        if event["action"] == "alloc":
            live[event["addr"]] = (event["size"], event.get("frames", []))
        elif event["action"] == "free_completed":
            live.pop(event["addr"], None)
        elif event["action"] == "oom":
            refused.append({"bytes": event["size"], "live_bytes": total(),
                            "device_free_bytes": event["device_free"],
                            "frame": name_of(event.get("frames", []))})
            if total() + event["size"] > worst:
                worst = total() + event["size"]
                moments["refusal"] = (total(), reserved, dict(live))
        if event["action"] == "alloc" and total() > moments["peak"][0]:
            moments["peak"] = (total(), reserved, dict(live))
    needs = max([moments["peak"][0]] + [r["live_bytes"] + rounded(r["bytes"]) for r in refused])
    moments["end"] = (total(), at_end, dict(live))
    bytes_then, reserved_then, live_then = moments.get("refusal", moments["peak" if has_peak else "end"])
    top, categories = collections.Counter(), collections.Counter()
    for size, frames in live_then.values():
        top[name_of(frames)] += rounded(size)
        categories[category_of(frames)] += rounded(size)
    return {"peak": moments["peak"][0] if has_peak else None, "needs": needs, "refused": refused,
            "live": bytes_then, "reserved": at_end, "free": max(0, reserved_then - bytes_then), "top": top,
            "categories": categories}


def check(tool, path, snapshot):
    rules = [text for name, rule in RULES.items() for text in ("--category", f"{name}={rule}")]
    answer = info(tool, path, *rules)
    devices = sorted({d for d, trace in enumerate(snapshot["device_traces"]) if trace} |
                     {s["device"] for s in snapshot["segments"]})
    expect(f"{path}: devices", sorted(d["device"] for d in answer["per_device"]), devices)
    with_refusal = [d for d in devices if d < len(snapshot["device_traces"]) and
                    any(e["action"] == "oom" for e in snapshot["device_traces"][d])]
    if with_refusal:
        expect(f"{path}: the first device", answer["device"], with_refusal[0])
    expect(f"{path}: order", answer["per_device"][0]["device"], answer["device"])
    for got in answer["per_device"]:
        what = f"{path}: device {got['device']}"
        truth = evaluated(snapshot, got["device"])
        expect(f"{what}: peak", got["peak_live_bytes"], truth["peak"])
        expect(f"{what}: needs", got["needs_bytes"], truth["needs"])
        expect(f"{what}: live", got["live_bytes"], truth["live"])
        expect(f"{what}: reserved", got["reserved_bytes"] or 0, truth["reserved"])
        expect(f"{what}: fragmentation", got["fragmentation_bytes"] or 0, truth["free"])
        expect(f"{what}: refused", len(got["refused"]), len(truth["refused"]))
        for one, other in zip(got["refused"], truth["refused"]):
            for key in ("bytes", "live_bytes", "device_free_bytes"):
                expect(f"{what}: refused {key}", one[key], other[key])
            if other["frame"] is not None:
                expect(f"{what}: refused at", one["frame"], other["frame"])
        for part in got["top"]:
            if part["frame"] in truth["top"]:
                expect(f"{what}: {part['frame']}", part["bytes"], truth["top"][part["frame"]])
        best = [(b, n) for n, b in truth["top"].items() if n is not None]
        if best and max(best)[0] > sum(truth["top"].values()) / 2:
            expect(f"{what}: top", got["top"][0]["bytes"], max(best)[0])
        for name in RULES:
            expect(f"{what}: category {name}", got["categories"].get(name, 0), truth["categories"][name])
        expect(f"{what}: sum of categories", sum(got["categories"].values()), truth["live"])


def random_snapshot(choose):
    machinery = [{"name": "torch::unwind::unwind()", "filename": "??", "line": 0},
                 {"name": "gelu_kernel", "filename": "/usr/lib/python3/site-packages/torch/nn/functional.py", "line": 7},
                 {"name": "_PyEval_EvalFrameDefault", "filename": "Python/ceval.c", "line": 9}]
    stacks = [machinery[:choose.randrange(4)] +
              [{"name": choose.choice(["forward", "step", "activation"]), "filename": "/home/u/model.py", "line": line}]
              for line in range(1, 7)] + [[]]
    segments, traces = [], []
    for device in range(choose.randrange(1, 4)):
        events, held, address = [], {}, (1 + device) << 40
        before = {address + i * (1 << 25): choose.randrange(1, 1 << 20) for i in range(choose.randrange(3))}
        held.update({a: (s, []) for a, s in before.items()})
        taken = set(before)
        next_address = address + (1 << 30)
        for time in range(choose.randrange(30)):
            kind = choose.random()
            common = {"stream": 0, "time_us": time}
            if kind < 0.55:
                size = choose.randrange(1, 1 << 20)
                events.append({"action": "segment_alloc", "addr": next_address, "size": 1 << 21, **common})
                events.append({"action": "alloc", "addr": next_address, "size": size, "frames": choose.choice(stacks),
                               **common})
                held[next_address] = (size, events[-1]["frames"])
                taken.add(next_address)
                next_address += 1 << 21
            elif kind < 0.85 and held:
                gone = choose.choice(sorted(held))
                size, _ = held.pop(gone)
                events.append({"action": "free_completed", "addr": gone, "size": size, **common})
            else:
                events.append({"action": "oom", "size": choose.randrange(1 << 12) * 512, "frames": choose.choice(stacks),
                               "device_free": choose.randrange(1 << 20), **common})
        traces.append(events)
        for begin in sorted(taken):
            blocks = [{"address": begin, "size": 1 << 21, "requested_size": 0, "state": "inactive", "frames": []}]
            if begin in held:
                size, frames = held[begin]
                blocks = [{"address": begin, "size": rounded(size), "requested_size": size,
                           "state": "active_allocated", "frames": frames},
                          {"address": begin + rounded(size), "size": (1 << 21) - rounded(size), "requested_size": 0,
                           "state": "inactive", "frames": []}]
            segments.append({"device": device, "address": begin, "total_size": 1 << 21, "stream": 0, "blocks": blocks})
    return {"segments": segments, "device_traces": traces}


def check_profile(tool, path, choose):
    """A profile that begins in mid-run: the live bytes are the profiler's own totals."""
    before = choose.randrange(1 << 20) * 512
    now, held, events, totals = before, {}, [], []
    early = {0x900000 + i: choose.randrange(1, 9) * 512 for i in range(3) if before > 3 * 9 * 512}
    for time in range(choose.randrange(1, 40)):
        free = choose.choice(sorted(held) + sorted(early)) if choose.random() < 0.4 and (held or early) else None
        if free is None:
            address = 0x1000 + time
            change = held[address] = choose.randrange(1, 99) * 512
        else:
            address = free
            change = -(held.pop(free) if free in held else early.pop(free))
        now += change
        totals.append(now)
        events.append({"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": time,
                       "args": {"Bytes": change, "Addr": address, "Device Id": 0, "Device Type": 1,
                                "Total Allocated": now, "Total Reserved": 1 << 40}})
    if all(e["args"]["Bytes"] < 0 for e in events):
        return
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": events}, file)
    expect(f"{path}: peak", info(tool, path)["per_device"][0]["peak_live_bytes"], max([before] + totals))


def main(tool, folder_of_snapshots):
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(ROUNDS):
            choose = random.Random(seed)
            snapshot = random_snapshot(choose)
            path = os.path.join(folder, f"{seed}.pickle")
            with open(path, "wb") as file:
                pickle.dump(snapshot, file)
            check(tool, path, snapshot)
            check_profile(tool, os.path.join(folder, f"{seed}.json"), choose)
    files = sorted(glob.glob(os.path.join(folder_of_snapshots, "*.pickle.gz")))
    for path in files:
        with gzip.open(path) as file:
            check(tool, path, pickle.load(file))
    print(f"{ROUNDS} random snapshots and profiles and {len(files)} files agree")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
