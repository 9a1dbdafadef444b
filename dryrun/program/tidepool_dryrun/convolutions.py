# SPDX-License-Identifier: Apache-2.0
"""The memory that a program with convolutions would need if cuDNN took other workspaces than those of the dry run.

The workspaces of the run have sizes that hardly any tensor has, so they are found among the recorded requests.
"""
from . import events

GRAIN = 512  # of blocks


def rounded(size):
    return (size + GRAIN - 1) // GRAIN * GRAIN


def peak_live(record, workspaces):
    """Returns the most bytes in use if each request of a size in `workspaces` has the bytes there, and their number."""
    live = peak = count = 0
    for event in record:
        action, size = event["action"], event["size"]
        if size in workspaces:
            size = workspaces[size]
            count += action == "alloc"
        live += rounded(size) if action == "alloc" else -rounded(size)
        peak = max(peak, live)
    return peak, count


def answer(snapshot, device, workspaces):
    """Returns the answer for a device, None for a program without convolutions of cuDNN. `workspaces` are pairs: the bytes
    that a convolution took, and the most that one of its algorithms takes."""
    if not workspaces:
        return None
    record = events.read(snapshot, device).events
    peak, count = peak_live(record, {bytes_: bytes_ for bytes_, _ in workspaces})
    if count == 0:
        return None
    return {"workspace_bytes": rounded(max(bytes_ for bytes_, _ in workspaces)), "calls": count,
            "large_workspace_bytes": rounded(max(largest for _, largest in workspaces)),
            "large_peak_live_bytes": peak_live(record, dict(workspaces))[0],
            "no_workspace_peak_live_bytes": peak_live(record, {bytes_: 0 for bytes_, _ in workspaces})[0],
            "peak_live_bytes": peak}
