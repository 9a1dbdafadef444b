# SPDX-License-Identifier: Apache-2.0
"""The time of Triton's kernels on the clock of a dry run: that of the tensors that they are called with. The stand-in for the CUDA runtime
sees the number of their threads alone."""
import ctypes
import math

import _tidepool_imports as imports


class Kernels:
    """The calls of kernels that Inductor or the program wrote in Triton."""

    def __init__(self, torch):
        self.torch = torch
        self.move = ctypes.CDLL("libcudart.so." + torch.version.cuda.split(".")[0]).cudartHostKernelsMove
        self.move.argtypes, self.move.restype = [ctypes.c_longlong], None
        imports.watch("torch._inductor.runtime.triton_heuristics",
                      lambda module: self.time(module.CachingAutotuner, lambda kernel: kernel.fn.arg_names))
        imports.watch("triton.runtime.jit", lambda module: self.time(module.JITFunction, lambda kernel: kernel.arg_names))

    def time(self, kind, names_of):
        """Lets `run` of a kind of kernels tell the bytes of each launch."""
        run = kind.run

        def timed(kernel, *values, **keywords):
            self.move(self.bytes_of(dict(zip(names_of(kernel), values), **keywords)))
            try:
                return run(kernel, *values, **keywords)
            finally:
                self.move(-1)

        kind.run = timed

    def bytes_of(self, values):
        """Returns the bytes that a kernel reads and writes: all of each tensor. One of Inductor takes at most as many elements of each as
        its loops have, and both reads and writes those with a name that begins with `in_out`."""
        loops = [value for name, value in values.items() if name.endswith("numel") and isinstance(value, int)]
        most = math.prod(loops) if loops else math.inf
        return sum(min(tensor.numel(), most) * tensor.element_size() * (2 if name.startswith("in_out") else 1)
                   for name, tensor in values.items() if isinstance(tensor, self.torch.Tensor))
