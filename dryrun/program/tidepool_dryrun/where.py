# SPDX-License-Identifier: Apache-2.0
"""The lines of libraries that a line of the program called. `trainer.train()` takes nearly all memory of a program: the line of
the model in the library says for which purpose."""
import os

import _tidepool_lines as lines

from . import events

PACKAGES = ("/site-packages/", "/dist-packages/")
OWN = "/_tidepool_"  # parts of the dry run inside the program
MOST = 10  # lines of libraries for each line of the program


def live_at_peak(requests):
    """Returns the requests that were live at the peak."""
    live, total, peak, at_peak = {}, 0, 0, 0
    for number, event in enumerate(requests):
        total += change(event)
        if total > peak:
            peak, at_peak = total, number
    for event in requests[:at_peak + 1]:
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
    return any(folder in frame["filename"] for folder in PACKAGES) and not any(part in frame["filename"] for part in ("/torch/", OWN))


def lines_below(frames):
    """Returns the innermost line of the program and the innermost one of a package that it called, or None. `frames` are the innermost
    first."""
    found = of_program(frames)
    if found is None:
        return None
    package = next(filter(is_of_package, frames[:frames.index(found)]), None)
    return package and (text_of(found), text_of(package))


def line_of(frames):
    """Returns the innermost line of the program, or else the innermost one of a library, or None."""
    found = of_program(frames) or next((frame for frame in frames if OWN not in frame["filename"]), None)
    return found and text_of(found)


def of_program(frames):
    at = lines.innermost([frame["filename"] for frame in frames])
    return None if at is None else frames[at]


def below(snapshot, device):
    """Returns, for each line of the program, the lines of packages that it called with the bytes at the peak, the largest first."""
    sums = {}
    for event in live_at_peak(events.read(snapshot, device).events):
        found = lines_below(event.get("frames", []))
        if found:
            inner = sums.setdefault(found[0], {})
            inner[found[1]] = inner.get(found[1], 0) + event["size"]
    return {line: [{"frame": frame, "bytes": bytes_} for frame, bytes_ in sorted(inner.items(), key=lambda item: -item[1])[:MOST]]
            for line, inner in sums.items()}
