# SPDX-License-Identifier: Apache-2.0
"""The batch of a program: the word of its command that names it, and how large it may be."""
import math
import re

from . import answer as answers
from . import what_if
from .graph import NAMED_DIFFERENCE

BATCH = re.compile(r"(?P<name>-{0,2}(?!.*(?:eval|val|test))(?:[\w.-]*[-_.])?(?:batch|batch[-_]?size|bs))(?:=(?P<value>\d+))?", re.IGNORECASE)
MOST_GROWTH = 16  # times the batch: what is small may not grow in proportion
FIXED = ("weights", "optimizer state")  # categories of memory that no batch changes


def of(command):
    """Returns the words before the batch of a command and the batch, or None where no word or more than one names it."""
    found = []
    for word, following in zip(command, [*command[1:], ""]):
        match = BATCH.fullmatch(word)
        if match and match["value"]:
            found.append((word, int(match["value"])))
        elif match and word.startswith("-") and following.isdecimal():
            found.append((word, int(following)))
    return found[0] if len(found) == 1 else None


def with_value(command, value):
    """Returns the command with another batch."""
    words, is_next = [], False
    for word, following in zip(command, [*command[1:], ""]):
        match = BATCH.fullmatch(word)
        if is_next:
            words.append(str(value))
        elif match and match["value"]:
            words.append(f"{match['name']}={value}")
        else:
            words.append(word)
        is_next = bool(match and not match["value"] and word.startswith("-") and following.isdecimal())
    return words


def following(runs, batch, memory, best):
    """Returns the next batch to try, or None. `runs` has the reserved bytes of each batch: memory is taken to grow by equal steps."""
    values = sorted(runs)
    least, most = values[0], values[-1]
    slope = (runs[most] - runs[least]) / (most - least)
    guess = most if slope <= 0 else math.floor((memory - runs[least]) / slope) + least
    guess = max(best + 1 if best else 1, min(guess, batch - 1))
    while guess in runs and guess > (best or 0) + 1:
        guess -= 1
    return None if guess in runs else guess


def larger(command, answer, step):
    """Returns how large the batch of a program that fits may be, or None where its command names none or no memory grows with it. `step`
    is the graph of its step, or None: then all memory but weights and optimizer state is taken to grow, which gives the least."""
    word, rank = of(command), answers.largest_of(answer["ranks"])
    live, reserved = answer["peak_live_bytes"], answer["reserved_range"][1]
    if word is None or word[1] < 1 or not live or not reserved:
        return None
    batch = word[1]
    # PyTorch is assumed to reserve as much more than is live as it does with this batch.
    budget = answers.available_bytes(rank, answer["memory_bytes"]) * live / reserved
    is_least = step is None or step.peak < (1 - NAMED_DIFFERENCE) * live
    if not is_least:
        found, how = what_if.largest_batch(step, batch, budget), "computed from the task graph"
    else:
        fixed = sum(rank["categories"].get(name, 0) for name in FIXED)
        found, how = math.floor(batch * (budget - fixed) / max(1, live - fixed)), "computed as if all but weights and optimizer state grew"
    if found is None:
        return None
    return {"batch": min(max(batch, found), MOST_GROWTH * batch), "in_place_of": batch,
            "is_least": is_least or found > MOST_GROWTH * batch, "how": how}
