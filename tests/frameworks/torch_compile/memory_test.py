# SPDX-License-Identifier: Apache-2.0
"""Peaks of training in a budget, under `tidepool dryrun`: those of the plans, and at most the budget.

`memory_test.py MODEL BATCH SHARE...` prints a table for one of models.LARGE, with the times of the plans.
"""
import gc
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import torch

import models
import tidepool.torch as tidepool_torch

GIB = 1 << 30
SMALL = {
    "gpt": (lambda: models.GPT(256, 6, 8, 2048, 256, 0.1), lambda: models.tokens(16, 256, 2048)),
    "resnet": (lambda: models.ResNet(32, (2, 2, 2, 2), 1000), lambda: models.images(64, 128, 1000)),
}
# Graphs that share a budget, and memory that the program takes between the passes.
DIVIDED = {
    "breaks": (lambda: models.BrokenGPT(256, 6, 8, 2048, 256, 0.1), lambda: models.tokens(16, 256, 2048)),
    "loss outside": (lambda: models.LossOutside(256, 6, 8, 8192, 256, 0.1), lambda: models.tokens(16, 256, 8192)),
}
OPTIONS = {"link": "50GB/s", "time_limit": float(os.environ.get("TIME_LIMIT", 4))}


class Peaks:
    """Bytes of one training step: before it, at its peak, at the peak of requests, and reserved."""

    def __init__(self):
        torch.cuda.synchronize()
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        self.home = torch.cuda.memory_allocated()

    def read(self):
        torch.cuda.synchronize()
        self.peak = torch.cuda.max_memory_allocated()
        self.requested = torch.cuda.memory_stats()["requested_bytes.all.peak"]
        self.reserved = torch.cuda.max_memory_reserved()


def train(make, data, budget=None, steps=5):
    """Trains a model in bfloat16, and returns the peaks of the last step's passes and the last plan."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = make().cuda().bfloat16()
    batch = [tensor.cuda().bfloat16() if tensor.is_floating_point() else tensor.cuda() for tensor in data()]
    call = model if budget is None else tidepool_torch.compile(model, budget=budget, **OPTIONS)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(steps):
        peaks = Peaks()
        loss = call(*batch)
        loss.backward()
        peaks.read()
        optimizer.step()
        optimizer.zero_grad()
        del loss
    return peaks, None if budget is None else tidepool_torch.plans()[-1]


def row(name, budget, peaks, plan):
    line = (f"{name:12} budget {budget / GIB:7.3f}  peak {peaks.peak / GIB:7.3f}  reserved {peaks.reserved / GIB:7.3f} GiB")
    if plan is not None:
        off = (peaks.peak - plan.peak_bytes) / plan.peak_bytes
        line += (f"  plan {plan.peak_bytes / GIB:7.3f} ({off:+.2%})  {plan.seconds * 1e3:7.2f} ms x{plan.overhead:.3f}"
                 f"  again {plan.runs_again}  out {plan.copies_out}  in {plan.copies_in}"
                 f"  tasks {plan.tasks}  planned in {plan.planning_seconds:.1f} s, written in {plan.writing_seconds:.1f} s")
    print(line, flush=True)


def measure(name, make, data, shares):
    """Prints rows for shares of the graph's own memory, and yields (share, budget, peaks, plan)."""
    row(f"{name} eager", 0, *train(make, data))
    peaks, plan = train(make, data, 1 << 42)
    row(f"{name} all", 1 << 42, peaks, plan)
    for share in shares:
        budget = peaks.home + int(share * plan.graph_bytes) + (1 << 20)
        try:
            got = train(make, data, budget)
        except Exception as error:
            print(f"{name} {share}: {str(error)[:400]}", flush=True)
            yield share, budget, None, None
            continue
        row(f"{name} {share}", budget, *got)
        yield share, budget, *got


def check(name, shares):
    for share, budget, peaks, plan in measure(name, *SMALL[name], shares):
        assert plan is not None, share
        assert peaks.peak <= budget, (share, peaks.peak, budget)
        assert abs(peaks.peak - plan.peak_bytes) <= 0.01 * plan.peak_bytes, (share, peaks.peak, plan)
        assert share == 1.0 or plan.copies_out or plan.runs_again, (share, plan)


def check_divided(name, shares):
    """Checks that steps keep to a share of the memory that the passes take without a plan. The first ones learn how."""
    make, data = DIVIDED[name]
    eager, _ = train(make, data)
    row(f"{name} eager", 0, eager, None)
    for share in shares:
        budget = eager.home + int(share * (eager.peak - eager.home))
        peaks, plan = train(make, data, budget, steps=6)
        row(f"{name} {share}", budget, peaks, None)
        assert peaks.peak <= budget, (share, peaks.peak, budget)
        assert peaks.peak > 0.85 * budget, (share, peaks.peak, budget)


def check_too_small():
    make, data = SMALL["gpt"]
    try:
        train(make, data, 1 << 27)
    except Exception as error:
        assert "The smallest that works is" in str(error), error
    else:
        raise AssertionError("a budget of 128 MiB was not refused")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        make, data = models.LARGE[sys.argv[1]]
        for _ in measure(sys.argv[1], make, lambda: data(int(sys.argv[2])), [float(share) for share in sys.argv[3:]]):
            pass
    else:
        check("gpt", [1.0, 0.8, 0.6, 0.5, 0.35])
        check("resnet", [1.0, 0.8, 0.6, 0.5, 0.35])
        check_divided("breaks", [0.8, 0.6])
        check_divided("loss outside", [0.9, 0.8])
        check_too_small()
