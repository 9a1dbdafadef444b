# SPDX-License-Identifier: Apache-2.0
"""Keeps NVIDIA's own libraries out of the program. PyTorch and others load those beside them by their paths, which the dynamic
linker takes for other libraries than the ones that it has under the same names."""
import ctypes
import functools
import os


def replace_paths():
    """Lets ctypes load the libraries of the dry run in the place of those of the same names."""
    replaced = {name for name in os.environ.get("LD_PRELOAD", "").split(os.pathsep) if name and os.sep not in name}
    load = ctypes.CDLL.__init__

    @functools.wraps(load)
    def load_replaced(self, name, *arguments, **named):
        own = os.path.basename(os.fsdecode(name)) if isinstance(name, (str, bytes, os.PathLike)) else None
        load(self, own if own in replaced else name, *arguments, **named)

    ctypes.CDLL.__init__ = load_replaced
