# SPDX-License-Identifier: Apache-2.0
"""Finds the largest value of a parameter with which the program fits."""
import re

from .errors import DryRunError


def parse(text):
    """Returns name, least and most of "batch-size=1..512"."""
    found = re.fullmatch(r"([A-Za-z_][\w-]*)=(\d+)\.\.(\d+)", text)
    if found is None or int(found[2]) > int(found[3]):
        raise DryRunError(f"--fit {text}, expected NAME=LEAST..MOST with LEAST no more than MOST")
    return found[1], int(found[2]), int(found[3])


def with_value(command, name, value):
    return [word.replace("{" + name + "}", str(value)) for word in command]


def largest(least, most, fits):
    """Returns the largest value in [least, most] for which `fits(value)` is true, None if it is not for the least one.
    Programs need more memory for larger values. First the values double, since a run near the largest one takes long."""
    if not fits(least):
        return None
    good, bad, step = least, most + 1, 1
    while good + step < bad:
        if fits(good + step):
            good += step
            step *= 2
        else:
            bad = good + step
    if good == most:
        return good
    if bad > most and fits(most):
        return most
    bad = min(bad, most)
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(middle):
            good = middle
        else:
            bad = middle
    return good
