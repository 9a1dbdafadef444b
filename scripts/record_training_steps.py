# SPDX-License-Identifier: Apache-2.0
"""Records the requests to PyTorch's allocator in some training steps, as native traces that ship as examples. The
snapshots of PyTorch stay beside them, compressed, to be compared with dry runs.

Needs torch and a GPU; no other package.
usage: python3 scripts/record_training_steps.py TIDEPOOL FOLDER [MODEL ...]
"""
import gzip
import os
import pickle
import subprocess
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = 3


def convolution(inputs, outputs, kernel, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
                         nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(convolution(inputs, width, 1), convolution(width, width, 3, stride),
                                  nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x), inplace=True)


def resnet50():
    layers, inputs = [convolution(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(inputs, width, stride if i == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def vgg16():
    layers, inputs = [], 3
    for outputs in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
        if outputs == 0:
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(inplace=True)]
            inputs = outputs
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(25088, 4096), nn.ReLU(inplace=True), nn.Dropout(),
                         nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4096, 1000))


class Gpt(nn.Module):
    def __init__(self, words=50257, width=768, heads=12, layers=12, length=1024):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(length, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, heads, 4 * width, activation="gelu", batch_first=True,
                                                               norm_first=True) for _ in range(layers))
        self.out = nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        length = tokens.shape[1]
        x = self.words(tokens) + self.places(torch.arange(length, device=tokens.device))
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=tokens.device)
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=True)
        return self.out(x)


def images(batch):
    return lambda step: (torch.randn(batch, 3, 224, 224, device="cuda"), torch.randint(1000, (batch,), device="cuda"))


def tokens(batch, lengths):
    def make(step):
        shape = (batch, lengths[step % len(lengths)])
        return torch.randint(50257, shape, device="cuda"), torch.randint(50257, shape, device="cuda")
    return make


MODELS = {  # name: (network, batches, optimiser)
    "resnet50-b64-sgd-gpu": (resnet50, images(64), "sgd"),
    "vgg16-b64-sgd-gpu": (vgg16, images(64), "sgd"),
    "gpt2-b8-t1024-adamw-gpu": (Gpt, tokens(8, [1024]), "adamw"),
    "gpt2-b8-varlen-adamw-gpu": (Gpt, tokens(8, [1024, 384, 768]), "adamw"),
}


def train(network, batches, optimiser):
    model = network().cuda().train()
    if optimiser == "sgd":
        update = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    else:
        update = torch.optim.AdamW(model.parameters(), 1e-4)
    for step in range(STEPS):
        inputs, targets = batches(step)
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(model(inputs).flatten(0, -2).float(), targets.flatten())
        update.zero_grad(set_to_none=True)
        loss.backward()
        update.step()
    torch.cuda.synchronize()


def record(tool, folder, name):
    torch.manual_seed(0)
    torch.cuda.empty_cache()
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=2_000_000)
    train(*MODELS[name])
    snapshot = os.path.join(folder, name + ".pickle.gz")
    with gzip.open(snapshot, "wb", 6) as file:
        pickle.dump(torch.cuda.memory._snapshot(), file)
    torch.cuda.memory._record_memory_history(None)
    subprocess.run([tool, "convert", snapshot, os.path.join(folder, name + ".tide")], check=True)


def main():
    if len(sys.argv) < 3 or set(sys.argv[3:]) - MODELS.keys():
        sys.exit(f"{__doc__}models: {' '.join(MODELS)}")
    for name in sys.argv[3:] or MODELS:
        record(sys.argv[1], sys.argv[2], name)


if __name__ == "__main__":
    main()
