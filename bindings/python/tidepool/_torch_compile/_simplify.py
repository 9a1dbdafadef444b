# SPDX-License-Identifier: Apache-2.0
"""Changes of joint graphs that save time and memory, and change no value.

Parts: where a program takes a tensor apart, as `q, k, v = qkv` or `x[:n], x[n:]` do, AOTAutograd writes the gradient of each part
into zeros of the size of the whole tensor, and adds them. Here the parts are stacked or concatenated. Copies: dropout of
probability 0 is a copy there.
"""
from typing import Dict, List, NamedTuple, Optional, Set, Tuple

import torch
from torch import fx

from . import _private

__all__ = ["simplify"]

_ADD = torch.ops.aten.add.Tensor
_SELECT, _SLICE = torch.ops.aten.select_backward.default, torch.ops.aten.slice_backward.default
_CLONE = torch.ops.aten.clone.default
_STACK, _CONCATENATE = torch.ops.aten.stack.default, torch.ops.aten.cat.default


class _Part(NamedTuple):
    """The gradient of the part [begin, end) of a dimension of a whole tensor."""

    begin: int
    end: int
    gradient: fx.Node


def _part_of(node: fx.Node) -> Optional[Tuple[object, _Part]]:
    """Returns the operator and dimension of a node that writes a part into zeros, and the part; None for other nodes."""
    if node.target is _SELECT:
        gradient, sizes, dimension, index = node.args
        begin = index % sizes[dimension]
        end = begin + 1
    elif node.target is _SLICE and node.args[-1] == 1:
        gradient, sizes, dimension, *bounds, _ = node.args
        begin, end, _ = slice(*bounds).indices(sizes[dimension])
    else:
        return None
    return (node.target, dimension % len(sizes), tuple(sizes)), _Part(begin, end, gradient)


def _terms(node: fx.Node, is_inner: bool = False) -> List[fx.Node]:
    """Returns the terms of a sum, in order, with those of sums that only this one reads."""
    if node.target is not _ADD or node.kwargs or not all(isinstance(one, fx.Node) for one in node.args):
        return [node]
    if is_inner and len(node.users) > 1:
        return [node]
    return [term for one in node.args for term in _terms(one, True)]


def _joined(total: fx.Node) -> Optional[fx.Node]:
    """Returns a node for a sum of all parts of a tensor and at most one other term; None for other sums."""
    kinds: Dict[object, List[_Part]] = {}
    others = []
    for term in _terms(total):
        part = _part_of(term) if len(term.users) == 1 else None
        if part is None:
            others.append(term)
        else:
            kinds.setdefault(part[0], []).append(part[1])
    if len(kinds) != 1 or len(others) > 1:
        return None
    (kind, parts), = kinds.items()
    target, dimension, sizes = kind
    parts.sort()
    if len(parts) < 2 or [part.begin for part in parts] != [0, *(part.end for part in parts[:-1])] or parts[-1].end != sizes[dimension]:
        return None
    like = total.meta["val"]
    if any(term.meta["val"].dtype != like.dtype or term.meta["val"].shape != like.shape for term in others):
        return None
    join = _STACK if target is _SELECT else _CONCATENATE
    gradients = [part.gradient for part in parts]
    with like.fake_mode:
        value = join([gradient.meta["val"] for gradient in gradients], dimension)
    if value.stride() != like.stride() or value.dtype != like.dtype:
        return None
    with total.graph.inserting_before(total):
        node = total.graph.call_function(join, (gradients, dimension))
        node.meta = {**total.meta, "val": value}
        if others:
            node = total.graph.call_function(_ADD, (others[0], node))
    node.meta = dict(total.meta)  # views of the sum share the storage of its value
    return node


def _join_gradients(graph: fx.Graph) -> None:
    for node in reversed(graph.nodes):
        if node.target is _ADD and not (len(node.users) == 1 and next(iter(node.users)).target is _ADD):
            joined = _joined(node)
            if joined is not None:
                node.replace_all_uses_with(joined)


def _storages(values: object) -> Set[int]:
    return {_private.storage_key(leaf) for leaf in _private.tree_leaves(values) if isinstance(leaf, torch.Tensor)}


def _is_copy(node: fx.Node) -> bool:
    """Returns whether a node copies a tensor for operators that make new tensors of it. A result of the graph is a copy of its own."""
    if node.target is not _CLONE or node.meta["val"].stride() != node.args[0].meta["val"].stride():
        return False
    own = _storages(node.meta["val"])
    return all(user.op != "output" and own.isdisjoint(_storages(user.meta["val"])) for user in node.users)


def _leave_out_copies(graph: fx.Graph) -> None:
    for node in graph.nodes:
        if _is_copy(node):
            node.replace_all_uses_with(node.args[0])


def simplify(graph: fx.Graph) -> None:
    """Simplifies a joint graph of fixed sizes, in which no operator changes a tensor in place."""
    _join_gradients(graph)
    _leave_out_copies(graph)
    graph.eliminate_dead_code()
