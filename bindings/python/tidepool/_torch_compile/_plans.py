# SPDX-License-Identifier: Apache-2.0
"""The plans of graphs, and the graphs that run without one."""
import collections
import dataclasses
from typing import List

__all__ = ["Plan", "fallbacks", "plans"]


@dataclasses.dataclass
class Plan:
    """The schedule of one graph of a program. Sizes are bytes, times are predicted."""

    device: str
    kernels: str  # "eager" or "inductor"
    budget: int
    outside_bytes: int  # the most that the schedule does not move: weights, inputs, optimizer state; each step updates it
    graph_bytes: int  # of the graph's data and workspaces at the peak; of the slab, if the plan has one
    slab_bytes: int  # of the piece of memory in which its tensors have planned addresses; 0 without one
    least_bytes: int  # of the task of the graph that needs the most
    live_at_border: int  # bytes of the graph's data between the forward and the backward pass
    seconds: float  # of the step
    ideal_seconds: float  # of the step with memory enough
    tasks: int
    runs_again: int  # operators that run a second time
    copies_out: int
    copies_in: int
    planning_seconds: float  # capture and search, measured
    writing_seconds: float  # of both graphs, measured

    @property
    def peak_bytes(self) -> int:
        """The bytes on the device at the peak of the step."""
        return self.outside_bytes + self.graph_bytes

    @property
    def smallest_budget(self) -> int:
        """The bytes of the smallest budget in which the step can run."""
        return self.outside_bytes + self.least_bytes

    @property
    def overhead(self) -> float:
        """The time of the step over that with memory enough."""
        return self.seconds / self.ideal_seconds if self.ideal_seconds else 1.0


plans: List[Plan] = []
fallbacks: "collections.Counter[str]" = collections.Counter()  # graphs that run without a schedule, by reason
