# SPDX-License-Identifier: Apache-2.0
"""A training step of a model, as a program trains it or as its graph without a GPU.

model_step.py NETWORK train
model_step.py NETWORK graph|exported FOLDER_OF_PARTS FILE
"""
import json
import sys

import torch
from torch import nn
from torch.nn import functional


class Residual(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(inputs, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                                    nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))
        same = stride == 1 and inputs == width
        self.shortcut = nn.Identity() if same else nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        return functional.relu(self.layers(x) + self.shortcut(x), inplace=True)


def resnet18():
    widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
    return network_of([Residual(*one) for one in widths], 512)


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                                    nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                                    nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
        same = stride == 1 and inputs == 4 * width
        self.shortcut = nn.Identity() if same else nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        return functional.relu(self.layers(x) + self.shortcut(x), inplace=True)


def resnet50():
    blocks, inputs = [], 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(count):
            blocks.append(Bottleneck(inputs, width, 1 if number else stride))
            inputs = 4 * width
    return network_of(blocks, 2048)


def network_of(blocks, width):
    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1), *blocks,
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000))


class Lstm(nn.Module):
    def __init__(self, width=1500, vocabulary=10000):
        super().__init__()
        self.tokens, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.layers = nn.LSTM(width, width, 2)

    def forward(self, x):
        return self.head(self.layers(self.tokens(x))[0]).flatten(0, 1)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.parts, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        samples, length, width = x.shape
        parts = self.parts(self.norms[0](x)).view(samples, length, 3, width // 64, 64)
        found = functional.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4), is_causal=True)
        x = x + self.output(found.transpose(1, 2).reshape(samples, length, width))
        return x + self.layers(self.norms[1](x))


class Gpt(nn.Module):
    def __init__(self, width=256, layers=4, vocabulary=4096):
        super().__init__()
        self.tokens, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary, bias=False)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))

    def forward(self, x):
        x = self.tokens(x)
        for block in self.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) if block is self.blocks[0] and CHECKPOINTS else block(x)
        return self.head(x).flatten(0, 1)


def mlp():
    return nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(1024, 1024), nn.ReLU())])


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def square(result):
    return result.square().mean()


# Model, inputs, loss, its targets and the optimizer.
STEPS = {"mlp": (mlp, (torch.zeros(2048, 1024),), square, (), torch.optim.AdamW),
         "resnet": (resnet18, (torch.zeros(64, 3, 224, 224),), functional.cross_entropy, (torch.zeros(64, dtype=torch.long),), sgd),
         "resnet50": (resnet50, (torch.zeros(32, 3, 224, 224),), functional.cross_entropy, (torch.zeros(32, dtype=torch.long),), sgd),
         "lstm": (Lstm, (torch.zeros(35, 64, dtype=torch.long),), functional.cross_entropy, (torch.zeros(2240, dtype=torch.long),), sgd),
         "gpt": (Gpt, (torch.zeros(8, 256, dtype=torch.long),), functional.cross_entropy, (torch.zeros(2048, dtype=torch.long),),
                 torch.optim.AdamW)}
STEPS["bfloat16"] = STEPS["checkpoint"] = STEPS["gpt"]
NETWORK = sys.argv[1]
CHECKPOINTS = NETWORK == "checkpoint"
make, inputs, loss, targets, make_optimizer = STEPS[NETWORK]
model = make()
if NETWORK == "bfloat16":
    model = model.bfloat16()
if sys.argv[2] == "train":
    model = model.cuda()
    inputs, targets = [tuple(one.cuda() for one in tensors) for tensors in (inputs, targets)]
    optimizer = make_optimizer(model.parameters())
    for _ in range(9):
        optimizer.zero_grad()
        loss(model(*inputs), *targets).backward()
        optimizer.step()
else:
    sys.path.insert(0, sys.argv[3])
    from tidepool_dryrun import model as models  # noqa: E402
    if sys.argv[2] == "exported":
        model = torch.export.export(model, inputs)
    print(json.dumps(models.write(model, sys.argv[4], inputs, loss, targets, make_optimizer, "h100")))
