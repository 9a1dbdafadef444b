# SPDX-License-Identifier: Apache-2.0
"""Memory and time of a training step after a change, computed from its graph."""
import math
import re

from . import roofline
from .graph import rounded

LEAST_SMALL_STATE = 4096  # elements: 8-bit optimizers keep the state of smaller weights in 32 bits
COPIES = ("_to_copy", "copy_", "clone")  # operators with a result that has as many elements as what they read
SMALL_BLOCK = 256  # elements of 8-bit state that share a factor of 32 bits


def peak(lives, extra):
    """Returns the most bytes of data that lives from one position to another, with the extra bytes of each position (None: the position
    does not count)."""
    change = [0] * (len(extra) + 1)
    for begin, end, bytes_ in lives:
        change[begin] += rounded(bytes_)
        change[end + 1] -= rounded(bytes_)
    live = most = 0
    for position, workspace in enumerate(extra):
        live += change[position]
        if workspace is not None:
            most = max(most, live + workspace)
    return most


def life(graph, datum):
    last = len(graph.tasks) - 1
    return datum.begin.number if datum.begin else 0, datum.death.number if datum.death else last


def seconds(graph):
    return sum(task.seconds for task in graph.tasks)


def without_update(graph, size):
    """Returns the peak where data has the bytes that `size` tells, and an update needs no temporary data."""
    return peak([(*life(graph, datum), size(datum)) for datum in graph.data],
                [None if task.phase == "update" else task.workspace for task in graph.tasks])


def bytes_of(graph, kind):
    return sum(datum.bytes for datum in graph.data if datum.kind == kind)


def growing(graph):
    """Returns the identities of the data that grows with the batch: the batch, and data computed from it or from nothing. Gradients of weights
    do not, nor does one in another type, of which they are copies. The batch comes from the host, or an earlier step or the program before
    its first one made it: it is no buffer then, and stays as it is."""
    fixed = {id(datum) for task in graph.tasks for datum in task.updates} | {id(datum) for datum in graph.data if datum.address in graph.step["buffers"]}
    found = {id(datum) for datum in graph.data if datum.kind == "input" and (datum.homes.get("before") == "host" or id(datum) not in fixed)}
    for task in graph.tasks:
        if task.phase == "update":
            continue
        used = [datum for datum in task.reads + task.updates if task in datum.users]  # not what the program lets go then
        if not used or any(id(datum) in found for datum in used):
            found.update(id(datum) for datum in task.writes if datum.kind != "weight-gradient")
    for task in reversed(graph.tasks):
        if task.phase == "backward" and task.operator in COPIES and any(id(datum) not in found for datum in task.writes + task.updates):
            found.difference_update(id(datum) for datum in task.reads if datum.kind == "gradient")
    return found


class Growth:
    """The memory and the time of a step with another batch, in parts of its own. Data and workspaces that depend on the batch, and times but
    for the launch, grow in proportion."""

    def __init__(self, graph):
        grows = growing(graph)
        self.tasks = graph.tasks
        self.live = []  # bytes while each task runs: those that stay, and those that grow
        fixed, grown = [0] * (len(graph.tasks) + 1), [0] * (len(graph.tasks) + 1)
        for datum in graph.data:
            begin, end = life(graph, datum)
            change = grown if id(datum) in grows else fixed
            change[begin] += rounded(datum.bytes)
            change[end + 1] -= rounded(datum.bytes)
        fixed_bytes = grown_bytes = 0
        for position, task in enumerate(graph.tasks):
            fixed_bytes += fixed[position]
            grown_bytes += grown[position]
            scratch = (task.workspace, 0) if task.phase == "update" else (0, task.workspace)
            self.live.append((fixed_bytes + scratch[0], grown_bytes + scratch[1]))
        self.has_any = bool(grows)

    def largest(self, budget):
        """Returns the largest batch of which the step takes at most `budget` bytes, or None where no data grows with it."""
        if not self.has_any:
            return None
        if any(fixed > budget for fixed, _ in self.live):
            return 0
        return min(((budget - fixed) / grown for fixed, grown in self.live if grown), default=math.inf)

    def peak(self, batch):
        return max(math.ceil(fixed + batch * grown) for fixed, grown in self.live)

    def slowdown(self, batch):
        """Returns the time of a sample, in parts of that in the step."""
        def of(task):
            launch = task.seconds if task.phase == "update" else min(task.seconds, roofline.LAUNCH)
            return launch + batch * (task.seconds - launch)

        return sum(map(of, self.tasks)) / batch / sum(task.seconds for task in self.tasks)


