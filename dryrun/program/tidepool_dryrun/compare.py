# SPDX-License-Identifier: Apache-2.0
"""One program in two environments: the growth from the first to the second."""
import contextlib
import dataclasses
import os
import pathlib
import tempfile

from . import answer as answers
from . import environments, text
from .errors import DryRunError

REFUSED = ("fit", "snapshot", "report", "graph", "front", "by")  # options of one run
MOST_LINES = 10  # for people
PEAKS = {"peak live": "peak_live_bytes", "PyTorch reserves": "peak_reserved_bytes"}


def check(options):
    """Raises ValueError for an option that a comparison has no place for."""
    for name in REFUSED:
        if getattr(options, name):
            raise ValueError(f"--compare with --{name}: a comparison has two runs, remove one of the two options")


@contextlib.contextmanager
def first_in_path(folder):
    """Lets programs find those of a folder first."""
    before = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = os.pathsep.join([folder, before])
    try:
        yield
    finally:
        os.environ["PATH"] = before


def run(make_run, options):
    """Returns the answer of a comparison. `make_run` makes the dry run of options."""
    places = [environments.find(name, options.command) for name in options.compare]
    with tempfile.TemporaryDirectory(prefix="tidepool-dryrun-") as name:
        runs = []
        for number, place in enumerate(places):
            folder = pathlib.Path(name, str(number))
            folder.mkdir()
            with first_in_path(place.folder):
                one = make_run(dataclasses.replace(options, command=place.command(options.command)))
                try:
                    runs.append((one, one.answer(one.command, folder)))
                except DryRunError as error:
                    raise DryRunError(f"{place.name}: {error}") from None
            if runs[-1][1]["interrupted"]:
                raise KeyboardInterrupt
        found = [answer for _, answer in runs]
        largest = [answers.largest_of(answer["ranks"]) for answer in found]
        difference = difference_of(runs[0][0].tool, largest)
    for place, answer in zip(places, found):
        answer["environment"] = place.name
        for rank in answer["ranks"]:
            del rank["snapshot"]
    return {"dry_run": True, "compared": found, **difference}


def difference_of(tool, ranks):
    """Returns the lines and the purposes with other bytes at the peak, those first that grew most."""
    if any(rank["snapshot"] is None for rank in ranks):
        return {"lines": [], "categories": []}
    # Files of one device, so that both are read as that of the rank.
    found = tool.ask("diff", *(rank["snapshot"] for rank in ranks), "--device", ranks[0]["device"])

    def changed(rows, key):
        rows = [{key: row[key], "before_bytes": row["before"], "after_bytes": row["after"]} for row in rows if row["before"] != row["after"]]
        return sorted(rows, key=lambda row: row["before_bytes"] - row["after_bytes"])

    lines = changed(found["by_frame"], "frame")
    below = {one["frame"]: one["below"] for one in ranks[1]["top"]}
    return {"lines": [{**row, "below": below.get(row["frame"], [])} for row in lines], "categories": changed(found["by_category"], "category")}


def change(before, after):
    """Returns the text of a change, empty for equal values."""
    if before == after:
        return ""
    share = f" ({100 * (after / before - 1):+.1f} %)" if before else ""
    return f"{'+' if after > before else '-'}{text.size(abs(after - before))}{share}"


def lines(found, title):
    """Returns the lines of a comparison of the program `title`."""
    first, second = found["compared"]
    heads = [f"  {name:<6}  {text.printable(one['environment'])}, {text.program(one)}" for name, one in (("before", first), ("after", second))]
    rows = [("", "before", "after", "change")]
    rows += [(name, text.size(first[key]), text.size(second[key]), change(first[key], second[key])) for name, key in PEAKS.items()]
    rows.append(("fits", *(text.positive(one) if one["fits"] else "no" for one in (first, second)), ""))
    rows += table("by purpose", found["categories"], "category") + table("by line", found["lines"], "frame")
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    printed = [f"  {row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]}".rstrip() for row in rows]
    return [f"{text.program_name(title)} compared, no GPU used ({first['gpu']} assumed)", *heads, *printed]


def table(name, changed, key):
    """Returns the rows of differences, and no row without any."""
    if not changed:
        return []
    rows = [(name, "", "", "")]
    for row in changed[:MOST_LINES]:
        below = text.line_below(row) if row.get("below") else ""
        rows.append(("  " + text.printable(row[key]) + text.printable(below), text.size(row["before_bytes"]), text.size(row["after_bytes"]),
                     change(row["before_bytes"], row["after_bytes"])))
    if len(changed) > MOST_LINES:
        rows.append((f"  and {len(changed) - MOST_LINES} more, with --json", "", "", ""))
    return rows
