#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The parts of the dry run that need no PyTorch: the search for the largest value, the GPUs, the interpreter of a
command, the answer from files of processes, and the texts.

parts_test.py SOURCE
"""
import ast
import contextlib
import dataclasses
import io
import json
import os
import pathlib
import pickle
import re
import shlex
import stat
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

SOURCE = pathlib.Path(sys.argv.pop(1))
sys.path[:0] = [str(SOURCE / "dryrun" / "program"), str(SOURCE / "dryrun" / "program" / "site")]

import _tidepool_conditions as conditions  # noqa: E402
import _tidepool_host  # noqa: E402
import _tidepool_lines as lines  # noqa: E402
import _tidepool_recording as recording  # noqa: E402
import _tidepool_workspaces as workspaces  # noqa: E402

from tidepool_dryrun import answer, by_module, convolutions, events, fit, gpus, inputs, main, outputs, outside, plain, program, sharing, target, text, where, world, wrappers  # noqa: E402
from tidepool_dryrun.errors import DryRunError  # noqa: E402


def problem_of(line):
    """Returns message, file and line that the problem matcher of the guide finds in a line, or None."""
    guide = (SOURCE / "docs" / "guide" / "editors.md").read_text()
    task = json.loads(guide.split("```json\n")[1].split("```")[0])["tasks"][0]
    found = re.search(task["problemMatcher"]["pattern"]["regexp"], line)
    return found and found.groups()


class SourceTest(unittest.TestCase):
    def test_the_oldest_python_can_read_the_sources(self):
        sources = sorted((SOURCE / "dryrun" / "program").rglob("*.py"))
        self.assertTrue(sources)
        for source in sources:
            ast.parse(source.read_text(), str(source), feature_version=(3, 9))


class ModulesTest(unittest.TestCase):
    def test_requests_belong_to_modules_by_place_and_address(self):
        def event(action, address, size, frames=()):
            return {"action": action, "addr": address, "size": size, "frames": list(frames)}

        line = {"filename": "a.py", "line": 1, "name": "f"}
        requests = [event("alloc", 1, 10, [line]), event("alloc", 2, 20, [line]), event("free_completed", 2, 20), event("alloc", 2, 30, [line]),
                    event("alloc", 3, 40), event("alloc", 4, 50, [line])]
        record = events.Record(requests)
        # The weight at 1 is known from a sample at the end, the gradient at 2 by the second request at that address.
        marks = [(1, "net.0"), (4, None)]
        found = by_module.table(record, marks, [(6, {1: ("net.0", "weights"), 2: ("net.1", "gradients"), 5: ("net", "weights")})])
        self.assertEqual({row["module"]: (row["bytes"], row["weights_bytes"], row["gradients_bytes"], row["activations_bytes"]) for row in found},
                         {"net.0": (10, 10, 0, 0), "net.1": (30, 0, 30, 0), "(backward)": (40, 0, 0, 40), "(outside of modules)": (50, 0, 0, 50)})
        requests[4]["frames"] = [{"filename": "purpose", "line": 0, "name": "workspace"}]  # no stack
        found = by_module.table(record, marks, [(2, {2: ("net.1", "gradients")})])  # of the request that ended
        self.assertEqual({row["module"]: row["bytes"] for row in found},
                         {"net.0": 30, "(backward)": 40, "(outside of modules)": 60})

    def test_memory_older_than_the_record_has_the_module_that_it_belongs_to_or_none(self):
        requests = [{"action": "alloc", "addr": address, "size": 10 * address, "frames": []} for address in (1, 2, 3)]
        record = events.Record(requests, offset=3, begin=5)  # the first two are older
        samples = [(1, {2: ("net.1", "weights")}), (2, {1: ("net.0", "weights")})]  # the later one holds
        found = by_module.table(record, [(0, "net.0"), (5, "net.2")], samples)
        self.assertEqual({row["module"]: (row["bytes"], row["weights_bytes"]) for row in found},
                         {"net.0": (10, 10), "(before the record)": (20, 0), "net.2": (30, 0)})

    def test_blocks_are_joined(self):
        def joined(*modules):
            rows = by_module.alike([{"module": module, "bytes": 1} for module in modules])
            return {row["module"]: (row["count"], row["bytes"]) for row in rows}

        self.assertEqual(joined("layers.0.mlp.0", "layers.1.mlp.0", "layers.1.mlp.2", "layers.0", "layers.1", "head"),
                         {"layers.*.mlp.0": (2, 2), "layers.1.mlp.2": (1, 1), "layers.*": (2, 2), "head": (1, 1)})
        self.assertEqual(joined("features.0", "features.3"), {"features.0": (1, 1), "features.3": (1, 1)})
        self.assertEqual(joined("0.a", "1.a", "conv1.x", "conv2.x"), {"*.a": (2, 2), "conv1.x": (1, 1), "conv2.x": (1, 1)})

    def test_the_table_for_people(self):
        rows = [{"module": f"m{number}", "bytes": 1 << 20, "weights_bytes": 1 << 20, "gradients_bytes": 0, "optimizer_bytes": 0,
                 "activations_bytes": 0} for number in range(22)]
        lines = text.modules(rows)
        self.assertEqual(lines[0].split(), ["by", "module", "all", "weights", "gradients", "optimizer", "activations"])
        self.assertEqual((lines[1].split(), len(lines)), (["m0", "1.0", "MiB", "1.0", "MiB"], 22))
        self.assertEqual(lines[-1].split(), ["2", "more", "2.0", "MiB"])

    def test_lines_of_libraries_are_below(self):
        top = [{"frame": "train.py:5 f", "bytes": 3 << 20, "below": [{"frame": "model.py:7 forward", "bytes": 2 << 20}]}]
        self.assertEqual(text.lines_of_code(top), ["  by line", "    train.py:5 f            3.0 MiB", "      model.py:7 forward    2.0 MiB"])


class WorkspacesTest(unittest.TestCase):
    def test_requests_for_workspaces_have_a_purpose(self):
        line = {"filename": "a.py", "line": 1, "name": "f"}
        events = [{"action": "alloc", "addr": 1, "size": 10, "frames": [line]}, {"action": "alloc", "addr": 2, "size": 10},
                  {"action": "alloc", "addr": 1, "size": 11, "frames": [line]}, {"action": "segment_alloc", "addr": 1, "size": 10}]
        snapshot = {"segments": [{"blocks": [{"address": 1, "requested_size": 10, "frames": []}]}], "device_traces": [events]}
        with unittest.mock.patch.object(workspaces, "told", lambda name: [[1, 10], [2, 10]]):
            workspaces.name_all(snapshot)
        self.assertEqual([event.get("frames") for event in events], [[line, workspaces.PURPOSE], [workspaces.PURPOSE], [line], None])
        self.assertEqual(snapshot["segments"][0]["blocks"][0]["frames"], [workspaces.PURPOSE])


class OutsideTest(unittest.TestCase):
    """Measured figures lie in the ranges."""

    def nccl(self, gpu, ranks, peers=0, **around):
        return outside.communicator(ranks, peers, True, outside.Around(gpus.GPUS[gpu], 8, **around))[:2]

    def check(self, measured, found):
        self.assertTrue(found[0] <= measured <= found[1], (measured, found))

    def test_contexts(self):
        mib = 1 << 20
        small = dataclasses.replace(gpus.GPUS["l4"], multiprocessors=34)  # an RTX 4060 Ti
        # A Titan V has as many threads as a V100, and an RTX 6000 Ada as an L40S.
        for gpu, measured in ((small, 107), (gpus.GPUS["v100"], 319.25), (gpus.GPUS["rtx-3090"], 256), (gpus.GPUS["l40s"], 426),
                              (gpus.GPUS["h200"], 526.8), (gpus.GPUS["rtx-pro-6000"], 555)):
            least, most, _ = outside.context(gpu)
            self.check(measured * mib, (least, most - outside.MODULES))
            self.assertLess(most - outside.MODULES, 1.07 * least)  # a context alone is known well
        self.check(770.8 * mib, outside.context(gpus.GPUS["h200"])[:2])
        lazy = outside.context(gpus.GPUS["v100"])
        with unittest.mock.patch.dict(os.environ, CUDA_MODULE_LOADING="EAGER"):
            eager = outside.context(gpus.GPUS["v100"])
        self.assertEqual([eager[end] - lazy[end] for end in (0, 1)], [666_632_192 - 287_047_680] * 2)
        for gpu in gpus.GPUS.values():
            least, most, _ = outside.context(gpu)
            self.assertLess(least, most)

    def test_communicators(self):
        mib = 1 << 20
        self.check(544 * mib, self.nccl("a100-40", 2))
        self.check(688 * mib, self.nccl("a100-40", 4))
        self.check(576 * mib, self.nccl("b200", 8))
        self.check(512 * mib, self.nccl("b200", 1))
        # 1.06 and 4.34 GB of eight H100, with the context, before and after the first exchange among all.
        context = outside.context(gpus.GPUS["h100"])
        for measured, peers in ((1_060_000_000, 0), (4_340_000_000, 7)):
            least, most = self.nccl("h100", 8, peers)
            self.check(measured, (context[0] + least, context[1] + most))
        self.assertEqual(self.nccl("h100", 1024, 0, has_nodes=True)[1] - self.nccl("h100", 1024)[1], 512 * mib)
        self.assertEqual(outside.communicator(8, 0, False, outside.Around(gpus.GPUS["h100"], 8))[0], 0)
        self.assertEqual(outside.least_of_nccl(gpus.GPUS["h100"], 8), f"{24 << 20},{240 << 20},7")
        self.assertEqual(outside.least_of_nccl(gpus.GPUS["l4"], 1), f"{24 << 20},{24 << 20},0")
        self.assertEqual(self.nccl("h100", 1024, 1023), self.nccl("h100", 8, 7))

    def test_channels_and_buffers_of_nccl(self):
        mib, h100, plain_ = 1 << 20, gpus.GPUS["h100"], self.nccl("h100", 8, 7)
        for settings, least, shares in (({"NCCL_MAX_NCHANNELS": "1"}, 12, (1 / 20, 1 / 24)), ({"NCCL_MAX_NCHANNELS": "64"}, 24, (1, 1)),
                                        ({"NCCL_MIN_NCHANNELS": "32"}, 32 * 12, (32 / 20, 32 / 24)), ({"NCCL_BUFFSIZE": "0x1000000"}, 48, (2, 2)),
                                        ({"NCCL_BUFFSIZE": "large", "NCCL_MAX_NCHANNELS": ""}, 24, (1, 1)),
                                        ({"NCCL_BUFFSIZE": "-2", "NCCL_MIN_NCHANNELS": "100"}, 64 * 12, (64 / 20, 64 / 24))):
            with self.subTest(settings), unittest.mock.patch.dict(os.environ, settings):
                most = self.nccl("h100", 8, 7)[1]
                self.assertEqual(outside.least_of_nccl(h100, 8), f"{least * mib},{round(240 * shares[0] * mib)},7")
                self.assertEqual(self.nccl("h100", 8)[0], round(240 * shares[0] * mib))
                self.assertEqual(most, int(plain_[1] * shares[1]))


class FitTest(unittest.TestCase):
    def test_finds_the_largest_value_of_every_range(self):
        for least in range(1, 6):
            for most in range(least, 40):
                for limit in range(least - 1, most + 2):
                    tried = []

                    def fits(value):
                        self.assertTrue(least <= value <= most)
                        self.assertNotIn(value, tried)
                        tried.append(value)
                        return value <= limit

                    expected = None if limit < least else min(limit, most)
                    self.assertEqual(fit.largest(least, most, fits), expected, (least, most, limit))

    # A program that was stopped may need more memory later.
    def test_a_run_that_was_stopped_ends_the_search(self):
        def search(**changes):
            stopped = {"fits": True, "interrupted": False, "ran_out_of_time": False, "peak_reserved_bytes": 1, **changes}
            run = unittest.mock.Mock(command=["a", "{n}"], machine=program.Machine(gpus.GPUS["h100"], 1, 1))
            run.answer = lambda command, folder: stopped
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
                return main.run_fit(run, main.Options(command=run.command, stand_in="", fit=("n=1..4",)))

        self.assertEqual(search(), 0)
        self.assertEqual(search(fits=False, ran_out_of_time=True), 2)
        with self.assertRaisesRegex(DryRunError, "n 1: out of time, expected a longer --time-limit"):
            search(ran_out_of_time=True)
        with self.assertRaises(KeyboardInterrupt):
            search(interrupted=True)

    def test_a_run_without_an_answer_is_named(self):
        run = unittest.mock.Mock(command=["a", "{n}"], machine=program.Machine(gpus.GPUS["h100"], 1, 1))
        run.answer.side_effect = DryRunError("the program ended with status 1")
        with self.assertRaisesRegex(DryRunError, "^n 1: the program ended with status 1$"):
            main.run_fit(run, main.Options(command=run.command, stand_in="", fit=("n=1..4",)))

    def test_large_ranges_take_few_runs(self):
        tried = []
        self.assertEqual(fit.largest(1, 1 << 40, lambda value: tried.append(value) or value <= 123456), 123456)
        self.assertLess(len(tried), 40)

    def test_parses_ranges(self):
        self.assertEqual(fit.parse("batch-size=1..512"), ("batch-size", 1, 512))
        for words in ("", "batch", "batch=", "batch=5", "batch=5..4", "batch=-1..4", "1..4", "b=1..x"):
            with self.assertRaisesRegex(DryRunError, "expected NAME=LEAST..MOST"):
                fit.parse(words)

    def test_replaces_each_place(self):
        self.assertEqual(fit.with_value(["a", "{n}", "--x={n}/{n}"], "n", 7), ["a", "7", "--x=7/7"])


class CommandTest(unittest.TestCase):
    def test_the_program_has_the_name_of_its_script_or_module(self):
        for command, name in ((["python", "-u", "a/train.py", "-m", "4"], "a/train.py"), (["python", "-m", "pkg.main", "x"], "pkg.main"),
                              (["torchrun", "--standalone", "-m", "pkg.main"], "pkg.main"),
                              (["./train", "-m", "4"], "./train"), (["python", "-m"], "python")):
            self.assertEqual(main.script_of(command), name)

    def test_jobs_belong_to_choices(self):
        errors = io.StringIO()
        for values in ([], ["n=1..2"]):
            with contextlib.redirect_stderr(errors):
                status = main.main(json.dumps({"stand_in": "", "jobs": 2, "fit": values}), ["python", "{n}"])
            self.assertEqual(status, 1)
        self.assertEqual(errors.getvalue().count("tidepool: --jobs 2 without --fit NAME=VALUE,VALUE"), 2)


class OutputsTest(unittest.TestCase):
    """The files of the answer, and standard output."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def options(self, **named):
        return main.Options(command=[sys.executable], stand_in="", **named)

    def test_names_of_files_are_checked_before_the_run(self):
        (self.folder / "own").mkdir()
        for name, path, problem in (("report", "rep.foo", "expected a name that ends in .html, .svg or .folded"),
                                    ("front", "f.png", "expected a name that ends in .svg"),
                                    ("graph", "nowhere/step.json", f"no folder {self.folder}/nowhere: make it, or name another one"),
                                    ("snapshot", "own", "a folder, expected the name of a file in it")):
            path = str(self.folder / path)
            with self.assertRaisesRegex(ValueError, f"^--{name} {path}: {problem}$"):
                main.DryRun(self.options(**{name: path}))
        with self.assertRaisesRegex(ValueError, "^--prices /nowhere: no such file"):
            main.DryRun(self.options(front="f.svg", prices="/nowhere"))
        outputs.check(self.options(report=str(self.folder / "report.html"), snapshot="/dev/null", graph="step.json.gz", front="front.svg"))

    def test_a_folder_that_may_not_be_written_is_named(self):
        with unittest.mock.patch.object(outputs.os, "access", lambda path, mode: path != str(self.folder)):
            with self.assertRaisesRegex(ValueError, f"{self.folder} may not be written: name another file"):
                outputs.check(self.options(graph=str(self.folder / "step.json")))

    def test_an_answer_outlives_a_file_that_cannot_be_written(self):
        errors, output = io.StringIO(), io.StringIO()
        run = unittest.mock.Mock(command=["a.py"], answer=lambda command, folder: {"fits": True, "ranks": []})
        for error, line in ((OSError(28, "No space left on device", "step.json"), "tidepool: step.json: No space left on device\n"),
                            (DryRunError("no graph"), "tidepool: no graph\n")):
            with unittest.mock.patch.object(main, "write_files", side_effect=error), \
                    contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
                self.assertEqual(main.run_once(run, self.options(json=True)), 1)
            self.assertEqual(json.loads(output.getvalue()), {"fits": True, "ranks": []})
            self.assertEqual(errors.getvalue(), line)
            for stream in (errors, output):
                stream.seek(0)
                stream.truncate()

    def test_errors_of_the_tool_have_one_prefix(self):
        tool = self.folder / "tool"
        tool.write_text("#!/bin/sh\necho 'tidepool: -o: no room' >&2; exit 1\n")
        tool.chmod(0o755)
        with self.assertRaisesRegex(DryRunError, "^-o: no room$"):
            answer.Tool(str(tool)).ask("info")

    # The descriptor of a closed one may be that of a file which the run opens.
    def test_standard_output_has_to_take_the_answer(self):
        for words in ('>&-', '>/dev/full'):
            script = (f"import sys; sys.path.insert(0, {str(SOURCE / 'dryrun' / 'program')!r}); from tidepool_dryrun import main\n"
                      "main.DryRun = lambda options, source: None\n"
                      "main.run_once = lambda run, options: main.print_answer('answer')\n"
                      "sys.exit(main.main('{\"stand_in\": \"\"}', ['a']))\n")
            done = subprocess.run(["sh", "-c", f'"$0" -c "$1" {words}', sys.executable, script], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (1, "tidepool: standard output cannot be written, expected a file or pipe with "
                                                                 "room\n"))


