# SPDX-License-Identifier: Apache-2.0
"""The traffic of a memory snapshot of PyTorch, in a form that two runs can be compared in: addresses become numbers."""
import gzip
import itertools
import pickle

GRAIN = 512  # blocks are multiples of it


class Traffic:
    """The events of device 0 from the `count`-th newest allocation on, all of them without `count`, with their peaks."""

    def __init__(self, path, count=None):
        opened = gzip.open(path) if str(path).endswith(".gz") else open(path, "rb")
        with opened as file:
            snapshot = pickle.load(file)
        events = [event for event in snapshot["device_traces"][0]
                  if event["action"] not in ("free_completed", "snapshot")]
        self.events = events if count is None else newest(events, count)
        self.sizes = [event["size"] for event in self.events if event["action"] == "alloc"]
        self.sequence = list(numbered(self.events))
        self.peak_live, self.peak_reserved = peaks(self.events, snapshot["segments"])


def newest(events, count):
    """Returns the events from the `count`-th newest allocation on, with the segment that was made for it."""
    begin = [i for i, event in enumerate(events) if event["action"] == "alloc"][-count:][0]
    while begin > 0 and events[begin - 1]["action"] == "segment_alloc":
        begin -= 1
    return events[begin:]


def numbered(events):
    """Yields the events with the number of the allocation or segment in place of its address."""
    numbers = {}
    count = itertools.count()
    for event in events:
        action, address = event["action"], event["addr"]
        kind = "segment" if action.startswith("segment") else "block"
        if action in ("alloc", "segment_alloc"):
            numbers[kind, address] = next(count)
            yield action, event["size"], None
        else:
            yield action, event["size"], numbers.get((kind, address))


def rounded(size):
    return max(GRAIN, (size + GRAIN - 1) // GRAIN * GRAIN)


def peaks(events, segments):
    """Returns the most live and the most reserved bytes during the events, counted from the state at their end."""
    live = sum(rounded(block["requested_size"]) for segment in segments if segment["device"] == 0
               for block in segment["blocks"] if block["state"] == "active_allocated")
    reserved = sum(segment["total_size"] for segment in segments if segment["device"] == 0)
    most_live, most_reserved = live, reserved
    for event in reversed(events):
        if event["action"] == "alloc":
            live -= rounded(event["size"])
        elif event["action"] == "free_requested":
            live += rounded(event["size"])
        elif event["action"] == "segment_alloc":
            reserved -= event["size"]
        elif event["action"] == "segment_free":
            reserved += event["size"]
        most_live, most_reserved = max(most_live, live), max(most_reserved, reserved)
    return most_live, most_reserved