def state_on_host(graph, link):
    """Returns peak and slowdown where the host updates the weights: gradients go there, and weights come back."""
    copied = bytes_of(graph, "weight-gradient") + sum(datum.bytes for datum in graph.data if datum.kind == "weight" and
                                                      any(task.phase == "update" for task in datum.users))
    rest = sum(task.seconds for task in graph.tasks if task.phase != "update")
    return without_update(graph, lambda datum: 0 if datum.kind == "optimizer-state" else datum.bytes), (rest + copied / link) / seconds(graph)


def small_state(graph):
    """Returns the peak where the moments of Adam have 8 bits, and the name of the optimizer, or None without any of 32 bits."""
    moments = {address: optimizer for address, (_, name, type_, optimizer) in graph.step["states"].items()
               if optimizer in ("Adam", "AdamW") and name.startswith("exp_avg") and type_ == "torch.float32"}

    def size(datum):
        elements = datum.bytes // 4
        if datum.kind != "optimizer-state" or datum.address not in moments or elements < LEAST_SMALL_STATE:
            return datum.bytes
        return elements + 4 * -(-elements // SMALL_BLOCK)

    return (without_update(graph, size), min(moments.values())) if moments else None


def block_of(layer, depth):
    """Returns the block that a layer is in, or None: "blocks.3" of "blocks.3.attention", with `depth` parts that end in numbers."""
    found = re.match(r"(?:.*?\d+(?=\.|$)){%d}" % depth, layer)
    return found and found[0]


def forward_passes(graph):
    """Returns the number of the forward pass of each task before the backward pass of the last one. Micro-batches have one each."""
    numbers, number, is_backward = {}, 0, False
    for task in graph.tasks:
        if task.phase == "backward":
            is_backward = True
        elif task.phase == "forward":
            number += is_backward
            is_backward = False
            numbers[task.number] = number
    return numbers


def blocks(graph, depth, most_kinds=1):
    """Returns the forward tasks by blocks, in their order: for each block a list for each forward pass. A block has modules inside.
    Blocks with equal names but for numbers are of one kind: the kinds with most tasks count."""
    kinds, passes = {}, forward_passes(graph)
    for task in graph.tasks:
        block = block_of(task.layer, depth) if task.number in passes else None
        if block and not task.is_left_out:
            kind = kinds.setdefault(kind_of(block), {})
            kind.setdefault(block, {}).setdefault(passes[task.number], []).append(task)
    for kind in kinds.values():
        for block in [name for name, runs in kind.items() if all(task.layer == name for tasks in runs.values() for task in tasks)]:
            del kind[block]
    several = sorted((kind for kind in kinds.values() if len(kind) > 1), key=lambda kind: -sum(len(tasks) for runs in kind.values() for tasks in runs.values()))
    found = {block: list(runs.values()) for kind in several[:most_kinds] for block, runs in kind.items()}
    return dict(sorted(found.items(), key=lambda one: one[1][0][0].number))


def kind_of(block):
    return re.sub(r"\d+", "*", block)


def needed_again(block, tasks):
    """Returns the tasks of a block up to the last one with a result that its own backward pass reads: there PyTorch stops."""
    def is_read(datum):
        return any(task.phase == "backward" and (task.layer == block or task.layer.startswith(block + ".")) for task in datum.users)

    last = max((at for at, task in enumerate(tasks) if any(map(is_read, task.writes))), default=len(tasks) - 1)
    return tasks[:last + 1]


class Checkpoints:
    """A step in which some blocks keep their input alone, and run again in the backward pass."""

    def __init__(self, graph, chosen):
        self.graph = graph
        # The run of a block in one forward pass.
        runs = {(block, number): tasks for block, of_block in chosen.items() for number, tasks in enumerate(of_block)}
        self.block_of = {task.number: run for run, tasks in runs.items() for task in tasks}
        self.passes = forward_passes(graph)
        self.last_of = {number: task for task, number in self.passes.items()}  # the last task of each forward pass
        self.inner = {id(datum): self.block_of[datum.writer.number] for datum in graph.data if self.is_inner(datum)}
        self.order, self.again, self.place = [], {}, {}
        self.put_in_order(runs)

    def is_inner(self, datum):
        """Returns whether a datum is made in a block and used by no forward task outside of it."""
        block = datum.writer and datum.death and self.block_of.get(datum.writer.number)
        return bool(block) and all(self.block_of.get(task.number) == block for task in datum.users if task.phase == "forward")

    def put_in_order(self, runs):
        """Places the tasks, and those that run again before the first backward task that needs them."""
        for task in self.graph.tasks:
            if task.phase != "forward":
                for datum in task.reads + task.updates:
                    block = self.inner.get(id(datum))
                    if block and block not in self.again:
                        tasks = needed_again(block[0], runs[block])
                        self.again[block] = {one.number: len(self.order) + at for at, one in enumerate(tasks)}
                        self.order += tasks
            self.place[task.number] = len(self.order)
            self.order.append(task)

    def is_filled_again(self, datum):
        """Returns whether a block fills memory that is freed in the forward pass, such as that of gathered weights: the backward pass has its
        own."""
        return (datum.death is not None and datum.death.phase == "forward" and
                any(task.number in self.block_of and datum in task.updates for task in datum.users))

    def lives(self, datum):
        begin, end = life(self.graph, datum)
        block = self.inner.get(id(datum))
        again = self.again.get(block)
        if self.is_filled_again(datum):
            return [(self.place[begin], self.place[end])]
        if again is None or begin not in again:
            users = [self.again.get(self.block_of.get(task.number), {}).get(task.number, 0) for task in datum.users]
            return [(self.place[begin], max([self.place[end], *users]))]
        forward = [task.number for task in datum.users if task.phase == "forward"] or [begin]
        is_kept = self.graph.tasks[end].phase != "forward"
        # Autocast is taken to last until the end of the forward pass.
        last = self.last_of[self.passes[begin]] if datum.writer.flags["is_cached"] else forward[-1]
        return [(self.place[begin], self.place[last]),
                (again[begin], self.place[self.last_use(datum, end)] if is_kept else again.get(forward[-1], max(again.values())))]

    def last_use(self, datum, end):
        """Returns the number of the task after which data that ran again is freed. PyTorch adds up gradients of operands that were repeated
        before it frees the data that a node saved, and data that ran again has gone by then."""
        while self.graph.tasks[end].operator == "sum" and self.graph.tasks[end] not in datum.users:
            end -= 1
        return end

    def peak(self):
        return peak([(*life_, datum.bytes) for datum in self.graph.data for life_ in self.lives(datum)],
                    [task.workspace for task in self.order])

    def slowdown(self):
        return sum(task.seconds for task in self.order) / seconds(self.graph)


def checkpoints(graph, budget):
    """Returns the blocks to run again so that the step fits in the budget, with peak, slowdown and the number of all blocks: as few as
    suffice, or as take the least, of one kind or of all kinds. None where the program has no blocks."""
    found = [blocks(graph, depth, most_kinds) for depth in (1, 2) for most_kinds in (1, None)]
    made = [fewest(graph, one, budget) for number, one in enumerate(found) if one and one not in found[:number]]
    return min(made, key=lambda one: (one["peak"] > budget, one["slowdown"] if one["peak"] <= budget else one["peak"]), default=None)


def fewest(graph, found, budget):
    """Returns the fewest first blocks that suffice, or that take as little as all of them. Further blocks are taken to need no more memory."""
    names = list(found)

    def with_first(count):
        return with_blocks(graph, {name: found[name] for name in names[:count]}, len(names))

    least, most = 1, len(names)
    enough = max(budget, with_first(most)["peak"])
    while least < most:
        middle = (least + most) // 2
        least, most = (least, middle) if with_first(middle)["peak"] <= enough else (middle + 1, most)
    return with_first(most)


def with_blocks(graph, chosen, count):
    step = Checkpoints(graph, chosen)
    return {"blocks": list(chosen), "of": count, "peak": step.peak(), "slowdown": step.slowdown()}
