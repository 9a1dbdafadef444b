# SPDX-License-Identifier: Apache-2.0
"""The entry point of an installed tidepool at the end of `import torch`. It does nothing unless TIDEPOOL_BUDGET is set.

PyTorch calls the entry points of the group torch.backends, from 2.5 on. This is a package of its own, so that a program that does not
ask for a budget imports nothing more.
"""
import os

__all__ = ["torch_is_imported"]


def torch_is_imported() -> None:
    """Trains the models of the program within TIDEPOOL_BUDGET, as `python -m tidepool.torch` does."""
    budget = os.environ.get("TIDEPOOL_BUDGET")
    if not budget:
        return
    from tidepool._torch_compile import _options
    from tidepool._torch_offload import _run

    try:
        _run.watch(_options.check({"budget": budget}))
    except ValueError as error:
        # PyTorch turns other exceptions into one without this text in its last line.
        raise SystemExit(f"tidepool: TIDEPOOL_BUDGET: {error}") from None
