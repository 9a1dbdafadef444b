# SPDX-License-Identifier: Apache-2.0
"""Lets the backward pass of a stage of a pipeline end before the next step of its schedule.

PyTorch's thread for it lets go of the last gradient a moment after the program has it, so that the peak of a schedule of zero bubbles, which
adds such gradients up itself, would have one more or not by chance.
"""
import functools

import _tidepool_imports as imports

PARTS = ("stage_backward_input", "stage_backward_weight")


class Pipelines:
    def __init__(self, torch):
        self.torch = torch
        self.leaves = {}  # of each device, without memory
        imports.watch("torch.distributed.pipelining._backward", self.watch)

    def watch(self, module):
        for name in PARTS:
            setattr(module, name, self.settled(getattr(module, name)))

    def settled(self, own):
        @functools.wraps(own)
        def call(*arguments, **named):
            result = own(*arguments, **named)
            self.settle()
            return result
        return call

    def settle(self):
        """Waits until the thread of the backward pass takes its next work."""
        torch = self.torch
        device = torch.cuda.current_device()
        if device not in self.leaves:
            self.leaves[device] = torch.empty(0, device="cuda", requires_grad=True), torch.empty(0, device="cuda")
        leaf, gradient = self.leaves[device]
        torch.autograd.grad(leaf, leaf, gradient)
