# SPDX-License-Identifier: Apache-2.0
"""The rate of the link between a device and the host."""
import functools

import torch

__all__ = ["link_rate"]

_ASSUMED = 50e9  # bytes a second, for tensors of the CPU, which play the part of a GPU


@functools.lru_cache(maxsize=None)
def link_rate(device):
    """Returns the bytes a second of the slower direction between a device and pinned memory; 0 for a device that shares the memory of the
    host, to which nothing need be sent."""
    if device.type != "cuda":
        return _ASSUMED
    if getattr(torch.cuda.get_device_properties(device), "is_integrated", False):
        return 0.0
    size = 32 << 20
    here = torch.empty(size, dtype=torch.uint8, device=device)
    host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    return size / max(_copy_seconds(host, here), _copy_seconds(here, host))


def _copy_seconds(target, source):
    """Returns the time of the second of two copies."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    target.copy_(source, non_blocking=True)
    begin.record()
    target.copy_(source, non_blocking=True)
    end.record()
    end.synchronize()
    return max(begin.elapsed_time(end) * 1e-3, 1e-9)
