#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the time of a training step against the memory that PyTorch reserves, from rows of bench/gpu/suite/budgets.py.

usage: budgets_picture.py RESULTS -o PICTURE.svg

RESULTS is a text with rows of JSON among other lines. PyTorch's ways are points, and tidepool's are a line.
"""
import json
from xml.sax.saxutils import escape

import picture

# Sizes in pixels.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 380, 64, 20, 76, 48
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


def svg_of(text):
    model, points = rows_of(text)
    axes = Axes([point for each in points.values() for point in each])
    lines = [*axes.grid()]
    for number, (side, name) in enumerate(NAMES.items()):
        shape = "tidepool" if side == "tidepool" else "other"
        places = [(axes.x(memory), axes.y(milliseconds)) for memory, milliseconds in points[side]]
        lines += [f'<circle class="{shape}" cx="{22 + 350 * number}" cy="48" r="4"/>', f'<text x="{32 + 350 * number}" y="52">{escape(name)}</text>']
        if side == "tidepool":
            lines.append(f'<path class="tidepool" d="M{"L".join(f"{x} {y}" for x, y in places)}"/>')
        lines += [f'<circle class="{shape}" cx="{x}" cy="{y}" r="4"/>' for x, y in places]
    return picture.page(f"{model}: a training step against the memory that PyTorch reserves", WIDTH, HEIGHT, lines)


if __name__ == "__main__":
    picture.draw(__doc__, svg_of)
