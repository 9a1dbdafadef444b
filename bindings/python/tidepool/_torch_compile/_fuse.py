# SPDX-License-Identifier: Apache-2.0
"""Operators that follow each other in a written graph, as kernels of Inductor.

The order of a graph is that of its schedule, and stays. Between two products, copies or other operators with kernels of their own
lie operators of elements and reductions. Those of them that hand tensors to each other, or read the same ones, become a group:
one function, which Inductor compiles. Results that nothing else reads are never in memory.
"""
import copy
import itertools
import operator
import warnings
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple

import torch
from torch import fx

from . import _private, _random
from ._capture import Captured
from ._costs import Costs, assumed_seconds, tensors_of

__all__ = ["TAKEN_APART", "advance_reductions", "assumed_times", "extra_seconds", "found_over", "fuse", "inlined", "is_elementwise", "mark_updates", "measured_times", "within", "written_over"]

_aten = torch.ops.aten
_CONSTANTS = ("arange", "full", "full_like", "ones_like", "scalar_tensor", "zeros_like")
# Beside operators that PyTorch marks as pointwise. Inductor makes loops of all of them.
_ELEMENTWISE = ("_to_copy", "clone", "gelu_backward", "silu_backward", "sigmoid_backward", "tanh_backward", "threshold_backward",
                "native_dropout_backward", "where", "masked_fill", "hardswish_backward", "hardsigmoid_backward", "leaky_relu_backward",
                "elu_backward", "softplus_backward", "select_backward", "slice_backward", "scatter", *_CONSTANTS)
_WITH_ELEMENTS = {getattr(_aten, name) for name in _ELEMENTWISE} | {torch.ops.prims.convert_element_type}
_OTHERS = {getattr(_aten, name) for name in ("amax", "amin", "any", "cat", "embedding", "gather", "mean", "stack", "sum", "var_mean")}

# Operators that are taken apart, so that their parts fuse with others, and small results are kept in the place of large ones.
TAKEN_APART = ("_softmax", "_softmax_backward_data", "_log_softmax", "_log_softmax_backward_data", "nll_loss_forward",
               "nll_loss_backward", "native_layer_norm", "native_layer_norm_backward", "native_group_norm",
               "native_group_norm_backward", "_native_batch_norm_legit", "_native_batch_norm_legit_functional",
               "_native_batch_norm_legit_no_training", "native_batch_norm_backward", "_fused_rms_norm", "_fused_rms_norm_backward", *_random.TAKEN_APART)


def _storages(node: fx.Node) -> Set[int]:
    return {_private.storage_key(tensor) for tensor in tensors_of(node.meta.get("val"))}


def _is_view(node: fx.Node) -> bool:
    """Returns whether a node makes no memory and changes none: a view, or one of several results."""
    if node.op != "call_function" or not tensors_of(node.meta.get("val")) or _private.is_in_place(node.target):
        return False
    return _storages(node) <= set().union(*(_storages(one) for one in node.all_input_nodes), set())


def is_elementwise(target: _private.Operator) -> bool:
    """Returns whether each element of an operator's result has a value of its own."""
    return torch.Tag.pointwise in target.tags or target.overloadpacket in _WITH_ELEMENTS or target is _private.random_of_seed()


