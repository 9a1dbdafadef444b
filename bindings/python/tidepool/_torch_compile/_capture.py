# SPDX-License-Identifier: Apache-2.0
"""The joint graph of forward and backward as a task graph.

Operators with results that have storage of their own are tasks, and the storages are data. Views belong to their users.
Parameters, inputs and tangents are no data: others hold them, so the budget is reduced by them. Two tasks of no time stand
for the caller: one between forward and backward reads the forward's results, and one at the end reads all gradients too.

An operator may have small results beside a large one, such as the statistics of a normalization. They stay when the operator
runs again for the large one: a task of no time that follows the operator writes them.
"""
import dataclasses
import operator
from typing import Any, Dict, List, Set

import torch
from torch import fx

from . import _private
from ._costs import Costs, round_up, tensors_of

__all__ = ["BORDER", "END", "Captured", "Fusion", "Unsupported", "capture", "check", "describe_task", "device_of", "least_memory", "needed_by",
           "without_between", "without_gradients"]

BORDER = "begin of backward"
END = "end of backward"
_SMALL = 16  # an operator's results of at most a 16th of its largest one are small
_SMALL_RESULT = 1 << 20  # bytes; PyTorch's allocator keeps tensors of up to 1 MiB in segments of 2 MiB, which they share
_TANGENTS = "tangents"  # a datum that BORDER writes and each backward task reads, so that none runs before it
_HELD = "held by the caller"  # a datum that END updates, so that it is a task


class Unsupported(Exception):
    """A graph that runs without a schedule. The text says why."""


@dataclasses.dataclass
class Fusion:
    """Operators of a joint graph that Inductor fuses with others."""

    inlined: Set[fx.Node] = dataclasses.field(default_factory=set)  # that run beside each of their users, as views do
    seconds: Dict[fx.Node, float] = dataclasses.field(default_factory=dict)  # of others: their part of a kernel's time
    over: Dict[fx.Node, fx.Node] = dataclasses.field(default_factory=dict)  # operators that write over the result of another


@dataclasses.dataclass
class Captured:
    """A task graph, and its nodes in the joint graph."""

    document: Dict[str, Any]  # the task graph as its JSON
    forward_results: List[Any]
    backward_results: List[Any]
    node: Dict[str, fx.Node]  # of each task
    small: Dict[str, fx.Node]  # of each task that writes an operator's small results, among `node` too
    maker: Dict[str, fx.Node]  # of each datum: the node that has it as its value
    datum: Dict[int, str]  # of each storage
    views: Set[fx.Node]
    inlined: Set[fx.Node]  # among `views`
    mutated: Set[fx.Node]  # inputs that the step changes
    outside_bytes: int  # bytes of parameters and inputs
    tangent_bytes: int  # bytes of tangents, which exist from the border on
    clone_bytes: int  # bytes of the inputs that are cloned because the step changes them
    trained_bytes: int  # bytes of the inputs that take a gradient
    gradient_bytes: int  # bytes of the backward pass's results
    kept_outside: Set[str]  # results of the backward pass that are no data of the schedule
    new_values: Dict[int, fx.Node]  # forward results, by number, that are copied into inputs between the passes, and freed
    small_results: Set[str]  # of the forward pass, such as a loss, which programs hold until their next step

    @property
    def tasks(self):
        return self.document["tasks"]

    @property
    def data(self):
        return self.document["data"]


# Checks ---------------------------------------------------------------------------------------------


def device_of(graph):
    """Returns the one device of a graph: its GPU, or the CPU if all tensors are there. Raises Unsupported for others."""
    devices = {tensor.device for node in graph.nodes for tensor in tensors_of(node.meta.get("val"))}
    outer = {device for device in devices if device.type != "cpu"}
    if len(outer) > 1:
        raise Unsupported(f"it has tensors on several devices ({', '.join(sorted(map(str, outer)))})")
    device = next(iter(outer), torch.device("cpu"))
    if device.type not in ("cpu", "cuda"):
        raise Unsupported(f"it runs on {device}, expected a CUDA device")
    return device


