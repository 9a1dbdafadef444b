# SPDX-License-Identifier: Apache-2.0
"""PyTorch's recording of memory. It belongs to the dry run, from the first request to the last, so that the program's own use of it
changes no answer: the program sees the part that it would have recorded itself. Statistics that a program can reset are kept too.
"""
import functools
import itertools
import os
import pickle
import threading

import _tidepool_workspaces as workspaces

MOST_EVENTS = 4_000_000  # the last ones: each takes 700 bytes of the host in a snapshot, so 2.8 GB
LOST = "lost_events"  # of a snapshot: the requests and frees of each device before those that it holds, where these are not all
SET_SETTINGS = ("_cuda_cudaCachingAllocator_set_allocator_settings", "_accelerator_setAllocatorSettings")
BEGIN_POOL = ("_cuda_beginAllocateToPool", "_cuda_beginAllocateCurrentThreadToPool", "_cuda_beginAllocateCurrentStreamToPool")
RESET_TOTALS = ("_cuda_resetAccumulatedMemoryStats", "_accelerator_resetAccumulatedStats")
RESET_PEAKS = ("_cuda_resetPeakMemoryStats", "_accelerator_resetPeakStats")
STEPS = "_tidepool_steps.py"  # calls each operator of a step
AROUND_STEPS = ("/torch/_dynamo/eval_frame.py", "/torch/_compile.py")  # where PyTorch calls it, in programs with compiled code
# Positions of the arguments for the number of events, and for the removal of earlier ones.
RECORD = {"_cuda_record_memory_history": (3, 4), "_cuda_record_memory_history_legacy": (2, 5)}


