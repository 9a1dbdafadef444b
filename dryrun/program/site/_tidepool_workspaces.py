# SPDX-License-Identifier: Apache-2.0
"""Names the workspaces of cuBLAS in a snapshot. Each thread has one from its first product on, so that of the backward pass would look like a
gradient."""
import ctypes

# A frame that names the purpose of a request: kPurposeFile of include/tidepool/trace/trace.h.
PURPOSE = {"filename": "purpose", "line": 0, "name": "workspace"}


def told(name):
    """Returns the pairs of numbers that a function of the stand-in for NVIDIA's libraries tells one by one."""
    try:
        get = getattr(ctypes.CDLL("libcuda_libraries.so"), name)
    except OSError:
        return []
    first, second = ctypes.c_longlong(), ctypes.c_longlong()
    found = []
    while get(len(found), ctypes.byref(first), ctypes.byref(second)) > len(found):
        found.append([first.value, second.value])
    return found


def name_all(snapshot):
    """Adds the purpose to the requests for workspaces, as the outermost frame."""
    given = {tuple(pair) for pair in told("tidepoolProductWorkspace")}
    if not given:
        return
    blocks = ((block, "address", "requested_size") for segment in snapshot["segments"] for block in segment.get("blocks", ()))
    events = ((event, "addr", "size") for events in snapshot["device_traces"] for event in events if event["action"] == "alloc")
    for found in (blocks, events):
        for holder, address, size in found:
            if (holder.get(address), holder.get(size)) in given:
                holder["frames"] = [*holder.get("frames", ()), PURPOSE]
