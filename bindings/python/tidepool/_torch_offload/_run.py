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
        self.trainings: "weakref.WeakKeyDictionary[nn.Module, Training]" = weakref.WeakKeyDictionary()
        self.compiled: "weakref.WeakSet[nn.Module]" = weakref.WeakSet()  # models that torch.compile compiles, whole or in parts
        self.has_compiled = False
        self.known: "weakref.WeakSet[nn.Module]" = weakref.WeakSet()  # models, and the modules in them
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
                if module in self.compiled:
                    nn.Module.__call__ = call  # type: ignore[method-assign]  # what torch.compile knows
                return call(module, *arguments, **keywords)
            finally:
                self.thread.is_inside = False
                nn.Module.__call__ = watched  # type: ignore[method-assign]

        nn.Module.__call__ = watched  # type: ignore[method-assign]

    def take(self, module: nn.Module) -> None:
        is_trained = module.training and torch.is_grad_enabled() and any(each.requires_grad for each in module.parameters())
        if not is_trained or module in self.known:
            return
        self.known.update(module.modules())
        if _compile_again(module, self.options):
            self.compiled.add(module)
            self.has_compiled = True
            return
        try:
            self.trainings[module] = Training(module, self.options.budget, self.options.link).__enter__()
        except (ValueError, RuntimeError) as error:
            warnings.warn(f"tidepool: the model {type(module).__name__} is left as it is: {error}", RuntimeWarning, stacklevel=3)

    def report(self) -> None:
        """Prints a line for each model, and one for all graphs of compiled ones."""
        size, budget = _options.size_text, _options.size_text(self.options.budget)
        for module, training in self.trainings.items():
            if training.prediction is None:
                continue
            modes = collections.Counter(mode for _, mode in training.modes)
            print(f"tidepool: {type(module).__name__}: {size(training.prediction.peak_bytes)} predicted of {budget}; stages: "
                  + ", ".join(f"{count} {mode}" for mode, count in sorted(modes.items())), file=sys.stderr)
        if self.has_compiled:
            from .._torch_compile._backend import plans

            for plan in plans[-1:]:
                print(f"tidepool: compiled modules: {size(plan.peak_bytes)} predicted of {budget}; {plan.runs_again} operators run again, "
                      f"{plan.copies_out} copies out in the last of {len(plans)} plans", file=sys.stderr)


def _compile_again(model: nn.Module, options: _options.Options) -> bool:
    """Gives modules of a model that torch.compile compiles the backend tidepool. Returns whether there are any."""
    is_optimized = [module for module in model.modules() if type(module).__name__ == "OptimizedModule"]
    in_place = [module for module in model.modules() if getattr(module, "_compiled_call_impl", None) is not None]
    if not is_optimized and not in_place:
        return False
    warnings.warn("tidepool: compiled modules train by tidepool's backend, with eager kernels in place of the compiler's",
                  RuntimeWarning, stacklevel=4)
    import tidepool.torch

    given = {"budget": options.budget, **({} if options.link is None else {"link": options.link or "none"})}
    for module in is_optimized:
        ours = tidepool.torch.compile(module._orig_mod, **given)
        module.dynamo_ctx, module.forward = ours.dynamo_ctx, ours.forward
    for module in in_place:
        module.compile(backend="tidepool", options=given, dynamic=False)
    return True


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
    parser.add_argument("--link", help="bytes a second between device and host, such as 25GB/s, or none (default: measured)")
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
