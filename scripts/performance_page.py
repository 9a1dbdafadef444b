#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/performance.md: its text from docs/performance.md.in, its figures from the newest file of each benchmark in bench/results.

usage: scripts/performance_page.py [--check]

Files are named DATE-BENCHMARK.json (Google Benchmark's JSON) or DATE-BENCHMARK.txt (printed output with the command above it).
With --check nothing is written; the exit status is 1 if the page differs from its text and figures.

A name in braces in the text, such as {plan.table}, is a field of the figures that a function of this script finds. A section has the
measurement with its command, at most one table of some twelve rows, an explanation of five lines, and a conclusion of one sentence.
"""
import difflib
import json
import pathlib
import re
import statistics
import sys
import textwrap
from types import SimpleNamespace as Figures

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
TEXT = ROOT / "docs" / "performance.md.in"
PAGE = ROOT / "docs" / "performance.md"
BENCH = "build/release/bench/"

POLICIES = ["best-fit", "exact-fit-first", "high-end-offload", "first-fit"]
NANOSECONDS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}

# The best public planner for each input, measured once: seconds to fit the hard inputs, and heights over the bound after ten seconds.
PUBLIC_HARD_INPUTS_SECONDS = 83.5
PUBLIC = {"A": "1.054", "B": "1.048", "C": "1.000", "D": "1.076", "E": "1.000", "F": "1.108", "G": "1.000", "H": "1.000",
          "I": "1.018", "J": "1.055", "K": "1.000", "somas_pangu_2.6B": "1.0076 in 100 s"}

# Goals for the mean gap of `best` to the bound.
GAP_GOALS = {"best": 1.02, "best, both directions, parts": 1.015}


class Results:
    """One file of bench/results."""

    def __init__(self, path):
        self.path = path
        self.date, self.name = re.fullmatch(r"(\d{4}-\d\d-\d\d)-(.+)", path.stem).groups()
        text = path.read_text(encoding="utf-8")
        self.lines = text.split("\n")
        self.commands = [line[2:] for line in self.lines if line.startswith("$ ")]
        self.command = next(iter(self.commands), None)
        self.rows = {}
        self.data = json.loads(text) if path.suffix == ".json" else {}
        if "benchmarks" in self.data:
            self.read_benchmarks()

    def read_benchmarks(self):
        self.command = self.data.get("context", {}).get("executable")
        runs = {}
        for row in self.data["benchmarks"]:
            if row.get("run_type") == "aggregate" and row.get("aggregate_name") != "median":
                continue
            name = re.sub(r"(/iterations:\d+|/manual_time|/real_time)+$", "", row.get("run_name", row["name"]))
            runs.setdefault(name, []).append(row)
        for name, rows in runs.items():
            medians = [row for row in rows if row.get("run_type") == "aggregate"]
            self.rows[name] = medians[0] if medians else self.median_of(rows)

    @staticmethod
    def median_of(rows):
        return {key: statistics.median(row[key] for row in rows) if isinstance(value, float) else value
                for key, value in rows[0].items()}

    def nanoseconds(self, name):
        """Returns the median time, of the processor where it was measured, or None."""
        row = self.rows.get(name)
        if row is None:
            return None
        if "nanoseconds_per_pair" in row:
            return row["nanoseconds_per_pair"]
        return row["cpu_time"] * NANOSECONDS[row["time_unit"]]

    def counter(self, name, counter):
        return self.rows.get(name, {}).get(counter)

    def counters(self, name, **forms):
        """Returns counters of a row as text."""
        return [shown(self.counter(name, counter), form) for counter, form in forms.items()]

    def block(self, command=None):
        """Returns the lines printed by a command of a text file, the first one unless told."""
        begin = self.lines.index(f"$ {command or self.command}") + 1
        rest = self.lines[begin:]
        end = next((number for number, line in enumerate(rest) if line.startswith("$ ")), len(rest))
        return [line.rstrip() for line in "\n".join(rest[:end]).strip("\n").split("\n")]

    def fields(self, pattern, command=None):
        """Returns the groups of each line of a command that a pattern matches from its begin."""
        return [match.groups() for match in (re.match(pattern, line) for line in self.block(command)) if match]

    def link(self):
        return f"[{self.path.name}](../bench/results/{self.path.name})"

    def source(self, command=None):
        command = command or self.command or f"{BENCH}{self.name}_bench"
        return f"Measured {self.date} with `{command.removeprefix('./')}`: {self.link()}."


def newest_files():
    """Returns the newest file of each benchmark by its name."""
    files = map(Results, sorted(path for path in RESULTS.iterdir() if path.suffix in (".json", ".txt")))
    return {results.name: results for results in files}


def shown(value, form="{:,.0f}"):
    return "–" if value is None else form.format(value)


def ratio(above, below):
    return None if above is None or not below else above / below


def span(values, form="{:,.0f}"):
    """Returns the least and the largest value as text."""
    values = [value for value in values if value is not None]
    return f"{form.format(min(values))} to {form.format(max(values))}"


def table(head, rows):
    """Returns a table without the rows that have no figure."""
    rows = [row for row in rows if any(cell != "–" for cell in row[1:])]
    align = "|" + "|".join(["---"] + ["---:"] * (len(head) - 1)) + "|"
    return "\n".join(["| " + " | ".join(head) + " |", align] + ["| " + " | ".join(row) + " |" for row in rows])


def placement(results):
    patterns = [("random/100", "100 live blocks, random sizes"), ("random/1000", "1,000 live blocks, random sizes"),
                ("random/10000", "10,000 live blocks, random sizes"), ("random/100000", "100,000 live blocks, random sizes"),
                ("one_size", "1,000 blocks of one size beside 1,000 holes"), ("first_in_first_out", "10,000 live blocks, first in first out"),
                ("checkpointing", "training with checkpointing")]
    best_fit, jemalloc = ([results.nanoseconds(f"{engine}/{key}") for key, _ in patterns] for engine in ("best-fit", "jemalloc"))
    faster = [ratio(*pair) for pair in zip(jemalloc, best_fit)]
    rows = [[label, *(shown(results.nanoseconds(f"{engine}/{key}")) for engine in POLICIES + ["jemalloc"]), shown(times, "{:.1f}")]
            for (key, label), times in zip(patterns, faster)]
    return Figures(source=results.source(), best_fit=span(best_fit), faster=span(faster, "{:.1f}"),
                   table=table(["live blocks and pattern", *POLICIES, "jemalloc", "jemalloc / best-fit"], rows))


def placement_quality(results):
    tails = [f"latency/{{}}/{count}" for count in (100, 1000, 10000, 100000)]
    heights = [f"addresses/{{}}/{count}" for count in (10, 100, 1000, 10000)]

    def tails_of(policy):
        return [results.counter(name.format(policy), "p99_over_median") for name in tails]

    def heights_of(policy):
        return [results.counter(name.format(policy), "peak_address_over_live") for name in heights]

    rows = [[policy, *(shown(tail, "{:.1f}") for tail in tails_of(policy)), *(shown(height, "{:.3f}") for height in heights_of(policy))]
            for policy in POLICIES]
    head = ["policy", *(f"{column}, {int(name.split('/')[-1]):,} live" for column, names in (("tail", tails), ("height", heights)) for name in names)]
    return Figures(source=results.source(), table=table(head, rows), tails=span(sum(map(tails_of, POLICIES), []), "{:.1f}"),
                   waste=span([100 * (height - 1) for height in sum(map(heights_of, POLICIES), []) if height]))


def pool(results):
    patterns = [("random/100", "100 live blocks, random sizes"), ("random/1000", "1,000 live blocks, random sizes"),
                ("random/10000", "10,000 live blocks, random sizes"), ("checkpointing", "training with checkpointing")]
    columns = {"placement alone": "engine/", "pool": "pool/", "pool, recorded": "pool_recorded/", "one thread": "pool/one_thread/",
               "two threads, one stream": "pool/two_threads_one_stream/", "two threads, two streams": "pool/two_threads_two_streams/",
               "the same in 80 GiB": "pool/two_threads_two_streams_80_gib/"}
    rows = [[label, *(shown(results.nanoseconds(column + key)) for column in columns.values())] for key, label in patterns]
    slower = [ratio(results.nanoseconds(f"pool/{key}"), results.nanoseconds(f"engine/{key}")) for key, _ in patterns]
    return Figures(source=results.source(), table=table(["live blocks and pattern", *columns], rows), slower=span(slower, "{:.2f}"))


def pool_memory(results):
    def growth(name):
        label = name.replace("growth_", "growth, ").replace("/sizes_times/", " live blocks, sizes x ").replace("/", ", ")
        return [label, *results.counters(name, reserved_over_live="{:.3f}", device_calls="{:,.0f}", remaps="{:,.0f}")]

    one, four, sixteen = (results.counters(f"streams/{count}", reserved_over_live="{:.3f}")[0] for count in (1, 4, 16))
    events, waits = results.counters("streams/16", events_per_1000_frees="{:.0f}", host_synchronisations="{:.0f}")
    return Figures(source=results.source(), one=one, four=four, sixteen=sixteen, events=events, waits=waits,
                   table=table(["pool", "reserved / peak live", "calls of the device", "remaps"],
                               [growth(name) for name in results.rows if name.startswith("growth")]))


def policies(results):
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in results.lines if line.startswith("|")]
    best_fit, planned = ([float(row[head.index(policy)].split(",")[0]) for row in rows] for policy in ("best-fit", "planned"))
    return Figures(source=results.source(results.command.split(" ")[0]), table=table(head, rows), best_fit=span(best_fit, "{:.3f}"),
                   planned=f"{max(planned):.3f}")


def plan(results):
    rows = results.fields(r"(\S.*?)\s+(\d+) \|\s+([\d.]+)\s+([\d.]+) \|\s+([\d.]+)\s+([\d.]+) \|\s+([\d.]+)")
    hard = [row for row in rows if re.match(r"[A-K]\.\d+\.csv", row[0])]
    other = [row for row in rows if re.match(r"(iopddl|somas)_", row[0])]
    steps = [row for row in rows if "training step" in row[0]][-1]
    # Traces that the list has twice are counted once. Steps that repeat are no traces.
    traces = {row[0]: float(row[4]) for row in rows if row not in hard + other and "training step" not in row[0]}
    above = [row for row in hard + other if float(row[2]) > 1]

    def line(row):
        name = row[0].removesuffix(".csv").removesuffix(".1048576")
        return [name, f"{int(row[1]):,}", f"{float(row[2]):.4f}", f"{float(row[4]):.4f}", f"{float(row[5]):.2f} s", PUBLIC.get(name, "–")]

    head = ["input", "buffers", "height / bound in 0.1 s", "height / bound in 10 s", "processor time", "best public program"]
    return Figures(source=results.source(), table=table(head, map(line, above)), at_once=len(hard + other) - len(above), hard=len(hard),
                   fit=f"{sum(float(row[6]) for row in hard):.1f}", public=PUBLIC_HARD_INPUTS_SECONDS, steps=steps[0],
                   buffers=f"{int(steps[1]):,}", seconds=f"{float(steps[5]):.2f}", traces=len(traces), at_bound=list(traces.values()).count(1))


def cnmem(results):
    runs = {}
    for line in results.lines:
        if match := re.match(r"(tidepool|CNMeM), run \d+|tidepool, TIDEPOOL_CNMEM_MEMORY=virtual", line):
            current = runs.setdefault(match[1], {})
        elif match := re.match(r"(ns per pair,.*?|(?:grown|smallest) pool.*?streams): *mean of 10 draws ([\d.]+)|(ns per pair,.*?) +([\d.]+)$", line):
            current.setdefault(re.sub(" +", " ", match[1] or match[3]), []).append(float(match[2] or match[4]))
    theirs, ours = ({label: min(values) for label, values in runs[name].items()} for name in ("CNMeM", "tidepool"))

    def row(label):
        form = "{:,.0f}" if label.startswith("ns") else "{:.2f}"
        return [label, form.format(theirs[label]), form.format(ours[label]), f"{theirs[label] / ours[label]:.1f}"]

    faster, smaller = (span([theirs[label] / ours[label] for label in theirs if word in label], "{:.1f}") for word in ("ns per pair", "pool"))
    return Figures(source=results.source(), table=table(["", "CNMeM 1.0.0", "tidepool", "ratio"], map(row, theirs)), faster=faster, smaller=smaller)


def trace(results):
    def row(name):
        speeds = [ratio(results.counter(name, counter), 1e6) for counter in ("bytes_per_second", "items_per_second")]
        return [name.removeprefix("parse/"), shown(speeds[0]), shown(speeds[1], "{:.1f}"), *results.counters(name, memory_bytes_per_event="{:.0f}")]

    return Figures(source=results.source(), replays=span([results.nanoseconds(f"replay/{policy}") / 1e6 for policy in POLICIES]),
                   table=table(["format", "MB/s read", "million events/s", "bytes an event in memory"],
                               [row(name) for name in results.rows if name.startswith("parse/")]))


def recorder(results):
    calls = {name: 1e9 * results.counter(name, "time_per_call") for name in results.rows}
    rows = [[name.split("/")[-1].replace("_", " "), shown(time), *results.counters(name, bytes_per_event="{:.1f}")] for name, time in calls.items()]
    return Figures(source=results.source(), table=table(["calls", "ns a call", "bytes an event in the file"], rows), call=shown(min(calls.values())))


def zvc(results):
    command = BENCH + "zvc_bench 256 9 2"
    kernels = {"avx512": "AVX-512", "avx2": "AVX2", "scalar": "scalar", "lz4": "lz4", "zstd -1": "zstd -1"}
    found = {}
    for word, density, kernel, size, *speeds in results.fields(
            r"(\w+)\s+([\d.]+)\s+(\S.*?)\s+x1\s+size ([\d.]+)\s+compress.*?([\d.]+)x\s+decompress.*?([\d.]+)x", command):
        found.setdefault((word, density), {})[kernel] = size, speeds
    rows = [[", ".join(key), cells["avx512"][0], *(" / ".join(cells[kernel][1]) if kernel in cells else "–" for kernel in kernels)]
            for key, cells in found.items() if key[1] != "0.75"]
    fast = [float(speed) for cells in found.values() for speed in cells["avx512"][1]]
    return Figures(source=results.source(command), table=table(["words, share of non-zeros", "size", *kernels.values()], rows), fast=span(fast, "{:.2f}"))


def compression(results):
    pipeline = BENCH + "pipeline_bench 256 15 2 6 4 256"
    rows = results.fields(r"\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+[\d.]+x\s+([\d.]+)\s+([\d.]+)\s+[\d.]+x\s+([\d.]+)$", pipeline)
    errors = [abs(float(error)) for error, in results.fields(r"(?:offload|prefetch).*?(-?[\d.]+) %$", BENCH + "tune_check")]
    saved = {network: results.fields(r"  all .*-([\d.]+)%", f"{BENCH}vdnnpp_compression run {network} uniform 2 6")[0][0] for network in ("alexnet", "vgg16")}
    head = ["share of non-zeros", "copy", "out, pipeline", "out, whole buffer", "in, pipeline", "in, whole buffer", "core-seconds a GB"]
    return Figures(source=results.source(pipeline), table=table(head, rows), error=max(errors), **saved,
                   faster=f"{max(float(row[column]) / float(row[1]) for row in rows for column in (2, 4)):.1f}")


def pinned(results):
    command, probe = BENCH + "pinned_bench", BENCH + "density_probe_bench"
    times = {name: time for block in (command, probe) for name, time in
             results.fields(r"(?:BM_)?(\S+?)(?:/iterations:\d+)?(?:/manual_time)?\s+([\d.]+ [num]s)\s", block)}
    names = ["Pair/1", "Pair/1000", "PairOfTheDevice", "StagingSlot", "PinOneGiB/threads:1/huge:0", "PinOneGiB/threads:2/huge:0",
             "PinOneGiB/threads:2/huge:1", "Probe/1", "Probe/256", "Compress/1", "Compress/256"]
    return Figures(source=results.source(command), table=table(["benchmark", "time"], [[f"`{name}`", times[name]] for name in names]),
                   pair=times["Pair/1"], device=times["PairOfTheDevice"], probe=times["Probe/256"], compress=times["Compress/256"])


def regions(results):
    def found(pattern):
        return next(iter(results.fields(pattern)), None)

    out, back = found(r"to the host: plain copy (\S+) GB/s, pause (\S+) GB/s, (\d+) %"), found(r"to the device: plain copy (\S+) GB/s, resume (\S+) GB/s, (\d+) %")
    stores = {name: found(name + r": store alone (\S+) GB/s, pause (\S+) GB/s, (\d+) %; store alone (\S+) GB/s, resume (\S+) GB/s, (\d+) %")
              for name in ("compressed", "file")}
    rows = [["pause to page-locked memory", *out], ["resume from it", *back]]
    for name, cells in stores.items():
        alone, pause, part, alone_back, resume, part_back = cells or ["–"] * 6
        rows += [[f"pause, {name}", alone, pause, part], [f"resume, {name}", alone_back, resume, part_back]]
    gib, = found(r"(\S+) GiB in one region")
    first, = found(r"the first contents are there after (\S+) %")
    first_stored = found(r"file: .*, the first contents after (\S+) %")
    undisturbed, = found(r"resume of memory that nobody took: (\S+) ms")
    discard, taken = found(r"discard: (\S+) ms; the next owner takes the memory in (\S+) ms")
    without, beside, inside = found(r"a pair: (\S+) ns without regions, (\S+) ns beside a region, (\S+) ns in a region")
    return Figures(source=results.source(), table=table(["call", "copy or store alone, GB/s", "region, GB/s", "part, %"], rows), gib=gib,
                   first=first, first_stored=f", of one from a file after {first_stored[0]} %" if first_stored else "",
                   undisturbed=undisturbed, discard=discard, taken=f"{float(taken):.0f}", without=without, beside=beside, inside=inside,
                   out=out[2], back=back[2])


def vdnnpp(results):
    command = BENCH + "vdnnpp_papers tables"
    rows = [(name, batch, mode, re.findall(r"(\d+) / *([\d-]+)", rest), planned)
            for name, batch, mode, rest, planned in results.fields(r"(\w+) +(\d+) (\S+) +(\d.*?) +(\d+)$", command)]
    lines = [[f"{name}, {batch}, {mode}", *map(" / ".join, pairs[:1] + pairs[2:]), planned]
             for name, batch, mode, pairs, planned in rows if (name, batch) in (("alexnet", "256"), ("vgg16", "64"))]
    off = max(abs(int(pairs[0][0]) / int(pairs[0][1]) - 1) for _, _, _, pairs, _ in rows)
    count, slower, unfit, gain = results.fields(r"(\d+) compared: .*? slower in (\d+) and does not fit in (\d+) .* up to ([\d.]+) %",
                                                BENCH + "vdnnpp_papers compare")[0]
    head = ["network, batch, mode", "peak live", "best-fit, prefetch first", "best-fit, derivative first", "high-end, prefetch first",
            "high-end, derivative first", "planned"]
    return Figures(source=results.source(command), table=table(head, lines), rows=len(rows), off=f"{100 * off:.1f}", count=f"{int(count):,}",
                   slower=slower, unfit=unfit, gain=gain)


def vdnnpp_times(results):
    rows = results.fields(r"  (vgg-\d+) +(\S+) +(\d+) / +(\d+) +(\d+) / +(\d+)$")
    ours, paper = (span([100 * (1 - float(row[column + 2]) / float(row[column])) for row in rows], "{:.1f}") for column in (2, 3))
    head = ["network", "mode", "vDNN, ours", "vDNN, the paper's", "vDNN++, ours", "vDNN++, the paper's"]
    return Figures(source=results.source(), table=table(head, rows), ours=ours, paper=paper)


def chain_policy(results):
    rows = results.fields(r" *(\d+ operations), (exact|\d+ slots) *: longest +([\d.]+) ms, mean +([\d.]+) ms, (\d+) chains(?:, (\d+) proved)?")
    exact, slots = ([row for row in rows if (row[1] == "exact") == is_exact][-1] for is_exact in (True, False))
    return Figures(source=results.source(), exact=exact[0], exact_seconds=f"{float(exact[2]) / 1e3:.1f}", slots=slots[0],
                   slots_seconds=f"{float(slots[2]) / 1e3:.1f}",
                   table=table(["chain", "sizes", "longest, ms", "mean, ms", "chains", "proved"], [[cell or "–" for cell in row] for row in rows]))


def workspace(results):
    rows = results.fields(r"adaptive, batch 256, noise +(\d+) %: +([\d.]+) sizes .*, (\d+) at most .*; +(\d+) of 100 .*, "
                          r"([\d.]+) on average, ([\d.]+) at worst \(powerOfTwo ([\d.]+)\)")
    divisions = [float(time) for time, in results.fields(r"division.*: +([\d.]+) ms, proved")]
    head = ["noise in the times, %", "sizes measured, mean", "at most", "equal to `all`, of 100", "time / `all`, mean", "worst", "worst of `powerOfTwo`"]
    return Figures(source=results.source(), table=table(head, rows), divisions=span(divisions, "{:.3f}"), equal=rows[0][3])


def cudnn(results):
    rows = results.fields(r"(.*?): +cuDNN's call +(\d+) ns, with tidepool +(\d+) ns: +(\d+) ns more")
    looks = [f"{int(layers):,} {time} ns" for layers, time in results.fields(r"look-ups of +(\d+) layers, with ids: +(\d+) ns")]
    return Figures(source=results.source(), table=table(["call", "cuDNN's, ns", "with tidepool, ns", "more, ns"], rows), looks=", ".join(looks),
                   more=span([int(row[3]) for row in rows]))


def micro_cudnn(results):
    rows = results.fields(r"(k80|p100|v100) +(\d+) +([\d.]+) +([\d.]+) +\(([\d.]+)x\) +([\d.]+) +\(([\d.]+)x\) +(.*)$")
    networks = [f"{name} {ours} / {paper}" for name, ours, paper in results.fields(r"  (\S+) +undivided .*? all [\d.]+ \(([\d.]+)\) / \d+ \(([\d.]+)\)")]
    head = ["GPU", "limit, MiB", "undivided", "powerOfTwo", "faster", "all", "faster", "the paper, faster"]
    return Figures(source=results.source(), table=table(head, rows), networks=", ".join(networks))


def modnn_figures(results):
    def lines(mode, labels, first=0):
        """Returns a row for each label of a column of the rows `mean` and `the paper`, from the `first` such row on."""
        cells = [re.split(r" {2,}", line)[1:] for line in results.block(f"{BENCH}modnn_figures {mode}") if re.match("mean|the paper  ", line)]
        return [[label, f"`{mode}`", cells[first][column], cells[first + 1][column]] for column, label in labels.items()]

    def mean_of(name, mode):
        return results.fields(rf"{name} / moDNN, mean: ([\d.]+)", f"{BENCH}modnn_figures {mode}")[0][0]

    rows = (lines("memory", {0: "the ideal's memory over the least by all techniques", 1: "... by sub-batches", 2: "... by transfers", 3: "... by algorithms"}) +
            lines("time", {0: "time of moDNN in 12 GB over the ideal", 1: "... of vDNN"}) +
            lines("time", {0: "time where sub-batches alone save most, over the ideal", 1: "... transfers", 2: "... algorithms"}, 2) +
            lines("devices", {0: "speed of four K40s over one: all sum on one GPU", 1: "... moDNN in 12 GB", 3: "... in 3 GB"}))
    return Figures(source=results.source(BENCH + "modnn_figures MODE"), table=table(["mean", "MODE", "ours", "the paper's"], rows),
                   budgets=mean_of(r"vDNN\+", "budgets"), front=mean_of("the front", "front"), utilisation=mean_of("the front", "utilisation"),
                   faults=results.block(BENCH + "modnn_figures check")[-1].split(": ")[-1])


def beaumont_figures(results):
    rows = results.fields(r"(\S+) +(\d+) +(\d+) +([\d.]+) +([\d.]+) +(\d+)$")
    claims = results.fields(r"(held|not held) ")
    least = min((row for row in rows if row[2] == "0"), key=lambda row: float(row[3]))
    slower, faster, points, factor = results.fields(r"held +best is never slower .*?: slower at (\d+), faster at (\d+) of (\d+) .*? factor of ([\d.]+)")[0]
    return Figures(source=results.source(), table=table(["policy", "points", "no fit", "mean gap", "largest gap", "at the bound"], rows),
                   held=claims.count(("held",)), claims=len(claims), least=least[0], slower=slower, faster=f"{int(faster):,}",
                   points=f"{int(points):,}", gain=f"{100 * (float(factor) - 1):.0f}")


def flow_bounds(results):
    """Returns the bounds of a linear program by network, for 1/4, 1/5 and 1/6."""
    bounds = {}
    for line in results.lines:
        if match := re.match(r"\$ python3 \S+ graphs/(\S+)-(\d+)\.json", line):
            current = bounds.setdefault(f"{match[1]}, {match[2]} px", [])
        elif match := re.search(r", ([\d.]+) % more", line):
            current.append(match[1])
    return bounds


def pofo_curve(results, flow):
    networks, parts, bounds = {}, ("1/4", "1/6"), flow_bounds(flow)
    for line in results.block():
        if match := re.match(r"([\w-]+), batch \d+, (\d+) px:", line):
            current = networks.setdefault(f"{match[1]}, {match[2]} px", {})
        elif match := re.match(r"(1/\d) +(.*)$", line):
            current[match[1]] = [cell.rstrip("*").replace("-", "–") for cell in match[2].split()]
    rows = [[name, *(found[part][column] for column in (2, 3, 4, 5) for part in parts), *(bounds[name][::2] if name in bounds else "––")]
            for name, found in networks.items()]
    claims = results.fields(r"(held|not held): best in parts")
    head = ["network", *(f"{name}, {part}" for name in ("`pofo`", "graph, fixed", "graph, pages", "graph, parts", "graph, bound") for part in parts)]
    return Figures(source=results.source(), table=table(head, rows), flow=flow.link(), held=claims.count(("held",)), claims=len(claims))


def best_sweep(results):
    best = {"paged": "sends,again,parts", "fixed": "sends,parts"}
    found, not_held, faults, comparisons = {}, [], 0, 0
    for memory, searches in best.items():
        command = f"{BENCH}best_sweep sweep --pixels 224 --step 5 --memory {memory} --best {searches}"
        for name, limits, fit, gap in results.fields(r"(\S.*?) {2,}(\d+) +(\d+) +([\d.]+) +[\d.]+ +[\d.]+ +[\d.]+$", command):
            found.setdefault(name, {})[memory] = f"{gap} ({fit})"
            if float(gap) > GAP_GOALS.get(name, float(gap)):
                not_held.append(f"*{name}*, {memory}, mean gap {gap} for {GAP_GOALS[name]}")
        for name, claim, mean, most in results.fields(r"not held +(best.*?): (within .*?): (mean .*?), (at most .*?),", command):
            not_held.append(f"*{name}*, {memory}, {claim}: {mean}, {most}")
        for wrong, count in results.fields(r"(?:held|not held) +best.*?: never slower .*?: (\d+) of (\d+)", command):
            faults, comparisons = faults + int(wrong), comparisons + int(count)
    rows = [[name, *(gaps.get(memory, "–") for memory in best), str(GAP_GOALS.get(name, "–"))]
            for name, gaps in found.items() if name not in ("base", "none", "recompute", "tflms")]
    return Figures(source=results.source(BENCH + "best_sweep sweep --pixels 224 --step 5 --memory KIND"), limits=limits, faults=faults,
                   comparisons=f"{comparisons:,}", table=table(["mean gap (memories that fit)", *best, "goal"], rows),
                   not_held="; ".join(not_held) or "none")


def practical_sweep(results):
    rows = []
    for label, parts in (("a whole core", 1), ("a third of a core", 3)):
        command = next(command for command in results.commands if command.startswith(f"SLOW_CLOCK={parts} "))
        summaries = {name: figures for name, *figures in results.fields(r"(fixed|pages|fixed / pages): (\d+) memories, mean ([\d.]+), most ([\d.]+)", command)}
        rows.append([label, *summaries["fixed"], *summaries["fixed / pages"][1:]])
    head = ["searches for 2 s, with", "memories that fit", "time / ideal, mean", "most", "fixed / pages, mean", "most"]
    ratio = (float(rows[0][4]) - 1) * 100
    work, = results.fields(r"fixed: \d+ memories, mean ([\d.]+)", results.commands[-1])
    return Figures(source=results.source("bench/papers/practical_sweep.sh"), table=table(head, rows), mean=rows[0][2], shared=rows[1][2], ratio=f"{ratio:.1f}",
                   work=work[0])


def large_graphs(results):
    rows = results.fields(r" *(\d+) tasks +(\d+) % +limit +([\d.]+) s: +([\d.]+) s, ([\d.]+) times the ideal, ended by (\w+)$")
    shown_rows = [[f"{int(tasks):,}", limit, *rest] for tasks, memory, limit, *rest in rows if memory == "35"]
    most = max(float(seconds) - float(limit) for tasks, _, limit, seconds, *_ in rows if int(tasks) < 5000)
    floor = max(float(seconds) for _, _, limit, seconds, *_ in rows if limit == "0.2")
    return Figures(source=results.source(), table=table(["tasks", "limit, s", "answer after, s", "time / ideal", "ended by"], shown_rows),
                   most=f"{most:.2f}", floor=f"{floor:.1f}")


def small_graphs(results):
    counts = {}
    for command in results.commands[1:]:  # the first one is of the time before
        for name, *figures in results.fields(r"(pages|fixed) +(\d+) graphs: optimal +(\d+) .* proved (\d+)", command):
            counts[name] = [a + int(b) for a, b in zip(counts.get(name, [0, 0, 0]), figures)]
    graphs, optimal, proved = counts["fixed"]
    return Figures(source=results.link(), graphs=graphs, optimal=optimal, paged=counts["pages"][1], proved=f"{proved + counts['pages'][2]} of {2 * graphs}")


def gpt2_medium(results):
    found = {}
    for line in results.lines:
        if match := re.match(r"\$ .*--memory ([\d.]+)GiB", line):
            memory = match[1]
        elif match := re.match(r"    slowdown +([\d.]+)x", line):
            found.setdefault(memory, ["–", "–"])[0] = match[1]
        elif match := re.match(r"([\d.]+) GiB, at .*, ([\d.]+) times", line):
            found.setdefault(match[1], ["–", "–"])[1] = f"{float(match[2]):.3f}"
    gap = max(100 * (float(ours) / float(bound) - 1) for ours, bound in found.values() if ours != "–")
    command = "tidepool schedule gpt.json --policy best --memory SIZE --link 12e9 --memory-kind paged --time-limit 15s"
    return Figures(source=results.source(command), gap=f"{gap:.1f}",
                   table=table(["memory, GiB", "`best`", "bound"], [[memory, *cells] for memory, cells in found.items()]))


def llama_layer_sweep(results):
    rows = results.fields(r" +(\d+) +(\d+) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$")
    head = ["layers", "tokens", "link, GB/s", "GiB", "ideal, ms", "recompute", "offload", "`best`", "`best` / the better"]
    return Figures(source=results.source(), points=len(rows), better=span([float(row[8]) for row in rows], "{:.2f}"),
                   table=table(head, [row for row in rows if row[2] == "25" and row[1] in ("1024", "4096", "16384", "65536")]))


def machine_options(results):
    rows = results.fields(r"(\S+) +32 +(\d+) % +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$")
    head = ["network", "memory, % of the peak", "plain", "20 GB/s", "200 GB/s", "2 streams", "4 streams", "200 GB/s, 4 streams"]
    return Figures(source=results.source(), table=table(head, rows))


def python_package(results):
    patterns = (r"elapsed time: import tidepool (\d+) ms", r"elapsed time: read and info .*? (\d+) ms, by the tool (\d+) ms", r"allocate and free of a buffer: (\d+) ns")
    rows = [[label, *(cell for pattern in patterns for cell in results.fields(pattern, command)[0])]
            for label, command in zip(("the interpreter's malloc", "jemalloc with huge pages"), results.commands)]
    head = ["malloc", "import tidepool, ms", "read in Python, ms", "read by the tool, ms", "allocate and free, ns"]
    return Figures(source=results.source(), table=table(head, rows))


def first_answer(results):
    data = results.data
    head = ["pip install, s", "first dry run, s", "together, s", "goal, s", "import tidepool, s"]
    row = [shown(data[name], form) for name, form in (("install_seconds", "{:.1f}"), ("dry_run_seconds", "{:.1f}"), ("seconds", "{:.1f}"),
                                                      ("goal_seconds", "{}"), ("import_seconds", "{:.2f}"))]
    return Figures(source=results.source("scripts/first_answer.py WHEEL PYTHON"), table=table(head, [row]), torch=data["torch"],
                   processors=data["processors"], load=data["load"])


def site(results):
    (elapsed, processors), = results.fields(r"([\d.]+) s elapsed, ([\d.]+) s of processors")
    return Figures(source=results.source("scripts/site.sh"), elapsed=f"{float(elapsed):.0f}", processors=f"{float(processors):.0f}")


def big_traces(results):
    pattern = r"(.+): (\d+) MB, (\d+) MB/s elapsed, (\d+) MB/s of processor time, ([\d.]+) times a count of lines, peak memory ([\d.]+) times the file"
    head = ["file", "MB", "MB/s elapsed", "MB/s of processor time", "elapsed / count of lines", "peak memory / file"]
    return Figures(source=results.source(), table=table(head, results.fields(pattern)), load=results.fields(r"load: ([\d.]+) ")[0][0])


def steps_of(results):
    """Returns the results of the GPU suite's steps by name, each as a list."""
    lists = {name: step.get("result", []) for name, step in results.data["steps"].items()}
    return {name: result if isinstance(result, list) else [result] for name, result in lists.items()}


def note_of(results, step):
    """Returns the run that a step is of, if it is another one."""
    return results.data["steps"][step].get("note", "of the same run")


def equal_losses(runs):
    """Returns the number of deterministic runs, and of those with the losses of the first run of their network."""
    first = {}
    runs = [run for run in runs if "losses" in run]
    return len(runs), sum(first.setdefault(run["model"], run["losses"]) == run["losses"] for run in runs)


def gpu_training(results):
    networks = {"resnet50": "ResNet-50, 64 images", "gpt2": "GPT-2 small, 8 x 1,024 tokens"}
    gib = 1 << 30
    steps = steps_of(results)
    rows = [[networks[step["model"]], step["allocator"], max(peak[0] for peak in step["peaks_of_steps"]) / gib, step["peaks_of_steps"][-1][1] / gib,
             1e3 * statistics.median(step["seconds_of_steps"][2:])] for step in steps["training"] if "peaks_of_steps" in step]
    pairs = [(native, planned) for native in rows for planned in rows if native[0] == planned[0] and (native[1], planned[1]) == ("native", "planned")]
    runs, equal = equal_losses(steps["equal_losses"])
    return Figures(source=results.source("scripts/gpu_suite.sh a"), runs=runs, equal=equal,
                   saved=span([100 * (1 - planned[3] / native[3]) for native, planned in pairs]),
                   longer=span([planned[4] / native[4] for native, planned in pairs], "{:.2f}"),
                   table=table(["network", "allocator", "live, GiB", "reserved, GiB", "median of a step, ms"],
                               [[*row[:2], f"{row[2]:.3f}", f"{row[3]:.3f}", f"{row[4]:.1f}"] for row in rows]))


def parts_of(results):
    """Returns the results of gpu_bench by name."""
    return {name: value for step, rows in steps_of(results).items() if step.startswith("bench_") for row in rows for name, value in row.items()}


def gpu_pairs(results):
    workloads = ["random/100", "random/1000", "random/10000", "checkpointing"]
    pairs = {}
    for row in parts_of(results)["pairs"]:
        pairs.setdefault(row["allocator"], {})[row["workload"]] = row["ns"]
    torch = [f"{span(row['pairs_ns'].values())} ns with `{row['allocator']}`" for row in steps_of(results)["pairs_torch"] if "pairs_ns" in row]
    slower = {name: f"{found['random/1000'] / pairs['tidepool, virtual memory']['random/1000']:.0f}" for name, found in pairs.items()}
    return Figures(source=results.source("scripts/gpu_suite.sh a"), torch=", ".join(torch), malloc_async=slower["cudaMallocAsync"], malloc=slower["cudaMalloc"],
                   table=table(["allocator", *workloads], [[name, *(shown(found.get(workload)) for workload in workloads)] for name, found in pairs.items()]))


def gpu_growth(results):
    parts = parts_of(results)
    rows = [[f"{row['what']}, {row['bytes'] >> 20} MiB at a time", f"{row['median_us']:.1f}", f"{row['p99_us']:.1f}"] for row in parts["growth"]]
    copies = [f"{row['memory']} memory {row['direction']} {row['gb_per_s']:.1f}" for row in parts["copies"]]
    return Figures(source=results.source("scripts/gpu_suite.sh a"), table=table(["growth", "median, us", "99th percentile, us"], rows),
                   copies=", ".join(copies), growth_note=note_of(results, "bench_growth"), copies_note=note_of(results, "bench_copies"))


def gpu_cudnn(results):
    rows = [[f"{network['network']}, {network['batch']} images", answer["type"], answer["policy"], *(f"{limit['speedup']:.2f}" for limit in network["limits"])]
            for step, answers in steps_of(results).items() if step in ("cudnn_float", "cudnn_half", "cudnn_all")
            for answer in answers for network in answer.get("networks", [])]
    return Figures(source=results.source("scripts/gpu_suite.sh b"), table=table(["network", "type", "sizes tried", "8 MiB", "64 MiB", "512 MiB"], rows),
                   note=note_of(results, "cudnn_all"), gains=span([float(cell) for row in rows for cell in row[3:]], "{:.2f}"))


def gpu_programs(results):
    none, best, native, limited = ("\n".join(results.block(command)) for command in results.commands)

    def program(label, text):
        losses = re.findall(r"iteration \d+ loss (\S+)", text)
        return [label, losses[0], losses[-1], re.search(r"exit status 0, ([\d.]+) s", text)[1]]

    def training(label, text):
        losses = re.search(r"losses (.*)", text)[1].split()
        return [label, f"{float(losses[0]):.8f}", f"{float(losses[-1]):.8f}", re.search(r"seconds of steps .* ([\d.]+),", text)[1]]

    rows = [program("ResNet-50, policy none in 16 GiB", none), program("ResNet-50, policy best in 3 GiB", best),
            training("AlexNet in PyTorch", native), training("the same, 8 MiB for a convolution", limited)]
    less, more = (f"{float(rows[slow][3]) / float(rows[fast][3]):.1f}" for slow, fast in ((1, 0), (3, 2)))
    live = [int(re.search(r"most bytes live (\d+)", text)[1]) / 1e6 for text in (native, limited)]
    return Figures(date=results.date, link=results.link(), table=table(["program", "first loss", "last loss", "seconds"], rows), less=less, more=more,
                   saved=f"{live[0] - live[1]:.0f}", live=f"{live[0]:,.0f}")


# Functions that take other files than the one of their own name.
FILES = {pofo_curve: ["pofo_curve", "flow_bound"], gpu_training: ["gpu_a"], gpu_pairs: ["gpu_a"], gpu_growth: ["gpu_a"], gpu_cudnn: ["gpu_b"]}
FIGURES = [placement, placement_quality, pool, pool_memory, policies, plan, cnmem, trace, big_traces, recorder, zvc, compression, pinned, regions, vdnnpp,
           vdnnpp_times, chain_policy, workspace, cudnn, micro_cudnn, modnn_figures, beaumont_figures, pofo_curve, best_sweep, practical_sweep, small_graphs, large_graphs, gpt2_medium, llama_layer_sweep,
           machine_options, python_package, first_answer, site, gpu_training, gpu_pairs, gpu_growth, gpu_cudnn, gpu_programs]


def filled(paragraph):
    """Returns a paragraph or a list in lines of at most 120 characters. Tables and headings keep theirs."""
    if re.match(r"[|#]", paragraph):
        return paragraph
    return "\n".join(textwrap.fill(line, 120, subsequent_indent="  " if line.startswith("- ") else "", break_long_words=False, break_on_hyphens=False)
                     for line in paragraph.split("\n"))


def page():
    files = newest_files()
    figures = {find.__name__: find(*(files[name] for name in FILES.get(find, [find.__name__]))) for find in FIGURES}
    text = TEXT.read_text(encoding="utf-8").format(**figures)
    return "\n\n".join(map(filled, text.rstrip("\n").split("\n\n"))) + "\n"


def main(arguments):
    text = page()
    if arguments not in ([], ["--check"]):
        print("usage: scripts/performance_page.py [--check]", file=sys.stderr)
        return 2
    if not arguments:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    there = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    for line in difflib.unified_diff(there.split("\n"), text.split("\n"), "docs/performance.md", "as generated", lineterm=""):
        print(line)
    if there != text:
        print("docs/performance.md differs from bench/results: run scripts/performance_page.py")
    return int(there != text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
