# SPDX-License-Identifier: Apache-2.0
"""The memory that a program with convolutions would need if cuDNN took other workspaces than those of the dry run.

The workspaces of the run have a size that hardly any tensor has, so they are found among the recorded requests.
"""
import pickle

MIB = 1 << 20
WORKSPACE_BYTES = 8 * MIB - 256  # kConvolutionWorkspace of stand_in/libraries/cudnn.cc
LARGE_BYTES = 256 * MIB
GRAIN = 512  # of blocks


def rounded(size):
    return (size + GRAIN - 1) // GRAIN * GRAIN


def peak_live(events, workspace):
    """Returns the most bytes in use if each workspace has `workspace` bytes, and the number of workspaces."""
    live = peak = count = 0
    for event in events:
        action, size = event["action"], event["size"]
        if action not in ("alloc", "free_completed"):
            continue
        if size == WORKSPACE_BYTES:
            size = workspace
            count += action == "alloc"
        live += rounded(size) if action == "alloc" else -rounded(size)
        peak = max(peak, live)
    return peak, count


def answer(snapshot, device):
    """Returns the answer for a device, None for a program without convolutions of cuDNN."""
    with open(snapshot, "rb") as file:
        events = pickle.load(file)["device_traces"][device]
    peak, count = peak_live(events, WORKSPACE_BYTES)
    if count == 0:
        return None
    return {"workspace_bytes": WORKSPACE_BYTES, "calls": count, "large_workspace_bytes": LARGE_BYTES,
            "large_peak_live_bytes": peak_live(events, LARGE_BYTES)[0], "peak_live_bytes": peak}
