# SPDX-License-Identifier: Apache-2.0
"""Changes that would make a program fit, and a larger batch that does: checked by further dry runs, or computed from the task graph of its step."""
import contextlib
import dataclasses
import itertools
import math
import pathlib
import re
import resource
import tempfile
import time

from . import answer as answers
from . import batches, budgets, graph, what_if
from .errors import DryRunError

MORE_MEMORY = 64  # times that of the GPU, for the run that tells how much the program needs
MOST_MEMORY = 1 << 44  # bytes of all GPUs together, which a process can address
GREEDY = 2  # times the memory of the GPU: a program that takes more in such a run may take what is free
STEPS = 3  # of further runs
STEPS_IN_BUDGET = 8  # tidepool.torch.offload measures a step, and corrects its plan by the next ones
MOST_CHECKS = 3  # of numbers of blocks that run again
CHEAP_SECONDS = 30  # of the processor: a program that fits and takes longer does not run once more for a larger batch
HOST_SHARE = 1 / 4  # of the host's free memory: no further run shall take more, if it takes that in proportion to the batch
NO_TIME = "no time left for further runs, expected a longer --time-limit"
SEARCH = "5s"  # for a schedule
# Files with the limit of a control group and the memory that it takes: of version 2, and of version 1.
GROUPS = (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))


