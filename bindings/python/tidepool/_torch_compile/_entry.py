# SPDX-License-Identifier: Apache-2.0
"""The backend as an entry point: torch.compile(model, backend="tidepool") loads it in an installed package."""
from ._backend import backend
from ._expected import expect_graphs_of_all

__all__ = ["backend"]

expect_graphs_of_all()
