#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the convolutions of networks with cuDNN, and prints as JSON whether micro-batches pay.

For each network and each limit of a workspace: the time of all convolutions undivided and in micro-batches, and the kernels
that are faster in micro-batches. A network in which no kernel is faster at any limit needs no division on this GPU with this
cuDNN: `needs_division` is false, and a line on stderr says so. The network `deepbench:FACTOR` is DeepBench's 94 layers, with
FACTOR times their batches (the paper on micro-batches has 4).

The measured times and workspaces of all algorithms stay in FOLDER/NETWORK-BATCH-TYPE-POLICY, SQLite files that the command
`tidepool profile` reads.

usage: cudnn_workspaces.py TOOL [--policy powerOfTwo] [--type float] [--layout NCHW] [--keep FOLDER] [NETWORK:BATCH...]
"""
import argparse
import collections
import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile

import deepbench

NETWORKS = ["alexnet-grouped:256", "resnet-50:32"]
LIMITS_MIB = [8, 64, 512]
QUERY = ("SELECT layer, algorithm, samples, seconds, workspace_bytes FROM task_time WHERE layer GLOB 'cudnn convolution *' "
         "ORDER BY layer")


def layer_of(its):
    """Returns the part of a row's layer that names the sizes of a convolution, without its direction."""
    number = lambda name, default=0: its.get(name, default)
    taps = [number("stride_height", 1), number("stride_width", 1)], [number("dilation_height", 1), number("dilation_width", 1)]
    pads = [number("padding_height"), number("padding_width")]
    rows, columns = ((its[size] + 2 * pad - dilation * (its[kernel] - 1) - 1) // stride + 1
                     for size, kernel, pad, stride, dilation in zip("hw", "rs", pads, *taps))
    groups = number("groups", 1)
    return (f"x={its['c']}x{its['h']}x{its['w']} w={its['k']}x{its['c'] // groups}x{its['r']}x{its['s']} "
            f"y={its['k']}x{rows}x{columns} pad={pads[0]}x{pads[1]} stride={taps[0][0]}x{taps[0][1]} "
            f"dilation={taps[1][0]}x{taps[1][1]} groups={groups}")


def graphs_of(tool, network, batch, folder):
    """Returns the task graphs of a network by their batches."""
    if network == "deepbench":
        return deepbench.graphs(batch)
    path = os.path.join(folder, "model.json")
    subprocess.run([tool, "model", network, "--batch", str(batch), "-o", path], check=True, stdout=subprocess.DEVNULL)
    with open(path, encoding="utf-8") as file:
        return {batch: json.load(file)}


def measure(options, graph, folder):
    """Returns the tables of all kernels of a graph: a list of rows for each convolution and direction."""
    path, store = os.path.join(folder, "graph.json"), os.path.join(folder, graph["name"] + ".sqlite")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(graph, file)
    subprocess.run([options.tool, "profile", path, "--convolutions", options.policy, "--layout", options.layout, "--type",
                    options.type, "--store", store], check=True, stdout=subprocess.DEVNULL)
    tables = collections.defaultdict(list)
    numbers = {}  # of algorithms by their texts
    with contextlib.closing(sqlite3.connect(store)) as database:
        for layer, algorithm, samples, seconds, bytes_ in database.execute(QUERY):
            tables[layer].append([samples, numbers.setdefault(algorithm, len(numbers)), seconds, bytes_])
    counts = collections.Counter(layer_of(task["parameters"]) for task in graph["tasks"]
                                 if task.get("parameters", {}).get("kind") == "convolution" and task["phase"] == "forward")
    # A layer is measured once and counts as often as the network has it.
    return [rows for layer, rows in tables.items() for sizes, count in counts.items() if sizes + " mode" in layer
            for _ in range(count)]


def ask(tool, cases, folder):
    path = os.path.join(folder, "cases.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(cases, file)
    done = subprocess.run([tool, "workspace", path, "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["cases"]


@contextlib.contextmanager
def folder_of(options, network, batch):
    """Makes the folder of a network's files: one that stays, or one for the time of the measurement."""
    if options.keep is None:
        with tempfile.TemporaryDirectory() as folder:
            yield folder
        return
    folder = os.path.join(options.keep, f"{network}-{batch}-{options.type}-{options.policy}")
    os.makedirs(folder, exist_ok=True)
    yield folder


def answer(options, network, batch):
    """Returns the answer about a network. Each limit counts the kernels of all its graphs."""
    kernels = 0
    limits = [{"limit_mib": mib, "undivided_seconds": 0, "divided_seconds": 0, "kernels_that_gain": 0} for mib in LIMITS_MIB]
    with folder_of(options, network, batch) as folder:
        for its_batch, graph in graphs_of(options.tool, network, batch, folder).items():
            tables = measure(options, graph, folder)
            kernels += len(tables)
            cases = [{"kind": "wr", "B": its_batch, "M": mib << 20, "policy": policy, "tables": tables}
                     for mib in LIMITS_MIB for policy in ("undivided", options.policy)]
            answers = ask(options.tool, cases, folder)
            for limit, undivided, divided in zip(limits, answers[::2], answers[1::2]):
                limit["undivided_seconds"] += undivided["time"]
                limit["divided_seconds"] += divided["time"]
                limit["kernels_that_gain"] += sum(after["time"] < before["time"]
                                                  for before, after in zip(undivided["kernels"], divided["kernels"]))
    for limit in limits:
        limit["speedup"] = limit["undivided_seconds"] / limit["divided_seconds"]
    needs_division = any(limit["kernels_that_gain"] for limit in limits)
    gains = ", ".join(f"{limit['kernels_that_gain']} of {kernels} kernels gain at {limit['limit_mib']} MiB "
                      f"({limit['speedup']:.3f}x)" for limit in limits)
    print(f"{network}:{batch}, {options.type}, {options.policy}: {gains if needs_division else 'needs no division'}",
          file=sys.stderr)
    return {"network": network, "batch": batch, "kernels": kernels, "limits": limits, "needs_division": needs_division}


def main():
    parser = argparse.ArgumentParser(usage=__doc__[__doc__.index("usage: ") + 7:])
    parser.add_argument("tool")
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--policy", default="powerOfTwo")
    parser.add_argument("--type", default="float")
    parser.add_argument("--layout", default="NCHW")
    parser.add_argument("--keep", metavar="FOLDER")
    options = parser.parse_intermixed_args()
    answers = []
    for network in options.networks:
        name, batch = network.split(":")
        answers.append(answer(options, name, int(batch)))
    print(json.dumps({"policy": options.policy, "type": options.type, "layout": options.layout, "networks": answers}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
