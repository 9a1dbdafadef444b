# SPDX-License-Identifier: Apache-2.0
"""The notes of the stand-in for the CUDA runtime on each process, and the answer for programs without PyTorch from them."""
import collections
import dataclasses
import os
import pathlib
import struct

from . import no_answer, outside, sharing
from .errors import DryRunError

ENTRY = struct.Struct("=qq")  # the most bytes that were held, and the last request that was refused for good
OWN_RUNTIME = ("the program, or a library that it uses such as cuBLAS, holds NVIDIA's runtime itself (linked statically). A dry run "
               "can only replace libcudart.so: link with -cudart shared, or install a CuPy that uses it, as conda-forge's does")

UNRECORDED = ("the program used PyTorch in a Python that leaves out the dry run's part, so its memory was not recorded: start Python without -I and "
              "-E, and let the program keep PYTHONPATH")


def held(path):
    """Returns the memory that a process held: of pinned memory of the host and of each device: pairs as in ENTRY."""
    contents = path.read_bytes() if path.exists() else b""
    host, *devices = [*ENTRY.iter_unpack(contents[:len(contents) // ENTRY.size * ENTRY.size])] or [(0, 0)]
    return host, devices


def files(folder):
    return sorted(pathlib.Path(folder).glob("memory-*"))


@dataclasses.dataclass
class Beside:
    """A note of a process that began to take memory: when, which others lived, and CUDA_VISIBLE_DEVICES or None."""
    began: float = 0.0
    living: frozenset = frozenset()
    visible: str = None


def process_of(path):
    return path.name.partition("-")[2]


def besides(folder):
    """Returns the notes of the processes by their numbers."""
    found = collections.defaultdict(Beside)
    for path in pathlib.Path(folder).glob("beside-*"):
        first, _, visible = path.read_text(errors="replace").partition("\n")
        if first:
            began, *living = first.split()
            found[process_of(path)] = Beside(int(began) / 1e9, frozenset(living), visible.rstrip("\n") or None)
    return found


def life_of(process, notes):
    """Returns from when to when a process lived, as far as others noted it: it had ended before the first later one that did not meet it. Of two
    that began at a time, one may not have met the other."""
    began, met = notes[process].began, notes[process].living
    later = [other.began for number, other in notes.items() if other.began > began and process not in other.living and number not in met]
    return began, min(later, default=float("inf"))


def records(folder):
    """Returns the memory of each process and device that took any. Of the host only pinned memory is known."""
    found, notes = [], besides(folder)
    for rank, path in enumerate(files(folder)):
        (pinned, _), devices = held(path)
        for device, (peak, refused) in enumerate(devices):
            if peak or refused:
                process = process_of(path)
                found.append({"rank": rank, "device": device, "peak": peak, "refused": refused, "host_bytes": (pinned, pinned),
                              "number": sharing.number_of(device, notes[process].visible), "lives": life_of(process, notes),
                              "communicators": path.with_name(path.name.replace("memory", "communicators"))})
    return found


def rank_answer(record, memory_bytes):
    """Returns the entry of a rank. CUDA keeps no freed memory, so live and reserved memory are the same."""
    peak = record["peak"]
    refused = {"bytes": record["refused"], "frame": None} if record["refused"] else None
    return {"rank": record["rank"], "device": record["device"], "process": record["rank"], "number": record["device"], "stopped_at": None, "steps": 0, "peak_live_bytes": peak,
            "peak_reserved_bytes": peak, "max_memory_allocated": None, "reserved_range": [peak, peak], "expandable_bytes": None, "planned_bytes": None,
            "other_bytes": 0, "stranded_bytes": 0, "stranded_by": [], "lost_events": 0, "retries": 0, "allocations": None, "top": [], "modules": None, "convolutions": None, "categories": {},
            "out_of_memory": refused, "caught_out_of_memory": [], "memory_bytes": memory_bytes, "fits": refused is None,
            "snapshot": None}


def with_outside(rank, record, around):
    """Returns the entry of a rank with the memory that the runtime does not count. The rest has to hold the peak."""
    beside = outside.answer(record["communicators"], rank["device"], around, record["host_bytes"])
    fits = rank["fits"] and rank["peak_live_bytes"] + outside.counted_bytes(beside)[0] <= rank["memory_bytes"]
    return {**rank, "number": record["number"], "lives": record["lives"], "outside": beside, "fits": fits}


def collect(folder, finished, around, memory_bytes):
    """Returns the ranks of a run on the machine `around` it and their part of the answer, or None where a process used PyTorch or none took
    memory of a device. Raises DryRunError where the program failed, and where a process used PyTorch without the part that records it."""
    if any(pathlib.Path(folder).glob("torch-*")):
        return None
    if any(pathlib.Path(folder).glob("pytorch-*")):
        raise DryRunError(UNRECORDED)
    ranks = [with_outside(rank_answer(record, memory_bytes), record, around) for record in records(folder)]
    refused = [rank["out_of_memory"] for rank in ranks if rank["out_of_memory"]]
    if not refused and (finished.failed or not ranks) and os.path.exists(os.path.join(folder, "own-runtime")):
        raise DryRunError(OWN_RUNTIME)
    if not ranks:
        return None
    if finished.failed and not refused:
        raise DryRunError(f"the program {no_answer.ended(finished.status)}")
    peak = max(rank["peak_live_bytes"] for rank in ranks)
    pinned = sum(held(path)[0][0] for path in files(folder))
    return ranks, {"peak_live_bytes": peak, "peak_reserved_bytes": peak, "reserved_range": [peak, peak],
                   "outside": max(ranks, key=lambda rank: rank["peak_live_bytes"])["outside"],
                   "pinned": {"peak_bytes": pinned, "rounded_bytes": pinned}, "seconds": finished.seconds}
