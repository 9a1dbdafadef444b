#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bounds the time of an iteration in which tasks may run again, for any order of the tasks that run again.

usage: rerun_bound.py GRAPH TASK MEMORY RATE    (GiB, bytes a second; needs SciPy)

GRAPH is a file of `tidepool model -o`. While TASK runs, each datum that a later task reads is on the device, or on the
host, or a task makes it again later. A task that runs again needs its own inputs in one of these three ways. Data on
the host crossed the link before TASK. The least time of all such choices, parts of data and tasks included, is a linear
program, so no schedule is faster: neither with copies in both directions at once, nor with weights and gradients on the
host, nor without addresses. TASK may be any task that does not run again; the one at the peak has the highest bound.
"""
import json
import pathlib
import sys

import numpy
from scipy.optimize import linprog
from scipy.sparse import csr_matrix


class Graph:
    """The tasks of a file, with data as numbers."""

    def __init__(self, path):
        graph = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        number = {datum["name"]: index for index, datum in enumerate(graph["data"])}
        self.data, self.tasks = graph["data"], graph["tasks"]
        self.bytes = [datum["bytes"] for datum in self.data]
        self.seconds = [min(one["seconds"] for one in task["algorithms"]) for task in self.tasks]
        self.needs = [[number[name] for key in ("reads", "updates") for name in task.get(key) or []] for task in self.tasks]
        self.writes = [[number[name] for name in task.get("writes") or []] for task in self.tasks]

    def stays(self, datum):
        """Whether a datum must have its value after the iteration too."""
        return self.data[datum]["kind"] in ("weight", "optimizer-state")


class Program:
    """The linear program at a task. Variables: seconds of idle time; for each task the share that runs again; for each
    datum the shares on the device and on the host."""

    def __init__(self, graph, task, memory, rate):
        self.graph, self.task = graph, task
        self.entries, self.most = [], []
        self.writers = {datum: index for index in range(task) for datum in graph.writes[index]}
        written = {datum for writes in graph.writes for datum in writes}
        self.own = set(graph.needs[task]) | set(graph.writes[task])
        self.beside = [datum for datum in range(len(graph.data))
                       if datum not in self.own and (datum in self.writers or datum not in written)]
        self.place = {datum: 1 + task + 2 * index for index, datum in enumerate(self.beside)}
        self.add_memory(memory)
        self.add_link(rate)
        self.add_needs()

    def at_most(self, terms, limit):
        self.entries += [(len(self.most), variable, factor) for variable, factor in terms]
        self.most.append(limit)

    def add_memory(self, memory):
        own = sum(self.graph.bytes[datum] for datum in self.own)
        self.at_most([(self.place[datum], self.graph.bytes[datum] / memory) for datum in self.beside], 1 - own / memory)

    def add_link(self, rate):
        sent = [datum for datum in self.beside if self.graph.data[datum].get("before") != "host"]
        terms = [(self.place[datum] + 1, self.graph.bytes[datum] / rate) for datum in sent]
        self.at_most(terms + [(0, -1)], sum(self.graph.seconds[:self.task]))

    def add_needs(self):
        later = {datum for needs in self.graph.needs[self.task + 1:] for datum in needs}
        for datum in self.beside:
            if datum in later or self.graph.stays(datum):
                self.need(datum, [], -1)
        for task in range(self.task):
            for datum in self.graph.needs[task]:
                if datum in self.place:
                    self.need(datum, [(1 + task, 1)], 0)

    def need(self, datum, terms, limit):
        ways = [(self.place[datum], -1), (self.place[datum] + 1, -1)]
        if datum in self.writers and self.graph.tasks[self.writers[datum]].get("may_rerun"):
            ways.append((1 + self.writers[datum], -1))
        self.at_most(terms + ways, limit)

    def least_seconds(self):
        variables = 1 + self.task + 2 * len(self.beside)
        cost = numpy.zeros(variables)
        cost[:1 + self.task] = [1] + self.graph.seconds[:self.task]
        rows, columns, factors = zip(*self.entries)
        matrix = csr_matrix((factors, (rows, columns)), shape=(len(self.most), variables))
        bounds = [(0, None)] + [(0, 1 if task.get("may_rerun") else 0) for task in self.graph.tasks[:self.task]]
        bounds += [(0, 1)] * (2 * len(self.beside))
        answer = linprog(cost, A_ub=matrix, b_ub=self.most, bounds=bounds, method="highs")
        return answer.fun if answer.success else float("inf")


def main():
    path, name, memory, rate = sys.argv[1:]
    graph = Graph(path)
    task = [task["name"] for task in graph.tasks].index(name)
    ideal = sum(graph.seconds)
    more = Program(graph, task, float(memory) * 2**30, float(rate)).least_seconds()
    print(f"{memory} GiB, at {name}: at least {more * 1e3:.2f} ms beside {ideal * 1e3:.2f} ms, {1 + more / ideal:.4f} times")


if __name__ == "__main__":
    main()
