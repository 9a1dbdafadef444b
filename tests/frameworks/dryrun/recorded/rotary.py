# SPDX-License-Identifier: Apache-2.0
"""A transformer with rotary positions, written so that it asks for the memory of five recorded snapshots in their order.

It knows nothing of dry runs. Names of local variables are dropped in the order in which Python frees their tensors.
"""
import argparse
import math

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--snapshot", required=True)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--width", type=int, default=768)
parser.add_argument("--heads", type=int, default=12)
parser.add_argument("--context", type=int, default=128)
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--warmup", type=int, default=5)
parser.add_argument("--autocast", action="store_true")
parser.add_argument("--mode", choices=["forward", "gradients", "training"], default="training")
options = parser.parse_args()
VOCABULARY = 10000


class Linear(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))

    def forward(self, x):
        return torch.einsum("...a,ba->...b", x, self.weight)


class Embedding(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(VOCABULARY, width))

    def forward(self, tokens):
        return self.weight[tokens, :]


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        kind = x.dtype
        x = x.to(torch.float32)
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        x = x * scale
        return (self.weight * x).to(kind)


class Rotary(nn.Module):
    def __init__(self, context, width):
        super().__init__()
        angles = torch.outer(torch.arange(context), 10000.0 ** -(torch.arange(0, width, 2) / width))
        self.register_buffer("table", torch.stack((angles.cos(), angles.sin())), persistent=False)

    def forward(self, x):
        pairs = x.reshape(*x.shape[:-1], -1, 2).permute(-1, *range(x.dim()))
        even, odd = pairs.unbind(0)
        cosine, sine = self.table[:, :x.size(-2), :].unbind(0)
        first = cosine * even - sine * odd
        second = sine * even + cosine * odd
        joined = torch.concat((first, second), dim=-1)
        return joined


def softmax(x):
    shifted = x - torch.max(x, dim=-1, keepdim=True)[0]
    powers = torch.exp(shifted)
    return powers / torch.sum(powers, dim=-1, keepdim=True)


def attend(queries, keys, values, mask):
    scores = torch.einsum("...ab,...cb->...ac", queries, keys) / math.sqrt(keys.shape[-1])
    scores = torch.where(mask, scores, float("-inf"))
    weights = softmax(scores)
    return torch.einsum("...ab,...bc->...ac", weights, values)


class Attention(nn.Module):
    def __init__(self, width, heads, rotary):
        super().__init__()
        self.heads, self.rotary = heads, rotary
        self.queries, self.keys, self.values, self.out = (Linear(width, width) for _ in range(4))

    def split(self, x):
        return x.reshape(*x.shape[:-1], self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x):
        length = x.size(1)
        queries = self.queries(x)
        keys = self.keys(x)
        values = self.values(x)
        queries, keys, values = (self.split(each) for each in (queries, keys, values))
        queries = self.rotary(queries)
        keys = self.rotary(keys)
        places = torch.arange(length, device=x.device)
        mask = (places[:, None] >= places[None, :])[None, ...]
        attended = attend(queries, keys, values, mask)
        attended = attended.permute(0, 2, 1, 3).reshape(*x.shape)
        output = self.out(attended)
        return output


def silu(x):
    return x * torch.sigmoid(x)


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate, self.down, self.up = Linear(width, 4 * width), Linear(4 * width, width), Linear(width, 4 * width)

    def forward(self, x):
        return self.down(silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, width, heads, rotary):
        super().__init__()
        self.attention, self.gated = Attention(width, heads, rotary), Gated(width)
        self.first, self.second = Norm(width), Norm(width)

    def forward(self, x):
        attended = self.attention(self.first(x))
        middle = x + attended
        gated = self.gated(self.second(middle))
        output = middle + gated
        return output


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = Embedding(options.width)
        rotary = Rotary(options.context, options.width // options.heads)
        self.rotary = rotary
        self.layers = nn.ModuleList([Block(options.width, options.heads, rotary) for _ in range(options.layers)])
        self.norm = Norm(options.width)
        self.head = Linear(options.width, VOCABULARY)

    def forward(self, x):
        embedded = self.embedding(x)
        x = embedded
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        logits = self.head(x)
        return logits


def log_softmax(x):
    largest = torch.max(x, dim=-1, keepdim=True)[0]
    x = x - largest
    return x - torch.log(torch.sum(torch.exp(x), dim=-1, keepdim=True))


def cross_entropy(logits, targets):
    negative = -log_softmax(logits)
    return torch.mean(torch.gather(negative, -1, targets.unsqueeze(-1)))


class Adam(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"rate": 1e-3, "decay": 0.01})

    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                gradient = parameter.grad.data
                state = self.state[parameter]
                parameter.data -= group["rate"] * group["decay"] * parameter.data
                old_mean = state.get("mean", torch.zeros_like(gradient))
                old_square = state.get("square", torch.zeros_like(gradient))
                mean = 0.9 * old_mean + (0.1 * gradient)
                square = 0.999 * old_square + (0.001 * torch.square(gradient))
                parameter.data -= group["rate"] * mean / (torch.sqrt(square) + 1e-8)
                state["mean"] = mean
                state["square"] = square


def tokens(*shape):
    return torch.randint(0, VOCABULARY, shape, device="cuda")


def autocast():
    return torch.autocast("cuda", torch.bfloat16, enabled=options.autocast)


def run_forward(model):
    warmup, inputs = tokens(options.warmup, options.batch, options.context), tokens(1, options.batch, options.context)
    model.eval()
    with torch.inference_mode():
        for i in range(options.warmup):
            with autocast():
                model(warmup[i])
        torch.cuda.memory._record_memory_history(max_entries=1000000)
        with autocast():
            model(inputs[0])
    torch.cuda.memory._dump_snapshot(options.snapshot)


def run_training(model):
    optimizer = Adam(model.parameters())
    shapes = [(options.warmup, options.batch, options.context), (1, options.batch, options.context)]
    warmup, inputs = (tokens(*shape) for shape in shapes)
    warmup_targets, targets = (tokens(*shape) for shape in shapes)
    for i in range(options.warmup):
        with autocast():
            logits = model(warmup[i])
            loss = cross_entropy(logits, warmup_targets[i])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    del logits, loss
    torch.cuda.memory._record_memory_history(max_entries=1000000)
    with autocast():
        logits = model(inputs[0])
        loss = cross_entropy(logits, targets[0])
    loss.backward()
    optimizer.step()
    torch.cuda.memory._dump_snapshot(options.snapshot)


def run_gradients(model):
    inputs, targets = (torch.randint(0, VOCABULARY, (options.batch, options.context)).cuda() for _ in range(2))
    for step in range(options.warmup + 1):
        if step == options.warmup:
            torch.cuda.memory._record_memory_history(max_entries=1000000)
        logits = model(inputs)
        loss = cross_entropy(logits, targets)
        loss.backward()
    torch.cuda.memory._dump_snapshot(options.snapshot)


model = Transformer().to("cuda")
{"forward": run_forward, "training": run_training, "gradients": run_gradients}[options.mode](model)
