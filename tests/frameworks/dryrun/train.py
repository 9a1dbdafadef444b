# SPDX-License-Identifier: Apache-2.0
"""A small training program with options, as users write them: it knows nothing of dry runs."""
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=1024)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--fail-at", type=int, default=-1)
parser.add_argument("--scaler", action="store_true")
options = parser.parse_args()

model = torch.nn.Sequential(torch.nn.Linear(options.width, 4 * options.width), torch.nn.GELU(),
                            torch.nn.Linear(4 * options.width, options.width)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda", enabled=options.scaler)
data = torch.utils.data.TensorDataset(torch.randn(options.steps * options.batch, options.width))
loader = torch.utils.data.DataLoader(data, options.batch, num_workers=options.workers, pin_memory=True)
for step, (inputs,) in enumerate(loader):
    if step == options.fail_at:
        raise ValueError("the data is wrong")
    with torch.autocast("cuda", torch.float16, enabled=options.scaler):
        loss = model(inputs.cuda(non_blocking=True)).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    print(step, loss.item(), "scale", scaler.get_scale())
