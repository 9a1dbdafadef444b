#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a dry run that does not fit says of blocks that run again, compared with dry runs of the programs with these blocks, and how much
longer a dry run takes that writes a task graph.

The script asks for as few blocks as suffice at shares of the peak, computed from the task graph of step_schedules.py's programs, and lets
the program call them through torch.utils.checkpoint. It measures time on the processor, which does not depend on other work of the machine,
of the dry run as it is, and of one that records its operators and writes the graph. Run it with a Python as step_schedules.py needs it.
usage: step_remedies.py TOOL NAME...      NAME: one of ALL of step_schedules.py; prints figures for bench/results
       step_remedies.py page [--check]    writes the tables of RESULTS into docs/guide/step_graphs.md; with --check fails if they differ, if a peak
                                          is not within 2 % of its dry run, or if recording takes more than twice the time
"""
import os
import re
import resource
import sys
import tempfile
import time

import step_schedules

RESULTS = step_schedules.ROOT / "bench/results/2026-11-30-step_remedies.txt"
SHARES = (0.85, 0.6)
STEPS = 3  # as many as the checks of remedies have
WITHIN = 0.02
MOST_RECORDING = 2.0  # times the dry run as it is
HEAD = "| step | dry run, with its graph | " + " | ".join(f"{100 * share:.0f} % of the memory" for share in SHARES) + " |"
NO_BLOCKS = "no blocks"


def processor_seconds():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime + time.process_time()


def rows(tool, name, folder):
    """Prints the time of recording, and for each share the blocks that were computed and checked."""
    import step_programs
    begin = processor_seconds()
    step_schedules.dry_run(tool, name, folder, steps=STEPS)
    middle = processor_seconds()
    step = step_schedules.Step(tool, name, folder, steps=STEPS)
    end = processor_seconds()
    print(f"\n{getattr(step_programs, name).__doc__}: {middle - begin:.1f} s, {end - middle:.1f} s with its graph", flush=True)
    from tidepool_dryrun import graph, remedies, what_if
    for share in SHARES:
        found = what_if.checkpoints(step.graph, share * step.peak)
        if found is None:
            print(f"{share:.0%}: {NO_BLOCKS}", flush=True)
            continue
        _, rank = step_schedules.dry_run(tool, name, folder, steps=STEPS, records_steps=True, checkpoints=tuple(found["blocks"]))
        slowdown = remedies.seconds_of(graph.make(rank).step) / remedies.seconds_of(step.graph.step)
        print(f"{share:.0%}: {len(found['blocks'])} of {found['of']} blocks, peak {found['peak'] / rank['peak_live_bytes']:.4f}, "
              f"time {found['slowdown']:.3f} {slowdown:.3f}", flush=True)


def parts():
    """Returns of each step in RESULTS its name, the times without and with its graph, and for each share the blocks, how many there are, the
    ratio of the peaks, and the times computed and checked, as texts; None where there are no blocks."""
    for part in RESULTS.read_text().split("\n\n")[1:]:
        head, *rows_ = part.strip().splitlines()
        name, plain, recorded = re.fullmatch(r"(.*): ([\d.]+) s, ([\d.]+) s with its graph", head).groups()
        matches = [re.fullmatch(r".*: (\d+) of (\d+) blocks, peak ([\d.]+), time ([\d.]+) ([\d.]+)", row) for row in rows_]
        yield name, plain, recorded, [match and match.groups() for match in matches]


def faults():
    found = []
    for name, plain, recorded, rows_ in parts():
        if float(recorded) > MOST_RECORDING * float(plain):
            found.append(f"{name}: {recorded} s with its graph, {plain} s without")
        found += [f"{name}: {row[0]} of {row[1]} blocks have {row[2]} of the checked peak" for row in rows_ if row and abs(float(row[2]) - 1) > WITHIN]
    return found


def table():
    lines = [HEAD, "|---" * (2 + len(SHARES)) + "|"]
    for name, plain, recorded, rows_ in parts():
        cells = [f"{row[0]} of {row[1]} blocks: {row[2]}; {row[3]}, {row[4]}" if row else NO_BLOCKS for row in rows_]
        lines.append(f"| {name} | " + " | ".join([f"{plain} s, {recorded} s", *cells]) + " |")
    return "\n".join(lines)


def main(tool, *names):
    if tool == "page":
        step_schedules.write_page([table()], only_checks=names == ("--check",))
        sys.exit("\n".join(faults()) or None)
    os.environ["HF_HUB_OFFLINE"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        for name in names or step_schedules.ALL:
            rows(tool, name, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
