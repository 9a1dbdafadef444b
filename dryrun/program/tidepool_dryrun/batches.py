# SPDX-License-Identifier: Apache-2.0
"""The batch of a program: the word of its command that names it, and how large it may be."""
import contextlib
import math
import re

from . import answer as answers
from . import what_if
from .errors import DryRunError
from .graph import NAMED_DIFFERENCE

BATCH = re.compile(r"(?P<name>-{0,2}(?!.*(?:eval|val|test))(?:[\w.-]*[-_.])?(?:batch|batch[-_]?size|bs))(?:=(?P<value>\d+))?", re.IGNORECASE)
MOST_GROWTH = 16  # times the batch: what is small may not grow in proportion
MOST_RUNS = 5  # with smaller batches
CLOSE = 0.02  # a share of the batch: a larger one by less is not looked for
FIXED = ("weights", "optimizer state")  # categories of memory that no batch changes


def of(command):
    """Returns the words that name the batch of a command, one or two, and the batch; None where no option or more than one names it."""
    found = []
    for word, following in zip(command, [*command[1:], ""]):
        match = BATCH.fullmatch(word)
        if match and match["value"]:
            found.append(([word], int(match["value"])))
        elif match and word.startswith("-") and following.isdecimal():
            found.append(([word, following], int(following)))
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


def on_line(sizes, memory, most):
    """Returns the largest batch up to `most` that fits, where memory grows along the line through the nearest batches below and above it, or
    through the two nearest. `sizes` has the reserved bytes of each batch that ran."""
    near = sorted(sizes, key=lambda batch: abs(sizes[batch] - memory))
    sides = [next((batch for batch in near if (sizes[batch] > memory) == is_above), None) for is_above in (False, True)]
    one, other = near[:2] if None in sides else sides
    slope = (sizes[other] - sizes[one]) / (other - one)
    return min(most, math.floor(one + (memory - sizes[one]) / slope)) if slope > 0 else most


def following(sizes, memory, best, most):
    """Returns the next batch to try, larger by more than CLOSE than `best`, the largest that fits so far, or 0; None without one. Larger
    batches than `most` do not fit."""
    least = math.floor((1 + CLOSE) * best) + 1
    return max(least, on_line(sizes, memory, most)) if least <= most else None


def search(measure, sizes, guess, memory, most):
    """Returns the largest batch up to `most` that was tried and fits, or 0. `measure` returns the reserved bytes of a batch and whether it fits,
    or raises DryRunError where it gives no answer; `sizes` has those of one that ran before, and gets them."""
    best, guess = 0, max(1, min(guess, most))
    with contextlib.suppress(DryRunError):
        for _ in range(MOST_RUNS):
            sizes[guess], fits = measure(guess)
            best, most = (guess, most) if fits else (best, guess - 1)
            guess = following(sizes, memory, best, most)
            if guess is None:
                break
    return best


def computed(answer, memory, step):
    """Returns the largest batch that fits in the memory, in parts of that of the run, whether it is the least that it may be, and how it was
    found, without a further run. None where no memory grows with it. `answer` is that of a run with enough memory. `step` is the graph of its
    step, or None: then all memory but weights and optimizer state is taken to grow, which gives the least."""
    rank = answers.largest_of(answer["ranks"])
    live, reserved = answer["peak_live_bytes"], answer["reserved_range"][1]
    if not live or not reserved:
        return None
    # PyTorch is assumed to reserve as much more than is live as it does with this batch.
    budget = memory * live / reserved
    is_least = step is None or step.peak < (1 - NAMED_DIFFERENCE) * live
    if not is_least:
        found, how = what_if.Growth(step).largest(budget), "computed from the task graph"
    else:
        fixed = sum(rank["categories"].get(name, 0) for name in FIXED)
        found, how = (budget - fixed) / max(1, live - fixed), "computed as if all but weights and optimizer state grew"
    return None if found is None else (found, is_least, how)
