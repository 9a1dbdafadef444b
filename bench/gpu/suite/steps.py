# SPDX-License-Identifier: Apache-2.0
"""The steps of both parts, in the order of their value. A part gets 285 seconds: the steps' own limits add up to more."""
import os
import sys

import predictions
from machine import ROOT
from session import Step

HERE = os.path.dirname(os.path.abspath(__file__))
TRACE = os.path.join(ROOT, "examples", "traces", "vgg16-b4-sgd.rmm.csv.gz")


def script(name, *words):
    # A crash prints the lines of Python that led to it.
    return [sys.executable, "-X", "faulthandler", os.path.join(HERE, name), *words]


def train(network, *words):
    return script("train.py", network, *words)


def judge_losses(rows):
    """Compares losses with those of PyTorch's allocator. A network with other losses in its second run proves nothing."""
    rows = [row for row in rows if "losses" in row]
    equal = {}
    for row in rows:
        first = next(other for other in rows if other["model"] == row["model"])
        if row is not first and first["allocator"] == "native":
            name = "native again" if row["allocator"] == "native" else row["allocator"]
            equal.setdefault(row["model"], {})[name] = row["losses"] == first["losses"]
    sure = [its for its in equal.values() if its.get("native again")]
    answer = {"equal": equal, "networks_that_repeat_themselves": len(sure)}
    if not sure or any(not all(its.values()) for its in sure):
        answer["status"] = "failed"
    return answer


# Each library is compiled by one thread of a compiler, and takes some ten seconds.
COMPILE = """import json
from concurrent.futures import ThreadPoolExecutor
from tidepool._torch_build import compiled
with ThreadPoolExecutor() as threads:
    print(json.dumps([str(path) for path in threads.map(compiled, ("allocator", "slab"))]))"""


def part_a(pack, work, files):
    def program(name):
        return os.path.join(pack, "bin", name)

    tidepool_in_torch = ("torch", "compiler")
    bench = [Step(f"bench_{part}", seconds, [[program("gpu_bench"), part]], needs=("gpu_bench",))
             for part, seconds in (("pairs", 60), ("growth", 30), ("remap", 30), ("copies", 30), ("offload", 40))]
    allocators = ("native", "native", "tidepool", "planned")
    losses = [train(network, "--allocator", allocator, "--scale", "0.5", "--steps", "6", "--deterministic")
              for network in ("resnet50", "gpt2") for allocator in allocators]
    training = [train(network, "--allocator", allocator, "--steps", "12")
                for network in ("resnet50", "gpt2") for allocator in ("native", "expandable", "tidepool", "planned")]
    return [
        Step("probe", 60, [[sys.executable, os.path.join(ROOT, "tests", "gpu", "probe", "probe.py"), program("gpu_probe")]],
             least=15, needs=("gpu_probe",)),
        Step("tests", 80, [script("run_gtest.py", "12", "75", program("gpu_test"))], least=15, needs=("gpu_test",)),
        Step("compile", 60, [[sys.executable, "-c", COMPILE]], needs=tidepool_in_torch),
        Step("equal_losses", 100, losses, least=30, each=60, needs=tidepool_in_torch, judge=judge_losses),
        bench[0],
        Step("pairs_torch", 40, [script("torch_pairs.py", allocator) for allocator in ("native", "expandable", "tidepool")],
             least=15, needs=tidepool_in_torch),
        *bench[1:],
        # Last: it took 86 s on an H200, more than any other, and keeps the results that it has when the time ends.
        Step("training", 120, training, least=40, each=60, needs=tidepool_in_torch),
    ]


def offload(tool, graph):
    """Returns iterations with real copies: plain policies, and one that compresses on the host."""
    run = [tool, "run", graph, "--device", "cuda", "--memory", "6GiB", "--link", "55GB/s", "--iterations", "5", "--json"]
    return [[*run, "--policy", policy] for policy in ("none", "vdnn", "vdnn++", "best")] + [
        [*run, "--policy", "vdnn", "--density", "0.3"]]


