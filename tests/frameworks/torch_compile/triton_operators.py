# SPDX-License-Identifier: Apache-2.0
"""A network with an operator of its own in Triton, which returns its loss."""
import torch
import torch.nn.functional as F
import triton
from torch import nn
from triton import language


@triton.jit
def _scale_kernel(x, result, by, count, block: language.constexpr):
    place = language.program_id(0) * block + language.arange(0, block)
    language.store(result + place, language.load(x + place, mask=place < count) * by, mask=place < count)


@torch.library.triton_op("tidepool_triton::scale", mutates_args={})
def scale(x: torch.Tensor, by: float) -> torch.Tensor:
    x = x.contiguous()
    result = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), 1024),)
    torch.library.wrap_triton(_scale_kernel)[grid](x, result, by, x.numel(), block=1024)
    return result


scale.register_autograd(lambda context, gradient: (scale(gradient, context.by), None),
                        setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]))


class Network(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = F.gelu(scale(torch.relu(layer(x)), 1.5))
        return x.square().mean()
