# SPDX-License-Identifier: Apache-2.0
"""Which lines of a stack are those of the program: the innermost one names the request or the error. The tool chooses in the same way (frames.cc)."""
import functools
import os
import re

LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "/_tidepool_")
TORCH = re.compile(r"/torch/(nn/|autograd/|optim/|utils/|cuda/|distributed/|_|amp/|fx/|functional\.py)")  # wherever it is installed
GENERATED = re.compile(r"/(..)/c\1[a-z2-7]{49}\.py")  # modules that Inductor writes
TYPED = ("<stdin>", "<string>")  # programs from standard input or the command line, and functions that libraries make of text


@functools.lru_cache(maxsize=None)
def is_of_program(name):
    return not (any(part in name for part in LIBRARIES) or TORCH.search(name) or GENERATED.search(name) or name.startswith("<") or
                os.path.basename(os.path.dirname(name)) == "tidepool_dryrun")


def innermost(names):
    """Returns the position of the innermost file of the program, or else of a program without a file, or None. `names` are those of a stack,
    the innermost first."""
    found = (at for rule in (is_of_program, TYPED.__contains__) for at, name in enumerate(names) if rule(name))
    return next(found, None)
