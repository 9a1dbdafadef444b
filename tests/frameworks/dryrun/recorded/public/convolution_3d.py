# SPDX-License-Identifier: Apache-2.0
"""Convolutions with tensors of more than 2^31 elements, of which PyTorch unfolds the input itself: convolution_3d.py ISSUE"""
import sys

import torch

CASES = {
    "136479": (lambda: torch.nn.Conv3d(128, 128, 3, padding=1).half(), (1, 128, 256, 256, 256)),
    "128947": (lambda: torch.nn.Conv3d(256, 64, 3), (1, 256, 5, 1090, 1922)),
    "132300": (lambda: torch.nn.Conv3d(3, 128, 3, padding=1).bfloat16(), (1, 3, 24, 740, 1316)),
    "132300-large": (lambda: torch.nn.Conv3d(3, 128, 3, padding=1).bfloat16(), (1, 3, 24, 864, 1536)),
}
make, shape = CASES[sys.argv[1]]
torch.backends.cudnn.deterministic = sys.argv[1] == "128947"
layer = make().cuda()
try:
    with torch.no_grad():
        layer(torch.zeros(shape, device="cuda", dtype=layer.weight.dtype))
    print(f"row peak {torch.cuda.max_memory_allocated()}")
except torch.OutOfMemoryError as error:
    size, unit = str(error).split("Tried to allocate ")[1].split()[:2]
    print(f"row refused {int(float(size) * 1024 ** ['bytes', 'KiB', 'MiB', 'GiB'].index(unit.rstrip('.')))}")
