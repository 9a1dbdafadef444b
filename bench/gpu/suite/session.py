# SPDX-License-Identifier: Apache-2.0
"""Runs steps in the order of their value within a time, and keeps each answer at once.

A step is one or more commands that print JSON. It gets its `seconds`, or less when the time of all steps ends, and is left out
when less than `least` remain. A command that fails, hangs or dies is noted with its last lines, and the next one runs. The file
of answers is written again after each command and replaced whole, so the end of the machine loses one command.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from typing import Callable, List, NamedTuple, Optional, Sequence

LAST = 3000  # characters of a text that is kept
HANGS = "hangs"  # in all the time that a command may take
OUT_OF_TIME = "out of time"  # of the step, or of all steps


class Step(NamedTuple):
    name: str
    seconds: float
    commands: List[List[str]]
    least: float = 5  # seconds that must remain
    each: float = 600  # seconds of a command
    needs: Sequence[str] = ()  # parts of the machine
    prepare: Sequence[List[str]] = ()  # commands without an answer, before the others
    judge: Optional[Callable] = None  # of the result: more members of the answer; a `status` replaces the step's


def parsed(text):
    """Returns the JSON of a text, a list if each line is an object of its own, None without any."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    objects = []
    for line in text.splitlines():
        try:
            objects.append(json.loads(line))
        except ValueError:
            continue
    return [one for one in objects if isinstance(one, dict)] or None


def ending(status):
    """Returns the end of a command in words. The status is an exit status, minus a signal, or a text."""
    if isinstance(status, str):
        return status
    if status < 0:
        return f"dies of {signal.Signals(-status).name}"
    return f"exit status {status}"


class Session:
    """The steps of a part. `answers` is the content of the file."""

    def __init__(self, path, seconds, answers, environment=None, lacks=lambda need: None):
        self.path, self.answers, self.environment, self.lacks = path, answers, environment, lacks
        self.end = time.monotonic() + seconds
        self.work = tempfile.mkdtemp(prefix="tidepool-gpu-")
        self.files = os.path.join(self.work, "files")  # of commands; they come back in one archive beside the answers
        os.mkdir(self.files)
        self.process = None
        self.answers["steps"] = {}

    def close(self):
        self._stop()
        shutil.rmtree(self.work, ignore_errors=True)

    def left(self):
        return self.end - time.monotonic()

    def write(self):
        """Replaces the file. A disk without room loses no earlier answer, and the newest is printed."""
        try:
            with open(self.path + ".part", "w", encoding="utf-8") as file:
                json.dump(self.answers, file, indent=1)
            os.replace(self.path + ".part", self.path)
        except OSError as error:
            newest = list(self.answers["steps"].items())[-1:]
            print(f"gpu_suite: {self.path} cannot be written ({error.strerror}), so it lacks: {json.dumps(newest)}",
                  file=sys.stderr, flush=True)

    def _stop(self):
        """Ends the processes of the command, also those that it left."""
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()
            self.process = None

    def command(self, command, seconds):
        """Runs a command. Returns its exit status (`hangs` after these seconds), and its standard output and error."""
        out, err = (os.path.join(self.work, name) for name in ("out", "err"))
        # Files, not pipes: a process that the command leaves cannot hold the suite up.
        with open(out, "wb") as out_file, open(err, "wb") as err_file:
            try:
                self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out_file, stderr=err_file,
                                                env=self.environment, start_new_session=True)
                status = self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                status = HANGS
            except OSError as error:
                status = 127
                err_file.write(f"{command[0]}: {error.strerror}\n".encode())
            self._stop()
        texts = []
        for path in (out, err):
            with open(path, encoding="utf-8", errors="replace") as file:
                texts.append(file.read())
        return status, *texts

    def why_left_out(self, step):
        for need in step.needs:
            reason = self.lacks(need)
            if reason is not None:
                return reason
        if self.left() < step.least:
            return f"{max(self.left(), 0):.0f} s remain, expected {step.least:.0f}"
        return None

    def run(self, step):
        why = self.why_left_out(step)
        if why is None:
            self._run(step)
        else:
            self.answers["steps"][step.name] = {"status": "left out", "why": why}
        self._archive()
        self.write()
        answer = self.answers["steps"][step.name]
        print(f"gpu_suite: {step.name}: {answer['status']}"
              + (f" ({answer['why']})" if "why" in answer else f", {answer['seconds']} s"), file=sys.stderr, flush=True)

    def _run(self, step):
        begin, end = time.monotonic(), min(self.end, time.monotonic() + step.seconds)
        answer = self.answers["steps"][step.name] = {"status": "running", "seconds": 0.0, "result": []}
        self.write()
        for command in [*step.prepare, *step.commands]:
            if end <= time.monotonic():
                answer["status"] = OUT_OF_TIME
                break
            status, result = self._answer_of(command, step, end, answer)
            if command not in step.prepare and result is not None:
                answer["result"].append(result)
            answer["seconds"] = round(time.monotonic() - begin, 1)
            self.write()
            if status != 0 and command in step.prepare:
                break
        if answer["status"] == "running":
            answer["status"] = "passed"
        if len(step.commands) == 1:
            answer["result"] = answer["result"][0] if answer["result"] else None
        if step.judge is not None:
            try:
                answer.update(step.judge(answer["result"]))
            except (KeyError, TypeError, IndexError) as error:
                answer.update(status="failed", judged=f"{type(error).__name__}: {error}")

    def _answer_of(self, command, step, end, answer):
        """Runs a command of a step, and notes a failure. Returns its exit status and its result."""
        full = min(step.each, step.seconds)
        limit = min(full, end - time.monotonic())
        status, out, err = self.command(command, limit)
        if status == HANGS and limit < full - 1:
            status = OUT_OF_TIME
        result = parsed(out)
        if status != 0:
            answer["status"] = status if isinstance(status, str) else "failed"
            answer.setdefault("failures", []).append({"command": shown(command), "ended": ending(status),
                                                      "said": (err or out)[-LAST:]})
        elif result is None:
            result = {"said": (out + err)[-LAST:]}
        return status, result

    def _archive(self):
        """Keeps the files of commands in one archive: a machine that gives few files back gives this one."""
        if not os.listdir(self.files):
            return
        path = os.path.splitext(self.path)[0] + ".tar"
        try:
            with tarfile.open(path + ".part", "w") as archive:
                archive.add(self.files, ".")
            os.replace(path + ".part", path)
        except OSError as error:
            print(f"gpu_suite: {path} cannot be written: {error.strerror}", file=sys.stderr, flush=True)


def shown(command):
    return " ".join(os.path.basename(word) if word.startswith("/") else word for word in command)
