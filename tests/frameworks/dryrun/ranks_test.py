#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dry runs of programs of two ranks, with the tool and an interpreter that has PyTorch.

ranks_test.py TOOL PYTHON
"""
import json
import pathlib
import subprocess
import sys
import unittest

from quick import slow

TOOL, PYTHON = sys.argv.pop(1), sys.argv.pop(1)
PROGRAM = str(pathlib.Path(__file__).parent / "ranks.py")
TORCHRUN = (PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2")
WEIGHTS = 4 * (2 * 4 * 1024 * 1024 + 5 * 1024)  # bytes of the network


def answer(*command):
    done = subprocess.run([TOOL, "dryrun", "--json", "--devices", "2", "--", *command], capture_output=True, text=True,
                          check=False)
    assert done.returncode in (0, 2), done.stderr
    return json.loads(done.stdout)


class RanksTest(unittest.TestCase):
    def check(self, found):
        self.assertEqual([rank["rank"] for rank in found["ranks"]], [0, 1])
        for rank in found["ranks"]:
            self.assertLessEqual(rank["peak_live_bytes"], rank["peak_reserved_bytes"])
        # Beside a rank that ran out of memory, another may have gone on for a while and reserved more.
        answering = [rank for rank in found["ranks"] if rank["out_of_memory"]] or found["ranks"]
        self.assertEqual(found["peak_reserved_bytes"], max(rank["peak_reserved_bytes"] for rank in answering))

    def test_data_parallel(self):
        found = answer(*TORCHRUN, PROGRAM, "ddp")
        self.check(found)
        self.assertTrue(found["fits"])
        self.assertEqual([rank["steps"] for rank in found["ranks"]], [3, 3])
        # Weights, gradients, buckets of gradients and two moments of AdamW.
        for rank in found["ranks"]:
            self.assertGreaterEqual(rank["peak_live_bytes"], 5 * WEIGHTS)

    def test_one_process_of_two_devices(self):
        found = answer(PYTHON, PROGRAM, "one-process")
        self.assertEqual([rank["device"] for rank in found["ranks"]], [0, 1])
        self.assertFalse(found["ran_out_of_time"])
        # The first device has the weights, their gradients, and those of the other before it adds them.
        self.assertGreaterEqual(found["ranks"][0]["peak_live_bytes"], 3 * WEIGHTS)
        self.assertGreaterEqual(found["ranks"][1]["peak_live_bytes"], 2 * WEIGHTS)

    # Each rank counts its own part, and no part of its peer: 64 MiB and a page of signals.
    def test_symmetric_memory_counts(self):
        found = answer(*TORCHRUN, PROGRAM, "symmetric")
        self.check(found)
        for rank in found["ranks"]:
            self.assertTrue(64 << 20 <= rank["other_bytes"] <= 68 << 20, rank["other_bytes"])
        done = subprocess.run([TOOL, "dryrun", "--world", "2", "--", PYTHON, PROGRAM, "symmetric"], capture_output=True, text=True, check=False)
        self.assertIn("symmetric memory of all ranks, but runs as rank 0 of 2", done.stderr)

    def test_a_killed_rank_is_named(self):
        done = subprocess.run([TOOL, "dryrun", "--devices", "2", "--", *TORCHRUN, PROGRAM, "killed"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, "\ntidepool: the program failed: rank 1 was ended by SIGKILL\n$")

    @slow
    def test_sharded_and_spawned(self):
        found = answer(PYTHON, PROGRAM, "spawn")
        self.check(found)
        self.assertEqual([rank["device"] for rank in found["ranks"]], [0, 1])
        self.assertEqual([rank["steps"] for rank in found["ranks"]], [3, 3])
        # Each rank has half of the weights, and two moments of them.
        for rank in found["ranks"]:
            self.assertLess(abs(rank["categories"]["optimizer state"] - WEIGHTS), 1 << 16)

    @slow
    def test_a_rank_out_of_memory_ends_the_job(self):
        found = answer(*TORCHRUN, PROGRAM, "out-of-memory")
        self.check(found)
        self.assertFalse(found["fits"] or found["ran_out_of_time"])
        self.assertEqual(found["out_of_memory"]["bytes"], 1 << 40)
        self.assertRegex(found["out_of_memory"]["frame"], r"ranks.py:\d+$")
        self.assertEqual([rank["fits"] for rank in found["ranks"]], [True, False])


if __name__ == "__main__":
    unittest.main()