def _may_fuse(node: fx.Node) -> bool:
    """Returns whether Inductor makes loops of a node's operator, which takes nothing but tensors of one device, and no complex ones."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, _private.Operator) or _private.is_in_place(target):
        return False
    if torch.Tag.nondeterministic_seeded in target.tags or not (is_elementwise(target) or target.overloadpacket in _OTHERS):
        return False
    values = [one.meta.get("val") for one in (node, *node.all_input_nodes)]
    tensors = [tensor for value in values for tensor in tensors_of(value)]
    devices = {tensor.device for tensor in tensors if tensor.dim() or tensor.device.type != "cpu"}  # numbers may be on the CPU
    return len(devices) <= 1 and all(tensors_of(value) for value in values) and not any(tensor.is_complex() for tensor in tensors)


# Groups ---------------------------------------------------------------------------------------------


def _runs(graph: fx.Graph) -> List[List[fx.Node]]:
    """Returns the longest runs of nodes without another operator between them, each with its views."""
    runs: List[List[fx.Node]] = [[]]
    for node in graph.nodes:
        if _may_fuse(node) or (_is_view(node) and runs[-1]):
            runs[-1].append(node)
        elif runs[-1] and node.op != "placeholder":
            runs.append([])
    return runs


def _groups(run: Sequence[fx.Node]) -> List[List[fx.Node]]:
    """Divides the operators of a run into those that hand tensors to each other or read the same ones. Views are in none."""
    parent: Dict[int, int] = {}  # of each storage: another one of its group, or itself

    def first(storage: int) -> int:
        while parent.setdefault(storage, storage) != storage:
            storage = parent[storage]
        return storage

    operators = {node: next(iter(_storages(node))) for node in run if not _is_view(node)}
    for node, storage in operators.items():
        for other in _storages(node).union(*(_storages(one) for one in node.all_input_nodes)):
            parent[first(other)] = first(storage)
    groups: Dict[int, List[fx.Node]] = {}
    for node, storage in operators.items():
        groups.setdefault(first(storage), []).append(node)
    return list(groups.values())


class _Group:
    """A graph of its own for some operators of a run, and the nodes that it replaces."""

    def __init__(self, run: Sequence[fx.Node], operators: Sequence[fx.Node]):
        self.graph = fx.Graph()
        self.operators = operators
        self.inputs: List[fx.Node] = []
        self._inside: Dict[fx.Node, fx.Node] = {}
        made = set(operators)
        self.depends: List[fx.Node] = []  # nodes of the run that need the group's tensors: its operators, and views of their results
        for node in run:
            if node in made or any(one in made for one in node.all_input_nodes) and _is_view(node):
                made.add(node)
                self.depends.append(node)
        self._made = made
        own = set(operators)
        # A result of an operator with several is the node that takes it.
        self.results = [node for node in self.depends
                        if isinstance(node.meta["val"], torch.Tensor) and (node in own or self._is_part(node, own))
                        and self._leaves(node)]
        self._below = {storage for node in operators for storage in node.meta.get("over", ())}  # storages that results are to be written over
        for node in (*operators, *self.results):
            self._value(node)
        self.over: Dict[int, int] = {}  # result -> the input that it is written over
        for i, node in enumerate(self.results):
            self.over.update((i, j) for j in self._input_below(node) if j not in self.over.values())
        self.new = [node for i, node in enumerate(self.results) if i not in self.over]
        # Buffers such as running statistics, by the numbers of the results that are their new values.
        self.updates = {i: self.inputs[j] for i, j in self.over.items() if self.results[i].meta.get("is_update")}

    @staticmethod
    def _is_part(node: fx.Node, operators: Set[fx.Node]) -> bool:
        return node.target is operator.getitem and node.args[0] in operators

    def _leaves(self, node: fx.Node) -> bool:
        """Returns whether a node outside of the group reads a value, or a view of it."""
        return any(user not in self._made or (_is_view(user) and self._leaves(user)) for user in node.users)

    def _is_view_below(self, node: fx.Node) -> bool:
        """Returns whether a node outside is a view of a tensor that a result is written over: the group has a single input for that one."""
        return node.target is not operator.getitem and not self._below.isdisjoint(_storages(node)) and _is_view(node)

    def _input_below(self, node: fx.Node) -> List[int]:
        """Returns the number of the input that a result is written over, in a list; an empty one where something else may read it later."""
        storages = [one for one in node.meta.get("over", ()) if any(one in _storages(given) for given in self.inputs)]
        storage = storages[0] if storages else None
        found = [i for i, one in enumerate(self.inputs) if storage in _storages(one)]
        if len(found) != 1 or not _is_like(node.meta["val"], self.inputs[found[0]].meta["val"]):
            return []
        place = {one: i for i, one in enumerate(node.graph.nodes)}
        readers = [user for one in node.graph.nodes if storage in _storages(one) for user in one.users
                   if user not in self._made and not (_is_view(user) and storage in _storages(user))]
        return found if all(place[user] < place[self.depends[0]] for user in readers) else []

    def module(self, writes_over: bool) -> fx.GraphModule:
        """Returns a module that computes all results, or writes some of them over inputs and returns the others."""
        graph = copy.deepcopy(self.graph)
        inside = dict(zip(self.graph.nodes, graph.nodes))
        value = {node: inside[one] for node, one in self._inside.items()}
        for i, j in self.over.items() if writes_over else ():
            place = self.inputs[j]
            shaped = graph.call_function(_aten.view.default, (value[self.results[i]], list(place.meta["val"].size())))
            graph.call_function(_aten.copy_.default, (value[place], shaped))
        graph.output(tuple(value[node] for node in (self.new if writes_over else self.results)))
        return fx.GraphModule({}, graph)

    def value_of(self, i: int) -> torch.Tensor:
        """Returns the fake tensor of a result, which has the storage of an input that it is written over."""
        value = self.results[i].meta["val"]
        if i not in self.over:
            return value
        below = self.inputs[self.over[i]].meta["val"]
        with below.fake_mode:
            return below.view(value.size())

    def _value(self, node: fx.Node) -> fx.Node:
        if node not in self._inside:
            if node in self._made or self._is_view_below(node):
                arguments, keywords = fx.node.map_arg((node.args, node.kwargs), self._value)
                self._inside[node] = self.graph.call_function(node.target, arguments, keywords)  # names by its place alone
            else:
                self.inputs.append(node)
                self._inside[node] = self.graph.placeholder(f"input_{len(self.inputs)}")
                self._inside[node].meta["val"] = node.meta["val"]
        return self._inside[node]


def _replace(run: Sequence[fx.Node], group: _Group, function: Callable[..., Any], is_part: bool) -> None:
    """Puts a call of a function in the place of a group's first operator. Nodes of the run that it needs move before it.

    is_part: whether the group is a part of one that was divided."""
    graph = run[0].graph
    first = group.depends[0]
    needed = set(group.inputs)
    for node in reversed(run):
        needed.update(node.all_input_nodes if node in needed else ())
    for node in run[run.index(first):]:
        if node in needed:
            first.prepend(node)
    with graph.inserting_before(first):
        call = graph.call_function(function, tuple(group.inputs))
        call.meta["val"] = tuple(map(group.value_of, range(len(group.results))))
        call.meta["group"] = [node.meta.get("operator") for node in group.operators]
        call.meta["is_part"] = is_part
        call.meta["written_over"] = [group.results[i].meta.get("operator") for i in group.over]
        parts = [graph.call_function(operator.getitem, (call, i)) for i in range(len(group.results))]
    for i, (node, part, value) in enumerate(zip(group.results, parts, call.meta["val"])):
        if i in group.updates:
            node.replace_all_uses_with(group.updates[i])
            continue
        part.meta = {**node.meta, "val": value}
        views = _views_of(node)
        node.replace_all_uses_with(part)
        if value is not node.meta["val"]:
            _take_storage(views)


def _views_of(node: fx.Node) -> List[fx.Node]:
    """Returns the views of a node, those of views after these."""
    views = [user for user in node.users if _is_view(user)]
    return views + [one for view in views for one in _views_of(view)]


def _take_storage(views: Sequence[fx.Node]) -> None:
    """Gives views the storage that the tensor below them has now."""
    for view in views:
        arguments, keywords = fx.node.map_arg((view.args, view.kwargs), lambda one: one.meta["val"])
        with next(tensor.fake_mode for tensor in tensors_of(view.meta["val"])):
            view.meta = {**view.meta, "val": view.target(*arguments, **keywords)}


def mark_updates(graph: fx.Graph, inputs: Dict[int, fx.Node]) -> None:
    """Lets results of a written graph be written over the inputs of which they are the new values. `inputs`: those of the joint graph."""
    nodes = list(graph.nodes)
    given = {node.target: node for node in nodes if node.op == "placeholder" and not getattr(node.meta.get("val"), "requires_grad", False)}
    for i, changed in inputs.items():
        node = nodes[-1].args[0][i]
        if changed.target in given and list(node.users) == [nodes[-1]] and _may_fuse(node) and not _is_view(node):
            node.meta.update(over=(_private.storage_key(given[changed.target].meta["val"]),), is_update=True)


_Operators = Sequence[fx.Node]
_Divide = Callable[[_Operators], List[_Operators]]


def within(memory: int, levels: Dict[fx.Node, int], captured: Captured) -> _Divide:
    """Returns a function that divides the operators of a group, where together they would need more memory than a schedule has.

    A function holds all that it reads and writes at once, where the schedule lets data go between two operators. levels: the bytes
    that are there when each operator of the written graphs begins.
    """
    size = {datum["name"]: datum["bytes"] for datum in captured.data}

    def result_bytes(node: fx.Node) -> int:
        return 0 if "over" in node.meta else sum(size.get(captured.datum.get(key, ""), 0) for key in _storages(node))

    def divide(operators: _Operators) -> List[_Operators]:
        place = {node: i for i, node in enumerate(operators)}
        last = [max((place.get(user, len(operators)) for user in _users(node)), default=i) for i, node in enumerate(operators)]
        sizes = [result_bytes(node) for node in operators]
        # An inlined operator stays with its user.
        ends = [i for i, node in enumerate(operators, 1) if node.meta.get("operator") not in captured.inlined or i == len(operators)]
        found: List[_Operators] = []
        begin = 0
        while begin < len(operators):
            fitting = [end for end in ends if end > begin and levels[operators[begin]] + sum(
                sizes[i] for i in range(begin, end) if last[i] >= end) <= memory]
            end = max(fitting, default=min(end for end in ends if end > begin))
            found.append(operators[begin:end])
            begin = end
        return found

    return divide


def fuse(graph: fx.Graph, divide: _Divide = lambda operators: [operators]) -> None:
    """Replaces operators of a graph by calls of functions that Inductor compiled. The order of all others stays.

    divide: divides the operators of each group. A graph with symbols in its shapes stays as it is.
    """
    if any(_private.has_symbols(leaf) for node in graph.nodes for leaf in _private.tree_leaves(node.meta.get("val"))):
        return
    for run in _runs(graph):
        for operators in _groups(run):
            parts = divide(operators)
            for part in parts:
                group = _Group(run, part)
                if group.results and group.inputs:
                    _replace(run, group, _function(group), is_part=len(parts) > 1)
    graph.eliminate_dead_code()


# The joint graph ------------------------------------------------------------------------------------

_SMALL = 16  # a reduction has at most a 16th of the bytes that it reads


def _bytes(nodes: Iterable[fx.Node]) -> int:
    sizes = {_private.storage_key(tensor): tensor.untyped_storage().nbytes()
             for node in nodes for tensor in tensors_of(node.meta.get("val"))}
    return sum(sizes.values())


def advance_reductions(graph: fx.Graph) -> None:
    """Moves each reduction of one tensor, such as the gradient of a bias, to the operator of elements that makes it, so that they fuse."""
    for node in list(graph.nodes):
        if not _may_fuse(node) or _is_view(node) or _bytes([node]) * _SMALL > _bytes(node.all_input_nodes):
            continue
        views: List[fx.Node] = []
        inputs = node.all_input_nodes
        while len(inputs) == 1 and _is_view(inputs[0]):
            views.insert(0, inputs[0])
            inputs = inputs[0].all_input_nodes
        if len(inputs) == 1 and _may_fuse(inputs[0]):
            for moved in (node, *reversed(views)):
                inputs[0].append(moved)


class _Sources:
    """The nodes with the data that each operator of a graph reads, if some operators run beside their users."""

    def __init__(self) -> None:
        self.inlined: Set[fx.Node] = set()
        self._of: Dict[fx.Node, Set[fx.Node]] = {}
        self._count: Dict[fx.Node, int] = {}

    def of(self, node: fx.Node) -> Set[fx.Node]:
        """Returns the nodes with the data that an operator reads."""
        return set().union(*(self._of.get(one, {one}) for one in node.all_input_nodes))

    def count(self, node: fx.Node) -> int:
        """Returns how many operators run where this one is inlined."""
        return 1 + sum(self._count.get(one, 0) for one in node.all_input_nodes)

    def add(self, node: fx.Node, is_inlined: bool) -> None:
        if is_inlined:
            self.inlined.add(node)
        if is_inlined or _is_view(node):
            self._of[node] = self.of(node)
            self._count[node] = self.count(node) - (not is_inlined)


_MORE = 1.25  # bytes that an inlined result is computed from over its own, at most
_MORE_FOR_ONE = 2  # the same for a result with one user, which follows in the same kernel
_MOST_INLINED = 32  # operators that run again for one user


def inlined(graph: fx.Graph) -> Set[fx.Node]:
    """Returns operators of elements that run again beside each of their users, where they fuse: their results are never in memory.

    The data that they are computed from takes hardly more memory than their results, since it is kept in their place.
    """
    run_of = {node: (i, _private.is_backward(node)) for i, run in enumerate(_runs(graph)) for node in run}
    sources = _Sources()
    for node in graph.nodes:
        users = _users(node)
        may = (node in run_of and _has_elements(node) and users and all(_may_fuse(user) for user in users) and
               sources.count(node) <= _MOST_INLINED)
        more = _MORE_FOR_ONE if may and len(users) == 1 and run_of.get(users[0]) == run_of[node] else _MORE
        sources.add(node, bool(may) and _bytes(sources.of(node)) <= more * _bytes([node]))
    return sources.inlined


def _users(node: fx.Node) -> List[fx.Node]:
    """Returns the operators that read a node or views of it."""
    return [found for user in node.users for found in (_users(user) if _is_view(user) else [user])]


def _has_elements(node: fx.Node) -> bool:
    """Returns whether a node fuses, and each element of its result has a value of its own."""
    return _may_fuse(node) and not _is_view(node) and is_elementwise(node.target)


def _is_like(one: Any, other: Any) -> bool:
    """Returns whether a tensor can be written over another one, perhaps by a view of it."""
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    return (one.dtype == other.dtype and one.numel() == other.numel() and one.is_contiguous() and other.is_contiguous() and
            one.untyped_storage().nbytes() == other.untyped_storage().nbytes())


_LARGE = 4  # operators write over tensors of at least a 4th of the largest


def written_over(graph: fx.Graph, inlined: Set[fx.Node]) -> Dict[fx.Node, fx.Node]:
    """Returns operators of elements in the backward pass, and the operator that made the tensor that each reads last: the result takes its
    memory, as that of the gradient of a loss does.

    For large tensors alone, and those made since the last other large one: an operator with such a result cannot run again.
    """
    sources = _Sources()
    last: Dict[int, fx.Node] = {}  # storage -> the last operator that reads it, or the end
    for node in graph.nodes:
        sources.add(node, node in inlined)
        if node not in inlined and not _is_view(node):
            last.update((storage, node) for one in sources.of(node) for storage in _storages(one))
    made = [node for node in graph.nodes if node.op == "call_function" and node not in inlined and not _is_view(node)]
    largest = max((_bytes([node]) for node in made), default=0)
    large = [node for node in made if _bytes([node]) * _LARGE >= largest]
    found: Dict[fx.Node, fx.Node] = {}
    for below, node in zip(large, large[1:]):
        storages = _storages(below)
        if (_private.is_backward(node) and _has_elements(node) and below in sources.of(node) and all(last[one] is node for one in storages) and
                all(last[one].op != "output" for one in _storages(node) if one in last) and _is_like(node.meta["val"], below.meta["val"])):
            found[node] = below
            node.meta["over"] = (next(iter(storages)), *below.meta.get("over", ()))  # of its input, wherever a group begins
    return found


def found_over(graphs: Sequence[fx.Graph], over: Dict[fx.Node, fx.Node]) -> Dict[fx.Node, fx.Node]:
    """Returns those of operators that are written over others in written graphs, and forgets the rest."""
    found = {node for graph in graphs for call in graph.nodes for node in call.meta.get("written_over", ())}
    for node in over.keys() - found:
        del node.meta["over"]
    return {node: below for node, below in over.items() if node in found}


def assumed_times(graph: fx.Graph, but: Set[fx.Node]) -> Dict[fx.Node, float]:
    """Returns the assumed seconds of operators of a joint graph that may fuse, without some of them. Copies of a node name it from now on."""
    for node in graph.nodes:
        node.meta["operator"] = node
    return {node: assumed_seconds(node) for node in graph.nodes if _may_fuse(node) and not _is_view(node) and node not in but}


def measured_times(graphs: Sequence[fx.Graph], assumed: Dict[fx.Node, float], costs: Costs) -> Dict[fx.Node, float]:
    """Returns the seconds of operators that are in groups of written graphs: their part of the group's time."""
    found = {}
    for call in [node for graph in graphs for node in graph.nodes if "group" in node.meta]:
        members = [node for node in call.meta["group"] if node in assumed]
        seconds = costs.of(call, _bytes([call]))[0]
        found.update({node: seconds * assumed[node] / sum(assumed[one] for one in members) for node in members})
    return found


