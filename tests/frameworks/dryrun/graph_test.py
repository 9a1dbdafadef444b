#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Task graphs of programs: each takes the memory and the time of its dry run, and tidepool can schedule it.

graph_test.py TOOL PYTHON
"""
import gzip
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from quick import slow

TOOL, PYTHON = sys.argv.pop(1), sys.argv.pop(1)
NETWORKS = str(pathlib.Path(__file__).parent / "networks.py")
PARTS = str(pathlib.Path(TOOL).resolve().parents[1] / "dryrun")
RANKS = str(pathlib.Path(__file__).parent / "ranks.py")
PROGRAMS = (("gpt",), ("resnet",), ("convnext",), ("unet",), ("lstm",), ("mlp",), ("gpt", "--type", "bfloat16", "--dropout", "0.1"),
            ("gpt", "--type", "float16", "--micro-batches", "2", "--tied"), ("gpt", "--checkpoint", "3", "--keep-gradients"),
            ("resnet", "--ema", "--optimizer", "RMSprop"))


EXTENSION = """
import torch
from torch.utils.cpp_extension import load_inline
DECLARED = "#include <cstdint>\\n#include <pybind11/pybind11.h>\\nvoid twice(std::int64_t x, std::int64_t y, std::int64_t count);"
DEFINED = '''
#include <cstdint>
__global__ void Twice(const float* x, float* y, std::int64_t count) {
  const std::int64_t i = blockIdx.x * 256L + threadIdx.x;
  if (i < count) y[i] = 2 * x[i];
}
void twice(std::int64_t x, std::int64_t y, std::int64_t count) {
  Twice<<<(count + 255) / 256, 256>>>(reinterpret_cast<const float*>(x), reinterpret_cast<float*>(y), count);
}
'''
extension = load_inline("tidepool_twice", DECLARED, DEFINED, functions=["twice"], with_pytorch_error_handling=False, no_implicit_headers=True,
                        build_directory=FOLDER)

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(context, x): return twice(x)
    @staticmethod
    def backward(context, gradient): return twice(gradient.contiguous())

def twice(x):
    y = torch.empty_like(x)
    extension.twice(x.data_ptr(), y.data_ptr(), x.numel())
    return y

