# SPDX-License-Identifier: Apache-2.0
"""Calls functions when the program imports a module."""
import importlib.abc
import sys


class _Watch(importlib.abc.MetaPathFinder):
    def __init__(self, name, before, after):
        self.name, self.before, self.after = name, before, after

    # A program may look for the module more than once before it imports it.
    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        specs = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next((one for one in specs if one is not None), None)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_between(module):
            if self not in sys.meta_path:  # another spec of the module ran
                execute(module)
                return
            sys.meta_path.remove(self)
            self.before()
            execute(module)
            self.after(module)

        spec.loader.exec_module = execute_between
        return spec


def watch(name, after, before=lambda: None):
    """Calls `before()` before the module runs, and `after(module)` after that: now if it has been imported."""
    if name in sys.modules:
        after(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Watch(name, before, after))
