#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares `tidepool info` and `convert` of PyTorch snapshots with Python's pickle and a slow, obvious evaluation: on the
example files, and on a small caching allocator that forgets the beginning of its history.

usage: pytorch_snapshot_oracle_test.py TIDEPOOL FOLDER_OF_EXAMPLES
"""
import collections
import glob
import gzip
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile

ROUNDS = 60
MIB = 1 << 20


def rounded(size):
    return (size + 511) // 512 * 512


def run(tool, *arguments):
    done = subprocess.run([tool, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{arguments}: {done.stderr}")
    return done.stdout


def info(tool, path, device):
    answer = json.loads(run(tool, "info", path, "--json", "--device", str(device)))
    return {
        "peak_live": answer["trace"]["peak_live_bytes"],
        "allocations": answer["trace"]["allocations"],
        "frees": answer["frees"],
        "unmatched": answer["unmatched_frees"],
        "reserved": answer["reserved_bytes"] or 0,
        "peak_reserved": answer["peak_reserved_bytes"] or 0,
        "devices": answer["devices"],
    }


def expect(what, got, expected):
    if got != expected:
        sys.exit(f"{what}: tidepool says {got}, expected {expected}")


def peak_of(start, changes):
    now = peak = start
    for change in changes:
        now += change
        peak = max(peak, now)
    return peak


def told(peak, actions, begins_late):
    """Returns the peak, or None where it is not known: a few events after others, or no request among them, do not tell it."""
    of_memory = [action for action in actions if action != "snapshot"]
    if "oom" in actions:
        return peak
    if begins_late:
        return peak if "alloc" in actions and len(of_memory) >= 8 else None
    return peak if of_memory else None


def evaluated(snapshot, device):
    """Finds allocations from before the history in the simplest way: by a search of the whole history."""
    events = snapshot["device_traces"][device]
    segments = [s for s in snapshot["segments"] if s["device"] == device]
    before = {}
    touched = set()
    for event in events:
        if event["action"] == "free_completed" and event["addr"] not in touched:
            before[event["addr"]] = event["size"]
        if event["action"] in ("alloc", "free_completed"):
            touched.add(event["addr"])
    for segment in segments:
        for block in segment["blocks"]:
            if block["state"] != "inactive" and block["address"] not in touched:
                before[block["address"]] = block["requested_size"]
    allocations = [e for e in events if e["action"] == "alloc"]
    frees = [e for e in events if e["action"] == "free_completed"]
    sign = {"alloc": 1, "free_completed": -1}
    reserves = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
    reserved_now = sum(s["total_size"] for s in segments)
    taken = [reserves.get(e["action"], 0) * e["size"] for e in events]
    return {
        "peak_live": told(peak_of(sum(map(rounded, before.values())),
                                  [sign.get(e["action"], 0) * rounded(e["size"]) for e in events]),
                          [e["action"] for e in events], bool(before) or reserved_now > sum(taken)),
        "allocations": len(before) + len(allocations),
        "frees": len(frees),
        "unmatched": 0,
        "reserved": reserved_now,
        "peak_reserved": peak_of(reserved_now - sum(taken), taken),
        "devices": sorted({d for d, trace in enumerate(snapshot["device_traces"]) if trace} |
                          {s["device"] for s in snapshot["segments"]}),
    }


def check_round_trip(tool, path, snapshot, device, folder):
    """Python reads files that tidepool wrote; after the events that tidepool added, they are equal."""
    written = os.path.join(folder, "written.pickle")
    run(tool, "convert", path, written, "--device", str(device))
    with open(written, "rb") as file:
        again = pickle.load(file)

    def lines(events):
        # tidepool keeps the end of a free, not its request.
        return [(e["action"], e.get("addr"), e["size"], e["stream"], e["time_us"]) for e in events
                if e["action"] != "free_requested"]

    old, new = lines(snapshot["device_traces"][device]), lines(again["device_traces"][device])
    expect(f"{path}: converted events", new[len(new) - len(old):], old)

    def blocks(of):
        return sorted((b["address"], b["requested_size"]) for s in of["segments"] if s["device"] == device
                      for b in s["blocks"] if b["state"] != "inactive")

    expect(f"{path}: converted blocks", blocks(again), blocks(snapshot))
    expect(f"{path}: converted segments", sorted((s["address"], s["total_size"]) for s in again["segments"]),
           sorted((s["address"], s["total_size"]) for s in snapshot["segments"] if s["device"] == device))
    marks = [(a["stage"], a["name"], a["time_us"]) for a in snapshot.get("external_annotations", [])
             if a["device"] == device]
    expect(f"{path}: converted annotations",
           [(a["stage"], a["name"], a["time_us"]) for a in again["external_annotations"]], marks)
    first, second = info(tool, path, device), info(tool, written, device)
    if None in (first["peak_live"], second["peak_live"]):  # the events that tidepool added look like a history
        first["peak_live"] = second["peak_live"]
    expect(f"{path}: info of the converted", {**second, "devices": None}, {**first, "devices": None})


class CachingAllocator:
    """Segments cut into blocks as in PyTorch, and their whole history."""

    def __init__(self, choose, device):
        self.choose = choose
        self.device = device
        self.next_address = (1 + device) << 40
        self.segments = {}  # address: [size, stream, blocks], a block [address, size, requested, state, frames]
        self.events = []
        self.states = []  # behind each event: live blocks and reserved bytes
        self.live = {}
        self.waiting = []
        self.time = 10**15
        self.log("snapshot", 0, 0, 0)

    def log(self, action, address, size, stream, frames=None):
        self.time += self.choose.randrange(3)
        event = {"action": action, "addr": address, "size": size, "stream": stream, "time_us": self.time}
        if frames is not None:
            event["frames"] = frames
        self.events.append(event)
        self.states.append((dict(self.live), sum(s[0] for s in self.segments.values())))

    def allocate(self, frames):
        requested = self.choose.choice([1, 511, 512, 513, 4000, 100_000, MIB, 3 * MIB])
        requested = max(1, requested - self.choose.randrange(300))
        size, stream = rounded(requested), self.choose.choice([0, 0, 0, 93_824_992_231_424])
        fitting = [(b[1], b[0], s) for s in self.segments.values() if s[1] == stream for b in s[2]
                   if b[3] == "inactive" and b[1] >= size]
        if not fitting:
            room = 2 * MIB if size <= MIB else 20 * MIB
            address, self.next_address = self.next_address, self.next_address + room
            self.segments[address] = [room, stream, [[address, room, 0, "inactive", []]]]
            self.log("segment_alloc", address, room, stream, frames)
            fitting = [(room, address, self.segments[address])]
        room, address, segment = min(fitting, key=lambda fit: fit[:2])
        at = next(i for i, b in enumerate(segment[2]) if b[0] == address)
        rest = [[address + size, room - size, 0, "inactive", []]] if room > size else []
        segment[2][at:at + 1] = [[address, size, requested, "active_allocated", frames]] + rest
        self.live[address] = requested
        self.log("alloc", address, requested, stream, frames)

    def block_at(self, address):
        for segment in self.segments.values():
            for at, block in enumerate(segment[2]):
                if block[0] == address:
                    return segment, at
        raise KeyError(address)

    def request_free(self):
        held = [a for a in self.live if a not in self.waiting]
        if not held:
            return
        address = self.choose.choice(held)
        segment, at = self.block_at(address)
        segment[2][at][3] = "active_awaiting_free"
        self.log("free_requested", address, self.live[address], segment[1])
        self.waiting.append(address)
        if self.choose.random() < 0.9:
            self.complete_free()

    def complete_free(self):
        if not self.waiting:
            return
        address = self.waiting.pop(self.choose.randrange(len(self.waiting)))
        segment, at = self.block_at(address)
        requested = self.live.pop(address)
        blocks = segment[2]
        blocks[at] = [address, blocks[at][1], 0, "inactive", []]
        if at + 1 < len(blocks) and blocks[at + 1][3] == "inactive":
            blocks[at][1] += blocks.pop(at + 1)[1]
        if at > 0 and blocks[at - 1][3] == "inactive":
            blocks[at - 1][1] += blocks.pop(at)[1]
        self.log("free_completed", address, requested, segment[1])

    def give_back(self):
        for address, (size, stream, blocks) in list(self.segments.items()):
            if len(blocks) == 1 and blocks[0][3] == "inactive":
                del self.segments[address]
                self.log("segment_free", address, size, stream)

    def step(self, frames):
        kind = self.choose.random()
        if kind < 0.5:
            self.allocate(frames)
        elif kind < 0.9:
            self.request_free()
        elif kind < 0.95:
            self.complete_free()
        else:
            self.give_back()

    def segment_dicts(self):
        return [{"device": self.device, "address": address, "total_size": size, "stream": stream,
                 "segment_type": "small" if size == 2 * MIB else "large",
                 "blocks": [{"address": b[0], "size": b[1], "requested_size": b[2], "state": b[3], "frames": b[4]}
                            for b in blocks]}
                for address, (size, stream, blocks) in self.segments.items()]

    def truth(self, kept):
        """Returns the figures of the last events, computed with the events before them."""
        first = len(self.events) - kept
        live, reserved = self.states[first - 1]
        states = self.states[first - 1:]
        actions = [e["action"] for e in self.events[first:]]
        return {
            "peak_live": told(max(sum(map(rounded, held.values())) for held, _ in states), actions,
                              bool(live) or reserved > 0),
            "allocations": len(live) + actions.count("alloc"),
            "frees": actions.count("free_completed"),
            "unmatched": 0,
            "reserved": states[-1][1],
            "peak_reserved": max(r for _, r in states),
        }


def old_segments(segments):
    """Returns segments as memory_snapshot() of PyTorch 1.12: no addresses, requested sizes in a history."""
    old = []
    for segment in segments:
        blocks = []
        for block in segment["blocks"]:
            state = block["state"].replace("awaiting", "pending")
            blocks.append({"size": block["size"], "state": state})
            if state != "inactive":
                blocks[-1]["history"] = [{"addr": block["address"], "real_size": block["requested_size"],
                                          "frames": block["frames"]}]
        old.append({**segment, "blocks": blocks})
    return old


def check_random(tool, seed, folder):
    choose = random.Random(seed)
    devices = [CachingAllocator(choose, device) for device in range(choose.randrange(1, 4))]
    stacks = [[{"name": f"f{i}", "filename": "f.py", "line": i} for i in range(depth)] for depth in range(9)]
    for _ in range(choose.randrange(1, 600)):
        choose.choice(devices).step(choose.choice(stacks))
    kept = [choose.randrange(0, len(d.events)) for d in devices]
    snapshot = {
        "segments": [s for d in devices for s in d.segment_dicts()],
        "device_traces": [d.events[len(d.events) - k:] for d, k in zip(devices, kept)],
        "external_annotations": [{"stage": choose.choice(["START", "END"]), "name": f"step {i % 3}", "device": 0,
                                  "time_us": 10**15 + 7 * i} for i in range(choose.randrange(5))],
    }
    choose.shuffle(snapshot["segments"])
    path = os.path.join(folder, "random.pickle")
    known = sorted({d.device for d, k in zip(devices, kept) if k} | {s["device"] for s in snapshot["segments"]})

    def write(what):
        with open(path, "wb") as file:
            pickle.dump(what, file, protocol=choose.choice([2, 3, 4, 5]))

    for device in known:
        expected = {**devices[device].truth(kept[device]), "devices": known}
        write(snapshot)
        expect(f"seed {seed}, device {device}", info(tool, path, device), expected)
        expect(f"seed {seed}, the oracle itself", evaluated(snapshot, device), expected)
        check_round_trip(tool, path, snapshot, device, folder)
        freed = [collections.Counter(e["addr"] for e in snapshot["device_traces"][device] if e["action"] == action)
                 for action in ("free_requested", "free_completed")]
        freed[1].update(devices[device].waiting)
        if freed[0] == freed[1]:
            no_completion = [[{k: v for k, v in e.items() if k != "time_us"} for e in trace
                              if e["action"] != "free_completed"] for trace in snapshot["device_traces"]]
            write({"segments": snapshot["segments"], "device_traces": no_completion})
            got = info(tool, path, device)
            expect(f"seed {seed}, requests alone", (got["frees"], got["allocations"], got["unmatched"]),
                   (expected["frees"], expected["allocations"], 0))
    segments = old_segments(snapshot["segments"])
    write(segments)
    for device in {s["device"] for s in segments}:
        state = devices[device].truth(0)
        expect(f"seed {seed}, segments alone", info(tool, path, device),
               {**state, "peak_live": None, "devices": sorted({s["device"] for s in segments})})


def main(tool, examples):
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(ROUNDS):
            check_random(tool, seed, folder)
        files = sorted(glob.glob(os.path.join(examples, "*.pickle.gz")))
        for path in files:
            with gzip.open(path) as file:
                snapshot = pickle.load(file)
            devices = {d for d, trace in enumerate(snapshot["device_traces"]) if trace}
            for device in devices:
                expect(path, info(tool, path, device), evaluated(snapshot, device))
                check_round_trip(tool, path, snapshot, device, folder)
    print(f"{ROUNDS} random snapshots and {len(files)} files agree")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