layers = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.Linear(1024, 1024)).cuda()
optimizer = torch.optim.AdamW(layers.parameters())
while True:
    layers[1](Twice.apply(layers[0](torch.ones(1024, 1024, device="cuda")))).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def ask(*words):
    done = subprocess.run([TOOL, *words, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def operators_of(text):
    """Returns the operators of a graph. Tasks of no time for memory that a program holds differ: it keeps its last loss until the next one. So
    does `set_`, by which an LSTM on a GPU finds that its weights lie in one piece."""
    return [(task["operation"], task["phase"], task.get("layer")) for task in json.loads(text)["tasks"]
            if not task["name"].endswith(" end") and task["operation"] != "set_"]


class GraphTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "step.json.gz"

    def run_program(self, *options, command=None):
        return subprocess.run([TOOL, "dryrun", "--json", "--graph", str(self.file), *options, "--", *command], capture_output=True, text=True,
                              check=False)

    def answer(self, *words, options=()):
        done = self.run_program(*options, command=(PYTHON, NETWORKS, *words))
        self.assertEqual(done.returncode, 0, done.stderr)
        with gzip.open(self.file) as file:
            return json.loads(done.stdout), json.loads(file.read())

    def refused(self, error, lines, *options):
        """Returns the output of a program of these lines, for which an error is told."""
        path = self.folder / "program.py"
        path.write_text("import torch\n" + lines)
        done = self.run_program(*options, command=(PYTHON, str(path)))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(error, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return done.stdout

    def test_takes_the_memory_and_the_time_of_the_run(self):
        for program in PROGRAMS:
            with self.subTest(program):
                found, graph = self.answer(*program)
                answer = found["graph"]
                simulated = ask("simulate", str(self.file), "--policy", "none", "--memory", "1TiB")
                self.assertLessEqual(abs(simulated["peak_device_bytes"] / found["peak_live_bytes"] - 1), 0.01)
                self.assertLessEqual(abs(answer["peak_bytes"] / found["peak_live_bytes"] - 1), 0.01)
                self.assertLessEqual(abs(simulated["ideal_seconds"] / answer["seconds"] - 1), 0.01)
                self.assertEqual((answer["step"], answer["notes"]), (3, []))
                self.assertEqual(graph["gpu"], "NVIDIA H100 80GB HBM3")
                kinds = {datum["kind"] for datum in graph["data"]}
                self.assertLessEqual({"input", "weight", "activation", "gradient", "weight-gradient", "optimizer-state"}, kinds)
                self.assertEqual({task["phase"] for task in graph["tasks"]}, {"forward", "backward", "update"})

    def test_the_reserve_of_recurrent_layers_lives_until_the_backward_pass(self):
        _, graph = self.answer("lstm")
        forward, backward = (next(task for task in graph["tasks"] if task["operation"] == name) for name in ("_cudnn_rnn", "_cudnn_rnn_backward"))
        sizes = {one["name"]: one["bytes"] for one in graph["data"]}
        outputs, reserve = sorted(forward["writes"], key=sizes.get)
        # The gates and the state of each step of two layers, and the input of the second one.
        self.assertEqual(sizes[reserve], 11 * sizes[outputs])
        self.assertEqual([task["name"] for task in graph["tasks"] if reserve in task["reads"]], [backward["name"]])

    # The second step has new buckets of gradients beside the old ones.
    def test_a_rank_of_several_takes_the_memory_of_its_run(self):
        torchrun = (PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2", RANKS, "ddp")
        self.file = self.folder / "step-{rank}.json.gz"
        done = self.run_program("--devices", "2", command=torchrun)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertLessEqual(abs(found["graph"]["peak_bytes"] / found["peak_live_bytes"] - 1), 0.01)
        files = [str(self.file).replace("{rank}", rank) for rank in "01"]
        self.assertIn(found["graph"]["file"], files)
        for name in files:
            self.check_collectives(name)

    def check_collectives(self, name):
        with gzip.open(name) as file:
            made = json.loads(file.read())
        sizes = {datum["name"]: datum["bytes"] for datum in made["data"]}
        collectives = [task for task in made["tasks"] if task["operation"] == "allreduce_"]
        self.assertGreaterEqual(len(collectives), 1)
        for task in collectives:
            # Half of the gradients goes to the other rank, and half of the sums.
            self.assertEqual((task["phase"], task["may_rerun"], len(task["updates"])), ("backward", False, 1))
            self.assertAlmostEqual(task["algorithms"][0]["seconds"], 5e-6 + sizes[task["updates"][0]] / 360e9, delta=1e-7)

    def test_tells_where_operators_belong(self):
        found, graph = self.answer("gpt")
        data = {datum["name"]: datum for datum in graph["data"]}
        self.assertEqual(data["blocks.1.output.weight"], {"name": "blocks.1.output.weight", "bytes": 4 * 256 * 256, "kind": "weight"})
        self.assertEqual(data["blocks.1.output.weight.gradient"]["kind"], "weight-gradient")
        self.assertEqual(data["blocks.1.output.weight.exp_avg"]["kind"], "optimizer-state")
        products = [task for task in graph["tasks"] if task.get("layer") == "blocks.1.output"]
        self.assertEqual([task["operation"] for task in products], ["addmm", "mm", "mm", "sum"])
        self.assertEqual([task["phase"] for task in products], ["forward", "backward", "backward", "backward"])
        for task in products:
            self.assertRegex(task["name"], r"^\d+\.\w+ networks.py:\d+$")

    @slow
    def test_operators_run_again_where_they_give_the_same(self):
        _, graph = self.answer("resnet")
        tasks = [task for task in graph["tasks"] if task["phase"] == "forward"]
        for operation in ("convolution", "cudnn_batch_norm", "relu_"):
            found = [task["may_rerun"] for task in tasks if task["operation"] == operation and not task["name"].endswith(" statistics")]
            self.assertIn(True, found, operation)
        _, graph = self.answer("gpt", "--dropout", "0.1")
        random = {task["operation"] for task in graph["tasks"] if task["phase"] == "forward" and not task["may_rerun"]}
        self.assertLessEqual({"native_dropout"}, random)
        self.assertTrue(any("attention" in operation for operation in random), random)
        _, graph = self.answer("gpt")
        self.assertTrue(any("attention" in task["operation"] and task["may_rerun"] for task in graph["tasks"]))

    def test_state_that_consists_of_several_tensors_is_named(self):
        path = self.folder / "program.py"
        path.write_text(
            "import torch\n"
            "class Packed(torch.Tensor):\n"
            "    @staticmethod\n"
            "    def __new__(cls, codes, scale): return torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=torch.float32, device=codes.device)\n"
            "    def __init__(self, codes, scale): self.codes, self.scale = codes, scale\n"
            "    def __tensor_flatten__(self): return ['codes', 'scale'], None\n"
            "    @classmethod\n"
            "    def __torch_dispatch__(cls, function, types, arguments=(), named=None): raise NotImplementedError(str(function))\n"
            "class Small(torch.optim.Optimizer):\n"
            "    def __init__(self, weights): super().__init__(weights, {})\n"
            "    def step(self):\n"
            "        for weight in self.param_groups[0]['params']:\n"
            "            state = self.state[weight]\n"
            "            if not state:\n"
            "                state['moment'] = Packed(torch.zeros_like(weight, dtype=torch.uint8), torch.zeros(1 << 14, device='cuda'))\n"
            "                state['factors'] = [torch.zeros(1 << 16, device='cuda')]\n"
            "            state['moment'].codes.add_(1); state['moment'].scale.add_(1); state['factors'][0].add_(1)\n"
            "            weight.data.add_(weight.grad, alpha=-1)\n"
            "net = torch.nn.Sequential(torch.nn.Linear(1024, 1024, bias=False)).cuda()\n"
            "optimizer = Small(net.parameters())\n"
            "while True:\n    net(torch.ones(8, 1024, device='cuda')).sum().backward()\n    optimizer.step()\n    optimizer.zero_grad()\n")
        done = self.run_program("--by", "module", command=(PYTHON, str(path)))
        self.assertEqual(done.returncode, 0, done.stderr)
        with gzip.open(self.file) as file:
            states = {one["name"]: one["bytes"] for one in json.loads(file.read())["data"] if one["kind"] == "optimizer-state"}
        self.assertEqual(states, {"0.weight.moment.codes": 1 << 20, "0.weight.moment.scale": 4 << 14, "0.weight.factors.0": 4 << 16})
        rows = {row["module"]: row for row in json.loads(done.stdout)["ranks"][0]["modules"]}
        self.assertEqual(rows["0"]["optimizer_bytes"], sum(states.values()))

    # The extension launches its kernel outside of PyTorch's operators, in the forward pass and in the backward pass.
    def test_the_kernel_of_an_extension_is_one_task(self):
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        version = subprocess.run([PYTHON, "-c", "import torch; print(torch.version.cuda)"], capture_output=True, text=True, check=True).stdout.split(".")[0]
        if not (shutil.which("c++") and shutil.which("ninja") and pathlib.Path(nvcc).exists()):
            self.skipTest("no c++, ninja or nvcc")
        if f"release {version}." not in subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout:
            self.skipTest(f"nvcc is not that of CUDA {version}")
        path = self.folder / "program.py"
        path.write_text(EXTENSION.replace("FOLDER", repr(str(self.folder))))
        done = self.run_program("--time-limit", "30m", command=(PYTHON, str(path)))
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(found["graph"]["peak_bytes"], found["peak_live_bytes"])
        with gzip.open(self.file) as file:
            made = json.loads(file.read())
        sizes = {one["name"]: one["bytes"] for one in made["data"]}
        kernels = [task for task in made["tasks"] if task["operation"] == "outside" and task["phase"] != "update"]
        self.assertEqual([(task["phase"], task["may_rerun"], [sizes[name] for name in task["writes"]]) for task in kernels],
                         [(phase, False, [4 << 20]) for phase in ("forward", "backward")])
        self.assertTrue(all(task["algorithms"][0]["seconds"] > 0 for task in kernels))

    # Lengths are tensors of the host, as a data loader makes them, or of the GPU.
    def test_the_ctc_loss_takes_no_more_memory_with_a_graph(self):
        for device in ("cpu", "cuda"):
            with self.subTest(device):
                self.check_ctc_loss(device)

    def check_ctc_loss(self, device):
        path = self.folder / "program.py"
        path.write_text("import torch\nlayer = torch.nn.Linear(80, 20).cuda()\noptimizer = torch.optim.SGD(layer.parameters())\n"
                        "x, targets = torch.zeros(400, 16, 80, device='cuda'), torch.randint(1, 20, (480,)).cuda()\n"
                        "while True:\n    loss = torch.nn.functional.ctc_loss(layer(x).log_softmax(2), targets, torch.full((16,), 400, device=DEVICE), torch.full((16,), 30, device=DEVICE))\n"
                        "    loss = loss + torch.ctc_loss(layer(x).log_softmax(2), targets, torch.full((16,), 400, device=DEVICE), torch.full((16,), 30, device=DEVICE), blank=0, reduction=1)\n"
                        "    loss.backward()\n    optimizer.step()\n    optimizer.zero_grad()\n".replace("DEVICE", repr(device)))
        found = self.check_answer_without_a_graph(str(path), more=2048 if device == "cuda" else 0)  # PyTorch copies lengths of the GPU, for each loss
        self.assertEqual([one["operation"] for one in found["assumed"]], ["ctc_loss with lengths on the device"] * (2 if device == "cuda" else 0))
        with gzip.open(self.file) as file:
            operations = [task["operation"] for task in json.loads(file.read())["tasks"]]
        self.assertEqual([operations.count(name) for name in ("_ctc_loss", "_ctc_loss_backward")], [2, 2])

    # With bounds that a small program reaches.
    def test_very_many_operators_are_joined_while_they_run(self):
        path = self.folder / "program.py"
        path.write_text("import torch, _tidepool_recording, _tidepool_steps\n_tidepool_steps.MOST_NOTES = 100\n_tidepool_recording.MOST_EVENTS = 3000\n"
                        "class Cell(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.weight = torch.nn.Parameter(torch.ones(1 << 20, device='cuda'))\n"
                        "    def forward(self, x):\n        return torch.tanh(x * self.weight + x)\n"
                        "cells = torch.nn.Sequential(*(Cell() for _ in range(4)))\noptimizer = torch.optim.AdamW(cells.parameters())\n"
                        "while True:\n    x = torch.ones(1 << 20, device='cuda')\n    for _ in range(30): x = cells(x)\n    x.sum().backward()\n    optimizer.step()\n")
        done = self.run_program(command=(PYTHON, str(path)))
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertGreater(found["ranks"][0]["lost_events"], 0)
        self.assertLessEqual(abs(found["graph"]["peak_bytes"] / found["peak_live_bytes"] - 1), 0.01)
        self.assertRegex(" ".join(found["graph"]["notes"]), r"^\d{3} operators are joined to \d{2} tasks, each a module or a part of it$")
        with gzip.open(self.file) as file:
            tasks = json.loads(file.read())["tasks"]
        self.assertTrue(any(task["may_rerun"] for task in tasks))
        self.assertAlmostEqual(sum(task["algorithms"][0]["seconds"] for task in tasks) / found["graph"]["seconds"], 1, delta=0.01)

    def test_can_be_scheduled_in_less_memory(self):
        picture = self.folder / "front.svg"
        found, _ = self.answer("gpt", "--batch", "16", options=("--front", str(picture)))
        self.assertIn("<svg", picture.read_text())
        points = [one["slowdown"] for one in found["front"]["points"]]
        self.assertEqual(points, sorted(points, reverse=True))
        self.assertEqual({card["slowdown"] for card in found["front"]["gpus"]}, {1.0})
        memory = int(0.8 * found["peak_live_bytes"])
        schedule = ask("schedule", str(self.file), "--policy", "best", "--memory", str(memory), "--time-limit", "1s")
        self.assertTrue(schedule["fits"])
        self.assertLessEqual(schedule["peak_device_bytes"], memory)
        self.assertGreater(schedule["seconds"], schedule["ideal_seconds"])

    @slow
    def test_tells_how_steps_differ(self):
        found, _ = self.answer("mlp", "--longer-step", "2")
        self.assertRegex(found["graph"]["notes"][0], r"^step 3 has \d+ operators and the one before \d+: they differ from ")
        found, _ = self.answer("mlp", "--steps", "2", options=("--steps", "0"))
        self.assertEqual(found["graph"]["step"], 2)

    # The second model is called when operators of the first one have been noted. A part of a model that is called alone is no model of its own.
    def test_names_tell_several_models_apart(self):
        layers = ("import torch\nclass Generator(torch.nn.Sequential): pass\nclass Critic(torch.nn.Sequential): pass\n"
                  "def layers(kind): return kind(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512)).cuda()\n"
                  "generator, critic = layers(Generator), layers(Critic)\nx = torch.ones(256, 512).cuda()\n")
        adversarial = ("optimizers = [torch.optim.Adam(model.parameters()) for model in (critic, generator)]\n"
                       "while True:\n    critic(generator(x).detach()).mean().backward()\n    optimizers[0].step()\n"
                       "    critic(generator(x)).mean().neg().backward()\n    optimizers[1].step()\n    critic.zero_grad(); generator.zero_grad()\n")
        single = "optimizer = torch.optim.Adam(critic.parameters())\nwhile True:\n    critic[0](x); critic(x).mean().backward()\n    optimizer.step()\n"
        weights = [f"{layer}.{kind}" for layer in (0, 2) for kind in ("bias", "weight")]
        for lines, steps, titles in ((adversarial, "2", ["Critic.", "Generator."]), (single, "3", [""])):
            path = self.folder / "program.py"
            path.write_text(layers + lines)
            done = self.run_program("--steps", steps, command=(PYTHON, str(path)))
            self.assertEqual(done.returncode, 0, done.stderr)
            found = json.loads(done.stdout)["graph"]
            self.assertEqual([note for note in found["notes"] if "models" in note], ["the step runs 2 models: Critic, Generator"] if titles[1:] else [])
            with gzip.open(self.file) as file:
                made = json.loads(file.read())
            named = {kind: sorted(datum["name"] for datum in made["data"] if datum["kind"] == kind) for kind in ("weight", "optimizer-state")}
            self.assertEqual([name for name in named["weight"] if any(name.startswith(title) for title in titles)],
                             [title + weight for title in titles for weight in weights])
            self.assertEqual({name.rpartition(".")[0] for name in named["optimizer-state"]} - {title + weight for title in titles for weight in weights}, set())
            self.assertEqual({task["layer"] for task in made["tasks"] if "layer" in task}, {f"{title}{layer}" for title in titles for layer in range(3)})

    def test_operators_of_the_host_are_no_part_of_a_step(self):
        path = self.folder / "program.py"
        path.write_text("import itertools, torch\nweight = torch.nn.Parameter(torch.zeros(1 << 20, device='cuda'))\noptimizer = torch.optim.SGD([weight])\n"
                        "for number in itertools.count():\n    sample = torch.rand(4)\n    for at in range(number):\n"
                        "        sample = torch.cat([sample, sample[at:]]) + torch.arange(4, device='cpu').sum()\n"
                        "    (weight * sample.sum().cuda()).sum().backward()\n    optimizer.step()\n")
        done = self.run_program(command=(PYTHON, str(path)))
        self.assertEqual(json.loads(done.stdout)["graph"]["notes"], [], done.stderr)
        with gzip.open(self.file) as file:
            self.assertIn("_to_copy", {task["operation"] for task in json.loads(file.read())["tasks"]})

    @slow
    def test_the_answer_is_that_without_a_graph(self):
        self.check_answer_without_a_graph(NETWORKS, "mlp")

    def check_answer_without_a_graph(self, *words, more=0):
        """Checks that a program takes as much memory with a graph, or as many bytes more. Returns the answer."""
        done = self.run_program(command=(PYTHON, *words))
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        plain = subprocess.run([TOOL, "dryrun", "--json", "--", PYTHON, *words], capture_output=True, text=True, check=True)
        plain = json.loads(plain.stdout)
        self.assertIsNone(plain["graph"])
        self.assertEqual(found["peak_live_bytes"], plain["peak_live_bytes"] + more)
        for key in ("peak_reserved_bytes", "steps"):
            self.assertEqual(found[key], plain[key], key)
        if not more:
            self.assertEqual(found["ranks"][0]["top"], plain["ranks"][0]["top"])
        return found

    # The bias of a layer is added in place, where the input is not contiguous.
    def test_layers_take_no_more_memory_with_a_graph(self):
        path = self.folder / "program.py"
        path.write_text("import torch\nlayer = torch.nn.Linear(64, 1 << 16, device='cuda')\nx = torch.zeros(4, 64, 64).cuda().transpose(0, 1)\n"
                        "bias = torch.nn.Parameter(torch.zeros(64).cuda())\noptimizer = torch.optim.SGD([bias])\n"
                        "while True:\n    with torch.no_grad():\n        layer(x)\n        (x.reshape(-1, 64)[:64] @ layer.weight.T) + layer.bias\n"
                        "    bias.sum().backward()\n    optimizer.step()\n")
        self.check_answer_without_a_graph(str(path))
        with gzip.open(self.file) as file:
            tasks = json.loads(file.read())["tasks"]
        self.assertEqual([task["operation"] for task in tasks if task["phase"] == "forward" and task["operation"] in ("mm", "add", "add_")], ["mm", "add_", "mm", "add"])

    # Events of the stand-in have the times of its clock.
    def test_a_program_writes_the_graph_of_its_own_step(self):
        program = str(pathlib.Path(__file__).parent / "live.py")
        file = self.folder / "own.json"
        subprocess.run([TOOL, "dryrun", "--steps", "0", "--", PYTHON, program, PARTS, str(file)], capture_output=True, check=True)
        found = json.loads(file.read_text())
        done = self.run_program(command=(PYTHON, program, PARTS))
        self.assertEqual(done.returncode, 0, done.stderr)
        with gzip.open(self.file) as whole:
            expected = json.loads(whole.read())
        # Memory that is older than the step comes in the order of addresses.
        for uses in ("reads", "writes", "updates"):
            self.assertEqual([len(task.pop(uses)) for task in found["tasks"]], [len(task.pop(uses)) for task in expected["tasks"]])
        self.assertEqual(found["tasks"], expected["tasks"])
        self.assertEqual(sorted((datum["bytes"], datum["kind"]) for datum in found["data"]),
                         sorted((datum["bytes"], datum["kind"]) for datum in expected["data"]))
        self.assertEqual((found["gpu"], found["link"]), (expected["gpu"], expected["link"]))

    @slow
    def test_the_graph_of_a_model_takes_the_memory_of_its_training(self):
        program, file = str(pathlib.Path(__file__).parent / "model_step.py"), self.folder / "model.json"
        for network in ("mlp", "resnet", "resnet50", "lstm", "gpt", "bfloat16", "checkpoint"):
            with self.subTest(network):
                done = self.run_program("--no-init", command=(PYTHON, program, network, "train"))
                self.assertEqual(done.returncode, 0, done.stderr)
                trained = json.loads(done.stdout)
                with gzip.open(self.file) as whole:
                    expected = operators_of(whole.read())
                for how in ("graph", "exported") if network not in ("checkpoint", "lstm") else ("graph",):
                    done = subprocess.run([PYTHON, program, network, how, PARTS, str(file)], capture_output=True, text=True, check=False)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertLessEqual(abs(json.loads(done.stdout)["peak_bytes"] / trained["peak_live_bytes"] - 1), 0.01)
                    simulated = ask("simulate", str(file), "--policy", "none", "--memory", "1TiB")
                    self.assertEqual(simulated["peak_device_bytes"], json.loads(done.stdout)["peak_bytes"])
                    self.assertEqual(operators_of(file.read_text()), expected)

    @slow
    def test_refuses_models_without_a_loss(self):
        lines = ("import sys, torch; sys.path.insert(0, sys.argv[1])\n"
                 "from tidepool_dryrun import model\n"
                 "def graph(net, loss=None, gpu='h100'):\n"
                 "    try:\n"
                 "        model.write(net, sys.argv[2], (torch.zeros(2, 4),), loss, (), None, gpu)\n"
                 "    except ValueError as error:\n"
                 "        print(error)\n"
                 "graph(torch.nn.Linear(4, 3)); graph(torch.nn.Linear(4, 3).requires_grad_(False), lambda y: y.sum())\n"
                 "graph(torch.nn.Linear(4, 3), lambda y: None); graph(torch.nn.Linear(4, 3), lambda y: y.sum(), 'h10')\n"
                 "graph(torch.nn.Linear(4, 3), lambda y: y.sum())\n")
        file = self.folder / "model.json"
        done = subprocess.run([PYTHON, "-c", lines, PARTS, str(file)], capture_output=True, text=True, check=True)
        told = done.stdout.splitlines()
        self.assertIn("the loss is a tensor of sizes [2, 3], expected a tensor of one number", told[0])
        self.assertIn("the loss depends on no parameter that requires a gradient", told[1])
        self.assertIn("the loss is NoneType", told[2])
        self.assertIn("no GPU 'h10' is known", told[3])
        self.assertEqual(len(told), 4)
        self.assertEqual({task["phase"] for task in json.loads(file.read_text())["tasks"]}, {"forward", "backward"})

    @slow
    def test_refuses_what_has_no_graph(self):
        use = "weight = torch.nn.Parameter(torch.zeros(1 << 20, device='cuda'))\nweight.grad = torch.zeros_like(weight)\n"
        step = "torch.optim.SGD([weight]).step()\n"
        for error, lines in (("took 0 steps of an optimizer of PyTorch, so there is no task graph: expected 2 complete ones", use),
                             ("took 1 step of an optimizer", use + step)):
            self.assertTrue(json.loads(self.refused(error, lines))["fits"])
        self.assertEqual(self.refused("--steps 1, expected 2 or more", use, "--steps", "1"), "")
        self.assertEqual(self.refused("--graph with --fit", use, "--fit", "batch=1..2"), "")
        self.file = self.folder / "none" / "step.json"
        self.assertEqual(self.refused(f"--graph {self.file}: no folder {self.file.parent}: make it", use), "")

    def test_tells_what_would_make_a_program_fit(self):
        words = ("gpt", "--batch", "16", "--layers", "6", "--larger-step", "1")  # the second one
        found, graph = self.answer(*words)
        self.assertEqual((found["remedies"], found["needed_bytes"]), ([], None), "it fits")
        memory = int(0.85 * found["peak_reserved_bytes"])
        done = self.run_program("--memory", str(memory), command=(PYTHON, NETWORKS, *words))
        self.assertEqual(done.returncode, 2, done.stderr)
        small = json.loads(done.stdout)
        self.assertFalse(small["fits"])
        self.assertEqual(small["needed_bytes"], found["reserved_range"][1])
        with gzip.open(self.file) as file:
            self.assertEqual(len(json.loads(file.read())["tasks"]), len(graph["tasks"]), "the graph is that of the run with enough memory")
        remedies = {one["name"].split(",")[0]: one for one in small["remedies"]}
        batch = next(one for name, one in remedies.items() if name.startswith("batch "))
        blocks = next(one for name, one in remedies.items() if name.startswith("recompute "))
        schedule = remedies["offload and recompute"]
        self.assertTrue(batch["checked"] and batch["fits"] and blocks["checked"] and not schedule["checked"], small["remedies"])
        for one in (blocks, schedule):
            self.assertTrue(one["fits"] and one["slowdown"] >= 1, one)
            self.assertLess(one["peak_bytes"], memory)
        in_budget = remedies["offload and recompute modules"]
        self.assertTrue(in_budget["checked"] and in_budget["fits"] and in_budget["slowdown"] >= 1, in_budget)
        self.assertRegex(in_budget["how"], r"^\S+python -m tidepool.torch --budget \d+MiB .* gpt --batch 16 --layers 6 --larger-step 1$")
        self.assertRegex(batch["how"], r"^--batch \d+$")
        self.assertRegex(blocks["how"], r"^torch.utils.checkpoint.checkpoint\(block, x, use_reentrant=False\) of blocks.0")
        self.assertIn("moments of Adam in 8 bits", remedies)
        self.assertIn("optimizer state on the host", remedies)
        # The program with as many checkpoints takes the memory that was told.
        with_checkpoints, _ = self.answer(*words, "--checkpoint", blocks["name"].split()[1])
        self.assertLessEqual(abs(blocks["peak_bytes"] / with_checkpoints["peak_live_bytes"] - 1), 0.01)

    # With four samples PyTorch reserves much more than is live.
    @slow
    def test_tells_how_much_larger_the_batch_may_be(self):
        def run(batch):
            words = (TOOL, "dryrun", "--json", "--memory", "1GiB", "--", PYTHON, NETWORKS, "gpt", "--batch", str(batch))
            return json.loads(subprocess.run(words, capture_output=True, text=True, check=False).stdout)

        found = run(4)["larger_batch"]
        self.assertEqual((found["in_place_of"], found["is_least"]), (4, False), found)
        self.assertTrue(run(9 * found["batch"] // 10)["fits"], found)
        self.assertFalse(run(11 * found["batch"] // 10)["fits"], found)

    def test_a_step_without_backward_pass_is_told(self):
        path = self.folder / "program.py"
        path.write_text("import torch\nweight = torch.nn.Parameter(torch.zeros(1 << 20, device='cuda'))\n"
                        "weight.grad = torch.zeros_like(weight)\noptimizer = torch.optim.SGD([weight])\nwhile True: optimizer.step()\n")
        done = self.run_program(command=(PYTHON, str(path)))
        self.assertEqual(json.loads(done.stdout)["graph"]["notes"], ["the step has no backward pass"], done.stderr)


if __name__ == "__main__":
    unittest.main()
