# SPDX-License-Identifier: Apache-2.0
"""pytorch#161139: the memory that PyTorch reserves for a request of 514 MiB, with its setting roundup_power2_divisions."""
import torch

tensor = torch.empty(514 << 20, dtype=torch.int8, device="cuda")
print(f"row reserved {torch.cuda.memory_reserved()}")
