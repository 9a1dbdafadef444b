# SPDX-License-Identifier: Apache-2.0
"""Runs a program that stays as it is, with tidepool.torch.offload() around its models.

    TIDEPOOL_BUDGET=23GiB python train.py --epochs 3                     # where pip installed tidepool
    python -m tidepool.torch --budget 23GiB train.py --epochs 3
"""
import argparse
import atexit
import collections
import functools
import os
import pathlib
import runpy
import sys
import threading
import warnings
import weakref
from typing import Any, Callable, List, Optional

import torch
from torch import nn

from .._torch_compile import _options
from ._training import Training

__all__ = ["main", "watch"]

_watching: Optional["_Models"] = None


class _Models:
    """Finds the models of a program: modules that it calls to train, outside of any other module."""

    def __init__(self, options: _options.Options):
        self.options = options
        self.trainings: "weakref.WeakKeyDictionary[nn.Module, Optional[Training]]" = weakref.WeakKeyDictionary()
        self.thread = threading.local()

    def watch(self) -> None:
        call: Callable[..., Any] = nn.Module.__call__

        @functools.wraps(call)
        def watched(module: nn.Module, *arguments: Any, **keywords: Any) -> Any:
            if getattr(self.thread, "is_inside", False):
                return call(module, *arguments, **keywords)
            self.thread.is_inside = True
            try:
                self.take(module)
                return call(module, *arguments, **keywords)
            finally:
                self.thread.is_inside = False

        nn.Module.__call__ = watched  # type: ignore[method-assign]

    def take(self, module: nn.Module) -> None:
        is_trained = module.training and torch.is_grad_enabled() and any(each.requires_grad for each in module.parameters())
        if not is_trained or module in self.trainings:
            return
        self.trainings[module] = None
        if type(module).__name__ == "OptimizedModule":
            warnings.warn("tidepool: a model of torch.compile is left as it is; give torch.compile backend=\"tidepool\"",
                          RuntimeWarning, stacklevel=3)
            return
        try:
            self.trainings[module] = Training(module, self.options.budget, self.options.link).__enter__()
        except (ValueError, RuntimeError) as error:
            warnings.warn(f"tidepool: the model {type(module).__name__} is left as it is: {error}", RuntimeWarning, stacklevel=3)

    def report(self) -> None:
        """Prints a line for each model."""
        for module, training in self.trainings.items():
            if training is None or training.prediction is None:
                continue
            modes = collections.Counter(mode for _, mode in training.modes)
            print(f"tidepool: {type(module).__name__}: {_options.size_text(training.prediction.peak_bytes)} predicted of "
                  f"{_options.size_text(self.options.budget)}; stages: "
                  + ", ".join(f"{count} {mode}" for mode, count in sorted(modes.items())), file=sys.stderr)


def watch(options: _options.Options) -> None:
    """Trains models that are first called from now on within the budget of the options."""
    global _watching
    if _watching is not None:  # as where TIDEPOOL_BUDGET is set, and --budget is given too
        _watching.options = options
        return
    _watching = _Models(options)
    _watching.watch()
    atexit.register(_watching.report)


def _arguments(given: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tidepool.torch", description="Trains the models of a program within a budget of memory")
    parser.add_argument("--budget", default=os.environ.get("TIDEPOOL_BUDGET"),
                        help="bytes of the device, such as 23GiB (default: TIDEPOOL_BUDGET)")
    parser.add_argument("--link", help="bytes a second between device and host, such as 25GB/s (default: measured)")
    parser.add_argument("-m", dest="is_module", action="store_true", help="the program is a module, as for python -m")
    parser.add_argument("program", help="the path of a script, or the name of a module")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="arguments of the program")
    parsed = parser.parse_args(given)
    try:
        parsed.options = _options.check({"budget": parsed.budget, **({"link": parsed.link} if parsed.link else {})})
    except ValueError as error:
        parser.error(str(error) if parsed.budget else "no budget; give --budget 23GiB, or set TIDEPOOL_BUDGET")
    if not parsed.is_module and not pathlib.Path(parsed.program).is_file():
        parser.error(f"no file {parsed.program}")
    return parsed


def main(given: List[str]) -> None:
    """Runs the program that the arguments name."""
    parsed = _arguments(given)
    watch(parsed.options)
    sys.argv = [parsed.program, *parsed.rest]
    if parsed.is_module:
        sys.path[0] = os.getcwd()
        runpy.run_module(parsed.program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(pathlib.Path(parsed.program).resolve().parent)
        runpy.run_path(parsed.program, run_name="__main__")
