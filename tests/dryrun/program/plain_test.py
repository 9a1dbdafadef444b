#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dry runs of a CUDA program without PyTorch, which takes 1 MiB of each device.

plain_test.py TOOL PROGRAM PROGRAM_WITH_A_STATIC_RUNTIME
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

TOOL, PROGRAM, STATIC = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)


def dry_run(*arguments, program=(PROGRAM,)):
    return subprocess.run([TOOL, "dryrun", *arguments, "--", *program], capture_output=True, text=True, check=False)


def is_running(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class PlainTest(unittest.TestCase):
    def test_says_what_each_device_held(self):
        done = dry_run("--devices", "2", "--gpu", "l4", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("NVIDIA L4"), 2)
        found = json.loads(done.stdout)
        self.assertIsNone(found["torch"])
        self.assertTrue(found["dry_run"] and found["fits"])
        self.assertEqual(found["peak_live_bytes"], 1 << 20)
        self.assertEqual([(rank["device"], rank["peak_reserved_bytes"]) for rank in found["ranks"]], [(0, 1 << 20), (1, 1 << 20)])
        self.assertRegex(dry_run().stdout, r"\(without PyTorch, .* assumed\)\n  peak +1.0 MiB taken from the CUDA runtime\n  fits +yes")

    def test_a_refused_request_does_not_fit(self):
        done = dry_run("--memory", "512KiB", "--json")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(json.loads(done.stdout)["out_of_memory"], {"bytes": 1 << 20, "frame": None})

    def script(self, folder, lines):
        path = pathlib.Path(folder) / "script.sh"
        path.write_text(f"#!/bin/sh\n{lines}\n")
        path.chmod(0o700)
        return str(path)

    # A cancelled job, a closed terminal and `timeout` send them.
    def test_signals_end_the_program_with_the_answer_so_far(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGINT):
            with self.subTest(number), tempfile.TemporaryDirectory() as folder:
                script = self.script(folder, f"{PROGRAM}\nsetsid sleep 300 &\necho process $! >&2\necho process $$ >&2\nexec sleep 300")
                temporary = pathlib.Path(folder, "temporary")
                temporary.mkdir()
                with subprocess.Popen([TOOL, "dryrun", "--json", "--", script], env=dict(os.environ, TMPDIR=str(temporary)),
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                      preexec_fn=lambda: signal.signal(number, signal.SIG_DFL)) as run:  # nohup and shells ignore some
                    processes = []
                    while len(processes) < 2:
                        line = run.stderr.readline()
                        if line.startswith("process"):
                            processes.append(int(line.split()[1]))
                    run.send_signal(number)
                    found = json.loads(run.communicate()[0])
                self.assertEqual((found["interrupted"], found["peak_live_bytes"]), (True, 1 << 20))
                self.assertEqual(list(temporary.iterdir()), [])
                self.assertEqual([process for process in processes if is_running(process)], [])

    # Python's workers, as of a program with CuPy: at a time, one after the other, and each with a device of its own.
    def test_processes_of_one_device_are_added_up(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "workers.py")
            path.write_text("import ctypes, multiprocessing, os, sys\n"
                            "def work(meet, index, kind):\n"
                            "    if kind == 'apart': os.environ['CUDA_VISIBLE_DEVICES'] = str(index)\n"
                            "    address = ctypes.c_void_p()\n"
                            "    assert ctypes.CDLL('libcudart.so.13').cudaMalloc(ctypes.byref(address), ctypes.c_size_t(50 << 30)) == 0\n"
                            "    if kind != 'alternating': meet.wait()\n"
                            "    os._exit(0)\n"
                            "if __name__ == '__main__':\n"
                            "    context = multiprocessing.get_context('fork')\n"
                            "    meet = context.Barrier(2)\n"
                            "    workers = [context.Process(target=work, args=(meet, index, sys.argv[1])) for index in range(2)]\n"
                            "    for worker in workers:\n"
                            "        worker.start()\n"
                            "        if sys.argv[1] == 'alternating': worker.join()\n"
                            "    for worker in workers: worker.join()\n")
            script = self.script(folder, f"exec {sys.executable} {path} $1")
            for kind, status, count in (("together", 2, 1), ("alternating", 0, 0), ("apart", 0, 0)):
                with self.subTest(kind):
                    done = dry_run("--devices", "2", "--json", program=(script, kind))
                    self.assertEqual(done.returncode, status, done.stderr)
                    self.assertEqual([(one["device"], one["processes"], one["peak_live_bytes"]) for one in json.loads(done.stdout)["shared"]],
                                     [(0, 2, 100 << 30)] * count)
            self.assertIn("no: 2 processes share device 0, and take 100.0 GiB of 79.2 GiB besides",
                          dry_run(program=(script, "together")).stdout)

    def test_arguments_are_bytes_of_any_length(self):
        with tempfile.TemporaryDirectory() as folder:
            script = self.script(folder, f"printf %s \"$1\" >{folder}/first\nprintf %s \"$*\" | wc -c >{folder}/length\n{PROGRAM}")
            done = dry_run(program=(script, b"\xff\x1b[31m", *["x" * 100_000] * 19))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(pathlib.Path(folder, "first").read_bytes(), b"\xff\x1b[31m")
            self.assertEqual(int(pathlib.Path(folder, "length").read_text()), 6 + 19 * 100_001)
            # Errors and answers hold no bytes that a terminal obeys.
            named = pathlib.Path(script).rename(os.fsdecode(os.fsencode(folder) + b"/\xff\x1b[31m"))
            self.assertTrue(dry_run(program=(str(named),)).stdout.startswith("\\xff\\x1b[31m: ended in"))
            self.assertIn("\\xff\\x1b: no such program", dry_run(program=(b"\xff\x1b",)).stderr)
            self.assertIn("no GPU '\\xff' is known", dry_run("--gpu", b"\xff").stderr)

    def test_empty_values_are_refused(self):
        for arguments in (("--fit", ""), ("--snapshot", ""), ("--report", ""), ("--memory", ""), ("--memory", "0"), ("--time-limit", "")):
            with self.subTest(arguments):
                done = dry_run(*arguments)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(arguments[0], done.stderr)

    def test_says_why_there_is_no_answer(self):
        with tempfile.TemporaryDirectory() as folder:
            script = self.script(folder, f"{PROGRAM}\nexit 3")
            for arguments, program, error in (
                    ((), (STATIC,), "holds NVIDIA's runtime itself (linked statically)"),
                    ((), (script,), "the program ended with status 3"),
                    ((), ("true",), "took no memory of a GPU"),
                    (("--snapshot", script), (PROGRAM,), "has no snapshot and no report")):
                with self.subTest(error):
                    done = dry_run(*arguments, program=program)
                    self.assertEqual((done.returncode, bool(done.stdout)), (1, bool(arguments)))
                    self.assertIn(error, done.stderr)


if __name__ == "__main__":
    unittest.main()
