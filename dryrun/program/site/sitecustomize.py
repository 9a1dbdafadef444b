# SPDX-License-Identifier: Apache-2.0
"""Lets `tidepool dryrun` into each Python process of the program, and then the sitecustomize that Python would have found."""
import importlib.machinery
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
sys.path = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _here]


def _load(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(_here, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


_load("_tidepool_lines")
_load("_tidepool_conditions")
_load("_tidepool_assumed")
_load("_tidepool_joined")
_load("_tidepool_tensors")
_load("_tidepool_steps")
_load("_tidepool_checks")
_load("_tidepool_imports")
_load("_tidepool_checkpoints")
_load("_tidepool_exchanges")
_load("_tidepool_generation")
_load("_tidepool_host")
_load("_tidepool_lbfgs")
_load("_tidepool_lengths")
_load("_tidepool_libraries").replace_paths()
_load("_tidepool_modules")
_load("_tidepool_parent").end_with_parent()
_load("_tidepool_pinned")
_load("_tidepool_pipelines")
_load("_tidepool_ranks")
_load("_tidepool_workspaces")
_load("_tidepool_recording")
_load("_tidepool_triton")
_load("_tidepool_world")
_load("_tidepool_dryrun").begin()

# The one that Python would have found without this one.
_next = importlib.machinery.PathFinder.find_spec("sitecustomize")
if _next is not None:
    _next.loader.exec_module(importlib.util.module_from_spec(_next))
