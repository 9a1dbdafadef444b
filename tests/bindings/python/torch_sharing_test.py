# SPDX-License-Identifier: Apache-2.0
"""The shares of graphs that have one budget. It needs no PyTorch."""
from tidepool._torch_compile._sharing import Needs, largest_share, needs_of, saved_before


def task(name, reads=(), writes=(), workspace=0):
    return {"name": name, "reads": list(reads), "writes": list(writes), "algorithms": [{"seconds": 1, "workspace": workspace}]}


def test_needs_are_those_of_the_given_order():
    document = {"data": [{"name": name, "bytes": size} for name, size in (("x", 4), ("y", 3), ("z", 2), ("d", 1))],
                "tasks": [task("make x", writes=["x"]), task("make y", ["x"], ["y"], workspace=10),
                          task("make z", ["y"], ["z"]), task("border", ["z"], ["d"]), task("use", ["x", "d"])]}
    # y ends with the task that makes z; x, z and d are there at the border.
    assert needs_of(document, "border", 17) == Needs(saved=7, peak=17, least=17, results=3)


def test_all_run_with_the_largest_share():
    graphs = [Needs(100, 120, 20, 5), Needs(100, 120, 20, 5), Needs(10, 60, 50, 5)]
    assert largest_share(graphs, 300) == 1
    share = largest_share(graphs, 150)
    assert abs(share - 0.5) < 0.01  # that of the last graph, which needs 50 beside the data of the others
    assert saved_before(graphs, 2, share) + 50 <= 150
    assert saved_before(graphs, 1, share) + share * 120 <= 150


def test_results_stay_whatever_the_share():
    assert saved_before([Needs(100, 120, 20, 60)], 1, 0.5) == 60
    assert largest_share([Needs(100, 120, 20, 60), Needs(10, 60, 50, 5)], 100) == 0


def test_no_share_for_a_graph_that_is_too_large_alone():
    assert largest_share([Needs(100, 120, 20, 5), Needs(10, 60, 50, 5)], 40) == 0
