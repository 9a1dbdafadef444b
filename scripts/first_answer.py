#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how long a new user waits: `pip install` of a wheel into a fresh environment that has PyTorch, and then the answer of the first
dry run. Writes the seconds into a file of bench/results.

usage: first_answer.py WHEEL PYTHON [OUTPUT]    PYTHON: an interpreter with PyTorch, such as scripts/framework_tests.sh installs
"""
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOAL = 60  # seconds


def timed(command):
    """Runs a command, and returns its output and its seconds."""
    begin = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout, round(time.monotonic() - begin, 3)


def shortest(command):
    """Returns the seconds of the shortest of ten runs: of so short a command, a run tells more of what else runs on the machine."""
    return min(timed(command)[1] for _ in range(10))


def fresh_environment(folder, python):
    """Makes an environment that also finds the packages of another one. Returns its folder of programs."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    here, there = (subprocess.run([one, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], stdout=subprocess.PIPE, text=True,
                                  check=True).stdout.strip() for one in (f"{folder}/bin/python", python))
    pathlib.Path(here, "other.pth").write_text(there + "\n")
    return pathlib.Path(folder, "bin")


def measure(wheel, python):
    with tempfile.TemporaryDirectory() as folder:
        programs = fresh_environment(folder, python)
        _, installed = timed([programs / "python", "-m", "pip", "install", "-q", wheel])
        answer, answered = timed([programs / "tidepool", "dryrun", "--json", "--steps", "1", "--", programs / "python",
                                  ROOT / "tests/frameworks/dryrun/train.py"])
        imported, started = (shortest([programs / "python", "-c", line]) for line in ("import tidepool", ""))
    found = json.loads(answer)
    return {"install_seconds": round(installed, 2), "dry_run_seconds": round(answered, 2), "seconds": round(installed + answered, 2), "goal_seconds": GOAL,
            "import_seconds": round(imported - started, 3), "torch": found["torch"], "peak_live_bytes": found["peak_live_bytes"],
            "processors": os.cpu_count(), "load": round(os.getloadavg()[1], 1)}  # the load of the last five minutes


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__.strip())
    found = measure(*sys.argv[1:3])
    default = ROOT / "bench/results" / f"{datetime.date.today()}-first_answer.json"
    pathlib.Path(sys.argv[3] if len(sys.argv) > 3 else default).write_text(json.dumps(found, indent=2) + "\n")
    print(f"{found['seconds']} s from pip install to the first answer; the goal is {GOAL} s")


if __name__ == "__main__":
    main()
