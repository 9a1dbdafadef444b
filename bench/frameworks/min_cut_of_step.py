# SPDX-License-Identifier: Apache-2.0
"""PyTorch's min-cut partitioner on the task graph of a training step: what it would keep for the backward pass.

The partitioner gets a joint graph of FX with a node for each task that makes data: its operator, the sizes of its results, and its
time. It answers with the data of the forward pass to keep. The rest is made again before the first task of the backward pass that reads
it, as in the graphs that PyTorch writes.
"""
import copy
import operator

import torch
from torch._functorch import config
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.custom_graph_pass import CustomRuntimeEstimator
from torch.utils.checkpoint import CheckpointPolicy

BUDGETS = [number / 20 for number in range(20, 0, -1)]  # of activation_memory_budget; at 0 PyTorch runs the whole forward pass again at once


class TaskTimes(CustomRuntimeEstimator):
    """Tells the partitioner the times of the tasks."""

    def __call__(self, node):
        return node.meta["seconds"]

    def uuid(self):
        return None


def passes(graph):
    """Returns the forward tasks and the backward tasks of each micro-batch."""
    found, before = [], "backward"
    for task in graph["tasks"]:
        if task["phase"] == "forward" and before != "forward":
            found.append(([], []))
        before = task["phase"]
        if before in ("forward", "backward"):
            found[-1][before == "backward"].append(task)
    return found


def operator_of(task):
    """Returns the operator of a task: in the graphs of the partitioner none works in place. Code outside of PyTorch is a copy that may not run
    again."""
    packet = getattr(torch.ops.aten, task["operation"].rstrip("_"), torch.ops.aten.clone)
    names = packet.overloads()
    return getattr(packet, "default" if "default" in names else names[0])


class Joint:
    """The joint graph of a micro-batch. `sizes` has the bytes of all data, and `older` the data that was made before."""

    def __init__(self, forward, backward, sizes, older):
        self.graph, self.sizes = torch.fx.Graph(), sizes
        self.nodes = {}  # by datum
        for name in sorted({name for task in forward + backward for name in task["reads"] + task["updates"] if name in older}):
            self.nodes[name] = self.input(f"primals_{len(self.nodes) + 1}", name)
        changed = {name for task in forward + backward for name in task["updates"]}
        for task in forward:
            self.add(task, not task["may_rerun"] or changed.intersection(task["writes"]))
        results = self.unread()
        self.count = len(results)
        tangent = self.input("tangents_1", "")
        for task in backward:
            self.add(task, False, tangent)
        self.graph.output((*results, *(node for node in self.unread() if node not in results)))

    def unread(self):
        return [node for node in self.graph.nodes if node.op == "call_function" and not node.users]

    def input(self, title, name):
        node = self.graph.placeholder(title)
        node.meta.update(val=self.tensor(name), seconds=0.0)
        return node

    def tensor(self, name):
        return torch.empty(self.sizes.get(name, 1), dtype=torch.uint8, device="meta")

    def add(self, task, is_kept, *more):
        """Adds the node of a task that makes data. Memory that the program holds has no end there."""
        if not task["writes"] or task["name"].endswith(" end"):
            return
        reads = [self.nodes[name] for name in task["reads"] + task["updates"] if name in self.nodes]
        node = self.graph.call_function(operator_of(task), (*reads, *more))
        tensors = [self.tensor(name) for name in task["writes"]]
        node.meta.update(val=tensors[0] if len(tensors) == 1 else tensors, seconds=task["algorithms"][0]["seconds"])
        parts = [node]
        if len(tensors) > 1:
            parts = [self.graph.call_function(operator.getitem, (node, at)) for at in range(len(tensors))]
            for part, tensor in zip(parts, tensors):
                part.meta.update(val=tensor, seconds=0.0)
        for one in {node, *parts} if is_kept else ():
            one.meta["recompute"] = CheckpointPolicy.MUST_SAVE
        self.nodes.update(zip(task["writes"], parts))

    def kept(self, budget):
        """Returns the data that PyTorch keeps for the backward pass."""
        module = torch.fx.GraphModule({}, copy.deepcopy(self.graph))
        # Without elimination of equal nodes: the arguments of operators that are no data are not in the graph.
        own = {"activation_memory_budget": budget, "activation_memory_budget_runtime_estimator": TaskTimes(), "cse": False}
        with config.patch(own):
            forward, _ = min_cut_rematerialization_partition(module, None, num_fwd_outputs=self.count)
        results = next(node for node in forward.graph.nodes if node.op == "output").args[0]
        kept = {node.name for node in results[self.count:]}
        return {name for name, node in self.nodes.items() if node.name in kept}


