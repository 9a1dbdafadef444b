#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Task graphs from notes of operators and a record of memory, without PyTorch.

graph_test.py SOURCE
"""
import gzip
import json
import pathlib
import pickle
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(SOURCE / "dryrun"))

from tidepool_dryrun import gpus, graph  # noqa: E402
from tidepool_dryrun.errors import DryRunError  # noqa: E402

BLOCK = 1 << 20
NO_FLAGS = {"may_rerun": True, "statistics": False, "from_host": False}


class Program:
    """Operators that ask for memory, as the parts of a dry run note them. Each operator takes a millisecond."""

    def __init__(self):
        self.events, self.operators, self.sizes, self.now = [], [], {}, 0
        self.step = {"number": 3, "device": 0, "left_out": 0, "weights": {}, "buffers": {}, "gradients": {}, "states": {}, "models": ["Net"],
                     "optimizers": ["SGD"], "differs_from_before": None}

    def take(self, address, blocks=1):
        self.events.append({"action": "alloc", "addr": address, "size": blocks * BLOCK})
        self.sizes[address] = blocks * BLOCK

    def free(self, *addresses):
        for address in addresses:
            self.events.append({"action": "free_completed", "addr": address, "size": self.sizes.pop(address)})

    def begin(self):
        self.step.update(begin=len(self.events), clock=(0, 0))

    def run(self, name, phase="forward", uses=(), makes=(), changes=(), scratch=0, seconds=1e-3, **flags):
        begin = len(self.events), self.now
        for address in makes:
            self.take(address)
        if scratch:
            self.take(999, scratch)
            self.free(999)
        self.now += int(seconds * 1e9)
        self.operators.append((name, phase, "layer", "train.py:1", begin, (len(self.events), self.now), (*uses, *changes), tuple(changes),
                               {**NO_FLAGS, **flags}))

    def graph(self):
        self.step.update(end=len(self.events), clock=(0, self.now), operators=self.operators, requested_bytes=sum(self.sizes.values()))
        return graph.Graph(self.step, self.events)

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
            for step, error in (({"left_out": 5, "number": 2, "operators": [0] * 3}, "step 2 has 8 operators, expected at most 3"),
                                ({"left_out": 0, "device": 1}, "on device 1, and device 0 takes most memory")):
                pathlib.Path(folder, "step-7").write_bytes(pickle.dumps(step))
                with self.assertRaisesRegex(DryRunError, error):
                    graph.make(rank)

    def test_writes_a_file_by_its_name(self):
        program = Program()
        program.begin()
        program.run("mm", makes=(1,))
        program.run("mm", "backward", uses=(1,), makes=(2,))
        program.graph()
        with tempfile.TemporaryDirectory() as folder:
            snapshot = pathlib.Path(folder, "process-7.pickle")
            snapshot.write_bytes(pickle.dumps({"device_traces": [[*program.events, {"action": "segment_alloc", "size": 1 << 30}]]}))
            pathlib.Path(folder, "step-7").write_bytes(pickle.dumps(program.step))
            rank = {"snapshot": str(snapshot), "steps": 3, "device": 0}
            files = [pathlib.Path(folder, name) for name in ("step.json", "step.json.gz")]
            for file in files:
                answer = graph.write(rank, "train.py", gpus.find("h100"), {"peak_live_bytes": 2 * BLOCK}, str(file))
            self.assertEqual(answer, {"file": str(files[1]), "step": 3, "tasks": 2, "data": 2, "seconds": 2e-3, "peak_bytes": 2 * BLOCK,
                                      "notes": []})
            self.assertEqual(json.loads(files[0].read_text())["tidepool_graph"], 2)
            self.assertEqual(gzip.decompress(files[1].read_bytes()), files[0].read_bytes())


if __name__ == "__main__":
    unittest.main()
