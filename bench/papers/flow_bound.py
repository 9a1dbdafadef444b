#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bounds the time of an iteration in which data is sent and tasks run again, at all tasks together.

usage: flow_bound.py GRAPH RATE MEMORY... [--one-way] [--moments N]    (bytes a second, bytes; needs SciPy)

GRAPH is a file of `tidepool model -o`. The starts and ends of the largest tasks are moments, and the time between two
is that of the tasks between them, of waits, and of tasks that run again. Variables are the shares of each datum that
are on the device and on the host at a moment, and those that are sent, fetched and made again between two moments. At a
moment all shares on the device fit beside the data and the workspace of the task, and copies between two moments take
no more than their time. Data that a task uses is whole on the device. A task that runs again needs its inputs on the
device between the same moments. Each schedule gives such shares, so none is faster than the least time of all shares, a
linear program: neither with transfers in parts, nor without addresses. Data below LEAST_BYTES takes no memory and no
time here. All tasks keep their order, and may_rerun says which may run again.
"""
import argparse
import json
import pathlib

import numpy
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

LEAST_BYTES = 1 << 18


class Graph:
    """The tasks of a file, with large data as numbers."""

    def __init__(self, path):
        graph = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        self.data = [datum for datum in graph["data"] if datum["bytes"] >= LEAST_BYTES]
        self.bytes = [datum["bytes"] for datum in self.data]
        self.tasks = graph["tasks"]
        number = {datum["name"]: index for index, datum in enumerate(self.data)}
        self.seconds = [min(one["seconds"] for one in task["algorithms"]) for task in self.tasks]

        def numbers(task, *keys):
            return {number[name] for key in keys for name in task.get(key) or [] if name in number}

        self.needs = [numbers(task, "reads", "updates") for task in self.tasks]
        self.changes = [numbers(task, "writes", "updates") for task in self.tasks]
        self.own = [needs | changes for needs, changes in zip(self.needs, self.changes)]
        self.own_bytes = [sum(self.bytes[datum] for datum in own) + min(one.get("workspace_bytes", 0) for one in task["algorithms"])
                          for task, own in zip(self.tasks, self.own)]
        self.writers = {}
        for index, task in enumerate(self.tasks):
            for datum in numbers(task, "writes"):
                self.writers.setdefault(datum, index)

    def stays(self, datum):
        """Whether a datum must be on the device at the end."""
        kind = self.data[datum]["kind"]
        return self.data[datum].get("after", "device" if kind in ("weight", "optimizer-state") else "") == "device"


class Moment:
    """The start or the end of a task, or those of the iteration."""

    def __init__(self, graph, tasks_before, task=None):
        self.tasks_before, self.task = tasks_before, task
        self.own = set() if task is None else graph.own[task]
        self.own_bytes = 0 if task is None else graph.own_bytes[task]
        # Data that is whole on the device.
        self.whole = set() if task is None else graph.needs[task] if tasks_before == task else graph.own[task]


def moments_of(graph, count):
    """The start of the iteration, the starts and ends of the tasks with the most data, and the end."""
    largest = sorted(range(len(graph.tasks)), key=lambda task: -graph.own_bytes[task])[:count]
    inner = [Moment(graph, task + is_end, task) for task in sorted(largest) for is_end in (0, 1)]
    return [Moment(graph, 0), *inner, Moment(graph, len(graph.tasks))]


class Program:
    """The linear program. Each group of variables is a dictionary from its key to a column."""

    def __init__(self, graph, moments, memory, rate, one_way):
        self.graph, self.moments, self.memory, self.rate, self.one_way = graph, moments, memory, rate, one_way
        self.entries, self.most, self.bounds, self.cost = [], [], [], []
        self.there, self.host, self.out, self.into, self.again = {}, {}, {}, {}, {}
        for index, moment in enumerate(moments):
            self.add_moment(index, moment)
        for gap in range(len(moments) - 1):
            self.add_gap(gap)

    def column(self, least=0, most=1, cost=0):
        self.bounds.append((least, most))
        self.cost.append(cost)
        return len(self.cost) - 1

    def at_most(self, terms, limit):
        self.entries += [(len(self.most), variable, factor) for variable, factor in terms]
        self.most.append(limit)

    def add_moment(self, index, moment):
        graph, terms = self.graph, []
        for datum in range(len(graph.data)):
            if graph.writers.get(datum, -1) >= moment.tasks_before:
                continue
            is_whole = datum in moment.whole or (index == len(self.moments) - 1 and graph.stays(datum))
            begins = graph.data[datum].get("before") == "host"
            self.there[datum, index] = self.column(least=int(is_whole), most=0 if index == 0 and begins else 1)
            self.host[datum, index] = self.column(most=1 if index > 0 or begins else 0)
            if datum not in moment.own:
                terms.append((self.there[datum, index], graph.bytes[datum] / self.memory))
        self.at_most(terms, 1 - moment.own_bytes / self.memory)

    def add_gap(self, gap):
        graph, first, last = self.graph, self.moments[gap], self.moments[gap + 1]
        tasks = range(first.tasks_before, last.tasks_before)
        is_one_task = first.task == last.task is not None
        wait = self.column(most=0 if is_one_task else None, cost=1)
        spent = [(wait, -1)]
        for task in range(0 if is_one_task else last.tasks_before):
            if graph.tasks[task].get("may_rerun") and graph.changes[task]:
                self.again[task, gap] = self.column(cost=graph.seconds[task])
                spent.append((self.again[task, gap], -graph.seconds[task]))
        needed = set().union(*(graph.needs[task] for task in tasks))
        changed = set().union(*(graph.changes[task] for task in tasks))
        for datum in range(len(graph.data)):
            if (datum, gap + 1) in self.there:
                self.add_datum(datum, gap, datum in needed, datum in changed)
        for task in range(last.tasks_before):
            if (task, gap) in self.again:
                for datum in graph.needs[task] - needed - changed:
                    self.at_most([(self.again[task, gap], 1)] + self.sources(datum, gap), 0)
        self.add_copies(gap, sum(graph.seconds[task] for task in tasks), spent)

    def add_copies(self, gap, seconds, spent):
        out, into = ([(copies[datum, gap], size / self.rate) for datum, size in enumerate(self.graph.bytes) if (datum, gap) in copies]
                     for copies in (self.out, self.into))
        for terms in [out + into] if self.one_way else [out, into]:
            self.at_most(terms + spent, seconds)

    def sources(self, datum, gap):
        """The share that is on the device at some time between two moments, negative."""
        terms = [(self.there[datum, gap], -1), (self.into[datum, gap], -1)]
        writer = self.graph.writers.get(datum)
        if (writer, gap) in self.again:
            terms.append((self.again[writer, gap], -1))
        return terms

    def add_datum(self, datum, gap, is_needed, is_changed):
        there, host, out = self.there[datum, gap + 1], self.host[datum, gap + 1], self.column()
        self.out[datum, gap] = out
        if (datum, gap) not in self.there:  # a task between the two writes it
            self.at_most([(host, 1), (out, -1)], 0)
            return
        into = self.into[datum, gap] = self.column()
        sources = self.sources(datum, gap)
        if is_needed:
            self.at_most(sources, -1)
        if is_changed:
            self.at_most([(host, 1), (out, -1)], 0)
            self.at_most([(into, 1), (self.host[datum, gap], -1), (out, -1)], 0)
            return
        self.at_most([(host, 1), (self.host[datum, gap], -1), (out, -1)], 0)
        self.at_most([(into, 1), (host, -1)], 0)
        if not is_needed:
            self.at_most([(there, 1)] + sources, 0)
            self.at_most([(out, 1)] + sources, 0)

    def least_seconds(self):
        rows, columns, factors = zip(*self.entries)
        matrix = csr_matrix((factors, (rows, columns)), shape=(len(self.most), len(self.cost)))
        answer = linprog(numpy.array(self.cost), A_ub=matrix, b_ub=self.most, bounds=self.bounds, method="highs")
        return answer.fun if answer.success else float("inf")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("graph")
    parser.add_argument("rate", type=float)
    parser.add_argument("memory", type=float, nargs="+")
    parser.add_argument("--one-way", action="store_true", help="one copy at a time")
    parser.add_argument("--moments", type=int, default=16, help="tasks with moments")
    arguments = parser.parse_args()
    graph = Graph(arguments.graph)
    moments = moments_of(graph, arguments.moments)
    ideal = sum(graph.seconds)
    for memory in arguments.memory:
        more = Program(graph, moments, memory, arguments.rate, arguments.one_way).least_seconds()
        print(f"{memory:.0f} bytes: at least {more * 1e3:.2f} ms beside {ideal * 1e3:.2f} ms, {100 * more / ideal:.1f} % more")


if __name__ == "__main__":
    main()
