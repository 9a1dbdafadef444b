#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the house against its one table, docs/design/rooms.md: includes, arrows, namespaces, owners and names; and that tests lie as it does."""
import os
import re
import sys

PUBLIC = "include/tidepool/"
# Folders that stand on the public headers alone, and folders that may include everything.
OUTSIDE = ("bindings/", "trace_replay/", "examples/", "dryrun/", "packaging/")
# Headers of no room that all code may include.
OF_NO_ROOM = ("tidepool/export.h", "lib/base/arithmetic.h", "dryrun/program/tidepool_dryrun/gpus.inc")
# Annotated mutexes and tables read without them serve all code that has threads, errors name the nearest of known names first,
# events and streams end with their owners, and answers compare with the fastest algorithms.
FOR_ALL = OF_NO_ROOM + ("lib/base/locks/mutex.h", "lib/base/locks/pointer_table.h", "lib/base/text/metric_family.h", "lib/base/text/nearest.h",
                        "lib/base/text/quote.h", "lib/memory/device/owned.h", "lib/training/graph/least_seconds.h")
EVERYTHING = ("tests/", "bench/")
NOT_OURS = ("build", ".git")
# Folders of tests below which each folder has the path of the one that it tests, and the folder above that.
MIRRORS = {"base": "lib", "memory": "lib", "trace": "lib", "copies": "lib", "training": "lib", "policies": "", "trace_replay": "",
           "bindings": "", "dryrun": ""}
NO_MIRRORS = {
    "policies/training/exact": "compares the policies with the exact search",
    "trace_replay/commands/cases": "inputs of a test",
}


class Room:
    def __init__(self, namespace, headers, uses):
        self.namespace = namespace
        self.headers = headers
        self.uses = uses
        self.used = set()


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


def read_table(root):
    """Returns the rooms by folder, in the order of the table."""
    rooms = {}
    with open(os.path.join(root, "docs/design/rooms.md"), encoding="utf-8") as file:
        for line in file:
            if not re.match(r"\| `(lib|policies)/", line):
                continue
            folder, namespace, _, headers, uses = line.strip().strip("|").split("|")
            rooms[quoted(folder)[0]] = Room(quoted(namespace)[0], quoted(headers), quoted(uses))
    return rooms


def read_bindings(root):
    """Returns the owners of the public headers that folders around the library have."""
    with open(os.path.join(root, "docs/design/rooms.md"), encoding="utf-8") as file:
        rows = [line.strip().strip("|").split("|") for line in file if line.startswith(tuple(f"| `{top}" for top in OUTSIDE))]
    return {header: quoted(row[0])[0] for row in rows for header in quoted(row[-1])}


def check_table(rooms, root):
    above = set()
    owners = {}
    for folder, room in rooms.items():
        for used in room.uses:
            if used not in above:
                yield f"rooms.md: {folder} uses {used}, expected a room above it"
        above.add(folder)
        for header in room.headers:
            if header in owners:
                yield f"rooms.md: {header} belongs to {owners[header]} and to {folder}, expected one owner"
            if not os.path.exists(os.path.join(root, PUBLIC, header)):
                yield f"rooms.md: {header} of {folder} does not exist"
            owners[header] = folder


