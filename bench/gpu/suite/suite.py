#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a part of the GPU suite: docs/guide/gpu-suite.md. scripts/gpu_suite.sh calls it.

TIDEPOOL_GPU_FOLDER names the folder that scripts/gpu_pack.sh made, `.gpu` without it, and TIDEPOOL_GPU_SECONDS the time of a part.
usage: gpu_suite.sh a|b [OUT.json [STEP...]]
"""
import os
import signal
import sys
import time

import machine
import predictions
import steps
from session import Session

SECONDS = 285
ROOM = 32 << 20  # bytes of answers and files of a part


def refuse(text):
    print(f"gpu_suite: {text}", file=sys.stderr)
    sys.exit(2)


def arguments(words):
    if not words or words[0] not in steps.PARTS:
        refuse("usage: scripts/gpu_suite.sh a|b [OUT.json [STEP...]]")
    path = os.path.abspath(words[1] if len(words) > 1 else f"gpu_{words[0]}.json")
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path)) or not os.access(os.path.dirname(path), os.W_OK):
        refuse(f"{path} cannot be written: choose another path for the answers")
    return words[0], path, words[2:]


def is_of(step, name):
    return step.name == name or step.name.startswith(name + "_")


def chosen(all_steps, names):
    """Returns the steps with these names, and those that begin with one: `bench` means `bench_pairs` and `bench_growth`."""
    unknown = [name for name in sorted(names) if not any(is_of(step, name) for step in all_steps)]
    if unknown:
        refuse(f"no step '{unknown[0]}', expected some of {', '.join(step.name for step in all_steps)}")
    return [step for step in all_steps if not names or any(is_of(step, name) for name in names)]


def main(words):
    part, path, names = arguments(words)
    pack = os.path.abspath(os.environ.get("TIDEPOOL_GPU_FOLDER", os.path.join(machine.ROOT, ".gpu")))
    chosen(steps.PARTS[part](pack, "", ""), names)
    answers = {"part": part, "begun": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "machine": None, "warnings": []}
    session = Session(path, float(os.environ.get("TIDEPOOL_GPU_SECONDS", SECONDS)), answers, machine.environment(pack))
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    try:
        return run(session, part, pack, names)
    finally:
        session.close()


def warnings_of_room(path):
    its = os.statvfs(os.path.dirname(path))
    free = its.f_bavail * its.f_frsize
    if free < ROOM:
        yield f"{free >> 20} MiB are free for {path}, expected {ROOM >> 20} MiB: later answers may be lost"


def run(session, part, pack, names):
    answers = session.answers
    answers["warnings"] += warnings_of_room(session.path)
    session.write()
    its = machine.Machine(session, pack)
    answers["machine"] = its.facts()
    answers["warnings"] += its.warnings(predictions.read()["assumes"])
    session.write()
    for text in answers["warnings"]:
        print(f"gpu_suite: {text}", file=sys.stderr, flush=True)
    if its.no_gpu is not None:
        print("gpu_suite: without a GPU nothing was measured", file=sys.stderr)
        return 1 if its.smi is not None else 0  # a GPU that the programs cannot use is a failure
    session.lacks = its.lacks
    for step in chosen(steps.PARTS[part](pack, session.work, session.files), names):
        session.run(step)
    bad = [name for name, answer in answers["steps"].items() if answer["status"] not in ("passed", "left out")]
    print(f"gpu_suite: wrote {session.path}" + (f"; failed: {', '.join(bad)}" if bad else ""), file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
