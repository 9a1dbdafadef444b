# SPDX-License-Identifier: Apache-2.0
"""Training in a budget on two ranks gives the values of the same program without it. Tensors are those of the CPU, and ranks talk by gloo."""
import contextlib
import os
import pathlib
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1])]
import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import all_reduce
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import isolated
import models
import tidepool.torch as tidepool_torch
from tidepool._torch_offload import _chain

RANKS = 2
UNLIMITED = 1 << 40
OPTIONS = {"link": 1e8, "time_limit": 1}  # a slow link, so that operators run again
torch.set_num_threads(1)


def on_ranks(body):
    """Runs body(rank) in a process for each rank, of which this is the first. Fails if one fails."""
    with tempfile.TemporaryDirectory() as folder:
        child = os.fork()
        rank = 0 if child else 1
        torch.set_num_threads(1)  # a forked process makes PyTorch's pool of threads anew, and not while several ask for it
        try:
            dist.init_process_group("gloo", init_method=f"file://{folder}/ranks", rank=rank, world_size=RANKS)
            body(rank)
            dist.destroy_process_group()
        except BaseException:
            if child:
                raise
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        if not child:
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "rank 1 failed"


def make_model():
    return models.GPT(width=192, dropout=0.0)


def train(rank, wrap, steps=4, parts=1):
    """Returns losses, gradients and parameters. `wrap` takes a model and returns the callable of a step."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = make_model()
    call = wrap(model)
    optimizer = torch.optim.AdamW(model.parameters())
    torch.manual_seed(10 + rank)
    values = []
    for _ in range(steps):
        for part in range(parts):
            with contextlib.nullcontext() if part == parts - 1 else call.no_sync():
                loss = call(*models.tokens(4))
                loss.backward()
            values.append(loss.detach().clone())
        values += [local(parameter.grad).clone() for parameter in model.parameters()]
        optimizer.step()
        optimizer.zero_grad()
    return values + [local(parameter).detach().clone() for parameter in model.parameters()]


def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def check(rank, plain, planned, graphs=1, **options):
    """Checks that planned(budget) gives the values of plain, with at least as many graphs as `graphs`, some of which run operators again."""
    count = len(tidepool_torch.plans())
    train(rank, planned(UNLIMITED), steps=1, **options)
    full = tidepool_torch.plans()[count:]
    budget = (max(plan.smallest_budget for plan in full) + max(plan.peak_bytes for plan in full)) // 2
    expected = train(rank, plain, **options)
    count = len(tidepool_torch.plans())
    got = train(rank, planned(budget), **options)
    assert len(expected) == len(got) and all(torch.equal(x, y) for x, y in zip(expected, got))
    made = tidepool_torch.plans()[count:]
    assert len(made) == len(full) >= graphs and any(plan.runs_again for plan in made), made
    assert all(plan.peak_bytes <= budget for plan in made) and not tidepool_torch.fallbacks()


# DistributedDataParallel ----------------------------------------------------------------------------

# PyTorch divides the program into a graph for each bucket of gradients.
BUCKETS = {"bucket_cap_mb": 1}


def parallel(model):
    return DistributedDataParallel(model, **BUCKETS)


def ddp_around_a_compiled_model():
    on_ranks(lambda rank: check(rank, parallel, lambda budget: lambda model: parallel(
        tidepool_torch.compile(model, budget=budget, **OPTIONS)), 3))


def a_compiled_ddp():
    on_ranks(lambda rank: check(rank, parallel, lambda budget: lambda model: tidepool_torch.compile(
        parallel(model), budget=budget, **OPTIONS), 3))


def ddp_with_accumulated_gradients():
    on_ranks(lambda rank: check(rank, parallel, lambda budget: lambda model: parallel(
        tidepool_torch.compile(model, budget=budget, **OPTIONS)), 3, parts=2))


def ddp_of_one_graph():
    def planned(budget):
        return lambda model: DistributedDataParallel(tidepool_torch.compile(model, budget=budget, **OPTIONS))

    def body(rank):
        torch._dynamo.config.optimize_ddp = False
        check(rank, DistributedDataParallel, planned)

    on_ranks(body)


# fully_shard ----------------------------------------------------------------------------------------


def sharded(model):
    for layer in model.layers:
        fully_shard(layer)
    return fully_shard(model)


def fully_sharded_layers():
    def planned(budget):
        def wrap(model):
            for layer in model.layers:
                layer.compile(backend="tidepool", options={"budget": budget, **OPTIONS}, dynamic=False)
            return sharded(model)
        return wrap

    on_ranks(lambda rank: check(rank, sharded, planned))


def a_compiled_model_of_sharded_layers():
    on_ranks(lambda rank: check(rank, sharded, lambda budget: lambda model: tidepool_torch.compile(
        sharded(model), budget=budget, **OPTIONS)))


# Without compilation --------------------------------------------------------------------------------


def check_offload(rank, wrap, link, **options):
    """Checks that offload() around a wrapped model gives its values, with the least memory for stages and with more."""
    trainings = []

    def offloaded(budget):
        def wrapped(model):
            call = wrap(model)
            trainings.append(tidepool_torch.offload(call, budget=budget, link=link).__enter__())
            return call
        return wrapped

    expected = train(rank, wrap, **options)
    train(rank, offloaded(UNLIMITED), **options)
    most = trainings[-1].prediction.peak_bytes
    try:
        train(rank, offloaded(1), **options)
    except tidepool_torch.BudgetError as error:
        least = error.smallest
    for budget in (least, (least + most) // 2):
        got = train(rank, offloaded(budget), **options)
        assert len(expected) == len(got) and all(torch.equal(x, y) for x, y in zip(expected, got)), budget
        assert {mode for _, mode in trainings[-1].modes} != {_chain.KEEP}, trainings[-1].modes
        assert trainings[-1].prediction.peak_bytes <= budget
    return [stage.saved for stage in trainings[0]._plan.chain.stages]


class Summed(torch.nn.Module):
    """Adds the results of all ranks up after each layer, as tensor parallelism does."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(6))

    def forward(self, x):
        for layer in self.layers:
            x = all_reduce(layer(x), "sum", dist.group.WORLD).sin()
        return x


