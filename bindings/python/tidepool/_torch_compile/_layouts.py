# SPDX-License-Identifier: Apache-2.0
"""Convolutions of tensors with their channels last, as Inductor has them.

cuDNN's kernels for tensor cores take images with their channels last, and copy others. Here the operators of elements, norms and pools
between the convolutions of a joint graph have that layout too. Inputs and results of the graph keep theirs.
"""
from typing import Any, Dict, List, Sequence, Set

import torch
from torch import fx

from . import _private
from ._costs import tensors_of
from ._fuse import is_elementwise

__all__ = ["put_channels_last"]

_aten = torch.ops.aten
_IMAGES = {_aten.convolution.default: (0,), _aten.convolution_backward.default: (0, 1)}  # arguments that are images
_FILTERS = {_aten.convolution.default: 1, _aten.convolution_backward.default: 2}
_VIEWS = (_aten.view.default, _aten._unsafe_view.default)
_STRIDED = ("as_strided", "as_strided_scatter", "empty_strided", "new_empty_strided")  # of given strides


def _is_last(node: Any) -> bool:
    return isinstance(node, fx.Node) and _private.is_image(node.meta["val"]) and node.meta["val"].is_contiguous(
        memory_format=torch.channels_last)


class _Writer:
    """Goes through a joint graph in order, and gives each node the value that it has for the new ones of its inputs."""

    def __init__(self, graph: fx.Graph) -> None:
        self.graph = graph
        self.changed: Set[fx.Node] = set()
        self.copies: Dict[fx.Node, fx.Node] = {}  # with channels last

    def add(self, node: fx.Node) -> None:
        if node.target in _IMAGES:
            self._add_convolution(node)
        elif isinstance(node.target, _private.Operator) and is_elementwise(node.target) and any(map(_is_last, node.all_input_nodes)):
            self._put_last(node, [one for one in node.all_input_nodes if _private.is_image(one.meta["val"]) and
                                  one.meta["val"].size() == node.meta["val"].size()])
        if self.changed.isdisjoint(node.all_input_nodes):
            return
        try:
            self._compute(node)
        except (RuntimeError, ValueError):  # of a view that the strides do not allow
            if node.target not in _VIEWS:
                raise
            node.replace_input_with(node.args[0], self.copy(node.args[0], node, node, torch.contiguous_format))
            self._compute(node)

    def _add_convolution(self, node: fx.Node) -> None:
        """Puts channels of a convolution's images last. An image that others hold stays: cuDNN copies it for filters of that layout."""
        filters = node.args[_FILTERS[node.target]]
        for number in _IMAGES[node.target]:
            image = node.args[number]
            is_held = image.op == "placeholder" and not _private.is_tangent(image)
            self._put_last(node, [filters if is_held and not _is_last(filters) else image])

    def _put_last(self, node: fx.Node, inputs: List[fx.Node]) -> None:
        for one in inputs:
            if not _private.is_image(one.meta["val"]) or _is_last(one):
                continue
            if one not in self.copies:
                self.copies[one] = self.copy(one, node, node, torch.channels_last)
            node.replace_input_with(one, self.copies[one])

    def copy(self, node: fx.Node, before: fx.Node, like: fx.Node, layout: torch.memory_format) -> fx.Node:
        """Returns a copy of a tensor in another layout, before a node, which belongs to the module of another one."""
        return self._insert(before, like, _aten.clone.default, node, memory_format=layout)

    def restore(self, node: fx.Node, strides: Sequence[int]) -> fx.Node:
        """Returns a copy of a tensor with its dimensions in the order of strides."""
        order = sorted(range(len(strides)), key=lambda dimension: -strides[dimension])
        after = node.next
        copy = self.copy(self._permuted(node, order, after), after, node, torch.contiguous_format)
        return self._permuted(copy, [order.index(dimension) for dimension in range(len(order))], after)

    def _permuted(self, node: fx.Node, order: Sequence[int], before: fx.Node) -> fx.Node:
        return node if list(order) == sorted(order) else self._insert(before, node, _aten.permute.default, node, order)

    def _insert(self, before: fx.Node, like: fx.Node, target: _private.Operator, *arguments: Any, **keywords: Any) -> fx.Node:
        with self.graph.inserting_before(before):
            node = self.graph.call_function(target, arguments, keywords)
        node.meta = dict(like.meta)
        self._compute(node)
        return node

    def _compute(self, node: fx.Node) -> None:
        arguments, keywords = fx.node.map_arg((node.args, node.kwargs), lambda one: one.meta["val"])
        with _mode_of(node):
            node.meta["val"] = node.target(*arguments, **keywords)
        node.meta.pop("tensor_meta", None)
        self.changed.add(node)


def _mode_of(node: fx.Node) -> Any:
    return next(tensor.fake_mode for one in node.all_input_nodes for tensor in tensors_of(one.meta["val"]))


def _strides(tensor: torch.Tensor) -> List[int]:
    """Returns the strides of a tensor's dimensions of more than one element, on which the places of elements depend."""
    return [stride for size, stride in zip(tensor.size(), tensor.stride()) if size != 1]


def put_channels_last(module: fx.GraphModule, device: torch.device) -> None:
    """Puts the channels of a joint graph's images last, where Inductor would do so for all of it."""
    graph = module.graph
    if not _private.prefers_channels_last(module) or any(
            getattr(getattr(node.target, "overloadpacket", None), "__name__", "") in _STRIDED for node in graph.nodes):
        return
    end = next(node for node in graph.nodes if node.op == "output")
    before = {node: node.meta["val"] for node in end.all_input_nodes}
    writer = _Writer(graph)
    with torch.no_grad(), torch.autocast(device.type, enabled=False):
        for node in list(graph.nodes):
            if node.op == "call_function":
                writer.add(node)
        for node, value in before.items():
            if isinstance(value, torch.Tensor) and _strides(node.meta["val"]) != _strides(value):
                end.replace_input_with(node, writer.restore(node, value.stride()))
