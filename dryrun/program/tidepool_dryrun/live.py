# SPDX-License-Identifier: Apache-2.0
"""The task graph of a step of a program that runs on a GPU, with the times of its events. The operators are noted as in dry runs."""
import functools
import importlib.util
import itertools
import os
import pathlib
import sys
import types

from . import events, gpus, graph
from .errors import DryRunError

SITE = pathlib.Path(__file__).resolve().parent.parent / "site"
MOST_EVENTS = 20_000_000
EMPTY_EVENTS = 9  # of which two neighbours tell how long an event takes


class Requests:
    """The requests for memory of one device from now on, as PyTorch records them. Older memory comes first, as if it were asked for then."""

    def __init__(self, torch, device):
        self.torch, self.device = torch, device
        torch.cuda.memory._record_memory_history(max_entries=MOST_EVENTS, context=None)
        segments = [segment for segment in torch.cuda.memory._snapshot()["segments"] if segment["device"] == device]
        self.older = [{"action": "alloc", "addr": block["address"], "size": block["requested_size"]}
                      for segment in segments for block in segment["blocks"] if block["state"].startswith("active")]
        self.first = self.count()

    def end(self):
        """Returns all requests and frees, and ends the record."""
        made = self.count() - self.first
        recorded = self.torch.cuda.memory._snapshot()["device_traces"][self.device]
        self.torch.cuda.memory._record_memory_history(enabled=None)
        found = events.requests_of(recorded)
        if len(found) < made:
            raise DryRunError(f"PyTorch recorded {len(found)} of {made} requests and frees of the step, expected all: its record was ended "
                              "or cleared in the step")
        return self.older + found[len(found) - made:]

    def count(self):
        statistics = self.statistics()
        return statistics["allocation"]["all"]["allocated"] + statistics["active"]["all"]["freed"]

    def position(self, device):
        return len(self.older) + self.count() - self.first

    def requested_bytes(self, device):
        return self.statistics()["requested_bytes"]["all"]["current"]

    def statistics(self):
        return self.torch._C._cuda_memoryStats(self.device)


class Clock:
    """Events of the GPU. A time is the number of an event until all have passed. The time between two events without work is that of the
    events themselves, and left out."""

    def __init__(self, torch):
        self.torch, self.events = torch, []
        self.empty = [self(None) for _ in range(EMPTY_EVENTS)]

    def __call__(self, device):
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        self.events.append(event)
        return len(self.events) - 1

    def nanoseconds(self, begin, end):
        return max(0, self.whole_nanoseconds(begin, end) - self.own_nanoseconds())

    def whole_nanoseconds(self, begin, end):
        return round(1e6 * self.events[begin].elapsed_time(self.events[end]))

    @functools.lru_cache(maxsize=None)
    def own_nanoseconds(self):
        return min(itertools.starmap(self.whole_nanoseconds, zip(self.empty, self.empty[1:])))


def timed(step, requests, clock):
    """Returns the step with times in place of numbers of events: those of the operators, one after the other. The GPU may be idle between
    two of them, so the time there counts only where other code asked for memory."""
    now, operators = 0, []
    position, number = step["begin"], step["clock"][0]
    for operator in step["operators"]:
        begin, end = operator[4:6]
        if any(one["action"] == "alloc" for one in requests[position:begin[0]]):
            now += clock.nanoseconds(number, begin[1])
        later = now + clock.nanoseconds(begin[1], end[1])
        operators.append((*operator[:4], (begin[0], now), (end[0], later), *operator[6:]))
        now, (position, number) = later, end
    return {**step, "operators": operators, "clock": (0, now)}


def notes_module():
    """Returns the module that notes operators, which lies outside of this package because programs of dry runs import it."""
    name = "_tidepool_steps"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, SITE / f"{name}.py")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def record(torch, run_step):
    """Runs a step and returns its notes and the record of memory."""
    from torch.optim.optimizer import register_optimizer_step_post_hook
    steps, device = notes_module(), torch.cuda.current_device()
    torch.cuda.synchronize()
    requests, clock = Requests(torch, device), Clock(torch)
    noted = steps.Steps(torch, requests, None, clock)
    hooks = [noted.hook, register_optimizer_step_post_hook(lambda *_: noted.updates_end())]
    try:
        noted.mode = steps.mode_of(noted)
        with noted.mode:
            run_step()
        found = noted.notes(noted.mode)
    finally:
        for hook in hooks:
            hook.remove()
        torch.cuda.synchronize()
        recorded = requests.end()
    return timed({**found, "number": 1, "differs_from_before": None}, recorded, clock), events.Record(recorded)


def write(run_step, path):
    """Runs a training step on the current GPU, writes its task graph into a file, and returns its part of the JSON of a dry run."""
    import torch
    made = graph.Graph(*record(torch, run_step))
    major, minor = torch.cuda.get_device_capability()
    title = torch.cuda.get_device_name()
    gpu = types.SimpleNamespace(title=title, link_bytes_per_second=gpus.link_of(title, 10 * major + minor))
    return graph.write(made, os.path.basename(sys.argv[0]) or "step", gpu, made.peak, os.fspath(path))
