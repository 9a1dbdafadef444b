# SPDX-License-Identifier: Apache-2.0
"""Memory of the host that this process takes. Where the GPU shares it, the program needs room for it too."""
NAMES = ("RssAnon", "RssShmem", "VmHWM")


def answer():
    """Returns the bytes in memory now that no file has, and the most in memory so far, with the pages of files."""
    with open("/proc/self/status", encoding="utf-8", errors="replace") as file:
        lines = [line.partition(":") for line in file]
    sizes = {name: 1024 * int(rest.split()[0]) for name, _, rest in lines if name in NAMES}
    return {"bytes": sizes.get("RssAnon", 0) + sizes.get("RssShmem", 0), "peak_bytes": sizes.get("VmHWM", 0)}
