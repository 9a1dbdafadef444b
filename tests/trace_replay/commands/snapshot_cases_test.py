#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small recordings of memory with known right answers: snapshots of PyTorch that are made here, and the files in cases/.
Each stands for a kind of file that users have.

usage: snapshot_cases_test.py TIDEPOOL
"""
import gzip
import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

GUIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "docs", "guide", "out_of_memory.md")
CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases")
MIB = 1 << 20
GIB = 1 << 30


def block(size, state="active_allocated"):
    return {"size": size, "requested_size": size, "state": state, "frames": []}


def segment(address, blocks, stream=0, pool=(0, 0), kind="large", device=0, expandable=False):
    at = address
    placed = []
    for one in blocks:
        placed.append({**one, "address": at})
        at += one["size"]
    return {"device": device, "address": address, "total_size": at - address, "stream": stream, "segment_type": kind,
            "segment_pool_id": pool, "is_expandable": expandable, "blocks": placed, "frames": []}


def event(action, address, size, stream=0, time=0):
    return {"action": action, "addr": address, "size": size, "stream": stream, "time_us": time, "frames": []}


def oom(size, stream=0, free=0):
    return {"action": "oom", "device_free": free, "size": size, "stream": stream, "time_us": 0, "frames": []}


def snapshot(segments, *traces):
    return {"segments": segments, "device_traces": [list(trace) for trace in traces]}


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def heap_profile():
    """A profile as JAX writes it: 3 MiB by `train` on a GPU, 1 MiB of code there, 8 MiB on the host."""
    texts = ["", "allocations", "count", "space", "bytes", "kind", "buffer", "executable", "device", "gpu:0",
             "TFRT_CPU_0", "train", "/home/u/train.py", "main"]
    label = lambda key, text: field(3, field(1, texts.index(key)) + field(2, texts.index(text)))  # noqa: E731
    sample = lambda ids, size, kind, device: field(2, field(1, bytes(ids)) + field(2, varint(1) + varint(size)) +  # noqa: E731
                                                   label("kind", kind) + label("device", device))
    function = lambda number, name: field(5, field(1, number) + field(2, texts.index(name)) +  # noqa: E731
                                          field(4, texts.index("/home/u/train.py")))
    location = lambda number, line: field(4, field(1, number) + field(4, field(1, number) + field(2, line)))  # noqa: E731
    return (field(1, field(1, 1) + field(2, 2)) + field(1, field(1, 3) + field(2, 4)) +
            sample([1, 2], 3 * MIB, "buffer", "gpu:0") + sample([2], MIB, "executable", "gpu:0") +
            sample([2], 8 * MIB, "buffer", "TFRT_CPU_0") + location(1, 7) + location(2, 20) +
            function(1, "train") + function(2, "main") + b"".join(field(6, text) for text in texts))


def out_of_memory():
    """The snapshot of docs/guide/out_of_memory.md: GPU 1 of two holds 78.2 GiB and refuses 4.9 GiB."""
    def frames(line, name="update_nodes", file="/home/u/models.py"):
        return [{"name": name, "filename": file, "line": line},
                {"name": "forward", "filename": "/home/u/models.py", "line": 120},
                {"name": "main", "filename": "/home/u/train.py", "line": 30}]
    backward = [{"name": "backward", "filename": "/usr/lib/python3/dist-packages/torch/_tensor.py", "line": 581},
                {"name": "main", "filename": "/home/u/train.py", "line": 33}]
    requests = [(29.6, frames(174)), (24.7, frames(181)), (14.8, frames(176)), (4.9, frames(178)), (4.1, backward)]
    address = 1 << 40
    events, blocks = [event("segment_map", address, round(78.5 * GIB) // (2 * MIB) * 2 * MIB)], []
    at = address
    for gib, stack in requests:
        size = round(gib * GIB) // 512 * 512
        events.append({**event("alloc", at, size), "frames": stack})
        blocks.append({**block(size), "frames": stack})
        at += size
    blocks.append(block(address + events[0]["size"] - at, "inactive"))
    events.append({**oom(round(4.9 * GIB), free=91 * MIB), "frames": frames(181)})
    whole = snapshot([segment(1 << 39, [block(2 * MIB)]), segment(address, blocks, device=1, expandable=True)], [], events)
    whole["allocator_settings"] = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "expandable_segments": True}
    return whole


class Cases(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, content, name="snapshot.pickle", protocol=2):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else pickle.dumps(content, protocol=protocol))
        return path

    def run_tool(self, *arguments, status=0, text=None):
        done = subprocess.run([TOOL, *arguments], capture_output=True, text=True, input=text)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout if status != 1 else done.stderr

    def json(self, *arguments, **more):
        return json.loads(self.run_tool(*arguments, "--json", **more))

    def device_of(self, path):
        return self.json("info", path)["per_device"][0]

    def device(self, content, *arguments):
        """Returns the first entry of `per_device`."""
        return self.json("info", self.path(content), *arguments)["per_device"][0]

    def test_the_peak_is_not_known_without_a_history_or_with_a_few_events(self):
        segments = [segment(0x10000000, [block(30 * MIB), block(10 * MIB, "inactive")])]
        for events in ([], [event("snapshot", 0, 0)], [event("segment_free", 0x40000000, 20 * MIB)],
                       [event("free_completed", 0x40000000, 20 * MIB)], [event("alloc", 0x10000000, 30 * MIB)],
                       [event("free_requested", 0x10000000, MIB), event("free_completed", 0x10000000, MIB)] * 9):
            with self.subTest(events=events):
                path = self.path(snapshot(segments, events))
                answer = self.json("info", path)
                device = answer["per_device"][0]
                self.assertIsNone(device["peak_live_bytes"])
                self.assertIsNone(answer["trace"]["peak_live_bytes"])
                self.assertFalse(device["history"])
                self.assertEqual(device["live_bytes"], 30 * MIB)
                self.assertEqual(device["reserved_bytes"], 40 * MIB)
                self.assertEqual(device["fragmentation_bytes"], 10 * MIB)
                text = self.run_tool("info", path)
                self.assertNotIn("peak live", text)
                self.assertIn("peak is not known", text.splitlines()[0])
                self.assertIn("_record_memory_history", text)
                self.assertIsNone(self.json("diff", path, path)["peak_live_bytes"][0])
                self.assertNotIn("peak live", self.run_tool("size", path))

    def test_a_whole_history_of_one_event_has_a_peak(self):
        segments = [segment(0x10000000, [block(2 * MIB)])]
        events = [event("segment_alloc", 0x10000000, 2 * MIB), event("alloc", 0x10000000, 2 * MIB)]
        self.assertEqual(self.device(snapshot(segments, events))["peak_live_bytes"], 2 * MIB)

    def test_a_peak_before_the_history_is_not_known(self):
        segments = [segment(0x10000000, [block(10 * MIB), block(40 * MIB, "inactive")])]
        events = [event("free_requested", 0x10000000 + 10 * MIB, 40 * MIB),
                  event("free_completed", 0x10000000 + 10 * MIB, 40 * MIB)]
        events += [event("alloc", 0x10000000 + 20 * MIB, MIB), event("free_requested", 0x10000000 + 20 * MIB, MIB),
                   event("free_completed", 0x10000000 + 20 * MIB, MIB)] * 4
        device = self.device(snapshot(segments, events))
        self.assertTrue(device["history"])
        self.assertEqual(device["peak_live_bytes"], 50 * MIB)
        text = self.run_tool("info", self.path(snapshot(segments, events)))
        self.assertIn("an earlier peak is not known", text.splitlines()[0])

    def test_a_history_that_lost_its_beginning_says_from_when_on_it_knows(self):
        held = block(30 * MIB)
        held["frames"] = [{"name": "f", "filename": "/home/u/m.py", "line": 3}]
        segments = [segment(0x10000000, [held, block(40 * MIB, "inactive")])]
        time = 1700000000 * 1000000
        events = [event("alloc", 0x10000000 + 30 * MIB, 20 * MIB, time=time),
                  event("free_requested", 0x10000000 + 30 * MIB, 20 * MIB, time=time),
                  event("free_completed", 0x10000000 + 30 * MIB, 20 * MIB, time=time)] * 3
        text = self.run_tool("info", self.path(snapshot(segments, events)))
        self.assertIn("at 2023-11-14 22:13:20.000 UTC", text)
        self.assertIn("overwritten", text)
        self.assertEqual(self.device(snapshot(segments, events))["peak_live_bytes"], 50 * MIB)

    def test_the_guide_has_the_output_of_today(self):
        answer = self.run_tool("info", self.path(out_of_memory())).split("\n\n")[0]
        with open(GUIDE, encoding="utf-8") as file:
            page = file.read()
        self.assertIn(f"```\n{answer}\n```\n", page)

    def test_free_memory_by_pool_stream_and_kind(self):
        segments = [
            segment(0x10000000, [block(30 * MIB), block(10 * MIB, "inactive")]),
            segment(0x20000000, [block(20 * MIB, "inactive")]),
            segment(0x30000000, [block(MIB), block(MIB, "inactive")], kind="small"),
            segment(0x40000000, [block(5 * MIB, "inactive"), block(15 * MIB)], pool=(0, 2)),
            segment(0x50000000, [block(40 * MIB, "inactive")], stream=7),
            segment(0x60000000, [block(4 * MIB, "active_pending_free"), block(16 * MIB)], expandable=True)]
        device = self.device(snapshot(segments, []))
        rows = {(row["pool"], row["stream"], row["kind"]): (row["bytes"], row["segments"]) for row in device["free_by"]}
        self.assertEqual(rows, {("default", "0", "large"): (30 * MIB, 2), ("default", "0", "small"): (MIB, 1),
                                ("(0, 2)", "0", "large"): (5 * MIB, 1), ("default", "7", "large"): (40 * MIB, 1)})
        self.assertEqual(sum(row["bytes"] for row in device["free_by"]), 76 * MIB)
        self.assertEqual({(row["pool"], row["stream"]) for row in device["free_by"] if row["is_stranded"]}, {("(0, 2)", "0"), ("default", "7")})
        self.assertEqual(device["allocated_bytes"], 62 * MIB)
        self.assertEqual(device["stranded_bytes"], 45 * MIB)
        self.assertEqual(device["pending_free_bytes"], 4 * MIB)
        self.assertEqual(device["whole_segment_bytes"], 60 * MIB)
        text = self.run_tool("info", self.path(snapshot(segments, [])))
        self.assertIn("private pool (0, 2)", text)
        self.assertIn("60.0 MiB in 2 segments without a live block", text)
        self.assertIn("4.0 MiB freed by the program", text)

    def one_shot_streams(self):
        """A new stream for each turn: 2 GiB live on the last one, 14 GiB free on seven others."""
        segments = []
        events = []
        for turn in range(8):
            at = (turn + 1) << 36
            segments.append(segment(at, [block(2 * GIB, "active_allocated" if turn == 7 else "inactive")],
                                    stream=100 + turn))
            events += [event("segment_alloc", at, 2 * GIB, 100 + turn), event("alloc", at, 2 * GIB, 100 + turn)]
            if turn < 7:
                events += [event("free_requested", at, 2 * GIB, 100 + turn),
                           event("free_completed", at, 2 * GIB, 100 + turn)]
        return segments, events

    def test_streams_that_strand_memory_are_named(self):
        segments, events = self.one_shot_streams()
        device = self.device(snapshot(segments, events))
        self.assertEqual(device["stranded_bytes"], 14 * GIB)
        self.assertEqual(device["peak_live_bytes"], 2 * GIB)
        self.assertEqual(len(device["free_by"]), 7)
        text = self.run_tool("info", self.path(snapshot(segments, events)))
        self.assertIn("14.0 GiB of 16.0 GiB reserved are free, but of other streams", text)

    def test_memory_of_other_streams_is_stranded_at_a_refusal(self):
        segments, events = self.one_shot_streams()
        # The refusal is in the middle: 10 GiB of five streams are free, stream 3 refuses 4 GiB.
        events = events[:20] + [oom(4 * GIB, stream=3)] + events[20:]
        device = self.device(snapshot(segments, events))
        self.assertEqual(device["stranded_bytes"], 10 * GIB)
        self.assertEqual(device["refused"][0]["stream"], "3")

    def test_the_device_with_the_memory_is_chosen(self):
        empty_first = snapshot([segment(0x10000000, [block(20 * MIB)], device=1)], [event("snapshot", 0, 0)], [])
        self.assertEqual(self.device(empty_first)["device"], 1)
        self.assertIn("live when it was taken  20.0 MiB", self.run_tool("size", self.path(empty_first)).replace("   ", "  "))
        most = snapshot([segment(0x10000000, [block(2 * MIB)]), segment(0x20000000, [block(30 * MIB)], device=2)],
                        [event("alloc", 0x10000000, 2 * MIB)] * 3, [], [])
        self.assertEqual(self.device(most)["device"], 2)
        self.assertEqual(self.device(most, "--device", "0")["device"], 0)
        refused = snapshot([segment(0x10000000, [block(2 * MIB)]), segment(0x20000000, [block(30 * MIB)], device=1)],
                           [oom(4 * MIB)], [])
        self.assertEqual(self.device(refused)["device"], 0)

    def test_figures_that_contradict_each_other_are_told(self):
        segments = [segment(0x10000000, [block(10 * MIB, "inactive")])]
        events = []
        for number in range(8):
            events.append(event("alloc", 0x40000000 + number * 16 * MIB, 16 * MIB))
        for number in range(8):
            events += [event("free_requested", 0x40000000 + number * 16 * MIB, 16 * MIB),
                       event("free_completed", 0x40000000 + number * 16 * MIB, 16 * MIB)]
        path = self.path(snapshot(segments, events))
        answer = self.json("info", path)
        self.assertIsNone(answer["peak_reserved_bytes"])
        self.assertIsNone(answer["per_device"][0]["fragmentation_bytes"])
        text = self.run_tool("info", path)
        self.assertIn("contradict", text)
        self.assertNotIn("lost to fragmentation", text)
        self.assertNotIn("as recorded", self.run_tool("size", path))
        self.assertNotIn("allocator reserved", self.run_tool("report", path, "-o", os.path.join(self.folder.name, "x.html")))

    def test_pickles_of_protocol_5_are_read_and_written_with_protocol_2(self):
        content = snapshot([segment(0x10000000, [block(2 * MIB)])], [])
        path = self.path(content, protocol=5)
        self.assertEqual(self.json("info", path)["per_device"][0]["live_bytes"], 2 * MIB)
        out = os.path.join(self.folder.name, "out.pickle")
        self.run_tool("convert", path, out)
        with open(out, "rb") as file:
            written = file.read()
        self.assertEqual(written[:2], b"\x80\x02")
        self.assertEqual(pickle.loads(written)["segments"][0]["total_size"], 2 * MIB)

    def test_an_empty_snapshot_has_an_answer_for_every_command(self):
        path = self.path(snapshot([], [], []))
        out = os.path.join(self.folder.name, "out")
        for command in (["info", path], ["size", path], ["plan", path], ["diff", path, path],
                        ["report", path, "-o", out + ".html"], ["report", path, "-o", out + ".svg"],
                        ["convert", path, out + ".pickle"]):
            with self.subTest(command=command):
                self.assertNotIn("nan", self.run_tool(*command).lower())

    def test_reports_without_history_draw_no_order_in_time(self):
        path = self.path(snapshot([segment(0x10000000, [block(30 * MIB), block(10 * MIB, "inactive")])], []))
        out = os.path.join(self.folder.name, "out.svg")
        self.run_tool("report", path, "-o", out)
        with open(out, encoding="utf-8") as file:
            drawing = file.read()
        self.assertNotIn(">event<", drawing)
        self.assertIn("30.0 MiB live", drawing)

    def test_the_headline_is_one_sentence_with_the_line(self):
        frames = [{"name": "c10::cuda::CUDACachingAllocator::Native::malloc(void**)", "filename": "??", "line": 0},
                  {"name": "THPVariable_getitem(_object*, _object*)", "filename": "??", "line": 0},
                  {"name": "attend", "filename": "/home/u/model.py", "line": 41},
                  {"name": "_bootstrap_inner", "filename": "/usr/lib/python3.10/threading.py", "line": 1016}]
        events = [event("segment_alloc", 0x10000000, 40 * MIB), {**event("alloc", 0x10000000, 30 * MIB), "frames": frames},
                  {**oom(60 * MIB), "frames": frames}]
        path = self.path(snapshot([segment(0x10000000, [block(30 * MIB), block(10 * MIB, "inactive")])], events))
        out = os.path.join(self.folder.name, "out")
        self.run_tool("report", path, "-o", out + ".html")
        with open(out + ".html", encoding="utf-8") as file:
            page = file.read()
        headline = page.split('<p id="headline">')[1].split("</p>")[0]
        self.assertEqual(headline, "Out of memory: 60.0 MiB refused at model.py:41 attend with 30.0 MiB live; the most, "
                                   "30.0 MiB, by model.py:41 attend.")
        self.run_tool("report", path, "-o", out + ".folded")
        with open(out + ".folded", encoding="utf-8") as file:
            self.assertEqual(file.read(), f"attend (/home/u/model.py:41) {30 * MIB}\n")

    def test_a_memory_timeline_tells_the_purpose(self):
        for name in ("memory_timeline.raw.json", "memory_timeline.raw.json.gz"):
            with open(os.path.join(CASES, "memory_timeline.raw.json"), "rb") as file:
                content = file.read()
            path = self.path(gzip.compress(content) if name.endswith("gz") else content, name)
            answer = self.json("info", path)
            self.assertEqual(answer["trace"]["format"], "memory-timeline")
            device = answer["per_device"][0]
            self.assertEqual(device["peak_live_bytes"], 8 * MIB)
            self.assertEqual(device["categories"], {"weights": MIB, "optimizer state": 2 * MIB, "activations": 4 * MIB,
                                                    "gradients": MIB})

    def test_refusals_of_rmm_are_listed(self):
        path = os.path.join(CASES, "rmm_debug.log")
        device = self.json("info", path)["per_device"][0]
        self.assertEqual([(r["bytes"], r["stream"]) for r in device["refused"]],
                         [(35006976, "0x1"), (4096, "0x2"), (4096, "0x2")])
        self.assertIsNone(device["peak_live_bytes"])
        text = self.run_tool("info", path)
        self.assertIn("33.4 MiB on stream 0x1", text)
        self.assertIn("2 of 4.0 KiB on stream 0x2", text)
        self.assertIn("logging_resource_adaptor", text)
        only_begin = self.path(b"[ 1][16:33:00:198816][info  ] ----- RMM LOG BEGIN [PTDS DISABLED] -----\n", "log.txt")
        self.assertIn("RMM's debug log without a refused request", self.run_tool("info", only_begin, status=1))

    def test_heap_profiles_are_live_bytes_by_stack(self):
        for content in (heap_profile(), gzip.compress(heap_profile())):
            path = self.path(content, "memory.prof")
            device = self.json("info", path)["per_device"][0]
            self.assertEqual(device["device"], 0)
            self.assertEqual(device["live_bytes"], 4 * MIB)
            self.assertIsNone(device["peak_live_bytes"])
            self.assertEqual(device["top"][0], {"frame": "train.py:7 train", "bytes": 3 * MIB})
            self.assertEqual(device["categories"], {"unknown": 3 * MIB, "executable": MIB})
            self.assertNotIn("torch", self.run_tool("info", path))
            host = self.json("info", path, "--device", "-1")["per_device"][0]
            self.assertEqual(host["live_bytes"], 8 * MIB)
        cpu = field(1, field(1, 1) + field(2, 2)) + b"".join(field(6, text) for text in ("", "samples", "count"))
        self.assertIn("a pprof profile of 'samples'", self.run_tool("info", self.path(cpu, "cpu.prof"), status=1))

    def test_profiles_of_hip_choose_the_gpu_with_the_most(self):
        device = self.json("info", os.path.join(CASES, "hip_profile.json"))["per_device"][0]
        self.assertEqual(device["device"], 1)
        self.assertEqual(device["peak_live_bytes"], 3 * MIB)

    def test_files_that_are_not_read_are_named(self):
        for name, words in (("kineto_without_memory.json", "recorded with profile_memory=True"),
                            ("chrome_other.json", "without events of PyTorch's profiler")):
            message = self.run_tool("info", os.path.join(CASES, name), status=1)
            self.assertIn(words, message)
        self.assertNotIn("profile_memory", message)

    def test_the_text_of_an_error_is_answered(self):
        with open(os.path.join(CASES, "error_2.txt"), encoding="utf-8") as file:
            text = file.read()
        for path in ("-", "/dev/stdin"):
            out = self.run_tool("info", path, text=text)
            self.assertIn("expandable segments cannot help: 9.3 GiB reserved but unallocated and 8.1 GiB free on the GPU "
                          "< 22.8 GiB asked", out)
        answer = self.json("info", os.path.join(CASES, "error_2.txt"))["out_of_memory"]
        self.assertFalse(answer["expandable_segments_may_help"])
        self.assertEqual(answer["requested_bytes"], round(22.78 * GIB))
        self.assertEqual(answer["outside_pytorch_bytes"], round(71.02 * GIB) - round(61.12 * GIB) - round(9.35 * GIB))
        old = self.json("info", os.path.join(CASES, "error_1.txt"))["out_of_memory"]
        self.assertEqual((old["device"], old["reserved_unallocated_bytes"]), (1, GIB // 2))
        self.assertTrue(old["expandable_segments_may_help"])
        self.assertIn("no text of PyTorch's OutOfMemoryError", self.run_tool("info", "-", text="hello\n", status=1))

    def test_replay_names_the_event_that_fails(self):
        path = os.path.join(CASES, "three_rounds.rmm.csv")
        answer = self.json("replay", path, "--pool", "5MiB", status=2)
        first = answer["first_refused"]
        self.assertEqual((first["event"], first["bytes"], first["stream"], first["recorded_refusal"]),
                         (3, 4 * MIB, "0x2", True))
        self.assertEqual(first["line"], 5)
        self.assertEqual(answer["refused"], 2)
        self.assertEqual(answer["recorded_refusals"], 1)
        text = self.run_tool("replay", path, "--pool", "5MiB", status=2)
        self.assertIn("stream 0x2", text)
        self.assertRegex(text, r"on line +5\n")
        self.run_tool("replay", path, "--pool", "9MiB")

    def test_replay_names_the_line_of_a_file_of_lines(self):
        for name, content in (("skips.rmm.csv", b"Thread,Time,Action,Pointer,Size,Stream\n1,00:00:00:000001,free,0x9,8,0x0\n"
                                                b"1,00:00:00:000002,allocate,0x1,0,0x0\n"
                                                b"1,00:00:00:000003,allocate,0x1,4096,0x0\n"),
                              ("operations.csv", b"op,id,size,hint\nm,step,,\nm,step,,\na,y,4096,\n"),
                              ("lifetimes.csv", b"id,lower,upper,size\ny,5,9,1\nz,6,9,1\nx,0,4,4096\n")):
            with self.subTest(name):
                path = self.path(content, name)
                for policy in ("best-fit", "pytorch"):
                    options = ("--pool", "2KiB", "--policy", policy)
                    self.assertEqual(self.json("replay", path, *options, status=2)["first_refused"]["line"], 4)
        native = os.path.join(self.folder.name, "x.tide")
        self.run_tool("convert", path, native)
        self.assertIsNone(self.json("replay", native, "--pool", "2KiB", status=2)["first_refused"]["line"])
        self.assertNotIn("on line", self.run_tool("replay", native, "--pool", "2KiB", status=2))

    def test_a_log_of_refusals_has_no_live_memory(self):
        path = os.path.join(CASES, "rmm_debug.log")
        self.assertIn("all of the refused request", self.run_tool("replay", path, "--pool", "1GiB"))
        self.assertRegex(self.run_tool("replay", path, "--pool", "1MiB", status=2), r"on line +[1-9]")
        self.assertIn("does not fit: 23.4 MiB missing for the refused request alone",
                      self.run_tool("size", path, "--fits", "10MiB", status=2))
        for command in (["size", path], ["size", path, "--fits", "1GiB"], ["plan", path]):
            self.assertNotIn(" live", self.run_tool(*command))

    def test_converted_snapshots_keep_pools_and_kinds(self):
        pools = [((0, 0), "small", False), ((0, 1), "large", False), ((2, 0), "small", True)]
        segments = [segment(0x10000000 + number * GIB, [block(1 * MIB), block(3 * MIB, "inactive")], 0, pool, kind,
                            expandable=expandable) for number, (pool, kind, expandable) in enumerate(pools)]
        path = self.path(snapshot(segments, []))
        out = os.path.join(self.folder.name, "out.pickle")
        self.assertEqual(self.json("convert", path, out)["left_out"], [])
        for key in ("free_by", "stranded_bytes", "whole_segment_bytes"):
            self.assertEqual(self.device_of(out)[key], self.device_of(path)[key])
        with open(out, "rb") as file:
            written = pickle.load(file)["segments"]
        self.assertEqual([(one["segment_pool_id"], one["is_expandable"]) for one in written],
                         [(pool, expandable) for pool, _, expandable in pools])
        for name, losses in (("out.tide", ["pools"]), ("out.json", ["pools", "history"]), ("out.csv", ["pools", "history"])):
            left_out = self.json("convert", path, os.path.join(self.folder.name, name))["left_out"]
            self.assertEqual([loss for loss in left_out if loss in ("pools", "history")], losses)
        done = subprocess.run([TOOL, "convert", path, os.path.join(self.folder.name, "out.tide")], capture_output=True, text=True)
        self.assertIn("no place for them: private pools", done.stderr)
        awaited = self.path(snapshot([segment(0x10000000, [block(1 * MIB, "active_pending_free")])], []))
        self.assertEqual(self.json("convert", awaited, out)["left_out"], ["pending"])

    # A segment that was mapped in two parts is one segment again.
    def test_converted_expandable_segments_stay_whole(self):
        segments = [segment(0x10000000, [block(30 * MIB), block(10 * MIB, "inactive")], pool=(0, 7), expandable=True)]
        events = [event("segment_map", 0x10000000, 20 * MIB), event("segment_map", 0x10000000 + 20 * MIB, 20 * MIB),
                  event("alloc", 0x10000000, 30 * MIB)]
        path = self.path(snapshot(segments, events))
        out = os.path.join(self.folder.name, "out.pickle")
        self.run_tool("convert", path, out)
        self.assertEqual(self.device_of(out)["free_by"], self.device_of(path)["free_by"])

    # The blocks of 40 MiB are cached when the recording begins, and a profile tells no more than sums.
    def test_sizes_of_pytorch_tell_what_they_do_not_know(self):
        segments = [segment(0x10000000, [block(40 * MIB, "inactive")]), segment(0x20000000, [block(10 * MIB)])]
        events = [event("segment_alloc", 0x20000000, 10 * MIB)]
        for _ in range(5):
            events += [event("alloc", 0x20000000, 10 * MIB), event("free_requested", 0x20000000, 10 * MIB),
                       event("free_completed", 0x20000000, 10 * MIB)]
        cached = self.path(snapshot(segments, events + [event("alloc", 0x20000000, 10 * MIB)]), name="cached.pickle")
        whole = self.path(snapshot(segments[1:], events + [event("alloc", 0x20000000, 10 * MIB)]))
        page = os.path.join(self.folder.name, "page.html")
        for command in (["size"], ["report", "-o", page]):
            self.assertIn("without the 40.0 MiB that were cached when the recording began",
                          self.run_tool(command[0], cached, *command[1:]))
            self.assertNotIn("cached when the recording", self.run_tool(command[0], whole, *command[1:]))

    def test_settings_of_newer_versions_are_known(self):
        path = self.path(snapshot([segment(0x10000000, [block(2 * MIB)])],
                                  [event("segment_alloc", 0x10000000, 2 * MIB), event("alloc", 0x10000000, 2 * MIB)]))
        for setting in ("pinned_max_round_threshold_mb:128", "pinned_max_cached_size_mb:1", "pinned_use_cuda_host_register:True",
                        "per_process_memory_fraction:0.5", "throw_on_cudamalloc_oom:True",
                        "graph_capture_record_stream_reuse:True", "large_segment_size_mb:40", "pinned_of_the_future:1"):
            out = self.run_tool("size", path, "--policy", "pytorch", "--pytorch-settings", setting)
            if setting.startswith(("pinned", "throw", "graph")):
                self.assertIn(f"{setting.split(':')[0]}: without effect on device memory", out)
        self.assertIn("unknown key", self.run_tool("size", path, "--policy", "pytorch", "--pytorch-settings", "split:1",
                                                   status=1))


if __name__ == "__main__":
    TOOL = os.path.abspath(sys.argv.pop(1))
    unittest.main()
