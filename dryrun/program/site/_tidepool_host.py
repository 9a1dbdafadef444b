# SPDX-License-Identifier: Apache-2.0
"""Memory of the host that this process takes, and its workers. Where the GPU shares it, the program needs room for it too."""
import contextlib
import glob

NAMES = ("RssAnon", "RssShmem", "VmHWM")


def sizes_in(path, names):
    """Returns the bytes that a file of the system has for these names."""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.partition(":") for line in file]
    return {name: 1024 * int(rest.split()[0]) for name, _, rest in lines if name in names}


def children():
    """Returns the ids of the living processes that this one started, such as workers of data loaders."""
    found = []
    for path in glob.glob("/proc/self/task/*/children"):
        with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
            found += file.read().split()
    return found


def workers():
    """Returns the bytes that each of these has for itself, by its id. A forked one shares its unchanged pages."""
    found = {}
    for child in children():
        with contextlib.suppress(OSError):  # it has ended
            found[child] = sizes_in(f"/proc/{child}/smaps_rollup", ("Private_Dirty",)).get("Private_Dirty", 0)
    return found


def answer():
    """Returns the bytes in memory now that no file has, the most in memory so far, with the pages of files, and those of workers."""
    sizes = sizes_in("/proc/self/status", NAMES)
    return {"bytes": sizes.get("RssAnon", 0) + sizes.get("RssShmem", 0), "peak_bytes": sizes.get("VmHWM", 0), "workers": workers()}
