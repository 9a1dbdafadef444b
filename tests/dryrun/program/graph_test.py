#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Task graphs from notes of operators and a record of memory, without PyTorch.

graph_test.py SOURCE
"""
import gzip
import json
import pathlib
import pickle
import re
import sys
import tempfile
import types
import unittest
import unittest.mock

SOURCE = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(SOURCE / "dryrun" / "program"))

from tidepool_dryrun import batches, budgets, events, front, gpus, graph, main, program, remedies, roofline, text, what_if, world  # noqa: E402
from tidepool_dryrun.errors import DryRunError  # noqa: E402

import _tidepool_joined  # noqa: E402
import _tidepool_steps  # noqa: E402

BLOCK = 1 << 20
NO_FLAGS = {"may_rerun": True, "statistics": False, "from_host": False, "is_cached": False}


class Program:
    """Operators that ask for memory, as the parts of a dry run note them. Each operator takes a millisecond."""

    def __init__(self):
        self.events, self.operators, self.sizes, self.now = [], [], {}, 0
        self.step = {"number": 3, "device": 0, "joined": 0, "weights": {}, "buffers": {}, "gradients": {}, "states": {}, "models": ["Net"],
                     "optimizers": ["SGD"], "differs_from_before": None}

    def take(self, address, blocks=1):
        self.events.append({"action": "alloc", "addr": address, "size": blocks * BLOCK})
        self.sizes[address] = blocks * BLOCK

    def free(self, *addresses):
        for address in addresses:
            self.events.append({"action": "free_completed", "addr": address, "size": self.sizes.pop(address)})

    def begin(self):
        self.step.update(begin=len(self.events), clock=(0, 0), span=(0, 0))

    def run(self, name, phase="forward", uses=(), makes=(), changes=(), scratch=0, seconds=1e-3, layer="layer", **flags):
        begin = len(self.events), self.now
        for address in makes:
            self.take(address)
        if scratch:
            self.take(999, scratch)
            self.free(999)
        self.now += int(seconds * 1e9)
        self.operators.append((name, phase, layer, "train.py:1", begin, (len(self.events), self.now), (*uses, *changes), tuple(changes),
                               {**NO_FLAGS, **flags}))

    def graph(self):
        self.step.update(end=len(self.events), clock=(0, self.now), span=(0, self.now), operators=self.operators, requested_bytes=sum(self.sizes.values()))
        return graph.Graph(self.step, events.Record(self.events))

    def file(self):
        return json.loads(graph.text(self.graph(), "net", gpus.find("h100")))


def named(entries):
    return {entry["name"]: entry for entry in entries}


class GraphTest(unittest.TestCase):
    def test_requests_are_data_and_operators_are_tasks(self):
        program = Program()
        for address, kind in ((1, "weight"), (2, "state"), (3, "old")):
            program.take(address)
        program.step.update(weights={1: "l.weight"}, states={2: ("l.weight", "momentum", "torch.float32", "SGD")}, gradients={6: "l.weight"})
        program.begin()
        program.run("view", uses=(1,), seconds=0)
        program.run("mm", uses=(1, 3), makes=(4,), scratch=2)
        program.free(3)
        program.run("loss", "backward", uses=(4,), makes=(5,))
        program.run("mm", "backward", uses=(4, 5), makes=(6,))
        program.free(4, 5)
        program.run("add_", "update", uses=(6,), changes=(1, 2))
        found = program.file()
        data, tasks = named(found["data"]), found["tasks"]
        self.assertEqual({name: datum["kind"] for name, datum in data.items()},
                         {"l.weight": "weight", "l.weight.momentum": "optimizer-state", "d2": "input", "d3": "activation", "d4": "gradient",
                          "l.weight.gradient": "weight-gradient"})
        self.assertEqual(data["l.weight.gradient"]["after"], "device")
        self.assertEqual([task["name"] for task in tasks],
                         ["0.mm train.py:1", "1.loss train.py:1", "2.mm train.py:1", "3.add_ train.py:1"])
        self.assertEqual(tasks[0]["algorithms"], [{"name": "default", "seconds": 1e-3, "workspace": 2 * BLOCK}])
        self.assertEqual((tasks[0]["reads"], tasks[0]["writes"], tasks[0]["may_rerun"]), (["l.weight", "d2"], ["d3"], True))
        self.assertEqual([task["phase"] for task in tasks], ["forward", "backward", "backward", "update"])
        self.assertEqual(tasks[3]["updates"], ["l.weight", "l.weight.momentum"])
        self.assertFalse(tasks[2]["may_rerun"])
        self.assertEqual((found["gpu"], found["link"]), ("NVIDIA H100 80GB HBM3", 48e9))

    # Chains are graphs with all of the forward pass first.
    def test_the_update_begins_behind_the_backward_pass(self):
        program = Program()
        program.begin()
        for number in (0, 10):
            program.run("mm", makes=(number + 1,))
            program.run("mm", "backward", uses=(number + 1,), makes=(number + 2,))
        program.run("norm", uses=(2, 12), makes=(20,))
        program.run("sgd", "update", uses=(20,))
        self.assertEqual([task["phase"] for task in program.file()["tasks"]], ["forward", "backward", "forward", "backward", "update", "update"])

    def test_each_datum_has_a_name_of_its_own(self):
        program = Program()
        for address in (1, 2, 3):
            program.take(address)
        program.step["weights"] = {1: "d2", 2: "weight", 3: "weight"}
        program.begin()
        program.run("mm", uses=(1, 2, 3), makes=(4,))
        program.run("mm", "backward", uses=(4,), makes=(5,))
        self.assertEqual([datum["name"] for datum in program.file()["data"]], ["d2", "weight", "weight'", "d3", "d4"])

    # Memory that the program holds belongs to the peak.
    def test_data_lives_as_long_as_in_the_run(self):
        program = Program()
        program.begin()
        program.run("a", makes=(1,))
        program.run("b", makes=(2,))
        program.free(1)  # after b, which does not read it
        program.run("c", "backward", uses=(2,), makes=(3,))
        program.run("d", "backward", uses=(3,), makes=(4,))
        program.free(2)  # after d
        found = program.graph()
        self.assertEqual((found.peak, found.peak_bytes), (3 * BLOCK, 3 * BLOCK))
        tasks = named(json.loads(graph.text(found, "net", gpus.find("h100")))["tasks"])
        # A task that may run again gets a task after it for data that it does not read itself.
        self.assertEqual(tasks["1.b train.py:1 end"]["reads"], ["d0"])
        self.assertEqual(tasks["1.b train.py:1 end"]["algorithms"][0]["seconds"], 0)
        self.assertEqual(tasks["3.d train.py:1"]["reads"], ["d2", "d1"])

    # The kernel of an extension, for which `empty_like` made memory.
    def test_code_outside_of_operators_writes_what_was_made_without_values(self):
        program = Program()
        program.begin()
        program.run("mm", makes=(1,))
        program.run("empty_like", makes=(2,), seconds=0)
        program.now += 2_000_000
        program.run("empty", makes=(3,), seconds=0)
        program.run("copy_", uses=(2,), changes=(3,))
        program.run("loss", "backward", uses=(1, 2, 3), makes=(4,))
        found = program.file()
        tasks = named(found["tasks"])
        self.assertEqual(list(tasks), ["0.mm train.py:1", "2.outside", "4.copy_ train.py:1", "5.loss train.py:1"])
        self.assertEqual((tasks["2.outside"]["writes"], tasks["2.outside"]["may_rerun"], tasks["2.outside"]["algorithms"][0]["seconds"]),
                         (["d1"], False, 2e-3))
        self.assertTrue(tasks["4.copy_ train.py:1"]["may_rerun"])

    def test_changes_in_place_may_run_again_where_there_is_room(self):
        for most, may_rerun in ((4, True), (0, False)):
            program = Program()
            program.begin()
            program.run("conv", makes=(1,))
            program.run("relu_", changes=(1,))
            program.run("conv", uses=(1,), makes=(2,), scratch=most)
            program.run("backward", "backward", uses=(1, 2), makes=(3,))
            program.free(1, 2)
            with self.subTest(most):
                if not most:
                    program.operators[1] = (*program.operators[1][:-1], {**NO_FLAGS, "may_rerun": False})
                tasks = named(program.file()["tasks"])
                relu = tasks["1.relu_ train.py:1"]
                self.assertEqual((relu["may_rerun"], relu["reads"], relu["updates"], relu["writes"]),
                                 (True, ["d0"], [], ["d0.1"]) if may_rerun else (False, [], ["d0"], []))
                self.assertIn("d0.1" if may_rerun else "d0", tasks["3.backward train.py:1"]["reads"])

    def test_a_change_in_place_at_the_peak_stays_one(self):
        program = Program()
        program.begin()
        program.run("conv", makes=(1,))
        program.run("relu_", changes=(1,))
        program.run("backward", "backward", changes=(1,))
        found = program.graph()
        self.assertEqual((found.peak, found.peak_bytes), (BLOCK, BLOCK))
        self.assertEqual([datum.name for datum in found.tasks[1].updates], ["d0"])

    def test_memory_that_is_filled_later_has_one_task(self):
        program = Program()
        program.begin()
        program.run("empty", makes=(1,), seconds=0)
        program.run("copy_", changes=(1,))
        program.run("mm", "backward", uses=(1,), makes=(2,))
        tasks = program.file()["tasks"]
        self.assertEqual([(task["name"], task["writes"], task["may_rerun"]) for task in tasks],
                         [("1.copy_ train.py:1", ["d0"], True), ("2.mm train.py:1", ["d1"], False)])

    def test_statistics_of_a_layer_leave_it_repeatable(self):
        program = Program()
        program.take(1)
        program.step["buffers"] = {1: "running_mean"}
        program.begin()
        program.run("batch_norm", makes=(2,), changes=(1,), statistics=True)
        program.run("backward", "backward", uses=(2,), makes=(3,))
        tasks = named(program.file()["tasks"])
        self.assertTrue(tasks["0.batch_norm train.py:1"]["may_rerun"])
        self.assertEqual(tasks["0.batch_norm train.py:1 statistics"]["updates"], ["running_mean"])

    def test_copies_from_the_host_are_inputs(self):
        program = Program()
        program.begin()
        program.run("copy", makes=(1,), from_host=True)
        program.run("mm", uses=(1,), makes=(2,))
        program.run("backward", "backward", uses=(2,), makes=(3,))
        found = program.file()
        self.assertEqual(found["data"][0], {"name": "d0", "bytes": BLOCK, "kind": "input", "before": "host"})
        copy = found["tasks"][0]
        self.assertEqual((copy["name"], copy["reads"], copy["writes"]), ("0.copy train.py:1", ["d0"], ["0.copy train.py:1 done"]))
        self.assertIn("d0", found["tasks"][-1]["reads"], "the program holds it until the next step")

    # Compiled code asks for memory without operators.
    def test_what_runs_between_operators_is_a_task_for_each_group_of_requests(self):
        program = Program()
        program.begin()
        program.run("mm", makes=(1,))
        program.take(2)
        program.free(1)
        program.take(3)
        program.free(2)
        program.now += 4_000_000
        program.run("mm", "backward", uses=(3,), makes=(4,))
        found = program.graph()
        self.assertEqual((found.peak, found.peak_bytes), (2 * BLOCK, 2 * BLOCK))
        self.assertEqual([(task.operator, task.seconds, task.may_rerun()) for task in found.tasks],
                         [("mm", 1e-3, True), ("outside", 2e-3, False), ("outside", 2e-3, False), ("mm", 1e-3, False)])

    def test_a_record_that_lacks_memory_has_no_graph(self):
        program = Program()
        program.begin()
        program.run("mm", makes=(1,))
        program.events.pop()
        with self.assertRaisesRegex(DryRunError, "has 0 bytes at the end of step 3, and PyTorch 1048576"):
            program.graph()

    def test_notes_name_what_the_graph_does_not_tell(self):
        program = Program()
        program.begin()
        program.run("mm", makes=(1,))
        program.step.update(models=["Critic", "Net"], differs_from_before={"operators": 5, "before": 4, "at": 2, "name": "mm"})
        found = " | ".join(graph.notes(program.graph(), 2 * BLOCK))
        for part in ("2097152 bytes, is outside of this step, which has 1048576", "step 3 has 5 operators and the one before 4",
                     "from mm, number 2, on", "no backward pass", "2 models: Critic, Net"):
            self.assertIn(part, found)

    def test_a_rank_may_have_no_step(self):
        with tempfile.TemporaryDirectory() as folder:
            rank = {"snapshot": str(pathlib.Path(folder, "process-7.pickle")), "steps": 1, "device": 0}
            with self.assertRaisesRegex(DryRunError, "took 1 step of an optimizer of PyTorch, .*expected 2 complete ones"):
                graph.make(rank)
            pathlib.Path(folder, "step-7").write_bytes(pickle.dumps({"device": 1}))
            with self.assertRaisesRegex(DryRunError, "on device 1, and device 0 takes most memory"):
                graph.make(rank)

    def test_a_step_that_takes_more_is_taken_in_place_of_the_last_one(self):
        program, steps = Program(), []
        for number, scratch in ((2, 5), (3, 1)):
            program.operators = []
            program.begin()
            program.run("mm", "backward", makes=(number,), scratch=scratch)
            program.graph()
            steps.append({**program.step, "number": number})
        with tempfile.TemporaryDirectory() as folder:
            snapshot = pathlib.Path(folder, "process-7.pickle")
            snapshot.write_bytes(pickle.dumps({"device_traces": [program.events]}))
            for name, step in zip(("step-7-largest", "step-7"), steps):
                pathlib.Path(folder, name).write_bytes(pickle.dumps(step))
            rank = {"snapshot": str(snapshot), "steps": 3, "device": 0, "peak_live_bytes": 6 * BLOCK}
            found = graph.make(rank)
            self.assertEqual((found.step["number"], found.peak), (2, 6 * BLOCK))
            self.assertEqual(graph.notes(found, found.peak), ["step 2 takes more memory than step 3, the last one"])
            rank["peak_live_bytes"] = 3 * BLOCK
            self.assertEqual(graph.make(rank).step["number"], 3)

    def test_a_record_of_the_last_requests_has_the_graph_of_its_steps(self):
        program = program_of_blocks(2)
        whole = program.graph()
        with tempfile.TemporaryDirectory() as folder:
            snapshot = pathlib.Path(folder, "process-7.pickle")
            pathlib.Path(folder, "step-7").write_bytes(pickle.dumps(program.step))
            rank = {"snapshot": str(snapshot), "steps": 3, "device": 0, "peak_live_bytes": whole.peak}
            blocks = [{"address": address, "requested_size": size, "state": "active_allocated"} for address, size in program.sizes.items()]
            for lost, is_whole in ((4, True), (program.step["begin"], True), (program.step["begin"] + 1, False)):
                snapshot.write_bytes(pickle.dumps({"device_traces": [program.events[lost:]], "lost_events": {0: lost},
                                                   "segments": [{"device": 0, "blocks": blocks}]}))
                if is_whole:
                    found = graph.make(rank)
                    self.assertEqual((found.peak, found.peak_bytes, len(found.tasks), len(found.data)),
                                     (whole.peak, whole.peak_bytes, len(whole.tasks), len(whole.data)))
                else:
                    with self.assertRaisesRegex(DryRunError, r"step 3 has \d+ requests and frees of memory, and PyTorch recorded the last \d+ of them"):
                        graph.make(rank)
            # A larger step before the record has no graph, so the last one has it.
            lost = program.step["begin"]
            snapshot.write_bytes(pickle.dumps({"device_traces": [program.events[lost:]], "lost_events": {0: lost}, "segments": [{"device": 0, "blocks": blocks}]}))
            pathlib.Path(folder, "step-7-largest").write_bytes(pickle.dumps({**program.step, "number": 2, "begin": 0, "end": lost}))
            with unittest.mock.patch.object(graph, "peak_of", lambda step, record: {2: 9, 3: 1}[step["number"]] * BLOCK):
                self.assertEqual(graph.make({**rank, "peak_live_bytes": 9 * BLOCK}).step["number"], 3)

    def test_a_step_that_the_time_limit_ended_names_it(self):
        rank = {"snapshot": None, "steps": 1, "device": 0}
        for answer, error in (({"so_far": True, "ran_out_of_time": True}, "; the program was ended by the time limit, expected a longer --time-limit"),
                              ({"so_far": True, "ran_out_of_time": False}, "; the program was ended by an interrupt"),
                              ({"so_far": False}, "the first makes the state of the optimizer")):
            with self.assertRaisesRegex(DryRunError, f"took 1 step of an optimizer.*{error}$"):
                main.graph_of(rank, answer)

    # The file has a task more for statistics of a layer, and the result of the copy is data.
    def test_writes_a_file_by_its_name(self):
        program = Program()
        program.take(50)
        program.begin()
        program.run("copy", makes=(1,), from_host=True)
        program.run("batch_norm", uses=(1,), makes=(2,), changes=(50,), statistics=True)
        program.run("mm", "backward", uses=(2,), makes=(3,))
        program.graph()
        with tempfile.TemporaryDirectory() as folder:
            snapshot = pathlib.Path(folder, "process-7.pickle")
            snapshot.write_bytes(pickle.dumps({"device_traces": [[*program.events, {"action": "segment_alloc", "size": 1 << 30}]]}))
            pathlib.Path(folder, "step-7").write_bytes(pickle.dumps(program.step))
            rank = {"snapshot": str(snapshot), "steps": 3, "device": 0, "peak_live_bytes": 4 * BLOCK}
            files = [pathlib.Path(folder, name) for name in ("step.json", "step.json.gz")]
            for file in files:
                answer = graph.write(graph.make(rank), "train.py", gpus.find("h100"), 4 * BLOCK, str(file))
            self.assertEqual(answer, {"file": str(files[1]), "step": 3, "tasks": 4, "data": 5, "seconds": 3e-3, "peak_bytes": 4 * BLOCK,
                                      "notes": []})
            written = json.loads(files[0].read_text())
            self.assertEqual((written["tidepool_graph"], len(written["tasks"]), len(written["data"])), (2, 4, 5))
            self.assertEqual(gzip.decompress(files[1].read_bytes()), files[0].read_bytes())


def with_fewer_notes(program, most):
    """Returns the graph of a program of which operators were joined while they ran."""
    with unittest.mock.patch.object(_tidepool_steps, "MOST_NOTES", 2 * most):
        fewer, counts = _tidepool_steps.fewer(program.operators, [1] * len(program.operators))
    assert sum(counts) == len(program.operators)
    program.step["joined"] = len(program.operators) - len(fewer)
    program.operators = fewer
    return program.graph()


def blocks(count, names="blocks.{}"):
    return program_of_blocks(count, names).graph()


def program_of_blocks(count, names="blocks.{}"):
    """Returns a program of blocks. Each keeps a block of memory inside and its result for the backward pass, and frees
    another one. Its weight is a block, with two moments of Adam."""
    program = Program()
    for number in range(count):
        for address in (1000 + number, 1100 + number, 1200 + number):
            program.take(address)
        program.step["weights"][1000 + number] = f"{number}.weight"
        for address, name in ((1100 + number, "exp_avg"), (1200 + number, "exp_avg_sq")):
            program.step["states"][address] = f"{number}.weight", name, "torch.float32", "AdamW"
    program.begin()
    program.run("input", makes=(1,), layer="")
    for number in range(count):
        layer, x = names.format(number), 10 * number
        program.run("norm", uses=(x + 1,), makes=(x + 2,), layer=f"{layer}.norm")
        program.run("mm", uses=(x + 2, 1000 + number), makes=(x + 3,), layer=f"{layer}.mm")
        program.run("gelu", uses=(x + 3,), makes=(x + 11,), layer=layer)
        program.free(x + 2)
    program.run("loss", uses=(10 * count + 1,), makes=(4999,), layer="")
    program.run("loss_backward", "backward", uses=(4999,), makes=(5000,), layer="")
    for number in reversed(range(count)):
        x = 10 * number
        program.run("gelu_backward", "backward", uses=(x + 3, 5000), makes=(5001,), layer="")
        program.run("mm_backward", "backward", uses=(x + 1, 5001, 1000 + number), makes=(2000 + number,), layer="")
        program.step["gradients"][2000 + number] = f"{number}.weight"
        program.free(x + 3, x + 11, 5001)
    program.run("adam", "update", uses=tuple(2000 + number for number in range(count)), scratch=20,
                changes=tuple(first + number for number in range(count) for first in (1000, 1100, 1200)), layer="")
    return program


class ModulesTest(unittest.TestCase):
    def joined(self, most):
        with unittest.mock.patch.object(graph, "MOST_TASKS", most):
            return blocks(4)

    def test_operators_of_a_module_are_one_task(self):
        whole, found = blocks(4), self.joined(12)
        # The input, the first two operators and the result of each block, the loss, the backward pass and the update.
        self.assertEqual([task.layer for task in whole.tasks][1:4], ["blocks.0.norm", "blocks.0.mm", "blocks.0"])
        self.assertEqual([(task.operator, task.phase, task.layer) for task in found.tasks],
                         [("input", "forward", ""), *(("module", "forward", f"blocks.{number}") for number in range(4)),
                          ("loss", "forward", ""), *2 * [("module", "backward", "")], ("mm_backward", "backward", ""), ("adam", "update", "")])
        self.assertEqual([task.number for task in found.tasks], list(range(10)))
        self.assertAlmostEqual(what_if.seconds(found), what_if.seconds(whole))
        self.assertTrue(found.tasks[1].may_rerun())
        # A block keeps the result of its product and its own, and its first result is a part of its workspace.
        self.assertEqual(([datum.bytes for datum in found.tasks[1].writes], found.tasks[1].workspace), ([BLOCK, BLOCK], BLOCK))
        self.assertEqual([datum.name for datum in found.tasks[1].reads], ["0.weight", "d12"])
        self.assertEqual((whole.peak, found.peak), (whole.peak_bytes, whole.peak))
        self.assertGreaterEqual(found.peak_bytes, found.peak)

    def test_inner_modules_come_first(self):
        self.assertEqual(len(self.joined(24).tasks), 24)
        self.assertEqual([task.layer for task in self.joined(20).tasks][1:4], ["blocks.0.norm", "blocks.0.mm", "blocks.0"])
        self.assertEqual([(task.operator, task.phase) for task in self.joined(4).tasks],
                         [("module", "forward"), ("module", "backward"), ("adam", "update")])

    def test_a_long_module_is_divided(self):
        # A loop over small modules, which has more stretches of one of them than there may be groups.
        places = [("forward", f"cells.{number // 2 % 8}") for number in range(4000)] + [("backward", "")] * 100 + [("update", "")]
        for most in (3, 10, 100, 3000):
            found = _tidepool_joined.pieces(places, most)
            self.assertEqual([found[0][0], *(end for _, end in found)], [*(begin for begin, _ in found), len(places)])
            self.assertTrue(most / 3 < len(found) <= most, (most, len(found)))
            self.assertTrue(all(len({phase for phase, _ in places[begin:end]}) == 1 for begin, end in found))
        # Operators that were joined before are not joined again as if they were one.
        counts = [400] * 10 + [1] * 4000
        found = _tidepool_joined.pieces([("forward", f"cells.{number % 8}") for number in range(len(counts))], 50, counts)
        self.assertLessEqual(len(found), 50)
        self.assertLessEqual(max(sum(counts[begin:end]) for begin, end in found), 800)
        self.assertEqual(_tidepool_joined.common(["a.b.c", "a.b", "a.b.d"]), "a.b")
        self.assertEqual(_tidepool_joined.common(["a.b", "c"]), "")

    def test_operators_that_were_joined_while_they_ran_take_the_same(self):
        whole, found = blocks(4), with_fewer_notes(program_of_blocks(4), 12)
        self.assertEqual(len(found.step["operators"]), 10)
        self.assertEqual(found.peak, whole.peak)
        self.assertAlmostEqual(what_if.seconds(found), what_if.seconds(whole))
        self.assertEqual(([task.layer for task in found.tasks][:5]), ["", *(f"blocks.{number}" for number in range(4))])
        self.assertTrue(found.tasks[1].may_rerun())
        self.assertEqual([datum.name for datum in found.tasks[-1].updates], [datum.name for datum in whole.tasks[-1].updates])
        self.assertIn("24 operators are joined to 10 tasks, each a module or a part of it", graph.notes(found, found.peak_bytes))

    # The allocator gives the memory of an input to data that lives inside of the group alone.
    def test_memory_that_is_taken_again_inside_of_joined_operators_is_no_input(self):
        program = Program()
        for address in (1, 2, 3):
            program.take(address)
        program.begin()
        program.run("mm", uses=(1,), makes=(4,), layer="cell")
        program.free(2, 3)
        program.run("mm", uses=(4,), makes=(2,), layer="cell")
        program.run("relu_", changes=(2,), layer="cell")
        program.run("mm", uses=(2,), makes=(5,), layer="cell")
        program.free(2)
        program.run("mm", "backward", uses=(1, 4, 5), makes=(6,), layer="")
        found = with_fewer_notes(program, 2)
        cell = found.tasks[0]
        self.assertEqual((cell.operator, cell.layer, cell.updates, [datum.address for datum in cell.writes]), ("module", "cell", [], [4, 5]))
        self.assertTrue(cell.may_rerun())
        self.assertEqual([datum.address for datum in cell.reads], [1])
        self.assertEqual(sorted(datum.address for datum in cell.held), [2, 3])

    def test_the_file_and_the_notes_say_so(self):
        found = self.joined(12)
        self.assertEqual(json.loads(graph.text(found, "net", gpus.find("h100")))["name"], "net (24 operators joined by modules)")
        self.assertIn("24 operators are joined to 10 tasks, each a module or a part of it", graph.notes(found, found.peak_bytes))
        self.assertEqual(json.loads(graph.text(blocks(4), "net", gpus.find("h100")))["name"], "net")

    def test_each_use_of_the_file_is_of_data_that_it_has(self):
        for most in (20, 12, 4):
            found = json.loads(graph.text(self.joined(most), "net", gpus.find("h100")))
            made = {name for task in found["tasks"] for name in task["writes"]}
            self.assertEqual(len(made), sum(len(task["writes"]) for task in found["tasks"]))
            older = {datum["name"] for datum in found["data"]} - made
            known = set(older)
            for task in found["tasks"]:
                self.assertLessEqual({*task["reads"], *task["updates"]}, known, task["name"])
                self.assertEqual(len({*task["reads"], *task["updates"]}), len(task["reads"]) + len(task["updates"]))
                known.update(task["writes"])
            self.assertEqual(known, {datum["name"] for datum in found["data"]})


class WhatIfTest(unittest.TestCase):
    def test_blocks_that_run_again_keep_their_input_alone(self):
        found = blocks(4)
        # Weights and moments, results, data inside of blocks, the loss, and gradients of the loss, inside and of a weight.
        self.assertEqual(what_if.without_update(found, lambda datum: datum.bytes), (12 + 5 + 4 + 1 + 3) * BLOCK)
        for budget, count, peak, again in ((24, 1, 24, 3), (23, 2, 23, 6), (22, 3, 22, 9), (1, 3, 22, 9)):
            with self.subTest(budget):
                graph_of_blocks = blocks(4)
                for task in graph_of_blocks.tasks:
                    task.workspace = 0  # the update is no part of this
                made = what_if.checkpoints(graph_of_blocks, budget * BLOCK)
                self.assertEqual((len(made["blocks"]), made["of"]), (count, 4))
                self.assertEqual(made["blocks"], [f"blocks.{number}" for number in range(count)])
                self.assertEqual(made["peak"], peak * BLOCK)
                self.assertAlmostEqual(made["slowdown"], (24 + again) / 24)

    # Its last task gives nothing that the backward pass reads, so PyTorch stops before it.
    def test_a_block_that_runs_again_needs_its_input_until_then(self):
        program = Program()
        program.begin()
        program.run("input", makes=(1,), layer="")
        for number in range(2):
            x = 10 * number
            for inner in (2, 3):
                program.run("mm", uses=(x + 1,), makes=(x + inner,), layer=f"blocks.{number}.mm")
            program.run("gelu", uses=(x + 2, x + 3), makes=(x + 11,), layer=f"blocks.{number}")
            program.free(x + 1)
        program.run("loss", uses=(21,), makes=(30,), layer="")
        for number in (1, 0):
            program.run("backward", "backward", uses=(10 * number + 2, 10 * number + 3), makes=(40 + number,), layer=f"blocks.{number}.mm")
            program.free(10 * number + 2, 10 * number + 3)
        found = program.graph()
        step = what_if.Checkpoints(found, {"blocks.0": what_if.blocks(found, 1)["blocks.0"]})
        again = 9  # the position of the first task that runs again, before the last backward task
        self.assertEqual([task.operator for task in step.order[again:]], ["mm", "mm", "backward"])
        lives = {datum.name: step.lives(datum) for datum in found.data}
        self.assertEqual(lives["d0"], [(0, again + 1)])
        self.assertEqual(lives["d1"], [(1, 3), (again, again + 2)])

    # Code that the dispatcher does not see makes the memory, and the backward pass gathers the weight once more.
    def test_a_gathered_weight_does_not_stay_for_a_block_that_runs_again(self):
        program = Program()
        program.begin()
        program.run("input", makes=(1,), layer="")
        for x in (0, 10):
            layer = f"blocks.{x // 10}"
            program.take(x + 5)
            program.run("gather", changes=(x + 5,), layer=layer, may_rerun=False)
            program.run("mm", uses=(x + 1, x + 5), makes=(x + 2,), layer=f"{layer}.mm")
            program.run("gelu", uses=(x + 2,), makes=(x + 11,), layer=layer)
            program.free(x + 5)
        for x in (10, 0):
            program.run("gather", "backward", makes=(x + 6,), layer="")
            program.run("backward", "backward", uses=(x + 2, x + 6), layer="")
            program.free(x + 2, x + 6)
        found = program.graph()
        step = what_if.Checkpoints(found, what_if.blocks(found, 1))
        gathered = [datum for datum in found.data if datum.begin and datum.begin.operator == "outside"]
        self.assertEqual([len(step.lives(datum)) for datum in gathered], [1, 1])
        self.assertEqual([step.lives(datum)[0][1] - step.lives(datum)[0][0] for datum in gathered], [3, 3])

    def test_autocast_keeps_its_copies_of_weights_until_the_forward_pass_ends(self):
        for is_cached, end in ((False, 2), (True, 5)):
            program = Program()
            program.take(9)
            program.begin()
            program.run("input", makes=(1,), layer="")
            for x in (0, 10):
                layer = f"blocks.{x // 10}.mm"
                program.run("_to_copy", uses=(9,), makes=(x + 2,), layer=layer, is_cached=is_cached)
                program.run("mm", uses=(x + 1, x + 2), makes=(x + 11,), layer=layer)
            program.run("loss", uses=(21,), layer="")
            for x in (10, 0):
                program.run("backward", "backward", uses=(x + 1, x + 2), layer=f"blocks.{x // 10}.mm")
                program.free(x + 2, x + 1)
            found = program.graph()
            step = what_if.Checkpoints(found, what_if.blocks(found, 1))
            copy = next(datum for datum in found.data if datum.writer is found.tasks[1])
            self.assertEqual(step.lives(copy)[0], (1, end))

    # PyTorch frees the data that a node saved after it added up the gradient of a bias; data that ran again has gone by then.
    def test_data_that_ran_again_is_freed_before_gradients_are_added_up(self):
        program = Program()
        program.begin()
        program.run("input", makes=(1,), layer="")
        for x in (0, 10):
            program.run("gelu", uses=(x + 1,), makes=(x + 2,), layer=f"blocks.{x // 10}.mm")
            program.run("mm", uses=(x + 2,), makes=(x + 11,), layer=f"blocks.{x // 10}.mm")
        for x in (10, 0):
            program.run("mm", "backward", uses=(x + 2,), makes=(x + 3,), layer=f"blocks.{x // 10}.mm")
            program.run("sum", "backward", makes=(x + 4,), layer=f"blocks.{x // 10}.mm")
            program.free(x + 2)
            program.run("gelu_backward", "backward", uses=(x + 1,), layer=f"blocks.{x // 10}.mm")
        found = program.graph()
        result = next(datum for datum in found.data if datum.writer is found.tasks[1])
        self.assertEqual(result.death, found.tasks[-2])
        step = what_if.Checkpoints(found, what_if.blocks(found, 1))
        _, (begin, end) = step.lives(result)
        self.assertEqual(([task.operator for task in step.order[begin:end + 1]], step.order[end].phase), (["gelu", "mm"], "backward"))

    def test_blocks_run_again_in_each_micro_batch(self):
        program = Program()
        program.begin()
        for first in (0, 100):
            program.run("input", makes=(first + 1,), layer="")
            for x in (first, first + 10):
                program.run("mm", uses=(x + 1,), makes=(x + 2,), layer=f"blocks.{x % 100 // 10}.mm")
                program.run("gelu", uses=(x + 2,), makes=(x + 11,), layer=f"blocks.{x % 100 // 10}")
            for x in (first + 10, first):
                program.run("backward", "backward", uses=(x + 1, x + 2), layer="")
                program.free(x + 2, x + 11)
            program.free(first + 1)
        found = program.graph()
        self.assertEqual({block: [len(tasks) for tasks in runs] for block, runs in what_if.blocks(found, 1).items()},
                         {"blocks.0": [2, 2], "blocks.1": [2, 2]})
        self.assertEqual(what_if.peak([(*what_if.life(found, datum), datum.bytes) for datum in found.data], [0] * len(found.tasks)), 5 * BLOCK)
        made = what_if.checkpoints(found, BLOCK)
        self.assertEqual((len(made["blocks"]), made["of"], made["peak"]), (1, 2, 4 * BLOCK))

    def test_blocks_may_be_in_stages(self):
        self.assertEqual(list(what_if.blocks(blocks(3, "stages.{}"), 1)), ["stages.0", "stages.1", "stages.2"])
        self.assertEqual(list(what_if.blocks(blocks(3, "stages.{}.0"), 2)), ["stages.0.0", "stages.1.0", "stages.2.0"])
        self.assertEqual(list(what_if.blocks(blocks(2, "{}"), 1)), ["0", "1"])
        self.assertEqual(list(what_if.blocks(blocks(2, "layers.layer_{}"), 1)), ["layers.layer_0", "layers.layer_1"])
        self.assertEqual(what_if.blocks(blocks(2, "net"), 1), {})
        of_layers = blocks(2, "{}")
        for task in of_layers.tasks:
            task.layer = task.layer[:1]
        self.assertEqual(what_if.blocks(of_layers, 1), {}, "a layer alone is no block")
        self.assertIsNone(what_if.checkpoints(blocks(2, "net"), 1))

    # Two towers of two blocks each, the first one with more tasks.
    def test_blocks_may_be_of_several_kinds(self):
        program = Program()
        program.begin()
        program.run("input", makes=(1,), layer="")
        names = ["images.0", "images.1", "texts.0", "texts.1"]
        for number, name in enumerate(names):
            x = 10 * number
            program.run("gelu", uses=(x + 1,), makes=(x + 2,), layer=f"{name}.mm")
            program.run("mm", uses=(x + 2,), makes=(x + 11,), layer=f"{name}.mm")
            if name.startswith("images"):
                program.run("view", uses=(x + 11,), changes=(x + 11,), layer=f"{name}.mm")
        for number, name in reversed(list(enumerate(names))):
            x = 10 * number
            program.run("mm", "backward", uses=(x + 2,), layer=f"{name}.mm")
            program.free(x + 2)
            program.run("gelu_backward", "backward", uses=(x + 1,), layer=f"{name}.mm")
        found = program.graph()
        for budget, chosen in ((8 * BLOCK, names[:1]), (7 * BLOCK, names[:2]), (6 * BLOCK, names[:3]), (1, names[:3])):
            with self.subTest(budget):
                self.assertEqual(what_if.checkpoints(found, budget)["blocks"], chosen)
        one = object.__new__(remedies.Remedies)
        one.budget = 1
        row = one.of_blocks({"blocks": names[:3], "of": 4}, 1, 1.0, False)
        self.assertEqual((row["name"], row["how"].partition(" of ")[2]), ("recompute 3 of 4 blocks (checkpoint)", "images.0 to images.1, texts.0"))

    def test_state_of_optimizers_may_be_smaller_or_elsewhere(self):
        found = blocks(4)
        peak, slowdown = what_if.state_on_host(found, 1e9)
        self.assertEqual(peak, (4 + 5 + 4 + 4) * BLOCK)
        self.assertAlmostEqual(slowdown, (23e-3 + 8 * BLOCK / 1e9) / 24e-3)  # without the update
        elements = BLOCK // 4
        small, optimizer = what_if.small_state(found)
        self.assertEqual(optimizer, "AdamW")
        self.assertEqual(small, (4 + 5 + 4 + 4) * BLOCK + 8 * (elements + 4 * elements // 256))
        found.data[1].bytes = 4 * (what_if.LEAST_SMALL_STATE - 1)  # stays as it is
        self.assertEqual(what_if.small_state(found)[0], small - (elements + 4 * elements // 256) + graph.rounded(found.data[1].bytes))
        found.step["states"] = {address: (*names[:2], "torch.bfloat16", "AdamW") for address, names in found.step["states"].items()}
        self.assertIsNone(what_if.small_state(found))


CARDS = {"gpus": [{"name": "t4", "memory_bytes": 15 << 30, "fits": False, "slowdown": None, "seconds": None, "cost": None}],
         "smallest_gpu": None, "cheapest_gpu": None, "gpu_lines": ["no schedule fits: t4", "none at 1.1 x or less of its time with enough memory"]}


class Tool:
    def __init__(self, answer):
        self.answer = answer

    def ask(self, command, file, *options):
        self.asked = command, json.loads(pathlib.Path(file).read_text()), options
        return self.answer


class FrontTest(unittest.TestCase):
    def front(self, points, prices=""):
        program = Program()
        program.begin()
        program.run("mm", makes=(1,))
        program.run("add", "backward", uses=(1,), makes=(3,))
        self.tool = Tool({**CARDS, **({"points": points} if points else {"fits": False})})
        run = types.SimpleNamespace(tool=self.tool, options=types.SimpleNamespace(front="f.svg", prices=prices),
                                    machine=types.SimpleNamespace(gpu=gpus.find("h100")))
        return front.write(run, program.graph(), 0.5, "net")

    def test_asks_for_the_front_and_the_gpus(self):
        found = self.front([{"memory_bytes": 3 << 30, "overhead": 1.25}, {"memory_bytes": 9 << 30, "overhead": 1.0}], "p.csv")
        self.assertEqual(found["points"], [{"memory_bytes": 3 << 30, "slowdown": 1.25}, {"memory_bytes": 9 << 30, "slowdown": 1.0}])
        self.assertEqual({key: found[key] for key in CARDS}, CARDS)
        command, step, options = self.tool.asked
        self.assertEqual((command, step["gpu"]), ("front", "NVIDIA H100 80GB HBM3"))
        self.assertEqual(options[-7:], ("--svg", "f.svg", "--gpus", "--gpu-share", 0.5, "--prices", "p.csv"))
        self.assertEqual(text.front(found),
                         [("front", "f.svg: from 3.0 GiB at 1.25 x the time to 9.0 GiB at 1.00 x the time"),
                          ("trains on", "no schedule fits: t4"), ("", "none at 1.1 x or less of its time with enough memory")])
        self.assertEqual(text.front(None), [])

    def test_the_gpus_are_told_without_a_front(self):
        found = self.front(None)
        self.assertNotIn("--prices", self.tool.asked[2])
        self.assertEqual([row[0] for row in text.front(found)], ["front", "trains on", ""])
        self.assertEqual(text.front(found)[0][1], "no picture: no schedule with addresses fits")

    def test_is_of_one_run_of_two_steps(self):
        with self.assertRaisesRegex(ValueError, "--front with --steps 1, expected 2 or more"):
            main.DryRun(main.Options(command=["true"], stand_in="", front="f.svg", steps=1))
        with self.assertRaisesRegex(ValueError, "--prices without --front: "):
            main.DryRun(main.Options(command=["true"], stand_in="", prices="p.csv"))


class BatchTest(unittest.TestCase):
    def test_one_word_names_the_batch(self):
        for words, batch, changed in (("t.py --batch-size 48", 48, "t.py --batch-size 7"), ("t.py --batch_size=12 x", 12, "t.py --batch_size=7 x"),
                                      ("t.py --per_device_train_batch_size 4", 4, "t.py --per_device_train_batch_size 7"),
                                      ("t.py --batch 4 --eval-batch 8", 4, "t.py --batch 7 --eval-batch 8"),
                                      ("t.py trainer.batch_size=16", 16, "t.py trainer.batch_size=7")):
            with self.subTest(words):
                self.assertEqual(batches.of(words.split())[1], batch)
                self.assertEqual(batches.with_value(words.split(), 7), changed.split())
        self.assertEqual([batches.of(words.split())[0] for words in ("t.py --batch-size 48 x", "t.py batch_size=12")], [["--batch-size", "48"], ["batch_size=12"]])
        for words in ("t.py", "t.py --batches 4", "t.py --micro-batch 4 --batch 8", "t.py --batch auto", "t.py batch 4"):
            self.assertIsNone(batches.of(words.split()), words)

    # 10 bytes for each sample, and 100 besides.
    def test_the_memory_of_two_batches_tells_the_next(self):
        self.assertEqual(batches.following({32: 420, 16: 260}, 345, 16, 31), 24)
        self.assertIsNone(batches.following({32: 420, 24: 340, 25: 350}, 345, 24, 24))
        self.assertEqual(batches.following({32: 420, 16: 260}, 185, 0, 15), 8)
        self.assertEqual(batches.following({32: 420, 16: 260}, 50, 0, 15), 1)
        self.assertEqual(batches.following({32: 420, 16: 420}, 430, 16, 31), 31)
        # PyTorch gives cached memory back, so a batch may fit that reserves more than there is.
        self.assertEqual(batches.following({32: 420, 400: 4100}, 4150, 400, 1000), 409, "405 is hardly more")
        self.assertIsNone(batches.following({32: 420, 400: 4100, 409: 4190}, 4150, 400, 408))
        # An LSTM in MiB: PyTorch takes whole segments for few samples, so the line through the two nearest sizes is no good one.
        self.assertEqual(batches.following({4: 220, 22: 692, 34: 784, 64: 1414}, 1024, 34, 63), 45)

    def search(self, memory, guess, most=99, of_sample=10):
        tried = []

        def measure(batch):
            if batch == 13:
                raise DryRunError("no time left")
            tried.append(batch)
            return 100 + of_sample * batch, 100 + of_sample * batch <= memory

        return batches.search(measure, {most + 1: 100 + of_sample * (most + 1)}, guess, memory, most), tried

    def test_further_runs_find_the_batch_that_fits(self):
        self.assertEqual(self.search(775, 50), (67, [50, 67, 69]))
        self.assertEqual(self.search(775, 70), (67, [70, 67, 69]))
        self.assertEqual(self.search(775, 67), (67, [67, 69]))
        self.assertEqual(self.search(1095, 200), (99, [99]), "less than the batch of the command")
        self.assertEqual(self.search(105, 50), (0, [50, 1]), "not even one sample fits")

    def test_a_search_without_time_tells_what_it_found(self):
        self.assertEqual(self.search(775, 13), (0, []))
        self.assertEqual(self.search(235, 7), (7, [7]), "13 gives no answer")

    def larger(self, step, memory, live, words="t.py --batch 4", seconds=1000, reserved=None, runs=None, host=1.0, steps=3, **categories):
        rank = {"out_of_memory": None, "fits": True, "peak_reserved_bytes": 0, "other_bytes": 0, "peak_live_bytes": live, "memory_bytes": memory,
                "categories": {"optimizer state": 0, **categories}, "outside": {"counts": False, "host_bytes": [0, 0]}}
        answer = {"ranks": [rank], "peak_live_bytes": live, "reserved_range": [live, reserved or live], "memory_bytes": memory, "steps": steps}
        run = unittest.mock.Mock(command=words.split(), options=main.Options(command=[], stand_in=""),
                                 machine=program.Machine(gpus.GPUS["h100"], memory, 1))
        with remedies.FurtherRuns(run, answer) as further, unittest.mock.patch.multiple(
                remedies, processor_seconds=lambda: seconds, host_bytes=lambda: 100, free_host_bytes=lambda: int(400 * 100 * host)):
            further.with_enough = lambda command, records_steps: ({"reserved_range": [0, runs(int(command[-1]))]},
                                                                  {"reserved_range": [0, runs(int(command[-1]))], "snapshot": None})
            return further.larger_batch(step)

    def test_all_but_weights_and_state_grows_without_a_graph(self):
        found = self.larger(None, 1000, 500, weights=100)
        self.assertEqual(found, {"batch": 9, "in_place_of": 4, "times": 2.25, "is_least": True, "checked": False,
                                 "how": "computed as if all but weights and optimizer state grew"})
        self.assertEqual(self.larger(None, 1 << 30, 500, weights=100)["batch"], 16 * 4)
        self.assertEqual(self.larger(None, 500, 500)["batch"], 4)
        # A command that names no batch.
        self.assertEqual(self.larger(None, 1000, 500, words="t.py", weights=100), {**found, "batch": None, "in_place_of": None, "times": 2.2})
        self.assertEqual(self.larger(None, 1 << 30, 500, words="t.py")["times"], 16)
        self.assertEqual(self.larger(None, 500, 500, words="t.py")["times"], 1)
        self.assertIsNone(self.larger(None, 1000, 500, words="t.py", steps=0), "a program that does not train may have no batch")

    # The batch of the step before ends when the program makes the next one. Averages change.
    def test_a_batch_may_be_made_on_the_gpu_or_before_the_step(self):
        program = Program()
        for address in (1, 2, 3, 4, 5):
            program.take(address)
        program.step.update(weights={1: "weight"}, buffers={2: "buffer"})
        program.begin()
        program.run("randn", makes=(10,))
        program.free(3)
        program.run("mm", uses=(1, 2), makes=(11,))
        program.run("mm", uses=(10, 11), makes=(12,))
        program.run("mm", uses=(4, 11), makes=(13,))
        program.run("lerp_", uses=(1,), changes=(5,), may_rerun=False)
        step = program.graph()
        grows = what_if.growing(step)
        self.assertEqual([datum.address for datum in step.data if id(datum) in grows], [3, 4, 10, 12, 13])

    # PyTorch reserves twice as much as is live with four samples, and hardly more with many.
    def test_a_short_program_runs_once_more(self):
        words = {"reserved": 280, "seconds": 2, "runs": lambda batch: 240 + 10 * batch}
        self.assertEqual(self.larger(None, 775, 140, **words), {"batch": 53, "in_place_of": 4, "times": 13.25, "is_least": False, "checked": False,
                                                               "how": "on the line through two dry runs"})
        self.assertEqual(self.larger(None, 900, 480, **{**words, "reserved": 480, "runs": lambda batch: 120 * batch}),
                         {"batch": 7, "in_place_of": 4, "times": 1.75, "is_least": False, "checked": True, "how": "checked by a dry run"})
        self.assertEqual(self.larger(None, 100_000, 140, **words)["batch"], 16 * 4)
        self.assertTrue(self.larger(None, 100_000, 140, **words)["is_least"])
        self.assertEqual(self.larger(None, 775, 140, **{**words, "seconds": 31})["how"], "computed as if all but weights and optimizer state grew")

        # The batch of a further run is less where the host has no memory for more: twice that of the command here, then none.
        tried = []
        limited = {**words, "runs": lambda batch: tried.append(batch) or 240 + 10 * batch}
        self.assertEqual(self.larger(None, 775, 140, **limited, host=0.021)["batch"], 53)
        self.assertEqual(set(tried), {8})
        self.assertEqual(self.larger(None, 775, 140, **words, host=0.01)["how"], "computed as if all but weights and optimizer state grew")

        def none(batch):
            raise DryRunError("it ended with an error")

        self.assertEqual(self.larger(None, 775, 140, **{**words, "runs": none})["how"], "computed as if all but weights and optimizer state grew")

    # An input from the host and the result grow, not the copy of the weight in another type and its gradient.
    def test_the_graph_tells_what_grows(self):
        program = Program()
        program.take(1)
        program.step.update(weights={1: "weight"}, gradients={9: "weight"})
        program.begin()
        program.run("copy", makes=(2,), from_host=True)
        program.run("_to_copy", uses=(1,), makes=(3,))
        program.run("mm", uses=(2, 3), makes=(4,), scratch=2)
        program.run("mm", "backward", uses=(4, 2), makes=(8,))
        program.free(4)
        program.run("_to_copy", "backward", uses=(8,), makes=(9,))
        program.free(8, 2, 3)
        program.run("sgd", "update", uses=(9,), changes=(1,), scratch=7)
        step = program.graph()
        grows = what_if.growing(step)
        self.assertEqual([datum.name for datum in step.data if id(datum) in grows], ["d1", "d3"])
        # While the first product runs: the weight and its copy, and an input, a result and two blocks of workspace that grow. In the update: the weight,
        # its gradient and a workspace.
        self.assertEqual(step.peak, 9 * BLOCK)
        growth = what_if.Growth(step)
        self.assertEqual(growth.largest(14 * BLOCK), 3)
        self.assertEqual(growth.largest(9 * BLOCK), 1.75)
        self.assertEqual(growth.largest(8 * BLOCK), 0, "the update alone needs more")
        self.assertEqual([growth.peak(batch) for batch in (3, 1.75, 0.5)], [14 * BLOCK, 9 * BLOCK, 9 * BLOCK])
        # With half of the batch the last of six operators of a millisecond takes as long, and the others the time of a launch and half of the rest.
        self.assertAlmostEqual(growth.slowdown(0.5), 2 * (1 + 5 * (0.005 + 0.995 / 2)) / 6)
        found = self.larger(step, 14 * BLOCK, 9 * BLOCK)
        self.assertEqual((found["batch"], found["is_least"], found["how"]), (12, False, "computed from the task graph"))
        self.assertEqual(self.larger(step, 14 * BLOCK, 9 * BLOCK, words="t.py"),
                         {"batch": None, "in_place_of": None, "times": 3, "is_least": False, "checked": False, "how": "computed from the task graph"})
        self.assertTrue(self.larger(step, 14 * BLOCK, 10 * BLOCK)["is_least"], "the peak is outside of the step")


class RooflineTest(unittest.TestCase):
    def test_has_the_figures_of_the_clock_of_dry_runs(self):
        launch = re.search(r"kLaunch = (\d+);", (SOURCE / "dryrun/runtime/cudart/assumed_time.h").read_text())
        efficiency = re.search(r"efficiency = ([0-9.]+);", (SOURCE / "dryrun/libraries/gpu.h").read_text())
        attention = re.search(r"kHopper \? ([0-9.]+) : ([0-9.]+);", (SOURCE / "dryrun/runtime/cudart/attention.cc").read_text())
        self.assertEqual((round(roofline.LAUNCH * 1e9), roofline.EFFICIENCY), (int(launch[1]), float(efficiency[1])))
        self.assertEqual(roofline.ATTENTION, {True: float(attention[1]), False: float(attention[2])})


class FreeHostTest(unittest.TestCase):
    def free(self, **groups):
        """Returns the free memory of a host with 1 MiB available, and files of control groups."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "proc").mkdir()
            (root / "proc/meminfo").write_text("MemTotal:  4096 kB\nMemAvailable:  1024 kB\n")
            (root / "sys/fs/cgroup/memory").mkdir(parents=True)
            for name, content in groups.items():
                (root / "sys/fs/cgroup" / name).write_text(f"{content}\n")
            return remedies.free_host_bytes(root)

    def test_is_that_of_the_host_without_a_limit(self):
        self.assertEqual(self.free(), 1 << 20)
        self.assertEqual(self.free(**{"memory.max": "max", "memory.current": 5}), 1 << 20)
        self.assertEqual(self.free(**{"memory/memory.limit_in_bytes": 9223372036854771712, "memory/memory.usage_in_bytes": 5}), 1 << 20)

    def test_is_that_of_a_group_with_a_limit(self):
        self.assertEqual(self.free(**{"memory.max": 1000, "memory.current": 300}), 700)
        self.assertEqual(self.free(**{"memory.max": 1000, "memory.current": 1300}), 0)

    def test_version_1_has_other_files(self):
        self.assertEqual(self.free(**{"memory/memory.limit_in_bytes": 1000, "memory/memory.usage_in_bytes": 300}), 700)


