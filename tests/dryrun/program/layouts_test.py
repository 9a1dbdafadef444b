#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layouts of a job over GPUs: the values of --fit, the ranks that they make, and the search over runs of a fake program.

layouts_test.py SOURCE
"""
import concurrent.futures
import json
import pathlib
import sys
import unittest
import unittest.mock
from xml.etree import ElementTree

SOURCE = pathlib.Path(sys.argv.pop(1))
sys.path[:0] = [str(SOURCE / "dryrun" / "program")]

from tidepool_dryrun import fit, gpus, layouts, layouts_picture, main, program, world  # noqa: E402
from tidepool_dryrun.errors import DryRunError  # noqa: E402


def options_of(*values, command=("python", "train.py", "--tensor={tensor}", "{batch}"), **named):
    return main.Options(command=list(command), stand_in="", fit=values, **named)


def made(options):
    return layouts.make(options, *fit.split(options.fit))


class ValuesTest(unittest.TestCase):
    def refused(self, expected, *values):
        with self.assertRaisesRegex(DryRunError, expected):
            fit.split(values)

    def test_choices_and_one_range(self):
        self.assertEqual(fit.split(()), ("", {}))
        self.assertEqual(fit.split(["tensor=1,2,4", "batch=1..9", "kind=a,b-c"]),
                         ("batch=1..9", {"tensor": ("1", "2", "4"), "kind": ("a", "b-c")}))
        self.refused("expected one range", "a=1..2", "b=1..2")
        self.refused("a twice", "a=1..2", "a=1,2")
        self.refused("a twice", "a=1,2", "a=1,2")
        for text in ("a=1,", "a=,1", "a=1,,2", "=1,2", "a=1", "1=1,2"):
            self.refused("NAME=VALUE,VALUE", text)

    def test_files_and_tables_are_those_of_one_run(self):
        for name in ("by", "snapshot", "report", "graph", "prices"):
            for values in ("a=1,2", "a=1..2"):
                with self.assertRaisesRegex(ValueError, f"--{name} with --fit"):
                    main.check_fit(options_of(values, **{name: "x"}))

    def test_the_ranks_of_a_layout(self):
        values = {"tensor": "2", "data": "3", "kind": "x"}
        for size, expected in ((None, None), (8, 8), ("8", 8), ("tensor*data", 6), ("2*tensor", 4), ("tensor", 2)):
            self.assertEqual(world.size_with(size, values), expected)
        for size in ("", "0", "-1", "x", "tensor*", "tensor**data", "kind*tensor", "2000000", "1000000*1000000", "9" * 5000):
            with self.assertRaisesRegex(ValueError, "--world .*expected"):
                world.size_with(size, values)


class MakeTest(unittest.TestCase):
    def test_each_combination_by_its_gpus(self):
        found = made(options_of("tensor=1,2,4", "data=1,2", "batch=1..9", world="tensor*data"))
        self.assertEqual([(one.values["tensor"], one.values["data"], one.gpus) for one in found],
                         [("1", "1", 1), ("1", "2", 2), ("2", "1", 2), ("2", "2", 4), ("4", "1", 4), ("4", "2", 8)])
        self.assertEqual((found[5].options.command, found[5].options.world, found[5].options.fit),
                         (["python", "train.py", "--tensor=4", "{batch}"], 8, ["batch=1..9"]))

    def test_torchrun_says_the_ranks(self):
        command = ["torchrun", "--nnodes", "2", "--nproc-per-node", "{tensor}", "train.py"]
        found = made(options_of("tensor=4,2", command=[sys.executable, "-m", "torch.distributed.run", *command[1:]], ranks="0"))
        self.assertEqual([(one.values["tensor"], one.gpus) for one in found], [("2", 4), ("4", 8)])

    def test_one_gpu_without_a_world(self):
        self.assertEqual([one.gpus for one in made(options_of("tensor=1,2"))], [1, 1])
        self.assertEqual([one.gpus for one in made(options_of("tensor=1,2", devices=3))], [3, 3])

    def test_ranks_that_nodes_do_not_hold_have_a_reason(self):
        found = made(options_of("tensor=8,12", world="tensor"))
        self.assertIsNone(found[0].refused)
        self.assertIn("12 ranks on nodes of 8 GPUs", found[1].refused)

    def test_refuses_names_that_nothing_has(self):
        with self.assertRaisesRegex(DryRunError, "the command has no {x}"):
            made(options_of("x=1,2"))
        with self.assertRaisesRegex(DryRunError, "more than 1000 layouts"):
            made(options_of(*(f"{name}=1,2" for name in "abcdefghijk"), world="*".join("abcdefghijk")))
        with self.assertRaisesRegex(ValueError, "--world tensor\\*data"):
            made(options_of("tensor=1,2", world="tensor*data"))

    def test_the_process_of_a_layout_has_its_options(self):
        one = made(options_of("tensor=1,2", world="tensor", snapshot="", tool="/a b/\udcff"))[1]
        python, package, text, *command = layouts.words_of(one.options)
        self.assertTrue((pathlib.Path(package) / "__main__.py").is_file())
        self.assertEqual(command, ["python", "train.py", "--tensor=2", "{batch}"])
        with unittest.mock.patch.object(main, "DryRun") as dry_run, unittest.mock.patch.object(main, "run_once") as run_once:
            main.main(text, command)
        own, = dry_run.call_args.args
        run_once.assert_called_once()
        self.assertEqual((own.world, own.tool, own.json, tuple(own.fit)), (2, "/a b/\udcff", True, ()))


class SearchTest(unittest.TestCase):
    # A program that needs 64 bytes on one GPU, and divides them.
    def search(self, memory, *values, **named):
        found, told = made(options_of(*values, **named)), []

        def run(words):
            ranks = int(next(word for word in words if word.startswith("--tensor=")).partition("=")[2])
            if ranks == 3:
                return 1, "", "Traceback\ntidepool: 64 heads\ntidepool: 3 does not divide 64\n"
            need = 64 // ranks
            runs = [{"value": value, "fits": need * value <= memory, "peak_reserved_bytes": need * value} for value in (1, 3, 2)]
            largest = max((one["value"] for one in runs if one["fits"]), default=None)
            return (2 if largest is None else 0), json.dumps({"largest": largest, "runs": runs}), ""

        with concurrent.futures.ThreadPoolExecutor(2) as executor, unittest.mock.patch.object(layouts, "run", run):
            return layouts.search(found, executor, lambda layout: told.append(layout.values)), told

    def test_ends_at_the_fewest_gpus_on_which_one_fits(self):
        tried, told = self.search(16, "tensor=1,2,4,8", "batch=1..3", world="tensor")
        self.assertEqual([(one.gpus, one.fits) for one in tried], [(1, False), (2, False), (4, True)])
        self.assertEqual(len(told), 3)
        machine = program.Machine(gpus.GPUS["h100"], 16, 4)
        found = layouts.answer(tried, machine)
        self.assertEqual(found["fewest_gpus"], 4)
        self.assertEqual(found["layouts"][1], {"values": {"tensor": "2"}, "gpus": 2, "fits": False, "largest": None,
                                               "peak_reserved_bytes": 32, "refused": None})
        self.assertEqual(found["layouts"][2]["largest"], 1)
        self.assertEqual(layouts.lines(tried, machine, "batch"),
                         ["tensor  GPUs", "     1     1  does not fit, 64 bytes reserved", "     2     2  does not fit, 32 bytes reserved",
                          "     4     4  fits, 16 bytes reserved, batch 1",
                          "4 GPUs of 16 bytes (NVIDIA H100 80GB HBM3 assumed): the fewest on which it fits"])

    def test_the_picture_has_a_bar_for_each_layout(self):
        tried, _ = self.search(16, "tensor=1,2,3,4", "batch=1..3", world="tensor")
        drawn = ElementTree.fromstring(layouts_picture.svg(tried, program.Machine(gpus.GPUS["h100"], 16, 4), "batch", "a<b.py"))
        bars = [one.attrib for one in drawn.iterfind(".//{*}rect") if one.attrib["class"] != "page"]
        self.assertEqual([(one["class"], float(one["width"])) for one in bars], [("not", 300), ("not", 150), ("not", 0), ("fits", 75)])
        line = drawn.find(".//{*}line").attrib
        self.assertEqual(float(line["x1"]), float(bars[0]["x"]) + 75)  # 16 of 64 bytes
        words = [one.text for one in drawn.iterfind(".//{*}text")]
        self.assertEqual(words[0], "a<b.py: memory that PyTorch reserves on a GPU")
        self.assertIn("tensor 4: 4 GPUs", words)
        self.assertIn("fits, 16 bytes reserved, batch 1", words)
        self.assertIn("no answer: 3 does not divide 64", words)

    def test_a_picture_is_that_of_layouts_or_of_one_run(self):
        main.check_fit(options_of("tensor=1,2", front="x.svg"))
        one = made(options_of("tensor=1,2", world="tensor", command=("python", "{tensor}"), front="x.svg"))[0].options
        self.assertEqual((one.front, one.records_steps), ("", False))
        with self.assertRaisesRegex(ValueError, "--front with --fit"):
            main.check_fit(options_of("batch=1..2", front="x.svg"))

    def test_every_layout_of_the_fewest_gpus_is_tried(self):
        tried, _ = self.search(48, "tensor=1,2,4", "data=1,2,4", "batch=1..3", world="tensor*data")
        self.assertEqual([(one.values["tensor"], one.gpus, one.fits, one.answer()["largest"]) for one in tried],
                         [("1", 1, False, None), ("1", 2, False, None), ("2", 2, True, 1)])

    def test_none_fits(self):
        tried, _ = self.search(1, "tensor=1,2", "batch=1..3", world="tensor")
        machine = program.Machine(gpus.GPUS["h100"], 1, 1)
        self.assertIsNone(layouts.answer(tried, machine)["fewest_gpus"])
        self.assertIn("no layout fits", layouts.lines(tried, machine, "batch")[-1])

    def test_a_layout_that_the_program_refuses_has_its_reason(self):
        tried, _ = self.search(16, "tensor=1,3,4", "batch=1..3", world="tensor")
        self.assertEqual([one.refused for one in tried], [None, "3 does not divide 64", None])
        with self.assertRaisesRegex(DryRunError, "no layout has an answer. tensor 3, data 1: 3 does not divide 64"):
            self.search(16, "tensor=3,3", "data=1,1", "batch=1..3", world="tensor*data")


    def test_a_run_that_was_stopped_does_not_fit(self):
        found = {"fits": True, "ran_out_of_time": True, "peak_reserved_bytes": 1}
        for layout, fits, refused in ((made(options_of("tensor=1,2", world="tensor"))[0], True, "out of time, expected a longer --time-limit"),
                                      (made(options_of("tensor=1,2", world="tensor"))[0], False, None)):
            layouts.note(layout, (0 if fits else 2, json.dumps({**found, "fits": fits}), ""))
            self.assertEqual((layout.fits, layout.refused), (False, refused))


class ProcessTest(unittest.TestCase):
    def test_the_output_and_the_status_of_a_process(self):
        words = [sys.executable, "-c", "import sys; print('out'); print('error', file=sys.stderr); sys.exit(5)"]
        self.assertEqual(layouts.run(words), (5, "out\n", "error\n"))
        self.assertFalse(layouts.running)

    def test_an_interrupt_ends_the_processes(self):
        forever = [sys.executable, "-c", "import signal; signal.pause()"]
        found = made(options_of("tensor=1,2", world="tensor"))

        def interrupt(*_):
            while not layouts.running:
                pass
            raise KeyboardInterrupt

        with unittest.mock.patch.object(layouts, "words_of", lambda options: forever), \
                unittest.mock.patch.object(concurrent.futures, "as_completed", interrupt), self.assertRaises(KeyboardInterrupt):
            layouts.search_here(found, 1, lambda layout: None)
        self.assertFalse(layouts.running)


if __name__ == "__main__":
    unittest.main()
