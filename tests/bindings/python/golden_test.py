# SPDX-License-Identifier: Apache-2.0
"""Golden values of memory: the plug-in of pytest, and the action of GitHub that runs it."""
import json
import os
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT

pytest_plugins = "pytester"
MIB = 1 << 20
TESTS = """
import tidepool

def answer(live, reserved, so_far=False):
    return tidepool.DryRun(fits=True, so_far=so_far, peak_live_bytes=live << 20, peak_reserved_bytes=reserved << 20, _lines=["the lines of the answer"])

def test_step(tidepool_golden):
    tidepool_golden(answer(100, 200))

def test_phases(tidepool_golden):
    tidepool_golden(answer(10, 20), "prefill")
    tidepool_golden(answer(30, 40), "decode")
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """Runs pytest in a folder with test_memory.py, and returns its result."""
    # Where the package is installed, pytest would load the plug-in a second time by its entry point.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(test_memory=TESTS)

    def run(*arguments):
        return pytester.runpytest_subprocess("-p", "tidepool.pytest", "-p", "no:cacheprovider", *arguments)

    return run


@pytest.fixture
def golden(pytester, run):
    """The file of golden values of test_memory.py, as a function that changes it and writes it again."""
    path = pytester.path / "memory.json"
    assert run("--tidepool-golden", "memory.json", "--tidepool-golden-update").ret == 0

    def change(**fields):
        contents = json.loads(path.read_text())
        for key, value in fields.items():
            if key == "tests":
                contents["tests"].update(value)
            else:
                contents[key] = value
        path.write_text(json.dumps(contents))
        return contents

    return change


def compare(run, *arguments):
    return run("--tidepool-golden", "memory.json", *arguments)


def test_writes_what_tests_measure(golden):
    assert golden() == {
        "tidepool_golden": 1, "tolerance": 0.01, "tests": {
            "test_memory.py::test_phases (decode)": {"peak_live_bytes": 30 * MIB, "peak_reserved_bytes": 40 * MIB},
            "test_memory.py::test_phases (prefill)": {"peak_live_bytes": 10 * MIB, "peak_reserved_bytes": 20 * MIB},
            "test_memory.py::test_step": {"peak_live_bytes": 100 * MIB, "peak_reserved_bytes": 200 * MIB}}}


def test_equal_values_pass(run, golden):
    result = compare(run)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["memory.json: 6 of 6 golden values within tolerance"])
    assert run().ret == 0  # without golden values


# Memory that falls is news too: a later rise to the old value would pass.
@pytest.mark.parametrize("live, verdict", [(99.1, 0), (98.9, 1), (101, 0), (101.1, 1)])
def test_a_value_may_differ_by_the_tolerance(run, golden, live, verdict):
    golden(tests={"test_memory.py::test_step": {"peak_live_bytes": int(live * MIB)}})
    assert compare(run).ret == verdict
    compare(run, "--tidepool-golden-update")  # of the one value that the file has
    assert golden()["tests"]["test_memory.py::test_step"] == {"peak_live_bytes": 100 * MIB}


def test_a_test_has_a_tolerance_of_its_own(run, golden):
    golden(tests={"test_memory.py::test_step": {"peak_live_bytes": 95 * MIB, "peak_reserved_bytes": 200 * MIB, "tolerance": 0.06}})
    assert compare(run).ret == 0
    compare(run, "--tidepool-golden-update")
    assert golden()["tests"]["test_memory.py::test_step"] == {
        "peak_live_bytes": 100 * MIB, "peak_reserved_bytes": 200 * MIB, "tolerance": 0.06}


def test_a_rise_fails_and_is_explained(run, golden, pytester):
    golden(tests={"test_memory.py::test_step": {"peak_live_bytes": 80 * MIB, "peak_reserved_bytes": 200 * MIB}})
    result = compare(run, "--tidepool-golden-table", "table.md")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*memory differs from memory.json*", "*changed: peak live · 80.0 MiB · 100.0 MiB · +25.00 %*",
                                 "*the lines of the answer*"])
    assert (pytester.path / "table.md").read_text().splitlines()[:7] == [
        "### GPU memory: 1 of 6 values differ", "", "Golden values: `memory.json`", "", "| | test | memory | golden | now | drift |",
        "|---|---|---|---:|---:|---:|",
        "| ❌ | `test_memory.py::test_step` | peak live | 80.0 MiB | 100.0 MiB | +25.00 % |"]


def test_a_new_test_fails_until_its_values_are_taken(run, golden, pytester):
    pytester.makepyfile(test_memory=TESTS + "\ndef test_more(tidepool_golden): tidepool_golden(answer(1, 2))\n")
    result = compare(run)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["new: test_memory.py::test_more · peak live · 1.0 MiB"])
    assert compare(run, "--tidepool-golden-update").ret == 0
    assert compare(run).ret == 0


def test_a_test_that_did_not_run_fails_the_session(run, golden, pytester):
    pytester.makepyfile(test_memory=TESTS.replace("def test_step", "import pytest\n@pytest.mark.skip\ndef test_step"))
    result = compare(run)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["did not run: test_memory.py::test_step · peak live · 100.0 MiB"])
    compare(run, "--tidepool-golden-update")
    assert "test_memory.py::test_step" in golden()["tests"]  # it is there, and may run elsewhere


def test_a_test_that_is_gone_is_removed_by_an_update(run, golden):
    golden(tests={"test_memory.py::test_gone": {"peak_live_bytes": 1}})
    assert compare(run).ret == 1
    assert compare(run, "--tidepool-golden-update").ret == 0
    assert "test_memory.py::test_gone" not in golden()["tests"]


@pytest.mark.parametrize("selection", [("-k", "phases"), ("test_memory.py::test_phases",), ("--deselect", "test_memory.py::test_step")])
def test_tests_that_were_not_asked_for_need_not_run(run, golden, selection):
    result = compare(run, *selection)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["memory.json: 4 of 6 golden values within tolerance"])
    before = golden()
    compare(run, *selection, "--tidepool-golden-update")
    assert golden() == before


def test_a_failed_test_changes_no_golden_value(run, golden, pytester):
    before = golden()
    pytester.makepyfile(test_memory=TESTS.replace("answer(100, 200))", "answer(1, 2))\n    assert False"))
    assert compare(run, "--tidepool-golden-update").ret == 1
    assert golden() == before


def test_checks_of_fits_have_golden_values(run, golden, pytester):
    pytester.makepyfile(test_memory=TESTS + (
        "\nfrom tidepool import _dryrun\n"
        "_dryrun.dryrun = lambda *_, **__: answer(7, 8)\n"
        "@tidepool.fits('1GiB')\n"
        "def test_fits(): pass\n"))
    assert compare(run).ret == 1
    assert compare(run, "--tidepool-golden-update").ret == 0
    assert golden()["tests"]["test_memory.py::test_fits"]["peak_live_bytes"] == 7 * MIB


def test_a_snapshot_has_golden_values(run, golden, pytester):
    recorded = ROOT / "tests/frameworks/dryrun/recorded/h200/alexnet.pickle.gz"
    pytester.makepyfile(test_memory=TESTS + f"\ndef test_recorded(tidepool_golden): tidepool_golden({str(recorded)!r})\n")
    compare(run, "--tidepool-golden-update")
    assert golden()["tests"]["test_memory.py::test_recorded"] == {"peak_live_bytes": 1634345472, "peak_reserved_bytes": 2659188736}


@pytest.mark.parametrize("line, error", [
    ("tidepool_golden(answer(1, 2)); tidepool_golden(answer(1, 2))", "*two measurements of test_memory.py::test_more, expected a name for each*"),
    ("tidepool_golden(answer(1, 2), 'a b')", "*the name 'a b' of a measurement, expected letters*"),
    ("tidepool_golden(answer(1, 2, so_far=True))", "*golden values of a dry run that was stopped before its end, expected a longer time_limit*"),
    ("tidepool_golden(5)", "*golden values of int, expected a DryRun, a Trace or the file of a snapshot"),
])
def test_wrong_measurements(run, pytester, line, error):
    pytester.makepyfile(test_memory=TESTS + f"\ndef test_more(tidepool_golden): {line}\n")
    run("-k", "more").stdout.fnmatch_lines([error])


def test_set_up_and_tear_down_may_measure(run, golden, pytester):
    pytester.makepyfile(test_memory=TESTS + """
