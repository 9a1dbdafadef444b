# SPDX-License-Identifier: Apache-2.0
"""ViT-L/16 of torchvision with ten classes, as in the GitHub repository rasbt/pytorch-memory-optim: vit.py KIND BATCH [sgd] [copied]

Prints the memory that PyTorch reserves, with random images. `copied`: with the results of attention in an order of their own, as those of the
first flash attention, so that the next layer copies them.
"""
import contextlib
import sys

import torch
import torchvision

kind, batch = sys.argv[1], int(sys.argv[2])
if "copied" in sys.argv:
    attention = torch.nn.functional.scaled_dot_product_attention
    torch.nn.functional.scaled_dot_product_attention = lambda *args: attention(*args).transpose(1, 2).contiguous().transpose(1, 2)
dtype = torch.bfloat16 if kind == "bf16" else torch.float32
model = torchvision.models.vit_l_16()
model.heads.head = torch.nn.Linear(1024, 10)
model.to("cuda", dtype)
optimizer = (torch.optim.SGD if "sgd" in sys.argv else torch.optim.Adam)(model.parameters(), lr=5e-5)
scaler = torch.amp.GradScaler("cuda", enabled=kind == "mixed")
for _ in range(3):
    images = torch.empty(batch, 3, 224, 224).to("cuda", dtype)
    labels = torch.zeros(batch, dtype=torch.long).to("cuda")
    with torch.autocast("cuda", torch.float16) if kind == "mixed" else contextlib.nullcontext():
        loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print(f"row reserved {torch.cuda.max_memory_reserved()}")