class RemediesTest(unittest.TestCase):
    # The address space has room for 16 TiB of all GPUs together.
    def test_enough_memory_is_less_on_many_gpus(self):
        tried = []

        def dry_run(memory_bytes):
            tried.append(memory_bytes)
            return {"out_of_memory": None}, None

        for devices in (1, 8):
            one = object.__new__(remedies.FurtherRuns)
            one.run = unittest.mock.Mock(machine=program.Machine(gpus.GPUS["h100"], 80 << 30, devices))
            one.dry_run = dry_run
            one.with_enough()
        self.assertEqual(tried, [64 * 80 << 30, 2 << 40])

    def need_here(self, needed, less):
        """Returns the needs of a program in a memory of 100, where it takes `needed` in 6400, and `less` in 3200."""
        one = object.__new__(remedies.Remedies)
        one.run = unittest.mock.Mock(machine=program.Machine(gpus.GPUS["h100"], 100, 1))
        one.needed = {"reserved_range": [0, needed]}
        one.further = unittest.mock.Mock(enough_bytes=lambda: 6400)
        one.further.dry_run.side_effect = [less]
        return one.need_here(), one.further.dry_run.call_count

    def test_a_program_that_takes_more_where_more_is_free_is_known_by_a_second_run(self):
        def took(bytes_, refused=None):
            return {"reserved_range": [0, bytes_], "out_of_memory": refused}, None

        self.assertEqual(self.need_here(200, took(0)), (None, 0))
        self.assertEqual(self.need_here(3220, took(1620)), (70, 1))
        self.assertEqual(self.need_here(3220, took(3220)), (None, 1))
        self.assertEqual(self.need_here(3220, took(3000, {"bytes": 9})), (None, 1))
        self.assertEqual(self.need_here(3220, DryRunError("failed")), (None, 1))

    # Ten blocks of ten bytes. A dry run takes `more` bytes than the computed peak, and `for_each` bytes for each block that runs again.
    def blocks_again(self, budget, more, for_each=0):
        tried = []

        def checkpoints(_, budget):
            count = min(10, max(1, -(-(100 - budget) // 10)))
            return {"blocks": [f"blocks.{number}" for number in range(count)], "of": 10, "peak": 100 - 10 * count, "slowdown": 1.0}

        def with_enough(checkpoints):
            count = len(checkpoints)
            tried.append(count)
            return {"peak_live_bytes": 100 - 10 * count + more + for_each * count}, count

        def make(count):
            return unittest.mock.Mock(step={"span": [0, 10 + count]})

        one = object.__new__(remedies.Remedies)
        one.budget, one.graph = budget, unittest.mock.Mock(step={"span": [0, 10]})
        one.further = unittest.mock.Mock(with_enough=with_enough)
        with unittest.mock.patch.object(what_if, "checkpoints", checkpoints), unittest.mock.patch.object(graph, "make", make):
            row = one.blocks_again()
        return tried, row["peak_bytes"], row["fits"]

    def test_more_blocks_run_again_where_a_dry_run_takes_more_than_computed(self):
        self.assertEqual(self.blocks_again(70, 0), ([3], 70, True))
        self.assertEqual(self.blocks_again(72, 5), ([3, 4], 65, True))
        self.assertEqual(self.blocks_again(70, 1), ([3, 4], 61, True))  # at least one more
        self.assertEqual(self.blocks_again(5, 20), ([10], 20, False))  # there are no more

    def test_fewer_blocks_run_again_where_a_dry_run_takes_less_than_computed(self):
        self.assertEqual(self.blocks_again(52, -25), ([5, 3], 45, True))
        self.assertEqual(self.blocks_again(52, 0, for_each=-5), ([5, 3, 4], 40, True))  # three are too few


    def test_the_row_of_a_smaller_batch_has_its_words(self):
        def with_enough(command):
            size = 10 * int(re.search(r"[0-9]+", " ".join(command))[0])
            return {"reserved_range": [0, size], "peak_live_bytes": size}, {"reserved_range": [0, size], "snapshot": None}

        for words, how in (("t.py --batch-size 32 x", "--batch-size 16"), ("t.py batch_size=32 x", "batch_size=16")):
            one, one.further = object.__new__(remedies.Remedies), object.__new__(remedies.FurtherRuns)
            one.run = one.further.run = unittest.mock.Mock(command=words.split())
            one.memory = one.further.memory = one.budget = 160
            one.needed, one.graph, one.further.with_enough = {"reserved_range": [0, 320]}, None, with_enough
            with unittest.mock.patch.object(batches, "computed", lambda *_: None):
                self.assertEqual(one.smaller_batch()["how"], how)


    def part_of_batch(self, budget, step):
        one = object.__new__(remedies.Remedies)
        one.run, one.graph, one.budget = unittest.mock.Mock(command=["python", "t.py"]), step, budget
        return one.smaller_batch()

    def test_a_batch_that_the_command_does_not_name_is_a_part_of_it(self):
        step = Program()
        step.begin()
        step.run("copy", makes=(1,), from_host=True)
        step.run("mm", uses=(1,), makes=(2,))
        step.run("mm", "backward", uses=(1, 2), makes=(3,))
        step = step.graph()
        row = self.part_of_batch(2 * BLOCK, step)
        self.assertAlmostEqual(row.pop("slowdown"), (0.66 + 0.34 * 0.005) / 0.66, places=4)
        self.assertEqual(row, {"name": "batch 0.66 times as large", "peak_bytes": -(-3 * BLOCK * 66 // 100), "checked": False, "fits": True,
                               "how": "fewer or shorter samples in a step"})
        self.assertIsNone(self.part_of_batch(BLOCK // 1000, step))
        self.assertIsNone(self.part_of_batch(BLOCK, None), "a step without a graph")


class IntegratedTest(unittest.TestCase):
    """The remedies for a GPU that shares the memory of the host: nothing moves there."""

    def names(self, gpu, ended_by="work", **options):
        step = Program()
        step.begin()
        step.run("mm", makes=(1,))
        step.run("add", "backward", uses=(1,), makes=(3,))
        tool = Tool({"fits": True, "peak_device_bytes": 1, "seconds": 1.0, "ideal_seconds": 1.0, "ended_by": ended_by})
        options = main.Options(command=["torchrun", "t.py", "a b"], stand_in="", gpu=gpu, **options)
        run = unittest.mock.Mock(command=["python", "t.py", "a b"], tool=tool, options=options, machine=program.Machine(gpus.GPUS[gpu], 1 << 30, 1))
        rank = {"out_of_memory": None, "fits": False, "peak_reserved_bytes": 0, "other_bytes": 0, "peak_live_bytes": 0, "memory_bytes": 1 << 30,
                "outside": {"counts": False, "host_bytes": [0, 0]}}
        with remedies.FurtherRuns(run, {"ranks": [rank], "memory_bytes": 1 << 30}) as further:
            further.dry_run = lambda **_: ({"fits": True, "peak_live_bytes": 1}, {"snapshot": None})
            with unittest.mock.patch.object(graph, "make", lambda _: step.graph()):
                changes = remedies.Remedies(further, {"peak_live_bytes": 1, "reserved_range": [1, 1 << 10]}, None)
            self.assertEqual(changes.budget, 1 << 20)
            changes.smaller_batch = changes.blocks_again = changes.eight_bits = lambda: None
            with unittest.mock.patch.multiple(what_if, bytes_of=lambda *_: 1, state_on_host=lambda *_: (1, 1.0)), \
                    unittest.mock.patch.object(graph, "step_of", lambda _: ({"span": [0, 10**9]}, None)):
                found = changes.find()
        return [one["name"] for one in found], found

    def test_no_row_moves_data_to_the_host(self):
        self.assertEqual(self.names("h100")[0], ["offload and recompute modules", "offload and recompute, chosen by tidepool", "optimizer state on the host"])
        names, found = self.names("gb10")
        self.assertEqual((names, found[0]["how"]), (["recompute, chosen by tidepool"], 'tidepool.torch.compile(model, budget="1MiB")'))

    def test_a_row_tells_that_the_clock_ended_its_search(self):
        how = 'tidepool.torch.compile(model, budget="1MiB")'
        found = {ended_by: self.names("gb10", ended_by)[1][0]["how"] for ended_by in ("proof", "work", "clock")}
        self.assertEqual(found, {"proof": how, "work": how, "clock": f"{how}; the best in 5s of search"})

    def test_rows_have_the_command_as_it_was_given(self):
        how = [self.names("h100", is_function=is_function)[1][0]["how"] for is_function in (False, True)]
        self.assertEqual(how, ["TIDEPOOL_BUDGET=1MiB torchrun t.py 'a b'", 'tidepool.torch.offload(model, budget="1MiB")'])

    # Only a tidepool that pip installed is called by `import torch`.
    def test_a_budget_goes_with_the_command(self):
        def command(words, reads_variable=False):
            return budgets.command_with(words.split(), "1GiB", reads_variable)

        own = "-m tidepool.torch --budget 1GiB"
        with unittest.mock.patch.object(world.target, "interpreter_of", lambda program: "/a/python"), \
                unittest.mock.patch.object(world.target, "program_of", lambda command: command[0]):
            self.assertEqual(command("python t.py -m 3", True), "TIDEPOOL_BUDGET=1GiB python t.py -m 3")
            self.assertEqual(command("/a/python3.11 -u -W ignore t.py -m 3"), f"/a/python3.11 -u -W ignore {own} t.py -m 3")
            self.assertEqual(command("python -u -m pkg.main x"), f"python -u {own} -m pkg.main x")
            self.assertEqual(command("torchrun --nproc-per-node 8 t.py x"), f"torchrun --nproc-per-node 8 {own} t.py x")
            self.assertEqual(command("python -m torch.distributed.run t.py"), f"python -m torch.distributed.run {own} t.py")
            for words in ("./train x", "python -c pass", "python -", "python", "torchrun --no-python ./train"):
                self.assertIsNone(command(words), words)

    def test_the_graph_has_the_rate_of_copies_in_one_memory(self):
        step = Program()
        step.begin()
        step.run("mm", makes=(1,))
        step.run("add", "backward", uses=(1,), makes=(3,))
        self.assertEqual(json.loads(graph.text(step.graph(), "net", gpus.find("gb10")))["link"], 136.5e9)


class TextTest(unittest.TestCase):
    def test_prints_how_large_a_batch_may_be(self):
        found = {"batch": 12, "in_place_of": 4, "times": 3, "is_least": False, "checked": False, "how": "computed from the task graph"}
        self.assertEqual(text.larger_batch(found),
                         [("larger batch", "about 12 in place of 4, computed from the task graph (--fit finds the largest)")])
        self.assertIn("at least 12", text.larger_batch({**found, "is_least": True})[0][1])
        self.assertEqual(text.larger_batch({**found, "checked": True, "how": "checked by a dry run"})[0][1],
                         "12 in place of 4, checked by a dry run")
        self.assertEqual(text.larger_batch({**found, "batch": 4, "times": 1}) + text.larger_batch(None), [])
        self.assertEqual(text.larger_batch({**found, "batch": None, "in_place_of": None, "times": 2.2})[0][1],
                         "about 2.2 times as large, computed from the task graph (--fit finds the largest)")

    def test_prints_what_would_make_a_program_fit(self):
        rank = {"out_of_memory": None, "fits": False, "peak_reserved_bytes": 0, "other_bytes": 0, "peak_live_bytes": 0, "memory_bytes": 3 << 30,
                "outside": {"counts": False, "host_bytes": [0, 0]}}
        answer = {"needed_bytes": None, "memory_bytes": 3 << 30, "ranks": [rank], "remedies": [], "gpu": "NVIDIA GB10", "integrated": False,
                  "follows_memory": False, "no_graph": None}
        self.assertEqual(text.remedies(answer), [])
        answer["needed_bytes"] = 5 << 30
        self.assertEqual(text.remedies(answer), [("needs", "5.0 GiB, 2.0 GiB too much")])
        without = {**answer, "no_graph": "no steps"}
        self.assertEqual(text.remedies(without)[1:], [("to make it fit", "no change is computed: no steps")])
        self.assertEqual(text.remedies({**without, "follows_memory": True})[1:], [])
        batch = {"name": "batch 2 in place of 4", "peak_bytes": 1 << 30, "slowdown": None, "checked": True, "fits": True, "how": "--batch 2"}
        self.assertEqual(text.remedies({**without, "remedies": [batch]})[2:], [("", "no other change is computed: no steps")])
        answer["remedies"] = [
            {"name": "batch 2 in place of 4", "peak_bytes": 1 << 30, "slowdown": 1.25, "checked": True, "fits": True, "how": "--batch 2"},
            {"name": "other", "peak_bytes": 4 << 30, "slowdown": 1.5, "checked": False, "fits": False, "how": "code"},
            {"name": "schedule", "peak_bytes": None, "slowdown": None, "checked": False, "fits": False, "how": "no room"}]
        self.assertEqual(text.remedies(answer)[1:],
                         [("to make it fit", "batch 2 in place of 4   1.0 GiB live   1.25 x the time a sample, checked   --batch 2"),
                          ("", "other                   4.0 GiB live   does not suffice alone, computed"),
                          ("", "schedule                 no schedule   does not suffice alone, computed")])
        answer["integrated"] = True
        self.assertEqual(text.remedies(answer)[-1],
                         ("", "no change moves data to the host: the NVIDIA GB10 shares its memory, so that would leave no more room"))


if __name__ == "__main__":
    unittest.main()
