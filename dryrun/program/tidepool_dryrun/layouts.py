# SPDX-License-Identifier: Apache-2.0
"""Layouts of a job over GPUs: the program runs with each combination of some values, and the fewest GPUs are found on which it fits.

The run of a layout is a process, `tidepool dryrun` with the values in place of their names, so any executor of Python takes it.
"""
import concurrent.futures
import dataclasses
import itertools
import json
import os
import pathlib
import subprocess
import sys

from . import fit, text, world
from .errors import DryRunError

PACKAGE = pathlib.Path(__file__).resolve().parent
MOST_LAYOUTS = 1000
running = set()  # the processes of this one


@dataclasses.dataclass
class Layout:
    values: dict  # texts by name
    options: object  # of its dry run
    gpus: int  # of all nodes
    found: "dict | None" = None  # the JSON of its dry run
    refused: "str | None" = None  # the reason where there is none

    @property
    def fits(self):
        return self.found is not None and (self.found["fits"] if "fits" in self.found else self.found["largest"] is not None)

    def answer(self):
        largest, reserved = None, None
        if self.found is not None and "largest" in self.found:
            # The first run is that of the least value.
            largest, runs = self.found["largest"], self.found["runs"]
            reserved = next(run for run in runs if run["value"] == (runs[0]["value"] if largest is None else largest))["peak_reserved_bytes"]
        elif self.found is not None:
            reserved = self.found["peak_reserved_bytes"]
        return {"values": self.values, "gpus": self.gpus, "fits": self.fits, "largest": largest, "peak_reserved_bytes": reserved,
                "refused": self.refused}


def make(options, values_of_range, choices):
    """Returns the layouts of the choices, by their GPUs. `values_of_range` is the range of --fit, or empty."""
    fit.check_names(options.command, [name for name in choices if name not in world.names_of(options.world)])
    combinations = list(itertools.islice(itertools.product(*choices.values()), MOST_LAYOUTS + 1))
    if len(combinations) > MOST_LAYOUTS:
        raise DryRunError(f"--fit makes more than {MOST_LAYOUTS} layouts, expected fewer values")
    return sorted((layout_of(options, values_of_range, dict(zip(choices, one))) for one in combinations), key=lambda layout: layout.gpus)


def layout_of(options, values_of_range, values):
    command = options.command
    for name, value in values.items():
        command = fit.with_value(command, name, value)
    own = dataclasses.replace(options, command=command, world=world.size_with(options.world, values), json=True, jobs=1, front="", records_steps=False,
                              fit=[values_of_range] if values_of_range else [])
    try:
        ranks, _ = world.find(own)
    except ValueError as error:
        return Layout(values, own, own.world or 0, refused=str(error))
    return Layout(values, own, ranks.size if ranks else own.devices or 1)


def words_of(options):
    """Returns the words of the process that makes a dry run with these options."""
    def as_text(value):  # the opposite of main.of_bytes
        if isinstance(value, (list, tuple)):
            return [as_text(one) for one in value]
        return os.fsencode(value).decode("latin-1") if isinstance(value, str) else value

    named = {field.name: as_text(getattr(options, field.name)) for field in dataclasses.fields(options) if field.name != "command"}
    return [sys.executable, str(PACKAGE), json.dumps(named), *options.command]


def run(words):
    """Runs a process and returns its status, its output and its errors. Other processes call it too, for executors that have some."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                          errors="replace") as process:
        running.add(process)
        try:
            out, errors = process.communicate()
        finally:
            running.discard(process)
        return process.returncode, out, errors


def note(layout, done):
    """Keeps the answer of its process in the layout, or the reason why it has none."""
    status, out, errors = done
    if status in (0, 2):
        layout.found = json.loads(out)
        if layout.fits and layout.found.get("ran_out_of_time"):
            layout.found, layout.refused = None, "out of time, expected a longer --time-limit"
    else:
        own = [line for line in errors.splitlines() if line.startswith("tidepool: ")]
        layout.refused = own[-1].partition(": ")[2] if own else f"its dry run ended with status {status}"


def search(layouts, executor, tell):
    """Runs the layouts until those of one number of GPUs have been run of which one fits, and returns those. `tell` is called with each
    layout."""
    tried = []
    for _, group in itertools.groupby(layouts, key=lambda layout: layout.gpus):
        group = list(group)
        futures = {executor.submit(run, words_of(layout.options)): layout for layout in group if layout.refused is None}
        for future in concurrent.futures.as_completed(futures):
            note(futures[future], future.result())
            tell(futures[future])
        tried += group
        if any(layout.fits for layout in group):
            break
    if all(layout.found is None for layout in tried):
        raise DryRunError(f"no layout has an answer. {named(tried[0].values)}: {tried[0].refused}")
    return tried


def search_here(layouts, jobs, tell):
    """Searches with as many processes at a time on this machine."""
    executor = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        return search(layouts, executor, tell)
    except KeyboardInterrupt:
        executor.shutdown(wait=False, cancel_futures=True)
        for process in list(running):
            process.terminate()
        raise
    finally:
        executor.shutdown()


def answer(tried, machine):
    """Returns the JSON of the layouts that were tried."""
    return {"dry_run": True, "gpu": machine.gpu.title, "memory_bytes": machine.memory_bytes,
            "fewest_gpus": next((layout.gpus for layout in tried if layout.fits), None), "layouts": [layout.answer() for layout in tried]}


def named(values):
    return ", ".join(f"{name} {value}" for name, value in values.items())


def verdict(layout, range_name):
    """Returns a few words on a layout that was tried."""
    found = layout.answer()
    if layout.refused is not None:
        return f"no answer: {layout.refused}"
    reserved = f"{text.size(found['peak_reserved_bytes'])} reserved"
    if not layout.fits:
        return f"does not fit, {reserved}"
    return f"fits, {reserved}" + (f", {range_name} {found['largest']}" if range_name else "")


def lines(tried, machine, range_name):
    """Returns the lines of the answer: a table of the layouts, and the fewest GPUs. `range_name` is that of the range, or empty."""
    names = list(tried[0].values)
    rows = [[*names, "GPUs", ""]] + [[*layout.values.values(), str(layout.gpus), verdict(layout, range_name)] for layout in tried]
    widths = [max(len(row[i]) for row in rows) for i in range(len(names) + 1)]
    table = ["  ".join([*(cell.rjust(width) for cell, width in zip(row, widths)), row[-1]]).rstrip() for row in rows]
    of_machine = f"{text.size(machine.memory_bytes)} ({machine.gpu.title} assumed)"
    fewest = next((layout.gpus for layout in tried if layout.fits), None)
    if fewest is None:
        return [*table, f"no layout fits in GPUs of {of_machine}"]
    return [*table, f"{fewest} {'GPU' if fewest == 1 else 'GPUs'} of {of_machine}: the fewest on which it fits"]
