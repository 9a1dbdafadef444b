# SPDX-License-Identifier: Apache-2.0
"""The picture of a search for the fewest GPUs: a bar for each layout, as long as the memory that PyTorch reserves on a GPU."""
from xml.sax.saxutils import escape

from . import layouts, text

# Sizes in pixels.
WIDTH, MARGIN, TOP, ROW = 760, 16, 64, 26
BARS = 300  # the most of a bar
LETTER = 7  # of a label, about
STYLE = """<style>
text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif;fill:#16202a}
.h{font-size:15px;font-weight:600}.t{fill:#55636f}.page{fill:#fff}.fits{fill:#1d6f8a}.not{fill:#b3261e;fill-opacity:.55}
.budget{stroke:#b3261e;stroke-width:2.2}
@media(prefers-color-scheme:dark){text{fill:#e6ebf0}.t{fill:#a3b0bc}.page{fill:#171d24}.fits{fill:#5bb5d0}.not{fill:#ff8a80}
.budget{stroke:#ff8a80}}
</style>"""


def label_of(layout):
    return f"{layouts.named(layout.values)}: {layout.gpus} {'GPU' if layout.gpus == 1 else 'GPUs'}"


def bar(layout, row, left, scale, range_name):
    """Returns the lines of a layout: its name, its bar, and a few words."""
    top, found = TOP + ROW * row, layout.answer()
    length = round((found["peak_reserved_bytes"] or 0) * scale, 1)
    return [f'<text x="{MARGIN}" y="{top + 17}">{escape(label_of(layout))}</text>',
            f'<rect class="{"fits" if layout.fits else "not"}" x="{left}" y="{top + 4}" width="{length}" height="{ROW - 8}"/>',
            f'<text x="{left + BARS + MARGIN}" y="{top + 17}" class="t">{escape(layouts.verdict(layout, range_name))}</text>']


def svg(tried, machine, range_name, title):
    """Returns the picture of the layouts that were tried."""
    left = MARGIN + LETTER * max(len(label_of(layout)) for layout in tried) + MARGIN
    words = max(len(layouts.verdict(layout, range_name)) for layout in tried)
    width = max(WIDTH, left + BARS + LETTER * words + 2 * MARGIN)
    bottom = TOP + ROW * len(tried)
    most = max([machine.memory_bytes, *(layout.answer()["peak_reserved_bytes"] or 0 for layout in tried)])
    scale = BARS / most
    memory = round(left + machine.memory_bytes * scale, 1)
    of_machine = f"{text.size(machine.memory_bytes)} of the {machine.gpu.title}"
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{bottom + MARGIN}" viewBox="0 0 {width} {bottom + MARGIN}">', STYLE,
             '<rect class="page" width="100%" height="100%" rx="6"/>',
             f'<text x="{MARGIN}" y="24" class="h">{escape(title)}: memory that PyTorch reserves on a GPU</text>',
             f'<text x="{left}" y="{TOP - 12}" class="t">The line is at {escape(of_machine)}</text>']
    for row, layout in enumerate(tried):
        lines += bar(layout, row, left, scale, range_name)
    lines += [f'<line class="budget" x1="{memory}" x2="{memory}" y1="{TOP}" y2="{bottom}"/>', "</svg>"]
    return "\n".join(lines) + "\n"