_COLLECTIVES = ("_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "_dtensor")


def check(graph):
    """Raises Unsupported for graphs with operators that cannot be put into another order, or without fixed sizes."""
    for node in graph.nodes:
        if node.op in ("placeholder", "call_function") and any(
                _private.has_symbols(leaf) for leaf in _private.tree_leaves(node.meta.get("val"))):
            raise Unsupported("its shapes are dynamic; torch.compile(..., dynamic=False) makes a plan for each shape")
        if node.op in ("call_module", "call_method"):
            raise Unsupported(f"it calls {node.target}, expected operators")
        if node.op == "call_function" and node.target is not operator.getitem:
            if _private.is_in_place(node.target):
                raise Unsupported(f"{node.target} changes a tensor in place")
            if any(argument.op == "get_attr" and "val" not in argument.meta for argument in node.all_input_nodes):
                raise Unsupported(f"{node.target} has graphs of its own")
            if not tensors_of(node.meta.get("val")) and node.is_impure():
                raise Unsupported(f"{node.target} has an effect besides its result")
    others = _private.other_inputs(graph)
    if others:
        raise Unsupported(f"it has the input {others[0].name}, expected parameters, inputs and tangents")


# Storages -------------------------------------------------------------------------------------------


def _storages(values):
    """Returns the keys of the storages of nodes, in order."""
    return list(dict.fromkeys(_private.storage_key(tensor) for node in values if isinstance(node, fx.Node)
                              for tensor in tensors_of(node.meta.get("val"))))


class _Storages:
    """The storages of a graph: which are held outside, and which operator makes each of the others.

    inlined: operators that run beside each of their users, as views do, so that their results are no data.
    """

    def __init__(self, graph, device, inlined):
        self.inlined = inlined
        self.sources = {}  # storage of an inlined result -> the storages that it is computed from
        self.outside = set(_storages(node for node in graph.nodes if node.op in ("placeholder", "get_attr")))
        self.made_by = {}  # operator -> its new storages
        self.maker = {}  # storage -> the first node with a value in it
        self.bytes = {}
        self.views = set()
        for node in graph.nodes:
            if node.op == "call_function":
                self._add(node, device)

    def _add(self, node, device):
        if node.target is operator.getitem:
            self._add_part(node)
            return
        new = [key for key in _storages([node]) if key not in self.outside and key not in self.bytes and key not in self.sources]
        if not new:
            self.views.add(node)
            return
        if node in self.inlined:
            self.views.add(node)
            sources = self._with_sources(_storages(node.all_input_nodes))
            self.sources.update(dict.fromkeys(new, sources))
            return
        self.made_by[node] = new
        for tensor in tensors_of(node.meta["val"]):
            # A tensor of the host beside those of a GPU takes no memory of the budget.
            size = tensor.untyped_storage().nbytes() if tensor.device.type == device.type else 0
            self.bytes.setdefault(_private.storage_key(tensor), round_up(size))
        if isinstance(node.meta["val"], torch.Tensor):
            self.maker[new[0]] = node

    def _add_part(self, node):
        """Adds one of several results of an operator."""
        made = self.made_by.get(node.args[0])
        if made is None:
            self.views.add(node)
            return
        for key in _storages([node]):
            if key not in made:
                raise Unsupported(f"{node.args[0].target} returns a view beside new tensors")
            self.maker.setdefault(key, node)

    def inside(self, nodes):
        """Returns the storages of nodes that operators of the graph make."""
        return [key for key in self._with_sources(_storages(nodes)) if key not in self.outside]

    def _with_sources(self, keys):
        """Returns storages with those that inlined results are computed from in the place of these."""
        return list(dict.fromkeys(source for key in keys for source in self.sources.get(key, [key])))


def _bytes_outside(nodes):
    """Returns the bytes of the storages of nodes, each once."""
    sizes = {_private.storage_key(tensor): round_up(tensor.untyped_storage().nbytes())
             for node in nodes for tensor in tensors_of(node.meta.get("val"))}
    return sum(sizes.values())


# The order of the joint graph -----------------------------------------------------------------------


def needed_by(results):
    """Returns the nodes that results are computed from."""
    needed, left = set(), [node for node in results if isinstance(node, fx.Node)]
    while left:
        node = left.pop()
        if node not in needed:
            needed.add(node)
            left += node.all_input_nodes
    return needed


def _divide(operators, forward_results):
    """Returns the operators of the forward pass and those of the backward pass, each in order."""
    needed = needed_by(forward_results)
    begin = next((i for i, node in enumerate(operators) if _private.is_backward(node) and node not in needed),
                 len(operators))
    forward = [node for i, node in enumerate(operators) if i < begin or node in needed]
    known = set(forward)
    return forward, [node for node in operators if node not in known]


# Tasks ----------------------------------------------------------------------------------------------


def _runs_once(node):
    """Returns whether an operator must not run again: it is random, it calls others that may be, or it is a collective, since ranks have
    schedules of their own and must run collectives in one order."""
    tags = getattr(node.target, "tags", ())
    return (torch.Tag.nondeterministic_seeded in tags or _private.is_of_higher_order(node.target) or
            getattr(node.target, "namespace", "") in _COLLECTIVES)


class _Maker:
    """Makes the tasks and data of a graph."""

    def __init__(self, graph, device, costs, fusion, forward_results, backward_results, gradients_outside):
        self.gradients_outside = gradients_outside
        self.storages = _Storages(graph, device, fusion.inlined)
        self.costs = costs
        self.seconds = fusion.seconds
        self.over = fusion.over
        self.ends = set(self.storages.inside(backward_results))
        operators = self.storages.made_by
        self.read = set(self.storages.inside([*forward_results, *backward_results])).union(
            *(self.storages.inside(node.all_input_nodes) for node in operators))
        self.names = {}  # storage -> datum
        self.data = [_datum(_TANGENTS, round_up(1), "gradient"), _datum(_HELD, round_up(1), "optimizer-state")]
        self.tasks = []
        self.small = {}

    def names_of(self, nodes):
        return sorted({self.names[key] for key in self.storages.inside(nodes)})

    def _bytes(self, key):
        return round_up(1) if self.gradients_outside and key in self.ends else self.storages.bytes[key]

    def _kind(self, key, phase):
        if phase == "forward":
            return "activation"
        return "weight-gradient" if key in self.ends else "gradient"

    def add(self, node, phase):
        """Adds the task of an operator. Results that nothing reads are a part of its workspace."""
        made = self.storages.made_by[node]
        kept = [key for key in made if key in self.read and key in self.storages.maker]
        if not kept:
            return
        if node in self.over:
            self._add_over(node, phase)
            return
        for key in kept:
            self.names[key] = self.storages.maker[key].name
            self.data.append(_datum(self.names[key], self._bytes(key), self._kind(key, phase)))
        may_rerun = phase == "forward" and not _runs_once(node)
        small = self._small(kept) if may_rerun else []
        seconds, workspace = (self.seconds[node], 0) if node in self.seconds else self.costs.of(
            node, sum(self.storages.bytes[key] for key in made))
        workspace += sum(self.storages.bytes[key] for key in made if key not in kept or key in small)
        reads = self.names_of(node.all_input_nodes) + ([_TANGENTS] if phase == "backward" else [])
        large = [self.names[key] for key in kept if key not in small]
        self.tasks.append({"name": node.name, "phase": phase, "reads": reads, "writes": large, "may_rerun": may_rerun,
                           "algorithms": [{"name": "eager", "seconds": seconds, "workspace": workspace}]})
        if small:
            name = f"small results of {node.name}"
            self.small[name] = node
            self._add_untimed(name, phase, large, writes=[self.names[key] for key in small])

    def _add_over(self, node, phase):
        """Adds the task of an operator that writes its result over a datum, which nothing else reads afterwards."""
        name = self.names[_private.storage_key(self.over[node].meta["val"])]
        self.names[self.storages.made_by[node][0]] = name
        reads = [one for one in self.names_of(node.all_input_nodes) if one != name]
        self.tasks.append({"name": node.name, "phase": phase, "reads": [*reads, _TANGENTS], "writes": [], "updates": [name],
                           "may_rerun": False, "algorithms": [{"name": "eager", "seconds": self.seconds[node], "workspace": 0}]})

    def _small(self, kept):
        """Returns the small ones of an operator's results."""
        largest = max(self._bytes(key) for key in kept)
        return [key for key in kept if self._bytes(key) * _SMALL <= largest]

    def add_caller(self, name, phase, reads, workspace=0, **result):
        """Adds a task that stands for the caller."""
        self._add_untimed(name, phase, reads, workspace, **result)

    def _add_untimed(self, name, phase, reads, workspace=0, **result):
        self.tasks.append({"name": name, "phase": phase, "reads": reads, **result,
                           "algorithms": [{"name": "none", "seconds": 0, "workspace": workspace}]})


def _datum(name, size, kind):
    return {"name": name, "bytes": size, "kind": kind}


def capture(module, forward_count, costs=None, link=50e9, between=0, gradients_outside=False, fusion=None):
    """Returns the task graph of a joint graph. Its first `forward_count` results are those of the forward pass.

    between: bytes that the caller takes between the passes, tangents included.
    fusion: which operators run beside their users, and the time of others that fuse.
    gradients_outside: whether the program keeps gradients beyond the step, so that they count as memory of others.
    Raises Unsupported for a graph that cannot be put into another order.
    """
    graph = module.graph
    check(graph)
    device = device_of(graph)
    results = list(next(node for node in graph.nodes if node.op == "output").args[0])
    forward_results, backward_results = results[:forward_count], results[forward_count:]
    maker = _Maker(graph, device, costs or Costs(device), fusion or Fusion(), forward_results, backward_results, gradients_outside)
    forward, backward = _divide(list(maker.storages.made_by), forward_results)
    for node in forward:
        maker.add(node, "forward")
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    tangent_bytes = _bytes_outside(node for node in placeholders if _private.is_tangent(node))
    maker.add_caller(BORDER, "backward", maker.names_of(forward_results), max(0, between - tangent_bytes),
                     writes=[_TANGENTS])
    for node in backward:
        maker.add(node, "backward")
    # New values of buffers are copied into them between the passes, and freed: the operators that make them may run again.
    mutated, new_values = _private.mutations(graph, forward_count)
    held = [node for i, node in enumerate(results) if i not in new_values]
    maker.add_caller(END, "update", maker.names_of(held), updates=[_HELD])
    inputs = [node for node in placeholders if not _private.is_tangent(node)]
    makers = [(maker.storages.maker[key], name) for key, name in maker.names.items()]
    own_results = maker.names_of(held[:forward_count - len(new_values)])
    return Captured(
        document={"tidepool_graph": 2, "name": "joint graph", "link": int(link), "data": maker.data, "tasks": maker.tasks},
        forward_results=forward_results, backward_results=backward_results,
        node={**{node.name: node for node in maker.storages.made_by}, **maker.small}, small=maker.small,
        maker={name: node for node, name in makers if node not in maker.over}, datum=maker.names,
        views=maker.storages.views, inlined=maker.storages.inlined, mutated=mutated, outside_bytes=_bytes_outside(inputs),
        tangent_bytes=tangent_bytes,
        clone_bytes=_bytes_outside(mutated),
        trained_bytes=_bytes_outside(node for node in inputs if getattr(node.meta["val"], "requires_grad", False)),
        gradient_bytes=sum(maker.storages.bytes[key] for key in maker.ends),
        kept_outside={maker.names[key] for key in maker.ends if gradients_outside and key in maker.names},
        new_values=new_values,
        small_results={datum["name"] for datum in maker.data if datum["bytes"] <= _SMALL_RESULT and datum["name"] in own_results})


# The least memory -----------------------------------------------------------------------------------


def _uses(task):
    """Returns the data that is on the device while a task runs."""
    return {*task["reads"], *task.get("writes", ()), *task.get("updates", ()), _HELD}


def least_memory(document):
    """Returns the bytes of the task that needs the most, and its name. No schedule of the graph needs less."""
    size = {datum["name"]: datum["bytes"] for datum in document["data"]}
    needs = {task["name"]: sum(size[name] for name in _uses(task)) + task["algorithms"][0].get("workspace", 0)
             for task in document["tasks"]}
    worst = max(needs, key=needs.get)
    return needs[worst], worst


def without_between(document):
    """Returns a task graph without the memory that the caller takes between the passes."""
    tasks = [{**task, "algorithms": [{**task["algorithms"][0], "workspace": 0}]} if task["name"] == BORDER else task
             for task in document["tasks"]]
    return {**document, "tasks": tasks}


def without_gradients(document):
    """Returns a task graph without the memory of the backward pass's results."""
    data = [{**datum, "bytes": round_up(1)} if datum["kind"] == "weight-gradient" else datum for datum in document["data"]]
    return {**document, "data": data}


def describe_task(captured, name):
    """Returns a task as an error names it: its operator, and the module that it belongs to."""
    if name == BORDER:
        return "the code between the forward and the backward pass"
    if name == END:
        return "the end of the backward pass, with all gradients,"
    node = captured.node[name]
    modules = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    path = next((str(entry[0]) for entry in reversed(list(modules.values()))), "")
    return f"the operator {name} ({node.target})" + (f" of the module {path}" if path else "")