def collectives_run_once_in_one_order():
    def body(rank):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model, x = Summed(), torch.randn(512, 64)
        model(x).square().sum().backward()
        expected = [parameter.grad.clone() for parameter in model.parameters()]
        model.zero_grad()
        # Ranks measure links of their own, so their schedules differ.
        tidepool_torch.compile(model, budget=1500000, link=[1e3, 1e12][rank], time_limit=1)(x).square().sum().backward()
        assert all(torch.equal(parameter.grad, one) for parameter, one in zip(model.parameters(), expected))

    on_ranks(body)


def ddp_without_compilation():
    on_ranks(lambda rank: [check_offload(rank, parallel, link) for link in (1e6, 1e12)])


def accumulated_gradients_of_ddp_without_compilation():
    on_ranks(lambda rank: check_offload(rank, parallel, 1e12, parts=2))


def fully_sharded_layers_without_compilation():
    def body(rank):
        bytes_of_stages = [check_offload(rank, sharded, link) for link in (1e6, 1e12)]
        assert bytes_of_stages[0] == check_offload(rank, parallel, 1e12), "gathered parameters leave too"

    on_ranks(body)


if __name__ == "__main__":
    isolated.run([ddp_around_a_compiled_model, a_compiled_ddp, ddp_with_accumulated_gradients, ddp_of_one_graph, fully_sharded_layers, collectives_run_once_in_one_order,
                  a_compiled_model_of_sharded_layers, ddp_without_compilation, accumulated_gradients_of_ddp_without_compilation,
                  fully_sharded_layers_without_compilation])
