# SPDX-License-Identifier: Apache-2.0
"""A training of a model with the shapes of Llama 3.1, as users write it for many ranks: `meta` initialisation, `fully_shard` with 16-bit
weights, blocks that run again, and AdamW. It knows nothing of dry runs.

torchrun --nproc-per-node 8 llama.py 8b
"""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

SIZES = {"8b": (32, 4096, 14336, 32), "70b": (80, 8192, 28672, 64), "405b": (126, 16384, 53248, 128)}  # layers, width, hidden, heads
GROUPS, VOCABULARY, LENGTH = 8, 128256, 8192  # of keys and values; tokens


def rotated(x):
    """Returns the heads with their places in the sequence."""
    half = x.shape[-1] // 2
    angles = torch.outer(torch.arange(x.shape[2], device=x.device), 500000.0 ** -(torch.arange(half, device=x.device) / half)).to(x.dtype)
    one, two = x.chunk(2, dim=-1)
    return torch.cat((one * angles.cos() - two * angles.sin(), one * angles.sin() + two * angles.cos()), dim=-1)


class Block(nn.Module):
    def __init__(self, width, hidden, heads):
        super().__init__()
        self.head = width // heads
        self.before_attention, self.before_hidden = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query, self.output = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.key, self.value = (nn.Linear(width, GROUPS * self.head, bias=False) for _ in range(2))
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def attention(self, x):
        query, key, value = (one(x).unflatten(2, (-1, self.head)).transpose(1, 2) for one in (self.query, self.key, self.value))
        mixed = nn.functional.scaled_dot_product_attention(rotated(query), rotated(key), value, is_causal=True, enable_gqa=True)
        return self.output(mixed.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attention(self.before_attention(x))
        y = self.before_hidden(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    def __init__(self, layers, width, hidden, heads):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(Block(width, hidden, heads) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(self.norm(x))


def main(size):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    with torch.device("meta"):
        model = Model(*SIZES[size])
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    for block in model.blocks:
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    model.to_empty(device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(3):
        tokens = torch.randint(VOCABULARY, (1, LENGTH + 1)).cuda()
        loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[0, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main(sys.argv[1])
