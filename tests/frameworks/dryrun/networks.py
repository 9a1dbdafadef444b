# SPDX-License-Identifier: Apache-2.0
"""Training programs of several kinds of networks, as users write them: they know nothing of dry runs."""
import argparse
import contextlib

import torch
from torch import nn
from torch.nn import functional

parser = argparse.ArgumentParser()
parser.add_argument("network", choices=("gpt", "resnet", "convnext", "unet", "lstm", "mlp"))
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--width", type=int, default=256)
parser.add_argument("--layers", type=int, default=3)
parser.add_argument("--length", type=int, default=256)
parser.add_argument("--steps", type=int, default=10)
parser.add_argument("--type", default="", help="of automatic mixed precision")
parser.add_argument("--micro-batches", type=int, default=1)
parser.add_argument("--tied", action="store_true")
parser.add_argument("--checkpoint", type=int, default=0, help="the first blocks")
parser.add_argument("--keep-gradients", action="store_true")
parser.add_argument("--longer-step", type=int, default=-1)
parser.add_argument("--larger-step", type=int, default=-1, help="has 128 MiB more")
parser.add_argument("--ema", action="store_true")
parser.add_argument("--dropout", type=float, default=0)
parser.add_argument("--optimizer", default="AdamW")
options = parser.parse_args()
VOCABULARY = 4096


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        width = options.width
        self.before_attention, self.before_layers = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(options.dropout))

    def forward(self, x):
        samples, length, width = x.shape
        parts = self.queries_keys_values(self.before_attention(x)).view(samples, length, 3, width // 64, 64)
        found = functional.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4), is_causal=True, dropout_p=options.dropout)
        x = x + self.output(found.transpose(1, 2).reshape(samples, length, width))
        return x + self.layers(self.before_layers(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, options.width), nn.Embedding(options.length, options.width)
        self.blocks = nn.ModuleList(Block() for _ in range(options.layers))
        self.head = nn.Linear(options.width, VOCABULARY, bias=False)
        if options.tied:
            self.head.weight = self.tokens.weight

    def forward(self, x, y):
        x = self.tokens(x) + self.positions(torch.arange(x.shape[1], device=x.device))
        for number, block in enumerate(self.blocks):
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) if number < options.checkpoint else block(x)
        return functional.cross_entropy(self.head(x).flatten(0, 1), y.flatten())


class Residual(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.first, self.second = nn.Conv2d(inputs, width, 3, stride, 1, bias=False), nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.first_norm, self.second_norm, self.relu = nn.BatchNorm2d(width), nn.BatchNorm2d(width), nn.ReLU(inplace=True)
        self.shortcut = nn.Conv2d(inputs, width, 1, stride, bias=False)

    def forward(self, x):
        y = self.second_norm(self.second(self.relu(self.first_norm(self.first(x)))))
        y += self.shortcut(x)
        return self.relu(y)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Residual(3, 64, 2), Residual(64, 64, 1), Residual(64, 128, 2), Residual(128, 128, 1))
        self.head = nn.Linear(128, 1000)

    def forward(self, x, y):
        return functional.cross_entropy(self.head(self.blocks(x).mean((2, 3))), y)


class ConvNextBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width)
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        return x + self.layers(self.norm(self.depthwise(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.head = nn.Conv2d(3, 64, 4, 4), nn.Linear(64, 1000)
        self.blocks = nn.Sequential(*[ConvNextBlock(64) for _ in range(options.layers)])

    def forward(self, x, y):
        return functional.cross_entropy(self.head(self.blocks(self.patches(x)).mean((2, 3))), y)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([self.block(3, 32), self.block(32, 64), self.block(64, 128)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(128, 64, 2, 2), nn.ConvTranspose2d(64, 32, 2, 2)])
        self.join, self.head = nn.ModuleList([self.block(128, 64), self.block(64, 32)]), nn.Conv2d(32, 1000, 1)

    @staticmethod
    def block(inputs, width):
        return nn.Sequential(nn.Conv2d(inputs, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True))

    def forward(self, x, y):
        kept = []
        for block in self.down:
            kept.append(block(functional.max_pool2d(kept[-1], 2) if kept else x))
        x = kept.pop()
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return functional.cross_entropy(self.head(x).mean((2, 3)), y)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.head = nn.Embedding(VOCABULARY, options.width), nn.Linear(options.width, VOCABULARY)
        self.layers = nn.LSTM(options.width, options.width, 2, batch_first=True)

    def forward(self, x, y):
        return functional.cross_entropy(self.head(self.layers(self.tokens(x))[0]).flatten(0, 1), y.flatten())


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[layer for _ in range(options.layers) for layer in (nn.Linear(options.width, options.width), nn.GELU())])

    def forward(self, x, y):
        return functional.mse_loss(self.layers(x), y)


def batch():
    if options.network in ("resnet", "convnext", "unet"):
        return torch.zeros(options.batch, 3, 128, 128).cuda(), torch.zeros(options.batch, dtype=torch.long).cuda()
    if options.network == "mlp":
        return torch.zeros(options.batch, options.width).cuda(), torch.zeros(options.batch, options.width).cuda()
    return tuple(torch.zeros(options.batch, options.length, dtype=torch.long).cuda() for _ in range(2))


model = {"gpt": Gpt, "resnet": ResNet, "convnext": ConvNext, "unet": UNet, "lstm": Lstm, "mlp": Mlp}[options.network]().cuda()
optimizer = getattr(torch.optim, options.optimizer)(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda", enabled=options.type == "float16")
averages = [parameter.detach().clone() for parameter in model.parameters()] if options.ema else []
for step in range(options.steps):
    more = torch.empty(1 << 27, dtype=torch.uint8, device="cuda") if step == options.larger_step else None
    for _ in range(options.micro_batches + (step == options.longer_step)):
        inputs = batch()
        with torch.autocast("cuda", getattr(torch, options.type)) if options.type else contextlib.nullcontext():
            loss = model(*inputs)
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=not options.keep_gradients)
    with torch.no_grad():
        if averages:
            torch._foreach_lerp_(averages, list(model.parameters()), 0.1)
