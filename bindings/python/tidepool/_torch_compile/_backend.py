# SPDX-License-Identifier: Apache-2.0
"""The backend of torch.compile: compiles each graph of a program to run within the budget."""
from typing import Any, Callable, Mapping, Optional

import torch

from . import _options, _private
from ._jobs import jobs
from ._options import BudgetError
from ._plans import Plan, fallbacks, plans
from ._region import Region

__all__ = ["BudgetError", "Plan", "backend", "fallbacks", "plans"]


def backend(module: torch.fx.GraphModule, inputs: Any, *, options: Optional[Mapping[str, Any]] = None,
            **unknown: Any) -> Callable[..., Any]:
    """Compiles a graph of Dynamo for torch.compile(model, backend="tidepool", options={"budget": ...})."""
    if unknown:
        raise ValueError(f"the backend 'tidepool' takes no {', '.join(map(repr, unknown))}, expected options={{\"budget\": ...}}")
    return torch.compiler.disable(Region(module, inputs, _options.check(options)).__call__)


_private.at_reset(backend, jobs.clear)
