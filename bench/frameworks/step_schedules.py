#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Task graphs of training steps compared with their dry runs, and schedules of the steps in shares of their peak.

A dry run writes the task graph of a program that knows nothing of tidepool. The script compares the peak of the graph with that of the
dry run, and the time of all tasks with the dry run's clock. The table has the time of the schedule over that of the step: for each
policy in paged memory, with the fewest blocks that run again under torch.utils.checkpoint and let the step fit, and with the data that
PyTorch's min-cut partitioner keeps at the fastest budget that fits. Run it with a Python that has PyTorch, and for some programs torchvision, transformers, peft and accelerate.
usage: step_schedules.py TOOL NAME...      NAME: one of ALL; prints figures for bench/results
       step_schedules.py page [--check]    writes the tables of RESULTS into docs/guide/step_graphs.md; with --check fails if they differ, or
                                           where `best` is not the fastest
"""
import gzip
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[2]
PROGRAMS = str(pathlib.Path(__file__).with_name("step_programs.py"))
RESULTS = ROOT / "bench/results/2026-11-30-step_schedules.txt"
PAGE = ROOT / "docs/guide/step_graphs.md"
ALL = ("nanogpt", "mingpt", "resnet50", "vit_l", "vit_l_half", "convnext", "unet", "llama", "llama_lora", "ddp", "fsdp", "lstm", "mask_rcnn",
       "compiled")
OPTIONS = {"ddp": {"devices": 2}, "fsdp": {"world": 8}}
STARTERS = {"ddp": ("-m", "torch.distributed.run", "--nproc-per-node", "2")}
POLICIES = {"best": ("--time-limit", "10s"), "recompute": (), "pofo": ("--time-limit", "10s")}
BLOCKS, MIN_CUT = "blocks", "min-cut"
COLUMNS = {**{name: f"`{name}`" for name in POLICIES}, BLOCKS: "blocks run again", MIN_CUT: "min-cut of PyTorch"}
SHARES = (0.8, 0.6, 0.5, 0.4, 0.25)
NONE = "does not fit"
CHECKS_HEAD = "| step | tasks | peak of the dry run | graph / dry run | tasks / clock |"
SCHEDULES_HEAD = "| step, memory with all data | found by | " + " | ".join(f"{share:.0%}".replace("%", " %") for share in SHARES) + " |"


def dry_run(tool, name, folder, steps=2, **options):
    """Returns the dry run of a program, and its answer for the rank that takes most memory. Its files stay in the folder."""
    sys.path.insert(0, str(pathlib.Path(tool).resolve().parents[1] / "dryrun"))
    from tidepool_dryrun import answer, main
    command = [sys.executable, *STARTERS.get(name, ()), PROGRAMS, name]
    stand_in = str(pathlib.Path(tool).resolve().parents[1] / "dryrun" / "cudart_host")
    run = main.DryRun(main.Options(command, stand_in, tool, steps=steps, initializes=False, **OPTIONS.get(name, {}), **options))
    return run, answer.largest_of(run.answer(command, pathlib.Path(tempfile.mkdtemp(dir=folder)))["ranks"])


class Step:
    """The task graph of the step of a program, in a folder."""

    def __init__(self, tool, name, folder, steps=2):
        self.tool, self.file = tool, str(pathlib.Path(folder, f"{name}.json.gz"))
        run, rank = dry_run(tool, name, folder, steps=steps, records_steps=True)
        from tidepool_dryrun import graph
        self.graph = graph.make(rank)
        self.peak = rank["peak_live_bytes"]
        self.written = graph.write(self.graph, name, run.machine.gpu, self.peak, self.file)
        self.simulated = self.ask("simulate", self.file, "--policy", "none", "--memory", "1TiB")
        self.seconds = self.simulated["ideal_seconds"]

    def ask(self, *words):
        done = subprocess.run([self.tool, *map(str, words), "--json"], capture_output=True, text=True, check=False)
        assert done.returncode in (0, 2), done.stderr
        return json.loads(done.stdout)

    def document(self):
        with gzip.open(self.file) as file:
            return json.loads(file.read())

    def scheduled(self, policy, memory):
        made = self.ask("schedule", self.file, "--policy", policy, "--memory", memory, "--memory-kind", "paged", *POLICIES[policy])
        return made["seconds"] / self.seconds if made["fits"] else None

    def with_blocks(self, memory):
        from tidepool_dryrun import what_if
        found = what_if.checkpoints(self.graph, memory)
        return found["slowdown"] if found and found["peak"] <= memory else None

    def min_cuts(self):
        """Returns the peak and the time of the step for each budget of PyTorch."""
        import min_cut_of_step
        file, found = pathlib.Path(self.file).with_name("min_cut.json"), []
        for made in min_cut_of_step.of_budgets(self.document()).values():
            file.write_text(json.dumps(made))
            simulated = self.ask("simulate", file, "--policy", "none", "--memory", "1TiB")
            found.append((simulated["peak_device_bytes"], simulated["ideal_seconds"] / self.seconds))
        return found


def rows(tool, name, folder):
    import step_programs
    step = Step(tool, name, folder)
    print(f"\n{getattr(step_programs, name).__doc__}: {step.simulated['tasks']} tasks, {step.peak / 2**30:.3f} GiB, "
          f"graph / dry run {step.simulated['peak_device_bytes'] / step.peak:.4f}, tasks / clock {step.seconds / step.written['seconds']:.4f}, "
          f"{1e3 * step.seconds:.1f} ms\n| memory | " + " | ".join(COLUMNS) + " |", flush=True)
    cuts, longest = step.min_cuts(), 0
    for share in SHARES:
        memory, found = int(share * step.peak), {}
        for policy in POLICIES:
            begin = time.monotonic()
            found[policy] = step.scheduled(policy, memory)
            if policy == "best":
                longest = max(longest, time.monotonic() - begin)
        found[BLOCKS] = step.with_blocks(memory)
        found[MIN_CUT] = min((slowdown for peak, slowdown in cuts if peak <= memory), default=None)
        print(f"| {share:.0%} | " + " | ".join(f"{found[one]:.3f}" if found[one] else NONE for one in COLUMNS) + " |", flush=True)
    print(f"best took at most {longest:.1f} s", flush=True)


def parts():
    """Returns of each step in RESULTS its name, its figures, and the cells by share."""
    for part in RESULTS.read_text().split("\n\n")[1:]:
        figures = re.match(r"\n*(.*): (\d+) tasks, (.*? GiB), graph / dry run ([\d.]+), tasks / clock ([\d.]+),", part).groups()
        yield *figures, [row.strip("| ").split(" | ")[1:] for row in part.splitlines() if re.match(r"\| \d", row)]


def faults():
    """Returns sentences on schedules of best that are slower than another one, or than its own in less memory."""
    found = []
    for name, *_, cells in parts():
        least = math.inf
        for share, row in reversed(list(zip(SHARES, cells))):
            best, *others = (math.inf if cell == NONE else float(cell) for cell in row)
            least = min(least, *others, best)
            if best > least:
                found.append(f"{name}, {share:.0%} of the memory: best takes {best} x the time, and {least} was found")
    return found


def tables():
    checks, schedules = [CHECKS_HEAD, "|---" * 5 + "|"], [SCHEDULES_HEAD, "|---" * (2 + len(SHARES)) + "|"]
    for name, tasks, peak, graph, clock, cells in parts():
        checks.append(f"| {name} | {int(tasks):,} | {peak} | {graph} | {clock} |")
        for number, title in enumerate(COLUMNS.values()):
            first = f"| {name}: {peak}" if number == 0 else "|"
            schedules.append(" | ".join([first, title, *(row[number] for row in cells)]) + " |")
    return "\n".join(checks), "\n".join(schedules)


def write_page(tables, only_checks):
    """Writes the tables into the page, in the places of those with the same heads, unless it only checks them. Ends the program where the page
    lacks one."""
    before = page = PAGE.read_text()
    for table in tables:
        head = table.partition("\n")[0]
        begin, end = page.index(head), page.index("\n\n", page.index(head))
        page = page[:begin] + table + page[end:]
    if not only_checks:
        PAGE.write_text(page)
    elif page != before:
        sys.exit(f"{PAGE.name} differs from bench/results: run bench/frameworks/{pathlib.Path(sys.argv[0]).name} page")


def main(tool, *names):
    if tool == "page":
        write_page(tables(), only_checks=names == ("--check",))
        sys.exit("\n".join(faults()) or None)
    os.environ["HF_HUB_OFFLINE"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        for name in names or ALL:
            rows(tool, name, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
