# SPDX-License-Identifier: Apache-2.0
"""The memory that a program has beside the data of its graphs, as far as its steps have shown."""
import warnings
from typing import TYPE_CHECKING, Optional

import torch

from . import _capture, _optimizers, _options, _slab
from ._plans import Plan

if TYPE_CHECKING:
    from ._jobs import Job

__all__ = ["Outside", "Watch", "allocated", "reserved", "warn_of_loss", "warn_of_outside"]


def allocated(device: torch.device) -> int:
    """Returns the bytes of all tensors, without free bytes of a slab."""
    if device.type != "cuda":
        return 0
    slab = _slab.figures_of(device)
    return torch.cuda.memory_allocated(device) - slab.bytes + slab.live_bytes


def reserved(device: torch.device) -> int:
    """Returns the bytes that PyTorch's allocator reserves beside the slab."""
    return torch.cuda.memory_reserved(device) - _slab.figures_of(device).bytes


def _most_allocated(device: torch.device) -> int:
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0


class Outside:
    """The most memory that the program has held beside a graph's data, as far as its steps have shown."""

    def __init__(self) -> None:
        self.most = 0  # during the graph: weights, inputs, optimizer state, other graphs
        self.between = 0  # added between the forward and the backward pass, such as by a loss that is not compiled
        self.loss: Optional[int] = None  # of that, what PyTorch reserved beside the slab in the first step
        self.reserved = 0  # by PyTorch at the end of that; it may have given that back by the end of the step

    def estimate(self, captured: _capture.Captured, device: torch.device) -> int:
        """Returns the bytes to expect. The CPU has no count of its tensors, so there they are the graph's own inputs."""
        now = allocated(device) + _optimizers.state_to_come(device) if device.type == "cuda" else captured.outside_bytes
        return max(self.most, now + captured.tangent_bytes + captured.clone_bytes)

    def estimate_reserved(self, captured: _capture.Captured, device: torch.device, to_come: int) -> int:
        """Returns the bytes to expect that PyTorch's allocator reserves beside the slab.

        to_come: bytes that nothing has asked for yet.
        """
        torch.cuda.empty_cache()  # the blocks of measured operators
        to_come += max(captured.tangent_bytes, self.loss or 0) + captured.clone_bytes
        to_come += _slab.figures_of(device).live_bytes if captured.kept_outside else 0
        return max(self.most, reserved(device) + to_come)


def warn_of_loss(plan: Plan, taken: int, loss: int, expected: int, enough: int) -> None:
    size = _options.size_text
    warnings.warn(f"tidepool: a step took {size(taken)} ({taken} bytes) in a budget of {size(plan.budget)}: between its forward and its backward pass "
                  f"the program took {size(loss)}, such as for a loss that is not compiled, where {size(expected)} were expected. The next step is "
                  f"planned with it. To keep the budget from the first step on, compile the loss with the model, or set a budget of {size(enough)} "
                  f"({enough} bytes)", RuntimeWarning, stacklevel=2)


def warn_of_outside(plan: Plan, taken: int, outside: int) -> None:
    size = _options.size_text
    warnings.warn(f"tidepool: a step took {size(taken)} ({taken} bytes) in a budget of {size(plan.budget)}: {size(outside)} outside of the compiled "
                  f"graph, where {size(plan.outside_bytes)} were expected. The next step is planned with it", RuntimeWarning, stacklevel=2)


class Watch:
    """Watches one pair of passes, and tells `outside` of memory that the plan did not know."""

    def __init__(self, plan: Plan, device: torch.device, outside: Outside, job: "Job"):
        self.plan = plan
        self.device = device
        self.outside = outside
        self.job = job
        self.peak = self.peak_after_forward = self.live_after_forward = 0

    def begin(self) -> None:
        self.peak = _most_allocated(self.device)

    def begin_backward(self) -> None:
        self.begin()
        if self.job.is_overdrawn:
            return
        self.outside.most = max(self.outside.most, allocated(self.device) - self.plan.live_at_border)
        if self.peak > max(self.peak_after_forward, self.plan.budget):
            between = self.peak - self.live_after_forward
            if between <= self.outside.between:
                self._exceeded()
            elif not self.job.is_divided:
                warn_of_loss(self.plan, self.peak, between, self.outside.between, self.peak)
            self.outside.between = max(self.outside.between, between)

    def end(self) -> None:
        peak = self.peak
        self.peak = _most_allocated(self.device)
        if self.peak > max(peak, self.plan.budget) and not self.job.is_overdrawn:
            self._exceeded()

    def _exceeded(self) -> None:
        """Learns how far a pass went beyond the budget: PyTorch hands out blocks that are larger than asked for."""
        self.outside.most = max(self.outside.most, self.plan.outside_bytes + self.peak - self.plan.budget)

    def end_forward(self) -> None:
        self.end()
        self.peak_after_forward = self.peak
        self.live_after_forward = allocated(self.device)