def with_reruns(graph, kept):
    """Returns the graph in which the backward pass makes data of the forward pass again that is not kept."""
    writers = {name: task for task in graph["tasks"] if task["phase"] == "forward" and task["may_rerun"] for name in task["writes"]}
    numbers = {task["name"]: number for number, task in enumerate(graph["tasks"])}
    bytes_of = {one["name"]: one["bytes"] for one in graph["data"]}
    again, data, tasks = {}, list(graph["data"]), []  # again: by datum, the one that is made in its place

    def is_gone(name):
        return name in writers and name not in kept

    def make(names):
        needed, left = {}, [name for name in names if is_gone(name) and name not in again]
        while left:
            task = writers[left.pop()]
            if task["name"] not in needed:
                needed[task["name"]] = task
                left += [name for name in task["reads"] if is_gone(name) and name not in again]
        for task in sorted(needed.values(), key=lambda one: numbers[one["name"]]):
            reads = [again.get(name, name) for name in task["reads"]]
            for name in task["writes"]:
                again[name] = f"{name} again"
                data.append({"name": again[name], "bytes": bytes_of[name], "kind": "activation"})
            tasks.append({**task, "name": f"{task['name']} again", "phase": "backward", "reads": reads, "writes": [again[name] for name in task["writes"]],
                          "may_rerun": False})

    for task in graph["tasks"]:
        reads = task["reads"]
        if task["phase"] != "forward":
            if task["name"].endswith(" end"):  # what is not there needs no end
                reads = [name for name in reads if not is_gone(name) or name in again]
                if not reads:
                    continue
            make(reads + task["updates"])
            reads = [again.get(name, name) for name in reads]
        tasks.append({**task, "reads": reads, "updates": [again.get(name, name) for name in task["updates"]]})
    return without_unread({**graph, "data": data, "tasks": tasks})


def without_unread(graph):
    """Returns the graph where results that no task reads are a part of the workspace of theirs."""
    used = {name for task in graph["tasks"] for name in task["reads"] + task["updates"]}
    used.update(one["name"] for one in graph["data"] if one.get("after"))
    bytes_of = {one["name"]: one["bytes"] for one in graph["data"]}
    data, tasks = [one for one in graph["data"] if one["name"] in used], []
    for task in graph["tasks"]:
        writes = [name for name in task["writes"] if name in used]
        unread = sum(bytes_of[name] for name in task["writes"] if name not in used)
        algorithm = task["algorithms"][0]
        tasks.append({**task, "writes": writes, "algorithms": [{**algorithm, "workspace": algorithm["workspace"] + unread}]})
        if not writes and not task["updates"]:
            tasks[-1]["writes"] = [f"{task['name']} done"]
            data.append({"name": f"{task['name']} done", "bytes": 1, "kind": "activation"})
    return {**graph, "data": data, "tasks": tasks}


def of_budgets(graph):
    """Returns the graph with reruns that PyTorch would run for each budget."""
    sizes = {one["name"]: one["bytes"] for one in graph["data"]}
    made = {name for task in graph["tasks"] for name in task["writes"]}
    older = set(sizes) - made
    joints = []
    for forward, backward in passes(graph):
        joints.append(Joint(forward, backward, sizes, older))
        older.update(name for task in forward + backward for name in task["writes"])
    return {budget: with_reruns(graph, set().union(*(joint.kept(budget) for joint in joints))) for budget in BUDGETS}
