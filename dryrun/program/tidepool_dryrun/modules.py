# SPDX-License-Identifier: Apache-2.0
"""Joins the tasks of a graph by modules, for steps of very many operators."""
import itertools


def join(graph, most):
    """Joins neighbouring tasks of one module and phase: those of the innermost modules first, until there are at most `most` tasks or
    one for each stretch of a phase. Data that lives inside of such a task is a part of its workspace."""
    for depth in range(max(task.layer.count(".") for task in graph.tasks) + 1, -1, -1):
        groups = [list(group) for _, group in itertools.groupby(graph.tasks, key=lambda task: place_of(task, depth))]
        if len(groups) <= most:
            break
    owner = {}
    for group in groups:
        joined = group[0] if len(group) == 1 else joined_task(group, depth)
        owner.update((id(task), joined) for task in group)
    graph.tasks = [owner[id(group[0])] for group in groups]
    for number, task in enumerate(graph.tasks):
        task.number = number
    graph.data = [datum for datum in graph.data if move(datum, owner)]


def place_of(task, depth):
    return task.phase, module_of(task, depth)


def module_of(task, depth):
    return ".".join(task.layer.split(".")[:depth])


def joined_task(group, depth):
    """Returns a task like the first of a group, with the time and the memory of all. Its uses are not known yet."""
    first = next((task for task in group if not task.is_left_out), group[0])
    joined = type(first)("module", first.phase, module_of(first, depth), first.line, sum(task.seconds for task in group), dict(first.flags))
    joined.flags.update(may_rerun=all(task.is_left_out or task.flags["may_rerun"] for task in group), is_cached=False)
    joined.is_left_out = all(task.is_left_out for task in group)
    joined.most_live = max(task.most_live for task in group)
    joined.statistics = list({id(datum): datum for task in group for datum in task.statistics}.values())
    return joined


def move(datum, owner):
    """Gives a datum the joined tasks for those that make, use and free it. Returns whether it lives longer than one of them."""
    changes = {id(owner[id(task)]) for task in datum.users if datum in task.updates}
    users = list({id(owner[id(task)]): owner[id(task)] for task in datum.users}.values())
    writer, death = datum.writer and owner[id(datum.writer)], datum.death and owner.get(id(datum.death), datum.death)
    is_inner = writer is not None and writer is death and all(user is writer for user in users)
    if writer is not None and not is_inner:
        replace(writer.writes, datum)
    for user in users:
        for uses in (user.reads, user.updates):
            uses[:] = [one for one in uses if one is not datum]
        if user is not writer:
            (user.updates if id(user) in changes else user.reads).append(datum)
    datum.writer, datum.death, datum.users = writer, death, [user for user in users if user is not writer]
    datum.begin = datum.begin and owner[id(datum.begin)]
    return not is_inner


def replace(data, datum):
    """Adds a datum to a list without it."""
    if not any(one is datum for one in data):
        data.append(datum)
