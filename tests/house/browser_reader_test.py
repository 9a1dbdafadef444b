#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the reader in the browser (scripts/browser_reader.sh) and reads files with it in a headless Chromium: a snapshot, a trace,
CSV files and damaged ones give the text of `tidepool info` and the report of `tidepool report`. Skipped (77) without Emscripten or
Chromium.

usage: browser_reader_test.py ROOT [TOOL]
"""
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(sys.argv.pop(1))
TOOL = os.path.abspath(sys.argv.pop(1) if len(sys.argv) > 1 else os.path.join(ROOT, "build/release/trace_replay/tidepool"))
PAGE = os.path.join(ROOT, "build", "browser", "page", "reader.html")
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from chromium import Chromium, find_chromium  # noqa: E402

SEEDS = os.path.join(ROOT, "tests", "fuzz", "seeds")
READABLE = [
    os.path.join(ROOT, "tests/frameworks/dryrun/recorded/h200/llama-1b.pickle.gz"),
    os.path.join(SEEDS, "pytorch_snapshot/protocol4.pickle"),
    os.path.join(SEEDS, "pytorch_snapshot/expandable.pickle"),
    os.path.join(SEEDS, "native/plain.tide"),
    os.path.join(ROOT, "examples/traces/resnet-50-b32-12-steps.tide.gz"),
    os.path.join(ROOT, "examples/traces/serving.csv"),
    os.path.join(ROOT, "examples/traces/resnet50-b4-sgd.rmm.csv.gz"),
]
SECONDS = 120


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


class BrowserReaderTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tidepool-reader-")
        cls.browser = Chromium(1280, 1000)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    def setUp(self):
        self.browser.open(PAGE)

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])
        self.assertEqual(self.browser.requests(), [])

    # --- Helpers.

    def file(self, name, contents):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as file:
            file.write(contents)
        return path

    def tool(self, command, path, *options):
        return subprocess.run([TOOL, command, *options, "--", os.path.basename(path)], cwd=os.path.dirname(path), capture_output=True,
                              text=True)

    def choose(self, path):
        """Gives the page a file as its button does, and waits for the whole answer."""
        document = self.browser.call("DOM.getDocument")["root"]["nodeId"]
        field = self.browser.call("DOM.querySelector", nodeId=document, selector="#file")["nodeId"]
        self.browser.call("DOM.setFileInputFiles", nodeId=field, files=[path])
        self.wait()

    def drop(self, path):
        data = {"items": [], "files": [path], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.browser.call("Input.dispatchDragEvent", type=kind, x=400, y=150, data=data)
        self.wait()

    def wait(self):
        """Waits until the page shows a report or trouble, or says that the file has no report."""
        self.browser.wait_until("!document.getElementById('picture').hidden || !document.getElementById('trouble').hidden || "
                                "document.getElementById('state').textContent.includes('a report needs')", SECONDS)

    def text(self, element):
        return self.browser.evaluate(f"document.getElementById('{element}').textContent")

    def headline(self, page):
        """Opens a report, and returns its headline."""
        self.browser.open(page, "window.tidepoolReport || !document.getElementById('trouble').hidden")
        self.assertTrue(self.browser.evaluate("document.getElementById('trouble').hidden"))
        return self.text("headline")

    # --- Tests.

    def test_a_file_gives_the_text_of_info(self):
        for path in READABLE:
            with self.subTest(path):
                self.setUp()
                self.choose(path)
                self.assertEqual(self.text("trouble"), "")
                self.assertEqual(self.text("info"), self.tool("info", path).stdout)

    def test_a_file_gives_the_page_of_report(self):
        for path in (READABLE[0], READABLE[3], READABLE[6]):
            with self.subTest(path):
                self.setUp()
                self.choose(path)
                page = self.browser.evaluate("window.tidepoolReader.report.text()").encode()
                expected = os.path.join(self.folder.name, "expected.html")
                self.assertEqual(self.tool("report", path, "-o", expected).returncode, 0)
                self.assertEqual(self.headline(self.file("page.html", page)), self.headline(expected))

    def test_the_text_of_an_error_gives_the_text_of_info_alone(self):
        for name in ("error_1.txt", "error_2.txt"):
            with self.subTest(name):
                path = os.path.join(ROOT, "tests", "trace_replay", "cases", name)
                self.setUp()
                self.choose(path)
                self.assertEqual(self.text("trouble"), "")
                self.assertEqual(self.text("info"), self.tool("info", path).stdout)
                self.assertTrue(self.browser.evaluate("document.getElementById('picture').hidden"))
                self.assertIn(f"{name}, 1 kB, is the text of an error", self.text("state"))

    def test_a_dropped_file_is_read(self):
        self.drop(READABLE[0])
        self.assertEqual(self.text("info"), self.tool("info", READABLE[0]).stdout)

    def test_a_damaged_file_gives_the_error_of_info(self):
        with open(READABLE[1], "rb") as file:
            snapshot = file.read()
        with open(READABLE[5], "rb") as file:
            table = file.read()
        lines = table.split(b"\n")
        files = {
            "cut.pickle": snapshot[:len(snapshot) // 2],
            "wrong.csv": b"\n".join(lines[:5] + [b"nonsense,row"] + lines[5:]),
            "cut.csv.gz": gzip.compress(table)[:200],
            "empty": b"",
            "text.txt": b"some words\n",
        }
        for name, contents in files.items():
            with self.subTest(name):
                path = self.file(name, contents)
                expected = self.tool("info", path)
                self.assertEqual(expected.returncode, 1)
                self.setUp()
                self.choose(path)
                self.assertEqual(self.text("trouble") + "\n", expected.stderr)
                self.assertTrue(self.browser.evaluate("document.getElementById('answer').hidden"))

    def test_a_large_file_is_read_after_a_warning(self):
        path = self.file("large.pickle", b"\x80\x04")
        os.truncate(path, 5 << 30)  # more than the module's memory, of which the disk holds one block
        self.choose(path)
        self.assertIn("4 GiB", self.text("warning"))
        self.assertEqual(self.text("trouble") + "\n", self.tool("info", path).stderr)
        self.choose(READABLE[5])
        self.assertEqual(self.text("warning"), "")

    def test_a_later_file_takes_the_place_of_an_earlier_one(self):
        self.choose(self.file("empty", b""))
        self.assertNotEqual(self.text("trouble"), "")
        self.choose(READABLE[5])
        self.assertEqual(self.text("trouble"), "")
        self.assertEqual(self.text("info"), self.tool("info", READABLE[5]).stdout)


if __name__ == "__main__":
    if shutil.which("em++") is None:
        skip("no Emscripten (em++), expected Debian's package emscripten")
    if find_chromium() is None:
        skip("no Chromium, which opens the page")
    subprocess.run([os.path.join(ROOT, "scripts", "browser_reader.sh")], check=True)
    unittest.main()
