#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads the shared libraries as a framework would, into programs that were not linked with them: a C program and
Python. That fails for a library with much initial-exec TLS, and for a library that needs such a library (jemalloc has 2.6 KB).
usage: loading_test.py LOADING_PROGRAM LIBRARY_THAT_CANNOT_BE_LOADED FOLDER_TO_SEARCH LIBRARY..."""
import os
import re
import subprocess
import sys

# The loader's reserve for static TLS is about 1.6 KB, and other libraries need a part of it.
MOST_TLS_BYTES = 256


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


def python_loads(*libraries):
    return run(sys.executable, "-c", "import ctypes, sys\nfor name in sys.argv[1:]: ctypes.CDLL(name)\nprint('loaded')",
               *libraries)


def faults_of(library):
    _, needed = run("ldd", library)
    if "not found" in needed:
        yield f"needs missing libraries:\n{needed}"
    # Which malloc serves the program is the program's choice.
    if re.search(r"jemalloc|tcmalloc|mimalloc", needed):
        yield f"brings a malloc of its own:\n{needed}"
    _, dynamic = run("readelf", "-dW", library)
    if "STATIC_TLS" in dynamic:
        yield "has initial-exec TLS (STATIC_TLS), expected none"
    _, headers = run("readelf", "-lW", library)
    tls = re.search(r"^\s+TLS\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x[0-9a-f]+)", headers, re.MULTILINE)
    if tls and int(tls[1], 16) > MOST_TLS_BYTES:
        yield f"has {int(tls[1], 16)} bytes of TLS, expected at most {MOST_TLS_BYTES}"


def main(program, unloadable, folder, *libraries):
    os.environ["LD_LIBRARY_PATH"] = folder
    faults = []
    # Shows that this test can fail.
    for how, (status, said) in (("program", run(program, unloadable)), ("Python", python_loads(unloadable))):
        if status == 0 or "static TLS" not in said:
            faults.append(f"{unloadable}: expected that the {how} cannot load it: {said}")
    if not any("STATIC_TLS" in fault for fault in faults_of(unloadable)):
        faults.append(f"{unloadable}: expected initial-exec TLS")
    for group in [[library] for library in libraries] + [list(libraries)]:
        for how, (status, said) in (("program", run(program, *group)), ("Python", python_loads(*group))):
            if status != 0 or "loaded" not in said:
                faults.append(f"{group}: the {how} cannot load it: {said}")
    for library in libraries:
        faults += [f"{library}: {fault}" for fault in faults_of(library)]
    print("\n".join(faults) or f"{len(libraries)} libraries can be loaded")
    return 1 if faults or not libraries else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
