#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's min-cut partitioner beside tidepool's policies, on the same joint graphs with the same times.

The partitioner chooses the data that the forward pass keeps, for each activation_memory_budget. Here its two graphs become a task
graph, with a task for each operator that runs again, and `tidepool simulate` gives its peak and its time. The policies get the joint
graph. Nothing is computed: tensors of the CPU play the part of a GPU, with 400 TFLOP/s, 2.5 TB/s, 5 us for each operator, and a link
of 50 GB/s. Needs the Python package and PyTorch.
usage: min_cut.py TOOL MODEL BATCH [SHARE...]     MODEL: one of LARGE in tests/frameworks/torch_compile/models.py
"""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from torch._functorch import config
from torch._functorch.partitioners import min_cut_rematerialization_partition

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests" / "frameworks" / "torch_compile"))
import models  # noqa: E402
from tidepool._torch_compile import _capture, _costs, _private  # noqa: E402

POLICIES = ("best", "recompute", "pofo")
SHARES = (0.8, 0.6, 0.5, 0.4, 0.3)
BUDGETS = [number / 20 for number in range(20, -1, -1)]
SEARCH = "8s"
LINK = 50_000_000_000


class Done(Exception):
    """Ends the compilation: the joint graph is all that is wanted."""


class Passes:
    """The task graph of the two graphs of a partition."""

    def __init__(self, joint, costs):
        self.costs, self.tasks, self.data, self.names = costs, [], [], {}
        self.outside = set(_capture._storages(node for node in joint.graph.nodes if node.op in ("placeholder", "get_attr")))

    def names_of(self, nodes):
        return sorted({self.names[key] for key in _capture._storages(nodes) if key in self.names})

    def add(self, graph, phase, suffix):
        """Adds a task for each operator of a graph. Results that nothing reads are a part of its workspace."""
        read = set(_capture._storages(argument for node in graph.nodes for argument in node.all_input_nodes if not is_part(node)))
        for node in graph.nodes:
            if node.op != "call_function" or is_part(node):
                continue
            sizes = {_private.storage_key(tensor): _costs.round_up(tensor.untyped_storage().nbytes())
                     for tensor in _costs.tensors_of(node.meta["val"])}
            made = [key for key in sizes if key not in self.outside and key not in self.names]
            if not made:
                continue
            reads, kept = self.names_of(node.all_input_nodes), [key for key in made if key in read]
            for number, key in enumerate(kept):
                self.names[key] = f"{node.name}.{number}{suffix}"
                self.data.append({"name": self.names[key], "bytes": sizes[key], "kind": "activation" if phase == "forward" else "gradient"})
            seconds, workspace = self.costs.of(node, sum(sizes[key] for key in made))
            workspace += sum(sizes[key] for key in made if key not in kept)
            self.task(node.name + suffix, phase, reads, [self.names[key] for key in kept], seconds, workspace)

    def task(self, name, phase, reads, writes, seconds=0, workspace=0):
        if not writes:
            writes = [f"{name} done"]
            self.data.append({"name": writes[0], "bytes": 1, "kind": "activation"})
        self.tasks.append({"name": name, "phase": phase, "reads": reads, "writes": writes,
                           "algorithms": [{"name": "eager", "seconds": seconds, "workspace": workspace}]})


def is_part(node):
    return getattr(node.target, "__name__", "") == "getitem"


def results_of(module):
    return list(next(node for node in module.graph.nodes if node.op == "output").args[0])


def of_partition(joint, forward, backward, count, costs):
    """Returns the task graph of the two graphs. The backward pass knows the data that the forward pass saved, and makes the rest again."""
    passes = Passes(joint, costs)
    passes.add(forward.graph, "forward", "")
    results, saved = results_of(forward)[:count], results_of(forward)[count:]
    passes.task("border", "backward", passes.names_of(results), [])
    held, kept = passes.names_of(results), set(_capture._storages(saved))
    passes.names = {key: name for key, name in passes.names.items() if key in kept}
    passes.add(backward.graph, "backward", " again")
    passes.task("end", "backward", sorted({*held, *passes.names_of(results_of(backward))}), [])
    return {"tidepool_graph": 2, "name": "partition", "link": LINK, "data": passes.data, "tasks": passes.tasks}


class Bench:
    def __init__(self, tool, folder, shares):
        self.tool, self.shares, self.file = tool, shares, pathlib.Path(folder, "graph.json")

    def ask(self, document, *words):
        self.file.write_text(json.dumps(document))
        done = subprocess.run([self.tool, words[0], str(self.file), *map(str, words[1:]), "--json"], capture_output=True, text=True, check=False)
        assert done.returncode in (0, 2), done.stderr
        return json.loads(done.stdout)

    def simulate(self, document):
        found = self.ask(document, "simulate", "--policy", "none", "--memory", "1TiB")
        return found["peak_device_bytes"], found["ideal_seconds"]

    def partition(self, joint, inputs, *, num_fwd_outputs, **keywords):
        joint.graph.eliminate_dead_code()
        costs = _costs.Costs(torch.device("cpu"))
        document = _capture.capture(joint, num_fwd_outputs, costs, LINK).document
        whole, seconds = self.simulate(document)
        print(f"all kept: {whole / 2**30:.3f} GiB, {1e3 * seconds:.2f} ms, {len(document['tasks'])} tasks")
        knobs = []
        for budget in BUDGETS:
            with config.patch(activation_memory_budget=budget):
                passes = min_cut_rematerialization_partition(copy.deepcopy(joint), inputs, num_fwd_outputs=num_fwd_outputs, **keywords)
            knobs.append((budget, *self.simulate(of_partition(joint, *passes, num_fwd_outputs, costs))))
            print(f"  activation_memory_budget {budget:.2f}: {knobs[-1][1] / 2**30:.3f} GiB, x {knobs[-1][2] / seconds:.3f}", flush=True)
        print("| memory | min-cut | " + " | ".join(POLICIES) + " |")
        for share in self.shares:
            self.row(document, knobs, int(share * whole), share, seconds)
        raise Done

    def row(self, document, knobs, memory, share, seconds):
        fits = min((one for one in knobs if one[1] <= memory), key=lambda one: one[2], default=None)
        cells = [f"{memory / 2**30:.3f} GiB ({share:.0%})", f"{fits[2] / seconds:.3f} ({fits[0]:.2f})" if fits else "no budget"]
        for policy in POLICIES:
            made = self.ask(document, "schedule", "--policy", policy, "--memory", memory, "--memory-kind", "paged", *(
                ("--time-limit", SEARCH) if policy == "best" else ()))
            cells.append(f"{made['seconds'] / seconds:.3f}" if made["fits"] else "does not fit")
        print("| " + " | ".join(cells) + " |", flush=True)


def main(tool, name, batch, *shares):
    make, data = models.LARGE[name]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(tool, folder, [float(share) for share in shares] or SHARES)

        def backend(module, inputs):
            return _private.compile_joint(module, inputs, partition=bench.partition, compile_forward=None, compile_backward=None,
                                          compile_inference=None)

        try:
            inputs = [one.bfloat16() if one.is_floating_point() else one for one in data(int(batch))]
            torch.compile(make().bfloat16(), backend=backend, dynamic=False)(*inputs)
        except Exception as error:
            if not any(isinstance(one, Done) for one in (error, error.__cause__, getattr(error, "inner_exception", None))):
                raise


if __name__ == "__main__":
    main(*sys.argv[1:])
