# SPDX-License-Identifier: Apache-2.0
"""Writes the forward and the backward graph in the order of a schedule.

The code that FX makes of a graph frees each value after its last use, so the order of the nodes decides when data is there.
The forward graph returns its results and then the data that is there, or on the host, when the backward graph begins.
"""
import collections
import itertools

import torch
from torch import fx

from . import _buffers, _operators, _private
from ._capture import BORDER, END, Captured

__all__ = ["Written", "write"]

_keys = itertools.count()  # of copies, for all plans of the process

Written = collections.namedtuple("Written", "forward backward runs_again copies_out copies_in keys")


class _Writer:
    """The two graphs, and the node that has each datum at this point."""

    def __init__(self, joint: fx.GraphModule, captured: Captured):
        self.joint = joint
        self.captured = captured
        self.names = [datum["name"] for datum in captured.data]
        self.keys = collections.defaultdict(lambda: next(_keys))  # datum -> key of its copies
        self.forward, self.backward = fx.Graph(), fx.Graph()
        self.graph = self.forward
        inputs = [node for node in joint.graph.nodes if node.op == "placeholder"]
        self.tangents = [node for node in inputs if _private.is_tangent(node)]
        self.outside = {node: self.forward.node_copy(node) for node in inputs if not _private.is_tangent(node)}
        self.here, self.on_host, self.views = {}, {}, {}
        self.beside = {}  # inlined nodes of the operator that is written
        self.coming = set()  # data whose copy in has begun
        self.saved = {}  # node of the forward graph -> its placeholder in the backward graph
        self.ran = {}  # task -> the node of its last run
        self.counts = collections.Counter()

    # Values -----------------------------------------------------------------------------------------

    def value(self, node):
        """Returns the node of the graph being written that has the value of a node of the joint graph."""
        if node.op == "placeholder":
            return self._input(node)
        if node.op == "get_attr":
            return self.graph.node_copy(node)
        if node in self.captured.views:
            return self._view(node)
        storage = _private.storage_key(node.meta["val"])
        return self._arrived(self.captured.datum[storage])

    def _input(self, node):
        if node not in self.outside:  # an input of the forward pass that the backward pass reads
            source = self.inputs[node]
            if node in self.captured.mutated:
                source = self.forward.call_function(torch.ops.aten.clone.default, (source,))
                source.meta["val"] = node.meta["val"]
            self.outside[node] = self._save(source, node)
        return self.outside[node]

    def _view(self, node):
        """Makes a view beside its user. It is made again for another value of its data, which it would keep alive."""
        if node in self.beside:
            return self.beside[node]
        bases = {argument: self.value(argument) for argument in node.all_input_nodes}
        if node in self.captured.inlined:
            self.beside[node] = self.graph.node_copy(node, bases.__getitem__)
            return self.beside[node]
        place = (node, *bases.values())
        if place not in self.views:
            self.views[place] = self.graph.node_copy(node, bases.__getitem__)
        return self.views[place]

    def _arrived(self, name):
        if name in self.coming:
            self.coming.discard(name)
            self.graph.call_function(_operators.arrive, (self.here[name], self.keys[name]))
        return self.here[name]

    def _save(self, source, like):
        """Hands a value of the forward graph to the backward graph, and returns its placeholder there."""
        if source in self.saved:
            return self.saved[source]
        with self.backward.inserting_before(self.first_tangent):
            placeholder = self.backward.placeholder(like.name)
        placeholder.meta = {key: like.meta[key] for key in ("val", "tensor_meta") if key in like.meta}
        self.saved[source] = placeholder
        return placeholder

    # Actions ----------------------------------------------------------------------------------------

    def run(self, number):
        task = self.captured.tasks[number]
        name = task["name"]
        self.beside = {}
        if name == BORDER:
            return self._begin_backward()
        if name == END:
            self.gradients = [self.value(node) if isinstance(node, fx.Node) else node
                              for node in self.captured.backward_results]
            return
        node = self.captured.node[name]
        self.counts["again"] += name in self.ran
        if name in self.captured.small:
            result = self.ran[node.name]
        else:
            unused = _buffers.statistics_of(node) if name in self.ran else ()
            for datum in sorted(self.coming.intersection(task["reads"])):  # else an arrival divides inlined nodes from their user
                self._arrived(datum)
            arguments = {argument: self.value(argument) for argument in node.all_input_nodes if argument not in unused}
            result = self.graph.node_copy(node, arguments.get)
            if unused:
                result.target = _buffers.without_statistics
        self.ran[name] = result
        for datum in task["writes"]:
            maker = self.captured.maker[datum]
            self.here[datum] = result if maker is node else self.graph.node_copy(maker, lambda _: result)
        self.here.update(dict.fromkeys(task.get("updates", ()), result))

    def _begin_backward(self):
        for name in sorted(self.coming):
            self._arrived(name)
        self.results = [self.value(node) if isinstance(node, fx.Node) else node for node in self.captured.forward_results]
        self.inputs, self.outside = self.outside, {}
        self.graph, self.views = self.backward, {}
        for node in self.tangents:
            self.outside[node] = self.backward.node_copy(node)
        self.first_tangent = next(iter(self.outside.values()), None)
        for place in (self.here, self.on_host):
            for name, node in place.items():
                place[name] = self._save(node, node)

    def offload(self, number):
        name = self.names[number]
        host = self.graph.call_function(_operators.offload, (self._arrived(name), self.keys[name]))
        like = self.captured.maker[name].meta["val"]
        with like.fake_mode:
            host.meta["val"] = _operators.flat(like, "cpu")
        self.on_host[name] = host
        self.counts["out"] += 1

    def release(self, number):
        name = self.names[number]
        self.graph.call_function(_operators.release, (self.here.pop(name), self.keys[name]))

    def drop(self, number):
        name = self.names[number]
        self.coming.discard(name)
        self.here.pop(name, None)

    def free(self, number):
        self.drop(number)
        self.on_host.pop(self.names[number], None)

    def prefetch(self, number):
        name = self.names[number]
        like = self.captured.maker[name].meta["val"]
        layout = (list(like.size()), list(like.stride()), like.storage_offset())
        self.here[name] = self.graph.call_function(
            _operators.prefetch, (self.on_host[name], *layout, like.device, self.keys[name]))
        self.here[name].meta["val"] = like
        self.coming.add(name)
        self.counts["in"] += 1

    # The end ----------------------------------------------------------------------------------------

    def finish(self):
        saved = [source for source, placeholder in self.saved.items() if placeholder.users]
        for placeholder in self.saved.values():
            if not placeholder.users:
                self.backward.erase_node(placeholder)
        self.backward.output(tuple(self.gradients))
        self.forward.output((*self.results, *saved))
        _private.describe_outputs(self.joint.graph, self.forward, self.backward, len(self.results))
        modules = []
        for graph in (self.forward, self.backward):
            graph.eliminate_dead_code(_has_effect)
            graph.lint()
            modules.append(fx.GraphModule(self.joint, graph))
        return Written(*modules, self.counts["again"], self.counts["out"], self.counts["in"], list(self.keys.values()))


def _has_effect(node):
    return node.op in ("placeholder", "output") or node.target in (_operators.release, _operators.arrive)


def write(joint, captured, actions):
    """Returns the forward and the backward graph of a joint graph in the order of `actions`, with counts."""
    writer = _Writer(joint, captured)
    ignored = {i for i, name in enumerate(writer.names) if name not in captured.maker}
    for kind, number in actions:
        if kind == "run" or number not in ignored:
            getattr(writer, kind)(number)
    return writer.finish()
