# SPDX-License-Identifier: Apache-2.0
"""Checks of results that a program reads from the device: they hold for zeros, so a dry run answers that all is well.

`all` of anything else stays False, as all results do: a loop that asks whether every sequence has ended goes on to its limit.
"""
import os
import sys
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
MOST_KNOWN = 1 << 20  # bytes of a copy from the host which the stand-in keeps until the next kernel


class Checks:
    """Kernels for the functions of PyTorch that check results, and for `all` of these."""

    def __init__(self, torch):
        self.torch = torch
        self.distributions = os.path.join(os.path.dirname(torch.__file__), "distributions") + os.sep
        self.library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns that kernels are replaced
            for name, kernel in (("isfinite", self.isfinite), ("isclose", self.isclose), ("all", self.all),
                                 ("_is_all_true", self.is_all_true), ("allclose", self.allclose), ("equal", self.equal)):
                self.library.impl(name, kernel, "CUDA")

    def well(self, result):
        """Lets the host read True, and `all` know it of a larger tensor."""
        if result.numel() <= MOST_KNOWN and not self.torch.cuda.is_current_stream_capturing():
            result.copy_(self.torch.ones(result.shape, dtype=result.dtype))
        result.tidepool_is_well = True
        return result

    def isfinite(self, x):
        return self.well(self.torch.ops.aten.isfinite.default.decompose(x))

    def isclose(self, x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
        return self.well(self.torch.ops.aten.isclose.default.decompose(x, y, rtol, atol, equal_nan))

    def own_all(self, x):
        return self.torch.ops.aten.all.dims(x, None)

    def all(self, x):
        result = self.own_all(x)
        return self.well(result) if hasattr(x, "tidepool_is_well") or self.is_validation() else result

    def is_validation(self):
        """Returns whether a distribution asks, about its parameters or values."""
        frame = sys._getframe(1)
        while frame is not None and os.path.dirname(os.path.abspath(frame.f_code.co_filename)) == HERE:
            frame = frame.f_back
        return frame is not None and frame.f_code.co_filename.startswith(self.distributions)

    def is_all_true(self, x):
        return self.well(self.own_all(x))

    def allclose(self, x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
        self.own_all(self.torch.isclose(x, y, rtol, atol, equal_nan))
        return True

    def equal(self, x, y):
        if x.shape != y.shape:
            return False
        if x.numel() > 0 and not x.is_set_to(y):  # PyTorch compares no tensor with itself
            self.own_all(x == y)
        return True
