# SPDX-License-Identifier: Apache-2.0
"""A program that writes the task graph of its own step: live.py FOLDER_OF_PARTS FILE"""
import json
import sys

import torch
from torch import nn

sys.path.insert(0, sys.argv[1])
from tidepool_dryrun import live  # noqa: E402

model = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(1024, 1024), nn.ReLU(inplace=True))]).cuda()
optimizer = torch.optim.AdamW(model.parameters())


def step():
    x = torch.zeros(512, 1024).cuda()
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()


step()
step()
if len(sys.argv) > 2:
    print(json.dumps(live.write(step, sys.argv[2])), flush=True)
step()
