# SPDX-License-Identifier: Apache-2.0
"""The folder of `python -m tidepool.dryrun`. As a module it is the function of that name, so that importing it hides nothing."""
import sys
import types

from .._dryrun import dryrun as _function


class _Function(types.ModuleType):
    __call__ = staticmethod(_function)


sys.modules[__name__].__class__ = _Function
