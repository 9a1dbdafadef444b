#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the time of a training step against the memory that PyTorch reserves, from rows of bench/gpu/suite/budgets.py.

usage: budgets_picture.py RESULTS -o PICTURE.svg

RESULTS is a text with rows of JSON among other lines. PyTorch's ways are points, and tidepool's are a line.
"""
import argparse
import json
import pathlib
from xml.sax.saxutils import escape

# Sizes in pixels.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 380, 64, 20, 76, 48
STYLE = """<style>
text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif;fill:#16202a}
.h{font-size:15px;font-weight:600}.t{fill:#55636f}.e{text-anchor:end}.m{text-anchor:middle}.page{fill:#fff}.grid{stroke:#e3e8ec;fill:none}
.tidepool{fill:#1d6f8a}path.tidepool{fill:none;stroke:#1d6f8a;stroke-width:1.8}.pytorch{fill:#d55e00}
@media(prefers-color-scheme:dark){text{fill:#e6ebf0}.t{fill:#a3b0bc}.page{fill:#171d24}.grid{stroke:#2a333d}
.tidepool{fill:#5bb5d0}path.tidepool{stroke:#5bb5d0}.pytorch{fill:#f0803c}}
</style>"""
NAMES = {"tidepool": "tidepool.torch.compile within a budget", "pytorch": "torch.compile with activation_memory_budget"}


def rows_of(text):
    """Returns the model, and the points (GB, milliseconds) of each side by memory."""
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    points = {"tidepool": [], "pytorch": []}
    for row in found:
        side = "tidepool" if row["way"] == "compiled" else "pytorch"
        points[side].append((row["reserved_bytes"] / 1e9, row["seconds"] * 1e3))
    return found[0]["model"], {side: sorted(set(each)) for side, each in points.items()}


class Axes:
    """The scales of a picture: whole numbers beyond all points."""

    def __init__(self, points):
        self.least = [int(min(values)) for values in zip(*points)]
        self.most = [int(max(values)) + 1 for values in zip(*points)]

    def x(self, memory):
        return round(LEFT + (memory - self.least[0]) / (self.most[0] - self.least[0]) * (WIDTH - LEFT - RIGHT), 1)

    def y(self, milliseconds):
        return round(HEIGHT - BOTTOM - (milliseconds - self.least[1]) / (self.most[1] - self.least[1]) * (HEIGHT - TOP - BOTTOM), 1)

    def grid(self):
        for memory in range(self.least[0], self.most[0] + 1):
            yield f'<path class="grid" d="M{self.x(memory)} {TOP}V{HEIGHT - BOTTOM}"/>'
            yield f'<text x="{self.x(memory)}" y="{HEIGHT - BOTTOM + 16}" class="t m">{memory} GB</text>'
        for milliseconds in range(self.least[1], self.most[1] + 1):
            yield f'<path class="grid" d="M{LEFT} {self.y(milliseconds)}H{WIDTH - RIGHT}"/>'
            yield f'<text x="{LEFT - 6}" y="{self.y(milliseconds) + 4}" class="t e">{milliseconds} ms</text>'


def svg(model, points):
    axes = Axes([point for each in points.values() for point in each])
    title = f"{model}: a training step against the memory that PyTorch reserves"
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t">',
             f'<title id="t">{escape(title)}</title>', STYLE, '<rect class="page" width="100%" height="100%" rx="6"/>',
             f'<text x="16" y="24" class="h">{escape(title)}</text>', *axes.grid()]
    for number, (side, name) in enumerate(NAMES.items()):
        places = [(axes.x(memory), axes.y(milliseconds)) for memory, milliseconds in points[side]]
        lines += [f'<circle class="{side}" cx="{22 + 350 * number}" cy="48" r="4"/>', f'<text x="{32 + 350 * number}" y="52">{escape(name)}</text>']
        if side == "tidepool":
            lines.append(f'<path class="{side}" d="M{"L".join(f"{x} {y}" for x, y in places)}"/>')
        lines += [f'<circle class="{side}" cx="{x}" cy="{y}" r="4"/>' for x, y in places]
    return "\n".join([*lines, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("-o", dest="picture", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.picture.write_text(svg(*rows_of(options.results.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
