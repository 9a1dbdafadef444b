# SPDX-License-Identifier: Apache-2.0
"""The order in which torch.compile carries out a schedule. It needs no PyTorch."""
import pytest

from tidepool._torch_compile._order import Problem, carry_out

BORDER = "border"
A, B, C = range(3)  # data
MAKE_A, MAKE_B, AT_BORDER, MAKE_C, USE_A, USE_B, USE_C = range(7)  # tasks
TASKS = [("make a", "a", ""), ("make b", "b", ""), (BORDER, "", ""), ("make c", "c", ""), ("use a", "", "a"), ("use b", "", "b"),
         ("use c", "", "c")]


def problem(memory, sizes=(10, 10, 10), workspaces=(0, 0, 0, 0, 0, 0, 0), link=10.0):
    """Returns a step of tasks, a second each, in which a copy of 10 bytes takes a second."""
    data = [{"name": name, "bytes": size} for name, size in zip("abc", sizes)]
    tasks = [{"name": name, "writes": list(writes), "reads": list(reads), "algorithms": [{"seconds": 1.0, "workspace": workspace}]}
             for (name, writes, reads), workspace in zip(TASKS, workspaces)]
    return Problem({"data": data, "tasks": tasks, "link": link}, memory, BORDER)


# The data a leaves after b was made, and comes back for the last task.
STEPS = [["allocate", A], ["run", MAKE_A], ["allocate", B], ["run", MAKE_B], ["run", USE_B], ["offload", A, 0, -1], ["drop", A],
         ["free", B], ["run", AT_BORDER], ["allocate", C], ["run", MAKE_C], ["run", USE_C], ["free", C], ["prefetch", A],
         ["run", USE_A], ["free", A]]


def runs(order):
    return [number for kind, number in order.actions if kind == "run"]


def test_a_copy_out_begins_after_the_task_that_wrote_its_data():
    order = carry_out(STEPS, problem(20, sizes=(10, 10, 20)))
    assert order.actions[:2] == [("run", MAKE_A), ("offload", A)]
    assert runs(order) == [MAKE_A, MAKE_B, USE_B, AT_BORDER, MAKE_C, USE_C, USE_A]


def test_a_drop_waits_until_its_room_is_needed():
    order = carry_out(STEPS, problem(20, sizes=(10, 10, 20)))
    actions = order.actions
    # c needs all of the memory, so a leaves right before it is made.
    assert actions.index(("release", A)) == actions.index(("run", MAKE_C)) - 1
    assert order.live_at_border == 10  # a
    assert order.peak == 20


def test_a_workspace_needs_room_too():
    order = carry_out(STEPS, problem(20, sizes=(10, 10, 1), workspaces=(0, 0, 0, 15, 0, 0, 0)))
    actions = order.actions
    assert actions.index(("release", A)) == actions.index(("run", MAKE_C)) - 1
    assert order.peak == 20


def test_data_that_never_has_to_leave_is_not_copied():
    order = carry_out(STEPS, problem(30))
    assert not [action for action in order.actions if action[0] in ("offload", "release", "prefetch")]
    assert order.peak == 20


def test_a_copy_of_data_before_its_update_is_no_copy_of_it():
    names = ("make a", BORDER, "update a", "make c", "use a", "use c")
    make_a, border, update_a, make_c, use_a, use_c = range(len(names))
    uses = {"make a": {"writes": ["a"]}, "update a": {"updates": ["a"]}, "make c": {"writes": ["c"]}, "use a": {"reads": ["a"]},
            "use c": {"reads": ["c"]}}
    tasks = [{"name": name, **uses.get(name, {}), "algorithms": [{"seconds": 1.0}]} for name in names]
    data = [{"name": name, "bytes": size} for name, size in (("a", 10), ("b", 10), ("c", 20))]
    steps = [["allocate", A], ["run", make_a], ["offload", A], ["drop", A], ["run", border], ["prefetch", A], ["run", update_a],
             ["offload", A], ["drop", A], ["allocate", C], ["run", make_c], ["run", use_c], ["free", C], ["prefetch", A], ["run", use_a]]
    order = carry_out(steps, Problem({"data": data, "tasks": tasks, "link": 10.0}, 20, BORDER))
    assert order.actions == [("run", make_a), ("run", border), ("run", update_a), ("offload", A), ("release", A), ("run", make_c),
                             ("run", use_c), ("free", C), ("prefetch", A), ("run", use_a)]


