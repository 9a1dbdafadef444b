# SPDX-License-Identifier: Apache-2.0
"""Random numbers that are computed again in the place of being kept.

Inductor computes a random number from a seed and the number's place in its tensor. So operators of random numbers may run again, and fuse
with their readers: the mask of a dropout is never in memory. A step draws all its seeds at once.
"""
import functools
import warnings
from typing import Callable, List, Sequence

import torch
from torch import fx

from . import _private

__all__ = ["TAKEN_APART", "apart", "compute_from_seeds"]

_aten = torch.ops.aten

# Operators that are written as arithmetic of random numbers.
TAKEN_APART = ("native_dropout", "rand_like", "randn_like", "bernoulli")

_MODES = {_aten.rand.default: "rand", _aten.randn.default: "randn"}
_LIMITS = -2 ** 63, 2 ** 63 - 1  # of a seed
_ALIGNED = 2  # seeds in the 16 bytes to which kernels expect tensors to be aligned


def _add(graph: fx.Graph, like: fx.Node, target: object, *arguments: object, **keywords: object) -> fx.Node:
    """Adds an operator at the place of insertion, which belongs to the module of another node."""
    node = graph.call_function(target, arguments, keywords)
    with like.meta["val"].fake_mode:
        values, options = fx.node.map_arg((arguments, keywords), lambda one: one.meta["val"])
        node.meta = {**like.meta, "val": target(*values, **options)}
    return node


def _seeds(graph: fx.Graph, like: fx.Node, count: int) -> fx.Node:
    """Adds the operator that draws all seeds: those that Inductor draws for the same graph, each at an aligned address."""
    with graph.inserting_before(next(node for node in graph.nodes if node.op == "call_function")):
        drawn = _add(graph, like, _aten.randint.low, *_LIMITS, [count], dtype=torch.int64, device=like.meta["val"].device)
        column = _add(graph, like, _aten.unsqueeze.default, drawn, 1)
        return _add(graph, like, _aten.repeat.default, column, [1, _ALIGNED])


def _compute(node: fx.Node, seeds: fx.Node, number: int) -> None:
    """Replaces an operator of random numbers by one that computes them from a seed."""
    graph = node.graph
    with graph.inserting_before(node):
        row = _add(graph, node, _aten.select.int, seeds, 0, number)
        seed = _add(graph, node, _aten.select.int, row, 0, 0)
        found = _add(graph, node, _private.random_of_seed(), list(node.args[0]), seed, _MODES[node.target])
        if node.meta["val"].dtype != torch.float32:
            found = _add(graph, node, _aten._to_copy.default, found, dtype=node.meta["val"].dtype)
    node.replace_all_uses_with(found)
    graph.erase_node(node)


@functools.lru_cache(maxsize=None)
def _function(size: Sequence[int], mode: str, device: torch.device) -> Callable[[List[torch.Tensor]], Sequence[torch.Tensor]]:
    """Returns a compiled function of a list of one seed, for random numbers alone."""
    graph = fx.Graph()
    seed = graph.placeholder("seed")
    graph.output((graph.call_function(_private.random_of_seed(), (list(size), seed, mode)),))
    with _private.fake_tensors():
        example = torch.empty((), dtype=torch.int64, device=device)
    return _private.compile_by_inductor(fx.GraphModule({}, graph), [example])


def apart(module: fx.GraphModule) -> fx.GraphModule:
    """Returns a module in which random numbers have kernels of their own, since those of PyTorch do not use the seed."""
    for node in [one for one in module.graph.nodes if one.target is _private.random_of_seed()]:
        size, seed, mode = node.args
        function = _function(tuple(size), mode, seed.meta["val"].device)
        node.target, node.args = (lambda seed, function=function: function([seed])[0]), (seed,)
    module.recompile()
    return module


def _is_compiled(device: torch.device) -> bool:
    try:
        return bool(_function((1,), "rand", device))
    except Exception as error:
        warnings.warn(f"tidepool: random operators run once, since Inductor compiled no random numbers: {error}", RuntimeWarning, stacklevel=2)
        return False


def compute_from_seeds(graph: fx.Graph, device: torch.device) -> None:
    """Lets operators of random numbers in the forward pass of a joint graph compute them from seeds, unless Inductor is to use PyTorch's."""
    if _private.has_eager_random():
        return
    found: List[fx.Node] = [node for node in graph.nodes if node.target in _MODES and not _private.is_backward(node) and
                            node.meta["val"].device == device and node.meta["val"].is_floating_point()]
    if found and _is_compiled(device):
        seeds = _seeds(graph, found[0], len(found))
        for i, node in enumerate(found):
            _compute(node, seeds, i)
