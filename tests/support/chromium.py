# SPDX-License-Identifier: Apache-2.0
"""Drives a headless Chromium by the DevTools protocol over pipes, with Python's standard library alone.

Messages are JSON, each ended by a NUL byte. The browser reads them on file descriptor 3 and writes them on 4.
"""
import base64
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import zlib


def find_chromium():
    """Returns the path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Chromium:
    """A browser with one page. Close it, or use it in a `with`."""

    def __init__(self, width=1280, height=1000, scale=1):
        self.profile = tempfile.mkdtemp(prefix="tidepool-chromium-")
        to_browser, self.to_browser = os.pipe()
        self.from_browser, from_browser = os.pipe()

        def wire():
            # Duplicate the pipes first: their descriptors may be 3 and 4 themselves.
            ours = os.dup2(to_browser, 60), os.dup2(from_browser, 61)
            os.dup2(ours[0], 3)
            os.dup2(ours[1], 4)

        self.process = subprocess.Popen(
            [find_chromium(), "--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--disable-gpu",
             "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--disable-sync",
             "--disable-component-update", "--hide-scrollbars", "--force-color-profile=srgb",
             f"--user-data-dir={self.profile}", "about:blank"],
            preexec_fn=wire, close_fds=False, start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.number = 0
        self.session = None
        self.events = []
        try:
            target = next(info["targetId"] for info in self.wait_for_targets() if info["type"] == "page")
            self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Network", "Log"):
                self.call(domain + ".enable")
            self.resize(width, height, scale)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for end in (self.to_browser, self.from_browser):
            os.close(end)
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    # --- The protocol.

    def receive(self, deadline):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.from_browser], [], [], max(0, deadline - time.monotonic()))
            piece = os.read(self.from_browser, 1 << 20) if ready else b""
            if not piece:
                raise TimeoutError("Chromium did not answer in time" if not ready else "Chromium is gone")
            self.buffer += piece
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, seconds=60, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session and not method.startswith("Target."):
            message["sessionId"] = self.session
        pending = json.dumps(message).encode() + b"\0"
        while pending:
            pending = pending[os.write(self.to_browser, pending):]
        deadline = time.monotonic() + seconds
        while True:
            answer = self.receive(deadline)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for_targets(self):
        deadline = time.monotonic() + 60
        while True:
            targets = self.call("Target.getTargets")["targetInfos"]
            if any(info["type"] == "page" for info in targets):
                return targets
            if time.monotonic() > deadline:
                raise TimeoutError("Chromium has no page")

    # --- The page.

    def resize(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def prefer(self, scheme):
        """Sets the colour scheme, 'light' or 'dark'."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, path, ready="true", seconds=60):
        """Opens a file, or a URL of http, and waits until the expression `ready` is true on its page. Returns the seconds that it took."""
        self.events.clear()
        began = time.monotonic()
        url = path if path.startswith("http:") else "file://" + os.path.abspath(path)
        self.call("Page.navigate", url=url)
        self.wait_until(f"document.readyState === 'complete' && location.protocol === '{url.partition('//')[0]}' && ({ready})", seconds)
        return time.monotonic() - began

    def wait_until(self, expression, seconds=60):
        """Evaluates `expression` in each frame until it is true."""
        deadline = time.monotonic() + seconds
        while not self.evaluate(f"new Promise((resolve) => requestAnimationFrame(() => resolve(Boolean({expression}))))"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{expression}: not true in time; the page said {self.complaints()}")

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def complaints(self):
        """Returns exceptions, and errors and warnings in the console, since the page was opened."""
        self.evaluate("0")
        said = []
        for event in self.events:
            method, parameters = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                said.append(str(parameters["exceptionDetails"]))
            elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                said.append(str(parameters["args"]))
            elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                said.append(str(parameters["entry"]))
        return said

    def requests(self):
        """Returns the URLs requested since the page was opened, without the page itself and data URLs."""
        self.evaluate("0")
        urls = [event["params"]["request"]["url"] for event in self.events
                if event.get("method") == "Network.requestWillBeSent" and event["params"].get("type") != "Document"]
        return [url for url in urls if not url.startswith(("data:", "blob:"))]

    def settle(self):
        """Waits until all changes are drawn."""
        self.evaluate("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve(0))))")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def drag(self, x, y, to_x, to_y, modifiers=0):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1, modifiers=modifiers)
        for step in (0.25, 0.5, 0.75, 1):
            self.mouse("mouseMoved", x + (to_x - x) * step, y + (to_y - y) * step, button="left", buttons=1,
                       modifiers=modifiers)
        self.mouse("mouseReleased", to_x, to_y, button="left", clickCount=1, modifiers=modifiers)
        self.settle()

    def press(self, key):
        code = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9, "Escape": 27}.get(key, 0)
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)
        self.settle()

    def screenshot(self, is_full=False):
        """Returns a PNG of the visible part, or of the whole page."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=is_full)["data"])

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)["data"])


def decode_png(png):
    """Decodes an 8-bit RGB or RGBA PNG without interlacing. Returns width, height and rows of (r, g, b) bytes."""
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", png[16:29])
    assert depth == 8 and kind in (2, 6) and not interlaced
    size = 3 if kind == 2 else 4
    data, at = b"", 8
    while at < len(png):
        length, = struct.unpack(">I", png[at:at + 4])
        if png[at + 4:at + 8] == b"IDAT":
            data += png[at + 8:at + 8 + length]
        at += 12 + length
    raw = zlib.decompress(data)
    rows, previous, stride = [], bytearray(width * size), width * size
    for y in range(height):
        method = raw[y * (stride + 1)]
        row = bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for x in range(stride) if method else ():
            left = row[x - size] if x >= size else 0
            up = previous[x]
            corner = previous[x - size] if x >= size else 0
            if method == 1:
                row[x] = (row[x] + left) & 255
            elif method == 2:
                row[x] = (row[x] + up) & 255
            elif method == 3:
                row[x] = (row[x] + (left + up) // 2) & 255
            else:
                estimate = left + up - corner
                distances = abs(estimate - left), abs(estimate - up), abs(estimate - corner)
                row[x] = (row[x] + (left, up, corner)[distances.index(min(distances))]) & 255
        rows.append(bytes(row) if size == 3 else bytes(b for i, b in enumerate(row) if i % 4 != 3))
        previous = row
    return width, height, rows
