# SPDX-License-Identifier: Apache-2.0
"""Values in place of names in a command: a range, of which the largest is found with which the program fits, and choices."""
import re

from .errors import DryRunError


def parse(text):
    """Returns name, least and most of "batch-size=1..512"."""
    found = re.fullmatch(r"([A-Za-z_][\w-]*)=(\d+)\.\.(\d+)", text)
    if found is None or int(found[2]) > int(found[3]):
        raise DryRunError(f"--fit {text}, expected NAME=LEAST..MOST with LEAST no more than MOST, or NAME=VALUE,VALUE")
    return found[1], int(found[2]), int(found[3])


def choices_of(text):
    """Returns name and values of "tensor=1,2,4", or None for another text."""
    found = re.fullmatch(r"([A-Za-z_][\w-]*)=([^,]+(?:,[^,]+)+)", text)
    return found and (found[1], tuple(found[2].split(",")))


def split(texts):
    """Returns the range among the values of --fit, or an empty text, and the choices by name."""
    ranges, choices = [], {}
    for text in texts:
        found = choices_of(text)
        name = found[0] if found else parse(text)[0]
        if name in choices or name in (parse(one)[0] for one in ranges):
            raise DryRunError(f"--fit names {name} twice, expected each name once")
        if found:
            choices[name] = found[1]
        else:
            ranges.append(text)
    if len(ranges) > 1:
        raise DryRunError(f"--fit {ranges[0]} and --fit {ranges[1]}, expected one range: give the other as values, NAME=VALUE,VALUE")
    return "".join(ranges), choices


def check_names(command, names):
    """Raises DryRunError for a name that the command does not have."""
    for name in names:
        if not any("{" + name + "}" in word for word in command):
            raise DryRunError(f"--fit {name}=...: the command has no {{{name}}}, expected it in place of the value")


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
