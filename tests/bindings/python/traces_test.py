# SPDX-License-Identifier: Apache-2.0
"""Traces: answers equal those of the program, and errors are exceptions with its texts."""
import base64
import html.parser
import json
import pickle
import re

import pytest

import tidepool

VGG = "examples/traces/vgg16-b4-sgd.rmm.csv.gz"
ALEXNET = "examples/traces/alexnet-b32-sgd.rmm.csv.gz"


def without_times(value):
    """Returns an answer without its measured times, which differ from run to run."""
    if isinstance(value, dict):
        return {name: without_times(one) for name, one in value.items()
                if name not in ("seconds", "nanoseconds_per_event")}
    return [without_times(one) for one in value] if isinstance(value, list) else value


def test_reads_what_the_file_holds(vgg):
    assert (vgg.format, vgg.device, vgg.events, vgg.allocations) == ("rmm-csv", 0, 3098, 1564)


@pytest.mark.parametrize("format", ["native", "rmm-csv", "operation-csv", "lifetime-csv", "chrome-trace",
                                    "pytorch-snapshot"])
def test_reads_every_format_that_it_writes(vgg, tmp_path, format):
    path = tmp_path / "trace.gz"
    answer = vgg.convert(path, to=format)
    copy = tidepool.read(path)
    assert (copy.format, copy.allocations) == (format, vgg.allocations)
    assert (answer["from"], answer.to) == ("rmm-csv", format) and isinstance(answer.left_out, list)


@pytest.mark.parametrize("arguments, answer", [
    (["info"], lambda trace: trace.info()),
    (["info", "--category", "all=.*"], lambda trace: trace.info(category=["all=.*"])),
    (["size"], lambda trace: trace.size()),
    (["size", "--policy", "best-fit", "--policy", "first-fit", "--fits", "900MiB", "--align", "256"],
     lambda trace: trace.size(policy=["best-fit", "first-fit"], fits="900MiB", align=256)),
    (["size", "--policy", "best-fit", "--plan"], lambda trace: trace.size(policy="best-fit", plan=True)),
    (["plan", "--capacity", "1GiB"], lambda trace: trace.plan(capacity=2**30)),
    (["replay", "--pool", "900MiB"], lambda trace: trace.replay(pool="900MiB")),
    (["replay", "--policy", "planned", "--offsets"], lambda trace: trace.replay(policy="planned", offsets=True)),
])
def test_answers_as_the_program_does(vgg, tool, arguments, answer):
    command, *options = arguments
    assert without_times(answer(vgg).to_dict()) == without_times(tool(command, VGG, *options))


def test_compares_with_a_later_trace(vgg, tool):
    assert tidepool.read(ALEXNET).diff(vgg).to_dict() == tool("diff", ALEXNET, VGG)


def test_sizes_the_ranks_of_a_job(vgg, tool):
    answer = vgg.size(tidepool.read(ALEXNET), policy="best-fit")
    assert without_times(answer.to_dict()) == without_times(tool("size", vgg.path, ALEXNET, "--policy", "best-fit"))


def test_answers_have_attributes_and_items(vgg):
    answer = vgg.size(policy="best-fit")
    assert answer.policies[0].pool_bytes == answer["policies"][0]["pool_bytes"] == 908195840
    assert "policies" in answer and "wishes" not in answer
    assert json.loads(json.dumps(answer.to_dict())) == answer.to_dict()


def test_reads_the_file_once(vgg, tmp_path):
    path = tmp_path / "trace.tide"
    vgg.convert(path)
    trace = tidepool.read(path)
    path.unlink()
    assert trace.info().trace.peak_live_bytes == vgg.info().trace.peak_live_bytes
    assert trace.plan(capacity="2GiB").fits and trace.diff(vgg).live_bytes


def test_compares_two_files_of_one_name(vgg, tmp_path):
    path = tmp_path / "trace.tide"
    vgg.convert(path)
    before = tidepool.read(path)
    tidepool.read(ALEXNET).convert(path)
    assert before.diff(tidepool.read(path)).peak_live_bytes == vgg.diff(tidepool.read(ALEXNET)).peak_live_bytes


def test_writes_a_plan(vgg, tmp_path):
    vgg.plan(tmp_path / "plan.csv")
    assert (tmp_path / "plan.csv").read_text().startswith("id,lower,upper,size,offset\n")


def test_draws_a_report(vgg):
    report = vgg.report(policy="best-fit")
    assert report.svg.startswith("<svg")
    assert report.policies[0].policy == "best-fit" and "svg" not in report.to_dict()


