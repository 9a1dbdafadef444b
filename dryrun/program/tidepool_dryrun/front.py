# SPDX-License-Identifier: Apache-2.0
"""Time of a training step against memory: the picture of a program, and the GPUs of the table that train it in less memory than it
takes."""
import math
import pathlib
import tempfile

from . import gpus, graph

SEARCH = "20s"  # for the front
SEARCH_OF_GPU = "4s"  # for the schedule of one GPU
LIKE_NEW = 1.1  # times the time of the step: the smallest GPU within it is named
# Operators that take time for their operations. Others take it for their bytes.
PRODUCTS = ("mm", "conv", "attention", "linear", "rnn")


def write(run, step, ratio, title):
    """Draws the front of a step into the file that the options name, and returns its part of the answer. `ratio` is the share of the memory
    of a GPU that live requests may take."""
    tool, own, peak, hours = run.tool, run.machine.gpu, step.peak_bytes, prices(run.options.prices)
    with tempfile.TemporaryDirectory(prefix="tidepool-dryrun-") as folder:
        file = pathlib.Path(folder, "step.json")
        file.write_text(graph.text(step, title, own))
        made = tool.ask("front", file, "--memory", peak, "--time-limit", SEARCH, "--svg", run.options.front)
        cards = [of_gpu(tool, step, own, name, ratio, file) for name in sorted(gpus.GPUS, key=lambda name: gpus.GPUS[name].memory_bytes)]
    for card in cards:
        has_cost = card["seconds"] is not None and card["name"] in hours
        card["cost"] = hours[card["name"]] * card["seconds"] / 3600 if has_cost else None
    return {"file": run.options.front, "gpus": cards,
            "points": [{"memory_bytes": one["memory_bytes"], "slowdown": round(one["overhead"], 4)} for one in made["points"]]}


def of_gpu(tool, step, own, name, ratio, file):
    """Returns whether a GPU of the table has room for the step as it is, the time of the step there, and how much slower it is than with
    enough memory; null where no schedule fits."""
    gpu = gpus.GPUS[name]
    budget = int(gpu.memory_bytes * ratio)
    fits, slowdown = budget >= step.peak_bytes, 1.0
    if not fits:
        file.write_text(graph.text(step, name, gpu, lambda task: seconds_on(gpu, own, task)))
        made = tool.ask("schedule", file, "--memory", budget, "--policy", "best", "--memory-kind", "paged", "--time-limit", SEARCH_OF_GPU)
        slowdown = made["seconds"] / made["ideal_seconds"] if made["fits"] else None
    seconds = slowdown and slowdown * sum(seconds_on(gpu, own, task) for task in step.tasks)
    return {"name": name, "memory_bytes": gpu.memory_bytes, "fits": fits, "slowdown": slowdown and round(slowdown, 4), "seconds": seconds}


def seconds_on(gpu, own, task):
    return task.seconds * scale(task.operator, own, gpu)


def scale(operator, own, other):
    """Returns the time of an operator on another GPU over that on its own: by operations of 16-bit numbers, or by bandwidth."""
    if any(part in operator for part in PRODUCTS):
        return own.tera_operations[2] / other.tera_operations[2]
    return own.gigabytes_per_second / other.gigabytes_per_second


def groups(cards):
    """Returns the GPUs that train a step, by how they do it, each from the fastest to the slowest, and those that do not."""
    able = sorted((card for card in cards if card["seconds"] is not None), key=lambda card: card["seconds"])
    scheduled = [card for card in able if not card["fits"]]
    return [("as it is", [card for card in able if card["fits"]]),
            (f"with a schedule at {LIKE_NEW} x or less", [card for card in scheduled if card["slowdown"] <= LIKE_NEW]),
            ("with a schedule, slower", [card for card in scheduled if card["slowdown"] > LIKE_NEW]),
            ("no schedule fits", [card for card in cards if card["seconds"] is None])]


def prices(file):
    """Returns the price of an hour of each GPU that a file has, or raises ValueError. "" has none."""
    found = {}
    for number, line in enumerate(pathlib.Path(file).read_text(encoding="utf-8").splitlines() if file else (), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, price = (part.strip() for part in line.partition(","))
        try:
            gpus.find(name)
            found[name] = float(price)
        except ValueError as error:
            raise ValueError(f"{file}:{number}: {error}; expected a line GPU,PRICE such as l4,0.7") from None
        if not 0 <= found[name] < math.inf:
            raise ValueError(f"{file}:{number}: a price of {price}, expected 0 or more")
    return found


def cheapest(cards):
    """Returns the GPU on which a step costs least among those that train nearly as fast as with enough memory, or None."""
    known = [card for card in cards if card["cost"] is not None and card["slowdown"] <= LIKE_NEW]
    return min(known, key=lambda card: card["cost"], default=None)


def smallest(cards):
    """Returns the name of the GPU with the least memory that trains nearly as fast as with enough, or None."""
    return next((card["name"] for card in cards if card["slowdown"] is not None and card["slowdown"] <= LIKE_NEW), None)