class Recording:
    def __init__(self, torch):
        self.torch = torch
        self.take_snapshot = torch.cuda.memory._snapshot
        self.inside = threading.local()  # `is_own`: the call is one of the dry run
        self.has_begun = False
        self.begins = None  # of the program's recording: the first event of each device; None: the program records nothing
        self.most_events = MOST_EVENTS
        self.retries = {}  # of each device, before the program reset them
        self.positions = {}
        self.peaks = {}  # of the allocated bytes of each device, before the program reset them
        self.has_private_pools = False
        self.has_changed_settings = False
        self._wrap(RECORD, self._record)
        self._wrap(("_cuda_memorySnapshot",), self._snapshot)
        self._wrap(SET_SETTINGS, self._set_settings)
        self._wrap(BEGIN_POOL, self._begin_pool)
        self._wrap(RESET_TOTALS, self._reset_totals)
        self._wrap(RESET_PEAKS, self._reset_peaks)

    def _wrap(self, names, replacement):
        """Replaces functions of PyTorch: `replacement` gets the name, PyTorch's own function and the arguments."""
        for name in names:
            own = getattr(self.torch._C, name, None)
            for module in (self.torch._C, self.torch.cuda.memory):  # which imports some of them
                if getattr(module, name, None) is own is not None:
                    setattr(module, name, self._unless_inside(name, own, replacement))

    def _unless_inside(self, name, own, replacement):
        @functools.wraps(own)
        def call(*arguments):
            if getattr(self.inside, "is_own", False):
                return own(*arguments)
            return replacement(name, own, arguments)
        return call

    def _own(self, function, *arguments, **named):
        self.inside.is_own = True
        try:
            return function(*arguments, **named)
        finally:
            self.inside.is_own = False

    def begin(self):
        self.has_begun = True
        # Not "all", with stacks of frees too: where an exception leaves an operator, the frees of its tensors make PyTorch lose the
        # exception, such as the one by which a checkpoint ends its forward pass.
        self._own(self.torch.cuda.memory._record_memory_history, context="alloc", max_entries=MOST_EVENTS, stacks="python")

    def whole(self):
        """Returns PyTorch's snapshot with all events."""
        return self._own(self.take_snapshot)

    def _record(self, name, own, arguments):
        most, clear = RECORD[name]
        if not arguments[0]:
            self.begins = None
            return
        if self.begins is None or arguments[clear:clear + 1] == (True,):
            self.begins = [len(events) for events in self.whole()["device_traces"]] if self.torch.cuda.is_initialized() else []
        self.most_events = max(1, arguments[most])

    def _snapshot(self, name, own, arguments):
        snapshot = own(*arguments)
        if "device_traces" in snapshot:
            snapshot["device_traces"] = [self._of_program(*pair) for pair in enumerate(snapshot["device_traces"])]
        return snapshot

    def _of_program(self, device, events):
        if self.begins is None:
            return []
        begin = self.begins[device] if device < len(self.begins) else 0
        return events[max(begin, len(events) - self.most_events):]

    # Later settings hold for the last requests alone.
    def _set_settings(self, name, own, arguments):
        self.has_changed_settings |= self.torch.cuda.is_initialized()
        return own(*arguments)

    def _begin_pool(self, name, own, arguments):
        self.has_private_pools = True
        return own(*arguments)

    def _reset_totals(self, name, own, arguments):
        device = arguments[0]
        self.retries[device] = self.retries_of(device)
        self.positions[device] = self.position(device)
        return own(*arguments)

    def _reset_peaks(self, name, own, arguments):
        device = arguments[0]
        self.peaks[device] = self.most_allocated(device)
        return own(*arguments)

    def most_allocated(self, device):
        """Returns `torch.cuda.max_memory_allocated()` of the whole run so far."""
        return max(self.peaks.get(device, 0), self.peak_bytes(device))

    def position(self, device):
        """Returns how many requests the device has served so far, and how many of these have ended."""
        statistics = self._statistics(device)
        return (self.positions.get(device, 0) + statistics["allocation"]["all"]["allocated"] +
                statistics["active"]["all"]["freed"])

    def requested_bytes(self, device):
        """Returns the bytes that are live now, as they were asked for."""
        return self._statistics(device)["requested_bytes"]["all"]["current"]

    def peak_bytes(self, device):
        """Returns the most bytes that were live since the program reset this figure."""
        return self._statistics(device)["allocated_bytes"]["all"]["peak"]

    def _statistics(self, device):
        return self.torch._C._cuda_memoryStats(device)

    def retries_of(self, device):
        return self.retries.get(device, 0) + self.torch.cuda.memory_stats(device).get("num_alloc_retries", 0)

    def write(self, path, refused):
        """Writes the snapshot to a file, and returns the memory of each device. `refused` is the request that ended the program, or
        None: other refused requests have not been served, so they are no part of the memory."""
        snapshot = self.whole()
        lost = {device: self.lost(device, events) for device, events in enumerate(snapshot["device_traces"]) if len(events) >= MOST_EVENTS}
        if lost:
            snapshot[LOST] = lost
        snapshot["device_traces"] = [without_refusals(events, refused if refused and refused["device"] == device else None)
                                     for device, events in enumerate(snapshot["device_traces"])]
        snapshot["device_traces"] = [with_reservations(events, [one for one in snapshot["segments"] if one["device"] == device])
                                     for device, events in enumerate(snapshot["device_traces"])]
        for record in (*snapshot["segments"], *(event for events in snapshot["device_traces"] for event in events)):
            for holder in (record, *record.get("blocks", ())):
                if "frames" in holder:
                    holder["frames"] = of_program(holder["frames"])
        workspaces.name_all(snapshot)
        with open(path, "wb") as file:
            pickle.dump(snapshot, file)
        return [self._device(device, events, snapshot) for device, events in enumerate(snapshot["device_traces"])]

    def lost(self, device, events):
        return self.position(device) - sum(event["action"] in ("alloc", "free_completed") for event in events)

    def _device(self, device, events, snapshot):
        statistics = self.torch.cuda.memory_stats(device)
        segments = [segment for segment in snapshot["segments"] if segment["device"] == device]
        is_expandable = any(event["action"] == "segment_map" for event in events)
        has_pools = self.has_private_pools or any(tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0) for segment in segments)
        return {"device": device,
                # The statistics have the peak since their last reset.
                "peak_reserved_bytes": max(peak_reserved(events), statistics.get("reserved_bytes.all.peak", 0)),
                "allocations": max(sum(event["action"] == "alloc" for event in events),
                                   statistics.get("allocation.all.allocated", 0)),
                "lost_events": snapshot.get(LOST, {}).get(device, 0),
                "retries": self.retries_of(device),
                "max_memory_allocated": self.most_allocated(device),
                "limit_bytes": self._limit(device),
                "is_expandable": is_expandable,
                # The model of the allocator has the same settings for all requests, and no private pools.
                "is_modelled": not (has_pools or self.has_changed_settings)}

    def _limit(self, device):
        """Returns the bytes that the program allows itself, or None for the whole device."""
        try:
            share = self.torch._C._cuda_getMemoryFraction(device)
        except (AttributeError, RuntimeError):  # an allocator without it
            return None
        return int(share * self.torch.cuda.get_device_properties(device).total_memory) if share < 1 else None


def without_refusals(events, refused):
    """Returns the events without refused requests, but with the last one if it is `refused`."""
    last = next((event for event in reversed(events) if event["action"] == "oom"), None) if refused else None
    return [event for event in events if event["action"] != "oom" or event is last]


def with_reservations(events, segments):
    """Returns the events of a device, after requests for its segments where the allocator notes none, as that of tidepool: memory without them
    would seem to be older than the record, and the peak would not be known."""
    if not events or any(event["action"].startswith("segment") for event in events):
        return events
    begin = events[0].get("time_us", 0)
    return [{"action": "segment_alloc", "addr": segment["address"], "size": segment["total_size"], "stream": segment["stream"], "time_us": begin,
             "frames": []} for segment in segments] + events


def of_program(frames):
    """Returns a stack, the innermost frame first, without those of the dry run where it calls an operator in the place of the program."""
    own = next((at for at, frame in enumerate(frames) if os.path.basename(frame["filename"]) == STEPS), None)
    if own is None:
        return frames
    return list(itertools.dropwhile(lambda frame: frame["filename"].endswith(AROUND_STEPS), frames[own + 1:]))


def peak_reserved(events):
    reserved = peak = 0
    for event in events:
        if event["action"] in ("segment_alloc", "segment_map"):
            reserved += event["size"]
            peak = max(peak, reserved)
        elif event["action"] in ("segment_free", "segment_unmap"):
            reserved -= event["size"]
    return peak
