#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the page of the reader as one file: the module and its program are inside, deflated, in base64.

make_page.py BUILD OUTPUT      BUILD has reader.js and reader.wasm
"""
import base64
import gzip
import pathlib
import re
import sys

here = pathlib.Path(__file__).parent
build, output = map(pathlib.Path, sys.argv[1:])


def packed(contents):
    return base64.b64encode(gzip.compress(contents, 9, mtime=0)).decode()


parts = {
    "version": re.search(r"project\(tidepool VERSION ([0-9.]+)", (here / "../../CMakeLists.txt").read_text())[1],
    "worker": packed((build / "reader.js").read_bytes() + (here / "worker.js").read_bytes()),
    "wasm": packed((build / "reader.wasm").read_bytes()),
    "script": (here / "page.js").read_text(),
}
page = (here / "page.html").read_text()
for name, text in parts.items():
    page = page.replace("{{" + name + "}}", text)
output.write_text(page)
