#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dry runs of functions, with an interpreter that has PyTorch and tidepool."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import tidepool
from quick import slow


def train(width, steps=5):
    import torch

    model = torch.nn.Linear(width, width).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        model(torch.randn(4, width, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def writes_its_graph(file):
    import torch

    import tidepool.torch

    model = torch.nn.Linear(512, 512).cuda()
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        model(torch.zeros(64, 512).cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    found = tidepool.torch.graph(step, file)
    assert found["file"] == file and found["notes"] == [] and found["tasks"] > 5, found


def fails_on_the_gpu():
    import torch

    x = torch.zeros(10, device="cuda")
    raise KeyError(len(x))


def takes_memory_by_tidepool():
    import torch

    import tidepool.torch

    tidepool.torch.enable()
    x = torch.zeros(1 << 22, device="cuda")
    del x
    torch.zeros(1 << 20, device="cuda")


def finds_no_data():
    import torch

    torch.zeros(10, device="cuda")
    raise SystemExit("no data")


def takes_as_many_mebibytes_as_its_rank():
    import torch
    import torch.distributed

    torch.distributed.init_process_group("nccl")
    torch.empty(torch.distributed.get_rank() << 20, dtype=torch.uint8, device="cuda")


def uses_no_gpu():
    import torch

    torch.zeros(10)


@tidepool.fits("300MiB", gpu="rtx-4090", steps=1)
def check(width):
    train(width)


class FunctionTest(unittest.TestCase):
    def test_a_function_writes_the_graph_of_its_step(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "step.json")
            tidepool.dryrun(writes_its_graph, str(file), steps=0)
            self.assertIn('"tidepool_graph": 2', file.read_text())

    def test_says_what_a_function_needs(self):
        with tempfile.TemporaryDirectory() as folder:
            snapshot, report = pathlib.Path(folder, "snapshot.pickle"), pathlib.Path(folder, "report.html")
            answer = tidepool.dryrun(train, 2048, gpu="rtx-4090", steps=2, time_limit="5m", snapshot=snapshot, report=report)
            self.assertEqual(tidepool.read(snapshot).info().trace.peak_live_bytes, answer.peak_live_bytes)
            self.assertIn("<html", report.read_text()[:200].lower())
        self.assertTrue(answer.fits)
        self.assertEqual(answer.gpu, "NVIDIA GeForce RTX 4090")
        self.assertEqual(answer.steps, 2)
        self.assertGreaterEqual(answer.peak_live_bytes, 4 * 4 * 2048 * 2048)
        self.assertIn("train: 2 steps", str(answer))
        self.assertRegex(answer.ranks[0].top[0].frame, r"function_test.py:\d+ train")

    # tidepool's allocator notes no segments.
    @slow
    def test_few_requests_of_tidepools_allocator_have_a_peak(self):
        environment = {"TIDEPOOL_C_LIBRARY": os.environ.get("TIDEPOOL_C_LIBRARY", str(pathlib.Path(tidepool.__file__).parents[2] / "bindings" / "c"))}
        with unittest.mock.patch.dict(os.environ, environment):
            answer = tidepool.dryrun(takes_memory_by_tidepool)
        self.assertEqual((answer.peak_live_bytes, answer.planned_bytes), (16 << 20, 16 << 20))

    @slow
    def test_some_ranks_of_many(self):
        answer = tidepool.dryrun(takes_as_many_mebibytes_as_its_rank, world=16, ranks=[3, 12], time_limit="10m")
        self.assertEqual([(rank.rank, rank.peak_live_bytes) for rank in answer.ranks], [(3, 3 << 20), (12, 12 << 20)])
        self.assertEqual(answer.world.size, 16)
        with self.assertRaisesRegex(tidepool.InputError, "rank 16 is outside of a world of 16 ranks"):
            tidepool.dryrun(train, 8, world=16, ranks=16)

    @slow
    def test_writes_the_graph_of_a_step(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "step.json.gz")
            answer = tidepool.dryrun(train, 2048, graph=file)
            self.assertEqual(answer.graph.step, 3)
            self.assertTrue(file.exists())
        self.assertEqual(answer.remedies, [])

    @slow
    def test_tells_what_would_make_a_function_fit(self):
        answer = tidepool.dryrun(train, 2048, memory="60MiB")
        self.assertFalse(answer.fits)
        self.assertEqual({one.name: one.checked for one in answer.remedies}["optimizer state on the host"], False)
        self.assertIn("to make it fit", str(answer))

    @slow
    def test_errors_of_the_function_are_raised(self):
        with self.assertRaises(KeyError) as caught:
            tidepool.dryrun(fails_on_the_gpu)
        self.assertEqual(caught.exception.args, (10,))
        self.assertIn("in fails_on_the_gpu", str(caught.exception.__cause__))
        with self.assertRaisesRegex(tidepool.Error, "the program never asked for a GPU"):
            tidepool.dryrun(uses_no_gpu)
        with self.assertRaisesRegex(tidepool.Error, "the program ended with status 1 before a step of an optimizer: no data"):
            tidepool.dryrun(finds_no_data)
        for options in ({"memory": 0}, {"memory": "0"}, {"time_limit": "soon"}):
            with self.assertRaises(tidepool.InputError):
                tidepool.dryrun(uses_no_gpu, **options)

    def test_a_check_passes_or_explains(self):
        self.assertIsNone(check(1024))
        with self.assertRaisesRegex(AssertionError, "check does not fit\n(.*\n)*.*no: out of memory in 300.0 MiB, 256.0 MiB asked for at"):
            check(8192)

    def test_the_command_is_a_module_too(self):
        done = subprocess.run([sys.executable, "-m", "tidepool.dryrun", "--json", "--", sys.executable, "-c",
                               "import torch; torch.zeros(1 << 20, device='cuda')"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"peak_live_bytes": 4194304', done.stdout)


if __name__ == "__main__":
    unittest.main()
