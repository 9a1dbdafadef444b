# SPDX-License-Identifier: Apache-2.0
"""Where the host has no pinned memory for a copy, data stays on the device."""
import warnings

__all__ = ["warn_that_data_stays"]

_has_warned = False


def warn_that_data_stays(size: int, error: Exception) -> None:
    """Warns once in a process. size: bytes of the copy that had no memory."""
    global _has_warned
    if not _has_warned:
        warnings.warn(f"tidepool: the host has no pinned memory of {size} bytes, so data stays on the device and more than the budget "
                      "is in use. Free memory of the host, raise its limit of locked memory (ulimit -l), or give a larger budget: "
                      f"{str(error).splitlines()[0]}", RuntimeWarning, stacklevel=3)
    _has_warned = True
