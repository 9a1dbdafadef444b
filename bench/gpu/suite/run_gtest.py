#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program of gtest so that a test that hangs or dies costs itself alone. Prints one JSON object.

The program runs as a whole. If it hangs or dies, the test that had begun last is noted, and the others run again without it and
without those that have ended. Exit status 1 if a test failed, hangs or dies.
usage: run_gtest.py SECONDS-OF-A-TEST SECONDS-OF-ALL PROGRAM [ARGUMENT...]
"""
import json
import re
import subprocess
import sys
import threading
import time

EVENT = re.compile(r"\[\s*(RUN|OK|FAILED|SKIPPED)\s*\] ([\w./]+)(?:.*\((\d+) ms\))?")
LINES = 30  # that are kept of a bad test


class Run:
    """One run of the program: its lines, and its end: an exit status, 'hangs' or 'out of time'."""

    def __init__(self, command, limit, end):
        self.lines, self.ended, self._last = [], None, time.monotonic()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(limit, end, over))
        watcher.start()
        for line in self._process.stdout:  # gtest flushes after each line of a test
            self.lines.append(line.rstrip())
            self._last = time.monotonic()
        over.set()
        watcher.join()
        status = self._process.wait()
        self.ended = self.ended or status

    def _watch(self, limit, end, over):
        while not over.wait(0.05):
            now = time.monotonic()
            if now - self._last > limit or now > end:
                self.ended = "hangs" if now < end else "out of time"
                self._process.kill()
                return


class Results:
    def __init__(self):
        self.passed, self.failed, self.bad, self.said = {}, {}, {}, []

    def read(self, run):
        """Takes the tests of a run that ended. Returns the one that was running at its end, and its first line."""
        running, begin = None, 0
        for number, line in enumerate(run.lines):
            found = EVENT.match(line)
            if not found or "listed below" in line:
                continue
            what, name, milliseconds = found[1], found[2], int(found[3] or 0)
            if what == "RUN":
                running, begin = name, number
            elif running == name:
                if what == "FAILED":
                    self.failed[name] = milliseconds
                    self.say(name, run.lines[begin:number])
                else:
                    self.passed[name] = milliseconds
                running = None
        return running, begin

    def say(self, name, lines):
        self.said.append({"test": name, "said": lines[:LINES]})

    def filter(self):
        names = ":".join([*self.passed, *self.failed, *self.bad])
        return [f"--gtest_filter=-{names}"] if names else []


def main():
    limit, total, command = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    begin, results = time.monotonic(), Results()
    while True:
        run = Run([*command, "--gtest_color=no", *results.filter()], limit, begin + total)
        running, line = results.read(run)
        if running is None or run.ended in (0, 1, "out of time"):
            break
        results.bad[running] = run.ended
        results.say(running, run.lines[line:])
    answer = {"passed": len(results.passed), "failed": results.failed, "hangs_or_dies": results.bad, "ended": run.ended,
              "seconds": round(time.monotonic() - begin, 1),
              "slowest_ms": sorted(results.passed.items(), key=lambda item: -item[1])[:8], "said": results.said}
    if run.ended not in (0, 1):
        answer["running_at_the_end"], answer["last_lines"] = running, run.lines[-LINES:]
    print(json.dumps(answer))
    return 0 if run.ended == 0 and not results.failed and not results.bad else 1


if __name__ == "__main__":
    sys.exit(main())