import pytest

@pytest.fixture
def measures(tidepool_golden):
    tidepool_golden(answer(1, 2), "set-up")
    yield
    tidepool_golden(answer(3, 4), "tear-down")

def test_more(measures): pass
""")
    result = compare(run)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["new: test_memory.py::test_more (set-up) · peak live · 1.0 MiB"])
    assert compare(run, "--tidepool-golden-update").ret == 0
    assert compare(run).ret == 0
    tests = golden()["tests"]
    assert tests["test_memory.py::test_more (set-up)"] == {"peak_live_bytes": 1 * MIB, "peak_reserved_bytes": 2 * MIB}
    assert tests["test_memory.py::test_more (tear-down)"] == {"peak_live_bytes": 3 * MIB, "peak_reserved_bytes": 4 * MIB}


@pytest.mark.parametrize("place", ["set-up", "tear-down"])
def test_a_fixture_fails_with_its_values(run, golden, pytester, place):
    golden(tests={f"test_memory.py::test_more ({place})": {"peak_live_bytes": 1}})
    measure = f"tidepool_golden(answer(1, 2), '{place}')"
    lines = (measure, "yield") if place == "set-up" else ("yield", measure)
    pytester.makepyfile(test_memory=TESTS + "\nimport pytest\n@pytest.fixture\ndef measures(tidepool_golden):\n    "
                        + "\n    ".join(lines) + "\n\ndef test_more(measures): pass\n")
    result = compare(run)
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"changed: test_memory.py::test_more ({place}) · peak live · 0.0 MiB · 1.0 MiB*"])


def test_a_test_whose_tear_down_passes_after_a_failure_changes_no_golden_value(run, golden, pytester):
    before = golden()
    pytester.makepyfile(test_memory=TESTS.replace("def test_step(tidepool_golden):", """
