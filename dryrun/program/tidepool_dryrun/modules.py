# SPDX-License-Identifier: Apache-2.0
"""Joins the tasks of a graph by modules, for steps of very many operators."""
from . import where  # noqa: F401 (finds the parts of the dry run inside the program)

import _tidepool_joined as joined


def join(graph, most):
    """Joins neighbouring tasks of one module and phase until there are at most `most` tasks, or one for each stretch of a phase. Data that lives
    inside of such a task is a part of its workspace."""
    groups = [graph.tasks[begin:end] for begin, end in joined.pieces([(task.phase, task.layer) for task in graph.tasks], most)]
    owner = {}
    for group in groups:
        whole = group[0] if len(group) == 1 else joined_task(group)
        owner.update((id(task), whole) for task in group)
    graph.tasks = [owner[id(group[0])] for group in groups]
    for number, task in enumerate(graph.tasks):
        task.number = number
    graph.data = [datum for datum in graph.data if move(datum, owner)]


def joined_task(group):
    """Returns a task like the first of a group, with the time and the memory of all. Its uses are not known yet."""
    first = next((task for task in group if not task.is_left_out), group[0])
    layer = joined.common(task.layer for task in group)
    made = type(first)("module", first.phase, layer, first.line, sum(task.seconds for task in group), dict(first.flags))
    made.flags.update(may_rerun=all(task.is_left_out or task.flags["may_rerun"] for task in group), is_cached=False)
    made.is_left_out = all(task.is_left_out for task in group)
    made.most_live = max(task.most_live for task in group)
    made.statistics = list({id(datum): datum for task in group for datum in task.statistics}.values())
    return made


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
