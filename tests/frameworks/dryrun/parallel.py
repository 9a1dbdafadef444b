# SPDX-License-Identifier: Apache-2.0
"""The ways to train on four or eight ranks, one after the other, as users write them: they know nothing of dry runs. Each prints the memory
that it took at most: PEAK rank name allocated reserved

torchrun --nproc-per-node 4 parallel.py [NAME...]
"""
import gc
import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

WIDTH, LAYERS, BATCH = 256, 4, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))


def network():
    return nn.Sequential(*[Block() for _ in range(LAYERS)])


def inputs():
    return torch.randn(BATCH, WIDTH, device="cuda")


def train(model, optimizer=None, batch=inputs):
    optimizer = optimizer or torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(batch()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def ddp():
    train(nn.parallel.DistributedDataParallel(network().cuda()))


def fsdp1():
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    train(FullyShardedDataParallel(network(), auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=torch.cuda.current_device(),
                                   sync_module_states=True))


def fsdp2(mesh=None):
    from torch.distributed.fsdp import fully_shard
    with torch.device("meta"):
        model = network()
    for block in model:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    model.to_empty(device="cuda")
    train(model)


def hsdp():
    fsdp2(init_device_mesh("cuda", (2, dist.get_world_size() // 2), mesh_dim_names=("replicate", "shard")))


def zero():
    from torch.distributed.optim import ZeroRedundancyOptimizer
    model = nn.parallel.DistributedDataParallel(network().cuda())
    train(model, ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-3))


def tensor():
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh("cuda", (dist.get_world_size() // 2, 2), mesh_dim_names=("data", "tensor"))
    model = network().cuda()
    for block in model:
        parallelize_module(block, mesh["tensor"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    train(model)


def train_stages(schedule, stages, last):
    """Trains stages, of which a rank has the last one."""
    rank = dist.get_rank()
    optimizer = torch.optim.AdamW([one for stage in stages for one in stage.submod.parameters()])
    for _ in range(2):
        x = torch.randn(4 * BATCH, WIDTH, device="cuda")
        schedule.step(*([x] if rank == 0 else []), **({"target": x} if rank == last else {}))
        optimizer.step()
        optimizer.zero_grad()


def loss(output, target):
    return (output - target).square().mean()


def pipeline():
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    rank, size = dist.get_rank(), dist.get_world_size()
    stage = PipelineStage(Block().cuda(), rank, size, torch.device("cuda"))
    train_stages(Schedule1F1B(stage, 2 * size, loss_fn=loss), [stage], size - 1)


def of_two_stages(schedule, is_folded=False):
    """Trains two stages on each rank: in turn, or there and back."""
    from torch.distributed.pipelining import PipelineStage
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = (rank, 2 * size - 1 - rank if is_folded else rank + size)
    stages = [PipelineStage(Block().cuda(), part, 2 * size, torch.device("cuda")) for part in parts]
    train_stages(schedule(stages, 2 * size, loss_fn=loss), stages, 0 if is_folded else size - 1)


def interleaved():
    from torch.distributed.pipelining import ScheduleInterleaved1F1B
    of_two_stages(ScheduleInterleaved1F1B)


def zero_bubble():
    from torch.distributed.pipelining import ScheduleInterleavedZeroBubble
    of_two_stages(ScheduleInterleavedZeroBubble)


def zero_bubble_v():
    from torch.distributed.pipelining import ScheduleZBVZeroBubble
    of_two_stages(ScheduleZBVZeroBubble, is_folded=True)


def dual_pipe_v():
    from torch.distributed.pipelining.schedules import ScheduleDualPipeV
    of_two_stages(ScheduleDualPipeV, is_folded=True)


def context():
    """Attention of a sequence that the ranks divide among them."""
    from torch.distributed.tensor.experimental import context_parallel
    size = dist.get_world_size()
    mesh = init_device_mesh("cuda", (size,), mesh_dim_names=("context",))
    model = nn.Linear(WIDTH, 3 * WIDTH).cuda().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        x = torch.randn(2, 128 * size, WIDTH, device="cuda", dtype=torch.bfloat16)
        with context_parallel(mesh, buffers=[x], buffer_seq_dims=[1]):
            heads = (one.unflatten(2, (4, -1)).transpose(1, 2) for one in model(x).chunk(3, dim=2))
            nn.functional.scaled_dot_product_attention(*heads, is_causal=True).float().square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()


class Experts(nn.Module):
    """One expert on each rank. Each sends it an equal part of its samples."""
    def __init__(self):
        super().__init__()
        self.expert = Block()

    def forward(self, x):
        from torch.distributed._functional_collectives import all_to_all_single_autograd
        parts = [len(x) // dist.get_world_size()] * dist.get_world_size()
        there = all_to_all_single_autograd(x, parts, parts, dist.group.WORLD)
        return x + all_to_all_single_autograd(self.expert(there), parts, parts, dist.group.WORLD)


def experts():
    train(nn.Sequential(Block(), Experts(), Block(), Experts()).cuda(), batch=lambda: torch.randn(64, WIDTH, device="cuda"))


def checkpoint():
    """Saves the sharded weights and the state of the optimizer, at once and beside the program, and loads them."""
    import torch.distributed.checkpoint as files
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.fsdp import fully_shard
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder, src=0)
    model = fully_shard(network().cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer)
    state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
    files.save(state, checkpoint_id=f"{folder[0]}/saved")
    files.async_save(state, checkpoint_id=f"{folder[0]}/saved_beside", process_group=dist.new_group(backend="gloo")).result()
    files.load(state, checkpoint_id=f"{folder[0]}/saved")
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    train(model, optimizer)


def messages():
    """Sizes and then as much data, along a ring."""
    rank, size = dist.get_rank(), dist.get_world_size()
    there = torch.zeros(1, dtype=torch.int64, device="cuda")
    length = torch.tensor([1000 + 100 * rank], device="cuda")
    exchange = [dist.P2POp(dist.isend, length, (rank + 1) % size), dist.P2POp(dist.irecv, there, (rank - 1) % size)]
    for work in dist.batch_isend_irecv(exchange):
        work.wait()
    assert there.item() == 1000 + 100 * ((rank - 1) % size), there
    data, received = torch.zeros(1000 + 100 * rank, WIDTH, device="cuda"), torch.zeros(there.item(), WIDTH, device="cuda")
    if rank % 2 == 0:
        dist.send(data, (rank + 1) % size)
        dist.recv(received, (rank - 1) % size)
    else:
        dist.recv(received, (rank - 1) % size)
        dist.send(data, (rank + 1) % size)


def all_to_all():
    size = dist.get_world_size()
    counts = torch.tensor([100] * size).cuda()
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    taken, given = theirs.tolist(), counts.tolist()
    assert taken == [100] * size, taken
    output = torch.empty(sum(taken), WIDTH, device="cuda")
    dist.all_to_all_single(output, torch.zeros(sum(given), WIDTH, device="cuda"), taken, given)


def objects():
    rank, size = dist.get_rank(), dist.get_world_size()
    found = [{"layers": 3, "words": "w" * 5000}] if rank == 0 else [None]
    dist.broadcast_object_list(found, src=0)
    assert found[0]["layers"] == 3, found
    part = [None]
    dist.scatter_object_list(part, [f"part {one}" for one in range(size)] if rank == 1 else None, src=1)
    assert part == [f"part {rank}"], part
    everyone = [None] * size
    dist.all_gather_object(everyone, {"layers": 3})
    assert everyone == [{"layers": 3}] * size, everyone
    dist.gather_object("x", everyone if rank == 0 else None, dst=0)
    group = dist.new_group(backend="gloo")
    number = torch.tensor([3.0])
    dist.all_reduce(number, group=group)
    assert number.item() == 3.0 * size, number
    dist.monitored_barrier(group)
    dist.barrier()
    torch.zeros(found[0]["layers"] << 20, device="cuda")


WAYS = (ddp, fsdp1, fsdp2, hsdp, zero, tensor, pipeline, interleaved, zero_bubble, zero_bubble_v, dual_pipe_v, context, experts, checkpoint,
        messages, all_to_all, objects)


def measure(way):
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    torch.manual_seed(0)
    way()
    torch.cuda.synchronize()
    peaks = torch.cuda.max_memory_allocated() - before, torch.cuda.max_memory_reserved()
    os.write(1, f"PEAK {dist.get_rank()} {way.__name__} {peaks[0]} {peaks[1]}\n".encode())  # ranks share the output


if __name__ == "__main__":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    for way in WAYS:
        if len(sys.argv) < 2 or way.__name__ in sys.argv[1:]:
            measure(way)
