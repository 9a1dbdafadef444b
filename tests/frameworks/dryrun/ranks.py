# SPDX-License-Identifier: Apache-2.0
"""Small programs of several ranks, as users write them: they know nothing of dry runs.

torchrun ranks.py ddp | torchrun ranks.py out-of-memory | torchrun ranks.py symmetric | torchrun ranks.py killed |
python ranks.py spawn | python ranks.py one-process
"""
import os
import signal
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing

RANKS = 2


def network():
    return torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024))


def train(model, before_step=lambda step: None):
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(100):
        before_step(step)
        loss = model(torch.randn(16, 1024).cuda()).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(dist.get_rank(), step, loss.item())
    raise AssertionError("the dry run did not end")


def exchange_values():
    """Values that no kernel computes are those of the ranks, through NCCL too."""
    rank = dist.get_rank()
    objects = [None] * RANKS
    dist.all_gather_object(objects, {"rank": rank, "words": "w" * (1000 * rank)})
    assert objects == [{"rank": one, "words": "w" * (1000 * one)} for one in range(RANKS)], objects
    objects = ["a", 12, {1: 2}] if rank == 0 else [None] * 3
    dist.broadcast_object_list(objects, src=0)
    assert objects == ["a", 12, {1: 2}], objects
    number = torch.tensor([rank + 1.5], device="cuda")
    dist.all_reduce(number)
    assert number.item() == 4, number
    numbers = [torch.zeros(2, device="cuda") for _ in range(RANKS)]
    dist.all_gather(numbers, torch.tensor([7.0, rank]).cuda())
    assert [one.tolist() for one in numbers] == [[7, 0], [7, 1]], numbers
    assert torch.ones(3, device="cuda").tolist() == [0, 0, 0]
    # Large data arrives whole too.
    objects = [None] * RANKS
    dist.all_gather_object(objects, "w" * (3 << 20) * (1 + rank))
    assert [len(one) for one in objects] == [3 << 20, 6 << 20], [len(one) for one in objects]
    letters = torch.full((5 << 20,), 97 + rank, dtype=torch.uint8).cuda()
    dist.broadcast(letters, src=1)
    assert letters.cpu().eq(98).all()
    dist.barrier()


def consolidate_optimizer():
    """Gathers the state of a sharded optimizer, some 2 MiB for each rank."""
    from torch.distributed.optim import ZeroRedundancyOptimizer
    model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Linear(512, 512)).cuda()
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-3)
    model(torch.randn(4, 512).cuda()).sum().backward()
    optimizer.step()
    optimizer.consolidate_state_dict(to=0)
    if dist.get_rank() == 0:
        state = optimizer.state_dict()
        assert sorted(one["exp_avg"].numel() for one in state["state"].values()) == 2 * [512] + 2 * [512 * 512]
        assert state["param_groups"][0]["lr"] == 1e-3


def ddp():
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]
    dist.init_process_group("nccl")
    exchange_values()
    consolidate_optimizer()
    train(torch.nn.parallel.DistributedDataParallel(network().cuda()))


def out_of_memory():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())

    def allocate(step):
        if dist.get_rank() == 1 and step == 1:
            torch.empty(1 << 40, dtype=torch.uint8, device="cuda")

    train(torch.nn.parallel.DistributedDataParallel(network().cuda()), allocate)


def spawned(rank):
    from torch.distributed.fsdp import fully_shard
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29500")
    dist.init_process_group("nccl", rank=rank, world_size=RANKS)
    torch.cuda.set_device(rank)
    with torch.device("meta"):
        model = network()
    fully_shard(model)
    model.to_empty(device="cuda")
    train(model)


def symmetric():
    import torch.distributed._symmetric_memory as symmetric_memory
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    values = symmetric_memory.empty(16 << 20, device="cuda")
    handle = symmetric_memory.rendezvous(values, dist.group.WORLD)
    torch.ops.symm_mem.two_shot_all_reduce_(values, "sum", dist.group.WORLD.group_name)
    handle.get_buffer(1 - dist.get_rank(), (1024,), torch.float32).zero_()
    handle.barrier()


def killed():
    """Ends one rank by a signal, such as the one of a system without memory."""
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    torch.ones(8, device="cuda")
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


def one_process():
    """DataParallel: this process has both devices."""
    model = torch.nn.DataParallel(network()).cuda()
    for _ in range(3):
        model(torch.randn(256, 1024).cuda()).mean().backward()


if __name__ == "__main__":
    if sys.argv[1] == "spawn":
        torch.multiprocessing.spawn(spawned, nprocs=RANKS)
    else:
        {"ddp": ddp, "killed": killed, "one-process": one_process, "out-of-memory": out_of_memory, "symmetric": symmetric}[sys.argv[1]]()