def judge_budgets(rows):
    """Fails the step if a row is an error: `budgets.py` goes on with the next share, and ends well. A budget may be refused."""
    errors = [row for row in ([rows] if isinstance(rows, dict) else rows or []) if "error" in row]
    return {"status": "failed", "rows_with_errors": len(errors)} if errors else {}


FUSED = "--kernels=inductor"


def budgets():
    """Returns steps that train within shares of the memory that it takes, by tidepool and then by PyTorch's own ways.

    A process trains plainly, and then at each share of that memory. tidepool's may also measure the link and search.
    """
    shares = ("1.0", "0.7", "0.5", "0.35")
    ways = ((140, "compiled", *shares), (140, "offload", *shares), (100, "checkpoint"), (100, "save_on_cpu"),
            (120, "activation_memory_budget", "0.8", "0.5", "0.2"), (140, "compiled", *shares, FUSED),
            (120, "activation_memory_budget", "0.8", "0.5", "0.2", FUSED))
    return [Step(f"budgets_{way}{'_inductor' if FUSED in words else ''}_{network}", seconds, [script("budgets.py", network, way, *words)], least=60,
                 needs=("torch", "compiler", "tidepool"), judge=judge_budgets)
            for seconds, way, *words in ways for network in ("gpt2-medium", "resnet-50")]


def part_b(pack, work, files):
    def program(name):
        return os.path.join(pack, "bin", name)

    tool, graph, snapshots, tables = program("tidepool"), os.path.join(work, "graph.json"), *(
        os.path.join(files, name) for name in ("snapshots", "cudnn"))

    def cudnn(name, seconds, *words):
        command = [sys.executable, os.path.join(ROOT, "bench", "gpu", "cudnn_workspaces.py"), tool, "--keep", tables, *words]
        return Step(name, seconds, [command], least=20, needs=("tidepool", "cudnn"))

    def snapshot(network, *words):
        name = "-".join([network, *(word.strip("-") for word in words)])
        return train(network, *words, "--snapshot", os.path.join(snapshots, name + ".pickle.gz"))

    filter_of_memcheck = "--gtest_filter=GpuRemapTest.*:Memory/GpuPoolTest.Gives*"
    return [
        Step("snapshots", 100, [snapshot(network) for network in predictions.NETWORKS], least=30, each=40, needs=("torch",)),
        Step("workspaces", 60, [script("torch_workspaces.py", "--seconds", "35")], least=20, needs=("torch",)),
        cudnn("cudnn_float", 60, "--type", "float", "alexnet-grouped:256", "resnet-50:32"),
        Step("offload", 50, offload(tool, graph), least=10, each=15, needs=("tidepool",),
             prepare=[[tool, "model", "resnet-50", "--batch", "64", "-o", graph]]),
        Step("cupy", 30, [script("cupy_streams.py")], needs=("cupy",)),
        Step("numba", 30, [script("numba_kernels.py")], needs=("numba",)),
        Step("cuda_core", 30, [script("cuda_core_graphs.py")], needs=("cuda_core",)),
        Step("cnmem", 30, [[program("cnmem_bench")]], needs=("cnmem_bench",)),
        Step("onnxruntime", 30, [script("onnx_binding.py", os.path.join(work, "model.onnx"))], needs=("onnxruntime",),
             prepare=[[sys.executable, os.path.join(ROOT, "tests", "frameworks", "onnx_model.py"), os.path.join(work, "model.onnx")]]),
        Step("replay", 20, [[tool, "replay", TRACE, "--pool", "1GiB", "--device", "cuda", "--json"]], needs=("tidepool",)),
        Step("memcheck", 50, [["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "3", program("gpu_test"),
                               filter_of_memcheck]], least=15, needs=("compute-sanitizer", "gpu_test")),
        cudnn("cudnn_half", 60, "--type", "half", "alexnet-grouped:256", "resnet-50:32"),
        cudnn("cudnn_all", 80, "--policy", "all", "alexnet-grouped:256"),
        *budgets(),
        # cuDNN measures all algorithms in the first step: 22 s of ResNet-50 on an H200, and more of a U-Net.
        Step("benchmark_mode", 60, [snapshot("resnet50", "--benchmark")], least=30, needs=("torch",)),
    ]


PARTS = {"a": part_a, "b": part_b}
