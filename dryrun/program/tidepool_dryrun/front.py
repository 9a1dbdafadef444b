# SPDX-License-Identifier: Apache-2.0
"""Time of a training step against memory: the picture of a program, and the GPUs of the table that train it in less memory than it
takes."""
import pathlib
import tempfile

from . import graph

SEARCH = "20s"  # for the front


def write(run, step, ratio, title):
    """Draws the front of a step into the file that the options name, and returns its part of the answer. `ratio` is the share of the memory
    of a GPU that live requests may take."""
    options = run.options
    with tempfile.TemporaryDirectory(prefix="tidepool-dryrun-") as folder:
        file = pathlib.Path(folder, "step.json")
        file.write_text(graph.text(step, title, run.machine.gpu))
        prices = ["--prices", options.prices] if options.prices else []
        made = run.tool.ask("front", file, "--memory", step.peak_bytes, "--time-limit", SEARCH, "--svg", options.front, "--gpus", "--gpu-share",
                            max(0.01, round(ratio, 4)), *prices)
    return {"file": options.front, **{key: made[key] for key in ("gpus", "smallest_gpu", "cheapest_gpu", "gpu_lines")},
            "points": [{"memory_bytes": one["memory_bytes"], "slowdown": round(one["overhead"], 4)} for one in made.get("points", ())]}
