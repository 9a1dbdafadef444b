#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dry runs of a CUDA program without PyTorch, which takes 1 MiB of each device.

plain_test.py TOOL PROGRAM PROGRAM_WITH_A_STATIC_RUNTIME
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL, PROGRAM, STATIC = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)


def dry_run(*arguments, program=(PROGRAM,)):
    return subprocess.run([TOOL, "dryrun", *arguments, "--", *program], capture_output=True, text=True, check=False)


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

    def test_says_why_there_is_no_answer(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "script.sh"
            script.write_text(f"#!/bin/sh\n{PROGRAM}\nexit 3\n")
            script.chmod(0o700)
            for arguments, program, error in (
                    ((), (STATIC,), "holds NVIDIA's runtime itself (linked statically)"),
                    ((), (str(script),), "the program ended with status 3"),
                    ((), ("true",), "took no memory of a GPU"),
                    (("--snapshot", str(script)), (PROGRAM,), "a program without PyTorch has no snapshot")):
                with self.subTest(error):
                    done = dry_run(*arguments, program=program)
                    self.assertEqual((done.returncode, done.stdout), (1, ""))
                    self.assertIn(error, done.stderr)


if __name__ == "__main__":
    unittest.main()
