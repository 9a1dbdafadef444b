# SPDX-License-Identifier: Apache-2.0
"""The files that a dry run writes at its end. Their names are checked before it begins."""
import os

from . import text

RANK = "{rank}"  # in the name of the file of a graph: each rank has one
ENDINGS = {"snapshot": (), "report": (".html", ".svg", ".folded"), "graph": (), "front": (".svg",)}  # by the name of the option


def check(options):
    """Raises ValueError for the name of a file that cannot be written, or read."""
    for name, endings in ENDINGS.items():
        path = getattr(options, name)
        problem = path and (problem_of_ending(path, endings) or problem_of_place(path))
        if problem:
            raise ValueError(f"--{name} {text.printable(path)}: {problem}")
    if options.prices and not os.path.isfile(options.prices):
        raise ValueError(f"--prices {text.printable(options.prices)}: no such file, expected one with a line GPU,PRICE for each GPU")


def problem_of_ending(path, endings):
    if not endings or path.endswith(endings):
        return None
    return f"expected a name that ends in {' or '.join([', '.join(endings[:-1]), endings[-1]] if endings[1:] else endings)}"


def problem_of_place(path):
    """Returns why no file of that name can be written, or None."""
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        return "a folder, expected the name of a file in it"
    if not os.path.isdir(folder):
        return f"no folder {text.printable(folder)}: make it, or name another one"
    written = path if os.path.exists(path) else folder
    return None if os.access(written, os.W_OK) else f"{text.printable(written)} may not be written: name another file"
