#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The requests of PyTorch to its allocator in single convolutions: outputs, gradients, and the workspaces of cuDNN. Prints JSON.

The same file runs on a GPU and in a dry run, so its two answers are the real and the assumed workspaces of each shape, which
predictions.py compares.
usage: torch_workspaces.py [--seconds N] [--out FILE]
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F

LAYERS = {  # name: input, filter, stride, padding, groups
    "alexnet.1": ((64, 3, 224, 224), (64, 3, 11, 11), 4, 2, 1), "alexnet.2": ((64, 64, 27, 27), (192, 64, 5, 5), 1, 2, 1),
    "alexnet.3": ((64, 192, 13, 13), (384, 192, 3, 3), 1, 1, 1), "vgg.2": ((32, 64, 224, 224), (64, 64, 3, 3), 1, 1, 1),
    "vgg.8": ((32, 256, 28, 28), (512, 256, 3, 3), 1, 1, 1), "resnet.1": ((64, 3, 224, 224), (64, 3, 7, 7), 2, 3, 1),
    "resnet.2a": ((64, 64, 56, 56), (64, 64, 1, 1), 1, 0, 1), "resnet.2b": ((64, 64, 56, 56), (64, 64, 3, 3), 1, 1, 1),
    "resnet.2c": ((64, 64, 56, 56), (256, 64, 1, 1), 1, 0, 1), "resnet.3b": ((64, 128, 56, 56), (128, 128, 3, 3), 2, 1, 1),
    "resnet.3s": ((64, 256, 56, 56), (512, 256, 1, 1), 2, 0, 1), "resnet.4b": ((64, 256, 14, 14), (256, 256, 3, 3), 1, 1, 1),
    "resnet.5b": ((64, 512, 7, 7), (512, 512, 3, 3), 1, 1, 1), "resnet.5c": ((64, 512, 7, 7), (2048, 512, 1, 1), 1, 0, 1),
    "convnext.0": ((64, 3, 224, 224), (96, 3, 4, 4), 4, 0, 1), "convnext.d": ((64, 96, 56, 56), (96, 1, 7, 7), 1, 3, 96),
    "unet.1": ((16, 64, 256, 256), (64, 64, 3, 3), 1, 1, 1), "unet.up": ((16, 128, 128, 128), (64, 128, 3, 3), 1, 1, 1),
    "resnext": ((64, 128, 56, 56), (128, 4, 3, 3), 1, 1, 32), "inception.7x1": ((64, 768, 17, 17), (192, 768, 1, 7), 1, (0, 3), 1),
    "conv3d": ((4, 64, 16, 56, 56), (64, 64, 3, 3, 3), 1, 1, 1), "conv1d": ((32, 80, 3000), (512, 80, 3), 1, 1, 1),
}
TYPES = {"float": torch.float32, "half": torch.float16, "bfloat16": torch.bfloat16}


def trace():
    return torch.cuda.memory._snapshot()["device_traces"][0]


def requests(work):
    """Returns the sizes of the requests of `work`, and those that it had given back by its end."""
    begin = len(trace())
    kept = work()
    torch.cuda.synchronize()
    live, asked, passing = {}, [], []
    for event in trace()[begin:]:
        if event["action"] == "alloc":
            live[event["addr"]] = event["size"]
            asked.append(event["size"])
        elif event["action"] == "free_requested" and event["addr"] in live:
            passing.append(live.pop(event["addr"]))
    del kept
    return {"asked": asked, "passing": passing}


def measure(name, kind, last):
    """Returns the requests of a layer in each direction, or the error of PyTorch."""
    x_size, w_size, stride, padding, groups = LAYERS[name]
    order = torch.channels_last if last else torch.contiguous_format
    x, w = (torch.randn(size, device="cuda", dtype=TYPES[kind]).to(memory_format=order).requires_grad_() for size in (x_size, w_size))
    convolution = (F.conv1d, F.conv2d, F.conv3d)[len(x_size) - 3]
    row = {"layer": name, "type": kind, "channels_last": last}
    try:
        row["forward"] = requests(lambda: convolution(x, w, None, stride, padding, 1, groups))
        y = convolution(x, w, None, stride, padding, 1, groups)
        gradient = torch.ones_like(y)
        row["data"] = requests(lambda: torch.autograd.grad(y, x, gradient, retain_graph=True))
        row["filter"] = requests(lambda: torch.autograd.grad(y, w, gradient))
    except RuntimeError as error:
        row["error"] = str(error)[:200]
    return row


def kinds_of_work():
    for kind in TYPES:
        for last in (False, True):
            for name, (x_size, *_) in LAYERS.items():
                if not (last and (len(x_size) != 4 or kind == "bfloat16")):
                    yield name, kind, last


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--out")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=1_000_000)  # stays on: a dry run needs it
    torch.zeros(1, device="cuda")
    rows = [measure(*work) for work in kinds_of_work() if time.monotonic() < end]
    text = json.dumps({"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "gpu": torch.cuda.get_device_name(),
                       "rows": rows})
    if options.out is None:
        print(text)
        return
    with open(options.out, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
