# SPDX-License-Identifier: Apache-2.0
"""Time of a training step against memory: the picture of a program, and the GPUs of the table that train it in less memory than it
takes."""
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
    tool, own, peak = run.tool, run.machine.gpu, step.peak_bytes
    with tempfile.TemporaryDirectory(prefix="tidepool-dryrun-") as folder:
        file = pathlib.Path(folder, "step.json")
        file.write_text(graph.text(step, title, own))
        made = tool.ask("front", file, "--memory", peak, "--time-limit", SEARCH, "--svg", run.options.front)
        cards = [of_gpu(tool, step, own, name, ratio, file) for name in sorted(gpus.GPUS, key=lambda name: gpus.GPUS[name].memory_bytes)]
    return {"file": run.options.front, "gpus": cards,
            "points": [{"memory_bytes": one["memory_bytes"], "slowdown": round(one["overhead"], 4)} for one in made["points"]]}


def of_gpu(tool, step, own, name, ratio, file):
    """Returns how much slower a GPU of the table trains the step than with enough memory; null where no schedule fits."""
    gpu = gpus.GPUS[name]
    budget = int(gpu.memory_bytes * ratio)
    slowdown = 1.0
    if budget < step.peak_bytes:
        file.write_text(graph.text(step, name, gpu, lambda task: task.seconds * scale(task.operator, own, gpu)))
        made = tool.ask("schedule", file, "--memory", budget, "--policy", "best", "--memory-kind", "paged", "--time-limit", SEARCH_OF_GPU)
        slowdown = made["seconds"] / made["ideal_seconds"] if made["fits"] else None
    return {"name": name, "memory_bytes": gpu.memory_bytes, "slowdown": slowdown and round(slowdown, 4)}


def scale(operator, own, other):
    """Returns the time of an operator on another GPU over that on its own: by operations of 16-bit numbers, or by bandwidth."""
    if any(part in operator for part in PRODUCTS):
        return own.tera_operations[2] / other.tera_operations[2]
    return own.gigabytes_per_second / other.gigabytes_per_second


def smallest(cards):
    """Returns the name of the GPU with the least memory that trains nearly as fast as with enough, or None."""
    return next((card["name"] for card in cards if card["slowdown"] is not None and card["slowdown"] <= LIKE_NEW), None)
