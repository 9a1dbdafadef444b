# SPDX-License-Identifier: Apache-2.0
"""The lines of libraries that a line of the program called. `trainer.train()` takes nearly all memory of a program: the line of
the model in the library says for which purpose."""
import os
import pickle

PACKAGES = ("/site-packages/", "/dist-packages/")
OWN = "/_tidepool_"  # parts of the dry run inside the program
MOST = 10  # lines of libraries for each line of the program


def live_at_peak(events):
    """Returns the requests that were live at the peak."""
    live, total, peak, at_peak = {}, 0, 0, 0
    for number, event in enumerate(events):
        total += change(event)
        if total > peak:
            peak, at_peak = total, number
    for event in events[:at_peak + 1]:
        if event["action"] == "alloc":
            live[event["addr"]] = event
        elif event["action"] == "free_completed":
            live.pop(event["addr"], None)
    return list(live.values())


def change(event):
    if event["action"] == "alloc":
        return event["size"]
    return -event["size"] if event["action"] == "free_completed" else 0


def text_of(frame):
    return f"{os.path.basename(frame['filename'])}:{frame['line']} {frame['name']}"


def is_of_package(frame):
    """Returns whether a frame is one of an installed package other than PyTorch, of which each line is below all programs."""
    return any(folder in frame["filename"] for folder in PACKAGES) and "/torch/" not in frame["filename"]


def is_of_program(frame):
    name = frame["filename"]
    return name.endswith(".py") and "/lib/python3" not in name and not any(part in name for part in (*PACKAGES, "/torch/"))


def lines_below(frames):
    """Returns the innermost line of the program and the innermost one of a package that it called, or None. `frames` are the innermost
    first."""
    package = None
    for frame in frames:
        if OWN in frame["filename"]:
            continue
        if is_of_program(frame):
            return package and (text_of(frame), text_of(package))
        if package is None and is_of_package(frame):
            package = frame
    return None


def line_of(frames):
    """Returns the innermost line of the program, or else the innermost one of a library, or None."""
    others = [frame for frame in frames if OWN not in frame["filename"]]
    found = next(filter(is_of_program, others), None) or next(iter(others), None)
    return found and text_of(found)


def below(snapshot, device):
    """Returns, for each line of the program, the lines of packages that it called with the bytes at the peak, the largest first."""
    with open(snapshot, "rb") as file:
        events = pickle.load(file)["device_traces"][device]
    sums = {}
    for event in live_at_peak(events):
        lines = lines_below(event.get("frames", []))
        if lines:
            inner = sums.setdefault(lines[0], {})
            inner[lines[1]] = inner.get(lines[1], 0) + event["size"]
    return {line: [{"frame": frame, "bytes": bytes_} for frame, bytes_ in sorted(inner.items(), key=lambda item: -item[1])[:MOST]]
            for line, inner in sums.items()}
