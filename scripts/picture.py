# SPDX-License-Identifier: Apache-2.0
"""The page of a picture of results: its title, its colours for light and dark readers, and the scripts' options."""
import argparse
import pathlib
from xml.sax.saxutils import escape

STYLE = """<style>
text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif;fill:#16202a}
.h{font-size:15px;font-weight:600}.t{fill:#55636f}.e{text-anchor:end}.m{text-anchor:middle}.page{fill:#fff}.grid{stroke:#e3e8ec;fill:none}
.tidepool{fill:#1d6f8a}path.tidepool{fill:none;stroke:#1d6f8a;stroke-width:1.8}.other{fill:#d55e00}
@media(prefers-color-scheme:dark){text{fill:#e6ebf0}.t{fill:#a3b0bc}.page{fill:#171d24}.grid{stroke:#2a333d}
.tidepool{fill:#5bb5d0}path.tidepool{stroke:#5bb5d0}.other{fill:#f0803c}}
</style>"""


def page(title, width, height, lines):
    """Returns an SVG document of lines below a title; sizes in pixels."""
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-labelledby="t">',
            f'<title id="t">{escape(title)}</title>', STYLE, '<rect class="page" width="100%" height="100%" rx="6"/>',
            f'<text x="16" y="24" class="h">{escape(title)}</text>']
    return "\n".join([*head, *lines, "</svg>"]) + "\n"


def draw(help_text, svg_of):
    """Reads the options `RESULTS -o PICTURE.svg`, and writes the picture of the text of the results."""
    parser = argparse.ArgumentParser(description=help_text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("-o", dest="picture", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.picture.write_text(svg_of(options.results.read_text(encoding="utf-8")), encoding="utf-8")
