#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of many beside the same rank of a full run, with the tool and an interpreter that has PyTorch.

world_test.py TOOL PYTHON
"""
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from quick import slow

TOOL, PYTHON = sys.argv.pop(1), sys.argv.pop(1)
PROGRAM = str(pathlib.Path(__file__).parent / "parallel.py")
LLAMA = str(pathlib.Path(__file__).parent / "llama.py")
TORCHRUN = (PYTHON, "-m", "torch.distributed.run", "--nproc-per-node")
WAYS = ["all_to_all", "checkpoint", "context", "ddp", "dual_pipe_v", "experts", "fsdp1", "fsdp2", "hsdp", "interleaved", "messages", "objects",
        "pipeline", "tensor", "zero", "zero_bubble", "zero_bubble_v"]


def dry_run(*arguments):
    return subprocess.run([TOOL, "dryrun", "--json", *arguments], capture_output=True, text=True, check=False)


def answer(*arguments):
    """Returns the JSON, and the bytes that each rank and way allocated and reserved at most, as the program prints them."""
    done = dry_run(*arguments)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert not found["so_far"], [(rank["rank"], rank["stopped_at"]) for rank in found["ranks"]]
    peaks = re.findall(r"^PEAK (\d+) (\w+) (\d+) (\d+)$", done.stderr, re.MULTILINE)
    return found, {(int(rank), way): (int(live), int(reserved)) for rank, way, live, reserved in peaks}


def processes_of(folder):
    """Returns the processes of which a variable names the folder."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if os.fsencode(folder) in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            pass  # it has ended, or is of another user
    return found


class WorldTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, lines):
        path = self.folder / "program.py"
        path.write_text("import torch, torch.distributed as dist\n" + lines)
        return (PYTHON, str(path))

    # A kernel counts the tokens for each expert, so the splits are zeros.
    def test_an_exchange_of_unknown_splits_is_balanced(self):
        done = dry_run("--steps", "0", "--world", "4", "--", *self.program(
            "import torch.distributed._functional_collectives as collectives\n"
            "dist.init_process_group('nccl')\n"
            "tokens = torch.zeros(1 << 15, 1024, device='cuda')\n"
            "splits = torch.bincount(torch.zeros(1 << 15, dtype=torch.int64, device='cuda'), minlength=4).tolist()\n"
            "received = tokens.new_empty(sum(splits), 1024)\n"
            "dist.all_to_all_single(received, tokens, splits, splits)\n"
            "assert len(received) == len(tokens)\n"
            "tokens.requires_grad_()\n"
            "collectives.all_to_all_single_autograd(tokens, splits, splits, dist.group.WORLD).sum().backward()\n"
            "dist.all_to_all_single(received[:0], received[:0], splits, splits)\n"))
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual([(one["operation"], one["frame"].rpartition(":")[2]) for one in found["assumed"]],
                         [("all_to_all_single with splits of zero", line) for line in ("7", "10", "11")])
        self.assertGreaterEqual(found["peak_live_bytes"], 4 * 128 << 20)  # with the gradient of the tokens and what was received for it

    def test_an_exchange_of_lists_without_rows_is_told(self):
        done = dry_run("--steps", "0", "--world", "4", "--", *self.program(
            "dist.init_process_group('nccl')\n"
            "tokens = torch.zeros(1 << 15, 1024, device='cuda')\n"
            "counts = torch.bincount(torch.zeros(1 << 15, dtype=torch.int64, device='cuda'), minlength=4).tolist()\n"
            "dist.all_to_all([tokens.new_empty(count, 1024) for count in counts], [tokens[:count] for count in counts])\n"
            "dist.all_to_all([tokens.new_empty(2, 1024) for _ in counts], [tokens[:count + 2] for count in counts])\n"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([(one["operation"], one["frame"].rpartition(":")[2]) for one in json.loads(done.stdout)["assumed"]],
                         [("all_to_all of tensors without rows", "5")])

    # The first collective takes the least that was measured, so a program that takes all free memory leaves it.
    def test_nccl_takes_memory_before_the_program(self):
        lines = ("dist.init_process_group('nccl')\n"
                 "x = torch.zeros(1 << 18, device='cuda')\n"
                 "def fill(): return torch.empty(torch.cuda.mem_get_info()[0] >> 21 << 21, dtype=torch.uint8, device='cuda')\n"
                 "before = torch.cuda.mem_get_info()[0]\n"
                 "dist.all_reduce(x)\n"
                 "assert before - torch.cuda.mem_get_info()[0] == 240 << 20\n"
                 "rest = fill()\n")
        found, _ = answer("--steps", "0", "--world", "4", "--", *self.program(lines))
        self.assertEqual(found["outside"]["nccl_bytes"][0], 240 << 20)
        self.assertLess(found["memory_bytes"] - found["peak_reserved_bytes"] - sum(found["outside"][one][0] for one in ("context_bytes", "nccl_bytes")),
                        2 << 20)
        command = self.program(lines.replace("before =", "rest, before = fill(),"))
        done = dry_run("--steps", "0", "--world", "4", "--", *command)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(json.loads(done.stdout)["out_of_memory"], {"bytes": 240 << 20, "frame": f"{command[1]}:6"})

    # The stand-in for the runtime knows PyTorch's watchdog by its name.
    def test_the_watchdog_has_its_name(self):
        lines = ("import glob, pathlib\n"
                 "dist.init_process_group('nccl')\n"
                 "dist.all_reduce(torch.zeros(1, device='cuda'))\n"
                 "while 'pt_nccl_watchdg\\n' not in [pathlib.Path(path).read_text() for path in glob.glob('/proc/self/task/*/comm')]: pass\n")
        answer("--steps", "0", "--world", "2", "--rank", "0", "--", *self.program(lines))

    # PyTorch's watchdog keeps the tensors of a collective for up to 0.1 s after its end, unless calls wait for it themselves.
    @unittest.mock.patch.dict(os.environ, TORCH_NCCL_BLOCKING_WAIT="1")
    def compare_with_all(self, size, first, second):
        full, of_all = answer("--steps", "0", "--devices", f"{size}", "--", *TORCHRUN, f"{size}", PROGRAM)
        some, alone = answer("--steps", "0", "--ranks", f"{first},{second}", "--", *TORCHRUN, f"{size}", PROGRAM)
        self.assertEqual(some["world"]["size"], size)
        self.assertEqual([(rank["rank"], rank["device"]) for rank in some["ranks"]], [(first, first), (second, second)])
        self.assertEqual(sorted(alone), [(rank, way) for rank in (first, second) for way in WAYS])
        for place in alone:
            self.assertEqual(alone[place][0], of_all[place][0], place)
        for place, (_, reserved) in alone.items():
            self.assertLess(abs(reserved / of_all[place][1] - 1), 0.1, place)
        for rank in some["ranks"]:
            self.assertEqual(rank["peak_live_bytes"], full["ranks"][rank["rank"]]["peak_live_bytes"])

    # The middle ranks run too, since the last one needs shapes of the stages before it: they are no part of the answer.
    def test_a_rank_alone_takes_what_it_takes_among_all(self):
        self.compare_with_all(4, 0, 3)

    @slow
    def test_a_rank_alone_takes_what_it_takes_among_eight(self):
        self.compare_with_all(8, 0, 5)

    @slow
    def test_a_rank_of_a_large_world(self):
        with socket.socket() as taken:  # no rank opens a port
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            with unittest.mock.patch.dict(os.environ, MASTER_PORT=str(port), TMPDIR=str(self.folder)):
                found, _ = answer("--world", "1024", "--rank", "1000", "--", PYTHON, PROGRAM, "fsdp2")
        # Nothing is left: no process, and so no port, and neither a socket nor another file.
        self.assertEqual((processes_of(self.folder), list(self.folder.iterdir())), ([], []))
        self.assertEqual([(rank["rank"], rank["device"]) for rank in found["ranks"]], [(1000, 0)])
        self.assertEqual(found["steps"], 2)

    @slow
    def test_a_model_of_405_billion_parameters_takes_little_of_the_host(self):
        command = [TOOL, "dryrun", "--json", "--gpu", "h200", "--world", "1024", "--no-init", "--", PYTHON, LLAMA, "405b"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
            found = json.load(run.stdout)
            _, status, used = os.wait4(run.pid, 0)
            run.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual((run.returncode, found["steps"], found["fits"]), (0, 3, True))
        self.assertGreater(found["peak_live_bytes"], 126 * 8192 * 16384 * 2)  # the inputs of the blocks
        self.assertLess(used.ru_maxrss << 10, 8 << 30)
        self.assertLess(used.ru_utime + used.ru_stime, 60)  # of the processor: a third of it, beside other work

    # A group that is bound to a device would have its parts split off by NCCL, which needs all ranks.
    @slow
    def test_groups_and_their_values(self):
        found, _ = answer("--steps", "0", "--world", "16", "--rank", "3", "--", *self.program(
            "from torch.distributed.device_mesh import init_device_mesh\n"
            "torch.cuda.set_device(3)\n"
            "dist.init_process_group('cpu:gloo,cuda:nccl', device_id=torch.device('cuda', 3))\n"
            "mesh = init_device_mesh('cuda', (8, 2), mesh_dim_names=('a', 'b'))\n"
            "assert mesh.get_coordinate() == (1, 1) and mesh['b'].get_group().size() == 2\n"
            "part = dist.split_group(split_ranks=[list(range(4)), list(range(4, 16))])\n"
            "assert (part.rank(), part.size()) == (3, 4)\n"
            "dist.all_reduce(torch.ones(3, device='cuda'), group=part)\n"
            "host = dist.new_group(backend='gloo')\n"
            "def values(call, *tensors, **named):\n"
            "    call(*tensors, group=host, **named)\n"
            "    return tensors[0].tolist() if isinstance(tensors[0], torch.Tensor) else [one.tolist() for one in tensors[0]]\n"
            "assert values(dist.all_reduce, torch.ones(1)) == [16]\n"
            "assert values(dist.all_gather, [torch.empty(1) for _ in range(16)], torch.ones(1)) == [[1]] * 16\n"
            "assert values(dist.broadcast, torch.ones(1), src=0) == [1]\n"
            "assert values(dist.scatter, torch.ones(1), None, src=0) == [0]\n"
            "assert values(dist.recv, torch.ones(1), src=0) == [0]\n"
            "assert values(dist.all_to_all_single, torch.empty(16), torch.arange(16.0)) == [3] * 16\n"
            "dist.monitored_barrier(host)\n"
            "dist.distributed_c10d._set_pg_timeout(dist.default_pg_timeout, host)\n"
            "dist.destroy_process_group()\n"))
        self.assertEqual([one["ranks"] for one in found["outside"]["nccl"]], [16, 8, 2, 4])  # each as soon as its group is made

    # The first rank that makes its stage names those of its pipeline: 0 and 4, or 3 and 7.
    @slow
    def test_a_rank_of_each_stage_is_representative(self):
        found, _ = answer("--steps", "0", "--world", "8", "--ranks", "representative", "--", *self.program(
            "from torch.distributed.pipelining import PipelineStage\n"
            "mesh = dist.device_mesh.init_device_mesh('cuda', (2, 4), mesh_dim_names=('pipeline', 'data'))\n"
            "part = torch.nn.Linear(8, 8, device='cuda')\n"
            "PipelineStage(part, mesh.get_local_rank('pipeline'), 2, torch.device('cuda'), group=mesh.get_group('pipeline'))\n"))
        self.assertIn((found["world"]["stages"], [rank["rank"] for rank in found["ranks"]]), [([0, 4], [0, 4, 7]), ([3, 7], [0, 3, 7])])
        self.assertTrue(found["world"]["representative"])

    @slow
    def test_a_value_that_no_rank_sends_is_named(self):
        done = dry_run("--world", "4", "--rank", "1", "--", *self.program(
            "dist.init_process_group('nccl')\n"
            "if dist.get_rank() == 1: dist.recv_object_list([None], src=0, device=torch.device('cuda'))\n"))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.splitlines()[-1], r"RuntimeError at .*program.py:3: recv_object_list waits for a value of rank 0, which has ended")

    def test_ranks_save_their_parts_of_a_checkpoint_apart(self):
        saved = self.folder / "saved"
        done = dry_run("--steps", "0", "--world", "4", "--ranks", "1,2", "--", *self.program(
            "import torch.distributed.checkpoint as files\n"
            "dist.init_process_group('nccl')\n"
            f"files.save({{'value': torch.ones(2, device='cuda'), 'rank': dist.get_rank()}}, checkpoint_id='{saved}')\n"
            "state = {'value': torch.zeros(2, device='cuda'), 'rank': None}\n"
            f"files.load(state, checkpoint_id='{saved}')\n"
            "assert state['rank'] == dist.get_rank(), state\n"))
        self.assertEqual(done.returncode, 0, done.stderr)
        # Where the program says, and one rank beside it.
        self.assertEqual(sorted(len(path.relative_to(saved).parts) for path in saved.rglob(".metadata")), [1, 2])

    def test_a_program_of_another_world_is_refused(self):
        done = dry_run("--world", "4", "--rank", "1", "--", *self.program(
            "dist.init_process_group('nccl', init_method='tcp://localhost:1', rank=1, world_size=2)\n"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("the program made a group of 2 ranks as rank 1 of it, expected rank 1 of 4", done.stderr.splitlines()[-1])
        done = dry_run("--world", "4", "--", *self.program("torch.multiprocessing.spawn(print, nprocs=4)\n"))
        self.assertIn("the program starts ranks of its own, but runs as rank 0 of 4", done.stderr.splitlines()[-1])
        done = dry_run("--world", "4", "--", *self.program("torch.zeros(1, device='cuda')\n"))
        self.assertIn("--world 4, but the program made no process group", done.stderr.splitlines()[-1])

    def test_the_fewest_gpus_of_a_layout(self):
        done = dry_run("--steps", "0", "--memory", "2GiB", "--fit", "tensor=4,1,2", "--fit", "batch=1..2", "--world", "tensor", "--jobs", "2",
                       "--", *self.program("import sys\n"
                                           "dist.init_process_group('nccl')\n"
                                           "assert dist.get_world_size() == int(sys.argv[1])\n"
                                           "kept = torch.empty((1 << 29) + (2 << 30) // int(sys.argv[1]), dtype=torch.uint8, device='cuda')\n"
                                           "data = torch.empty(int(sys.argv[2]) << 29, dtype=torch.uint8, device='cuda')\n"),
                       "{tensor}", "{batch}")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(found["fewest_gpus"], 2)
        self.assertEqual([(one["values"], one["fits"], one["largest"]) for one in found["layouts"]],
                         [({"tensor": "1"}, False, None), ({"tensor": "2"}, True, 1)])
        self.assertEqual(found["layouts"][1]["peak_reserved_bytes"], 2 << 30)


if __name__ == "__main__":
    unittest.main()
