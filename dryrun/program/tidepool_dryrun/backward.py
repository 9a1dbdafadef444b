# SPDX-License-Identifier: Apache-2.0
"""The backward pass of tensors without memory. PyTorch's own engine asks for the streams of the device of each operator, which needs a
GPU; this one calls the operators in the same order. It knows no hooks of tensors and modules, and no second derivatives.
"""
import contextlib
import heapq

ACCUMULATES = "AccumulateGrad"  # the operator that ends at a tensor of the program


class Engine:
    """A backward pass. `node` has the number of the operator that runs."""

    def __init__(self, torch):
        self.torch, self.node = torch, None
        self.uses = {}  # of the results of each operator: gradients that it waits for
        self.waiting = {}  # operator -> its gradients so far
        self.ready = []  # the operators that can run, the latest of the forward pass first, and ends before all

    def begin(self, node, gradient):
        """Takes the gradient of the result of `node`. The caller keeps neither, so that the tensors of each operator end with it."""
        self.count(node)
        self.take(node, 0, gradient)

    def run(self):
        """Adds the gradients of all tensors that the result was computed from."""
        with self.in_place_of_pytorch(), self.torch.no_grad():
            while self.ready:
                self.call(heapq.heappop(self.ready)[1])

    def count(self, root):
        self.uses[key_of(root)] = 1
        seen, left = {key_of(root)}, [root]
        while left:
            for node, _ in left.pop().next_functions:
                if node is not None:
                    key = key_of(node)
                    self.uses[key] = self.uses.get(key, 0) + 1
                    if key not in seen:
                        seen.add(key)
                        left.append(node)

    @contextlib.contextmanager
    def in_place_of_pytorch(self):
        """Lets PyTorch's functions that name the running operator name that of this engine."""
        own = {"_current_graph_task_id": lambda: 0, "_current_autograd_node": lambda: self.node}
        before = {name: getattr(self.torch._C, name) for name in own}
        try:
            for name, function in own.items():
                setattr(self.torch._C, name, function)
            yield
        finally:
            for name, function in before.items():
                setattr(self.torch._C, name, function)

    def take(self, node, at, gradient):
        """Gives an operator the gradient of its result number `at`, or None."""
        key = key_of(node)
        gradients = self.waiting.setdefault(key, [None] * len(node._input_metadata))
        if gradient is not None:
            gradients[at] = gradient if gradients[at] is None else gradients[at] + gradient
        self.uses[key] -= 1
        if self.uses[key] == 0:
            heapq.heappush(self.ready, (rank_of(node), Operator(node)))

    def call(self, operator):
        node, gradients = operator.node, self.waiting.pop(key_of(operator.node))
        operator.node = None  # its tensors end with this call
        if node.name().endswith(ACCUMULATES):
            if gradients[0] is not None:
                self.accumulate(node.variable, gradients)
            return
        self.node = Number(node._sequence_nr())
        found = self.gradients_by(node, gradients)
        following = node.next_functions
        node = gradients = None  # before sums of gradients, which belong to the operator too
        for at, (next_node, number) in enumerate(following):
            if next_node is not None:
                self.take(next_node, number, found[at])
                found[at] = None

    def gradients_by(self, node, gradients):
        """Returns the gradients that an operator gives to those before it, with the sizes and types of their results: operators leave
        the sum of repeated values to the engine."""
        following = node.next_functions
        if all(one is None for one in gradients):
            return [None] * len(following)
        found = (node.apply if hasattr(node, "apply") else node)(*gradients)
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        found += [None] * (len(following) - len(found))
        for at, (next_node, number) in enumerate(following):
            if next_node is not None and found[at] is not None:
                found[at] = fitted(found[at], next_node._input_metadata[number])
        return found

    def accumulate(self, variable, gradients):
        found = gradients.pop()
        gradient = found.detach()
        if variable.grad is not None:
            variable.grad += gradient
        elif gradient.stride() == variable.stride() and not self.is_waiting(found):
            variable.grad = gradient
        else:
            variable.grad = self.torch.empty_like(variable).copy_(gradient)

    def is_waiting(self, gradient):
        """Returns whether a gradient waits for another operator too. PyTorch looks at the tensor, not at its memory."""
        return any(one is gradient for gradients in self.waiting.values() for one in gradients)


def fitted(gradient, expected):
    """Returns a gradient with the sizes and the type of the result that it belongs to."""
    shape = tuple(expected.shape)
    if tuple(gradient.shape) != shape:
        gradient = gradient.sum_to_size(shape)
    return gradient if gradient.dtype == expected.dtype else gradient.to(expected.dtype)


class Number:
    """The number of an operator, which tells its place in the program."""

    def __init__(self, number):
        self._sequence_nr = lambda: number


class Operator:
    """An operator that can run, and lives until then."""

    def __init__(self, node):
        self.node = node

    def __lt__(self, other):
        return False


def key_of(node):
    """Returns the key of an operator: its Python object may be another one each time."""
    return id(node.variable) if node.name().endswith(ACCUMULATES) else -1 - node._sequence_nr()


def rank_of(node):
    return float("-inf") if node.name().endswith(ACCUMULATES) else -node._sequence_nr()