def extra_seconds(graphs: Sequence[fx.Graph], planned: Dict[fx.Node, float], costs: Costs) -> float:
    """Returns the seconds that groups which were divided take beyond those that were planned for their operators."""
    calls = [node for graph in graphs for node in graph.nodes if node.meta.get("is_part")]
    return sum(costs.of(call, _bytes([call]))[0] - sum(planned.get(node, 0.0) for node in call.meta["group"]) for call in calls)


# Functions ------------------------------------------------------------------------------------------

_functions: Dict[Tuple[Any, ...], Callable[..., Any]] = {}  # by their code and the shapes of their inputs


def _shape_of(tensor: torch.Tensor) -> Tuple[Any, ...]:
    return tuple(tensor.size()), tuple(tensor.stride()), tensor.dtype, tensor.device


def _function(group: _Group) -> Callable[..., Any]:
    """Returns the function of a group. Groups of the same operators on tensors of the same shapes share it."""
    examples = [node.meta["val"] for node in group.inputs]
    module = group.module(True)
    key = (module.code, tuple(group.over.items()), tuple(group.updates), *map(_shape_of, examples))
    if key not in _functions:
        results = [node.meta["val"] for node in group.results]
        if group.over:
            _functions[key] = _writing_over(group, module, examples, results)
        else:
            _functions[key] = _or_eager(module, examples, results)
    return _functions[key]


