# SPDX-License-Identifier: Apache-2.0
"""The memory of each module at the peak: its weights, gradients and optimizer state by their addresses, and requests made while it
ran.
"""
import bisect
import pathlib
import pickle
import re

from . import events, where

KINDS = {"weights": "weights_bytes", "gradients": "gradients_bytes", "optimizer state": "optimizer_bytes"}
OTHER = "activations_bytes"
PURPOSE = "purpose"  # the file of a frame that names the purpose of a request
BACKWARD, OUTSIDE, BEFORE = "(backward)", "(outside of modules)", "(before the record)"  # in the place of a module


def labels(record, samples):
    """Returns the module and the kind of requests that were weights, gradients or optimizer state, by their positions. A sample has the
    addresses of these at a position."""
    samples = sorted(samples, key=lambda sample: sample[0])
    older = [addresses for position, addresses in samples if position < record.begin]
    # The last of these names the memory that is older than the record.
    samples = [(record.begin, addresses) for addresses in older[-1:]] + samples[len(older):]
    found, live = {}, {}

    def take(sample):
        for address, label in sample[1].items():
            if address in live:
                found.setdefault(live[address], label)

    for position, event in enumerate(record.events, record.offset):
        while samples and samples[0][0] <= position:
            take(samples.pop(0))
        if event["action"] == "alloc":
            live[event["addr"]] = position
        else:
            live.pop(event["addr"], None)
    for sample in samples:
        take(sample)
    return found


def module_at(marks, starts, position, event):
    """Returns the module that ran when a request was made. Threads of the backward pass have no stack."""
    at = bisect.bisect_right(starts, position) - 1
    if at >= 0 and marks[at][1] is not None:
        return marks[at][1]
    return OUTSIDE if any(frame["filename"] != PURPOSE for frame in event.get("frames", ())) else BACKWARD


def table(record, marks, samples):
    """Returns the modules with their bytes at the peak, the largest first."""
    known, starts = labels(record, samples), [position for position, _ in marks]
    numbered = {id(event): position for position, event in enumerate(record.events, record.offset)}
    rows = {}
    for event in where.live_at_peak(record.events):
        position = numbered[id(event)]
        module, kind = known.get(position, ("", None))
        module = module or (BEFORE if position < record.begin else module_at(marks, starts, position, event))
        row = rows.setdefault(module, {"module": module, "bytes": 0, **dict.fromkeys([*KINDS.values(), OTHER], 0)})
        row["bytes"] += event["size"]
        row[KINDS.get(kind, OTHER)] += event["size"]
    return sorted(rows.values(), key=lambda row: -row["bytes"])


def answer(snapshot, device):
    """Returns the table of a device, or None where the program noted no modules."""
    notes = pathlib.Path(snapshot).with_suffix(".modules")
    if not notes.exists():
        return None
    record = events.read(snapshot, device)
    found = pickle.loads(notes.read_bytes())
    samples = [(position, addresses) for number, position, addresses in found["samples"] if number == device]
    return table(record, found["marks"].get(device, []), samples)


def alike(rows):
    """Returns the rows of blocks with equal paths but for the number of the block as one: `layers.*.mlp`, with their number. A number
    counts blocks if any of them has modules."""
    parts = [re.match(r"(?P<before>(?:.*?\.)??)\d+(?P<after>\..*)?$", row["module"]) for row in rows]
    blocks = {part["before"] for part in parts if part and part["after"]}
    joined = {}
    for row, part in zip(rows, parts):
        is_of_block = part and part["before"] in blocks
        joined.setdefault(f"{part['before']}*{part['after'] or ''}" if is_of_block else row["module"], []).append(row)
    found = []
    for pattern, group in joined.items():
        total = {key: sum(row[key] for row in group) for key in group[0] if key != "module"}
        found.append({"module": pattern if len(group) > 1 else group[0]["module"], "count": len(group), **total})
    return sorted(found, key=lambda row: -row["bytes"])
