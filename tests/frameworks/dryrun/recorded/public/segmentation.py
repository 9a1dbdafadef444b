# SPDX-License-Identifier: Apache-2.0
"""Training of the networks of mmsegmentation's configurations `unet` (UNet-S5-D16) and `fcn` (ResNetV1c-D8), each with FCN heads:

segmentation.py unet IMAGES CLASSES HEIGHT WIDTH | segmentation.py DEPTH IMAGES CLASSES HEIGHT WIDTH

with one rank of a job with DDP and SyncBN. Prints the peak of the memory in use.
"""
import os
import sys

import torch
from torch import nn


def convolution(inputs, outputs, kernel=3, stride=1, dilation=1, is_active=True):
    padding = dilation * (kernel // 2)
    layers = [nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, bias=False), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, *([nn.ReLU(inplace=True)] if is_active else []))


def resized(images, size):
    return nn.functional.interpolate(images, size=size, mode="bilinear", align_corners=False)


class Head(nn.Module):
    def __init__(self, inputs, channels, classes, count, is_joined):
        super().__init__()
        self.layers = nn.Sequential(*[convolution(inputs if number == 0 else channels, channels) for number in range(count)])
        self.join = convolution(inputs + channels, channels) if is_joined else None
        self.dropout = nn.Dropout2d(0.1)
        self.classify = nn.Conv2d(channels, classes, 1)

    def forward(self, images):
        found = self.layers(images)
        if self.join is not None:
            found = self.join(torch.cat([images, found], 1))
        return self.classify(self.dropout(found))


class Up(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.shrink = convolution(inputs, outputs, 1)
        self.layers = nn.Sequential(convolution(2 * outputs, outputs), convolution(outputs, outputs))

    def forward(self, skipped, images):
        images = self.shrink(nn.functional.interpolate(images, scale_factor=2, mode="bilinear", align_corners=False))
        return self.layers(torch.cat([skipped, images], 1))


class UNet(nn.Module):
    widths = (64, 128, 256, 512, 1024)
    heads = ((128, 64, 1, False), (64, 64, 1, False))

    def __init__(self):
        super().__init__()
        stages = [[convolution(3 if number == 0 else width // 2, width), convolution(width, width)] for number, width in enumerate(self.widths)]
        self.down = nn.ModuleList(nn.Sequential(*([nn.MaxPool2d(2)] if number else []), *stage) for number, stage in enumerate(stages))
        self.up = nn.ModuleList(Up(2 * width, width) for width in self.widths[-2::-1])

    def forward(self, images):
        skipped = []
        for stage in self.down:
            images = stage(images)
            skipped.append(images)
        found = [images]
        for stage, one in zip(self.up, skipped[-2::-1]):
            found.append(stage(one, found[-1]))
        return found[-2], found[-1]


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride, dilation):
        super().__init__()
        self.layers = nn.Sequential(convolution(inputs, width, 1), convolution(width, width, 3, stride, dilation),
                                    convolution(width, 4 * width, 1, is_active=False))
        self.down = convolution(inputs, 4 * width, 1, stride, is_active=False) if inputs != 4 * width or stride != 1 else None

    def forward(self, images):
        found = self.layers(images)
        found += images if self.down is None else self.down(images)
        return nn.functional.relu_(found)


class ResNet(nn.Module):
    heads = ((1024, 256, 1, False), (2048, 512, 2, True))

    def __init__(self, depth):
        super().__init__()
        self.stem = nn.Sequential(convolution(3, 32, stride=2), convolution(32, 32), convolution(32, 64), nn.MaxPool2d(3, 2, 1))
        inputs, stages = 64, []
        for number, (count, stride, dilation) in enumerate(zip({50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}[depth], (1, 2, 1, 1), (1, 1, 2, 4))):
            blocks = []
            for block in range(count):
                first = max(1, dilation // 2)  # the first block has the dilation of the stage before
                blocks.append(Bottleneck(inputs, 64 << number, stride if block == 0 else 1, first if block == 0 else dilation))
                inputs = 256 << number
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.ModuleList(stages)

    def forward(self, images):
        images = self.stem(images)
        found = []
        for stage in self.stages:
            images = stage(images)
            found.append(images)
        return found[-2], found[-1]


class Model(nn.Module):
    def __init__(self, network, classes):
        super().__init__()
        self.network = network
        self.auxiliary, self.decode = (Head(*arguments[:2], classes, *arguments[2:]) for arguments in network.heads)

    def forward(self, images, labels):
        found = zip((self.auxiliary, self.decode), (0.4, 1), self.network(images))
        losses = []
        for head, weight, features in found:
            scores = resized(head(features), labels.shape[1:])
            losses.append(weight * nn.functional.cross_entropy(scores, labels, reduction="none", ignore_index=255).mean())
            scores.detach().topk(1, dim=1)  # the accuracy
        return sum(losses)


name = sys.argv[1]
count, classes, height, width = map(int, sys.argv[2:])
torch.backends.cudnn.benchmark = True
torch.distributed.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = nn.SyncBatchNorm.convert_sync_batchnorm(Model(UNet() if name == "unet" else ResNet(int(name)), classes)).cuda()
model = nn.parallel.DistributedDataParallel(model, device_ids=[torch.cuda.current_device()], broadcast_buffers=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=0.0005)
for _ in range(3):
    images = torch.empty(count, 3, height, width).cuda()
    labels = torch.zeros(count, height, width, dtype=torch.long).cuda()
    loss = model(images, labels)
    optimizer.zero_grad(set_to_none=False)  # as PyTorch 1.5 did
    loss.backward()
    optimizer.step()
print(f"row peak {torch.cuda.max_memory_allocated()}")
