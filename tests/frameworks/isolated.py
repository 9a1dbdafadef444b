# SPDX-License-Identifier: Apache-2.0
"""Runs tests of frameworks, each in a process of its own.

A framework keeps its allocator until its process ends, so tests cannot share a process. The children
are forked after the imports, which take seconds, and before CUDA is used.
"""
import inspect
import os
import signal
import sys
import traceback

SECONDS = 600  # after which a test counts as hanging


def tests_of(names):
    """Returns the functions of a program that are tests, of its global names: those without parameters, but with a public name."""
    functions = [value for name, value in names.items() if inspect.isfunction(value) and value.__module__ == "__main__" and not name.startswith("_")]
    return [function for function in functions if not inspect.signature(function).parameters]


def _run_child(test):
    signal.alarm(SECONDS)
    try:
        test()
    except BaseException:  # noqa: B902, a test may exit
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    # Like the end of a program: the interpreter destroys all that is left.
    sys.exit(0)


def run(tests):
    """Runs tests, by names in the arguments if there are some. Exits with 1 after a failure."""
    wanted = sys.argv[1:]
    failed = []
    for test in tests:
        if wanted and test.__name__ not in wanted:
            continue
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _run_child(test)
        _, status, usage = os.wait4(child, 0)
        status = os.waitstatus_to_exitcode(status)
        print(f"{'ok' if status == 0 else 'FAILED'}  {test.__name__}  {usage.ru_utime + usage.ru_stime:.1f} s of the processor"
              + ("" if status == 0 else f"  (exit status {status})"), flush=True)
        if status != 0:
            failed.append(test.__name__)
    if failed:
        sys.exit(f"{len(failed)} failed: {', '.join(failed)}")