def the_element(markup):
    """Returns the name and the attributes of the only element of a notebook's output."""
    found = []
    parser = html.parser.HTMLParser()
    parser.handle_starttag = lambda name, attributes: found.append((name, dict(attributes)))
    parser.handle_data = lambda text: found.append(text)
    parser.feed(markup)
    parser.close()
    (name, attributes), = found
    return name, attributes


@pytest.mark.parametrize("shown", [lambda trace: trace, lambda trace: trace.report()])
def test_a_notebook_shows_the_drawing_apart_from_other_outputs(vgg, shown):
    """Styles and names of a drawing within the page would apply to each other drawing there."""
    name, attributes = the_element(shown(vgg)._repr_html_())
    kind, _, data = attributes["src"].partition(",")
    assert (name, kind) == ("img", "data:image/svg+xml;base64")
    assert base64.b64decode(data).decode() == vgg.report().svg


def test_a_notebook_shows_the_page_of_a_report(vgg, tmp_path):
    page = tmp_path / "report.html"
    report = vgg.report(page)
    name, attributes = the_element(report._repr_html_())
    assert (name, attributes["sandbox"]) == ("iframe", "allow-scripts")
    assert attributes["srcdoc"] == page.read_text()
    page.unlink()
    assert report._repr_html_() is None


def test_a_notebook_shows_a_drawing_that_was_written(vgg, tmp_path):
    assert the_element(vgg.report(tmp_path / "report.svg")._repr_html_())[0] == "img"
    assert vgg.report(tmp_path / "report.folded")._repr_html_() is None


def test_the_text_of_a_report_has_no_drawing(vgg):
    report = vgg.report()
    assert "<svg" not in repr(report) and "peak_live_bytes=840280064" in repr(report)
    assert vgg.report().svg == pickle.loads(pickle.dumps(report)).svg


def test_writes_the_page_of_a_report_with_a_comparison(vgg, tmp_path):
    page = tmp_path / "report.html"
    assert vgg.report(page, before=tidepool.read(ALEXNET)).output == str(page)
    assert "alexnet-b32-sgd.rmm.csv.gz" in page.read_text()


def test_a_trace_is_pickled_as_its_path(vgg):
    copy = pickle.loads(pickle.dumps(vgg))
    assert (copy.events, copy.path) == (vgg.events, str(vgg.path))


def test_a_path_may_begin_like_an_option(vgg, tmp_path, monkeypatch):
    vgg.convert(tmp_path / "--help", to="native")
    monkeypatch.chdir(tmp_path)
    assert tidepool.read("--help").info().trace.events == vgg.events


@pytest.mark.parametrize("call, text", [
    (lambda trace: tidepool.read("missing.tide"), "missing.tide: cannot be opened: .*"),
    (lambda trace: tidepool.read(__file__), ".*traces_test.py.*"),
    (lambda trace: tidepool.read("\x1b[31m"), r"\\x1b\[31m: cannot be opened.*"),
    (lambda trace: trace.size(policy="bets-fit"), "no placement policy 'bets-fit', expected one of best-fit, .*"),
    (lambda trace: trace.size(fits="muh"), "--fits: 'muh' is not a size, expected .*"),
    (lambda trace: trace.size(plam=True), "size: no option '--plam'.*"),
    (lambda trace: trace.info(help=True), "help and version .*"),
    (lambda trace: trace.info(category=["a=("]), "--category.*"),
    (lambda trace: trace.replay(), "replay: --pool is missing.*"),
    (lambda trace: trace.report("report.jpeg"), "-o: report.jpeg, expected a name .*"),
    (lambda trace: trace.convert("copy.tide", to="jpeg"), ".*jpeg.*"),
    (lambda trace: trace.convert("/missing/copy.tide"), "/missing/copy.tide.*"),
])
def test_errors_have_the_text_of_the_program(vgg, call, text):
    with pytest.raises(tidepool.InputError) as raised:
        call(vgg)
    assert isinstance(raised.value, ValueError) and isinstance(raised.value, tidepool.Error)
    assert re.fullmatch(text, str(raised.value))


def test_compares_traces_only(vgg):
    with pytest.raises(TypeError, match="is no trace"):
        vgg.diff(VGG)


def test_phases_in_any_order():
    needs = tidepool.read("examples/traces/serving.csv").plan(regions=True, without=["cache", "end"], capacity="80GiB", block="2MiB")
    assert [phase.name for phase in needs.phases] == ["load", "capture", "prefill", "decode"]
    assert needs.needed_bytes == needs.kept_bytes + needs.areas * needs.handed_bytes + needs.work_bytes
    assert needs.blocks == ((80 << 30) - needs.needed_bytes) // (2 << 20)
