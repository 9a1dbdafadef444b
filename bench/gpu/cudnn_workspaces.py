#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the convolutions of networks with cuDNN, and prints as JSON whether micro-batches pay.

For each network and each limit of a workspace: the time of all convolutions undivided and in micro-batches of powers of
two, and the kernels that are faster in micro-batches. A network in which no kernel is faster at any limit needs no division on
this GPU with this cuDNN, and `needs_division` is false.

usage: cudnn_workspaces.py TOOL [NETWORK:BATCH...]
"""
import collections
import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile

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


def measure(tool, network, batch, folder):
    """Returns the tables of all kernels of a network: a list of rows for each convolution and direction."""
    graph, store = os.path.join(folder, "graph.json"), os.path.join(folder, network + ".sqlite")
    subprocess.run([tool, "model", network, "--batch", str(batch), "-o", graph], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([tool, "profile", graph, "--convolutions", "powerOfTwo", "--store", store], check=True,
                   stdout=subprocess.DEVNULL)
    tables = collections.defaultdict(list)
    with contextlib.closing(sqlite3.connect(store)) as database:
        for layer, algorithm, samples, seconds, bytes_ in database.execute(QUERY):
            tables[layer].append([samples, int(algorithm.split()[0]), seconds, bytes_])
    with open(graph, encoding="utf-8") as file:
        tasks = json.load(file)["tasks"]
    counts = collections.Counter(layer_of(task["parameters"]) for task in tasks
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


def answer(tool, network, batch):
    with tempfile.TemporaryDirectory() as folder:
        tables = measure(tool, network, batch, folder)
        policies = ["undivided", "powerOfTwo"]
        cases = [{"kind": "wr", "B": batch, "M": mib << 20, "policy": policy, "tables": tables}
                 for mib in LIMITS_MIB for policy in policies]
        answers = ask(tool, cases, folder)
    limits = []
    for mib, undivided, divided in zip(LIMITS_MIB, answers[::2], answers[1::2]):
        gains = sum(after["time"] < before["time"] for before, after in zip(undivided["kernels"], divided["kernels"]))
        limits.append({"limit_mib": mib, "undivided_seconds": undivided["time"], "divided_seconds": divided["time"],
                       "speedup": undivided["time"] / divided["time"], "kernels_that_gain": gains})
    return {"network": network, "batch": batch, "kernels": len(tables), "limits": limits,
            "needs_division": any(limit["kernels_that_gain"] for limit in limits)}


def main(arguments):
    tool, *networks = arguments
    answers = []
    for network in networks or NETWORKS:
        name, batch = network.split(":")
        answers.append(answer(tool, name, int(batch)))
    print(json.dumps({"networks": answers}, indent=1))
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: cudnn_workspaces.py TOOL [NETWORK:BATCH...]")
    sys.exit(main(sys.argv[1:]))
