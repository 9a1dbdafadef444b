#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figures of training in a budget: times of plans and of planning, of hooks, and the pinned memory of copies.

`plans` makes plans for shares of a model's memory with tensors of the CPU, which play the part of a GPU, with 400 TFLOP/s, 2.5 TB/s, 5 us for each
operator, and a link of 50 GB/s. No step runs. Under `tidepool dryrun --steps 0 --no-init --`, `hooks` measures the host's time to send a saved tensor of
tidepool.torch.offload() and to fetch it, and `pinned` trains a model within a share of its memory, and tells the bytes of copies on the host at
their peak, and those that PyTorch has pinned then, by its own allocator or by tidepool's. Needs the Python package and PyTorch.
usage: budget_figures.py plans MODEL BATCH SHARE...     MODEL: one of LARGE in tests/frameworks/torch_compile/models.py
       budget_figures.py hooks
       budget_figures.py pinned MODEL BATCH SHARE [--own]
"""
import pathlib
import sys
import time
import unittest.mock
import weakref

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests" / "frameworks" / "torch_compile"))
import models  # noqa: E402
import tidepool.torch as tidepool_torch  # noqa: E402
from tidepool._torch_compile import _operators, _planner  # noqa: E402
from tidepool._torch_offload import _copies  # noqa: E402

GIB, UNLIMITED = 1 << 30, 1 << 42
LINK = "50GB/s"


class Done(Exception):
    """Ends the compilation: the plan is all that is wanted."""


def made(name, batch):
    """Returns a model and its inputs, in bfloat16."""
    make, data = models.LARGE[name]
    return make().bfloat16(), [one.bfloat16() if one.is_floating_point() else one for one in data(int(batch))]


def plan_of(model, inputs, budget):
    """Returns the plan of a model. Its graphs are not compiled."""
    found, scheduled = [], _planner.Planner._scheduled

    def end(planner, *arguments):
        scheduled(planner, *arguments)
        found.append(planner.plan)
        raise Done

    torch._dynamo.reset()
    with unittest.mock.patch.object(_planner.Planner, "_scheduled", end):
        try:
            tidepool_torch.compile(model, budget=budget, link=LINK)(*inputs)
        except Exception:
            if not found:
                raise
    return found[0]


def plans(name, batch, *shares):
    model, inputs = made(name, batch)
    whole = plan_of(model, inputs, UNLIMITED)
    for share in (1.0, *map(float, shares)):
        plan = plan_of(model, inputs, whole.outside_bytes + int(share * whole.graph_bytes))
        print(f"{share:4.0%}: {plan.graph_bytes / GIB:.3f} GiB, {1e3 * plan.seconds:.2f} ms, x {plan.overhead:.3f}, {plan.tasks} tasks, "
              f"planned in {plan.planning_seconds:.1f} s, written in {plan.writing_seconds:.1f} s", flush=True)


def hooks(count=2000, elements=1024):
    """Prints the median of several runs, each with `count` tensors."""
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    streams, times = _copies.Streams(device), []
    for _ in range(7):
        saved = [torch.empty(elements, device=device) for _ in range(count)]
        bundle = _copies.Bundle(streams, ())
        begin = time.thread_time()
        packed = [bundle.pack(one) for one in saved]
        bundle.release()
        bundle.fetch()
        bundle.arrive()
        for one in packed:
            bundle.unpack(one)
        times.append((time.thread_time() - begin) / count)
        streams.join()
    print(f"{1e6 * sorted(times)[len(times) // 2]:.1f} us for a tensor that leaves and comes back")


def pinned(name, batch, share, own=None):
    if own:
        tidepool_torch.enable(pinned=True)
    model, inputs = made(name, batch)
    model, inputs = model.cuda(), [one.cuda() for one in inputs]
    out, most, flat = 0, 0, _operators.flat

    def noted(x, device, **options):
        nonlocal out, most
        host = flat(x, device, **options)
        if options.get("pin_memory"):
            out += host.nbytes
            most = max(most, out)
            weakref.finalize(host, left, host.nbytes)
        return host

    def left(size):
        nonlocal out
        out -= size

    tidepool_torch.compile(model, budget=UNLIMITED, link=LINK)(*inputs).backward()
    whole = tidepool_torch.plans()[-1]
    torch._dynamo.reset()
    model.zero_grad()
    with unittest.mock.patch.object(_operators, "flat", noted):
        call = tidepool_torch.compile(model, budget=whole.outside_bytes + int(float(share) * whole.graph_bytes), link=LINK)
        for _ in range(3):
            call(*inputs).backward()
            model.zero_grad()
    taken = torch.cuda.host_memory_stats()["allocated_bytes.peak"]
    print(f"{most / GIB:.3f} GiB of copies on the host at the peak, {taken / GIB:.3f} GiB pinned: {taken / most:.2f} times as much")


if __name__ == "__main__":
    {"plans": plans, "hooks": hooks, "pinned": pinned}[sys.argv[1]](*sys.argv[2:])
