# SPDX-License-Identifier: Apache-2.0
"""pytorch#123533: a 3x3 convolution of 16 bits on images of growing width. Prints the memory that PyTorch reserves for each."""
import torch

layer = torch.nn.Conv2d(256, 256, 3, padding=1).half().to("cuda")
for width in range(1024, 2177, 128):
    images = torch.zeros((1, 256, 2048, width), dtype=torch.half, device="cuda")
    layer(images)
    print(f"row {width} {torch.cuda.memory_reserved()}")
    torch.cuda.empty_cache()
