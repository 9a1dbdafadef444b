# SPDX-License-Identifier: Apache-2.0
"""Memory and time of a training step after a change, computed from its graph."""
import re

from .graph import rounded

LEAST_SMALL_STATE = 4096  # elements: 8-bit optimizers keep the state of smaller weights in 32 bits
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


def state_on_host(graph, link):
    """Returns peak and slowdown where the host updates the weights: gradients go there, and weights come back."""
    copied = bytes_of(graph, "weight-gradient") + sum(datum.bytes for datum in graph.data if datum.kind == "weight" and
                                                      any(task.phase == "update" for task in datum.users))
    rest = sum(task.seconds for task in graph.tasks if task.phase != "update")
    return without_update(graph, lambda datum: 0 if datum.kind == "optimizer-state" else datum.bytes), (rest + copied / link) / seconds(graph)


def small_state(graph):
    """Returns the peak where the moments of Adam have 8 bits, or None without any of 32 bits."""
    moments = {address for address, (_, name, type_, optimizer) in graph.step["states"].items()
               if optimizer in ("Adam", "AdamW") and name.startswith("exp_avg") and type_ == "torch.float32"}

    def size(datum):
        elements = datum.bytes // 4
        if datum.kind != "optimizer-state" or datum.address not in moments or elements < LEAST_SMALL_STATE:
            return datum.bytes
        return elements + 4 * -(-elements // SMALL_BLOCK)

    return without_update(graph, size) if moments else None


def block_of(layer, depth):
    """Returns the block that a layer is in, or None: "blocks.3" of "blocks.3.attention", with `depth` numbers in its name."""
    found = re.match(r"(?:.*?(?:^|\.)\d+(?=\.|$)){%d}" % depth, layer)
    return found and found[0]


def blocks(graph, depth):
    """Returns the tasks of the first forward pass by blocks, in their order. A block has modules inside. Blocks with equal names but for
    numbers are of one kind: of several, the one with most tasks counts."""
    kinds = {}
    for task in graph.tasks:
        if task.phase == "backward":
            break
        block = block_of(task.layer, depth)
        if block and not task.is_left_out:
            kinds.setdefault(re.sub(r"\d+", "*", block), {}).setdefault(block, []).append(task)
    for kind in kinds.values():
        for block in [name for name, tasks in kind.items() if all(task.layer == name for task in tasks)]:
            del kind[block]
    found = max(kinds.values(), key=lambda one: sum(map(len, one.values())), default={})
    return found if len(found) > 1 else {}


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
        self.block_of = {task.number: block for block, tasks in chosen.items() for task in tasks}
        self.inner = {id(datum): self.block_of[datum.writer.number] for datum in graph.data if self.is_inner(datum)}
        self.order, self.again, self.place = [], {}, {}
        self.put_in_order(chosen)

    def is_inner(self, datum):
        """Returns whether a datum is made in a block and used by no forward task outside of it."""
        block = datum.writer and datum.death and self.block_of.get(datum.writer.number)
        return bool(block) and all(self.block_of.get(task.number) == block for task in datum.users if task.phase == "forward")

    def put_in_order(self, chosen):
        """Places the tasks, and those that run again before the first backward task that needs them."""
        for task in self.graph.tasks:
            if task.phase != "forward":
                for datum in task.reads + task.updates:
                    block = self.inner.get(id(datum))
                    if block and block not in self.again:
                        tasks = needed_again(block, chosen[block])
                        self.again[block] = {one.number: len(self.order) + at for at, one in enumerate(tasks)}
                        self.order += tasks
            self.place[task.number] = len(self.order)
            self.order.append(task)

    def lives(self, datum):
        begin, end = life(self.graph, datum)
        block = self.inner.get(id(datum))
        again = self.again.get(block)
        if again is None or begin not in again:
            users = [self.again.get(self.block_of.get(task.number), {}).get(task.number, 0) for task in datum.users]
            return [(self.place[begin], max([self.place[end], *users]))]
        forward = [task.number for task in datum.users if task.phase == "forward"] or [begin]
        is_kept = self.graph.tasks[end].phase != "forward"
        return [(self.place[begin], self.place[forward[-1]]),
                (again[begin], self.place[end] if is_kept else again.get(forward[-1], max(again.values())))]

    def peak(self):
        return peak([(*life_, datum.bytes) for datum in self.graph.data for life_ in self.lives(datum)],
                    [task.workspace for task in self.order])

    def slowdown(self):
        return sum(task.seconds for task in self.order) / seconds(self.graph)


def checkpoints(graph, budget):
    """Returns the blocks to run again so that the step fits in the budget, with peak, slowdown and the number of all blocks: as few as
    suffice, or all. None where the program has no blocks of one kind."""
    made = []
    for depth in (1, 2):
        found = blocks(graph, depth)
        names = list(found)
        for count in range(1, len(names) + 1):
            made.append(with_blocks(graph, {name: found[name] for name in names[:count]}, len(names)))
            if made[-1]["peak"] <= budget:
                break
    return min(made, key=lambda one: (one["peak"] > budget, one["slowdown"] if one["peak"] <= budget else one["peak"]), default=None)


def with_blocks(graph, chosen, count):
    step = Checkpoints(graph, chosen)
    return {"blocks": list(chosen), "of": count, "peak": step.peak(), "slowdown": step.slowdown()}
