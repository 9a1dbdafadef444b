# SPDX-License-Identifier: Apache-2.0
"""Three training steps of a known network with random weights and data. h200/ has the recordings of this program on an H200 with
PyTorch 2.11. It knows nothing of dry runs.

usage: networks.py NETWORK --snapshot FILE
"""
import argparse
import gzip
import pickle

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("network")
parser.add_argument("--snapshot", required=True)
options = parser.parse_args()


def conv(inputs, outputs, kernel, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs),
                         nn.ReLU(inplace=True))


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(conv(inputs, width, 1), conv(width, width, 3, stride),
                                  nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.cut = nn.Identity() if stride == 1 and inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.body(x) + self.cut(x), inplace=True)


def resnet50():
    layers, inputs = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for n in range(count):
            layers.append(Bottleneck(inputs, width, stride if n == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def alexnet():
    return nn.Sequential(nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(True), nn.MaxPool2d(3, 2),
                         nn.Conv2d(64, 192, 5, 1, 2), nn.ReLU(True), nn.MaxPool2d(3, 2),
                         nn.Conv2d(192, 384, 3, 1, 1), nn.ReLU(True), nn.Conv2d(384, 256, 3, 1, 1), nn.ReLU(True),
                         nn.Conv2d(256, 256, 3, 1, 1), nn.ReLU(True), nn.MaxPool2d(3, 2),
                         nn.Flatten(), nn.Linear(9216, 4096), nn.ReLU(True), nn.Linear(4096, 1000))


class ConvNextBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depth, self.norm = nn.Conv2d(width, width, 7, 1, 3, groups=width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(self.depth(x).permute(0, 2, 3, 1))))).permute(0, 3, 1, 2)


def convnext():
    layers, inputs = [nn.Conv2d(3, 96, 4, 4)], 96
    for width, count in ((96, 3), (192, 3), (384, 9), (768, 3)):
        if width != inputs:
            layers.append(nn.Conv2d(inputs, width, 2, 2))
        layers += [ConvNextBlock(width) for _ in range(count)]
        inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(768, 1000))


def two(inputs, outputs):
    return nn.Sequential(conv(inputs, outputs, 3), conv(outputs, outputs, 3))


class UNet(nn.Module):
    def __init__(self, widths=(64, 128, 256, 512, 1024)):
        super().__init__()
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

    def turn(self, x, a):
        real = x[..., ::2] * a.cos() - x[..., 1::2] * a.sin()
        return torch.cat([real, x[..., ::2] * a.sin() + x[..., 1::2] * a.cos()], -1)

    def forward(self, x):
        b, t, w = x.shape
        sizes = (self.heads, self.groups, self.groups)
        q, k, v = (y.transpose(1, 2) for y in self.inside(x).view(b, t, -1, self.size).split(sizes, 2))
        if self.rotary:
            angles = torch.outer(torch.arange(t, device=x.device), 10000 ** -torch.linspace(0, 1, self.size // 2, device=x.device))
            q, k = self.turn(q, angles).to(v.dtype), self.turn(k, angles).to(v.dtype)
        if self.heads != self.groups:
            k, v = (y.repeat_interleave(self.heads // self.groups, 1) for y in (k, v))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, w))


class Layer(nn.Module):
    def __init__(self, width, heads, groups, hidden, rotary):
        super().__init__()
        norm = nn.RMSNorm if rotary else nn.LayerNorm
        self.one, self.two, self.rotary = norm(width), norm(width), rotary
        self.attention = Attention(width, heads, groups, rotary)
        self.up = nn.Linear(width, hidden * (2 if rotary else 1), bias=not rotary)
        self.down = nn.Linear(hidden, width, bias=not rotary)

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
        self.words = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, layers, dropout=0.5, batch_first=True)
        self.out = nn.Linear(width, words)

    def forward(self, tokens):
        return self.out(self.lstm(self.words(tokens))[0])


def images(batch, side=224, classes=1000, dense=False):
    shape = (batch, side, side) if dense else (batch,)
    return torch.randn(batch, 3, side, side, device="cuda"), torch.randint(classes, shape, device="cuda")


def tokens(batch, length, words):
    return tuple(torch.randint(words, (batch, length), device="cuda") for _ in range(2))


def gpt2():
    return Language(50304, 768, 12, 12, 12, 3072, False)


def llama():
    return Language(128256, 2048, 32, 8, 16, 8192, True)


NETWORKS = {  # name: (network, its data, optimizer, autocast)
    "alexnet": (alexnet, lambda: images(256), "sgd", False),
    "resnet50": (resnet50, lambda: images(64), "sgd", False),
    "resnet50-bf16": (resnet50, lambda: images(64), "sgd", True),
    "convnext": (convnext, lambda: images(64), "adamw", True),
    "unet": (UNet, lambda: images(16, 256, 2, True), "adamw", False),
    "gpt2": (gpt2, lambda: tokens(8, 1024, 50304), "adamw", True),
    "llama-1b": (llama, lambda: tokens(2, 1024, 128256), "adamw", True),
    "lstm": (Lstm, lambda: tokens(64, 35, 33278), "sgd", False),
}


def main():
    network, data, optimizer, mixed = NETWORKS[options.network]
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=2_000_000)
    with torch.device("cuda"):
        model = network().train()
    update = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9) if optimizer == "sgd" else torch.optim.AdamW(model.parameters(), 1e-4)
    for _ in range(3):
        inputs, targets = data()
        with torch.autocast("cuda", torch.bfloat16, enabled=mixed):
            out = model(inputs)
            if out.dim() == 3:
                out, targets = out.flatten(0, 1), targets.flatten()
            loss = F.cross_entropy(out.float(), targets)
        update.zero_grad(set_to_none=True)
        loss.backward()
        update.step()
        loss.item()
    with gzip.open(options.snapshot, "wb") if options.snapshot.endswith(".gz") else open(options.snapshot, "wb") as file:
        pickle.dump(torch.cuda.memory._snapshot(), file)


main()
