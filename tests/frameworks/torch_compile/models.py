# SPDX-License-Identifier: Apache-2.0
"""Models for training in a budget: small ones with values, and large ones for dry runs."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class Layer(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)
        self.heads = heads

    def forward(self, x):
        rows, length, width = x.shape
        shape = (rows, length, 3, self.heads, width // self.heads)
        q, k, v = self.qkv(self.norm1(x)).view(shape).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + self.dropout(self.out(y))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class GPT(nn.Module):
    """A GPT that returns its loss."""

    def __init__(self, width=64, layers=4, heads=4, words=128, length=64, dropout=0.1, tied=False, checkpoints=False):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(Layer(width, heads, dropout) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        if tied:
            self.head.weight = self.words.weight
        self.checkpoints = checkpoints

    def forward(self, x, y):
        x = self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.checkpoints else layer(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), y.flatten())


class BrokenGPT(GPT):
    """A GPT of six layers in three graphs."""

    def forward(self, x, y):
        x = self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))
        x = self.layers[2](self.layers[1](self.layers[0](x)))
        torch._dynamo.graph_break()
        x = self.layers[5](self.layers[4](self.layers[3](x)))
        torch._dynamo.graph_break()
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), y.flatten())


class LossOutside(nn.Module):
    """A model with a loss that is not compiled."""

    def __init__(self, *arguments):
        super().__init__()
        self.model = GPT(*arguments)

    def _logits(self, x):
        model = self.model
        x = model.words(x) + model.places(torch.arange(x.shape[1], device=x.device))
        for layer in model.layers:
            x = layer(x)
        return model.head(model.norm(x))

    @torch.compiler.disable
    def loss(self, logits, y):
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())

    def forward(self, x, y):
        return self.loss(self._logits(x), y)


class Bottleneck(nn.Module):
    def __init__(self, inside, middle, stride):
        super().__init__()
        outside = 4 * middle
        self.conv1, self.norm1 = nn.Conv2d(inside, middle, 1, bias=False), nn.BatchNorm2d(middle)
        self.conv2, self.norm2 = nn.Conv2d(middle, middle, 3, stride, 1, bias=False), nn.BatchNorm2d(middle)
        self.conv3, self.norm3 = nn.Conv2d(middle, outside, 1, bias=False), nn.BatchNorm2d(outside)
        self.shortcut = nn.Identity()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.norm3(self.conv3(self.relu(self.norm2(self.conv2(y)))))
        y += self.shortcut(x)
        return self.relu(y)


class ResNet(nn.Module):
    """A ResNet that returns its loss."""

    def __init__(self, width=8, blocks=(2, 2, 1, 1), classes=100):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                                  nn.MaxPool2d(3, 2, 1))
        body, inside = [], width
        for stage, count in enumerate(blocks):
            for i in range(count):
                body.append(Bottleneck(inside, width * 2 ** stage, 2 if stage and i == 0 else 1))
                inside = 4 * width * 2 ** stage
        self.body, self.head = nn.Sequential(*body), nn.Linear(inside, classes)

    def forward(self, x, y):
        return F.cross_entropy(self.head(self.body(self.stem(x)).mean((2, 3))), y)


class RotaryLayer(nn.Module):
    """A block of a Llama: grouped queries with rotary positions, and SwiGLU."""

    def __init__(self, width, heads, groups, inner):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.key, self.value = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        self.gate, self.up, self.down = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False), nn.Linear(inner, width, bias=False)

    def turned(self, x, count, angles):
        x = x.view(*x.shape[:2], count, self.size).transpose(1, 2)
        first, second = x.chunk(2, -1)
        return x * angles.cos() + torch.cat((-second, first), -1) * angles.sin()

    def forward(self, x, angles):
        y = self.norm1(x)
        q, k = self.turned(self.query(y), self.heads, angles), self.turned(self.key(y), self.groups, angles)
        v = self.value(y).view(*y.shape[:2], self.groups, self.size).transpose(1, 2)
        k, v = (one.repeat_interleave(self.heads // self.groups, 1) for one in (k, v))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """A Llama that returns its loss."""

    def __init__(self, width, layers, heads, groups, inner, words, length):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList(RotaryLayer(width, heads, groups, inner) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, words, bias=False)
        size = width // heads
        steps = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, size, 2) / size)
        self.register_buffer("angles", torch.cat((steps, steps), -1))

    def forward(self, x, y):
        x = self.words(x)
        for layer in self.layers:
            x = layer(x, self.angles)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), y.flatten())


class LoRA(nn.Module):
    """A linear layer that does not train, beside a product of two small matrices that do."""

    def __init__(self, layer, rank):
        super().__init__()
        self.layer = layer
        self.down, self.up = nn.Linear(layer.in_features, rank, bias=False), nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


def with_lora(model, rank=4):
    """Lets a Llama train by small matrices beside the projections of queries and values alone."""
    model.requires_grad_(False)
    for layer in model.layers:
        for name in ("query", "value"):
            setattr(layer, name, LoRA(getattr(layer, name), rank))
    return model


class ViTLayer(Layer):
    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(rows, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class ViT(nn.Module):
    """A vision Transformer that returns its loss."""

    def __init__(self, width, layers, heads, patch, side, classes):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, (side // patch) ** 2 + 1, width))
        self.layers = nn.ModuleList(ViTLayer(width, heads, 0.0) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x, y):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(len(x), -1, -1), x), 1) + self.places
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(self.norm(x)[:, 0]), y)


def convolutions(inside, width):
    return nn.Sequential(*(layer for channels in (inside, width) for layer in (
        nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True))))


class UNet(nn.Module):
    """A U-Net that returns its loss. A part of its way up reads what the way down has made."""

    def __init__(self, widths=(4, 8, 16), classes=4):
        super().__init__()
        self.down = nn.ModuleList(convolutions(*pair) for pair in zip((3, *widths), widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * width, width, 2, 2) for width in widths[-2::-1])
        self.join = nn.ModuleList(convolutions(2 * width, width) for width in widths[-2::-1])
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x, y):
        kept = []
        for layer in self.down:
            kept.append(layer(F.max_pool2d(kept[-1], 2) if kept else x))
        x = kept.pop()
        for up, join in zip(self.up, self.join):
            x = join(torch.cat((kept.pop(), up(x)), 1))
        return F.cross_entropy(self.head(x), y[:, None, None].expand(-1, *x.shape[2:]))


class LSTM(nn.Module):
    """A language model of LSTM layers that returns its loss."""

    def __init__(self, width=64, layers=2, words=128, dropout=0.1):
        super().__init__()
        self.words, self.head = nn.Embedding(words, width), nn.Linear(width, words)
        self.layers = nn.LSTM(width, width, layers, dropout=dropout, batch_first=True)

    def forward(self, x, y):
        return F.cross_entropy(self.head(self.layers(self.words(x))[0]).flatten(0, 1), y.flatten())


def tokens(rows, length=64, words=128):
    return torch.randint(words, (rows, length)), torch.randint(words, (rows, length))


def images(rows, side=64, classes=100):
    return torch.randn(rows, 3, side, side), torch.randint(classes, (rows,))


# Models of dry runs.
LARGE = {
    "gpt2-small": (lambda: GPT(768, 12, 12, 50304, 1024, 0.1), lambda rows: tokens(rows, 1024, 50304)),
    "gpt2-medium": (lambda: GPT(1024, 24, 16, 50304, 1024, 0.0), lambda rows: tokens(rows, 1024, 50304)),
    "llama-400m": (lambda: Llama(1024, 24, 16, 4, 2816, 32000, 1024), lambda rows: tokens(rows, 1024, 32000)),
    "vit-l": (lambda: ViT(1024, 24, 16, 16, 224, 1000), lambda rows: images(rows, 224, 1000)),
    "resnet-50": (lambda: ResNet(64, (3, 4, 6, 3), 1000), lambda rows: images(rows, 224, 1000)),
}
