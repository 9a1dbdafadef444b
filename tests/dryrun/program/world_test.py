#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of many, as far as it needs no PyTorch: its options and torchrun's, the processes of ranks, and the store.

world_test.py SOURCE
"""
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

SOURCE = pathlib.Path(sys.argv.pop(1))
sys.path[:0] = [str(SOURCE / "dryrun" / "program"), str(SOURCE / "dryrun" / "program" / "site")]

import _tidepool_world  # noqa: E402

from tidepool_dryrun import main, world  # noqa: E402

PYTHON = sys.executable


def found(command, **options):
    return world.find(main.Options(command=command, stand_in="", **options))


class FindTest(unittest.TestCase):
    def refused(self, expected, command=("python", "train.py"), **options):
        with self.assertRaisesRegex(ValueError, expected):
            found(list(command), **options)

    def test_a_program_of_one_rank_stays_as_it_is(self):
        one, command = found(["python", "train.py", "--ranks"], world=1024, ranks="3")
        self.assertEqual((one.size, one.ranks, one.per_node, one.nodes), (1024, (3,), 8, 128))
        self.assertEqual(command, ["python", "train.py", "--ranks"])
        self.assertEqual(found(["python", "train.py"], world=4)[0].ranks, (0,))
        self.assertEqual(found(["python", "train.py"], world=4)[0].per_node, 4)
        self.assertEqual(found(["python", "train.py"], world=12, devices=6)[0].nodes, 2)
        self.assertEqual(found(["python", "train.py"], world=4, gpu="gb10")[0].nodes, 4, "a GPU is a part of its host")

    def test_without_options_all_ranks_run(self):
        command = ["torchrun", "--nproc-per-node", "8", "train.py"]
        self.assertEqual(found(command, devices=8), (None, command))

    def test_several_ranks(self):
        self.assertEqual(found(["a"], world=1024, ranks="1023,0,511,0")[0].ranks, (0, 511, 1023))
        one = found(["a"], world=1024, ranks="representative")[0]
        self.assertEqual((one.ranks, one.adds_stages), ((0, 1023), True))

    def test_reads_the_options_of_torchrun(self):
        words = ["--nnodes=128", "--nproc_per_node", "8", "--rdzv-backend", "c10d", "--rdzv-endpoint=host:29500", "--standalone"]
        run = ["-m", "torch.distributed.run"]
        one, command = found([PYTHON, *run, *words, "train.py", "--batch", "4"], ranks="1000")
        self.assertEqual((one.size, one.per_node), (1024, 8))
        self.assertEqual(command, [PYTHON, "train.py", "--batch", "4"])
        self.assertEqual(found([PYTHON, "-u", *run, *words, "-m", "train", "-m"], ranks="0")[1], [PYTHON, "-u", "-m", "train", "-m"])
        self.assertEqual(found([PYTHON, *run, "--no-python", *words, "./train.sh"], ranks="0")[1], ["./train.sh"])
        self.assertEqual(found([PYTHON, *run, "--nproc-per-node=gpu", "train.py"], ranks="0", devices=6)[0].size, 6)

    def test_short_options_of_torchrun_may_hold_their_values(self):
        run = [PYTHON, "-m", "torch.distributed.run"]
        self.assertEqual(found([*run, "-r3", "-t", "3", "--nproc-per-node=2", "train.py"], ranks="1")[1], [PYTHON, "train.py"])

    def test_torchrun_reads_numbers_of_its_environment(self):
        run = [PYTHON, "-m", "torch.distributed.run"]
        with unittest.mock.patch.dict(os.environ, PET_NNODES="4", PET_NPROC_PER_NODE="2"):
            one, _ = found([*run, "train.py"], ranks="7")
            self.assertEqual((one.size, one.per_node), (8, 2))
            self.assertEqual(found([*run, "--nnodes=2", "train.py"], ranks="0")[0].size, 4)

    def test_the_options_of_torchrun_end_at_two_dashes(self):
        run = [PYTHON, "-m", "torch.distributed.run", "--nproc-per-node=2"]
        self.assertEqual(found([*run, "--", "train.py", "--", "x"], ranks="0")[1], [PYTHON, "train.py", "--", "x"])

    def test_ranks_may_see_one_device(self):
        run = [PYTHON, "-m", "torch.distributed.run", "--virtual-local-rank", "--nproc-per-node=2", "train.py"]
        one, command = found(run, ranks="0")
        self.assertEqual((one.one_device, command), (True, [PYTHON, "train.py"]))
        self.assertFalse(found(["train.py"], world=2)[0].one_device)

    def test_the_older_launcher_gives_the_rank_as_an_option(self):
        def option_of(*words):
            one, command = found([PYTHON, "-u", "-m", *words], ranks="0")
            return one.rank_option_at and command[:one.rank_option_at]

        self.assertEqual(option_of("torch.distributed.launch", "train.py", "-x"), [PYTHON, "-u", "train.py"])
        self.assertEqual(option_of("torch.distributed.launch", "-m", "train", "-x"), [PYTHON, "-u", "-m", "train"])
        self.assertIsNone(option_of("torch.distributed.launch", "--use_env", "train.py"))
        self.assertIsNone(option_of("torch.distributed.run", "train.py"))

    def test_the_script_torchrun_names_its_interpreter(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "torchrun")
            script.write_text(f"#!{PYTHON}\n")
            script.chmod(0o755)
            self.assertEqual(found([str(script), "--nproc-per-node=2", "train.py"], ranks="1")[1], [PYTHON, "train.py"])

    def test_torchrun_may_follow_wrappers(self):
        run = [PYTHON, "-m", "torch.distributed.run", "--nproc-per-node=2", "train.py"]
        one, command = found(["nice", "env", "A=1", *run], ranks="1")
        self.assertEqual((one.size, command), (2, ["nice", "env", "A=1", PYTHON, "train.py"]))
        self.assertEqual(found(["bash", "-c", f"B=2 {shlex.join(run)}"], ranks="1")[1], ["env", "B=2", PYTHON, "train.py"])
        one, command = found(["env", "A=1", PYTHON, "-m", "torch.distributed.launch", "train.py", "-x"], ranks="0")
        self.assertEqual(command[:one.rank_option_at], ["env", "A=1", PYTHON, "train.py"])
        self.assertEqual(found(["bash", "-c", "python train.py"], world=2)[1], ["bash", "-c", "python train.py"])

    def test_bad_input_is_named(self):
        torchrun = (PYTHON, "-m", "torch.distributed.run")
        self.refused("rank 8 is outside of a world of 8 ranks, expected 0 to 7", world=8, ranks="0,8")
        self.refused("'x' is no rank", world=8, ranks="0,x")
        self.refused("'' is no rank", world=8, ranks="0,")
        self.refused("--rank 3 without --world", ranks="3")
        self.refused("--ranks 3,5 without --world", ranks="3,5")
        self.refused("12 ranks on nodes of 8 GPUs, expected a number that divides the ranks", world=12)
        self.refused("accelerate starts ranks of its own", ("accelerate", "launch", "train.py"), world=8)
        self.refused("accelerate starts ranks of its own", ("env", "A=1", "accelerate", "launch", "train.py"), world=8)
        self.refused("--devices 2, but torchrun starts 4 ranks", ("bash", "-c", shlex.join([*torchrun, "--nproc-per-node=4", "a.py"])), ranks="0",
                     devices=2)
        self.refused("--world 8, but torchrun starts 2 nodes of 8 ranks, which are 16", (*torchrun, "--nnodes", "2", "--nproc-per-node", "8", "a.py"),
                     world=8)
        self.refused("--nnodes 1:4 is an elastic job", (*torchrun, "--nnodes", "1:4", "a.py"), world=8)
        self.refused("--nproc-per-node x, expected a whole number", (*torchrun, "--nproc-per-node", "x", "a.py"), world=8)
        self.refused("torchrun starts 262144 nodes of 8 ranks, which are 2097152, expected at most 1048576",
                     (*torchrun, "--nnodes=262144", "--nproc-per-node=8", "a.py"), ranks="0")
        self.refused("--nnodes of torchrun has no value", (*torchrun, "--nnodes"), world=8)
        self.refused("torchrun without a program", (*torchrun, "--nnodes=2"), world=8)
        self.refused("--devices 2, but torchrun starts 4 ranks", (*torchrun, "--nproc-per-node=4", "a.py"), ranks="0", devices=2)


class StartTest(unittest.TestCase):
    """The ranks write their environment into files."""
    PROGRAM = """