class House:
    def __init__(self, root):
        self.root = root
        self.rooms = read_table(root)
        self.owner = {header: folder for folder, room in self.rooms.items() for header in room.headers}
        self.bindings = read_bindings(root)
        self.errors = list(check_table(self.rooms, root))
        self.checked = 0
        self.sources = {}

    def room_of(self, path):
        """Returns the room of a file; the innermost, as rooms lie in rooms."""
        folders = [folder for folder in self.rooms if path.startswith(folder + "/")]
        return max(folders, key=len, default=None)

    def target_of(self, include):
        """Returns the room that an include points to, "" for none, None for a file in no room."""
        if include in OF_NO_ROOM or include.startswith("absl/"):
            return ""
        if include.startswith("tidepool/"):
            header = include.removeprefix("tidepool/")
            return self.owner.get(header) or self.bindings.get(header)
        return self.room_of(include)

    def check_file(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            lines = file.read().split("\n")
        self.checked += 1
        includes = [(number, match[1]) for number, line in enumerate(lines, 1)
                    if (match := re.match(r'#include "([^"]+)"', line))]
        if path.startswith(OUTSIDE) or path.removeprefix(PUBLIC) in self.bindings:
            self.check_bindings(path, includes)
        elif path not in (PUBLIC + "export.h", "lib/base/arithmetic.h"):
            self.check_room(path, includes, lines)

    def check_bindings(self, path, includes):
        for number, include in includes:
            if include in FOR_ALL:
                continue
            if include.startswith(("lib/", "policies/")) or self.target_of(include) is None and include.startswith("tidepool/"):
                self.errors.append(f"{path}:{number}: {include}, expected a public header that has a room")

    def check_room(self, path, includes, lines):
        is_public = path.startswith(PUBLIC)
        folder = self.owner.get(path.removeprefix(PUBLIC)) if is_public else self.room_of(path)
        if folder is None:
            self.errors.append(f"{path}: in no room of docs/design/rooms.md")
            return
        room = self.rooms[folder]
        for number, include in includes:
            target = self.target_of(include)
            if target is None:
                self.errors.append(f"{path}:{number}: {include} belongs to no room")
            elif target not in ("", folder):
                room.used.add(target)
                if target not in room.uses:
                    self.errors.append(f"{path}:{number}: {folder} may not use {target} ({include})")
        allowed = {"tidepool"} if is_public else {"tidepool", "tidepool::" + room.namespace}
        for number, line in enumerate(lines, 1):
            match = re.match(r"namespace (tidepool[\w:]*)", line)
            if match and match[1] not in allowed:
                self.errors.append(f"{path}:{number}: namespace {match[1]}, expected tidepool::{room.namespace}")
        if path.endswith(".cc"):
            self.check_name(path)

    def check_name(self, path):
        """Stack traces and editors show the name alone."""
        other = self.sources.setdefault(os.path.basename(path), path)
        if other != path:
            self.errors.append(f"{path}: has the name of {other}")

    def check_arrows(self):
        for folder, room in self.rooms.items():
            for unused in sorted(set(room.uses) - room.used):
                self.errors.append(f"rooms.md: {folder} does not use {unused}")


def check_mirrors(root):
    """Yields the folders of tests that have no folder of their path in the tree, and exceptions that are not needed."""
    unneeded = set(NO_MIRRORS)
    for top, above in MIRRORS.items():
        for folder, folders, _ in os.walk(os.path.join(root, "tests", top)):
            folders[:] = [name for name in folders if name != "__pycache__"]
            path = os.path.relpath(folder, os.path.join(root, "tests"))
            if os.path.isdir(os.path.join(root, above, path)):
                continue
            if path not in NO_MIRRORS:
                yield f"tests/{path}: no folder {os.path.join(above, path)}, expected the path of the folder that it tests"
            unneeded.discard(path)
    yield from (f"rooms_test.py: NO_MIRRORS has {path}, expected only folders that need it" for path in sorted(unneeded))


def main(root):
    house = House(root)
    for folder, folders, files in os.walk(root):
        relative = os.path.relpath(folder, root)
        relative = "" if relative == "." else relative + "/"
        folders[:] = [name for name in folders if not (relative + name + "/").startswith(NOT_OURS)]
        for name in files:
            path = relative + name
            if name.endswith((".h", ".cc", ".cu")) and not path.startswith(EVERYTHING):
                house.check_file(path)
    house.check_arrows()
    house.errors += check_mirrors(root)
    print("\n".join(house.errors) or f"{house.checked} files keep to the house")
    return 1 if house.errors or house.checked == 0 or not house.rooms else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
