#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks all questions of gpu_probe, and compares the answers of the stand-in with those of GPUs.

Each question has a process of its own and a time, so that a crash (a negative `process`) and a hang are answers too. Answers are
JSON, one question a line. `answers/` beside this file has those of the stand-in and of the GPUs that were asked.

usage: probe.py PROBE [PART-OF-A-NAME...] >ANSWERS.json
       probe.py --diff ANSWERS.json OTHER.json   the members in which two files differ, but times; exit status 1 if any
       probe.py --check STAND_IN_PROBE           asks the stand-in, and compares with its kept answers
       probe.py --update STAND_IN_PROBE          asks the stand-in, and keeps its answers
"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys

ALONE = ("costs", "vmm_times", "pageable_copy", "out_of_memory", "reserve")  # they take times, or the whole memory
SECONDS = 15  # of a question, if TIDEPOOL_PROBE_SECONDS has no other
WORKERS = 8
# Calls are fast on the stand-in, so a busy machine is no reason for one that waits. Questions take up to 4 GiB, in addresses.
ON_THE_STAND_IN = {"TIDEPOOL_PROBE_PATIENCE_MS": "5000", "CUDART_HOST_MEMORY": str(8 << 30), "TIDEPOOL_PROBE_SECONDS": "120"}
KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "answers", "stand_in.json")
# Members that differ from run to run: times, rates, and sizes of the device.
MEASURED = re.compile(r"(^|_)(us|ns|gb_per_s|call_share|over_asked)$")


def ask(probe, name):
    try:
        done = subprocess.run([probe, name], capture_output=True, text=True, check=False,
                              timeout=float(os.environ.get("TIDEPOOL_PROBE_SECONDS", SECONDS)))
        said, end = done.stdout, done.returncode
    except subprocess.TimeoutExpired as late:
        said, end = (late.stdout or b"").decode(), "hangs"
    try:
        return {"process": end, **json.loads("{" + said + "}")}
    except ValueError:
        return {"process": end, "text": said[-400:]}


def ask_all(probe, parts=()):
    names = subprocess.run([probe, "--list"], capture_output=True, text=True, check=True).stdout.split()
    names = [name for name in names if not parts or any(part in name for part in parts)]
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        asked = {name: pool.submit(ask, probe, name) for name in names if not name.startswith(ALONE)}
    return {name: asked[name].result() if name in asked else ask(probe, name) for name in names}


def without_measured(question, answer):
    """Returns the members that a runtime decides. Of the device it is whether it has virtual memory."""
    if question == "device":
        return {key: value for key, value in answer.items() if key in ("process", "properties", "vmm")}
    return {key: value for key, value in answer.items() if not MEASURED.search(key)}


def differences(one, other):
    """Yields (question, member, value, other value). A question that one side lacks is one difference."""
    for question in sorted({*one, *other}):
        if question not in one or question not in other:
            yield question, "asked", question in one, question in other
            continue
        sides = [without_measured(question, answers[question]) for answers in (one, other)]
        if sides[0].get("process") != sides[1].get("process"):
            yield question, "process", sides[0].get("process"), sides[1].get("process")
            continue
        keys = [key for key in dict.fromkeys([*sides[0], *sides[1]]) if sides[0].get(key) != sides[1].get(key)]
        # Members that one side lacks follow from the answers before them.
        in_both = [key for key in keys if key in sides[0] and key in sides[1]]
        for key in in_both or keys:
            yield question, key, sides[0].get(key), sides[1].get(key)


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def text_of(answers):
    return "{" + ",\n".join(f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in answers.items()) + "}\n"


def print_differences(one, other, names):
    rows = list(differences(one, other))
    for question, key, value, other_value in rows:
        print(f"{question:48} {key:24} {names[0]}: {value!s:36} {names[1]}: {other_value}")
    print(f"{len(rows)} differences in {len({row[0] for row in rows})} of {len({*one, *other})} questions", file=sys.stderr)
    return 1 if rows else 0


def main(arguments):
    if arguments[:1] == ["--diff"] and len(arguments) == 3:
        names = [os.path.basename(path).removesuffix(".json") for path in arguments[1:]]
        return print_differences(read(arguments[1]), read(arguments[2]), names)
    if arguments[:1] in (["--check"], ["--update"]) and len(arguments) == 2:
        os.environ.update(ON_THE_STAND_IN)
        answers = {name: without_measured(name, answer) for name, answer in ask_all(arguments[1]).items()}
        if arguments[0] == "--check":
            status = print_differences(read(KEPT), answers, ("kept", "now"))
            if status:
                print(f"if the change is meant: {__file__} --update {arguments[1]}", file=sys.stderr)
            return status
        with open(KEPT, "w", encoding="utf-8") as file:
            file.write(text_of(answers))
        return 0
    if not arguments or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    sys.stdout.write(text_of(ask_all(arguments[0], arguments[1:])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