class InputTest(unittest.TestCase):
    """Standard input of several runs of a command."""

    def read(self, command, stdin, text=None):
        script = (f"import subprocess, sys; sys.path.insert(0, {str(SOURCE / 'dryrun' / 'program')!r}); from tidepool_dryrun import inputs\n"
                  f"source = inputs.Input({command!r})\n"
                  "for _ in range(2): subprocess.run(['sh', '-c', 'read line; echo \"<$line>\"; cat'], stdin=source.of_run())\n")
        done = subprocess.run([sys.executable, "-c", script], stdin=stdin, input=text, capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def test_a_pipe_is_that_of_the_first_run(self):
        self.assertEqual(self.read(["python", "t.py"], None, "a\nb\n"), "<a>\nb\n<>\n")

    def test_a_command_that_reads_a_pipe_gets_it_in_each_run(self):
        for command in (["python", "-"], ["python"], ["cat", "/dev/stdin"]):
            self.assertEqual(self.read(command, None, "a\nb\n"), 2 * "<a>\nb\n", command)

    def test_a_file_begins_again_in_each_run(self):
        with tempfile.TemporaryFile("w+") as file:
            file.write("a\nb\nc\n")
            file.flush()
            os.lseek(file.fileno(), 2, os.SEEK_SET)
            self.assertEqual(self.read(["python", "t.py"], file), 2 * "<b>\nc\n")

    def test_a_terminal_is_not_asked(self):
        ours, theirs = os.openpty()
        self.addCleanup(os.close, ours)
        self.assertEqual(self.read(["python", "t.py"], theirs), 2 * "<>\n")
        os.close(theirs)
        with unittest.mock.patch.object(sys, "stdin", None):
            self.assertEqual(inputs.Input(["python"]).of_run(), subprocess.DEVNULL)


class GpuTest(unittest.TestCase):
    def test_names_the_nearest_first(self):
        with self.assertRaisesRegex(ValueError, "no GPU 'h10' is known, expected one of h100"):
            gpus.find("h10")

    def test_has_consistent_rows(self):
        for name, gpu in gpus.GPUS.items():
            with self.subTest(name):
                self.assertGreaterEqual(gpu.capability, 70)
                self.assertEqual(gpu.threads % 512, 0)
                self.assertGreater(gpu.memory_bytes, 14 << 30)
                self.assertGreater(gpu.link_bytes_per_second, 0)

    def test_has_the_cache_that_was_measured(self):
        self.assertEqual(gpus.find("h200").l2_bytes, 62914560)

    def test_every_row_of_the_table_is_read(self):
        for kind in ("GPU", "LINK"):
            self.assertEqual(len(gpus.rows(kind)), sum(line.startswith(f"{kind}(") for line in gpus.TABLE.splitlines()))

    def test_a_gpu_that_shares_the_memory_of_the_host_has_no_link(self):
        self.assertEqual([name for name, gpu in gpus.GPUS.items() if gpu.is_integrated], ["gb10", "agx-thor", "agx-orin-64"])
        self.assertEqual(gpus.find("gb10").link_bytes_per_second, 273e9 / 2)
        self.assertEqual(gpus.link_of("NVIDIA GB10", 121), 273e9 / 2)

    def test_a_real_gpu_has_the_link_of_its_row_or_of_its_capability(self):
        self.assertEqual(gpus.link_of("NVIDIA GB200", 100), 170e9)
        self.assertEqual([gpus.link_of("another", capability) for capability in (75, 89, 90, 120)], [12e9, 24e9, 48e9, 48e9])


class TargetTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def script(self, name, words):
        path = pathlib.Path(self.folder.name) / name
        path.write_text(words)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    # A Python that finds a PyTorch with these lines as its version.py.
    def python_with(self, lines):
        package = pathlib.Path(self.folder.name) / "torch"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").write_text("raise Exception('imported')")
        (package / "version.py").write_text(lines)
        return self.script("python", f"#!/bin/sh\nPYTHONPATH={self.folder.name} exec {sys.executable} \"$@\"\n")

    def test_interpreter_is_the_first_word_or_that_of_the_script(self):
        python = self.python_with("")
        self.assertEqual(target.interpreter_of(python), python)
        self.assertEqual(target.interpreter_of(self.script("torchrun", f"#!{sys.executable}\n")), sys.executable)
        found = target.interpreter_of(self.script("tool", "#!/usr/bin/env python3\n"))
        self.assertIn("python3", os.path.basename(found))
        self.assertIsNone(target.interpreter_of(self.script("run.sh", "#!/bin/sh\n")))
        with self.assertRaisesRegex(DryRunError, "no-such-program: no such program"):
            target.find(["no-such-program"])

    def test_looks_through_simple_wrappers(self):
        for words, prefix, command in (("env A=1 -u B python t.py", "env A=1 -u B", "python t.py"), ("nice -n 5 nohup python t.py", "nice -n 5 nohup", "python t.py"),
                                       ("nice -5 ./t", "nice -5", "./t"), ("sh -c 'A=1 exec'", "env A=1", "exec"), ("env", "", "env"),
                                       ("/bin/bash -c 'exec python t.py \"a b\"'", "", "python t.py 'a b'"), ("env --what python", "", "env --what python"),
                                       ("sh -c 'A=1 python t.py'", "env A=1", "python t.py"), ("sh -c 'cd x; python t.py'", "", "sh -c 'cd x; python t.py'"),
                                       ("sh -c \"python '\"", "", "sh -c \"python '\""), ("sh run.sh", "", "sh run.sh"), ("python -c env", "", "python -c env")):
            with self.subTest(words):
                self.assertEqual(wrappers.unwrapped(shlex.split(words)), (shlex.split(prefix), shlex.split(command)))

    def test_finds_the_python_that_a_wrapper_starts(self):
        python = self.python_with("__version__ = '2.11.0+cu130'\ncuda = '13.0'\n")
        for command in (["env", "A=1", python, "t.py"], ["nice", python, "t.py"], ["sh", "-c", f"{python} t.py"],
                        ["env", f"PATH={self.folder.name}:{os.environ['PATH']}", "python", "t.py"]):
            found = target.find(command)
            self.assertEqual((found.torch, found.folder), ("2.11.0+cu130", str(pathlib.Path(self.folder.name) / "torch")), command)

    def test_other_programs_may_use_cuda_without_pytorch(self):
        self.script("python3", f"#!/bin/sh\nexec {sys.executable} -S \"$@\"\n")
        with unittest.mock.patch.dict(os.environ, PATH=f"{self.folder.name}:{os.environ['PATH']}"):
            found = target.find([self.script("run", "#!/bin/sh\n")])
        self.assertEqual((found.torch, found.cuda_major), (None, 13))

    def test_finds_pytorch_without_importing_it(self):
        found = target.find([self.python_with("__version__ = '2.11.0+cu130'\ncuda = '13.0'\n")])
        self.assertEqual(found.torch, "2.11.0+cu130")
        self.assertEqual(found.folder, str(pathlib.Path(self.folder.name) / "torch"))
        self.assertEqual(found.cuda_major, 13)
        self.assertFalse(found.has_copies)
        self.assertIsNone(found.cudnn)

    def test_finds_a_tidepool_that_reads_the_budget(self):
        python = self.python_with("__version__ = '2.11.0+cu130'\ncuda = '13.0'\n")
        folder = pathlib.Path(self.folder.name)
        (folder / "tidepool").mkdir()
        for name, lines in (("__init__.py", ""), ("torch.py", "\ndef compile(model): pass\n")):
            (folder / "tidepool" / name).write_text(lines)
        found = target.find([python])
        self.assertEqual((found.compiles, found.reads_budget), (True, False))
        installed = folder / "tidepool-0.1.dist-info"
        installed.mkdir()
        (installed / "entry_points.txt").write_text("[torch.backends]\ntidepool = tidepool_startup:torch_is_imported\n")
        self.assertTrue(target.find([python]).reads_budget)

    def test_finds_libraries_of_nvidia_and_their_versions(self):
        python = self.python_with("__version__ = '2.6.0+cu124'\ncuda = '12.4'\n")
        folder = pathlib.Path(self.folder.name)
        (folder / "nvidia" / "cublas").mkdir(parents=True)
        (folder / "torch-2.6.0.dist-info").mkdir()
        (folder / "torch-2.6.0.dist-info" / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: torch\nVersion: 2.6.0\n"
            "Requires-Dist: filelock\nRequires-Dist: nvidia-cudnn-cu12==9.1.0.70; platform_system == 'Linux'\n")
        found = target.find([python])
        self.assertEqual(found.cuda_major, 12)
        self.assertTrue(found.has_copies)
        self.assertEqual(found.cudnn, (9, 1, 0))
        # A newer cuDNN was installed beside it.
        (folder / "nvidia_cudnn_cu12-9.15.1.9.dist-info").mkdir()
        (folder / "nvidia_cudnn_cu12-9.15.1.9.dist-info" / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: nvidia-cudnn-cu12\nVersion: 9.15.1.9\n")
        self.assertEqual(target.find([python]).cudnn, (9, 15, 1))

    def test_refuses_what_it_cannot_run(self):
        for lines, error in (("__version__ = '2.11.0'\ncuda = None\n", "is built without CUDA"),
                             ("__version__ = '2.11.0'\ncuda = None\nhip = '6.4'\n", "is built for ROCm 6.4, expected a build for CUDA"),
                             ("__version__ = '2.6.0'\ncuda = '11.8'\n", "is built for CUDA 11.8, expected one for CUDA 12 or 13"),
                             ("__version__ = '2.5.1+cu124'\ncuda = '12.4'\n", "torch 2.5.1.cu124 of .* is too old, expected 2.6 or newer"),
                             ("", "has no PyTorch")):
            with self.subTest(error), self.assertRaisesRegex(DryRunError, error):
                target.find([self.python_with(lines)])
        with self.assertRaisesRegex(DryRunError, "not a working Python"):
            target.find([self.script("python3", "#!/bin/sh\nexit 3\n")])


class ProgramTest(unittest.TestCase):
    def test_an_interpreter_that_cannot_load_the_stand_in_is_refused(self):
        torch = target.Target(sys.executable, "9.9", "", 99, False, None)
        with self.assertRaisesRegex(DryRunError, "cannot load the stand-in for libcudart.so.99: OSError: .*libstdc"):
            program.check_loads(torch, dict(os.environ))

    def test_the_time_limit_asks_the_program_to_end(self):
        with tempfile.TemporaryDirectory() as folder:
            asked = pathlib.Path(folder) / "asked"
            begun = pathlib.Path(folder) / "begun"
            script = f"trap 'touch {asked}; exit 0' TERM; touch {begun}; sleep 1000 & wait"
            finished = program.run(["sh", "-c", script], dict(os.environ), 2)
            self.assertTrue(finished.ran_out_of_time)
            self.assertFalse(finished.was_interrupted)
            # A busy machine may not have begun the shell within the limit.
            self.assertEqual(asked.exists(), begun.exists())

    def test_a_process_that_writes_its_answer_may_take_longer(self):
        self.assertEqual(program.seconds_to_answer(None), program.SECONDS_TO_ANSWER)
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(program.seconds_to_answer(folder), program.SECONDS_TO_ANSWER)
            pathlib.Path(folder, "answers-7").touch()
            for processes, seconds in (([8], program.SECONDS_TO_ANSWER), ([8, 7], program.SECONDS_TO_WRITE)):  # 7 may have ended
                with unittest.mock.patch.object(program, "processes_of", return_value=processes):
                    self.assertEqual(program.seconds_to_answer(folder), seconds)

    def test_output_passes_through(self):
        lines = ("import os, sys; from tidepool_dryrun import program; "
                 "program.run(['sh', '-c', 'head -c 20000000 /dev/zero; echo end >&2'], dict(os.environ), 1000)")
        done = subprocess.run([sys.executable, "-c", lines], env=dict(os.environ, PYTHONPATH=str(SOURCE / "dryrun" / "program")),
                              capture_output=True, check=True)
        self.assertEqual(done.stdout, b"")
        self.assertEqual(len(done.stderr), 20000004)
        self.assertTrue(done.stderr.endswith(b"end\n"))

    def test_libraries_that_cannot_be_made_name_their_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "tidepool").touch()
            torch = target.Target(sys.executable, "9.9", folder, 13, False, None)
            with unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=folder):
                with self.assertRaisesRegex(DryRunError, f"{folder}/tidepool/dryrun/torch-9.9-.* cannot be made"):
                    program.empty_libraries(torch, [pathlib.Path(folder)])

    # Launchers start their ranks in sessions of their own.
    def test_the_failure_of_a_process_ends_all_processes(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkfifo(f"{folder}/never")
            pathlib.Path(folder, "failed").write_text(json.dumps({"reason": "error"}))
            other = f"touch {folder}/begun; read line < {folder}/never"
            script = (f"setsid sh -c '{other}' & while [ ! -e {folder}/begun ]; do :; done; "
                      f"mv {folder}/failed {folder}/process-1.json; read line < {folder}/never")
            own = {**os.environ, "TIDEPOOL_DRYRUN_FOLDER": folder}
            with unittest.mock.patch.object(program, "SECONDS_FOR_OTHERS", 0):
                finished = program.run(["sh", "-c", script], own, 1000)
            self.assertFalse(finished.ran_out_of_time)
            self.assertEqual(program.processes_of(folder), [])

    def test_a_program_has_its_own_status(self):
        finished = program.run(["sh", "-c", "exit 7"], dict(os.environ), 1000)
        self.assertEqual(finished.status, 7)
        self.assertFalse(finished.ran_out_of_time)


class StubTool:
    """Answers as the command line does for a snapshot."""

    most_reserved = 99  # with the other order of addresses
    least_memory = 95  # in which PyTorch gets through then
    stranded = None  # a snapshot does not always tell
    free = ()

    def ask(self, command, *arguments):
        if command == "replay":
            assert arguments[-2:-1] == ("--pool",), arguments
            return {"served": arguments[-1] >= self.least_memory}
        if command == "size":
            return {"policies": [{"policy": "planned", "pool_bytes": 90, "exact_pool_bytes": 90}]}
        return {"per_device": [{"device": 0, "peak_live_bytes": 90, "top": [{"frame": "(no stack)", "bytes": 60}, {"frame": "a.py:1 f", "bytes": 50}],
                                "categories": {"weights": 40, "unknown": 50}, "stranded_bytes": self.stranded,
                                "free_by": [{"pool": pool, "stream": "7", "bytes": bytes_, "is_stranded": pool != "default"} for pool, bytes_ in self.free],
                                "pytorch": {"reserved_bytes": 98, "falling_reserved_bytes": self.most_reserved, "expandable_reserved_bytes": 96}}]}


class Answer:
    """Stands for a tensor: its value is the outcome that goes on, and notes it."""

    def __init__(self):
        self.outcomes = []

    def __bool__(self):
        self.outcomes.append(conditions.outcome_that_goes_on(sys._getframe(1)))
        return bool(self.outcomes[-1])

    def item(self):
        self.outcomes.append(conditions.outcome_that_goes_on(sys._getframe(1)))
        return bool(self.outcomes[-1])


class ConditionsTest(unittest.TestCase):
    def outcomes(self, lines):
        answer_ = Answer()
        exec(f"def check(x):\n {lines}\n", made := {})
        made["check"](answer_)
        return answer_.outcomes

    def test_the_outcome_that_raises_nothing_is_known(self):
        for lines, outcomes in (("assert x", [True]), ("assert not x, 'text'", [False]), ("assert x.item()", [True]), ("assert not x.item()", [False]),
                                ("if x: raise ValueError", [False]), ("if not x: raise ValueError(f'{1 + 1} parts')", [True]),
                                ("assert x and not x and x", [True, False, True]), ("if not (x or x): raise ValueError", [None, True]),
                                ("\n while not x: break", [None]), ("return 1 if x else 2", [None]), ("if x.item(): return 1", [None]),
                                ("return x.item()", [None]), ("x = bool(x); assert not x", [None])):
            with self.subTest(lines):
                self.assertEqual(self.outcomes(lines), outcomes)


class AnswerTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.finished = program.Finished(0, False, False)
        self.snapshot = pathlib.Path(self.folder.name, "snapshot")
        self.snapshot.write_bytes(pickle.dumps({"device_traces": [[]]}))

    def write(self, rank=0, allocations=3, device=None, **changes):
        process = {"reason": "steps", "steps": 3, "began": 100, "seconds": 2.5, "torch": "2.11.0", "cuda": "13.0", "rank": rank,
                   "out_of_memory": None, "caught_out_of_memory": [], "error": None, "error_frame": None, "failed_rank": None, "stopped_at": None, "visible_devices": None, "waiting": [], "assumed": [], "convolution_workspaces": [],
                   "pinned": {"peak_bytes": 0}, "host": {"bytes": 200, "peak_bytes": 300, "workers": {"1": 2 << 30, "77": 40}}, "snapshot": str(self.snapshot),
                   "devices": [{"device": 0, "peak_reserved_bytes": 100 + rank, "allocations": allocations, "lost_events": 0, "retries": 0, "max_memory_allocated": 95,
                                "limit_bytes": None, "is_expandable": False, "is_modelled": True, **(device or {})}], **changes}
        path = pathlib.Path(self.folder.name) / f"process-{rank}.json"
        path.write_text(json.dumps(process))

    def collect(self, memory_bytes=1000, tool=None, counts=False, of_world=None, gpu="h100"):
        around = outside.Around(gpus.GPUS[gpu], 8, False, counts)
        return answer.collect(self.folder.name, self.finished, around, memory_bytes, tool or StubTool(), of_world)

    def hold(self, process, *entries):
        """Writes the memory that a process held: of pinned memory of the host, and of each device. It began at the time of its number."""
        pathlib.Path(self.folder.name, f"memory-{process}").write_bytes(b"".join(plain.ENTRY.pack(*entry) for entry in entries))
        self.note_beside(process)

    def note_beside(self, process, *living, visible=""):
        pathlib.Path(self.folder.name, f"beside-{process}").write_text(" ".join(map(str, (process * 10**9, *living))) + "\n" + visible)

    def test_answers_without_pytorch_from_the_records_of_the_runtime(self):
        self.hold(7, (3, 0), (90, 0), (0, 0), (50, 0))
        self.hold(8, (4, 0), (10, 0))
        found = self.collect()
        self.assertEqual([(rank["rank"], rank["device"], rank["peak_live_bytes"]) for rank in found["ranks"]],
                         [(0, 0, 90), (0, 2, 50), (1, 0, 10)])
        self.assertEqual((found["peak_reserved_bytes"], found["torch"], found["fits"]), (90, None, True))
        self.assertEqual(found["pinned"], {"peak_bytes": 7, "rounded_bytes": 7})
        self.hold(8, (1 << 20, 0), (10, 300))
        self.assertIn("  pinned            1.0 MiB of the host's memory", text.lines(self.collect(), "x"))
        self.assertEqual(self.collect()["out_of_memory"], {"bytes": 300, "frame": None})
        # Which line asked is not known.
        self.assertEqual(text.lines(self.collect(), "x")[-1].split("  ")[-1], "no, 300 bytes asked for")

    def test_adds_up_processes_without_pytorch_that_live_at_a_time(self):
        for process in (7, 8, 9):
            self.hold(process, (0, 0), (400, 0))
        for living, visible, processes, live in (((), "", [], []), ((8,), "", [2], [800]), ((7, 8), "", [3], [1200]), ((7, 8), "1", [2], [800])):
            self.note_beside(8, *(7 for _ in living[1:]))
            self.note_beside(9, *living, visible=visible)
            with self.subTest(living):
                found = self.collect()
                self.assertEqual([(one["processes"], one["peak_live_bytes"]) for one in found["shared"]], list(zip(processes, live)))
                self.assertEqual(found["fits"], live < [1000])
                self.assertNotIn("lives", found["ranks"][0])
        self.assertEqual([rank["number"] for rank in found["ranks"]], [0, 0, 1])
        # Both began at a time: the first was late to note that it had begun, so the second did not meet it.
        self.note_beside(7, 8)
        self.note_beside(8)
        self.note_beside(9)
        self.assertEqual([(one["processes"], one["peak_live_bytes"]) for one in self.collect()["shared"]], [(2, 800)])

    def test_tells_memory_of_other_streams(self):
        self.write()
        tool = StubTool()
        self.assertEqual(self.collect(tool=tool)["stranded_bytes"], 0)
        for tool.stranded, is_told in ((4, False), (5, True)):
            found = self.collect(tool=tool)
            self.assertEqual(found["stranded_bytes"], tool.stranded)
            self.assertEqual("stranded          5 bytes of it are free" in "\n".join(text.lines(found, "x")), is_told)

    def test_names_the_streams_and_pools_of_stranded_memory(self):
        def alloc(address, line):
            frames = [{"filename": name, "line": line, "name": "f"} for name in ("/torch/nn/m.py", "a.py")] if line else []
            return {"action": "alloc", "addr": address, "size": 1, "stream": 7, "frames": frames}

        segments = [{"device": 0, "address": 10 * pool, "total_size": 10, "segment_pool_id": (0, pool)} for pool in (0, 1, 2)]
        self.snapshot.write_bytes(pickle.dumps({"segments": segments, "device_traces": [[alloc(11, 1), alloc(12, 2), alloc(13, None), alloc(3, 3)]]}))
        self.write()
        tool = StubTool()
        tool.stranded, tool.free = 9, (("default", 50), ("(0, 1)", 3), ("(0, 2)", 1), ("(0, 1)", 4), ("(0, 3)", 1))
        found = self.collect(tool=tool)
        self.assertEqual(found["stranded_by"][0], {"pool": "(0, 1)", "stream": "7", "bytes": 7, "frame": "a.py:2 f"})
        self.assertIn("do not ask for more: 7 bytes of stream 7 of private pool (0, 1), last asked for at a.py:2 f · "
                      "1 bytes of stream 7 of private pool (0, 2) · 1 bytes in 1 more", "\n".join(text.lines(found, "x")))

    def test_answers_for_the_largest_rank(self):
        self.write(0)
        self.write(1)
        found = self.collect()
        self.assertEqual([rank["rank"] for rank in found["ranks"]], [0, 1])
        self.assertEqual(found["peak_live_bytes"], 90)
        self.assertEqual(found["peak_reserved_bytes"], 101)
        self.assertEqual(found["reserved_range"], [98, 101])
        self.assertEqual((found["planned_bytes"], found["max_memory_allocated"]), (90, 95))
        self.assertTrue(found["fits"] and found["dry_run"])
        self.assertIsNone(found["out_of_memory"])
        lines = text.lines(found, "train.py")
        self.assertEqual(lines[0], "train.py: 3 steps in 2.5 s, no GPU used (torch 2.11.0, NVIDIA H100 80GB HBM3 assumed)")
        self.assertEqual(lines[1].split("   ")[-1], "a.py:1 f 50 bytes · weights 40 bytes")
        self.assertEqual(lines[-3:], ["  rank  device  peak live   reserved  fits",
                                      "     0       0   90 bytes  100 bytes  yes",
                                      "     1       0   90 bytes  101 bytes  yes"])
        # A plan takes a search, so there is one for the largest rank alone.
        self.assertEqual([rank["planned_bytes"] for rank in found["ranks"]], [None, 90])

    def test_a_record_of_the_last_requests_alone_is_told(self):
        for most, peak in ((90, 90), (95, 95)):  # of PyTorch's own statistics
            self.write(device={"lost_events": 7, "max_memory_allocated": most})
            found = self.collect()
            self.assertEqual((found["ranks"][0]["lost_events"], found["peak_live_bytes"]), (7, peak))
            # Without the events of the peak there are no figures of the allocator's model and of a plan.
            self.assertEqual((found["expandable_bytes"] is None, found["planned_bytes"] is None), (most > 90, most > 90))
        self.assertIn("  record            the last part of the run: 7 requests and frees came before, of which no lines are known",
                      text.lines(found, "train.py"))

    def test_memory_that_is_older_than_the_record_was_asked_for_at_its_beginning(self):
        contents = {"lost_events": {0: 100}, "device_traces": [[
            {"action": "alloc", "addr": 1, "size": 10}, {"action": "segment_alloc", "addr": 9, "size": 99},
            {"action": "free_completed", "addr": 2, "size": 20}, {"action": "free_completed", "addr": 1, "size": 10}, {"action": "alloc", "addr": 2, "size": 5}]],
            "segments": [{"device": 0, "blocks": [{"address": address, "requested_size": size, "state": state} for address, size, state in
                                                  ((1, 0, "inactive"), (2, 5, "active_allocated"), (3, 30, "active_awaiting_free"))]},
                         {"device": 1, "blocks": [{"address": 4, "requested_size": 40, "state": "active_allocated"}]}]}
        self.snapshot.write_bytes(pickle.dumps(contents))
        record = events.read(self.snapshot, 0)
        self.assertEqual([(one["action"], one["addr"], one["size"]) for one in record.events],
                         [("alloc", 2, 20), ("alloc", 3, 30), ("alloc", 1, 10), ("free_completed", 2, 20), ("free_completed", 1, 10), ("alloc", 2, 5)])
        self.assertEqual((record.offset, record.begin), (98, 100))
        del contents["lost_events"]
        self.snapshot.write_bytes(pickle.dumps(contents))
        self.assertEqual((len(events.read(self.snapshot, 0).events), events.read(self.snapshot, 0).begin), (4, 0))

    def test_an_optimizer_without_a_step_is_told(self):
        self.write(waiting=["SGD", "Adam"])
        self.write(1, waiting=["Adam"])
        found = self.collect()
        self.assertEqual(found["waiting_optimizers"], ["Adam", "SGD"])
        self.assertIn("  not reached       the first step of Adam, SGD, which may take more memory: more --steps", text.lines(found, "train.py"))

    def test_a_plan_of_nothing_takes_no_memory(self):
        tool = unittest.mock.Mock(ask=lambda *arguments: {"policies": []})
        for peak, planned in ((0, 0), (90, None)):
            self.assertEqual(answer.planned_bytes({"snapshot": "s", "device": 0, "peak_live_bytes": peak, "lost_events": 0}, tool), planned)

    def test_memory_without_a_plan_has_no_figure_of_it(self):
        self.write()
        tool = StubTool()
        tool.ask = lambda *arguments, own=tool.ask: {"policies": []} if arguments[0] == "size" and "planned" in arguments else own(*arguments)
        found = self.collect(tool=tool)
        self.assertIsNone(found["planned_bytes"])
        self.assertEqual(text.lines(found, "x")[2], "  PyTorch reserves  98 bytes to 100 bytes   96 bytes with expandable_segments")

    def test_names_the_line_of_a_library_below(self):
        frames = [{"filename": "/x/site-packages/model.py", "line": 9, "name": "forward"}, {"filename": "a.py", "line": 1, "name": "f"}]
        self.snapshot.write_bytes(pickle.dumps({"device_traces": [[{"action": "alloc", "addr": 1, "size": 50, "frames": frames}]]}))
        self.write()
        found = self.collect()
        self.assertEqual([one["below"] for one in found["ranks"][0]["top"]], [[], [{"frame": "model.py:9 forward", "bytes": 50}]])
        self.assertIn("a.py:1 f 50 bytes (most in model.py:9 forward)", text.lines(found, "x")[1])

    def test_fits_with_both_orders_of_addresses(self):
        self.write()
        tool = StubTool()
        tool.most_reserved = 120

        def verdict(memory_bytes):
            found = self.collect(memory_bytes, tool)
            return found["fits"], text.lines(found, "x")[3].split("fits")[1].strip()

        self.assertEqual(verdict(125), (True, "yes, 5 bytes of 125 bytes to spare besides 519.5 MiB to 798.0 MiB of context"))
        self.assertEqual(verdict(110), (True, "yes, but only because PyTorch gives cached memory back, with nothing of 110 bytes to "
                                              "spare besides 519.5 MiB to 798.0 MiB of context"))
        tool.least_memory = 111
        self.assertEqual(verdict(110), (False, "no: this run fit in 110 bytes, but with rising addresses PyTorch may reserve 120 bytes and "
                                               "run out of memory"))

    def test_ranks_of_a_world_have_to_take_part(self):
        of_world = world.World(1024, (0, 3), 8)
        self.write(3, has_group=True)
        for status, end in ((-9, "was ended by SIGKILL"), (0, "ended with status 0")):
            self.finished = program.Finished(status, False, False)
            with self.assertRaisesRegex(DryRunError, f"rank 0 left no answer: it {end}"):
                self.collect(of_world=of_world)
        self.finished = program.Finished(0, True, False)  # before rank 0 began
        self.assertEqual(self.collect(of_world=of_world)["world"], {"size": 1024, "representative": False, "stages": None})
        self.finished = program.Finished(0, False, False)
        self.write(0, has_group=False)
        self.write(3, has_group=False)
        with self.assertRaisesRegex(DryRunError, "--world 1024, but the program made no process group"):
            self.collect(of_world=of_world)
        for path in pathlib.Path(self.folder.name).glob("process-*"):
            path.unlink()
        self.finished = program.Finished(0, True, False)
        with self.assertRaisesRegex(DryRunError, "ran out of time before it used PyTorch, or was too busy to answer"):
            self.collect(of_world=of_world)

    def test_a_rank_that_waits_for_another_is_named(self):
        self.write()
        pathlib.Path(self.folder.name, "waits-3").write_text("rank 3 waits in recv_object_list for a value of rank 2")
        self.collect()
        self.finished = program.Finished(0, True, False)
        with self.assertRaisesRegex(DryRunError, "ran out of time: rank 3 waits in recv_object_list for a value of rank 2"):
            self.collect()

    # The memory that a GPU keeps for itself is a range: a program does not fit where the least leaves too little.
    def test_fits_beside_the_context_and_nccl(self):
        self.write()
        context = outside.context(gpus.GPUS["h100"])
        pathlib.Path(self.folder.name, "communicators-0").write_bytes(
            outside.ENTRY.pack(8, 0, 0, 1, 1) + outside.ENTRY.pack(2, 0, 1, 0, 1) + outside.ENTRY.pack(8, 1, 0, 1, 1) + b"half")
        found = self.collect()["outside"]
        self.assertEqual((found["context_bytes"], found["communicators"]), (list(context[:2]), 2))
        self.assertEqual([one["ranks"] for one in found["nccl"]], [8, 2])
        self.assertEqual(found["nccl_bytes"], [sum(one["bytes"][end] for one in found["nccl"]) for end in (0, 1)])
        least, most = (context[end] + found["nccl_bytes"][end] for end in (0, 1))
        self.assertFalse(self.collect(least + 94, counts=True)["fits"])
        self.assertIn("of NCCL (2 communicators)", text.verdict(self.collect(least + 94, counts=True)))
        self.assertRegex(text.verdict(self.collect(least + 94, counts=True)), "^no: 100 bytes of .* leave no room for")
        self.assertTrue(self.collect(least + 100, counts=True)["fits"])
        self.assertRegex(text.verdict(self.collect(least + 100, counts=True)), "^perhaps: 100 bytes of")
        self.assertRegex(text.verdict(self.collect(most + 100, counts=True)), "^yes, 0 bytes to ")
        # Other code than PyTorch's allocator has no cache to give back.
        self.write(devices=[])
        self.hold(0, (0, 0), (100, 0))
        self.assertFalse(self.collect(least + 99, counts=True)["fits"])
        self.assertTrue(self.collect(least + 100, counts=True)["fits"])
        self.write()
        # Nothing is taken from memory that the program is given.
        self.assertTrue(self.collect(100)["fits"])

    # The process on the host takes 200 to 300 bytes, and 50 are pinned.
    def test_a_gpu_that_shares_the_memory_of_the_host_holds_the_process_too(self):
        self.write()
        self.hold(0, (50, 0), (0, 0))
        found = self.collect(gpu="gb10")
        self.assertEqual((found["integrated"], found["outside"]["host_bytes"]), (True, [200, 350]))
        self.assertFalse(self.collect(294, gpu="gb10")["fits"])
        self.assertRegex(text.verdict(self.collect(294, gpu="gb10")), "^no: 100 bytes of 294 bytes leave no room for .* of the process on the host$")
        self.assertTrue(self.collect(300, gpu="gb10")["fits"])
        self.assertRegex(text.verdict(self.collect(300, gpu="gb10")), "^perhaps: 100 bytes of 300 bytes leave 200 bytes for")
        self.assertRegex(text.verdict(self.collect(450, gpu="gb10")),
                         "^yes, 0 bytes to 150 bytes of 450 bytes to spare besides .* of context and 200 bytes to 350 bytes of the process on the host$")
        found = self.collect(100)
        self.assertEqual((found["integrated"], found["outside"]["host_bytes"], found["fits"]), (False, [0, 0], True))
        self.assertNotIn("of the process on the host", text.verdict(found))
        self.hold(0, (250, 0), (0, 0))
        self.assertEqual(self.collect(gpu="gb10")["outside"]["host_bytes"], [250, 550])

    # Process 1 is a worker of both, and has an answer of its own.
    def test_tells_the_memory_of_the_host(self):
        self.write(0)
        self.hold(0, (5 << 30, 0), (0, 0))
        self.write(1)
        found = self.collect()
        self.assertEqual(found["host"], {"peak_bytes": (5 << 30) + 600, "processes": 2, "workers_bytes": 80, "workers": 2})
        self.assertIn("  host              5.0 GiB of the host's memory at most by 2 processes, and 80 bytes of 2 workers", text.lines(found, "x"))
        self.hold(0, (0, 0))
        self.assertNotIn("of the host's memory", "\n".join(text.lines(self.collect(), "x")))

    def test_only_pinned_memory_of_a_program_without_pytorch_is_known(self):
        self.hold(7, (30, 0), (90, 0))
        self.assertFalse(self.collect(119, gpu="gb10")["fits"])
        self.assertTrue(self.collect(120, gpu="gb10")["fits"])
        self.assertTrue(self.collect(90)["fits"])

    def test_a_process_knows_its_memory_of_the_host(self):
        with subprocess.Popen([sys.executable, "-c", "data = b'x' * (9 << 20); print(len(data), flush=True); open(0).read()"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as worker:
            worker.stdout.readline()
            found = _tidepool_host.answer()
        self.assertTrue(9 << 20 <= found["workers"][str(worker.pid)] <= 40 << 20, found)
        self.assertLess(1 << 20, found["bytes"])
        self.assertLess(found["bytes"], found["peak_bytes"])

    def test_out_of_memory_does_not_fit(self):
        self.write(out_of_memory={"device": 0, "bytes": 1 << 30, "frame": "train.py:7"})
        found = self.collect()
        self.assertFalse(found["fits"])
        # The model of the allocator serves the refused request too.
        self.assertEqual(found["reserved_range"], [100, 100])
        self.assertIsNone(found["expandable_bytes"])
        self.assertIn("no: out of memory in 1000 bytes, 1.0 GiB asked for at train.py:7", text.lines(found, "x")[-1])
        self.assertEqual(problem_of(text.lines(found, "x")[-1]), ("no: out of memory in 1000 bytes, 1.0 GiB asked for", "train.py", "7"))

    def test_the_first_request_may_be_refused(self):
        self.write(allocations=0, out_of_memory={"device": 0, "bytes": 1 << 30, "frame": "train.py:7"})
        found = self.collect()
        self.assertFalse(found["fits"])
        self.assertEqual(found["peak_live_bytes"], 0)
        self.assertIn("no: out of memory in 1000 bytes, 1.0 GiB asked for at train.py:7", text.lines(found, "x")[-1])

    # The other device of a process may even have taken more.
    def test_a_refusal_is_that_of_its_device(self):
        refused = {"bytes": 1 << 30, "frame": "train.py:7"}
        self.write(out_of_memory={"device": 1, **refused})
        self.hold(0, (0, 0), (200, 0), (50, 0))
        found = self.collect()
        self.assertEqual([(rank["device"], rank["fits"], rank["out_of_memory"]) for rank in found["ranks"]], [(0, True, None), (1, False, refused)])
        self.assertEqual((found["fits"], found["out_of_memory"], found["peak_reserved_bytes"]), (False, refused, 50))
        # Its first request may be the one.
        self.hold(0, (0, 0), (200, 0), (0, 0))
        self.assertEqual([(rank["device"], rank["fits"]) for rank in self.collect()["ranks"]], [(0, True), (1, False)])
        # Other code than PyTorch's allocator asked.
        self.write(error="RuntimeError: CUDA out of memory", error_frame="train.py:7")
        self.hold(0, (0, 0), (200, 0), (50, 1 << 30))
        self.assertEqual([(rank["device"], rank["out_of_memory"]) for rank in self.collect()["ranks"]], [(0, None), (1, refused)])

    def test_a_rank_out_of_memory_is_the_answer(self):
        self.write(0, out_of_memory={"device": 0, "bytes": 1 << 30, "frame": "train.py:7"})
        self.write(1)
        found = self.collect()
        self.assertEqual(found["peak_reserved_bytes"], 100)
        self.assertEqual([rank["fits"] for rank in found["ranks"]], [False, True])
        self.assertIn("no, 1.0 GiB asked for at train.py:7", text.lines(found, "x")[-2])
        self.assertEqual(problem_of(text.lines(found, "x")[-2]), ("no, 1.0 GiB asked for", "train.py", "7"))

    def test_a_rank_that_fails_is_named_before_its_launcher(self):
        self.write(0, error="ChildFailedError", devices=[], began=90, seconds=20)
        self.write(1, error="ValueError: no data", began=95, seconds=10)
        with self.assertRaisesRegex(DryRunError, "the program failed: ValueError: no data"):
            self.collect()
        # Where the run was ended, launchers fail because of it.
        self.write(1)
        self.finished.ran_out_of_time = True
        self.assertEqual([rank["rank"] for rank in self.collect()["ranks"]], [1])

    def test_tells_how_the_rank_of_a_launcher_ended(self):
        self.finished = program.Finished(1, False, False)
        self.write(1, steps=0)
        for status, end in ((-9, "was ended by SIGKILL"), (3, "ended with status 3, its own output may tell why")):
            self.write(error="ChildFailedError at api.py:1: \n===", devices=[], failed_rank={"rank": 1, "status": status})
            with self.assertRaisesRegex(DryRunError, f"^the program failed: rank 1 {end}$"):
                self.collect()

    # Each rank says it, and the launcher fails because of them.
    def test_a_refusal_of_the_program_is_told_once(self):
        self.write(error="ChildFailedError", devices=[])
        for rank in (1, 2):
            pathlib.Path(self.folder.name, f"refusal-{rank}").write_text("no such allocator")
        with self.assertRaisesRegex(DryRunError, "^no such allocator$"):
            self.collect()

    def test_programs_without_an_answer_are_refused(self):
        with self.assertRaisesRegex(DryRunError, "the program never imported torch"):
            self.collect()
        self.finished.status = 3
        with self.assertRaisesRegex(DryRunError, "ended with status 3 and left no answer"):
            self.collect()
        self.finished.status = -11
        with self.assertRaisesRegex(DryRunError, "was ended by SIGSEGV and left no answer"):
            self.collect()
        self.finished.ran_out_of_time = True
        with self.assertRaisesRegex(DryRunError, "ran out of time before it used PyTorch"):
            self.collect()
        self.finished.was_interrupted = True
        with self.assertRaisesRegex(DryRunError, "was interrupted before it used PyTorch"):
            self.collect()
        snapshot = pathlib.Path(self.folder.name) / "process-7.pickle"
        snapshot.touch()
        with self.assertRaisesRegex(DryRunError, "ran out of time, and its memory was not written in time, expected a longer --time-limit"):
            self.collect()
        self.finished.ran_out_of_time = False
        with self.assertRaisesRegex(DryRunError, f"{self.folder.name}: .* was not written whole .* .TMPDIR names another folder"):
            self.collect()
        snapshot.unlink()
        self.write(allocations=0)
        for was_interrupted, ran_out_of_time, error in ((True, False, "was interrupted before it used a GPU"),
                                                        (False, True, "ran out of time before it used a GPU, expected a longer --time-limit"),
                                                        (False, False, "never asked for a GPU")):
            self.finished.was_interrupted, self.finished.ran_out_of_time = was_interrupted, ran_out_of_time
            with self.assertRaisesRegex(DryRunError, f"the program {error}"):
                self.collect()
        self.write(error="ValueError at a.py:3: no data")
        with self.assertRaisesRegex(DryRunError, "the program failed: ValueError at a.py:3: no data$"):
            self.collect()
        self.write(error="ValueError at a.py:3: no data", assumed=[{"operation": "nonzero", "frame": "a.py:2", "calls": 1}])
        with self.assertRaisesRegex(DryRunError, "sizes were assumed for nonzero at a.py:2"):
            self.collect()

    def test_addresses_decide_nothing_with_expandable_segments(self):
        self.write(device={"is_expandable": True})
        found = self.collect()
        self.assertEqual((found["reserved_range"], found["expandable_bytes"]), ([100, 100], 96))

    # Private pools, and settings that changed: the model has neither.
    def test_the_run_alone_answers_where_there_is_no_model(self):
        self.write(device={"is_modelled": False})
        found = self.collect()
        self.assertEqual((found["reserved_range"], found["expandable_bytes"]), ([100, 100], None))
        self.assertIn("PyTorch reserves  100 bytes   90 bytes planned", text.lines(found, "x")[2])

    def test_a_caught_refusal_is_no_verdict(self):
        refused = [{"device": 0, "bytes": 700, "frame": "a.py:3"}, {"device": 0, "bytes": 900, "frame": "a.py:4"}]
        self.write(caught_out_of_memory=refused)
        found = self.collect()
        self.assertTrue(found["fits"])
        self.assertIsNone(found["out_of_memory"])
        self.assertEqual(found["caught_out_of_memory"], [{"bytes": 700, "frame": "a.py:3"}, {"bytes": 900, "frame": "a.py:4"}])
        self.assertEqual((found["reserved_range"], found["expandable_bytes"]), ([100, 100], None))
        self.assertIn("2 requests for which the program went on without the memory, the largest 900 bytes at a.py:4",
                      text.lines(found, "x")[-1])

    def test_a_program_that_gives_up_at_a_refusal_does_not_fit(self):
        refused = [{"device": 0, "bytes": 700, "frame": "a.py:3"}]
        self.write(caught_out_of_memory=refused)
        self.finished.status = 1
        found = self.collect()
        self.assertEqual((found["fits"], found["out_of_memory"]), (False, {"bytes": 700, "frame": "a.py:3"}))
        self.assertEqual(found["caught_out_of_memory"], [])
        # The dry run itself has ended the others.
        self.write(caught_out_of_memory=refused)
        self.finished.ran_out_of_time = True
        self.assertTrue(self.collect()["fits"])

    def test_a_program_that_ends_with_an_error_status_has_failed(self):
        self.write(reason="end")
        self.finished.status = 3
        with self.assertRaisesRegex(DryRunError, r"ended with status 3 after 3 steps, its own output may tell why \(--steps 3 ends it there"):
            self.collect()
        self.write(reason="end", steps=0)
        pathlib.Path(self.folder.name, "exit-0").write_text("no data")
        with self.assertRaisesRegex(DryRunError, "^the program ended with status 3 before a step of an optimizer: no data$"):
            self.collect()
        self.write(reason="end", steps=0, devices=[])
        with self.assertRaisesRegex(DryRunError, "^the program ended with status 3 before it used a GPU: no data$"):
            self.collect()
        # The dry run ends processes after their steps, and the program may miss the files that they would write.
        self.write(1, reason="end", steps=0)
        self.write(0)
        self.assertTrue(self.collect()["fits"])
        self.write(0, has_group=True)
        for steps, when in ((0, "before a step of an optimizer: no data"), (1, "after 1 step: no data")):
            self.write(1, reason="end", steps=steps, has_group=True)
            with self.assertRaisesRegex(DryRunError, f"^rank 1 ended with status 3 {when}"):
                self.collect(of_world=world.World(8, (0, 1), 8))

    def test_a_program_that_was_stopped_fits_so_far(self):
        self.write(steps=0, stopped_at={"frame": "a.py:3", "innermost": "threading.py:5"})
        self.assertFalse(self.collect()["so_far"])
        self.finished.ran_out_of_time = True
        found = self.collect()
        self.assertTrue(found["so_far"] and found["fits"])
        lines = text.lines(found, "x")
        self.assertRegex(lines[1], r"^  stopped in +a\.py:3 \(in threading\.py:5\)$")
        self.assertTrue(lines[0].startswith("x: stopped at the time limit after 0 steps in "), lines[0])
        self.assertRegex(lines[-1], "^  fits +so far, 900 bytes of 1000 bytes to spare")
        self.write(1, steps=1)
        self.finished = program.Finished(0, False, True)
        lines = text.lines(self.collect(), "x")
        self.assertTrue(lines[0].startswith("x: interrupted after 1 step in "), lines[0])
        self.assertTrue(lines[-1].endswith("  so far"), lines[-1])

    def test_the_limit_of_the_program_counts(self):
        self.write(device={"limit_bytes": 110})
        found = self.collect()
        self.assertEqual((found["memory_bytes"], found["ranks"][0]["memory_bytes"]), (1000, 110))
        self.assertIn("yes, 10 bytes of 110 bytes (the program's own limit, of 1000 bytes) to spare", text.lines(found, "x")[3])
        # The limit leaves room for the largest context too.
        for limit, spare in ((100, "0 bytes"), (200, "100 bytes")):
            self.write(device={"limit_bytes": limit})
            self.assertIn(f"yes, {spare} of {limit} bytes (the program's own limit, of 1.0 GiB) to spare", text.verdict(self.collect(1 << 30, counts=True)))
        self.write(device={"limit_bytes": 99})
        tool = StubTool()
        tool.most_reserved, tool.least_memory = 120, 100
        self.assertFalse(self.collect(tool=tool)["fits"])

    def test_processes_of_one_device_are_added_up(self):
        self.write(0)
        self.write(1, visible_devices="0", began=102)
        found = self.collect(201)
        self.assertEqual(found["shared"], [{"device": 0, "processes": 2, "peak_live_bytes": 180, "peak_reserved_bytes": 201, "outside_bytes": [0, 0], "fits": True}])
        self.assertEqual((found["fits"], text.verdict(found)),
                         (True, "yes, 2 processes share device 0: 0 bytes of 201 bytes to spare, where their peaks meet"))
        self.assertEqual(text.verdict(self.collect(180)), "perhaps: 2 processes share device 0, and take 180 bytes to 201 bytes of 180 bytes, where their peaks meet")
        found = self.collect(179)
        self.assertEqual((found["fits"], [rank["fits"] for rank in found["ranks"]]), (False, [True, True]))
        self.assertRegex(text.verdict(found), "^no: 2 processes share device 0, and take 180 bytes to 201 bytes of 179 bytes")
        self.assertEqual([line.split()[-1] for line in text.lines(found, "x")[-2:]], ["alone", "alone"])
        least, most, _ = outside.context(gpus.GPUS["h100"])
        self.assertFalse(self.collect(2 * least + 179, counts=True)["fits"])
        self.assertRegex(text.verdict(self.collect(2 * least + 201, counts=True)), "^perhaps: .* besides 1.0 GiB to 1.6 GiB of contexts and NCCL, where")
        self.assertRegex(text.verdict(self.collect(2 * most + 201, counts=True)), "^yes, 2 processes share device 0: 0 bytes to 557.1 MiB of ")
        # Ranks of a world have a device each.
        of_world = unittest.mock.Mock(ranks=(0, 1), answer=lambda folder: None)
        for rank in (0, 1):
            self.write(rank, has_group=True)
        self.assertEqual(self.collect(179, of_world=of_world)["shared"], [])

    def test_processes_share_a_device_if_they_live_at_a_time(self):
        self.write(0)
        for changes in ({"began": 102.5}, {"visible_devices": "1"}, {"visible_devices": "1,0"}, {"devices": []}):
            self.write(1, **changes)
            found = self.collect(150)
            self.assertEqual((found["shared"], found["fits"]), ([], True), changes)
        self.write(1, visible_devices="1", device={"device": 1})
        self.assertEqual([sharing.number_of(*one) for one in ((1, None), (1, "3,2"), (2, "3,2"), (0, "GPU-7"), (0, ""))], [1, 2, 2, 0, 0])

    def test_alike_rows_have_the_number_of_their_process(self):
        self.write(0)
        path = pathlib.Path(self.folder.name, "process-0.json")
        path.with_name("process-9.json").write_text(path.read_text())
        self.assertEqual([line.split()[:3] for line in text.lines(self.collect(), "x")[-3:]], [["rank", "process", "device"], ["0", "0", "0"], ["0", "1", "0"]])

    def test_memory_that_other_code_takes_counts(self):
        self.write(0)
        self.hold(0, (0, 0), (100, 0))
        self.write(1, visible_devices="1,2")
        self.hold(1, (0, 0), (151, 0), (7, 0))
        found = self.collect()
        self.assertEqual([(rank["device"], rank["peak_reserved_bytes"], rank["other_bytes"]) for rank in found["ranks"]],
                         [(0, 100, 0), (0, 101, 50), (1, 7, 0)])
        self.assertEqual((found["peak_reserved_bytes"], found["other_bytes"]), (101, 50))
        lines = text.lines(found, "x")
        self.assertEqual(lines[3], "  other code        50 bytes taken from the CUDA runtime beside PyTorch's allocator")
        self.assertIn("yes, 849 bytes of 1000 bytes to spare", lines[4])
        self.assertTrue(self.collect(151)["fits"])
        # PyTorch gets through with 95.
        self.assertTrue(self.collect(145)["fits"])
        self.assertFalse(self.collect(144)["fits"])

    # PYTORCH_NO_CUDA_MEMORY_CACHING=1, and allocators that programs bring.
    def test_memory_of_other_allocators_is_that_of_the_runtime(self):
        self.write(allocations=0)
        self.hold(0, (0, 0), (90, 300))
        found = self.collect()
        self.assertEqual((found["peak_live_bytes"], found["peak_reserved_bytes"], found["steps"], found["fits"]), (90, 90, 3, True))
        self.assertEqual(text.lines(found, "x")[1], "  peak              90 bytes taken from the CUDA runtime, none of it by PyTorch's "
                                                    "caching allocator")
        self.write(allocations=0, error="AcceleratorError at a.py:3: CUDA error: out of memory", error_frame="a.py:3")
        found = self.collect()
        self.assertEqual((found["fits"], found["out_of_memory"]), (False, {"bytes": 300, "frame": "a.py:3"}))
        self.write(allocations=0, error="ValueError at a.py:3: no data", error_frame="a.py:3")
        with self.assertRaisesRegex(DryRunError, "no data"):
            self.collect()

    def test_pinned_memory_alone_is_use_of_a_gpu(self):
        self.write(devices=[], snapshot=None, pinned={"peak_bytes": 3 << 20})
        self.hold(0, (4 << 20, 0))
        self.write(1)
        self.hold(1, (1 << 20, 0), (101, 0))
        found = self.collect()
        self.assertEqual(found["pinned"], {"peak_bytes": 4 << 20, "rounded_bytes": 5 << 20})
        self.assertEqual([rank["peak_live_bytes"] for rank in found["ranks"]], [0, 90])
        self.assertIn("pinned            5.0 MiB of the host's memory for 4.0 MiB, in powers of two", "\n".join(text.lines(found, "x")))
        pathlib.Path(self.folder.name, "process-1.json").unlink()
        self.assertTrue(self.collect()["fits"])

    def test_names_hold_nothing_that_a_terminal_obeys(self):
        self.assertEqual(text.printable(os.fsdecode(b"a \xff\x1b[31m\n\xc2\xb7")), "a \\xff\\x1b[31m\\n\u00b7")
        self.assertEqual(text.printable_lines("a\n\x1b[31mb"), "a\n\\x1b[31mb")
        self.assertEqual(text.program_name("folder/" + 300 * "x"), 100 * "x")

    def test_two_sizes_with_one_text_are_printed_once(self):
        self.assertEqual(text.size_range(5 << 30, (5 << 30) + 1), "5.0 GiB")
        self.assertEqual(text.size_range(5 << 30, 6 << 30), "5.0 GiB to 6.0 GiB")

    def test_tells_which_sizes_are_assumed(self):
        places = [{"operation": "nonzero", "frame": "a.py:2", "calls": 1}, {"operation": "unique", "frame": "a.py:4", "calls": 2}]
        self.write(assumed=places)
        found = self.collect()
        self.assertEqual(found["assumed"], places)
        self.assertIn("(see --density)", text.assumptions(places))
        nested = {"operation": "nested tensor of a mask", "frame": "a.py:2", "calls": 1}
        self.assertNotIn("--density", text.assumptions([nested]))
        self.assertIn("nested tensor of a mask at a.py:2 and 2 more (see --density)", text.assumptions([*places, nested]))
        exchange = {"operation": "all_to_all_single with splits of zero", "frame": "a.py:2", "calls": 1}
        self.assertEqual(text.assumptions([exchange]), "sizes that depend on data: all_to_all_single with splits of zero at a.py:2")
        self.assertIn("nonzero at a.py:2 and 1 more", text.lines(found, "x")[-1])


class WhereTest(unittest.TestCase):
    FILES = {"own": "/home/a.py", "model": "/x/site-packages/models/m.py", "torch": "/x/site-packages/torch/nn/linear.py",
             "python": "/x/lib/python3.12/runpy.py", "dry run": "/x/site-packages/site/_tidepool_assumed.py"}

    def frames(self, *names):
        return [{"filename": self.FILES[name], "line": 1, "name": "f"} for name in names]

    def test_finds_the_innermost_line_of_a_package(self):
        self.assertEqual(where.lines_below(self.frames("torch", "model", "torch", "own", "own", "python")), ("a.py:1 f", "m.py:1 f"))
        self.assertEqual(where.lines_below(self.frames("dry run", "model", "own")), ("a.py:1 f", "m.py:1 f"))
        for names in (("dry run", "own"), (), ("torch", "own"), ("model", "python"), ("own", "model")):
            self.assertIsNone(where.lines_below(self.frames(*names)), names)

    def test_code_that_was_made_of_text_is_below_the_program(self):
        generated = f"/tmp/inductor/gw/cgw{'a' * 49}.py"
        self.assertEqual(lines.innermost([generated, "/p/torch/_functorch/aot.py", "/p/site-packages/torch/x.py", "/home/u/model.py"]), 3)
        self.assertEqual(lines.innermost(["<string>", "/home/u/torch/train.py", "<stdin>"]), 1)
        self.assertEqual(lines.innermost(["<frozen runpy>", "/p/lib/python3.11/a.py", "/p/site-packages/a.py", "<stdin>"]), 3)
        self.assertEqual(lines.innermost([f"/home/u/ab/cgw{'a' * 49}.py"]), 0)  # not in the folder of its name
        self.assertIsNone(lines.innermost([generated, "/x/site/_tidepool_steps.py"]))
        frames = [{"filename": name, "line": 1, "name": "f"} for name in (generated, "/p/site-packages/m.py", "<stdin>")]
        self.assertEqual(where.lines_below(frames), ("<stdin>:1 f", "m.py:1 f"))
        self.assertEqual(where.line_of(frames), "<stdin>:1 f")
        self.assertEqual(where.line_of(frames[:1]), f"{pathlib.Path(generated).name}:1 f")

    def test_only_memory_of_the_peak_counts(self):
        events = [{"action": action, "addr": address, "size": size} for action, address, size in
                  (("alloc", 1, 5), ("alloc", 2, 9), ("segment_alloc", 2, 99), ("free_completed", 2, 9), ("alloc", 3, 10), ("alloc", 2, 1),
                   ("free_completed", 3, 10), ("alloc", 4, 2))]
        self.assertEqual([(one["addr"], one["size"]) for one in where.live_at_peak(events)], [(1, 5), (3, 10), (2, 1)])


class RecordingTest(unittest.TestCase):
    def events(self, words):
        return [dict(zip(("action", "size"), (word.split("=")[0], int(word.split("=")[1])))) for word in words.split()]

    def test_the_events_have_the_peak_of_reserved_memory(self):
        self.assertEqual(recording.peak_reserved([]), 0)
        events = self.events("segment_alloc=4 alloc=3 segment_map=2 segment_free=4 segment_unmap=1 segment_alloc=4 oom=9")
        self.assertEqual(recording.peak_reserved(events), 6)

    # tidepool's own allocator notes requests alone.
    def test_a_record_without_segments_begins_with_them(self):
        events, segments = self.events("alloc=3 free_completed=3"), [{"address": 1, "total_size": 8, "stream": 0}]
        found = recording.with_reservations(events, segments)
        self.assertEqual([(event["action"], event["size"]) for event in found], [("segment_alloc", 8), ("alloc", 3), ("free_completed", 3)])
        self.assertEqual(recording.with_reservations(found, segments), found)
        self.assertEqual(recording.with_reservations([], segments), [])

    def test_only_the_refusal_that_ended_the_program_is_kept(self):
        events = self.events("oom=9 alloc=1 oom=8 free_completed=1")
        self.assertEqual(recording.without_refusals(events, None), self.events("alloc=1 free_completed=1"))
        self.assertEqual(recording.without_refusals(events, {"bytes": 8}), self.events("alloc=1 oom=8 free_completed=1"))


class ConvolutionsTest(unittest.TestCase):
    def test_counts_workspaces_in_another_size(self):
        events = [{"action": action, "size": size} for action, size in
                  (("alloc", 1000), ("alloc", 1023), ("free_requested", 1023), ("free_completed", 1023), ("alloc", 512))]
        self.assertEqual(convolutions.peak_live(events, {1023: 1023}), (1024 + 1024, 1))
        self.assertEqual(convolutions.peak_live(events, {1023: 0}), (1024 + 512, 1))
        self.assertEqual(convolutions.peak_live(events, {}), (1024 + 1024, 0))

    def test_the_answer_has_the_peak_with_other_workspaces(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "snapshot.pickle"
            sizes = (3 << 20, (1 << 20) - 1)
            path.write_bytes(pickle.dumps({"device_traces": [[{"action": "alloc", "size": size} for size in sizes]]}))
            workspaces = [[511, 511], [(1 << 20) - 1, (5 << 20) - 1]]
            found = convolutions.answer(path, 0, workspaces)
            self.assertEqual(found["calls"], 1)
            self.assertEqual(found["peak_live_bytes"], 4 << 20)
            self.assertEqual(found["large_peak_live_bytes"], 8 << 20)
            self.assertEqual(found["no_workspace_peak_live_bytes"], 3 << 20)
            self.assertEqual(text.sensitivity(found), "cuDNN is assumed to take up to 1.0 MiB each: 25.0 % less without, "
                                                      "100.0 % more with up to 5.0 MiB")
            self.assertIsNone(convolutions.answer(path, 0, [[511, 511]]))
            self.assertIsNone(convolutions.answer(path, 0, []))


if __name__ == "__main__":
    unittest.main()
