# SPDX-License-Identifier: Apache-2.0
"""Sizes that depend on data, of which a dry run has none: the share of the elements that each operation keeps is assumed.

PyTorch's own kernel runs first, for its scratch memory. Its result, which has no elements, is replaced by one of the
assumed size. Sizes that follow from the largest value of the device cannot be guessed: they are noted alone.
"""
import functools
import math
import warnings


class Assumptions:
    """Kernels for the operations of which the result has as many elements as the data decides. Thread-safe."""

    def __init__(self, torch, share, line_of_caller):
        self.torch = torch
        self.share = share
        self.line_of_caller = line_of_caller
        self.places = {}  # calls by operation and line
        self.choices = 0, 0  # elements and classes of the last one_hot
        self.masks = []  # elements of the masks that come next, where a layer divides its targets
        self.library = torch.library.Library("aten", "IMPL")
        self.replace("one_hot", self.one_hot, torch.ops.aten.one_hot.default.decompose)
        self.replace("nonzero.out", self.nonzero_out, self.own_kernel("nonzero", "CUDA"))
        for name, kernel in (("nonzero", self.nonzero), ("_unique", self.unique), ("_unique2", self.unique2),
                             ("unique_consecutive", self.unique_consecutive), ("unique_dim", self.unique_dim),
                             ("repeat_interleave.Tensor", self.repeat_interleave), ("bincount", self.bincount),
                             ("_nested_tensor_from_mask", self.nested_tensor_from_mask)):
            self.replace(name, kernel, self.own_kernel(name, "CUDA"))
        self.replace("_coalesce", self.coalesce, self.own_kernel("_coalesce", "SparseCUDA"), "SparseCUDA")
        for name, kernel, key in (("_ctc_loss", self.ctc_loss, "CUDA"), ("_sparse_sparse_matmul", self.sparse_product, "SparseCUDA"),
                                  ("mm", self.sparse_product, "SparseCsrCUDA")):
            own = self.own_kernel(name, key)
            if own:
                self.replace(name, kernel, own, key)
        for name, place in (("sparse_coo_tensor", 2), ("sparse_csr_tensor", 3), ("sparse_csc_tensor", 3), ("sparse_bsr_tensor", 3),
                            ("sparse_bsc_tensor", 3)):
            self.replace_sparse(name, place)

    def replace(self, name, kernel, own, key="CUDA"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns that a kernel is replaced
            self.library.impl(name, lambda *arguments, **named: kernel(own, *arguments, **named), key)

    def own_kernel(self, name, key):
        """Returns PyTorch's kernel. Older versions have no way to call it: then its scratch memory is missing."""
        torch = self.torch
        if not hasattr(torch.library, "get_kernel"):
            return None
        found = torch.library.get_kernel(f"aten::{name}", key)
        keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
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
        return self.indices(x, x.dim(), self.kept_of_mask(x)).t()

    def nonzero_out(self, own, x, *, out):
        if own:
            own(x)
        return out.resize_(self.kept_of_mask(x), x.dim())

    def kept_of_mask(self, x):
        """Returns how many elements are not zero. Mixtures of experts ask one_hot for the tokens of each expert, and which ones have any:
        they are taken to have equal parts."""
        elements, classes = self.choices
        if self.masks:
            self.note("nonzero for a cluster of classes")
            return self.masks.pop(0)
        if self.share < 1 and x.dtype == self.torch.int64 and x.numel() == elements:
            self.note("nonzero for a class of one_hot")
            return math.ceil(elements / classes)
        if self.share < 1 and x.dtype == self.torch.bool and x.shape == (classes,):
            self.note("nonzero of the classes of one_hot")
            return min(elements, classes)
        return self.kept("nonzero", x.numel())

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

    def coalesce(self, own, x):
        if own:
            own(x)
        count = self.kept("coalesce", x._nnz())
        indices, values = x._indices(), x._values()
        return self.torch.ops.aten._sparse_coo_tensor_unsafe(
            indices.new_empty(len(indices), count), values.new_empty(count, *values.shape[1:]), x.shape, is_coalesced=True)

    def bincount(self, own, x, weights=None, minlength=0):
        if minlength == 0:
            self.note("bincount without minlength")
        if own:
            return own(x, weights, minlength)
        kind = self.torch.int64 if weights is None else weights.dtype if weights.dtype == self.torch.float32 else self.torch.float64
        return x.new_empty(max(minlength, 1), dtype=kind)

    def one_hot(self, own, x, num_classes=-1):
        if num_classes < 0:
            self.note("one_hot without num_classes")
        elif num_classes > 0:
            self.choices = x.numel(), num_classes
        return own(x, num_classes)

    # Longer targets take more memory. Each has the most that it can have, or an equal part of all.
    def ctc_loss(self, own, log_probs, targets, input_lengths, target_lengths, *options):
        if targets.numel() > 0 and not any(target_lengths):
            self.note("ctc_loss with lengths on the device")
            count = len(target_lengths)
            target_lengths = [targets.shape[1]] * count if targets.dim() > 1 else [(len(targets) + i) // count for i in range(count)]
        return own(log_probs, targets, input_lengths, target_lengths, *options)

    def sparse_product(self, own, x, y):
        if y.layout != self.torch.strided and x.layout != self.torch.strided:
            self.note("product of sparse matrices")
        return own(x, y)

    def replace_sparse(self, name, place):
        """Replaces a function of torch that makes sparse tensors by one that notes where their size, the argument at that place, is that of
        the indices. Scripts of TorchScript, as in PyTorch's optimizers, have the operator all the same."""
        own = getattr(self.torch, name)

        @functools.wraps(own)
        def make(*arguments, **named):
            made = own(*arguments, **named)
            size = arguments[place] if len(arguments) > place else named.get("size")
            if made.is_cuda and size is None:
                self.note(f"{name} without size")
            return made

        setattr(self.torch, name, make)
        self.torch.jit._builtins._register_builtin(make, f"aten::{name}")

    # Each row is whole, which takes the most memory.
    def nested_tensor_from_mask(self, own, x, mask, mask_check=True):
        if own:
            own(x, mask, mask_check)
        self.note("nested tensor of a mask")
        rows = self.torch.tensor(x.shape[1:], dtype=self.torch.int64).repeat(x.shape[0], 1)
        return self.torch.ops.aten._nested_from_padded(x, rows)
