# SPDX-License-Identifier: Apache-2.0
"""Sizes that depend on data, of which a dry run has none: the share of the elements that each operation keeps is assumed.

PyTorch's own kernel runs first, for its scratch memory. Its result, which has no elements, is replaced by one of the
assumed size.
"""
import math
import warnings


class Assumptions:
    """Kernels for the operations of which the result has as many elements as the data decides. Thread-safe."""

    def __init__(self, torch, share, line_of_caller):
        self.torch = torch
        self.share = share
        self.line_of_caller = line_of_caller
        self.places = {}  # calls by operation and line
        self.library = torch.library.Library("aten", "IMPL")
        for name, kernel in (("nonzero", self.nonzero), ("_unique", self.unique), ("_unique2", self.unique2),
                             ("unique_consecutive", self.unique_consecutive), ("unique_dim", self.unique_dim),
                             ("repeat_interleave.Tensor", self.repeat_interleave),
                             ("_nested_tensor_from_mask", self.nested_tensor_from_mask)):
            self.replace(name, kernel)

    def replace(self, name, kernel):
        own = self.own_kernel(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns that a kernel is replaced
            self.library.impl(name, lambda *arguments, **named: kernel(own, *arguments, **named), "CUDA")

    def own_kernel(self, name):
        """Returns PyTorch's kernel. Older versions have no way to call it: then its scratch memory is missing."""
        torch = self.torch
        if not hasattr(torch.library, "get_kernel"):
            return None
        found = torch.library.get_kernel(f"aten::{name}", "CUDA")
        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
        return lambda *arguments: found.call_boxed(keys, *arguments)

    def note(self, operation):
        place = operation, self.line_of_caller()
        self.places[place] = self.places.get(place, 0) + 1

    def kept(self, operation, elements):
        self.note(operation)
        least = 1 if operation != "nonzero" and elements > 0 else 0
        return max(least, math.ceil(self.share * elements))

    def answer(self):
        return [{"operation": operation, "frame": frame, "calls": calls}
                for (operation, frame), calls in self.places.items()]

    def indices(self, like, *sizes):
        return like.new_empty(sizes, dtype=self.torch.int64)

    def nonzero(self, own, x):
        if own:
            own(x)
        return self.indices(x, x.dim(), self.kept("nonzero", x.numel())).t()

    def unique(self, own, x, sorted=True, return_inverse=False):
        inverse = own(x, sorted, return_inverse)[1] if own else self.indices(x, *x.shape)
        return x.new_empty(self.kept("unique", x.numel())), inverse

    def unique2(self, own, x, sorted=True, return_inverse=False, return_counts=False):
        inverse = own(x, sorted, return_inverse, return_counts)[1] if own else self.indices(x, *x.shape)
        count = self.kept("unique", x.numel())
        return x.new_empty(count), inverse, self.indices(x, count if return_counts else 0)

    def unique_consecutive(self, own, x, return_inverse=False, return_counts=False, dim=None):
        inverse = own(x, return_inverse, return_counts, dim)[1] if own else self.indices(x, *x.shape)
        return self.unique_along("unique_consecutive", x, dim, inverse, return_counts)

    def unique_dim(self, own, x, dim, sorted=True, return_inverse=False, return_counts=False):
        inverse = own(x, dim, sorted, return_inverse, return_counts)[1] if own else self.indices(x, x.shape[dim])
        return self.unique_along("unique", x, dim, inverse, return_counts)

    def unique_along(self, operation, x, dim, inverse, return_counts):
        count = self.kept(operation, x.numel() if dim is None else x.shape[dim])
        shape = [count]
        if dim is not None:
            shape = list(x.shape)
            shape[dim] = count
        return x.new_empty(shape), inverse, self.indices(x, count if return_counts else 0)

    # The number of repeats is not a share: each element counts once, as far as the program does not say the sum.
    def repeat_interleave(self, own, repeats, output_size=None):
        if output_size is None:
            self.note("repeat_interleave")
            output_size = repeats.numel()
        return repeats.new_empty(output_size)

    # Each row is whole, which takes the most memory.
    def nested_tensor_from_mask(self, own, x, mask, mask_check=True):
        if own:
            own(x, mask, mask_check)
        self.note("nested tensor of a mask")
        rows = self.torch.tensor(x.shape[1:], dtype=self.torch.int64).repeat(x.shape[0], 1)
        return self.torch.ops.aten._nested_from_padded(x, rows)
