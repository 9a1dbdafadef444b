#!/usr/bin/env python3
"""Checks the house: every include goes along an arrow of the table below, which is that of ARCHITECTURE.md."""
import os
import re
import sys

# Room -> the rooms it may include from, beside itself. `tidepool` is the public face, include/tidepool. A room in a
# room comes first.
MAY_INCLUDE = {
    "include/tidepool": set(),
    "lib/blocks": {"tidepool"},
    "lib/trace": {"tidepool"},
    "lib/device/cuda": {"tidepool", "lib/device"},
    "lib/device/host": {"tidepool", "lib/device"},
    "lib/device": {"tidepool"},
    "lib/pool": {"tidepool", "lib/blocks", "lib/device", "lib/trace"},
    "lib/zvc": {"tidepool", "lib/trace"},
    "lib/pinned": {"tidepool", "lib/blocks", "lib/pool"},
    "lib/offload": {"tidepool", "lib/zvc"},
    "lib/graph": {"tidepool", "lib/blocks", "lib/trace"},
    "lib/sizing": {"tidepool", "lib/blocks", "lib/trace"},
    "policies/offload": {"tidepool"},
    "policies/placement": {"tidepool"},
    "bindings/cnmem": {"tidepool"},
    "trace_replay": {"tidepool"},
    "examples": {"tidepool"},
}
ANYTHING = ("tests", "bench")


def room_of(path):
    return next((room for room in MAY_INCLUDE if path.startswith(room + "/")), None)


def main(root):
    errors = []
    checked = 0
    for folder, _, files in os.walk(root):
        relative = os.path.relpath(folder, root)
        if relative.startswith(("build", ".git")):
            continue
        for name in files:
            path = os.path.normpath(os.path.join(relative, name))
            if not name.endswith((".h", ".cc", ".cu")) or path.startswith(ANYTHING):
                continue
            room = room_of(path)
            if room is None:
                errors.append(f"{path}: in no room")
                continue
            checked += 1
            with open(os.path.join(root, path), encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    match = re.match(r'#include "([^"]+)"', line)
                    if not match or match[1].startswith("absl/"):
                        continue
                    target = match[1]
                    target_room = "tidepool" if target.startswith("tidepool/") else room_of(target)
                    own = "tidepool" if room == "include/tidepool" else room
                    if target_room != own and target_room not in MAY_INCLUDE[room]:
                        errors.append(f"{path}:{number}: {room} may not include {target}")
    print("\n".join(errors) or f"{checked} files keep to the house")
    return 1 if errors or checked == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
