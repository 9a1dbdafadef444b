#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dry runs are compared event by event with snapshots that were recorded on GPUs.

recorded_test.py TOOL PYTHON SNAPSHOTS
"""
import subprocess
import sys
import unittest

TOOL, PYTHON, SNAPSHOTS = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)

import pairs  # noqa: E402


class RecordedTest(unittest.TestCase):
    def check(self, name):
        pair = pairs.PAIRS[name]
        if not pairs.recorded_file(pair, SNAPSHOTS).exists():
            self.skipTest(f"there is no {pair.snapshot}")
        recorded, dry = pairs.compare(pair, TOOL, PYTHON, SNAPSHOTS)
        self.assertEqual(recorded.sizes, dry.sizes)
        self.assertEqual(recorded.sequence, dry.sequence)
        self.assertEqual(recorded.peak_live, dry.peak_live)
        self.assertEqual(recorded.peak_reserved, dry.peak_reserved)

    def check_network(self, name):
        """The workspaces of convolutions and recurrent layers are those of rules."""
        recorded, dry = pairs.compare(pairs.PAIRS[name], TOOL, PYTHON, SNAPSHOTS)
        self.assertGreater(pairs.equal_share(recorded.sizes, dry.sizes), 0.9)
        self.assertAlmostEqual(dry.peak_live / recorded.peak_live, 1, delta=0.005)
        self.assertAlmostEqual(dry.peak_reserved / recorded.peak_reserved, 1, delta=0.02)

    def test_networks_on_an_h200(self):
        for name in ("alexnet", "resnet50", "unet", "lstm"):
            with self.subTest(name):
                self.check_network(name)

    def test_copies_of_a_convolution_for_nhwc(self):
        """A reporter's ten figures of pytorch#123533, in 0.01 GiB."""
        done = subprocess.run([TOOL, "dryrun", "--gpu", "a100-80", "--steps", "0", "--", PYTHON, str(pairs.HERE / "public" / "convolution_2d.py")],
                              capture_output=True, text=True, check=False)
        reserved = [round(int(line.split()[2]) / 2**30, 2) for line in done.stderr.splitlines() if line.startswith("row ")]
        self.assertEqual(reserved, [4.02, 5.52, 6.15, 6.77, 7.40, 8.02, 8.65, 9.27, 9.90, 10.52])

    def test_a_transformer_on_an_h200(self):
        self.check("llama-1b")

    def test_a_forward_pass_from_the_begin_of_the_program(self):
        self.check("forward 200")

    def test_a_step_of_training_with_an_optimizer(self):
        self.check("medium 128, training")


if __name__ == "__main__":
    unittest.main()