def _writing_over(group: _Group, module: fx.GraphModule, examples: List[torch.Tensor], results: List[torch.Tensor]) -> Callable[..., Any]:
    """Returns a function of all results of a group that writes some of them over its arguments, by copies where Inductor cannot do so."""
    over = group.over
    updated = [over[i] for i in group.updates]
    try:
        function = _compiled(module, examples, [node.meta["val"] for node in group.new])
    except Exception:  # of Inductor's code for the CPU
        whole = _or_eager(group.module(False), examples, results)

        def function(*tensors: torch.Tensor) -> Any:
            found = whole(*tensors)
            for i, j in over.items():
                tensors[j].copy_(found[i].view(tensors[j].size()))
            return [one for i, one in enumerate(found) if i not in over]

    def run(*tensors: torch.Tensor) -> Any:
        own = list(tensors)
        for j in over.values():
            is_kept = j not in updated and _private.keeps_saved_tensors()
            own[j] = _with_layout(own[j].clone() if is_kept else own[j], examples[j])
        new = iter(function(*own))
        for j in updated:
            tensors[j].copy_(own[j])  # of a tensor to itself does nothing
        return tuple(own[over[i]].view(one.size()) if i in over else next(new) for i, one in enumerate(results))

    named = _named(run)
    if updated:
        fx.node.has_side_effect(named)
    return named


