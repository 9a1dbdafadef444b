# SPDX-License-Identifier: Apache-2.0
"""Lengths that a kernel computed, as of the sequences of a batch, and that PyTorch compares with a tensor: they read as zeros, which would be an
error. The whole of the tensor is then divided into equal parts, and padded sequences are whole.
"""
import functools


class Lengths:
    def __init__(self, torch, assumptions):
        self.torch, self.assumptions = torch, assumptions
        self.replace(torch._VF, "split_with_sizes", self.split)
        self.replace(torch._VF, "_pack_padded_sequence", self.pack)
        self.replace(torch, "segment_reduce", self.reduce_segments)
        self.replace(torch, "ctc_loss", self.ctc_loss)
        self.replace(torch.nn.AdaptiveLogSoftmaxWithLoss, "forward", self.divide_classes)

    # TorchScript has the operators all the same.
    def replace(self, place, name, replacement):
        own = getattr(place, name)

        @functools.wraps(own)
        def call(*arguments, **named):
            return replacement(own, *arguments, **named)

        setattr(place, name, call)
        if isinstance(place, type(self.torch)):
            self.torch.jit._builtins._register_builtin(call, f"aten::{name}")

    def split(self, own, tensor, sizes, dim=0):
        if sizes and all(type(one) is int and one == 0 for one in sizes) and tensor.is_cuda and tensor.shape[dim] > 0:
            self.assumptions.note("split by lengths of the device")
            sizes = parts(tensor.shape[dim], len(sizes))
        return own(tensor, sizes, dim)

    def pack(self, own, tensor, lengths, batch_first):
        if not self.torch.compiler.is_compiling() and tensor.is_cuda and type(lengths) is self.torch.Tensor and lengths.numel() and not lengths.any():
            self.assumptions.note("padded sequences with lengths of the device")
            lengths = self.torch.full_like(lengths, tensor.shape[1 if batch_first else 0])
        return own(tensor, lengths, batch_first)

    # The lengths decide no size, but have to add up.
    def reduce_segments(self, own, data, *arguments, **named):
        return own(data, *arguments, **{**named, "unsafe": True} if data.is_cuda else named)

    # PyTorch reads the lengths itself, but while operators are noted it asks for all tensors on the GPU.
    def ctc_loss(self, own, log_probs, targets, input_lengths, target_lengths, *options, **named):
        lengths = input_lengths, target_lengths
        if all(isinstance(one, self.torch.Tensor) and one.is_cpu for one in lengths):
            lengths = [one.tolist() for one in lengths]
        return own(log_probs, targets, *lengths, *options, **named)

    # Each cluster of classes asks which targets it has, and then for these.
    def divide_classes(self, own, layer, tensor, target):
        if not target.is_cuda:
            return own(layer, tensor, target)
        self.assumptions.masks = [part for part in parts(target.numel(), len(layer.cutoffs)) for _ in range(2)]
        try:
            return own(layer, tensor, target)
        finally:
            self.assumptions.masks = []


def parts(rows, count):
    """Returns equal parts of rows, the largest first."""
    return [(rows + count - 1 - i) // count for i in range(count)]
