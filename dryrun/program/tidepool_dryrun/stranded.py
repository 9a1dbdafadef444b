# SPDX-License-Identifier: Apache-2.0
"""Free memory of PyTorch's allocator that belongs to other streams or pools than those that ask for more, and the lines that asked for memory
there last."""
import pickle

from . import where

DEFAULT_POOL = (0, 0)


def parts(free_by):
    """Returns the stranded memory by pool and stream, the largest first, of the free memory in the answer of `tidepool info`."""
    sums = {}
    for one in free_by:
        if one["is_stranded"]:
            sums[one["pool"], one["stream"]] = sums.get((one["pool"], one["stream"]), 0) + one["bytes"]
    return [{"pool": pool, "stream": stream, "bytes": bytes_, "frame": None}
            for (pool, stream), bytes_ in sorted(sums.items(), key=lambda item: -item[1])]


def add_lines(found, snapshot, device):
    """Adds the line that asked for memory last to the parts of a device: of the program, or else of a library."""
    if not found:
        return
    with open(snapshot, "rb") as file:
        contents = pickle.load(file)
    pools = Pools(contents["segments"], device)
    lines = {}
    for event in contents["device_traces"][device]:
        if event["action"] == "alloc":
            line = where.line_of(event.get("frames", []))
            if line:  # the backward pass has none
                lines[pools.of(event["addr"]), str(event["stream"])] = line
    for one in found:
        one["frame"] = lines.get((one["pool"], one["stream"]))


class Pools:
    """The private pools of the segments of a device. Memory that has gone back is taken for that of the default one."""

    def __init__(self, segments, device):
        self.ranges = [(one["address"], one["address"] + one["total_size"], str(tuple(one["segment_pool_id"]))) for one in segments
                       if one["device"] == device and tuple(one.get("segment_pool_id", DEFAULT_POOL)) != DEFAULT_POOL]

    def of(self, address):
        return next((pool for begin, end, pool in self.ranges if begin <= address < end), "default")
