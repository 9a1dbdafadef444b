# SPDX-License-Identifier: Apache-2.0
"""A warning for a compiled program of which no graph comes to the backend, since then nothing keeps its budget."""
import functools
import inspect
import warnings
import weakref
from typing import Any, Callable, Iterable, List

import torch
from torch.optim.optimizer import Optimizer

from . import _backend, _optimizers, _private

__all__ = ["expect_graphs", "expect_graphs_of_all"]

_Modules = Iterable[torch.nn.Module]


def _modules_of(program: Any) -> List[torch.nn.Module]:
    """Returns the modules that a program is, or that a function has the names of."""
    if isinstance(program, torch.nn.Module):
        return [program]
    if not inspect.isfunction(program):
        return []
    try:
        names = inspect.getclosurevars(program)
    except ValueError:  # a variable without a value
        return []
    return [one for one in (*names.nonlocals.values(), *names.globals.values()) if isinstance(one, torch.nn.Module)]


def _has_trained(optimizer: Optimizer, modules: _Modules) -> bool:
    """Returns whether an optimizer had a gradient of a parameter of the modules in its last step."""
    parameters = {id(one) for module in modules for one in module.parameters() if one.grad is not None}
    return any(id(one) in parameters for group in optimizer.param_groups for one in group["params"])


def _graph_count() -> int:
    return len(_backend.plans) + sum(_backend.fallbacks.values())


def _expect(modules: Callable[[], _Modules]) -> None:
    """Warns after the first step that trains modules if no graph with a backward pass has come by then. Ends where there are no modules."""
    count = _graph_count()

    def check(optimizer: Optimizer) -> bool:
        found = list(modules())
        if not found or _graph_count() > count:
            return True
        if not _has_trained(optimizer, found):
            return False
        warnings.warn("tidepool: no graph with a backward pass has come from torch.compile by the end of the first step, so no budget is kept. Call "
                      "the compiled model in the place of the model itself, outside of torch.compiler.disable(), and with fullgraph=True, which "
                      "raises an error that tells why PyTorch does not compile it", RuntimeWarning, stacklevel=2)
        return True

    _optimizers.after_steps(check)


def expect_graphs(program: Callable[..., Any]) -> None:
    """Expects graphs of a module, or of a function that names modules, as long as it lives."""
    found = weakref.ref(program.__self__ if inspect.ismethod(program) else program)
    _expect(lambda: _modules_of(found()))


def expect_graphs_of_all() -> None:
    """Expects graphs of the modules that torch.compile has for the backend when an optimizer steps next."""
    @functools.lru_cache(maxsize=None)
    def found() -> "List[weakref.ref[torch.nn.Module]]":
        return [weakref.ref(module) for module in _private.modules_compiled_by("tidepool")]

    def modules() -> _Modules:
        return [one for one in (one() for one in found()) if one is not None]

    _expect(modules)
