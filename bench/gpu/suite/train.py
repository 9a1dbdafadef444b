#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps of a network, on a GPU or in a dry run: peaks, times, losses, and the snapshot of PyTorch's allocator. Prints JSON.

The same file runs under `tidepool dryrun --gpu h200 --steps 0 -- python train.py NETWORK --snapshot FILE` before, so its two
snapshots are the predicted and the real memory, which predictions.py compares. Attention of cuDNN is off, as in dry runs.
usage: train.py NETWORK [--allocator native|expandable|tidepool|planned] [--steps N] [--scale SHARE] [--snapshot FILE]
                [--benchmark] [--deterministic]
"""
import argparse
import gzip
import json
import os
import pickle
import time

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("--allocator", default="native")
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--snapshot")
parser.add_argument("--benchmark", action="store_true", help="torch.backends.cudnn.benchmark")
parser.add_argument("--scale", type=float, default=1, help="of the batch")
parser.add_argument("--deterministic", action="store_true", help="equal losses with every allocator, or memory was damaged")
options = parser.parse_args()
if options.allocator == "expandable":
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"

import torch
import torch.nn as nn
import torch.nn.functional as F


def conv(i, o, k, s=1, g=1):
    return nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class Bottleneck(nn.Module):
    def __init__(self, i, width, stride):
        super().__init__()
        o = 4 * width
        self.body = nn.Sequential(conv(i, width, 1), conv(width, width, 3, stride), nn.Conv2d(width, o, 1, bias=False), nn.BatchNorm2d(o))
        self.cut = nn.Identity() if stride == 1 and i == o else nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        return F.relu(self.body(x) + self.cut(x), inplace=True)


def resnet50():
    layers, i = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for n in range(count):
            layers.append(Bottleneck(i, width, stride if n == 0 else 1))
            i = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def alexnet():
    return nn.Sequential(nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(True), nn.MaxPool2d(3, 2), nn.Conv2d(64, 192, 5, 1, 2), nn.ReLU(True), nn.MaxPool2d(3, 2),
                         nn.Conv2d(192, 384, 3, 1, 1), nn.ReLU(True), nn.Conv2d(384, 256, 3, 1, 1), nn.ReLU(True), nn.Conv2d(256, 256, 3, 1, 1),
                         nn.ReLU(True), nn.MaxPool2d(3, 2), nn.Flatten(), nn.Linear(9216, 4096), nn.ReLU(True), nn.Linear(4096, 1000))


class ConvNextBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.depth, self.norm, self.up, self.down = nn.Conv2d(c, c, 7, 1, 3, groups=c), nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.Linear(4 * c, c)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(self.depth(x).permute(0, 2, 3, 1))))).permute(0, 3, 1, 2)


def convnext():
    layers, i = [nn.Conv2d(3, 96, 4, 4)], 96
    for c, count in ((96, 3), (192, 3), (384, 9), (768, 3)):
        if c != i:
            layers.append(nn.Conv2d(i, c, 2, 2))
        layers += [ConvNextBlock(c) for _ in range(count)]
        i = c
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(768, 1000))


class UNet(nn.Module):
    def __init__(self, widths=(64, 128, 256, 512, 1024)):
        super().__init__()
        two = lambda i, o: nn.Sequential(conv(i, o, 3), conv(o, o, 3))
        self.down = nn.ModuleList([two(i, o) for i, o in zip((3,) + widths[:-2], widths[:-1])])
        self.low = two(widths[-2], widths[-1])
        self.up = nn.ModuleList([nn.ConvTranspose2d(i, o, 2, 2) for i, o in zip(widths[:0:-1], widths[-2::-1])])
        self.join = nn.ModuleList([two(2 * o, o) for o in widths[-2::-1]])
        self.out = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.low(x)
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.out(x)


class Attention(nn.Module):
    def __init__(self, width, heads, groups, rotary):
        super().__init__()
        self.heads, self.groups, self.size, self.rotary = heads, groups, width // heads, rotary
        self.inside = nn.Linear(width, (heads + 2 * groups) * self.size, bias=not rotary)
        self.out = nn.Linear(width, width, bias=not rotary)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (y.transpose(1, 2) for y in self.inside(x).view(b, t, -1, self.size).split((self.heads, self.groups, self.groups), 2))
        if self.rotary:
            a = torch.outer(torch.arange(t, device=x.device), 10000 ** -torch.linspace(0, 1, self.size // 2, device=x.device))
            turn = lambda y: torch.cat([y[..., ::2] * a.cos() - y[..., 1::2] * a.sin(), y[..., ::2] * a.sin() + y[..., 1::2] * a.cos()], -1).to(v.dtype)
            q, k = turn(q), turn(k)
        if self.heads != self.groups:
            k, v = (y.repeat_interleave(self.heads // self.groups, 1) for y in (k, v))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, w))


class Layer(nn.Module):
    def __init__(self, width, heads, groups, hidden, rotary):
        super().__init__()
        norm = nn.RMSNorm if rotary else nn.LayerNorm
        self.one, self.two, self.attention, self.rotary = norm(width), norm(width), Attention(width, heads, groups, rotary), rotary
        self.up, self.down = nn.Linear(width, hidden * (2 if rotary else 1), bias=not rotary), nn.Linear(hidden, width, bias=not rotary)

    def forward(self, x):
        x = x + self.attention(self.one(x))
        y = self.up(self.two(x))
        if self.rotary:
            a, b = y.chunk(2, -1)
            return x + self.down(F.silu(a) * b)
        return x + self.down(F.gelu(y))


class Language(nn.Module):
    def __init__(self, words, width, heads, groups, layers, hidden, rotary, length=1024):
        super().__init__()
        self.words, self.out = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.places = None if rotary else nn.Embedding(length, width)
        self.layers = nn.Sequential(*[Layer(width, heads, groups, hidden, rotary) for _ in range(layers)])
        self.norm = nn.RMSNorm(width) if rotary else nn.LayerNorm(width)
        self.out.weight = self.words.weight

    def forward(self, tokens):
        x = self.words(tokens)
        if self.places is not None:
            x = x + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.out(self.norm(self.layers(x)))


class Lstm(nn.Module):
    def __init__(self, words=33278, width=1500, layers=2):
        super().__init__()
        self.words, self.lstm, self.out = nn.Embedding(words, width), nn.LSTM(width, width, layers, dropout=0.5, batch_first=True), nn.Linear(width, words)

    def forward(self, tokens):
        return self.out(self.lstm(self.words(tokens))[0])


def images(batch, side=224, classes=1000, dense=False):
    return lambda: (torch.randn(batch, 3, side, side, device="cuda"), torch.randint(classes, (batch, side, side) if dense else (batch,), device="cuda"))


def tokens(batch, length, words):
    return lambda: tuple(torch.randint(words, (batch, length), device="cuda") for _ in range(2))


MODELS = {  # name: (network, batches of a size, samples, optimiser, autocast)
    "alexnet": (alexnet, images, 256, "sgd", False),
    "resnet50": (resnet50, images, 64, "sgd", False),
    "resnet50-bf16": (resnet50, images, 64, "sgd", True),
    "convnext": (convnext, images, 64, "adamw", True),
    "unet": (UNet, lambda n: images(n, 256, 2, True), 16, "adamw", False),
    "gpt2": (lambda: Language(50304, 768, 12, 12, 12, 3072, False), lambda n: tokens(n, 1024, 50304), 8, "adamw", True),
    "llama-1b": (lambda: Language(128256, 2048, 32, 8, 16, 8192, True), lambda n: tokens(n, 1024, 128256), 2, "adamw", True),
    "lstm": (Lstm, lambda n: tokens(n, 35, 33278), 64, "sgd", False),
}


def main():
    network, batches, samples, optimiser, mixed = MODELS[options.model]
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.backends.cudnn.benchmark = options.benchmark
    if options.deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        torch.use_deterministic_algorithms(True, warn_only=True)
        # The other kernels of attention add up gradients in the order in which blocks end.
        torch.backends.cuda.enable_flash_sdp(False)
        torch.backends.cuda.enable_mem_efficient_sdp(False)
        torch.utils.deterministic.fill_uninitialized_memory = False
    tidepool = None
    if options.allocator in ("tidepool", "planned"):
        import tidepool.torch as tidepool
        tidepool.enable(placement="planned" if options.allocator == "planned" else None, method="compiled")
    torch.manual_seed(0)
    if options.snapshot:
        torch.cuda.memory._record_memory_history("all", context=None, max_entries=2_000_000)
    with torch.device("cuda"):
        model = network().train()
    make = batches(max(1, int(samples * options.scale)))
    update = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9) if optimiser == "sgd" else torch.optim.AdamW(model.parameters(), 1e-4)
    seconds, peaks, losses = [], [], []
    for step in range(options.steps):
        if options.allocator == "planned":
            if step == options.steps // 2:  # a long run has the plan by then
                tidepool.await_plans()
            tidepool.mark_iteration()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        inputs, targets = make()
        with torch.autocast("cuda", torch.bfloat16, enabled=mixed):
            out = model(inputs)
            loss = F.cross_entropy(out.float() if out.dim() == 4 else out.flatten(0, -2).float(), targets if out.dim() == 4 else targets.flatten())
        update.zero_grad(set_to_none=True)
        loss.backward()
        update.step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
        losses.append(loss.item())
        peaks.append([torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()])
    stats = torch.cuda.memory_stats()
    if options.snapshot:
        os.makedirs(os.path.dirname(os.path.abspath(options.snapshot)), exist_ok=True)
        with (gzip.open(options.snapshot, "wb", 6) if options.snapshot.endswith(".gz") else open(options.snapshot, "wb")) as file:
            pickle.dump(torch.cuda.memory._snapshot(), file)
    free, total = torch.cuda.mem_get_info()
    print(json.dumps({"model": options.model, "allocator": options.allocator, "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
                      "gpu": torch.cuda.get_device_name(), "l2": getattr(torch.cuda.get_device_properties(0), "L2_cache_size", None), "losses": losses,
                      "peaks_of_steps": peaks, "seconds_of_steps": [round(s, 4) for s in seconds], "requests": stats["allocation.all.allocated"],
                      "device_allocations": stats["num_device_alloc"], "outside_of_the_allocator": total - free - stats["reserved_bytes.all.current"]}))


if __name__ == "__main__":
    main()
