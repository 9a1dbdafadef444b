#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps of a network within budgets of memory, on a GPU or in a dry run: bytes and seconds. Prints a line of JSON for each row.

The network trains plainly first. A budget is a share of the memory that PyTorch's tensors took then.
usage: budgets.py gpt2-medium|resnet-50 WAY [SHARE...] [--batch N] [--steps N] [--link RATE] [--budgets BYTES,...] [--kernels inductor]

With `--kernels inductor` the ways that compile the model do so with fused kernels: plain, compiled, activation_memory_budget and
activation_offloading.

| way | training, and the meaning of a share |
|---|---|
| plain | PyTorch alone |
| compiled, offload | tidepool in a budget: a share of the plain memory, or the bytes of --budgets |
| checkpoint | torch.utils.checkpoint around a share of the blocks, evenly spread; all by default |
| save_on_cpu | torch.autograd.graph.save_on_cpu with pinned memory |
| offload_activations | OffloadActivations of TRL, which is torchtune's (pip install trl) |
| activation_memory_budget | torch.compile with this setting of PyTorch's partitioner |
| fsdp_offload | FSDP2 on one rank with CPUOffloadPolicy: parameters, gradients and the optimizer's state are on the host, which runs the optimizer |
| activation_offloading | torch.compile with enable_activation_offloading for all saved values, on a stream of its own, with prefetches |
"""
import argparse
import contextlib
import functools
import gc
import json
import pathlib
import statistics
import sys

parser = argparse.ArgumentParser()
parser.add_argument("model", choices=("gpt2-small", "gpt2-medium", "resnet-50"))
parser.add_argument("way", choices=("plain", "compiled", "offload", "checkpoint", "save_on_cpu", "offload_activations",
                                    "fsdp_offload", "activation_memory_budget", "activation_offloading"))
parser.add_argument("shares", nargs="*", type=float)
parser.add_argument("--budgets", type=lambda text: [int(word) for word in text.split(",")], default=[])
parser.add_argument("--batch", type=int)
parser.add_argument("--steps", type=int, default=7)
parser.add_argument("--link", help="bytes a second of tidepool's plans, or a text such as 25GB/s; measured by default")
parser.add_argument("--kernels", choices=("eager", "inductor"), default="eager")
options = parser.parse_args()

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests" / "frameworks" / "torch_compile"))
import torch
from torch._functorch import config as functorch
from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

import models
import tidepool.torch as tidepool_torch
from tidepool._torch_compile import _slab
from tidepool._torch_offload._training import stages_of

DEVICE = torch.device("cuda", 0)
REFUSAL = "is too small. The smallest that works is"  # of a budget: an answer, not a fault
BATCHES = {"gpt2-small": 8, "gpt2-medium": 8, "resnet-50": 64}


def blocks_of(model):
    return [stage for stage in stages_of(model) if list(stage.children())]


def with_checkpoints(model, share):
    """Lets a share of a model's blocks run again. A single operator is no block: one that changes its input may not run again."""
    for i, block in enumerate(blocks_of(model)):
        if int((i + 1) * share) > int(i * share):
            block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
    return model


def with_parameters_on_host(model):
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("nccl", store=torch.distributed.HashStore(), rank=0, world_size=1)
    for module in (*blocks_of(model), model):
        fully_shard(module, offload_policy=CPUOffloadPolicy())
    return model


def offload_all(graph, _):
    """Marks each value of a joint graph for PyTorch's offloading, which leaves out those that may not leave."""
    for node in graph.graph.nodes:
        node.meta["should_offload"] = True
    return graph


def compiled_by_pytorch(model):
    return torch.compile(model, backend="inductor" if options.kernels == "inductor" else "aot_eager", dynamic=False)


def called(model, way, share, budget):
    """Returns the function that runs the model, and the context of its steps."""
    if way == "compiled":
        return tidepool_torch.compile(model, budget=budget, link=options.link, kernels=options.kernels), contextlib.nullcontext()
    if way == "offload":
        return model, tidepool_torch.offload(model, budget=budget, link=options.link)
    if way == "checkpoint":
        return with_checkpoints(model, 1 if share is None else share), contextlib.nullcontext()
    if way == "save_on_cpu":
        return model, torch.autograd.graph.save_on_cpu(pin_memory=True)
    if way == "offload_activations":
        from accelerate import PartialState
        from trl.models.activation_offloading import OffloadActivations
        PartialState()  # without it the first warning of TRL is an error
        return model, OffloadActivations()
    if way == "fsdp_offload":
        return with_parameters_on_host(model), contextlib.nullcontext()
    if way == "activation_memory_budget":
        functorch.activation_memory_budget = share
        return compiled_by_pytorch(model), contextlib.nullcontext()
    if way == "activation_offloading":
        functorch.joint_custom_pass = offload_all
        functorch.enable_activation_offloading = functorch.activation_offload_separate_stream = True
        functorch.activation_offload_sink_wait = functorch.activation_reload_prefetch = True
        return compiled_by_pytorch(model), contextlib.nullcontext()
    return compiled_by_pytorch(model) if options.kernels == "inductor" else model, contextlib.nullcontext()


def train(way, share=None, budget=None):
    """Returns the row of some steps: bytes of the last one, its optimizer included, and the median of the later seconds."""
    torch._dynamo.reset()  # else it keeps the last model
    gc.collect()
    if _slab.figures_of(DEVICE).bytes:
        _slab.resize(DEVICE, 0)
    torch.cuda.empty_cache()
    torch.manual_seed(0)
    make, data = models.LARGE[options.model]
    model = make().cuda().bfloat16()
    batch = [tensor.cuda().bfloat16() if tensor.is_floating_point() else tensor.cuda()
             for tensor in data(options.batch or BATCHES[options.model])]
    call, context = called(model, way, share, budget)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    seconds = []
    with context as training:
        for step in range(options.steps):
            torch.cuda.synchronize()
            if step == options.steps - 1:
                torch.cuda.reset_peak_memory_stats()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            loss = call(*batch)
            loss.backward()
            end.record()
            optimizer.step()
            optimizer.zero_grad()
            del loss
            torch.cuda.synchronize()
            seconds.append(begin.elapsed_time(end) * 1e-3)
    row = {"model": options.model, "way": way, "share": share, "budget": budget, "peak_bytes": torch.cuda.max_memory_allocated(),
           "reserved_bytes": torch.cuda.max_memory_reserved(), "seconds": statistics.median(seconds[-3:])}
    plan = tidepool_torch.plans()[-1] if way == "compiled" else training.prediction if way == "offload" else None
    if plan is not None:
        row |= {"predicted_bytes": plan.peak_bytes, "predicted_seconds": plan.seconds}
    return row


def main():
    plain = train("plain")
    print(json.dumps(plain), flush=True)
    if options.way == "plain":
        return
    rows = [(share, int(share * plain["peak_bytes"])) for share in options.shares] + [(None, budget) for budget in options.budgets]
    for share, budget in rows or [(None, None)]:
        try:
            row = train(options.way, share, budget)
        except Exception as error:  # the next share may do
            member = "refused" if REFUSAL in str(error) else "error"
            row = {"model": options.model, "way": options.way, "share": share, member: str(error)[:500]}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