import pytest

@pytest.fixture
def resource():
    yield

def test_step(tidepool_golden, resource):
    tidepool_golden(answer(1, 2), "first")
    assert False""".lstrip()))
    assert compare(run, "--tidepool-golden-update").ret == 1
    assert golden() == before


def test_old_versions_of_pytest(run, pytester):
    """The plug-in is loaded in each run of pytest where the package is installed."""
    pytester.makepyfile(old="import pytest\nfor name in ('StashKey', 'Parser', 'TestReport'): delattr(pytest, name)\npytest.__version__ = '6.2.5'\n",
                        test_other="def test_other(): pass\n")

    def run_old(*arguments):
        return pytester.runpytest_subprocess("-p", "old", "-p", "tidepool.pytest", "-p", "no:cacheprovider", *arguments)

    assert run_old("test_other.py").ret == 0
    reason = "golden values need pytest 7, and this is 6.2.5: pip install 'pytest>=7'"
    result = run_old("test_other.py", "--tidepool-golden", "memory.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR and reason in result.stderr.str()
    run_old("test_memory.py").stdout.fnmatch_lines([f"*{reason}*"])


@pytest.mark.parametrize("contents, error", [
    (None, "no such file, expected golden values: --tidepool-golden-update writes them"),
    ("{", "broken JSON"),
    ("[]", "expected an object with \"tidepool_golden\": 1"),
    ('{"tidepool_golden": 2, "tests": {}}', "expected an object with \"tidepool_golden\": 1"),
    ('{"tidepool_golden": 1, "tests": {}, "margin": 1}', "unknown key 'margin', expected tests, tidepool_golden, tolerance"),
    ('{"tidepool_golden": 1, "tests": {}, "tolerance": "1 %"}', "tolerance '1 %', expected a share from 0 to 1"),
    ('{"tidepool_golden": 1, "tests": {"a": {"peak": 1}}}', "a: expected an object with peak_live_bytes or peak_reserved_bytes"),
    ('{"tidepool_golden": 1, "tests": {"a": {"peak_live_bytes": 1, "peak": 1}}}', "a: unknown key 'peak'"),
    ('{"tidepool_golden": 1, "tests": {"a": {"peak_live_bytes": 1.5}}}', "a: peak_live_bytes 1.5, expected a whole number of bytes"),
    ('{"tidepool_golden": 1, "tests": {"a": {"peak_live_bytes": 1, "tolerance": 1}}}', "a: tolerance 1, expected a share"),
])
def test_wrong_files(run, pytester, contents, error):
    if contents is not None:
        (pytester.path / "memory.json").write_text(contents)
    result = compare(run)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "memory.json: " in result.stderr.str() and error in result.stderr.str(), result.stderr.str()


def test_wrong_options(run, pytester):
    for option in (("--tidepool-golden-update",), ("--tidepool-golden-table", "table.md")):
        result = run(*option)
        assert result.ret == pytest.ExitCode.USAGE_ERROR and "need the file: --tidepool-golden FILE" in result.stderr.str()
    result = run("--tidepool-golden", "memory.json", "--tidepool-golden-update", "--tidepool-golden-table", "no/table.md")
    assert result.ret == pytest.ExitCode.USAGE_ERROR and "no/table.md: No such file or directory" in result.stderr.str()
    result = run("--tidepool-golden", "no/memory.json", "--tidepool-golden-update")
    assert result.ret == pytest.ExitCode.USAGE_ERROR and "no/memory.json: No such file or directory" in result.stderr.str()
    assert "passed" not in result.stdout.str()


class Action:
    """The action of GitHub, with a `gh` that notes its arguments and finds `comments`."""

    def __init__(self, folder, comments="", status=0):
        self.folder = folder
        self.notes = folder / "gh.log"
        gh = folder / "bin" / "gh"
        gh.parent.mkdir()
        gh.write_text(f"#!/bin/sh\necho \"$*\" >>{self.notes}\ncase $* in *--paginate*) printf '{comments}';; esac\nexit {status}\n")
        gh.chmod(0o755)
        self.summary, self.output = folder / "summary", folder / "output"

    def run(self, **inputs):
        own = {"GOLDEN": "memory.json", "TESTS": "-p tidepool.pytest -p no:cacheprovider", "PYTHON": sys.executable, "COMMENT": "true",
               "PULL_REQUEST": "7", "GITHUB_REPOSITORY": "owner/name", "GITHUB_OUTPUT": str(self.output),
               "GITHUB_STEP_SUMMARY": str(self.summary), "RUNNER_TEMP": str(self.folder),
               "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        return subprocess.run([ROOT / ".github/actions/memory/memory.sh"], cwd=self.folder, capture_output=True, text=True,
                              check=False, env={**os.environ, **own, **inputs})

    def calls(self):
        return self.notes.read_text().splitlines() if self.notes.exists() else []


@pytest.mark.skipif(shutil.which("bash") is None, reason="the action is a script of bash")
def test_the_action_posts_the_table(golden, pytester):
    action = Action(pytester.path)
    done = action.run()
    assert done.returncode == 0, done.stderr
    table = (pytester.path / "tidepool-memory.md").read_text()
    assert table.startswith("<!-- tidepool memory of memory.json -->\n### GPU memory: 6 of 6 values within tolerance\n")
    assert action.summary.read_text() == table
    assert action.output.read_text() == f"table={pytester.path}/tidepool-memory.md\n"
    assert action.calls()[1] == (f"api --silent --method POST repos/owner/name/issues/7/comments --field body=@{pytester.path}/tidepool-memory.md")


def test_the_action_keeps_one_comment(golden, pytester):
    action = Action(pytester.path, comments="12\\n13\\n")
    assert action.run().returncode == 0
    assert action.calls()[1].startswith("api --silent --method PATCH repos/owner/name/issues/comments/12 ")


def test_the_action_fails_as_the_tests_do(golden, pytester):
    golden(tests={"test_memory.py::test_step": {"peak_live_bytes": 1, "peak_reserved_bytes": 1}})
    action = Action(pytester.path)
    assert action.run().returncode == 1
    assert len(action.calls()) == 2 and "| ❌ |" in action.summary.read_text()


def test_the_action_without_the_right_to_comment(golden, pytester):
    done = Action(pytester.path, status=1).run()
    assert done.returncode == 0 and "::notice::the table of memory was not posted" in done.stdout


def test_the_action_outside_of_a_pull_request(golden, pytester):
    action = Action(pytester.path)
    assert action.run(PULL_REQUEST="").returncode == 0 and action.calls() == []


def test_the_action_without_a_table(golden, pytester):
    action = Action(pytester.path)
    done = action.run(GOLDEN="missing.json")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR and "::error::pytest wrote no table of memory" in done.stdout
