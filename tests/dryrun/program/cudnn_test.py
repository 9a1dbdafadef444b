#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The memory of cuDNN in graphs of models, from the stand-in's rules, without PyTorch.

cudnn_test.py PARTS
"""
import math
import sys
import types
import unittest

sys.path.insert(0, sys.argv.pop(1))

from tidepool_dryrun import cudnn, gpus  # noqa: E402

A100, H100, V100 = map(gpus.find, ("a100-80", "h100", "v100"))
SINGLE, HALF = ("torch.float32", 4), ("torch.float16", 2)


class Tensor:
    def __init__(self, *shape, type_=SINGLE, last=False):
        self.shape, (self.dtype, self.size) = shape, type_
        order = [0, *range(2, len(shape)), 1] if last else range(len(shape))
        strides, step = {}, 1
        for dimension in reversed(order):
            strides[dimension], step = step, step * shape[dimension]
        self.strides = tuple(strides[dimension] for dimension in range(len(shape)))

    def stride(self):
        return self.strides

    def numel(self):
        return math.prod(self.shape)

    def element_size(self):
        return self.size


def operator(name):
    return types.SimpleNamespace(_overloadpacket=types.SimpleNamespace(__name__=name))


def size(bytes_):
    """Returns the size of a workspace: an odd one, for whole blocks."""
    return -(-int(bytes_) // 512) * 512 - 1


class ConvolutionTest(unittest.TestCase):
    def forward(self, gpu, x, w, y, *how):
        return cudnn.workspace(gpu, operator("convolution"), (x, w, None, *how), [y])

    def backward(self, x, w, y, made, wanted, transposed=False):
        arguments = (y, x, w, None, [1, 1], [1, 1], [1, 1], transposed, [0, 0], 1, wanted)
        return cudnn.workspace(A100, operator("convolution_backward"), arguments, made)

    # A hundred-class GPU copies X, Y and W to the order that its units read, and others take Winograd's algorithm here.
    def test_is_that_of_the_algorithm_that_is_first(self):
        how = [1, 1], [1, 1], [1, 1], False, [0, 0], 1
        for type_ in (SINGLE, HALF):
            x, w, y = Tensor(32, 64, 56, 56, type_=type_), Tensor(128, 64, 3, 3, type_=type_), Tensor(32, 128, 56, 56, type_=type_)
            copies = type_[1] * sum(one.numel() for one in (x, w, y))
            self.assertEqual(self.forward(A100, x, w, y, *how), size(4 * 64 * 9 + copies))
        last = Tensor(32, 64, 56, 56, last=True)
        x, w, y = Tensor(32, 64, 56, 56), Tensor(128, 64, 3, 3), Tensor(32, 128, 56, 56)
        self.assertEqual(self.forward(A100, last, w, y, *how), size(4 * 64 * 9), "channels last")
        self.assertEqual(self.forward(V100, x, w, y, *how), size(4 * (2.25 * (x.numel() + y.numel()) + 4 * w.numel())))
        self.assertEqual(self.forward(A100, x, Tensor(64, 1, 3, 3), x, *how[:5], 64), 0, "depthwise")
        self.assertEqual(cudnn.workspace(A100, operator("mm"), (x, w), [y]), 0)

    # Filters of one element with stride 1 and no padding need no copies on an H100.
    def test_one_direction_is_taken_for_two(self):
        one = self.forward(H100, Tensor(8, 64, 128), Tensor(128, 64, 1), Tensor(8, 128, 128), [1], [0], [1], False, [0], 1)
        two = self.forward(H100, Tensor(8, 64, 1, 128), Tensor(128, 64, 1, 1), Tensor(8, 128, 1, 128), [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
        self.assertEqual(one, two)
        self.assertLess(one, 512)

    # The forward pass of a transposed convolution is the gradient of the input of the other. In other roles these tensors have two groups, and
    # Winograd's algorithm is for one.
    def test_transposed_convolutions_have_their_tensors_in_other_roles(self):
        x, w, y = Tensor(8, 64, 56, 56), Tensor(64, 32, 3, 3), Tensor(8, 32, 56, 56)
        found = self.forward(V100, x, w, y, [1, 1], [1, 1], [1, 1], True, [0, 0], 1)
        self.assertEqual(found, size(4 * (2.25 * (x.numel() + y.numel()) + 4 * w.numel())))

    def test_the_gradient_of_the_input_has_the_memory_of_that_of_the_filters(self):
        x, w, y = Tensor(32, 64, 56, 56), Tensor(64, 64, 3, 3), Tensor(32, 64, 56, 56)
        each = size(4 * 64 * 9 + 4 * sum(one.numel() for one in (x, w, y)))
        self.assertEqual(self.backward(x, w, y, [w], [False, True, False]), each)
        self.assertEqual(self.backward(x, w, y, [x], [True, False, False]), each)
        self.assertEqual(self.backward(x, w, y, [x, w], [True, True, False]), each)
        self.assertEqual(self.backward(x, w, y, [], [False, False, True]), 0)


class RecurrentTest(unittest.TestCase):
    # Two layers of 1,500 with 35 steps and batch 64: dryrun/cudnn/answers/recurrent_layers.cc has the formulas.
    def test_has_the_memory_of_dry_runs(self):
        states, matrices = 35 * 64 * 1500 * 2, 2 * 4 * 1500 * 3000
        work, reserve = 4 * (matrices + 4 * states), 4 * (5 * states + states // 2)
        found = cudnn.memory_of_layers(0, cudnn.LSTM, 0, 1500, 1500, 0, 2, 0.0, 35, 64)
        self.assertEqual(found, (work, reserve))
        self.assertEqual(cudnn.memory_of_layers(0, cudnn.LSTM, 0, 1500, 1500, 0, 2, 0.5, 35, 64), (work, reserve + states // 16))

    # A product of each row of the input, and of the state, with its matrix in each step; biases take no product.
    def test_has_the_operations_of_all_steps(self):
        arguments = Tensor(35, 64, 1500), [Tensor(6000, 1500), Tensor(6000, 1500), Tensor(6000), Tensor(6000)]
        each = 2 * 35 * 64 * 2 * 6000 * 1500
        self.assertEqual(cudnn.operations(operator("_cudnn_rnn"), arguments), each)
        self.assertEqual(cudnn.operations(operator("_cudnn_rnn_backward"), arguments), 2 * each)
        self.assertEqual(cudnn.operations(operator("mm"), arguments), 0)


if __name__ == "__main__":
    unittest.main()
