# SPDX-License-Identifier: Apache-2.0
"""Calls functions when the program imports a module."""
import importlib.abc
import importlib.util
import sys


class _Watch(importlib.abc.MetaPathFinder):
    def __init__(self, name, before, after):
        self.name, self.before, self.after = name, before, after

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_between(module):
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
