# SPDX-License-Identifier: Apache-2.0
"""Batch norms that update their running statistics in place.

AOTAutograd makes a batch norm a function: it copies the statistics, updates the copies, and copies them back after the pass. Its
backward pass reads the statistics, although it has no use for them while the model trains. Here the first run of the
operator updates the buffers themselves, as it does without torch.compile, and a further run has no statistics.
"""
import operator

import torch
from torch import fx

from . import _private
from ._capture import needed_by

__all__ = ["statistics_of", "update_in_place", "without_statistics"]

_MEAN, _VARIANCE, _IS_TRAINING = 3, 4, 5  # arguments of the function; the first two are numbers of its results too
_BACKWARD_MEAN, _BACKWARD_VARIANCE, _BACKWARD_IS_TRAINING = 3, 4, 7

_library = torch.library.Library("tidepool", "FRAGMENT")
# The schema does not tell that the statistics change: nothing but AOTAutograd's copies back reads them, and tasks keep their order.
_library.define("batch_norm(Tensor x, Tensor? weight, Tensor? bias, Tensor mean, Tensor variance, float momentum, float eps)"
                " -> (Tensor, Tensor, Tensor)")


def _batch_norm(x, weight, bias, mean, variance, momentum, eps):
    return _private.BATCH_NORM_IN_PLACE(x, weight, bias, mean, variance, True, momentum, eps)


def without_statistics(x, weight, bias, mean, variance, momentum, eps):
    """Normalizes like the operator, and leaves the statistics alone."""
    return _private.BATCH_NORM_WITHOUT_STATISTICS(x, weight, bias, True, momentum, eps)


_library.impl("batch_norm", _batch_norm, "CompositeExplicitAutograd")
torch.library.register_fake("tidepool::batch_norm", without_statistics, lib=_library)
_batch_norm_operator = torch.ops.tidepool.batch_norm.default


def statistics_of(node):
    """Returns the inputs that a node updates."""
    return node.args[_MEAN:_VARIANCE + 1] if node.target is _batch_norm_operator else ()


def _new_values(node):
    """Returns the results of a batch norm that are new statistics as (number, node), each as the last node before the graph's end."""
    found = []
    for part in node.users:
        if part.target is not operator.getitem or part.args[1] not in (_MEAN, _VARIANCE):
            continue
        users = list(part.users)
        # Statistics of 16 bits are functions of 32.
        is_cast = len(users) == 1 and users[0].target is _private.CAST
        found.append((part.args[1], users[0] if is_cast else part))
    return found


def _may_update(node):
    """Returns whether a node trains, and its statistics are inputs that nothing else reads, and results alone."""
    if node.target is not _private.BATCH_NORM or node.args[_IS_TRAINING] is not True or node.kwargs:
        return False
    if any(one.op != "placeholder" or list(one.users) != [node] for one in (node.args[_MEAN], node.args[_VARIANCE])):
        return False
    ends = [end for _, end in _new_values(node)]
    return len(ends) == 2 and all([user.op for user in end.users] == ["output"] for end in ends)


def update_in_place(graph: fx.Graph, forward_count: int) -> None:
    """Lets batch norms of a joint graph update their statistics in place. The first `forward_count` results are those of the forward
    pass. They need no more than the statistics of some batch norms, which stay as they are: nothing would read another result."""
    nodes = list(graph.nodes)
    for node in nodes:
        if node.target is _private.BATCH_NORM_BACKWARD and node.args[_BACKWARD_IS_TRAINING] is True:
            for number in (_BACKWARD_MEAN, _BACKWARD_VARIANCE):
                node.update_arg(number, None)
    found = [node for node in nodes if _may_update(node)]
    statistics = {end for node in found for _, end in _new_values(node)}
    needed = needed_by(result for result in nodes[-1].args[0][:forward_count] if result not in statistics)
    for node in found:
        if node not in needed:
            continue
        for number, end in _new_values(node):
            end.replace_all_uses_with(node.args[number])
        node.target = _batch_norm_operator
        node.args = node.args[:_IS_TRAINING] + node.args[_IS_TRAINING + 1:]
        node.meta["val"] = node.meta["val"][:_MEAN]
    graph.eliminate_dead_code()