import os, pathlib, sys, time
folder, rank = pathlib.Path(sys.argv[1]), os.environ["RANK"]
role = "helps" if "TIDEPOOL_DRYRUN_HELPS" in os.environ else "asked"
names = ("WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
(folder / f"ran-{role}-{rank}").write_text(" ".join([*(os.environ[name] for name in names), *sys.argv[2:]]))
"""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, program, ranks, size=16, per_node=8, *of_world):
        one = world.World(size, ranks, per_node, *of_world)
        command = one.start([PYTHON, "-c", self.PROGRAM + program, str(self.folder), "x"], self.folder)
        done = subprocess.run(command, check=False, timeout=60, stderr=subprocess.PIPE, text=True)
        self.said = done.stderr
        return done.returncode

    def ran(self):
        return sorted(path.name for path in self.folder.glob("ran-*"))

    def test_each_rank_has_its_environment(self):
        self.assertEqual(self.start("", (0, 11)), 0)
        self.assertEqual(self.ran(), ["ran-asked-0", "ran-asked-11"])
        self.assertEqual((self.folder / "ran-asked-11").read_text(), "16 3 8 1 x")

    def test_a_rank_has_the_variables_of_other_launchers(self):
        names = [f"SLURM_{name}" for name in ("PROCID", "NTASKS", "LOCALID")] + [f"OMPI_COMM_WORLD_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK")]
        self.start(f"(folder / 'others').write_text(' '.join(os.environ[name] for name in {names}))", (11,))
        self.assertEqual((self.folder / "others").read_text(), "11 16 3 11 16 3")

    # The first one is ended with the rank, amid its work.
    def test_a_rank_that_helps_says_why_it_fails(self):
        status = self.start("""
print("rank", rank, file=sys.stderr, flush=True)
if role == "asked":
    for one in (5, 6):
        (folder / f"need-{one}").touch()
        while not (folder / f"ran-helps-{one}").exists(): time.sleep(0.01)
    while not (folder / "ended-6").exists(): time.sleep(0.01)
elif rank == "5":
    while True: time.sleep(0.01)
else:
    sys.exit("no data")
""", (2,))
        self.assertEqual((status, self.said), (0, "rank 2\nrank 6\nno data\n"))

    def test_a_rank_has_the_option_of_its_launcher(self):
        self.start("", (11,), 16, 8, False, False, 4)
        self.assertEqual((self.folder / "ran-asked-11").read_text(), "16 3 8 1 --local-rank=3 x")

    def test_a_rank_may_see_its_device_alone(self):
        self.start("(folder / 'seen').write_text(os.environ['CUDA_VISIBLE_DEVICES'])", (11,), 16, 8, False, True)
        self.assertEqual((self.folder / "ran-asked-11").read_text(), "16 0 8 1 x")
        self.assertEqual((self.folder / "seen").read_text(), "3")

    def test_a_rank_whose_value_is_needed_runs_until_it_has_sent_it(self):
        status = self.start("""
if role == "asked":
    (folder / "need-5").touch()
    while not (folder / "ran-helps-5").exists(): time.sleep(0.01)
else:
    while True: time.sleep(0.01)
""", (2,))
        self.assertEqual(status, 0)
        self.assertEqual(self.ran(), ["ran-asked-2", "ran-helps-5"])

    def test_the_end_of_a_rank_is_noted(self):
        status = self.start("""
if role == "helps": sys.exit(7)
(folder / "need-5").touch()
while not (folder / "ended-5").exists(): time.sleep(0.01)
sys.exit(3)
""", (2,))
        self.assertEqual(status, 3)

    def test_the_signal_of_a_rank_is_its_status(self):
        self.assertEqual(self.start("os.kill(os.getpid(), 9)", (1,)), -9)

    def test_stages_of_a_pipeline_are_added(self):
        self.start("""
if rank == "0": (folder / "stages").write_text("[0, 4, 8, 12]")
""", (0, 15), 16, 8, True)
        self.assertEqual(self.ran(), [f"ran-asked-{rank}" for rank in sorted(map(str, (0, 4, 8, 12, 15)))])


class StoreTest(unittest.TestCase):
    def setUp(self):
        self.store = _tidepool_world.LocalStore(3)

    def test_keeps_what_this_rank_sets(self):
        self.store.set("a", "b")
        self.assertEqual(self.store.get("a"), b"b")
        self.assertEqual((self.store.add("n", 2), self.store.add("n", 3)), (2, 5))
        self.assertEqual(self.store.compare_set("a", "b", "c"), b"c")
        self.assertEqual(self.store.compare_set("a", "b", "d"), b"c")
        self.assertTrue(self.store.delete_key("a"))
        self.assertFalse(self.store.check(["a"]))

    def test_answers_for_other_ranks_with_its_own(self):
        self.store.set("host of rank3", "here")
        self.assertEqual(self.store.get("host of rank17"), b"here")
        self.assertEqual(len(self.store.get("default_pg/0//cuda//0")), 128)
        self.assertEqual(len(self.store.get("default_pg/0//cuda//0:1")), 128)
        self.store.wait(["anything"])
        with self.assertRaisesRegex(RuntimeError, "waits for the key 'name' of a store"):
            self.store.get("name")


if __name__ == "__main__":
    unittest.main()
