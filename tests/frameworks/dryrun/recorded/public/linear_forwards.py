# SPDX-License-Identifier: Apache-2.0
"""Three forward passes of one layer, as in model_memory_usage of the GitHub repository shreyansh26/MLSys-Experiments."""
import torch

layer = torch.nn.Linear(10_000, 50_000, device="cuda")
for _ in range(3):
    inputs = torch.randn(5_000, 10_000, device="cuda")
    outputs = layer(inputs)
print(f"row live {torch.cuda.memory_allocated()}")
print(f"row reserved {torch.cuda.memory_reserved()}")
