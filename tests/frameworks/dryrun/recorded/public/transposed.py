# SPDX-License-Identifier: Apache-2.0
"""pytorch#26112: the memory of a transposed convolution of stride 2, on a V100 with cuDNN 7.5."""
import torch

layer = torch.nn.ConvTranspose2d(2048, 512, 4, stride=2, padding=1).cuda()
layer(torch.zeros(32, 2048, 8, 8, device="cuda"))
print(f"row peak {torch.cuda.max_memory_allocated()}")
