# SPDX-License-Identifier: Apache-2.0
"""Devices on which several processes of a program take memory at a time. Each process of a dry run has the whole memory, so their peaks are
added up: at most so much is taken, where the peaks meet."""
from . import outside


def number_of(device, visible):
    """Returns the number of a process's device among those of the machine. `visible` is CUDA_VISIBLE_DEVICES at its first use, or None."""
    words = visible.split(",") if visible else []
    return int(words[device]) if device < len(words) and words[device].strip().isdecimal() else device


def find(ranks, memory_bytes):
    """Returns the devices that several processes use at a time, as answers have them."""
    by_number = {}
    for rank in ranks:
        by_number.setdefault(rank["number"], []).append(rank)
    together = {number: largest_together(users) for number, users in sorted(by_number.items())}
    return [shared(number, users, memory_bytes) for number, users in together.items() if len(users) > 1]


def largest_together(users):
    """Returns the processes that live at a time and reserve the most."""
    moments = [one["lives"][0] for one in users]
    groups = [[one for one in users if one["lives"][0] <= moment < one["lives"][1]] for moment in moments]
    return max(groups, key=lambda group: sum(map(reserved, group)), default=[])


def reserved(rank):
    return rank["reserved_range"][1] + rank["other_bytes"]


def shared(number, users, memory_bytes):
    live, beside = sum(one["peak_live_bytes"] + one["other_bytes"] for one in users), [outside.counted_bytes(one["outside"]) for one in users]
    least, most = (sum(one[end] for one in beside) for end in (0, 1))
    return {"device": number, "processes": len(users), "peak_live_bytes": live, "peak_reserved_bytes": sum(map(reserved, users)),
            "outside_bytes": [least, most], "fits": live + least <= memory_bytes}