def _with_layout(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Returns a tensor with the strides of a fake one."""
    if tensor.stride() == like.stride():
        return tensor
    return torch.empty_strided(like.size(), like.stride(), dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def _or_eager(module: fx.GraphModule, examples: List[torch.Tensor], results: List[torch.Tensor]) -> Callable[..., Any]:
    """Returns a compiled function, or one of PyTorch's own kernels where Inductor does not compile it."""
    try:
        return _compiled(module, examples, results)
    except Exception as error:
        warnings.warn(f"tidepool: {len(module.graph.nodes)} operators have kernels of their own, since Inductor did not compile them: "
                      f"{error}", RuntimeWarning, stacklevel=2)
        call = _random.apart(module).forward
        return _named(lambda *tensors: [_with_layout(*each) for each in zip(call(*tensors), results)])


def _compiled(module: fx.GraphModule, examples: List[torch.Tensor], results: List[torch.Tensor]) -> Callable[..., Any]:
    """Returns a compiled function of tensors of the sizes of fake ones. Raises the error of Inductor."""
    call = _private.compile_by_inductor(module, examples)
    shared: Optional[List[int]] = None  # results in memory of an argument or of another result, as of x * 1, which Inductor leaves out

    def run(*tensors: torch.Tensor) -> Any:
        nonlocal shared
        found = list(call([_with_layout(*each) for each in zip(tensors, examples)]))
        found = [_with_layout(*each) for each in zip(found, results)]
        if shared is None:
            shared = _shared(found, tensors)
        for i in shared:
            found[i] = found[i].clone()
        return found

    return _named(run)


def _shared(results: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> List[int]:
    """Returns the numbers of results in memory of other tensors, or of a result before."""
    storages = {_private.storage_key(tensor) for tensor in tensors}
    found = []
    for i, result in enumerate(results):
        if _private.storage_key(result) in storages:
            found.append(i)
        storages.add(_private.storage_key(result))
    return found


_numbers = itertools.count()


def _named(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of a name of its own, by which the code of graphs calls it."""
    def run(*tensors: torch.Tensor) -> Any:
        return function(*tensors)

    run.__name__ = run.__qualname__ = f"group_{next(_numbers)}"
    run.__module__ = __name__
    return run
