# SPDX-License-Identifier: Apache-2.0
"""Checks of results that a program reads from the device: they hold for zeros, so a dry run answers that all is well.

Where the program raises an exception for one answer, it gets the other. `all` of anything else stays False, as all results do: a loop that
asks whether every sequence has ended goes on to its limit.
"""
import functools
import os
import sys
import warnings

import _tidepool_conditions as conditions
from _tidepool_steps import leave_alone

HERE = os.path.dirname(os.path.abspath(__file__))
MOST_KNOWN = 1 << 20  # bytes of a copy from the host which the stand-in keeps until the next kernel


def version_of(x):
    """Returns how often a tensor was changed in place. Tensors of inference do not count it."""
    return 0 if x.is_inference() else x._version


class Checks:
    """Kernels for the functions of PyTorch that check results, and for `all` of these, and the ways to read them as conditions."""

    def __init__(self, torch):
        self.torch = torch
        self.distributions = os.path.join(os.path.dirname(torch.__file__), "distributions") + os.sep
        self.library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns that kernels are replaced
            for name, kernel in (("isfinite", self.isfinite), ("isclose", self.isclose), ("all", self.all),
                                 ("_is_all_true", self.is_all_true), ("allclose", self.allclose), ("equal", self.equal)):
                self.library.impl(name, kernel, "CUDA")
        for name in ("__bool__", "item"):
            setattr(torch.Tensor, name, self.reading(getattr(torch.Tensor, name)))
        for function in (self.is_well, version_of, *conditions.FUNCTIONS):
            leave_alone(torch, function)

    def reading(self, own):
        """Returns a method of tensors that reads a number."""
        @functools.wraps(own)
        def read(x):
            found = own(x)
            if type(x) is not self.torch.Tensor or x.dtype != self.torch.bool or not x.is_cuda:
                return found
            if self.is_well(x):
                return True
            outcome = conditions.outcome_that_goes_on(sys._getframe(1))
            return found if outcome is None else outcome
        leave_alone(self.torch, read)
        return read

    def well(self, result):
        """Lets the host read True, and `all` know it of a larger tensor."""
        if result.numel() <= MOST_KNOWN and not self.torch.cuda.is_current_stream_capturing():
            result.copy_(self.torch.ones(result.shape, dtype=result.dtype))
        result.tidepool_is_well = version_of(result)
        return result

    def is_well(self, x):
        """Returns whether a check made a tensor, which nothing has changed since."""
        return getattr(x, "tidepool_is_well", None) == version_of(x)

    def isfinite(self, x):
        return self.well(self.torch.ops.aten.isfinite.default.decompose(x))

    def isclose(self, x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
        return self.well(self.torch.ops.aten.isclose.default.decompose(x, y, rtol, atol, equal_nan))

    def own_all(self, x):
        return self.torch.ops.aten.all.dims(x, None)

    def all(self, x):
        result = self.own_all(x)
        return self.well(result) if self.is_well(x) or self.is_validation() else result

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
