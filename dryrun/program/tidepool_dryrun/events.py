# SPDX-License-Identifier: Apache-2.0
"""Reads the requests for memory of a device from PyTorch's snapshot, which holds the last events of a long run."""
import contextlib
import dataclasses
import gc
import pickle

LOST = "lost_events"  # of a snapshot: the number of requests and frees of each device before those that it holds


@contextlib.contextmanager
def without_collection():
    """Pauses Python's search for cycles, which takes longer than all else where very many objects are made."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclasses.dataclass
class Record:
    """The requests and frees of a device."""
    events: list  # with requests for the memory that is older than the record first
    offset: int = 0  # the position of the first one: the number of those before
    begin: int = 0  # the position from which on all are known


@without_collection()
def read(snapshot, device):
    """Returns the record of a device in the file of a snapshot."""
    with open(snapshot, "rb") as file:
        contents = pickle.load(file)
    recorded = requests_of(contents["device_traces"][device])
    begin = contents.get(LOST, {}).get(device, 0)
    before = older(recorded, contents["segments"], device) if begin else []
    return Record(before + recorded, begin - len(before), begin)


def requests_of(events):
    """Returns the requests and frees among the events of a device."""
    return [event for event in events if event["action"] in ("alloc", "free_completed")]


def older(events, segments, device):
    """Returns requests for the memory that was live before the events: they free it, or it is live after them."""
    live, found = set(), []
    for event in events:
        if event["action"] == "alloc":
            live.add(event["addr"])
        elif event["addr"] in live:
            live.remove(event["addr"])
        else:
            found.append({**event, "action": "alloc", "frames": []})
    blocks = (block for segment in segments if segment["device"] == device for block in segment["blocks"])
    return found + [{"action": "alloc", "addr": block["address"], "size": block["requested_size"], "frames": block.get("frames", [])}
                    for block in blocks if block["state"] != "inactive" and block["address"] not in live]