def test_the_oldest_drop_leaves_first():
    steps = [["allocate", A], ["run", MAKE_A], ["allocate", B], ["run", MAKE_B], ["offload", B], ["offload", A], ["drop", B],
             ["drop", A], ["run", AT_BORDER], ["allocate", C], ["run", MAKE_C], ["run", USE_C], ["free", C], ["prefetch", A],
             ["prefetch", B], ["run", USE_A], ["run", USE_B]]
    order = carry_out(steps, problem(20))
    assert [action for action in order.actions if action[0] == "release"] == [("release", B)]  # a stays
    assert ("prefetch", B) in order.actions and ("prefetch", A) not in order.actions
    assert ("offload", A) not in order.actions


def test_a_copy_in_begins_ahead_where_there_is_room():
    # While c is made there is no room in 20 bytes.
    late = carry_out(STEPS, problem(20, sizes=(10, 10, 20))).actions
    assert late.index(("prefetch", A)) > late.index(("run", MAKE_C))
    steps = [*STEPS[:9], ["allocate", C], ["run", MAKE_C], ["run", USE_C], ["run", USE_C], ["free", C],
             ["prefetch", A], ["run", USE_A]]
    # The workspace of the border is all of the memory, so a leaves before it; afterwards c and a have room.
    actions = carry_out(steps, problem(20, workspaces=(0, 0, 20, 0, 0, 0, 0))).actions
    assert actions.index(("release", A)) < actions.index(("run", AT_BORDER)) < actions.index(("prefetch", A))
    assert actions.index(("prefetch", A)) < actions.index(("run", MAKE_C))


def test_a_copy_in_begins_at_most_three_times_ahead():
    steps = [*STEPS[:9], ["allocate", C], ["run", MAKE_C], *[["run", USE_C]] * 9, ["free", C], ["prefetch", A],
             ["run", USE_A]]
    actions = carry_out(steps, problem(20, workspaces=(0, 0, 20, 0, 0, 0, 0))).actions
    after = [number for kind, number in actions[actions.index(("prefetch", A)):] if kind == "run"]
    assert after == [USE_C] * 3 + [USE_A]


def test_a_copy_in_does_not_cross_the_border():
    steps = [["allocate", A], ["run", MAKE_A], ["offload", A], ["drop", A], ["allocate", B], ["run", MAKE_B], ["run", USE_B],
             ["free", B], ["run", AT_BORDER], ["prefetch", A], ["run", USE_A]]
    actions = carry_out(steps, problem(30, workspaces=(0, 30, 0, 0, 0, 0, 0), sizes=(10, 0, 10))).actions
    assert actions.index(("run", AT_BORDER)) < actions.index(("prefetch", A))


def test_data_that_is_made_again_is_not_brought_back():
    steps = [["allocate", A], ["run", MAKE_A], ["run", USE_A], ["drop", A], ["run", AT_BORDER], ["allocate", A], ["run", MAKE_A],
             ["run", USE_A], ["free", A]]
    order = carry_out(steps, problem(10))
    assert runs(order) == [MAKE_A, USE_A, AT_BORDER, MAKE_A, USE_A]
    assert order.live_at_border == 0


def test_a_run_that_nothing_reads_is_left_out():
    # FX would leave it out too, and its requests for memory with it.
    steps = [["allocate", A], ["run", MAKE_A], ["drop", A], ["run", AT_BORDER], ["allocate", A], ["run", MAKE_A], ["run", USE_A],
             ["free", A]]
    assert runs(carry_out(steps, problem(10))) == [AT_BORDER, MAKE_A, USE_A]
    sent = [["allocate", A], ["run", MAKE_A], ["offload", A], ["drop", A], ["run", AT_BORDER], ["prefetch", A], ["run", USE_A]]
    order = carry_out(sent, problem(10, workspaces=(0, 0, 10, 0, 0, 0, 0)))
    assert runs(order) == [MAKE_A, AT_BORDER, USE_A]


def test_refuses_what_it_cannot_carry_out():
    for step in (["add", A, 0, -1], ["offload", A, 0, 5], ["prefetch", A, 5, 10]):
        with pytest.raises(ValueError, match="torch.compile does not carry out"):
            carry_out([["allocate", A], ["run", MAKE_A], step], problem(30))
    with pytest.raises(ValueError, match="takes 20 bytes, expected at most 15"):
        carry_out([["allocate", A], ["run", MAKE_A], ["allocate", B], ["run", MAKE_B]], problem(15))
