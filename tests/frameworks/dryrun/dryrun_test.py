#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dry runs of small programs, with the tool and an interpreter that has PyTorch.

dryrun_test.py TOOL PYTHON
"""
import json
import os
import pathlib
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

from quick import slow

TOOL, PYTHON = sys.argv.pop(1), sys.argv.pop(1)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "dryrun" / "program"))

from tidepool_dryrun import elf_reader, elf_writer, libraries  # noqa: E402

TRAIN = str(pathlib.Path(__file__).parent / "train.py")
WEIGHTS = 4 * (2 * 4 * 1024 * 1024 + 5 * 1024)  # bytes of train.py's default model
RETURN_1 = bytes.fromhex("b801000000c3")  # x86-64: mov eax, 1; ret


def dry_run(*arguments, command=(PYTHON, TRAIN)):
    return subprocess.run([TOOL, "dryrun", *arguments, "--", *command], capture_output=True, text=True, check=False)


def answer(*arguments, command=(PYTHON, TRAIN)):
    done = dry_run("--json", *arguments, command=command)
    assert done.returncode in (0, 2), done.stderr
    return json.loads(done.stdout)


def masked(printed):
    """Returns a printed answer without seconds and folders, and without the schedule, which depends on how far its search came."""
    printed = re.sub(r"chosen by tidepool .*", "chosen by tidepool", printed)
    return re.sub(r" in [\d.]+ s,", " in N s,", re.sub(r" at /\S*/", " at ", printed))


def has_own_kernels(found):
    """Returns whether that PyTorch lets a kernel that replaces one of its own call it."""
    return tuple(map(int, found["torch"].split(".")[:2])) >= (2, 9)


class DryRunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, lines):
        path = self.folder / "program.py"
        path.write_text(lines)
        return (PYTHON, str(path))

    def info(self, snapshot):
        done = subprocess.run([TOOL, "info", str(snapshot), "--json"], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    # PyTorch ends the second forward pass by an exception inside an operator.
    def test_a_checkpoint_ends_its_second_pass_early(self):
        found = answer(command=self.program(
            "import torch\n"
            "from torch.utils.checkpoint import checkpoint\n"
            "block = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(1024, 256),\n"
            "                            torch.nn.Dropout(0.1)).cuda()\n"
            "optimizer = torch.optim.AdamW(block.parameters())\n"
            "for _ in range(3):\n"
            "    values = torch.randn(64, 256, device='cuda', requires_grad=True)\n"
            "    for _ in range(2):\n"
            "        values = checkpoint(block, values, use_reentrant=False)\n"
            "    values.sum().backward()\n"
            "    optimizer.step()\n"))
        self.assertEqual((found["steps"], found["fits"]), (3, True))

    def test_says_what_a_program_needs(self):
        snapshot, report = self.folder / "snapshot.pickle", self.folder / "report.html"
        found = answer("--snapshot", str(snapshot), "--report", str(report))
        self.assertEqual(found["steps"], 3)
        self.assertEqual(found["gpu"], "NVIDIA H100 80GB HBM3")
        self.assertTrue(found["dry_run"] and found["fits"])
        self.assertIsNone(found["out_of_memory"])
        # Weights, gradients and two moments of AdamW.
        self.assertGreaterEqual(found["peak_live_bytes"], 4 * WEIGHTS)
        self.assertLessEqual(found["peak_live_bytes"], found["planned_bytes"])
        self.assertLessEqual(found["planned_bytes"], found["peak_reserved_bytes"])
        least, most = found["reserved_range"]
        self.assertTrue(least <= found["peak_reserved_bytes"] <= most)
        self.assertIn("<title>train.py on NVIDIA H100 80GB HBM3", report.read_text()[:2000])
        info = self.info(snapshot)
        self.assertEqual(info["trace"]["peak_live_bytes"], found["peak_live_bytes"])
        # The run has falling addresses.
        self.assertEqual(info["per_device"][0]["pytorch"]["falling_reserved_bytes"], found["peak_reserved_bytes"])

    def test_a_table_by_module(self):
        command = self.program(
            "import torch\n"
            "class Block(torch.nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.up, self.down = torch.nn.Linear(512, 2048), torch.nn.Linear(2048, 512)\n"
            "    def forward(self, x):\n"
            "        return x + self.down(torch.nn.functional.gelu(self.up(x)))\n"
            "class Net(torch.nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.layers = torch.nn.ModuleList([Block(), Block()])\n"
            "        self.head = torch.nn.Linear(512, 16, bias=False)\n"
            "    def __len__(self): return 0\n"
            "    def forward(self, x):\n"
            "        for layer in self.layers: x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)\n"
            "        return self.head(x)\n"
            "import torch.utils.checkpoint\n"
            "net = Net().cuda()\n"
            "optimizer = torch.optim.SGD(net.parameters(), momentum=0.9)\n"
            "for batch in (1, 1, 1, 256):\n"
            "    net(torch.zeros(batch, 512, device='cuda')).sum().backward()\n"
            "    optimizer.step()\n")
        plain = answer("--steps", "3", command=command)
        found = answer("--steps", "3", "--by", "module", command=command)
        self.assertEqual(found["peak_live_bytes"], plain["peak_live_bytes"])
        self.assertIsNone(plain["ranks"][0]["modules"])
        rows = {row["module"]: row for row in found["ranks"][0]["modules"]}
        self.assertAlmostEqual(sum(row["bytes"] for row in rows.values()), found["peak_live_bytes"], delta=512 * 40)
        # Gradients of earlier steps are there, which add up.
        for module, weights in (("layers.0.up", 513 * 2048), ("layers.1.down", 2049 * 512), ("head", 512 * 16)):
            for kind in ("weights_bytes", "gradients_bytes", "optimizer_bytes"):
                self.assertEqual(rows[module][kind], 4 * weights, (module, kind))
        # A block of a checkpoint runs again in the backward pass.
        found = answer("--steps", "4", "--by", "module", command=command)
        rows = {row["module"]: row for row in found["ranks"][0]["modules"]}
        self.assertGreaterEqual(rows["layers.1.up"]["activations_bytes"], 4 * 256 * 2048)
        done = dry_run("--by", "module", command=command)
        self.assertRegex(done.stdout, r"\n    layers\.\*\.up +x 2 .*MiB")

    def test_the_workspace_of_the_backward_pass_is_no_gradient(self):
        found = answer(command=self.program(
            "import torch\n"
            "model = torch.nn.Linear(1 << 12, 1 << 12, bias=False, device='cuda')\n"
            "optimizer = torch.optim.AdamW(model.parameters())\n"
            "for _ in range(3):\n"
            "    optimizer.zero_grad()\n"
            "    model(torch.zeros(1, 1 << 12, device='cuda')).sum().backward()\n"
            "    optimizer.step()\n"))["ranks"][0]["categories"]
        self.assertEqual((found["gradients"], found["workspace"]), (64 << 20, 2 * (32 << 20)))

    def test_forked_workers_are_no_part_of_a_table(self):
        found = answer("--steps", "0", "--by", "module", command=self.program(
            "import torch\n"
            "class Data(torch.utils.data.Dataset):\n"
            "    layer = torch.nn.Linear(4, 4)\n"
            "    def __len__(self): return 2\n"
            "    def __getitem__(self, index): return self.layer(torch.zeros(4)).detach()\n"
            "net = torch.nn.Linear(4, 1 << 20).cuda()\n"
            "for batch in torch.utils.data.DataLoader(Data(), num_workers=1): net(batch.cuda())\n"))
        self.assertEqual(found["ranks"][0]["modules"][0]["module"], "Linear")

    def test_a_table_by_line(self):
        done = dry_run("--by", "line")
        self.assertRegex(done.stdout, r"\n  by line\n    train.py:\d+ <module> +[0-9.]+ MiB\n")
        self.assertIn("--by: x not in {line,module}", dry_run("--by", "x").stderr)
        self.assertIn("--by with --fit", dry_run("--by", "line", "--fit", "n=1..2", command=(PYTHON, TRAIN, "{n}")).stderr)

    # The requests of compiled code are those of a module that Inductor writes.
    @slow
    def test_compiled_code_names_the_line_of_the_program(self):
        command = self.program(
            "import torch\n"
            "@torch.compile(dynamic=True)\n"
            "def model(x):\n"
            "    return torch.softmax(x, 1)\n"
            "kept = model(torch.empty(1 << 16, 4096, device='cuda'))\n"
            "model(torch.empty(1 << 17, 4096, device='cuda'))\n")
        found = answer("--steps", "0", "--memory", "4GiB", command=command)
        self.assertEqual(found["out_of_memory"]["bytes"], 1 << 31)
        self.assertIn(found["out_of_memory"]["frame"], (f"{command[1]}:2", f"{command[1]}:4"))  # Python knows the first line of compiled code alone
        self.assertEqual({one["frame"] for one in found["ranks"][0]["top"]}, {"program.py:4 model", "program.py:6 <module>"})

    @slow
    def test_compares_two_environments(self):
        package = self.folder / "lib" / "grows.py"
        package.parent.mkdir()
        package.write_text("import sys\nbytes = 1 << 20 if 'other' in sys.executable else 1 << 24\n")
        links = []
        for name in ("other", "own"):
            made = subprocess.run([PYTHON, "-m", "venv", "--without-pip", str(self.folder / name)], capture_output=True, text=True, check=False)
            self.assertEqual(made.returncode, 0, made.stderr)
            packages = subprocess.run([PYTHON, "-c", "import torch; print(torch.__path__[0])"], capture_output=True, text=True, check=True).stdout.strip()
            place = next((self.folder / name).glob("lib/python3*/site-packages"))
            (place / "base.pth").write_text(f"{pathlib.Path(packages).parent}\n{package.parent}\n")
            links.append(str(self.folder / name))
        program = self.program("import torch, grows\nx = torch.empty(grows.bytes, dtype=torch.uint8, device='cuda')\n")
        done = dry_run("--json", "--compare", *links, command=("python3", program[1]))
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual([(one["environment"], one["peak_live_bytes"]) for one in found["compared"]], list(zip(links, (1 << 20, 1 << 24))))
        self.assertEqual(found["lines"], [{"frame": "program.py:2 <module>", "before_bytes": 1 << 20, "after_bytes": 1 << 24, "below": []}])
        package.write_text("import sys\nassert 'own' not in sys.executable\nbytes = 1\n")
        done = dry_run("--compare", *links, command=("python3", program[1]))
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"tidepool: {links[1]}: the program failed: AssertionError", done.stderr)
        self.assertIn("--compare: given 1, expected 2", dry_run("--compare", "a").stderr)

    def test_prints_an_answer_for_people(self):
        done = dry_run("--gpu", "a100-40", "--steps", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], r"^train.py: 1 step in [0-9.]+ s, no GPU used \(torch .*, NVIDIA A100-SXM4-40GB assumed\)$")
        self.assertRegex(lines[1], r"^  peak live +[0-9.]+ MiB   .*train.py:")
        self.assertIn("planned by tidepool", lines[2])
        self.assertRegex(lines[3], r"^  fits +yes, .* of 39.4 GiB to spare besides 425.0 MiB to 697.3 MiB of context$")

    def test_out_of_memory_names_the_line(self):
        found = answer("--memory", "100MiB")
        self.assertFalse(found["fits"])
        self.assertGreater(found["out_of_memory"]["bytes"], 0)
        self.assertRegex(found["out_of_memory"]["frame"], r"train.py:\d+$")
        self.assertEqual(dry_run("--memory", "100MiB").returncode, 2)

    # multiprocessing catches the errors of its processes itself.
    def test_a_worker_out_of_memory_names_the_line(self):
        command = self.program(
            "import multiprocessing, torch\n"
            "def work(gib):\n"
            "    kept = torch.zeros(8, device='cuda')\n"
            "    torch.empty(gib << 30, dtype=torch.uint8, device='cuda')\n"
            "if __name__ == '__main__':\n"
            "    worker = multiprocessing.get_context('spawn').Process(target=work, args=(200,))\n"
            "    worker.start()\n"
            "    worker.join()\n")
        found = answer("--steps", "0", command=command)
        self.assertEqual((found["fits"], found["out_of_memory"]), (False, {"bytes": 200 << 30, "frame": f"{command[1]}:4"}))

    def forks(self):
        return self.program(
            "import multiprocessing, sys, torch\n"
            "def train(device, steps, file=None):\n"
            "    weight = torch.nn.Parameter(torch.zeros(1 << 20, device=device))\n"
            "    weight.grad = torch.zeros_like(weight)\n"
            "    optimizer = torch.optim.SGD([weight])\n"
            "    for _ in range(steps): optimizer.step()\n"
            "    if file: open(file, 'w').close()\n"
            "    if steps == 0: torch.zeros(1 << 40, device=device)\n"
            "if __name__ == '__main__':\n"
            "    works = [('cuda', int(steps)) for steps in sys.argv[2:]] + [('cpu', 9, __file__ + '.end')]\n"
            "    workers = [multiprocessing.get_context(sys.argv[1]).Process(target=train, args=work) for work in works]\n"
            "    for worker in workers: worker.start()\n"
            "    for worker in workers: worker.join()\n")

    # Notebooks start their ranks so.
    def test_forked_processes_that_use_a_gpu_count(self, method="fork"):
        command = self.forks()
        found = answer("--steps", "3", command=(*command, method, "1", "5"))
        self.assertEqual(sorted((rank["steps"], rank["peak_live_bytes"]) for rank in found["ranks"]), [(1, 8 << 20), (3, 8 << 20)])
        self.assertTrue(pathlib.Path(command[1] + ".end").exists(), "steps without a GPU do not end a process")
        self.assertEqual([(one["device"], one["processes"], one["peak_live_bytes"]) for one in found["shared"]], [(0, 2, 16 << 20)])

    def test_spawned_processes_share_the_memory_of_a_device(self):
        command = self.program(
            "import os, sys, time, torch\n"
            "def work(index, barrier, numbers):\n"
            "    if numbers: os.environ['CUDA_VISIBLE_DEVICES'] = str(index)\n"
            "    x = torch.empty(50 << 30, dtype=torch.uint8, device='cuda')\n"
            "    barrier.wait()\n"
            "if __name__ == '__main__':\n"
            "    barrier = torch.multiprocessing.get_context('spawn').Barrier(2)\n"
            "    torch.multiprocessing.spawn(work, (barrier, sys.argv[1:]), nprocs=2)\n")
        found = dry_run("--steps", "0", command=command)
        self.assertEqual(found.returncode, 2, found.stderr)
        self.assertIn("no: 2 processes share device 0, and take 100.0 GiB of 79.2 GiB besides", found.stdout)
        found = answer("--steps", "0", "--devices", "2", command=(*command, "each"))
        self.assertEqual((found["fits"], found["shared"], [rank["number"] for rank in found["ranks"]]), (True, [], [0, 1]))

    @slow
    def test_processes_of_a_server_that_forks_count(self):
        self.test_forked_processes_that_use_a_gpu_count("forkserver")

    @slow
    def test_a_forked_process_out_of_memory_names_the_line(self):
        command = self.forks()
        found = answer("--steps", "3", command=(*command, "fork", "0"))
        self.assertEqual((found["fits"], found["out_of_memory"]), (False, {"bytes": 4 << 40, "frame": f"{command[1]}:8"}))

    def test_the_largest_value_that_fits(self):
        done = dry_run("--json", "--memory", "400MiB", "--steps", "1", "--fit", "batch=1..8",
                       command=(PYTHON, TRAIN, "--steps", "1", "--batch", "{batch}000"))
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        fitting = [run["value"] for run in found["runs"] if run["fits"]]
        failing = [run["value"] for run in found["runs"] if not run["fits"]]
        self.assertEqual(found["largest"], max(fitting))
        self.assertEqual(min(failing), found["largest"] + 1)
        done = dry_run("--memory", "100MiB", "--fit", "batch=1..2", command=(PYTHON, TRAIN, "--batch", "{batch}"))
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_models_larger_than_the_host(self):
        found = answer("--gpu", "b200", "--steps", "1", command=self.program(
            "import torch\n"
            "with torch.device('cuda'):\n"
            "    model = torch.nn.Sequential(*[torch.nn.Linear(65536, 65536, bias=False) for _ in range(2)])\n"
            "optimizer = torch.optim.SGD(model.parameters())\n"
            "model(torch.ones(1, 65536, device='cuda')).sum().backward()\n"
            "optimizer.step()\n"))
        self.assertGreaterEqual(found["peak_live_bytes"], 4 * 65536 * 65536 * 4)

    def test_data_loaders_scalers_and_checks_run(self):
        done = dry_run("--json", command=(PYTHON, TRAIN, "--workers", "2", "--scaler"))
        found = json.loads(done.stdout)
        self.assertEqual(found["steps"], 3)
        self.assertTrue(found["fits"])
        self.assertNotIn("Traceback", done.stderr, "workers end silently")
        self.assertIn("scale 65536.0", done.stderr)
        host = found["host"]
        self.assertEqual((host["processes"], host["workers"]), (1, 2))
        self.assertTrue(64 << 20 < host["peak_bytes"] and 2 << 20 < host["workers_bytes"] < host["peak_bytes"], host)

    # Compiled kernels were chosen by times that are assumed here. Processes that are ended leave files.
    def test_leaves_no_files_for_other_runs(self):
        with unittest.mock.patch.dict(os.environ, TMPDIR=str(self.folder), TORCHINDUCTOR_CACHE_DIR=str(self.folder / "kernels")):
            answer(command=self.program(
                "import os, pathlib, tempfile, torch\n"
                "from torch._inductor.runtime.cache_dir_utils import cache_dir\n"
                "pathlib.Path(cache_dir(), 'kernel').touch()\n"
                "pathlib.Path(tempfile.mkdtemp(), 'left').touch()\n"
                "x = torch.zeros(1 << 20, device='cuda')\n"
                "os.kill(os.getpid(), 15)\n"
                "while True: pass\n"))
        self.assertEqual([path.name for path in self.folder.iterdir()], ["program.py"])

    def test_a_program_may_end_before_the_steps(self):
        found = answer("--steps", "0", command=(PYTHON, TRAIN, "--steps", "2"))
        self.assertEqual(found["steps"], 2)

    # A search for a batch may make an optimizer for each, often where the one before lay.
    def test_each_optimizer_takes_its_own_steps(self):
        found = answer("--steps", "2", command=self.program(
            "import torch\n"
            "def train(elements, steps):\n"
            "    weight = torch.nn.Parameter(torch.zeros(elements, device='cuda'))\n"
            "    weight.grad = torch.zeros_like(weight)\n"
            "    optimizer = torch.optim.SGD([weight])\n"
            "    for _ in range(steps): optimizer.step()\n"
            "for exponent in range(20, 25): train(1 << exponent, 1)\n"
            "train(1, 3)\n"
            "train(1 << 26, 1)\n"))
        self.assertEqual((found["steps"], found["peak_live_bytes"]), (2, 2 * 4 << 24))

    # One optimizer steps once with each batch.
    # A critic takes five steps for one of the generator. Another optimizer has weights that the critic's updates, and one was refused.
    def test_an_optimizer_that_made_no_step_is_told(self):
        command = self.program(
            "import torch\n"
            "critic, generator = torch.nn.Linear(8, 8).cuda(), torch.nn.Linear(8, 8).cuda()\n"
            "first, other = torch.optim.SGD(critic.parameters()), torch.optim.RMSprop(critic.parameters())\n"
            "second = torch.optim.Adam(generator.parameters())\n"
            "try: torch.optim.SGD(critic.parameters(), -1.0)\n"
            "except ValueError as error: kept = error\n"
            "for step in range(12):\n"
            "    critic(generator(torch.ones(4, 8, device='cuda'))).sum().backward()\n"
            "    (second if step % 6 == 5 else first).step()\n")
        self.assertEqual(answer(command=command)["waiting_optimizers"], ["Adam"])
        self.assertEqual(answer("--steps", "6", command=command)["waiting_optimizers"], [])

    def test_the_steps_of_lightnings_search_for_a_batch_do_not_count(self):
        module = self.folder / "lightning" / "pytorch" / "tuner" / "batch_size_scaling.py"
        module.parent.mkdir(parents=True)
        module.write_text("def _scale_batch_size(trainer, steps=0):\n    return [trainer(exponent) for exponent in range(steps)]\n")
        found = answer("--steps", "2", command=self.program(
            "import torch\n"
            "from lightning.pytorch.tuner.batch_size_scaling import _scale_batch_size\n"
            "weight = torch.nn.Parameter(torch.zeros(1, device='cuda'))\n"
            "optimizer = torch.optim.SGD([weight])\n"
            "def train(exponent):\n"
            "    batch = torch.zeros(1 << exponent, dtype=torch.uint8, device='cuda')\n"
            "    optimizer.step()\n"
            "    return len(batch)\n"
            "assert _scale_batch_size(train, steps=25)[-1] == 1 << 24\n"
            "while True: train(10)\n"))
        self.assertEqual((found["steps"], found["peak_live_bytes"]), (2, 512 + (1 << 24)))

    # Packages look whether PyTorch is there before they import it.
    def test_a_program_may_look_for_pytorch_first(self):
        found = answer("--steps", "0", command=self.program(
            "import importlib.util\n"
            "assert importlib.util.find_spec('torch') and importlib.util.find_spec('torch')\n"
            "import torch\n"
            "assert len(torch.zeros(64, device='cuda').nonzero()) == 32, 'the dry run is not in the program'\n"))
        self.assertEqual(len(found["assumed"]), 1)

    # `generate` of transformers reads from the device whether it has finished.
    def test_generation_ends_at_its_most_tokens(self):
        folder = self.folder / "transformers" / "generation"
        folder.mkdir(parents=True)
        for package in (folder.parent, folder):
            (package / "__init__.py").write_text("")
        (folder / "stopping_criteria.py").write_text(
            "import torch\n"
            "class MaxLengthCriteria:\n"
            "    def __init__(self, max_length): self.max_length = max_length\n"
            "    def __call__(self, tokens, scores): return torch.full(tokens.shape[:1], tokens.shape[1] >= self.max_length, device=tokens.device)\n")
        (folder / "utils.py").write_text(
            "import torch\n"
            "class GenerationMixin:\n"
            "    def _has_unfinished_sequences(self, finished, synced, device): return not finished\n"
            "    def generate(self, tokens, criterion):\n"
            "        finished = False\n"
            "        while self._has_unfinished_sequences(finished, False, device=tokens.device):\n"
            "            tokens = torch.cat([tokens, tokens[:, :1]], dim=1)\n"
            "            assert tokens.shape[1] < 100, 'goes on'\n"
            "            finished = criterion(tokens, None).all()\n"
            "        return tokens\n")
        found = answer(command=self.program(
            "import torch\n"
            "from transformers.generation.stopping_criteria import MaxLengthCriteria\n"
            "from transformers.generation.utils import GenerationMixin\n"
            "for length in (9, 7):\n"
            "    tokens = torch.zeros(2, 4, dtype=torch.int64, device='cuda')\n"
            "    assert GenerationMixin().generate(tokens, MaxLengthCriteria(length)).shape == (2, length)\n"))
        self.assertTrue(found["fits"])

    @slow
    def test_flash_attention_runs_for_that_of_cudnn(self):
        peaks = [answer("--steps", "0", command=self.program(
            "import torch\n"
            "from torch.nn.attention import SDPBackend, sdpa_kernel\n"
            "values = torch.zeros(2, 8, 512, 64, device='cuda', dtype=torch.bfloat16, requires_grad=True)\n"
            f"with sdpa_kernel([SDPBackend.{backend}]):\n"
            "    torch.nn.functional.scaled_dot_product_attention(values, values, values, is_causal=True).sum().backward()\n"
            "torch.backends.cuda.enable_cudnn_sdp(True)\n"
            "torch.nn.functional.scaled_dot_product_attention(values, values, values)\n"))["peak_live_bytes"]
            for backend in ("CUDNN_ATTENTION", "FLASH_ATTENTION")]
        self.assertEqual(peaks[0], peaks[1])

    def test_results_of_the_device_are_zeros(self):
        found = answer("--steps", "0", command=self.program(
            "import torch\n"
            "x = torch.randn(1000, 1000).cuda()\n"
            "assert x.sum().item() == 0 and not x.cpu().any() and x.isnan().any().item() is False\n"
            "begin, end = torch.cuda.Event(True), torch.cuda.Event(True)\n"
            "begin.record(); y = torch.empty(1 << 30, device='cuda').zero_(); end.record(); end.synchronize()\n"
            "assert begin.elapsed_time(end) > 0.3, 'a time of the assumed GPU'\n"))
        self.assertGreaterEqual(found["peak_live_bytes"], 4 * 1000 * 1000)

    def test_products_of_groups_print_no_errors(self):
        done = dry_run("--steps", "0", command=self.program(
            "import torch\n"
            "x = torch.zeros(256, 128, device='cuda', dtype=torch.bfloat16)\n"
            "weights = torch.zeros(4, 128, 64, device='cuda', dtype=torch.bfloat16)\n"
            "torch._grouped_mm(x, weights, offs=torch.tensor([64, 128, 192, 256], device='cuda', dtype=torch.int32))\n"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    # It keeps a direction where a product of gradients is positive, and results are zeros.
    def test_the_history_of_lbfgs_counts(self):
        for search, most_iterations, steps, kept in ((None, 20, 2, 10), ("strong_wolfe", 20, 1, 10), (None, 5, 1, 4), (None, 5, 2, 10)):
            with self.subTest(search=search, most_iterations=most_iterations, steps=steps):
                found = answer("--steps", "0", command=self.program(
                    "import torch\n"
                    "weight = torch.nn.Parameter(torch.zeros(1 << 20, device='cuda'))\n"
                    f"optimizer = torch.optim.LBFGS([weight], max_iter={most_iterations}, history_size=10, line_search_fn={search!r})\n"
                    "def closure():\n"
                    "    optimizer.zero_grad()\n"
                    "    loss = (weight * weight).sum()\n"
                    "    loss.backward()\n"
                    "    return loss\n"
                    f"for _ in range({steps}): optimizer.step(closure)\n"
                    f"assert len(optimizer.state[weight]['old_dirs']) == {kept}\n"))
                # The weights, their gradients twice, the direction, the history, and the workspace of cuBLAS.
                self.assertGreaterEqual(found["peak_live_bytes"], ((4 + 2 * kept) * 4 + 32) << 20)
                self.assertLessEqual(found["peak_live_bytes"], ((16 + 2 * kept) * 4 + 32) << 20)

    # Without an answer a function of NVIDIA's libraries would leave its size undefined.
    def test_each_size_that_pytorch_asks_for_is_answered(self):
        home = subprocess.run([PYTHON, "-c", "import torch; print(torch.__path__[0])"], capture_output=True, text=True, check=True).stdout.strip()
        needed = {one.name for path in libraries.sources(pathlib.Path(home) / "lib") for one in elf_reader.read(path).references}
        sizes = set(filter(libraries.TELLS_A_SIZE.match, needed))
        answers = next(pathlib.Path(TOOL).resolve().parents[1].glob("**/" + libraries.ANSWERS))
        self.assertGreater(len(sizes), 40)
        self.assertEqual(sizes - elf_reader.read(answers).defined, set())

    def test_sizes_of_libraries_are_plausible(self):
        for lines, least, most in (
                ("x = torch.randn(50, 16, 20, device='cuda')\n"
                 "torch.nn.functional.ctc_loss(x, torch.ones(480, dtype=torch.int32), torch.full((16,), 50, dtype=torch.int32),\n"
                 "                             torch.full((16,), 30, dtype=torch.int32), reduction='sum')\n", 64_000, 4 << 20),
                ("x = torch.zeros(4096, 4096, device='cuda', dtype=torch.half)\n"
                 "assert torch._cslt_compress(x).numel() == x.numel() * 9 // 16\n", 50 << 20, 51 << 20),
                ("a = torch.eye(100).to_sparse_csr().cuda()\n"
                 "assert (a + a)._nnz() >= 100\n", 1000, 1 << 20),
                ("x = torch.zeros(1 << 20, device='cuda', dtype=torch.complex64)\n"
                 "torch.fft.fft(x)\n", 3 * 8 << 20, 3 * 8 << 20)):
            with self.subTest(lines):
                found = answer("--steps", "0", command=self.program("import torch\n" + lines))
                self.assertTrue(least <= found["peak_live_bytes"] <= most, found["peak_live_bytes"])

    def test_distributions_and_checks_of_results_hold(self):
        answer("--steps", "0", command=self.program(
            "import torch\n"
            "from torch.distributions import Beta, Categorical, Geometric, MultivariateNormal, Normal, VonMises\n"
            "x = torch.randn(16, 4, device='cuda')\n"
            "Categorical(logits=x).sample()\n"
            "normal = Normal(x, x.exp())\n"
            "normal.log_prob(normal.rsample())\n"
            "Beta(x.exp(), x.exp()).rsample()\n"
            "MultivariateNormal(x, torch.eye(4, device='cuda'), validate_args=True).rsample()\n"
            "Geometric(x.sigmoid())\n"
            "VonMises(x, x.exp()).sample()\n"
            "large = torch.zeros(3 << 20, device='cuda')\n"
            "assert torch.isfinite(x.sum()) and torch.isfinite(x).all() and torch.all(large.isfinite()).item()\n"
            "assert torch.allclose(x, x + 1) and torch.isclose(x, x).all() and torch.equal(x, x + 1) and not torch.equal(x, large)\n"
            "torch.linalg.eig(x[:4])\n"
            "assert not x.all() and not (x > 0).all(), 'a loop that waits for all runs to its limit'\n"))

    # A program that works raises nothing, and a check holds until its result changes.
    def test_conditions_take_the_outcome_that_raises_nothing(self):
        answer("--steps", "0", command=self.program(
            "import torch\n"
            "x = torch.randn(16, 4, device='cuda')\n"
            "finite, positive = torch.isfinite(x).all(), (x > 0).all()\n"
            "x = x @ x.T\n"
            "found = bool(finite), finite.item(), bool(finite.logical_not_()), bool(positive)\n"
            "assert found == (True, True, False, False), found\n"
            "assert positive and x.max() < 9 and not (x < 9).all(), 'as in a check of labels'\n"
            "assert (x > 0).any().item()\n"
            "assert torch.tensor([2**64 - 1], dtype=torch.uint64, device='cuda').item() == 2**64 - 1\n"
            "if not (x == x.T).all(): raise ValueError('not symmetric')\n"
            "if (x != x.T).any().item(): raise ValueError(f'{x.shape} is not symmetric')\n"
            "@torch.compile(backend='eager')\n"
            "def double(x):\n"
            "    x = 2 * x\n"
            "    if not (x > 0).all(): raise ValueError('not positive')\n"
            "    return x + 1\n"
            "double(x)\n"
            "for _ in range(3):\n"
            "    if positive: break\n"
            "else:\n"
            "    raise SystemExit(0)\n"
            "raise ValueError('a loop that waits runs to its limit')\n"))

    # PyTorch's own operators run for a check, with their memory.
    def test_checks_take_their_memory(self):
        found = answer("--steps", "0", command=self.program(
            "import torch\n"
            "x = torch.zeros(1 << 24, device='cuda')\n"
            "assert torch.isclose(x, x).all()\n"))
        self.assertEqual(found["peak_live_bytes"], 5 * 4 << 24)
        found = answer("--steps", "0", command=self.program("import torch\nx = torch.zeros(1 << 24, device='cuda')\nassert torch.equal(x, x)\n"))
        self.assertEqual(found["peak_live_bytes"], 4 << 24)

    # The host's own time is a part of each measured time, so there are least times alone.
    def test_products_and_convolutions_take_the_time_of_the_gpu(self):
        answer("--steps", "0", command=self.program(
            "import torch\n"
            "def milliseconds(work):\n"
            "    begin, end = torch.cuda.Event(True), torch.cuda.Event(True)\n"
            "    begin.record(); work(); end.record(); end.synchronize()\n"
            "    return begin.elapsed_time(end)\n"
            "x = torch.empty(32768, 32768, device='cuda', dtype=torch.bfloat16)\n"
            "linear = torch.nn.Linear(32768, 32768, device='cuda', dtype=torch.bfloat16)\n"
            "least = 2 * 32768**3 / 989.4e12 / 0.8 * 1e3\n"
            "for work in (lambda: x @ x, lambda: linear(x), lambda: torch.bmm(x.view(1, 32768, -1), x.view(1, 32768, -1))):\n"
            "    assert milliseconds(work) > least, work\n"
            "half = torch.empty(256, 512, 128, 128, device='cuda', dtype=torch.float16)\n"
            "layer = torch.nn.Conv2d(512, 512, 3, padding=1, device='cuda', dtype=torch.float16)\n"
            "least = 2 * 256 * 512 * 128 * 128 * 512 * 9 / 989.4e12 / 0.5 * 1e3\n"
            "assert milliseconds(lambda: layer(half)) > least\n"
            "torch.backends.cudnn.benchmark = True\n"
            "assert milliseconds(lambda: layer(half)) > least\n"
            # A loop with a limit of time, such as those of autotuners.
            "spent = rounds = 0\n"
            "while spent < 2000:\n"
            "    spent, rounds = spent + milliseconds(lambda: x @ x), rounds + 1\n"
            "assert rounds <= 2000 / (2 * 32768**3 / 989.4e12 / 0.8 * 1e3) + 1, rounds\n"))

    # 5 us for a launch, 1 us for an event, and the bytes of all tensors at 3.35 TB/s.
    def test_kernels_of_triton_take_the_time_of_their_tensors(self):
        answer("--steps", "0", command=self.program(
            "import torch, triton, triton.language as tl\n"
            "@triton.jit\n"
            "def add(x, y, count, BLOCK: tl.constexpr):\n"
            "    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
            "    tl.store(y + at, tl.load(x + at, mask=at < count) + 1, mask=at < count)\n"
            "def microseconds(work):\n"
            "    work()\n"
            "    begin, end = torch.cuda.Event(True), torch.cuda.Event(True)\n"
            "    begin.record(); work(); end.record(); end.synchronize()\n"
            "    return begin.elapsed_time(end) * 1e3\n"
            "def check(work, *tensors):\n"
            "    expected = 5 + sum(one.numel() * one.element_size() for one in tensors) / 3.35e12 * 1e6\n"
            "    assert abs(microseconds(work) - expected) < 2, (microseconds(work), expected)\n"
            "x, y = (torch.zeros(1 << 24, device='cuda') for _ in range(2))\n"
            "check(lambda: add[(16384,)](x, y, x.numel(), BLOCK=1024), x, y)\n"
            "rows = torch.zeros(1 << 14, 1 << 10, device='cuda', dtype=torch.bfloat16)\n"
            "normal = torch.compile(lambda x: torch.softmax(x, 1))\n"
            "check(lambda: normal(rows), rows, rows)\n"
            # 4 of 65,536 rows of a table
            "table, four = torch.zeros(1 << 16, 1 << 10, device='cuda'), torch.zeros(4, device='cuda', dtype=torch.long)\n"
            "look = torch.compile(torch.nn.functional.embedding)\n"
            "check(lambda: look(four, table), table[:4], table[:4], four)\n"))

    # Each operator reads its inputs once and writes its results once. The clock may be off by a tenth, and by the launches of small kernels.
    def test_kernels_of_pytorch_take_the_time_of_their_tensors(self):
        answer("--steps", "0", "--memory", "80GiB", command=self.program(
            "import torch, torch.nn.functional as F\n"
            "def microseconds(work):\n"
            "    work()\n"
            "    begin, end = torch.cuda.Event(True), torch.cuda.Event(True)\n"
            "    begin.record(); work(); end.record(); end.synchronize()\n"
            "    return begin.elapsed_time(end) * 1e3\n"
            "def check(name, size, work):\n"
            "    found, expected = microseconds(work), size / 3.35e12 * 1e6\n"
            "    if abs(found - expected) > 0.1 * expected + 30: wrong.append((name, found, expected))\n"
            "def backward(work, *inputs):\n"
            "    inputs = [one.detach().clone().requires_grad_() for one in inputs]\n"
            "    output = work(*inputs)\n"
            "    gradient = torch.zeros_like(output)\n"
            "    return lambda: torch.autograd.grad(output, inputs, gradient, retain_graph=True)\n"
            "wrong = []\n"
            "shape = 32768, 4096\n"
            "x, y = (torch.zeros(shape, device='cuda') for _ in range(2))\n"
            "a, b = x.bfloat16(), y.bfloat16()\n"
            "mask = torch.zeros(shape, device='cuda', dtype=torch.bool)\n"
            "row = torch.zeros(shape[1], device='cuda')\n"
            "small = row.bfloat16()\n"
            "size = x.numel()\n"
            "check('add', 12 * size, lambda: x + y)\n"
            "check('add a row', 8 * size, lambda: x + row)\n"
            "check('add two types', 10 * size, lambda: x + a)\n"
            "check('gelu', 4 * size, lambda: F.gelu(a))\n"
            "check('gelu backward', 6 * size, backward(F.gelu, a))\n"
            "check('to bfloat16', 6 * size, lambda: x.bfloat16())\n"
            "check('to float', 6 * size, lambda: a.float())\n"
            "check('transpose', 4 * size, lambda: a.t().contiguous())\n"
            "check('copy', 8 * size, lambda: x.copy_(y))\n"
            "check('where', 13 * size, lambda: torch.where(mask, x, y))\n"
            "check('compare', 9 * size, lambda: x > y)\n"
            "check('zero', 4 * size, lambda: x.zero_())\n"
            "check('dropout', 5 * size, lambda: F.dropout(a, 0.1, True))\n"
            "check('dropout backward', 5 * size, backward(lambda one: F.dropout(one, 0.1, True), a))\n"
            "check('random', 4 * size, lambda: torch.rand_like(x))\n"
            "check('concatenate', 16 * size, lambda: torch.cat([x, y], 1))\n"
            "check('index', 4 * size, lambda: a[torch.zeros(shape[0], device='cuda', dtype=torch.long)])\n"
            "check('softmax', 4 * size, lambda: a.softmax(-1))\n"
            "check('log_softmax backward', 12 * size, backward(lambda one: one.log_softmax(-1), x))\n"
            "check('layer_norm', 4 * size, lambda: F.layer_norm(a, shape[1:], small, small))\n"
            # The gradients of the input and of both weights.
            "check('layer_norm backward', (6 + 4) * size, backward(lambda *all: F.layer_norm(all[0], shape[1:], *all[1:]), a, small, small))\n"
            "check('rms_norm', 4 * size, lambda: F.rms_norm(a, shape[1:], small))\n"
            "images = a.view(256, 64, 64, 128)\n"
            "statistics = torch.zeros(64, device='cuda')\n"
            # Statistics are of all elements before any is normalised.
            "for name, one in ('NCHW', images), ('NHWC', images.contiguous(memory_format=torch.channels_last)):\n"
            "    check('batch_norm ' + name, (2 + 4) * size, lambda: torch.native_batch_norm(one, None, None, statistics, statistics, True, 0.1, 1e-5))\n"
            "check('group_norm', (2 + 4) * size, lambda: F.group_norm(images, 32))\n"
            "check('sum', 4 * size, lambda: x.sum())\n"
            "check('sum of columns', 4 * size, lambda: x.sum(0))\n"
            "check('variance', 4 * size, lambda: x.var(-1))\n"
            "check('argmax', 4 * size, lambda: x.argmax(-1))\n"
            "check('max_pool2d', (2 + 0.25 * (2 + 8)) * size, lambda: F.max_pool2d(images, 2))\n"
            "check('cumsum', 8 * size, lambda: x.cumsum(-1))\n"
            "labels = torch.zeros(shape[0], device='cuda', dtype=torch.long)\n"
            "check('cross_entropy', 4 * size, lambda: F.cross_entropy(a, labels))\n"
            "weights = [torch.zeros(count, device='cuda', requires_grad=True) for count in (*[1000] * 10, *[20_000_000] * 10)]\n"
            "for one in weights: one.grad = torch.zeros_like(one)\n"
            "count = sum(one.numel() for one in weights)\n"
            "for kind, moves in (torch.optim.AdamW, 7), (torch.optim.SGD, 5):\n"
            "    optimizer = kind(weights, **({'momentum': 0.9} if kind is torch.optim.SGD else {}), fused=True, lr=0.1)\n"
            "    optimizer.step()\n"
            "    check(kind.__name__, moves * 4 * count, optimizer.step)\n"
            "values = [one.detach() for one in weights]\n"
            "check('_foreach_add_', 12 * count, lambda: torch._foreach_add_(values, values))\n"
            # Two products of matrices of 1024 x 64 and 1024 x 1024, half of each, at 35 % of the peak.
            "q = torch.zeros(32, 16, 1024, 64, device='cuda', dtype=torch.bfloat16)\n"
            "time = 0.5 * 4 * q.numel() * 1024 / (989.4e12 * 0.35)\n"
            "attend = lambda *all: F.scaled_dot_product_attention(*all, is_causal=True)\n"
            "check('attention', time * 3.35e12, lambda: attend(q, q, q))\n"
            "check('attention backward', 2.5 * time * 3.35e12 + 4 * 2 * q.numel(), backward(attend, q, q, q))\n"
            "assert not wrong, wrong\n"))

    def test_sizes_that_depend_on_data_are_a_share(self):
        command = self.program(
            "import torch\n"
            "x = torch.randn(64, 64, device='cuda')\n"
            "i = torch.randint(0, 9, (100,), device='cuda')\n"
            "kept = [len(x[x > 0]), len(torch.masked_select(x, x > 0)), len(x.nonzero()), len(torch.unique(i)),\n"
            "        len(torch.unique_consecutive(i)), len(torch.unique(x, dim=0)), len(torch.repeat_interleave(x, i[:64], dim=0))]\n"
            "assert kept == KEPT, kept\n"
            "assert [len(part) for part in torch.unique(i, return_inverse=True, return_counts=True)] == [kept[3], 100, kept[3]]\n"
            "torch.isin(i, i)\n"
            "x[x > 0] = 1\n")
        path = pathlib.Path(command[1])
        lines = path.read_text()
        for density, kept in ((None, [2048, 2048, 2048, 50, 50, 32, 64]), ("0", [0, 0, 0, 1, 1, 1, 64])):
            with self.subTest(density):
                path.write_text(lines.replace("KEPT", str(kept)))
                found = answer("--steps", "0", *(("--density", density) if density else ()), command=command)
                self.assertIn({"operation": "nonzero", "frame": f"{path}:4", "calls": 3}, found["assumed"])
                self.assertEqual({one["frame"].split(":")[0] for one in found["ranks"][0]["top"]}, {path.name})

    # PyTorch reads them from the device, where the largest value is zero.
    def test_sizes_that_depend_on_the_largest_value_are_told(self):
        command = self.program(
            "import torch\n"
            "from torch.nn import functional\n"
            "labels = torch.randint(0, 1000, (64,), device='cuda')\n"
            "assert functional.one_hot(labels).shape == (64, 1)\n"
            "assert torch.bincount(labels).shape == (1,)\n"
            "torch.sparse_coo_tensor(labels.view(1, 64), torch.ones(64, device='cuda'))\n"
            "assert functional.one_hot(labels, 1000).shape == (64, 1000)\n"
            "assert torch.bincount(labels, minlength=1000).shape == (1000,)\n"
            "torch.sparse_coo_tensor(labels.view(1, 64), torch.ones(64, device='cuda'), (1000,))\n"
            "functional.one_hot(labels.cpu()), torch.bincount(labels.cpu())\n"
            "from torch.distributed.optim import ZeroRedundancyOptimizer  # it compiles functions of optimizers that make sparse tensors\n")
        found = answer("--steps", "0", command=command)
        self.assertEqual([(one["operation"], one["frame"]) for one in found["assumed"]],
                         [("one_hot without num_classes", f"{command[1]}:4"), ("bincount without minlength", f"{command[1]}:5"),
                          ("sparse_coo_tensor without size", f"{command[1]}:6")])

    # PyTorch compares them with a tensor, and would raise.
    def test_lengths_of_the_device_divide_a_tensor(self):
        command = self.program(
            "import torch\n"
            "from torch.nn.utils import rnn\n"
            "x = torch.randn(10, 8, device='cuda')\n"
            "lengths = torch.ones(4, dtype=torch.int64, device='cuda') * 2\n"
            "assert [len(one) for one in x.split(lengths.tolist())] == [3, 3, 2, 2]\n"
            "packed = rnn.pack_padded_sequence(torch.randn(4, 5, 8, device='cuda'), lengths.cpu(), batch_first=True, enforce_sorted=False)\n"
            "assert packed.data.shape == (20, 8) and torch.nn.LSTM(8, 8, device='cuda')(packed)[0].data.shape == (20, 8)\n"
            "assert torch.segment_reduce(x, 'sum', lengths=lengths).shape == (4, 8)\n"
            "layer = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 1000, [10, 100], device='cuda')\n"
            "for rows in (10, 2, 1):\n"
            "    layer(x[:rows], torch.randint(0, 1000, (rows,), device='cuda')).loss.backward()\n"
            "assert x.split([4, 6])[0].shape[0] == 4 and [len(one) for one in x[:0].split([0, 0])] == [0, 0]\n"
            "torch.jit.script(rnn.pack_padded_sequence)\n"
            "torch.compile(lambda x: x.split([4, 6])[1] + 1, backend='aot_eager')(x)\n")
        found = answer("--steps", "0", command=command)
        self.assertEqual([(one["operation"], one["frame"]) for one in found["assumed"]],
                         [("split by lengths of the device", f"{command[1]}:5"), ("padded sequences with lengths of the device", f"{command[1]}:6"),
                          ("nonzero for a cluster of classes", f"{command[1]}:11")])

    # The loss keeps 2 S + 1 logarithms for each of the 400 steps of 16 targets of length S.
    def test_the_ctc_loss_has_targets_of_full_length(self):
        for targets in ("(16, 100)", "(1600,)"):
            command = self.program(
                "import torch\n"
                "logits = torch.randn(400, 16, 20, device='cuda', requires_grad=True)\n"
                f"targets = torch.randint(1, 20, {targets}, device='cuda')\n"
                "lengths = torch.full((16,), 100, device='cuda')\n"
                "loss = torch.nn.functional.ctc_loss(logits.log_softmax(2), targets, 4 * lengths, lengths)\n"
                "loss.backward()\n")
            found = answer("--steps", "0", command=command)
            if has_own_kernels(found):
                self.assertGreaterEqual(found["peak_live_bytes"], 4 * 16 * 400 * (2 * 100 + 1 + 4 * 20))
                self.assertEqual(found["assumed"], [{"operation": "ctc_loss with lengths on the device", "frame": f"{command[1]}:5", "calls": 1}])

    # The loop of the experts in transformers, in two versions.
    def test_experts_get_equal_parts_of_the_tokens(self):
        command = self.program(
            "import sys, torch\n"
            "tokens, others = map(int, sys.argv[1:])\n"
            "mask = torch.nn.functional.one_hot(torch.zeros(64, 2, dtype=torch.int64, device='cuda'), num_classes=8).permute(2, 1, 0)\n"
            "hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()\n"
            "found = len(hit), len(torch.where(mask[hit[0]].squeeze(0))[0]), len(torch.where(mask[3])[0]), len((mask[3] > 0).nonzero())\n"
            "assert found == (8, tokens, tokens, others), found\n")
        found = answer("--steps", "0", command=(*command, "16", "64"))
        self.assertEqual({place["operation"] for place in found["assumed"]},
                         {"nonzero of the classes of one_hot", "nonzero for a class of one_hot", "nonzero"})
        answer("--steps", "0", "--density", "1", command=(*command, "128", "128"))

    def test_a_sparse_matrix_keeps_a_share_of_its_elements(self):
        command = self.program(
            "import torch\n"
            "x = torch.randn(64, 64, device='cuda')\n"
            "sparse = torch.sparse_coo_tensor(torch.randint(0, 64, (2, 100), device='cuda'), torch.randn(100, 8, device='cuda'), (64, 64, 8))\n"
            "whole = sparse.coalesce()\n"
            "assert whole.is_coalesced() and whole.values().shape == (50, 8) and whole.indices().shape == (2, 50)\n"
            "assert torch.nonzero(x, out=torch.empty(0, 2, dtype=torch.int64, device='cuda')).shape == (2048, 2)\n"
            "torch.sparse.mm(whole.select(2, 0), whole.select(2, 0))\n")
        found = answer("--steps", "0", command=command)
        self.assertIn({"operation": "coalesce", "frame": f"{command[1]}:4", "calls": 1}, found["assumed"])
        self.assertIn({"operation": "nonzero", "frame": f"{command[1]}:6", "calls": 1}, found["assumed"])
        if has_own_kernels(found):
            self.assertIn({"operation": "product of sparse matrices", "frame": f"{command[1]}:7", "calls": 1}, found["assumed"])

    # PyTorch makes it of the padding in evaluation, if the mask passes a check.
    def test_a_nested_tensor_of_a_mask_has_whole_rows(self):
        command = self.program(
            "import torch\n"
            "from torch import nn\n"
            "model = nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True), 2).cuda().eval()\n"
            "padding = (torch.arange(256)[None] >= torch.full((16, 1), 100)).cuda()\n"
            "with torch.no_grad():\n"
            "    assert model(torch.randn(16, 256, 512).cuda(), src_key_padding_mask=padding).shape == (16, 256, 512)\n")
        found = answer("--steps", "0", command=command)
        self.assertEqual(found["assumed"], [{"operation": "nested tensor of a mask", "frame": f"{command[1]}:6", "calls": 1}])
        hidden = 4 * 16 * 256 * 2048
        self.assertGreaterEqual(found["peak_live_bytes"], 4 * 2 * (3 * 512 + 512 + 2 * 2048) * 512 + hidden)

    def test_libraries_answer_with_sizes(self):
        found = answer("--steps", "0", command=self.program(
            "import torch\n"
            "from torch import nn\n"
            "x = torch.randn(64, 64, device='cuda')\n"
            "for layer in (nn.LSTM(64, 48, 2, bidirectional=True), nn.GRU(64, 48), nn.LSTM(64, 48, proj_size=16)):\n"
            "    layer.cuda()(x.view(8, 8, 64))[0].sum().backward()\n"
            "for solve in (torch.linalg.inv, torch.linalg.svd, torch.linalg.cholesky, torch.linalg.qr, torch.linalg.eigh):\n"
            "    solve(x)\n"
            "torch.linalg.solve(x, x)\n"
            "torch.sparse.mm(x.to_sparse(), x)\n"
            "nn.init.trunc_normal_(x)\n"
            "nn.Conv2d(4, 4, 3).cuda()(x.view(1, 4, 32, 32)).sum().backward()\n"))
        self.assertGreater(found["ranks"][0]["convolutions"]["calls"], 0)

    def test_workspaces_of_convolutions_follow_their_shape(self):
        command = self.program(
            "import torch\n"
            "layer = torch.nn.Conv2d(64, 64, 3, padding=1).cuda()\n"
            "layer(torch.zeros(8, 64, 56, 56, device='cuda'))\n")
        elements = 8 * 64 * 56 * 56
        copies = 4 * (2 * elements + 64 * 64 * 9) + 16  # of the tensors, for tensor cores
        transformed = 9 * 2 * elements + 16 * 64 * 64 * 9  # by Winograd's algorithm
        found = answer("--steps", "0", command=command)["ranks"][0]["convolutions"]
        self.assertEqual(found["workspace_bytes"], (copies + 511) // 512 * 512)
        self.assertEqual(found["large_workspace_bytes"], transformed)
        self.assertEqual(found["large_peak_live_bytes"] - found["no_workspace_peak_live_bytes"], transformed)
        # The older interface of cuDNN.
        with unittest.mock.patch.dict(os.environ, TORCH_CUDNN_V8_API_DISABLED="1"):
            found = answer("--steps", "0", "--cudnn-workspace", "64MiB", command=command)["ranks"][0]["convolutions"]
        self.assertEqual(found["workspace_bytes"], 64 << 20)
        self.assertEqual(found["large_workspace_bytes"], 64 << 20)
        self.assertEqual(found["peak_live_bytes"] - found["no_workspace_peak_live_bytes"], 64 << 20)

    def test_the_model_of_the_allocator_reserves_what_a_run_with_rising_addresses_did(self):
        snapshot = self.folder / "snapshot.pickle"
        os.environ["CUDART_HOST_ADDRESSES"] = "ascending"
        self.addCleanup(os.environ.pop, "CUDART_HOST_ADDRESSES")
        found = answer("--snapshot", str(snapshot), command=(PYTHON, TRAIN, "--batch", "3000", "--steps", "3"))
        self.assertEqual(self.info(snapshot)["per_device"][0]["pytorch"]["reserved_bytes"], found["peak_reserved_bytes"])

    # The recording and its peaks are those of the whole run, even if the program resets its own.
    def test_the_programs_use_of_its_statistics_changes_nothing(self):
        begin = ("import torch\n"
                 "def take(gib): return torch.zeros(gib << 30, dtype=torch.uint8, device='cuda')\n"
                 "record = torch.cuda.memory._record_memory_history\n")
        for name, lines, gib in (
                ("PyTorch's recipe for snapshots", "record(max_entries=100000); take(2)\n"
                 "torch.cuda.memory._dump_snapshot('/dev/null'); record(enabled=None)\n", 2),
                ("stopped after use", "take(2); record(None)\n", 2),
                ("stopped and started", "take(4); torch.cuda.empty_cache(); record(enabled=None); take(6); record(); take(1)\n", 6),
                ("the older functions", "record(True); take(2); record(False); take(1)\n", 2),
                ("few entries", "record(max_entries=4); take(4); torch.cuda.empty_cache(); y = [take(1) for _ in range(3)]\n", 4),
                ("peaks", "take(4); torch.cuda.empty_cache(); torch.cuda.reset_peak_memory_stats(); take(1)\n", 4),
                ("totals", "take(4); torch.cuda.reset_accumulated_memory_stats()\n", 4),
                ("a cache that was emptied", "take(4); torch.cuda.empty_cache(); take(6)\n", 6)):
            with self.subTest(name):
                found = answer("--steps", "0", command=self.program(begin + lines))
                self.assertEqual((found["peak_live_bytes"], found["peak_reserved_bytes"], found["reserved_range"]),
                                 (gib << 30, gib << 30, [gib << 30, gib << 30]))
        with unittest.mock.patch.dict(os.environ, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"):
            found = answer("--steps", "0", command=self.program(
                begin + "take(4); torch.cuda.empty_cache(); torch.cuda.reset_peak_memory_stats(); take(1)\n"))
        # In granules of 20 MiB.
        self.assertEqual(found["reserved_range"], 2 * [205 * 20 << 20])

    def test_tells_the_peak_that_pytorch_itself_counts(self):
        found = answer("--steps", "0", command=self.program(
            "import torch\n"
            "x = torch.empty(12 << 20, dtype=torch.uint8, device='cuda'); del x\n"
            "x = torch.empty((12 << 20) - 1024, dtype=torch.uint8, device='cuda')\n"  # takes the whole block
            "y = torch.empty(4 << 20, dtype=torch.uint8, device='cuda')\n"
            "most = torch.cuda.max_memory_allocated()\n"
            "del x\n"
            "torch.cuda.reset_peak_memory_stats()\n"
            "assert (most, torch.cuda.max_memory_allocated()) == (16 << 20, 4 << 20)\n"))
        self.assertEqual((found["max_memory_allocated"], found["peak_live_bytes"]), (16 << 20, (16 << 20) - 1024))

    def test_the_program_sees_its_own_recording(self):
        answer("--steps", "0", command=self.program(
            "import os, pickle, torch\n"
            "def take(count): return torch.zeros(count, device='cuda')\n"
            "def events(): return torch.cuda.memory._snapshot()['device_traces'][0]\n"
            "def sizes(): return [event['size'] for event in events() if event['action'] == 'alloc']\n"
            "record = torch.cuda.memory._record_memory_history\n"
            "a = take(1 << 20)\n"
            "assert sizes() == []\n"
            "record(max_entries=100000); b = take(1000), take(2000)\n"
            "assert sizes() == [4000, 8000], sizes()\n"
            "record(max_entries=4); c = [take(1000) for _ in range(9)]\n"
            "assert len(events()) == 4\n"
            "torch.cuda.memory._dump_snapshot('dump')\n"
            "assert len(pickle.load(open('dump', 'rb'))['device_traces'][0]) == 4\n"
            "os.remove('dump')\n"
            "record(enabled=None)\n"
            "assert sizes() == [] and len(torch.cuda.memory.memory_snapshot()) == 2\n"
            "record(True); d = take(5000)\n"
            "assert sizes() == [20000], sizes()\n"))

    @slow
    def test_settings_and_pools_of_the_program_count(self):
        begin = ("import torch\n"
                 "def take(mib): return torch.zeros(mib << 20, dtype=torch.uint8, device='cuda')\n"
                 "def expand(): torch.cuda.memory._set_allocator_settings('expandable_segments:True')\n"
                 "pool = torch.cuda.MemPool()\n")
        for name, lines, mib in (
                ("settings before use", "expand(); x = [take(30) for _ in range(10)]; del x; y = take(300)\n", 300),
                ("settings after use", "x = [take(30) for _ in range(10)]; del x; expand(); y = take(300)\n", 600),
                ("a pool of its own", "with torch.cuda.use_mem_pool(pool): x = take(1024); del x\ny = take(1024)\n", 2048),
                ("a pool that is gone", "with torch.cuda.use_mem_pool(pool): x = take(1024); del x\ndel pool; y = take(512)\n", 1024)):
            with self.subTest(name):
                found = answer("--steps", "0", command=self.program(begin + lines))
                self.assertEqual(found["reserved_range"], [mib << 20, mib << 20])

    def test_the_memory_is_what_the_program_allows_itself(self):
        command = self.program(
            "import torch\n"
            "torch.cuda.set_per_process_memory_fraction(0.1)\n"
            "x = torch.zeros(4 << 30, dtype=torch.uint8, device='cuda')\n"
            "y = torch.zeros(6 << 30, dtype=torch.uint8, device='cuda')\n")
        found = answer("--memory", "80GiB", command=command)
        self.assertEqual((found["memory_bytes"], found["ranks"][0]["memory_bytes"]), (80 << 30, 8 << 30))
        self.assertEqual(found["out_of_memory"], {"bytes": 6 << 30, "frame": f"{command[1]}:4"})
        self.assertIn("out of memory in 8.0 GiB (the program's own limit, of 80.0 GiB)", dry_run("--memory", "80GiB", command=command).stdout)

    # Lightning and accelerate search for a batch like this.
    @slow
    def test_a_caught_refusal_is_told_and_no_verdict(self):
        command = self.program(
            "import sys, torch\n"
            "size, kept = 1 << 30, None\n"
            "while True:\n"
            "    try:\n"
            "        kept = None\n"
            "        kept = torch.zeros(size, dtype=torch.uint8, device='cuda')\n"
            "        size *= 2\n"
            "    except torch.cuda.OutOfMemoryError:\n"
            "        break\n"
            "if sys.argv[1:]: sys.exit('too large')\n"
            "torch.cuda.empty_cache()\n"
            "kept = torch.zeros(size // 2, dtype=torch.uint8, device='cuda')\n")
        found = answer("--gpu", "rtx-4090", "--steps", "0", command=command)
        self.assertTrue(found["fits"])
        self.assertIsNone(found["out_of_memory"])
        self.assertEqual(found["caught_out_of_memory"], [{"bytes": 32 << 30, "frame": f"{command[1]}:6"}])
        for name in ("peak_live_bytes", "peak_reserved_bytes", "planned_bytes"):
            self.assertEqual(found[name], 16 << 30, name)
        # The program may give up all the same.
        found = answer("--gpu", "rtx-4090", "--steps", "0", command=(*command, "give up"))
        self.assertEqual((found["fits"], found["out_of_memory"]), (False, {"bytes": 32 << 30, "frame": f"{command[1]}:6"}))

    # On a GPU the context is there before the first request.
    def test_a_program_that_fills_the_memory_meets_the_context(self):
        search = ("import torch\n"
                  "for batch in range(512, 20000, 64):\n"
                  "    try: x = y = None; x = torch.empty(batch, 1 << 18, device='cuda'); y = torch.relu(x)\n"
                  "    except torch.cuda.OutOfMemoryError: break\n")
        share = "import torch\nx = torch.empty(int(torch.cuda.mem_get_info()[0] * 0.995), dtype=torch.uint8, device='cuda')\n"
        for lines in (search, share):
            found = answer("--gpu", "t4", "--steps", "0", command=self.program(lines))
            self.assertEqual((found["fits"], found["needed_bytes"]), (True, None))
            self.assertLessEqual(found["peak_reserved_bytes"] + found["outside"]["context_bytes"][0], found["memory_bytes"])
        command = self.program("import torch\nassert torch.cuda.mem_get_info() == (1 << 30, 1 << 30)\n"
                               "x = torch.empty(1 << 30, dtype=torch.uint8, device='cuda')\n")
        self.assertTrue(answer("--memory", "1GiB", "--steps", "0", command=command)["fits"])

    # Servers of language models size their cache like this.
    def test_a_program_that_takes_what_is_free_needs_no_more_for_that(self):
        command = self.program(
            "import torch\n"
            "cache = torch.empty(int(torch.cuda.mem_get_info()[0] * 0.9), dtype=torch.uint8, device='cuda')\n"
            "weights = torch.empty(10 << 30, dtype=torch.uint8, device='cuda')\n")
        found = answer("--steps", "0", command=command)
        self.assertEqual((found["fits"], found["follows_memory"], found["remedies"]), (False, True, []))
        free = found["memory_bytes"] - found["outside"]["context_bytes"][0]
        self.assertAlmostEqual(found["needed_bytes"] / (0.9 * free + (10 << 30)), 1, 3)

    def test_a_refusal_in_the_backward_pass_has_a_line(self):
        command = self.program(
            "import torch\n"
            "layer = torch.nn.Linear(1 << 14, 1 << 14, bias=False, device='cuda')\n"
            "loss = layer(torch.zeros(1, 1 << 14, device='cuda')).sum()\n"
            "x = torch.zeros(1536 << 20, dtype=torch.uint8, device='cuda')\n"
            "try: loss.backward()\n"
            "except torch.cuda.OutOfMemoryError: pass\n")
        found = answer("--memory", "3GiB", "--steps", "0", command=command)
        self.assertEqual(found["caught_out_of_memory"], [{"bytes": 1 << 30, "frame": f"{command[1]}:5"}])

    def test_pinned_memory_is_told_with_its_rounding(self):
        command = self.program(
            "import torch\n"
            "def pin(mib): return torch.empty(mib << 20, dtype=torch.uint8).pin_memory()\n"
            "x, y = pin(5), pin(3)\n"
            "assert x.pin_memory() is x\n"
            "part = y[:10]; del x, y\n"
            "y, z = pin(6), pin(3)\n"
            "z = torch.empty(9 << 20, dtype=torch.uint8, pin_memory=True)\n")
        found = answer("--steps", "0", command=command)
        self.assertEqual((found["fits"], found["peak_live_bytes"]), (True, 0))
        # The block of 8 MiB serves twice. Only newer versions know the memory that other functions pin.
        self.assertEqual(found["pinned"]["rounded_bytes"], (8 + 4 + 4 + 16) << 20)
        self.assertIn(found["pinned"]["peak_bytes"] >> 20, (12, 12 + 16))
        self.assertIn("32.0 MiB of the host's memory for ", dry_run("--steps", "0", command=command).stdout)

    def test_names_streams_that_strand_memory(self):
        found = dry_run("--steps", "0", command=self.program(
            "import torch\n"
            "for _ in range(4):\n"
            "    with torch.cuda.stream(torch.cuda.Stream()): x = torch.empty(1 << 26, dtype=torch.uint8, device='cuda')\n"
            "    del x\n"))
        self.assertRegex(found.stdout, r"stranded          192\.0 MiB of it are free, but belong to streams or pools that do not ask for more: "
                                       r"64\.0 MiB of stream \d+, last asked for at program.py:3 <module> · ")

    @slow
    def test_memory_that_an_extension_takes_counts(self):
        command = self.program(
            "import ctypes, torch\n"
            "x = torch.zeros(512 << 20, dtype=torch.uint8, device='cuda')\n"
            "address, size = ctypes.c_void_p(), ctypes.c_size_t(300 << 20)\n"
            "cudart = ctypes.CDLL('libcudart.so.' + torch.version.cuda.split('.')[0])\n"
            "if cudart.cudaMalloc(ctypes.byref(address), size) != 0: raise MemoryError('CUDA out of memory')\n")
        found = answer("--steps", "0", command=command)
        self.assertEqual((found["peak_reserved_bytes"], found["other_bytes"]), (512 << 20, 300 << 20))
        self.assertIn("other code        300.0 MiB", dry_run("--steps", "0", command=command).stdout)
        found = answer("--steps", "0", "--memory", "800MiB", command=command)
        self.assertEqual((found["fits"], found["out_of_memory"]), (False, {"bytes": 300 << 20, "frame": f"{command[1]}:5"}))

    # Without its cache, PyTorch asks the runtime for each tensor.
    @slow
    def test_memory_without_pytorchs_cache(self):
        with unittest.mock.patch.dict(os.environ, PYTORCH_NO_CUDA_MEMORY_CACHING="1"):
            found = answer("--steps", "2")
            self.assertEqual(found["steps"], 2)
            self.assertGreaterEqual(found["peak_live_bytes"], 4 * WEIGHTS)
            self.assertEqual(found["peak_live_bytes"], found["peak_reserved_bytes"])
            self.assertIn("none of it by PyTorch's caching allocator", dry_run("--steps", "2").stdout)
            found = answer("--memory", "100MiB")
            self.assertGreater(found["out_of_memory"]["bytes"], 0)
            self.assertRegex(found["out_of_memory"]["frame"], r"train.py:\d+$")

    def test_memory_of_an_allocator_that_the_program_brings(self):
        (self.folder / "allocator.c").write_text(
            "#include <stddef.h>\n"
            "int cudaMalloc(void**, size_t);\n"
            "int cudaFree(void*);\n"
            "void* take(ptrdiff_t size, int device, void* stream) { void* p = 0; return cudaMalloc(&p, size) == 0 ? p : 0; }\n"
            "void give_back(void* p, ptrdiff_t size, int device, void* stream) { cudaFree(p); }\n")
        library = str(self.folder / "allocator.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, str(self.folder / "allocator.c")], check=True)
        found = answer("--steps", "0", command=self.program(
            "import torch\n"
            "from torch.cuda.memory import CUDAPluggableAllocator, change_current_allocator\n"
            f"change_current_allocator(CUDAPluggableAllocator({library!r}, 'take', 'give_back'))\n"
            "x = torch.zeros(300 << 20, dtype=torch.uint8, device='cuda')\n"))
        self.assertEqual((found["peak_reserved_bytes"], found["other_bytes"]), (300 << 20, 0))

    def test_the_allocator_of_the_driver_is_refused(self):
        with unittest.mock.patch.dict(os.environ, PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync"):
            done = dry_run("--steps", "1")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("takes its memory with cudaMallocAsync", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    # 1 GiB is on the GPU, and as much of the host is pinned or written.
    def test_a_gpu_that_shares_the_memory_of_the_host_holds_the_process_too(self):
        program = self.program(
            "import torch\n"
            "assert torch.cuda.get_device_properties(0).is_integrated == ('GB10' in torch.cuda.get_device_name())\n"
            "a, b = torch.zeros(1 << 28, device='cuda'), torch.ones(1 << 27)\n"
            "c = torch.ones(1 << 27).pin_memory()\n")
        found = answer("--gpu", "gb10", command=program)
        least, most = found["outside"]["host_bytes"]
        self.assertTrue(found["integrated"] and 1 << 30 <= least <= most, (least, most))
        self.assertEqual([answer("--gpu", "gb10", "--memory", memory, command=program)["fits"] for memory in ("2GiB", "8GiB")], [False, True])
        found = answer("--memory", "2GiB", command=program)
        self.assertEqual((found["integrated"], found["outside"]["host_bytes"], found["fits"]), (False, [0, 0], True))
        done = dry_run("--gpu", "gb10", "--devices", "2", command=program)
        self.assertEqual(done.returncode, 1)
        self.assertIn("2 GPUs on a node, expected 1: the NVIDIA GB10 is a part of its host", done.stderr)

    def test_several_devices(self):
        found = answer("--devices", "2", "--steps", "0", command=self.program(
            "import torch\n"
            "a, b = torch.zeros(1 << 20, device='cuda:0'), torch.zeros(1 << 24, device='cuda:1')\n"
            "import ctypes, subprocess\n"
            "nvml, count = ctypes.CDLL('libnvidia-ml.so.1'), ctypes.c_uint()\n"
            "assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0 and count.value == 2\n"
            "smi = subprocess.run(['nvidia-smi', '--query-gpu=index,name', '--format=csv,noheader'], text=True, capture_output=True)\n"
            "assert smi.stdout == '0, NVIDIA H100 80GB HBM3\\n1, NVIDIA H100 80GB HBM3\\n', smi\n"))
        self.assertEqual([rank["device"] for rank in found["ranks"]], [0, 1])
        self.assertEqual([rank["peak_live_bytes"] for rank in found["ranks"]], [4 << 20, 4 << 24])
        self.assertEqual(found["peak_live_bytes"], 4 << 24)

    def test_nvml_leaves_the_gpu_to_forked_processes(self):
        found = answer("--steps", "0", command=self.program(
            "import ctypes, multiprocessing, torch\n"
            "def used():\n"
            "    nvml, handle, memory = ctypes.CDLL('libnvidia-ml.so.1'), ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()\n"
            "    assert nvml.nvmlInit_v2() == nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0\n"
            "    assert nvml.nvmlDeviceGetMemoryInfo(handle, memory) == 0 and memory[1] + memory[2] == memory[0]\n"
            "    return memory[2]\n"
            "def engine():\n"
            "    x = torch.zeros(1 << 20, device='cuda')\n"
            "    assert used() > 4 << 20, used()\n"
            "assert used() == 0, used()\n"
            "process = multiprocessing.get_context('fork').Process(target=engine)\n"
            "process.start()\n"
            "process.join()\n"
            "assert process.exitcode == 0, process.exitcode\n"))
        self.assertEqual(found["peak_live_bytes"], 4 << 20)

    def test_an_interrupt_gives_the_memory_so_far(self):
        command = self.program(
            "import sys, threading, torch\n"
            "x = torch.zeros(1 << 20, device='cuda')\n"
            "print('allocated', file=sys.stderr, flush=True)\n"
            "threading.Event().wait()\n")
        with subprocess.Popen([TOOL, "dryrun", "--json", "--", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler)) as run:
            for line in run.stderr:
                if "allocated" in line:
                    break
            run.send_signal(signal.SIGINT)
            found = json.loads(run.communicate()[0])
        self.assertTrue(found["interrupted"] and found["so_far"] and found["fits"])
        self.assertEqual(found["peak_live_bytes"], 4 << 20)
        place = found["ranks"][0]["stopped_at"]
        self.assertEqual(place["frame"], f"{command[1]}:4")
        self.assertIn("/threading.py:", place["innermost"])

    # PyTorch has a file for each extension that it builds, and waits for ever where one is left.
    def test_an_interrupt_gives_the_lock_of_an_extension_back(self):
        lock = self.folder / "lock"
        command = self.program(
            "import sys, threading, torch\n"
            "from torch.utils.file_baton import FileBaton\n"
            "torch.cuda.init()\n"
            f"baton = FileBaton({str(lock)!r})\n"
            "print('acquired', baton.try_acquire(), file=sys.stderr, flush=True)\n"
            "threading.Event().wait()\n")
        with subprocess.Popen([TOOL, "dryrun", "--", *command], stderr=subprocess.PIPE, text=True,
                              preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler)) as run:
            self.assertTrue(any("acquired True" in line for line in run.stderr))
            self.assertTrue(lock.exists())
            run.send_signal(signal.SIGINT)
            run.communicate()
        self.assertFalse(lock.exists())

    def test_the_program_ends_where_the_command_is_killed(self):
        command = self.program(
            "import os, sys, time, torch\n"
            "torch.zeros(1, device='cuda')\n"
            "print('process', os.getpid(), file=sys.stderr, flush=True)\n"
            "while True: time.sleep(0.01)\n")
        for options in ((), ("--world", "8")):
            with subprocess.Popen([TOOL, "dryrun", *options, "--", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, "TMPDIR": str(self.folder)}) as run:
                process = next(int(line.split()[1]) for line in run.stderr if line.startswith("process"))
                self.addCleanup(subprocess.run, ["kill", "-9", str(process)], stderr=subprocess.DEVNULL, check=False)
                run.kill()
            end = time.monotonic() + 30
            while pathlib.Path(f"/proc/{process}").exists() and time.monotonic() < end:
                time.sleep(0.05)
            self.assertFalse(pathlib.Path(f"/proc/{process}").exists(), options)

    def test_refuses_what_has_no_answer(self):
        for lines, error in (("import torch\n", "the program never asked for a GPU"),
                             ("print('hello')\n", "the program never imported torch"),
                             ("import sys; sys.exit(5)\n", "ended with status 5 and left no answer"),
                             ("import sys, torch; torch.zeros(1, device='cuda'); sys.exit('no data')\n",
                              "ended with status 1 before a step of an optimizer: no data"),
                             ("import argparse, torch; argparse.ArgumentParser().error('no --data')\n",
                              "ended with status 2 before it used a GPU, its own output may tell why"),
                             ("import os, torch; torch.zeros(1, device='cuda'); os.kill(os.getpid(), 9)\n",
                              "was ended by SIGKILL and left no answer"),
                             ("import os, torch\n"
                              "def engine(): torch.zeros(1, device='cuda'); os.kill(os.getpid(), 9)\n"
                              "process = torch.multiprocessing.get_context('fork').Process(target=engine)\n"
                              "process.start(); process.join()\n", "a process that took 2 MiB of a GPU was killed before it could write its answer"),
                             ("import torch; torch.zeros(1, device='cuda'); raise KeyError('x')\n", "program.py:1: 'x'")):
            with self.subTest(error):
                done = dry_run("--steps", "0", command=self.program(lines))
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(error, done.stderr)
                self.assertEqual(done.stdout, "")
        done = dry_run("--steps", "0", command=(PYTHON, "-I", self.program("import torch; torch.zeros(1, device='cuda')\n")[1]))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("its memory was not recorded: start Python without -I and -E", done.stderr)
        for arguments, error in ((("--gpu", "h10"), "no GPU 'h10' is known"), (("--fit", "x"), "expected NAME=LEAST..MOST"),
                                 (("--fit", "x=1..2"), "the command has no {x}"), (("--devices", "0"), "--devices")):
            with self.subTest(error):
                done = dry_run(*arguments)
                self.assertEqual(done.returncode, 1)
                self.assertIn(error, done.stderr)

    @slow
    def test_a_program_comes_from_standard_input(self):
        lines = "import sys, torch; x = torch.zeros(int(sys.argv[1]) << 20, device='cuda')\n"
        done = subprocess.run([TOOL, "dryrun", "--json", "--steps", "0", "--fit", "n=1..2", "--", PYTHON, "-", "{n}"], input=lines, capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([run["fits"] for run in json.loads(done.stdout)["runs"]], [True, True])

    @slow
    def test_a_wrapper_starts_the_program(self):
        program = self.program("import torch\nx = torch.zeros(512, 512, device='cuda') @ torch.zeros(512, 512, device='cuda')\n")
        for command in (("env", "A=1", *program), ("nice", *program), ("bash", "-c", f"A=1 {program[0]} {program[1]}")):
            self.assertGreater(answer("--steps", "0", command=command)["peak_live_bytes"], 2 << 20)
        script = self.folder / "train.sh"
        script.write_text(f"#!/bin/sh\n{program[0]} {program[1]}\n")
        script.chmod(0o755)
        done = dry_run("--steps", "0", command=(str(script),))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f"the command starts the PyTorch of {PYTHON}, and ", done.stderr)
        self.assertIn(f"PATH={os.path.dirname(PYTHON)}:$PATH", done.stderr)
        with unittest.mock.patch.dict(os.environ, PATH=f"{os.path.dirname(PYTHON)}:{os.environ['PATH']}"):
            answer("--steps", "0", command=(str(script),))

    # A PyTorch beside which NVIDIA's libraries are installed, as wheels install them: all their functions fail.
    def test_the_libraries_beside_pytorch_do_not_win(self):
        torch = pathlib.Path(subprocess.run(
            [PYTHON, "-c", "import importlib.util; print(importlib.util.find_spec('torch').submodule_search_locations[0])"],
            capture_output=True, text=True, check=True).stdout.strip())
        own = self.folder / "torch"
        (own / "lib").mkdir(parents=True)
        for entry in [*torch.iterdir(), *(torch / "lib").iterdir()]:
            if entry != torch / "lib":
                (own / entry.relative_to(torch)).symlink_to(entry)
        readers = [elf_reader.read(path) for path in libraries.sources(torch / "lib")]
        failing = libraries.empty_libraries(readers, {"libcuda.so.1"}, set())
        self.assertTrue(any(soname.startswith("libcudart.so.") for soname in failing))
        # PyTorch looks for every library in each of its folders: these are two of them, for CUDA 12 and 13.
        for place in (self.folder / "nvidia" / "cublas" / "lib", self.folder / "nvidia" / "cu13" / "lib"):
            place.mkdir(parents=True)
            for soname, library in failing.items():
                library.needed = []
                with unittest.mock.patch.dict(elf_writer.RETURN_0, {library.machine: RETURN_1}):
                    (place / soname).write_bytes(elf_writer.contents(library))
        os.environ["PYTHONPATH"] = str(self.folder)
        self.addCleanup(os.environ.pop, "PYTHONPATH")
        found = answer("--steps", "1")
        self.assertEqual(found["steps"], 1)

    # PyTorch loads the ones beside it by their paths. A part of NVRTC, the linker of kernels and annotations have no counterpart here.
    def test_the_libraries_beside_pytorch_are_not_loaded(self):
        answer("--steps", "0", command=self.program(
            "import os, torch\n"
            "x = torch.zeros(1 << 20, device='cuda')\n"
            "loaded = {line.split()[-1] for line in open('/proc/self/maps') if '/nvidia/' in line}\n"
            "others = ('libnvrtc-builtins', 'libnvJitLink', 'libnvToolsExt')\n"
            "assert all(os.path.basename(path).startswith(others) for path in loaded), loaded\n"))

    def test_the_time_limit_is_named_before_the_first_use_of_the_gpu(self):
        done = dry_run("--time-limit", "0.05m", command=self.program(
            "import atexit, threading, torch\n"
            "atexit.register(threading.Event().wait, 1)\n"  # so that a second signal would come in the meantime
            "threading.Event().wait()\n"))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, "ran out of time before it used (a GPU|PyTorch), .*--time-limit")
        self.assertNotIn("Traceback", done.stderr)

    def test_a_file_without_room_takes_no_answer_away(self):
        done = dry_run("--json", "--graph", "/dev/full")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("tidepool: /dev/full: No space left on device", done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual((found["fits"], found["graph"], found["steps"]), (True, None, 3))

    @slow
    def test_no_room_for_the_answer(self):
        lines = "import torch; x = torch.zeros(1 << 20, device='cuda')\n"
        answer("--steps", "0", command=self.program(lines))  # makes the libraries
        done = subprocess.run([TOOL, "dryrun", "--steps", "0", "--", *self.program(lines)], capture_output=True, text=True, check=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, r"tidepool-dryrun-.*: the memory of the program was not written whole .*: OSError: .* too large")
        self.assertNotIn("Traceback", done.stderr)

    @slow
    def test_an_error_of_the_dry_run_itself_is_named(self):
        done = dry_run("--steps", "1", command=self.program(
            "import torch\n"
            "import _tidepool_recording\n"
            "def fail(*_): raise RuntimeError('no snapshot here')\n"
            "_tidepool_recording.Recording.write = fail\n"
            "weight = torch.nn.Parameter(torch.zeros(4, device='cuda', requires_grad=True))\n"
            "torch.optim.SGD([weight]).step()\n"))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("the dry run itself failed, not the program: RuntimeError: no snapshot here", done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        # Before the program's first line, at the import of PyTorch.
        (self.folder / "torch_change.py").write_text(
            "import _tidepool_dryrun\n"
            "def fail(*_): raise AttributeError('no such function in this PyTorch')\n"
            "_tidepool_dryrun.watch_errors = fail\n")
        done = dry_run("--steps", "0", command=self.program("import torch_change, torch\nx = torch.zeros(4, device='cuda')\n"))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("the dry run itself failed, not the program: AttributeError: no such function in this PyTorch", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    @slow
    def test_the_front_page_shows_what_is_printed(self):
        folder = pathlib.Path(__file__).resolve().parent
        page = (folder.parents[2] / "README.md").read_text(encoding="utf-8")
        command, shown = re.search(r"^<!-- dryrun -->\n```console\n\$ tidepool (.*)\n([^`]*)```$", page, re.M).groups()
        words = [PYTHON if word == "python" else word for word in shlex.split(command)]
        done = subprocess.run([TOOL, *words], cwd=folder, capture_output=True, text=True, check=False)
        if "torch 2.11.0+" not in done.stdout:
            self.skipTest("the page shows the answer of PyTorch 2.11.0")
        self.assertEqual(masked(done.stdout), masked(shown))

    def test_programs_may_fork_and_read_the_devices(self):
        found = answer("--steps", "0", "--devices", "2", command=self.program(
            "import os, sys, torch\n"
            "assert os.environ['CUDA_VISIBLE_DEVICES'] == '0,1' and torch.cuda.device_count() == 2\n"
            "child = os.fork()\n"
            "if child == 0:\n"
            "    sys.exit(0)\n"
            "assert os.waitpid(child, 0)[1] == 0\n"
            "x = torch.zeros(1 << 20, device='cuda')\n"))
        self.assertEqual(found["peak_live_bytes"], 4 << 20)
        self.assertEqual(len(found["ranks"]), 1)

    def test_the_programs_own_sitecustomize_runs(self):
        (self.folder / "sitecustomize.py").write_text("import sys; sys.own_site = 1\n")
        os.environ["PYTHONPATH"] = str(self.folder)
        self.addCleanup(os.environ.pop, "PYTHONPATH")
        found = answer("--steps", "0", command=self.program(
            "import sys, torch\nassert sys.own_site == 1\nx = torch.zeros(1 << 20, device='cuda')\n"))
        self.assertEqual(found["peak_live_bytes"], 4 << 20)


if __name__ == "__main__":
    unittest.main()
