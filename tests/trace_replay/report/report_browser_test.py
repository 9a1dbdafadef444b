#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the report in a headless Chromium: it loads without console messages and without requests, zooms, describes the
allocation at the pointer, and shows hostile names as text. Skipped (77) without Chromium.

usage: report_browser_test.py TIDEPOOL REPORT_TRACES
"""
import csv
import gzip
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from chromium import Chromium, decode_png, find_chromium  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
EXAMPLE = os.path.join(ROOT, "examples", "traces", "vgg16-b4-sgd.rmm.csv.gz")
READY = "window.tidepoolReport || !document.getElementById('trouble').hidden"
SHIFT = 8


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tidepool-report-")
        subprocess.run([TRACES, cls.folder.name], check=True)
        cls.browser = Chromium(1280, 1000)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    def setUp(self):
        self.browser.prefer("light")
        self.browser.resize(1280, 1000)

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])
        self.assertEqual(self.browser.requests(), [])

    # --- Helpers.

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def report(self, trace, *arguments, output="x.html"):
        """Runs the command, opens its page, and returns its answer."""
        done = subprocess.run([TOOL, "report", trace, "-o", self.path(output), "--json", *arguments], check=True,
                              stdout=subprocess.PIPE)
        self.browser.open(self.path(output), READY)
        self.assertTrue(self.evaluate("document.getElementById('trouble').hidden"), self.text("trouble"))
        return json.loads(done.stdout)

    def evaluate(self, expression):
        return self.browser.evaluate(expression)

    def text(self, element):
        return self.evaluate(f"document.getElementById('{element}').innerText")

    def visible_range(self):
        return self.evaluate("tidepoolReport.visibleRange()")

    def box(self, element):
        """Scrolls an element into sight, and returns left, top, width, height."""
        return self.evaluate(f"(() => {{ const e = document.getElementById('{element}'); e.scrollIntoView({{block: 'center'}});"
                             "const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()")

    def choose(self, select, value):
        self.evaluate(f"(() => {{ const e = document.getElementById('{select}'); e.value = '{value}';"
                      "e.dispatchEvent(new Event('change', {bubbles: true})); })()")
        self.browser.settle()

    def point_at(self, allocation):
        """Moves the pointer to the middle of an allocation on the map, and returns the tooltip."""
        self.box("map")
        place = self.evaluate(f"tidepoolReport.pixelOf({json.dumps(allocation)})")
        self.assertIsNotNone(place, allocation)
        self.browser.mouse("mouseMoved", place["x"], place["y"])
        self.browser.settle()
        return self.text("tooltip")

    def colours_of(self, canvas):
        """Counts the pixels of each colour of a canvas."""
        return self.evaluate(f"""(() => {{
            const canvas = document.getElementById('{canvas}');
            const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');
            copy.drawImage(canvas, 0, 0);
            const pixels = new Uint32Array(copy.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
            const counts = {{}};
            for (const pixel of pixels) counts[pixel] = (counts[pixel] ?? 0) + 1;
            return counts;
        }})()""")

    # --- Tests.

    def test_loads_and_shows_the_figures(self):
        answer = self.report(EXAMPLE)
        self.assertEqual(f'{self.text("headline")} {self.text("more")}', answer["headline"])
        self.assertIn("801.4 MiB", self.text("figures"))
        table = self.text("policies")
        for policy in answer["policies"]:
            self.assertIn(policy["policy"], table)
        self.assertIn("392.0 MiB", self.text("largest"))
        self.assertIn("30 allocations", self.text("unfreed-note"))
        self.assertEqual(self.visible_range()["to"], answer["trace"]["events"])

    def test_screenshot_is_not_blank(self):
        self.report(EXAMPLE)
        left, top, width, height = map(int, self.box("map"))
        _, _, rows = decode_png(self.browser.screenshot())
        colours = {}
        for row in rows[top:top + height]:
            for x in range(left, left + width, 3):
                colours[row[3 * x:3 * x + 3]] = colours.get(row[3 * x:3 * x + 3], 0) + 1
        common = [count for count in colours.values() if count > 300]
        self.assertGreaterEqual(len(common), 5)  # classes of sizes, holes, what is free, the page
        self.assertLess(max(colours.values()), 0.7 * sum(colours.values()))

    def test_map_shows_what_is_live(self):
        """The used share of the map equals that of the trace."""
        self.report(EXAMPLE, "--policy", "best-fit")
        free = {self.evaluate(f"(([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0)({colour})")
                for colour in ("[243, 245, 247]", "[226, 231, 235]", "[198, 206, 214]", "[255, 255, 255]")}
        self.evaluate("tidepoolReport.redraw()")
        layer = self.evaluate("tidepoolReport.mapColours()")
        used = sum(count for colour, count in layer.items() if int(colour) not in free)
        share = used / sum(layer.values())
        expected = self.evaluate("tidepoolReport.usedShare()")
        self.assertGreater(expected, 0.3)
        self.assertAlmostEqual(share, expected, delta=0.02)

    def test_wheel_zooms_around_the_pointer(self):
        self.report(EXAMPLE)
        left, top, width, height = self.box("map")
        before = self.visible_range()
        for _ in range(4):
            self.browser.mouse("mouseWheel", left + width / 2, top + height / 2, deltaX=0, deltaY=-200)
        self.browser.settle()
        after = self.visible_range()
        self.assertLess(after["to"] - after["from"], 0.5 * (before["to"] - before["from"]))
        self.assertGreater(after["from"], before["from"])
        self.assertLess(after["to"], before["to"])
        self.assertEqual((after["low"], after["high"]), (before["low"], before["high"]))
        self.browser.mouse("mouseWheel", left + width / 2, top + height / 2, deltaX=0, deltaY=-200, modifiers=1)
        self.browser.settle()
        self.assertLess(self.visible_range()["high"], before["high"])
        for _ in range(20):
            self.browser.mouse("mouseWheel", left + width / 2, top + height / 2, deltaX=0, deltaY=400)
        self.browser.settle()
        self.assertEqual(self.visible_range()["from"], before["from"])
        self.assertEqual(self.visible_range()["to"], before["to"])

    def test_keys_zoom_and_move(self):
        self.report(EXAMPLE)
        self.evaluate("document.getElementById('map').focus()")
        whole = self.visible_range()
        self.browser.press("+")
        self.browser.press("+")
        zoomed = self.visible_range()
        self.assertLess(zoomed["to"] - zoomed["from"], whole["to"] - whole["from"])
        self.browser.press("ArrowRight")
        moved = self.visible_range()
        self.assertGreater(moved["from"], zoomed["from"])
        self.assertAlmostEqual(moved["to"] - moved["from"], zoomed["to"] - zoomed["from"], places=6)
        self.browser.press("]")
        self.browser.press("ArrowUp")
        self.assertGreater(self.visible_range()["low"], 0)
        self.browser.press("0")
        self.assertEqual(self.visible_range(), whole)
        self.assertIn("all", self.text("range"))

    def test_keys_walk_through_allocations(self):
        self.report(self.path("training.tide"))
        self.evaluate("document.getElementById('map').focus()")
        self.browser.press("n")
        self.assertIn("t0\n", self.text("tooltip"))
        self.browser.press("n")
        self.assertIn("t1\n", self.text("tooltip"))
        self.assertIn("t1", self.text("spoken"))
        self.browser.press("p")
        self.assertIn("t0\n", self.text("tooltip"))
        self.browser.press("Escape")
        self.assertTrue(self.evaluate("document.getElementById('tooltip').hidden"))

    def test_drag_selects_and_moves(self):
        self.report(EXAMPLE)
        left, top, width, height = self.box("map")
        self.browser.drag(left + 300, top + 100, left + 500, top + 300)
        zoomed = self.visible_range()
        self.assertGreater(zoomed["from"], 0)
        self.assertGreater(zoomed["low"], 0)
        self.browser.drag(left + 500, top + 200, left + 400, top + 200)
        moved = self.visible_range()
        self.assertGreater(moved["from"], zoomed["from"])
        self.assertAlmostEqual(moved["low"], zoomed["low"], delta=1)
        self.browser.drag(left + 300, top + 100, left + 500, top + 300, modifiers=SHIFT)
        self.assertLess(self.visible_range()["to"] - self.visible_range()["from"], moved["to"] - moved["from"])

    def test_pinch_zooms(self):
        self.report(EXAMPLE)
        left, top, width, height = self.box("map")
        x, y = left + width / 2, top + height / 2

        def touch(kind, apart):
            points = [] if kind == "touchEnd" else [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
            self.browser.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)

        before = self.visible_range()
        touch("touchStart", 60)
        for apart in (80, 110, 150, 200):
            touch("touchMove", apart)
        touch("touchEnd", 0)
        self.browser.settle()
        after = self.visible_range()
        self.assertLess(after["to"] - after["from"], 0.6 * (before["to"] - before["from"]))

    def test_tooltip_says_what_is_under_the_pointer(self):
        answer = self.report(EXAMPLE, "--policy", "best-fit")
        largest = "0x7f64d61a6040"
        replay = json.loads(subprocess.run(
            [TOOL, "replay", EXAMPLE, "--pool", str(answer["policies"][0]["exact_pool_bytes"]), "--offsets", "--json"],
            check=True, stdout=subprocess.PIPE).stdout)
        said = self.point_at(largest)
        self.assertIn(largest, said)
        self.assertIn("392.0 MiB (411,041,792 B", said)
        number = int(said.split("number")[1].split()[0].replace(",", ""))
        self.assertIn(f"(0x{replay['offsets'][number]:x})", said)

    def test_tooltip_shows_stacks_streams_and_hints(self):
        self.report(self.path("training.tide"))
        said = self.point_at("t14")  # kept by the first layer
        for part in ("t14\n", "model.py", "attention", "forward", "train_step", "stream\n0", "thread\npython", "hint\noffloadable"):
            self.assertIn(part, said)
        self.assertNotIn("never freed", said)
        self.assertIn("never freed", self.point_at("t3"))

    def test_tooltip_of_the_curve_says_what_is_live(self):
        answer = self.report(EXAMPLE)
        live, after = 0, []
        with gzip.open(EXAMPLE, "rt", encoding="ascii") as file:
            for row in csv.DictReader(file):
                size = -(-int(row["Size"]) // 512) * 512
                live += size if row["Action"] == "allocate" else -size
                after.append(live)
        self.assertEqual(after[answer["peak_event"]], answer["trace"]["peak_live_bytes"])
        _, top, _, _ = self.box("memory")
        for event in (100, answer["peak_event"], 1600, len(after) - 1):
            self.browser.mouse("mouseMoved", self.evaluate(f"tidepoolReport.eventPixel({event})"), top + 100)
            self.browser.settle()
            said = self.text("tooltip")
            shown = int(said.split("Event ")[1].split()[0].replace(",", ""))
            self.assertLessEqual(abs(shown - event), 4)  # one pixel
            self.assertIn(f"{after[shown] / 2 ** 20:.1f} MiB, ", said)

    def test_policies_can_be_switched(self):
        answer = self.report(EXAMPLE)
        self.assertEqual(self.evaluate("tidepoolReport.policy()"), "planned")  # the smallest
        best = self.colours_of("map")
        number = next(i for i, policy in enumerate(answer["policies"]) if policy["policy"] == "first-fit")
        self.choose("policy", number)
        self.browser.wait_until("tidepoolReport.policy() === 'first-fit'")
        self.browser.settle()
        self.assertNotEqual(self.colours_of("map"), best)
        self.assertIn("first-fit", self.evaluate("document.getElementById('map').getAttribute('aria-label')"))
        self.assertEqual(self.evaluate("document.querySelector('#policies tr.chosen th').innerText"), "first-fit")

    def test_axis_can_be_time(self):
        self.report(self.path("training.tide"))
        self.evaluate("document.querySelector('#axis input[value=time]').click()")
        self.browser.settle()
        self.assertEqual(self.visible_range()["axis"], "time")
        self.assertIn(" ms", self.text("range"))
        self.assertIn("t14\n", self.point_at("t14"))

    def test_axis_is_events_where_times_are_equal(self):
        trace = self.path("equal.csv")
        with open(trace, "w", encoding="ascii") as file:
            file.write("op,id,size,hint\na,x,1000,\na,y,1000,\nf,x,,\n")
        self.report(trace)
        self.assertTrue(self.evaluate("document.querySelector('#axis input[value=time]').disabled"))

    def test_colours_can_be_by_stack_or_stream(self):
        self.report(self.path("training.tide"))
        seen = [self.colours_of("map")]
        for by in ("stack", "stream", "thread"):
            self.choose("colour", by)
            seen.append(self.colours_of("map"))
            self.assertNotEqual(seen[-1], seen[-2], by)

    def test_composition_by_stack_adds_up(self):
        answer = self.report(self.path("training.tide"))
        self.assertIn("<module>", self.text("stack-tree"))
        self.evaluate("document.getElementById('stacks-open').click()")
        self.assertIn("attention model.py:6", self.text("stack-tree"))
        folded = self.path("x.folded")
        subprocess.run([TOOL, "report", self.path("training.tide"), "-o", folded], check=True, stdout=subprocess.DEVNULL)
        with open(folded, encoding="utf-8") as file:
            total = sum(int(line.rsplit(" ", 1)[1]) for line in file)
        self.assertEqual(total, answer["trace"]["peak_live_bytes"])
        self.assertEqual(self.evaluate("tidepoolReport.peakBytes()"), total)

    def test_light_and_dark_differ(self):
        self.report(EXAMPLE)
        light = self.evaluate("getComputedStyle(document.body).backgroundColor"), self.colours_of("map")
        self.evaluate("document.getElementById('theme').click()")
        self.browser.settle()
        dark = self.evaluate("getComputedStyle(document.body).backgroundColor"), self.colours_of("map")
        self.assertNotEqual(light[0], dark[0])
        self.assertFalse(set(max(light[1], key=light[1].get)) == set(max(dark[1], key=dark[1].get)))
        self.browser.prefer("dark")
        self.browser.open(self.path("x.html"), READY)
        self.assertEqual(self.evaluate("getComputedStyle(document.body).backgroundColor"), dark[0])

    def test_narrow_pages_do_not_scroll_sideways(self):
        self.browser.resize(400, 900)
        self.report(self.path("training.tide"), "--pool", "1GiB")
        self.assertLessEqual(self.evaluate("document.documentElement.scrollWidth"), 400)
        self.assertIn("budget", self.text("memory-legend"))

    def test_prints(self):
        self.browser.prefer("dark")
        self.report(self.path("training.tide"))
        pdf = self.browser.pdf()
        self.assertTrue(pdf.startswith(b"%PDF"))
        self.assertGreater(len(pdf), 20_000)
        self.assertEqual(self.evaluate("document.documentElement.dataset.theme"), "dark")

    def test_hostile_names_are_text(self):
        self.report(self.path("hostile.tide"))
        self.browser.settle()
        self.assertIsNone(self.evaluate("window.wasHacked ?? null"))
        self.assertEqual(self.evaluate("document.images.length"), 0)
        shown = self.text("stack-tree")
        self.assertIn("</script><script>window.wasHacked=1</script><img src=x onerror=window.wasHacked=1>", shown)
        self.assertIn("\\x1b[31m\\x07\"quotes' & {{script}} \ufffd\ufffd \\u202e", shown)
        said = self.point_at("plain")
        self.assertIn("</script>", said)
        self.assertNotIn("\x1b", self.evaluate("document.documentElement.outerHTML"))

    def test_traces_with_little_in_them(self):
        traces = {"none.csv": "op,id,size,hint\nm,only a mark,,\n", "one.csv": "op,id,size,hint\na,x,1000,\n",
                  "equal.csv": "op,id,size,hint\n" + "".join(f"a,{i},4096,\n" for i in range(20)),
                  "lives.csv": "id,lower,upper,size\na,0,10,5\nb,3,4,7\n"}
        for name, rows in traces.items():
            with open(self.path(name), "w", encoding="ascii") as file:
                file.write(rows)
            self.report(self.path(name))
            self.browser.settle()
            for key in ("+", "ArrowRight", "n", "0"):
                self.evaluate("document.getElementById('map').focus()")
                self.browser.press(key)
            self.assertEqual(self.browser.complaints(), [], name)

    def test_is_labelled(self):
        self.report(EXAMPLE)
        for canvas in ("memory", "map"):
            self.assertIn("Events 0 to 3,098", self.evaluate(f"document.getElementById('{canvas}').getAttribute('aria-label')"))
        self.assertEqual(self.evaluate("document.querySelectorAll('table:not(:has(caption)), th:not([scope])').length"), 0)
        unnamed = self.evaluate("[...document.querySelectorAll('button, select, input')].filter((e) => "
                                "!e.innerText && !e.ariaLabel && !e.closest('label')).length")
        self.assertEqual(unnamed, 0)

    def test_drawing_is_shown(self):
        done = subprocess.run([TOOL, "report", self.path("hostile.tide"), "-o", self.path("x.svg")], stdout=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0)
        self.browser.open(self.path("x.svg"))
        self.assertEqual(self.evaluate("document.documentElement.tagName"), "svg")
        self.assertGreater(self.evaluate("document.querySelectorAll('path').length"), 5)
        self.assertIsNone(self.evaluate("window.wasHacked ?? null"))


if __name__ == "__main__":
    if find_chromium() is None:
        print("no Chromium here")
        sys.exit(77)
    TOOL, TRACES = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
