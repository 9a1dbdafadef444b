# SPDX-License-Identifier: Apache-2.0
"""Graphs, schedules and simulated iterations: answers equal those of the program."""
import gzip
import json
import pickle

import pytest

import tidepool

CHAIN = "examples/chains/resnet-18.json"


def test_a_model_has_the_figures_and_the_graph_of_the_program(alexnet, tool, tmp_path):
    figures = tool("model", "alexnet", "--batch", "8", "-o", tmp_path / "graph.json")
    assert {**alexnet.info.to_dict(), "output": None} == {**figures, "output": None}
    assert alexnet.text == (tmp_path / "graph.json").read_text()
    assert len(alexnet.to_dict()["tasks"]) == alexnet.info.tasks


def test_a_model_takes_the_options_of_the_program():
    half = tidepool.model("alexnet", batch=8, precision="float16", optimizer="adam")
    assert half.info.weight_bytes != tidepool.model("alexnet", batch=8).info.weight_bytes


@pytest.mark.parametrize("name", ["graph.json", "graph.json.gz"])
def test_reads_a_graph_that_it_wrote(alexnet, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(alexnet.text.encode()) if name.endswith(".gz") else alexnet.text.encode())
    assert tidepool.read_graph(path).text == alexnet.text
    alexnet.write(tmp_path / "copy.json")
    assert tidepool.read_graph(tmp_path / "copy.json").text == alexnet.text


def test_a_schedule_is_that_of_the_program(alexnet, tool, tmp_path):
    alexnet.write(tmp_path / "graph.json")
    file = tmp_path / "schedule.json"
    answer = tool("schedule", tmp_path / "graph.json", "--memory", "1GiB", "--policy", "vdnn", "-o", file)
    schedule = tidepool.schedule(alexnet, memory="1GiB", policy="vdnn")
    assert {**schedule.answer.to_dict(), "output": None} == {**answer, "output": None}
    assert schedule.fits and schedule.to_dict() == json.loads(file.read_text())


def test_a_front_is_that_of_the_program(alexnet, tool, tmp_path):
    alexnet.write(tmp_path / "graph.json")
    asked = {"points": 2, "time_limit": 60, "recompute": "off"}
    answer = tool("front", tmp_path / "graph.json", "--points", "2", "--time-limit", "60", "--recompute", "off")
    front = tidepool.front(alexnet, **asked)
    assert front.to_dict() == answer and front.points[0].memory_bytes > 0


def test_a_schedule_simulates_as_it_was_made(alexnet):
    schedule = alexnet.schedule(memory="1GiB", policy="vdnn++")
    assert schedule.simulate().seconds == schedule.answer.seconds
    assert schedule.simulate(link="1GB/s").seconds > schedule.answer.seconds


def test_a_schedule_of_a_family_has_rounds():
    family = tidepool.model("alexnet", family=True)
    schedule = family.schedule(memory="1GiB", batch=32, policy="none", sub_batch=8)
    assert (schedule.answer.rounds, schedule.answer.sub_batch) == (4, 8)
    assert schedule.simulate().seconds == schedule.answer.seconds


def test_a_schedule_that_does_not_fit_says_so(alexnet):
    schedule = alexnet.schedule(memory="1MiB", policy="none")
    assert not schedule.fits and "does not fit" in repr(schedule)
    with pytest.raises(tidepool.InputError, match="does not fit its memory"):
        schedule.simulate()


def test_a_chain_is_scheduled_from_a_file_and_from_a_dictionary(tool):
    answer = tool("chain", CHAIN, "--policy", "dynprog")
    with open(CHAIN, encoding="utf-8") as file:
        chain = json.load(file)
    for source in (CHAIN, chain):
        assert {**tidepool.schedule_chain(source, policy="dynprog").to_dict(), "seconds": 0} == {**answer, "seconds": 0}


def test_simulates_a_network_by_its_name(tool):
    answer = tidepool.simulate("alexnet", batch=8, memory="1GiB", offload="dynamic")
    assert answer.to_dict() == tool("simulate", "alexnet", "--batch", 8, "--memory", "1GiB", "--offload", "dynamic")


def test_several_memories_are_a_sweep(alexnet):
    answer = alexnet.simulate(memory=["512MiB", "1GiB"], policy=["none", "vdnn"])
    assert len(answer.points) == 4


def test_graphs_and_schedules_are_pickled(alexnet):
    schedule = pickle.loads(pickle.dumps(alexnet.schedule(memory="1GiB")))
    assert schedule.simulate().seconds == schedule.answer.seconds
    assert schedule.graph.text == alexnet.text


@pytest.mark.parametrize("call, text", [
    (lambda: tidepool.model("alexnt", batch=1), "unknown model 'alexnt'"),
    (lambda: tidepool.model("alexnet"), "--batch is missing"),
    (lambda: tidepool.Graph("{}").schedule(memory="1GiB"), "^graph:1: a graph without"),
    (lambda: tidepool.Graph("[").simulate(memory="1GiB"), "^graph:1: "),
    (lambda: tidepool.schedule_chain({}), "^chain:1: "),
    (lambda: tidepool.simulate("alexnet", batch=8, memory="1GiB", policy="vdn"), "vdn"),
])
def test_errors_name_the_graph_and_not_a_file(call, text):
    with pytest.raises(tidepool.InputError, match=text):
        call()


@pytest.mark.parametrize("options, message", [
    ({"memory": ""}, "--memory: no value"),
    ({"memory": "1GiB", "policy": ""}, "--policy: no value"),
])
def test_an_empty_value_takes_no_other_option(alexnet, options, message):
    with pytest.raises(tidepool.InputError, match=message):
        tidepool.schedule(alexnet, **options)