class FurtherRuns:
    """Further dry runs of a program, and the larger batch of one that fits. `run` is a DryRun, and `first` its answer."""

    def __init__(self, run, first):
        self.run, self.first = run, first
        self.memory = answers.available_bytes(answers.largest_of(first["ranks"]), first["memory_bytes"])
        self.folders = contextlib.ExitStack()
        self.end = time.monotonic() + run.options.time_limit_seconds

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folders.close()

    def dry_run(self, command=None, memory_bytes=None, **changes):
        """Runs the program once more, with the task graph of a step. Returns the answer and the rank that takes most memory. Raises
        DryRunError where it does not come to its end in the time of all further runs."""
        run, left = self.run, self.end - time.monotonic()
        if left <= 0:
            raise DryRunError(NO_TIME)
        folder = pathlib.Path(self.folders.enter_context(tempfile.TemporaryDirectory(prefix="tidepool-dryrun-")))
        options = dataclasses.replace(run.options, **{"records_steps": True, "steps": STEPS, "time_limit_seconds": left, **changes})
        machine = dataclasses.replace(run.machine, memory_bytes=memory_bytes or run.machine.memory_bytes)
        answer = run.answer(command or run.command, folder, options, machine)
        if answer["interrupted"] or answer["ran_out_of_time"]:
            self.end = 0
            raise DryRunError("a further run was interrupted" if answer["interrupted"] else NO_TIME)
        return answer, answers.largest_of(answer["ranks"])

    def enough_bytes(self):
        machine = self.run.machine
        return min(MORE_MEMORY * machine.memory_bytes, MOST_MEMORY // machine.devices)

    def with_enough(self, **changes):
        answer, rank = self.dry_run(memory_bytes=self.enough_bytes(), **changes)
        if answer["out_of_memory"]:
            raise DryRunError(f"the program runs out of memory in {answer['memory_bytes']} bytes too")
        return answer, rank

    def measured(self, found, **changes):
        """Returns a function, as batches.search() takes it, that runs the program with another batch, and adds the answer and the rank to `found`."""
        def measure(value):
            answer, rank = found[value] = self.with_enough(command=batches.with_value(self.run.command, value), **changes)
            return answer["reserved_range"][1], answers.serves(rank, self.memory, self.run.tool)

        return measure

    def larger_batch(self, step):
        """Returns how large the batch of a program that fits may be, or None where no memory grows with it. `step` is the graph of its step, or
        None. A program that takes little time runs once more for it, if its command names the batch."""
        word = batches.of(self.run.command)
        has_batch = word[1] > 0 if word else self.first["steps"] > 0
        computed = batches.computed(self.first, self.memory, step) if has_batch else None
        if computed is None:
            return None
        share, is_least, how = computed
        times, is_least = min(max(1.0, share), batches.MOST_GROWTH), is_least or share > batches.MOST_GROWTH
        if not word:
            return {"batch": None, "in_place_of": None, "times": math.floor(10 * times) / 10, "is_least": is_least, "checked": False, "how": how}
        batch = word[1]
        found, most, checked = math.floor(times * batch), batches.MOST_GROWTH * batch, False
        affordable = int(batch * HOST_SHARE * free_host_bytes() / (host_bytes() * len(self.first["ranks"])))
        if processor_seconds() <= CHEAP_SECONDS and affordable > batch:
            with contextlib.suppress(DryRunError):
                other, sizes = max(batch + 1, min(found, affordable)), {batch: self.first["reserved_range"][1]}
                sizes[other], fits = self.measured({}, records_steps=False)(other)
                found, how = max(batch, batches.on_line(sizes, self.memory, most)), "on the line through two dry runs"
                is_least = found == most
                if fits and found <= (1 + batches.CLOSE) * other:
                    found, checked, how = other, True, "checked by a dry run"
        return {"batch": found, "in_place_of": batch, "times": round(found / batch, 2), "is_least": is_least, "checked": checked, "how": how}


class Remedies:
    """The remedies of a program that does not fit. `needed` is its answer where there is enough memory, and `rank` the rank that takes most of
    it: FurtherRuns.with_enough()."""

    def __init__(self, further, needed, rank):
        self.further, self.run, self.memory = further, further.run, further.memory
        self.needed = needed
        self.is_integrated = self.run.machine.gpu.is_integrated
        live, reserved = needed["peak_live_bytes"], needed["reserved_range"][1]
        # PyTorch is assumed to reserve as much more than is live as it does there.
        self.budget = int(self.memory * min(1.0, live / reserved)) if reserved else self.memory  # live bytes
        self.graph = self.no_graph = None
        try:
            self.graph = graph.make(rank)
        except DryRunError as error:
            self.no_graph = str(error)

    def need_here(self):
        """Returns the bytes that a program which takes a share of the free memory would take of the GPU, on the line through two dry runs
        with more memory, or None where it takes the same in both, or does not run in the second one."""
        needed, memory_bytes = self.needed["reserved_range"][1], self.run.machine.memory_bytes
        if needed <= GREEDY * memory_bytes:
            return None
        most = self.further.enough_bytes()
        try:
            less, _ = self.further.dry_run(memory_bytes=most // 2, records_steps=False)
        except DryRunError:
            return None
        grown = needed - less["reserved_range"][1]
        if less["out_of_memory"] or grown <= batches.CLOSE * needed:
            return None
        return int(needed - grown / (most - most // 2) * (most - memory_bytes))

    def find(self):
        found = [self.smaller_batch()]
        if self.graph:
            found += [self.blocks_again(), self.in_budget(), self.scheduled(), self.eight_bits(), self.state_on_host()]
        return [one for one in found if one]

    def row(self, name, peak, slowdown, how, checked=False):
        return {"name": name, "peak_bytes": peak, "slowdown": slowdown and round(slowdown, 4), "checked": checked,
                "fits": peak is not None and peak <= self.budget, "how": how}

    def smaller_batch(self):
        """Returns the largest batch that was tried and fits, or None."""
        word = batches.of(self.run.command)
        if word is None:
            return self.part_of_batch()
        (words, batch), found = word, {}
        if batch < 2:
            return None
        share, *_ = batches.computed(self.needed, self.memory, self.graph) or (1 / 2,)
        value = batches.search(self.further.measured(found), {batch: self.needed["reserved_range"][1]}, math.floor(share * batch), self.memory, batch - 1)
        if value == 0:
            return None
        answer, rank = found[value]
        slowdown = None
        if self.graph:
            with contextlib.suppress(DryRunError):
                slowdown = seconds_of(graph.step_of(rank)[0]) / value / (seconds_of(self.graph.step) / batch)
        how = " ".join(batches.with_value(words, value))
        return {**self.row(f"batch {value} in place of {batch}", answer["peak_live_bytes"], slowdown, how, True), "fits": True}

    def part_of_batch(self):
        """Returns the row of a smaller batch of a program with a command that names none, computed from the graph, or None."""
        growth = self.graph and what_if.Growth(self.graph)
        found = growth and growth.largest(self.budget)
        part = math.floor(found * 100) / 100 if found else 0
        if not 0 < part < 1:
            return None
        return self.row(f"batch {part:.2f} times as large", growth.peak(part), growth.slowdown(part), "fewer or shorter samples in a step")

    def blocks_again(self):
        """Returns the row of as few blocks as suffice. Where a dry run takes more or less than was computed, more or fewer blocks are tried."""
        budget, row, best, tried = self.budget, None, None, []
        for _ in range(MOST_CHECKS):
            found = what_if.checkpoints(self.graph, budget)
            if found is None or found["blocks"] in tried:
                break
            row = self.of_blocks(found, found["peak"], found["slowdown"], False)
            try:
                answer, rank = self.further.with_enough(checkpoints=tuple(found["blocks"]))
                made = graph.make(rank)
            except DryRunError:
                break
            tried.append(found["blocks"])
            peak = answer["peak_live_bytes"]  # of all steps
            row = self.of_blocks(found, peak, seconds_of(made.step) / seconds_of(self.graph.step), True)
            budget = self.budget - (peak - found["peak"])
            if row["fits"]:
                best = min(best or row, row, key=lambda one: one["slowdown"])
            elif len(found["blocks"]) == found["of"]:
                break
            else:
                budget = min(found["peak"] - 1, budget)
        return best or row

    def of_blocks(self, found, peak, slowdown, is_checked):
        kinds = itertools.groupby(sorted(found["blocks"], key=what_if.kind_of), what_if.kind_of)
        parts = [f"{names[0]} to {names[-1]}" if names[1:] else names[0] for names in (list(kind) for _, kind in kinds)]
        return self.row(f"recompute {len(found['blocks'])} of {found['of']} blocks (checkpoint)", peak, slowdown,
                        f"torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) of {', '.join(parts)}", is_checked)

    def in_budget(self):
        """Returns the row of a dry run in a budget; None where that does not suffice, tidepool is not beside PyTorch, or data that
        moves to the host leaves no room."""
        if not self.run.target.compiles or self.is_integrated:
            return None
        try:
            answer, rank = self.further.dry_run(budget=self.budget, steps=STEPS_IN_BUDGET)
            if not answer["fits"]:
                return None
            seconds = seconds_of(graph.step_of(rank)[0])
        except DryRunError:
            return None
        budget = f"{self.budget >> 20}MiB"
        options = self.run.options
        how = None if options.is_function else budgets.command_with(options.command, budget, self.run.target.reads_budget)
        how = how or f'tidepool.torch.offload(model, budget="{budget}")'
        return {**self.row("offload and recompute modules", answer["peak_live_bytes"], seconds / seconds_of(self.graph.step), how, True),
                "fits": True}

    def scheduled(self):
        name = "recompute, chosen by tidepool" if self.is_integrated else "offload and recompute, chosen by tidepool"
        file = pathlib.Path(self.further.folders.enter_context(tempfile.TemporaryDirectory(prefix="tidepool-dryrun-")), "step.json")
        file.write_text(graph.text(self.graph, "step", self.run.machine.gpu))
        made = self.run.tool.ask("schedule", file, "--memory", self.budget, "--policy", "best", "--memory-kind", "paged",
                                 "--time-limit", SEARCH)
        if not made["fits"]:
            return self.row(name, None, None, made["why"])
        budget = f"{self.budget >> 20}MiB"
        how = f'tidepool.torch.compile(model, budget="{budget}")' + ("" if self.run.target.compiles else ", with tidepool beside PyTorch")
        if made["ended_by"] == "clock":
            how += f"; the best in {SEARCH} of search"
        return self.row(name, made["peak_device_bytes"], made["seconds"] / made["ideal_seconds"], how)

    def eight_bits(self):
        peak, name = what_if.small_state(self.graph) or (None, None)
        return peak and self.row("moments of Adam in 8 bits", peak, 1.0, f"bitsandbytes.optim.{name}8bit(model.parameters())")

    def state_on_host(self):
        if not what_if.bytes_of(self.graph, "optimizer-state") or self.is_integrated:
            return None
        peak, slowdown = what_if.state_on_host(self.graph, self.run.machine.gpu.link_bytes_per_second)
        how = f"torchao.optim.CPUOffloadOptimizer(model.parameters(), torch.optim.{self.graph.step['optimizers'][0]})"
        return self.row("optimizer state on the host", peak, slowdown, how)


def processor_seconds():
    """Returns the time on the processor of the runs so far, which does not depend on other work of the machine."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def host_bytes():
    """Returns the most memory of the host that a process of the runs so far took."""
    return max(1, 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)


def free_host_bytes(root="/"):
    """Returns the memory that the host can give without swapping, or less where the control group has a limit. `root` is the folder of its
    files."""
    free = 1024 * int(re.search(r"MemAvailable: *(\d+) kB", pathlib.Path(root, "proc/meminfo").read_text())[1])
    for names in GROUPS:
        with contextlib.suppress(OSError, ValueError):  # no group of this version, or "max"
            limit, taken = (int(pathlib.Path(root, "sys/fs/cgroup", name).read_text()) for name in names)
            free = min(free, max(0, limit - taken))
    return free


def seconds_of(step):
    """Returns the time of a step, in which copies may run beside kernels."""
    return (step["span"][1] - step["span"][0]) / 1e9
