# SPDX-License-Identifier: Apache-2.0
"""A transformer with tables of angles and masks on the host, written so that it asks for the memory of five recorded
snapshots in their order. It knows nothing of dry runs."""
import argparse
import contextlib
import math

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--snapshot", required=True)
parser.add_argument("--context", type=int, default=200)
parser.add_argument("--autocast", action="store_true")
parser.add_argument("--mode", choices=["forward", "training"], default="training")
options = parser.parse_args()
VOCABULARY, WIDTH, INNER, HEADS, LAYERS, LONGEST, BATCH = 10000, 512, 1344, 16, 4, 256, 10


def weights(rows, columns, deviation):
    made = nn.Parameter(torch.empty(rows, columns, device="cuda"))
    nn.init.trunc_normal_(made, 0, deviation, -3 * deviation, 3 * deviation)
    return made


class Linear(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = weights(outputs, inputs, math.sqrt(2 / (inputs + outputs)))

    def forward(self, x):
        return torch.einsum("...a,ba->...b", x, self.weight)


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = weights(VOCABULARY, WIDTH, 1)

    def forward(self, x):
        return self.weight[x]


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH, device="cuda"))

    def forward(self, x):
        kind = x.dtype
        x = x.to(torch.float32)
        root = torch.sqrt(torch.mean(x**2, dim=-1, keepdim=True) + 1e-5)
        result = x / root * self.weight
        return result.to(kind)


class Rotation(nn.Module):
    """The tables stay on the host; each call copies its part."""

    def __init__(self):
        super().__init__()
        width = WIDTH // HEADS
        angles = torch.outer(torch.arange(LONGEST), 10000.0 ** (-torch.arange(0, width, 2) / width))
        self.sine, self.cosine = angles.sin(), angles.cos()

    def forward(self, x):
        places = torch.arange(x.shape[-2])
        sine_rows = self.sine[places].to("cuda")
        cosine_rows = self.cosine[places].to("cuda")
        sine, cosine = sine_rows[None, :, :, None], cosine_rows[None, :, :, None]
        x = x.reshape(*x.shape[:-1], -1, 2)
        first = cosine * x[..., :1] - sine * x[..., 1:]
        second = sine * x[..., :1] + cosine * x[..., 1:]
        rotated = torch.cat([first, second], dim=-1)
        rotated = rotated.reshape(*rotated.shape[:-2], -1)
        return rotated


def softmax(x):
    largest, _ = torch.max(x, dim=-1, keepdim=True)
    return torch.exp(x - largest) / torch.sum(torch.exp(x - largest), dim=-1, keepdim=True)


def attend(queries, keys, values, mask):
    mask = mask.to(queries.device)
    width = queries.shape[-1]
    products = torch.einsum("...ab,...cb->...ac", queries, keys)
    scores = products / torch.sqrt(torch.tensor(width, device=products.device))
    masked = scores.masked_fill_(~mask.bool(), -float("inf"))
    shares = softmax(masked)
    result = torch.einsum("...ab,...bc->...ac", shares, values)
    return result


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.rotation = Rotation()
        self.queries, self.keys, self.values, self.out = (Linear(WIDTH, WIDTH) for _ in range(4))

    def split(self, x):
        return x.reshape(*x.shape[:-1], HEADS, -1).permute(0, 2, 1, 3)

    def forward(self, x):
        length = x.shape[-2]
        queries = self.queries(x)
        keys = self.keys(x)
        values = self.values(x)
        queries = self.split(queries)
        keys = self.split(keys)
        values = self.split(values)
        queries = self.rotation(queries)
        keys = self.rotation(keys)
        mask = torch.tril(torch.ones(length, length))
        o = attend(queries, keys, values, mask)
        o = o.permute(0, 2, 1, 3).reshape(*x.shape)
        o = self.out(o)
        return o


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.down, self.up = Linear(WIDTH, INNER), Linear(INNER, WIDTH), Linear(WIDTH, INNER)

    def forward(self, x):
        gate = self.gate(x)
        activated = gate * torch.sigmoid(gate)
        up = self.up(x)
        product = activated * up
        return self.down(product)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Norm(), Norm()
        self.attention, self.gated = Attention(), Gated()

    def forward(self, x):
        normed = self.first(x)
        attended = self.attention(normed)
        middle = attended + x
        second_normed = self.second(middle)
        gated = self.gated(second_normed)
        output = gated + middle
        return output


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = Embedding()
        self.layers = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm = Norm()
        self.head = Linear(WIDTH, VOCABULARY)

    def forward(self, x):
        x = self.embedding(x)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        output = self.head(x)
        return output


class Adam(torch.optim.Optimizer):
    """Makes new moments and new weights in each step."""

    def __init__(self, parameters):
        super().__init__(parameters, {"rate": 1e-3})
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter] = {"mean": torch.zeros_like(parameter.data),
                                         "square": torch.zeros_like(parameter.data)}

    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                rate = group["rate"]
                if parameter.grad is None:
                    continue
                gradient = parameter.grad.data
                mean = self.state[parameter]["mean"]
                new_mean = 0.9 * mean + 0.1 * gradient
                self.state[parameter]["mean"] = new_mean
                square = self.state[parameter]["square"]
                new_square = 0.999 * square + 0.001 * gradient**2
                self.state[parameter]["square"] = new_square
                parameter.data = parameter.data - rate * (new_mean / (torch.sqrt(new_square) + 1e-8))
                parameter.data = parameter.data - rate * 0.0 * parameter.data


def cross_entropy(x, target):
    largest, _ = torch.max(x, dim=-1, keepdim=True)
    logs = x - largest - torch.log(torch.sum(torch.exp(x - largest), dim=-1, keepdim=True))
    chosen = torch.zeros_like(logs)
    chosen.scatter_(-1, target.unsqueeze(-1), 1)
    loss = -torch.sum(chosen * logs) / x.shape[0]
    return loss


def tokens(*shape):
    return torch.randint(0, VOCABULARY, shape).to("cuda")


def run_forward():
    torch.cuda.memory._record_memory_history(max_entries=1000000)
    model = Transformer()
    data = tokens(BATCH, options.context)
    for _ in range(3):
        model(data)
    torch.cuda.memory._dump_snapshot(options.snapshot)


def run_training():
    torch.cuda.memory._record_memory_history(max_entries=1000000)
    model = Transformer()
    optimizer = Adam(model.parameters())
    data = tokens(BATCH, options.context)
    labels = tokens(BATCH)
    with torch.autocast("cuda", torch.bfloat16) if options.autocast else contextlib.nullcontext():
        for _ in range(3):
            optimizer.zero_grad()
            logits = model(data)
            newest = logits[:, -1, :]
            loss = cross_entropy(newest, labels)
            loss.backward()
            optimizer.step()
    torch.cuda.memory._dump_snapshot(options.snapshot)


{"forward": run_forward, "training": run_training}[options.mode]()
