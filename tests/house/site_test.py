#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the site (scripts/site.sh): its links lead to files, and its reference has each installed header and each public name of Python
that has a docstring. In a headless Chromium: its pages load nothing from elsewhere, its search
finds headers, modules and guides, its report opens, and its reader, if it has one, reads a file.

usage: site_test.py ROOT
"""
import ast
import functools
import http.server
import os
import pathlib
import re
import sys
import threading
import unittest

ROOT = os.path.abspath(sys.argv.pop(1))
SITE = os.path.join(ROOT, "build", "site", "html")
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from chromium import Chromium  # noqa: E402

SNAPSHOT = "tests/frameworks/dryrun/recorded/h200/gpt2.pickle.gz"
PAGES = ["index", "reference", "report", "python/tidepool", "python/tidepool.torch", "include/tidepool/pool.h", "docs/guide/dryrun", "docs/cli"]

# Links within the site; those of its page for wrong addresses begin at the root.
LINK = re.compile(r'<a\b[^>]*?\bhref="?(?![a-z]+:|[/#])([^"#? >]+)', re.I)


def public_names(module):
    """Returns the names that a module of Python lists, or else defines, without hooks that pytest calls."""
    body = ast.parse(module.read_text()).body
    for line in body:
        if isinstance(line, ast.Assign) and getattr(line.targets[0], "id", "") == "__all__":
            return [name for name in ast.literal_eval(line.value) if not name.startswith("__")]
    return [line.name for line in body if hasattr(line, "name") and not line.name.startswith(("_", "pytest_"))]


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class SiteTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Chromium(1280, 1000)
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=SITE))
        cls.address = f"http://127.0.0.1:{cls.server.server_port}/"
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.server.shutdown()
        cls.server.server_close()

    def open(self, page, ready="true"):
        self.browser.open(f"{self.address}{page}.html", ready)

    def test_links_lead_to_files(self):
        pages = list(pathlib.Path(SITE).rglob("*.html"))
        links = {(page, link) for page in pages for link in LINK.findall(page.read_text())}
        self.assertGreater(len(links), 1000)
        self.assertEqual([f"{page}: {link}" for page, link in sorted(links) if not (page.parent / link).exists()], [])

    def test_the_reference_has_each_installed_header(self):
        root = pathlib.Path(ROOT)
        headers = [*root.glob("include/**/*.h"), *root.glob("bindings/*/include/**/*.h")]
        self.assertGreater(len(headers), 50)
        rows = (pathlib.Path(SITE) / "reference.html").read_text()
        self.assertEqual([str(path) for path in headers if f'href="{path.relative_to(root)}.html"' not in rows], [])

    def test_the_reference_has_each_public_name_of_python(self):
        package = pathlib.Path(ROOT) / "bindings/python/tidepool"
        modules = {"tidepool": package / "__init__.py", **{f"tidepool.{path.stem}": path for path in package.glob("[a-z]*.py")}}
        self.assertGreater(len(modules), 5)
        for module, path in modules.items():
            page = (pathlib.Path(SITE) / f"python/{module}.html").read_text().replace("tidepool._dryrun.dryrun", "tidepool.dryrun")
            self.assertEqual([name for name in public_names(path) if f'id="{module}.{name}"' not in page], [], module)

    def test_pages_load_nothing_from_elsewhere(self):
        for page in PAGES:
            with self.subTest(page):
                self.open(page, "document.querySelector('h1') !== null")
                self.assertEqual([url for url in self.browser.requests() if not url.startswith(self.address)], [])

    def found(self, words):
        self.open("index", "document.querySelector('.md-search__input') !== null")
        self.browser.evaluate("document.querySelector('.md-search__input').focus()")
        self.browser.evaluate(f"(() => {{ const box = document.querySelector('.md-search__input'); box.value = {words!r};"
                              "box.dispatchEvent(new Event('input', {bubbles: true})); box.dispatchEvent(new KeyboardEvent('keyup')); return true; })()")
        self.browser.wait_until("document.querySelectorAll('.md-search-result__link').length > 0")
        return self.browser.evaluate("[...document.querySelectorAll('.md-search-result__link')].map(link => link.href)")

    def test_search_finds_headers_modules_and_guides(self):
        for words, page in (("AllocateBlocking", "include/tidepool/pool.h"), ("schedule_chain", "python/tidepool"), ("remedies", "docs/guide/dryrun")):
            with self.subTest(words):
                self.assertTrue(any(page in link for link in self.found(words)), words)

    def test_the_report_is_drawn(self):
        self.open("gpt2", "window.tidepoolReport || !document.getElementById('trouble').hidden")
        self.assertTrue(self.browser.evaluate("document.getElementById('trouble').hidden"))
        self.assertIn("9.6 GiB", self.browser.evaluate("document.getElementById('headline').textContent"))

    @unittest.skipUnless(os.path.exists(os.path.join(SITE, "reader.html")), "the site has no reader: scripts/browser_reader.sh makes it")
    def test_the_reader_reads_a_file(self):
        """It comes from a server here, where browsers refuse other things than in a page that is a file."""
        self.open("report", "document.querySelector('a[href=\"reader.html\"]') !== null")
        self.open("reader")
        document = self.browser.call("DOM.getDocument")["root"]["nodeId"]
        field = self.browser.call("DOM.querySelector", nodeId=document, selector="#file")["nodeId"]
        self.browser.call("DOM.setFileInputFiles", nodeId=field, files=[os.path.join(ROOT, SNAPSHOT)])
        self.browser.wait_until("!document.getElementById('picture').hidden || !document.getElementById('trouble').hidden", 60)
        self.assertEqual(self.browser.evaluate("document.getElementById('trouble').textContent"), "")
        self.assertIn("peak live   9.6 GiB", self.browser.evaluate("document.getElementById('info').textContent"))
        self.assertEqual([url for url in self.browser.requests() if not url.startswith((self.address, "blob:"))], [])


if __name__ == "__main__":
    unittest.main()
