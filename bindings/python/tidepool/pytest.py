# SPDX-License-Identifier: Apache-2.0
"""A plug-in of pytest that compares the memory of tests with golden values: `pytest --tidepool-golden memory.json`.

Tests that `tidepool.fits` made are compared as they are. Others call the fixture `tidepool_golden` with a dry run, a trace or the file
of a snapshot.

Where tidepool is installed, each run of pytest loads this module, so it loads with versions that it does not work with.
"""
from __future__ import annotations

import functools
import json
import os
import pathlib
import re
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Set

import pytest

VALUES = {"peak_live_bytes": "peak live", "peak_reserved_bytes": "reserved"}  # with their names in tables
DEFAULT_TOLERANCE = 0.01  # of a file without one
PROPERTY = "tidepool_golden"  # of the report of a test, also of those of pytest-xdist's workers
HEAD = {"tidepool_golden", "tolerance", "tests"}
OK, CHANGED, NEW, NOT_RUN = "ok", "changed", "new", "did not run"
IS_OLD = not hasattr(pytest, "StashKey")
if not IS_OLD:
    _TAKEN = pytest.StashKey[Dict[str, Dict[str, int]]]()  # the measurements of an item


class Row(NamedTuple):
    """A value of a test: `golden` of a new one and `now` of a test that did not run have the value None."""

    verdict: str
    test: str
    value: str
    golden: Optional[int]
    now: Optional[int]

    def cells(self) -> List[str]:
        """Returns the texts of the row in a table, without the verdict."""
        drift = "" if self.golden is None or self.now is None else f"{100 * (self.now / self.golden - 1):+.2f} %"
        return [self.test, VALUES[self.value], _size(self.golden), _size(self.now), drift]


def _size(bytes_: Optional[int]) -> str:
    return "" if bytes_ is None else f"{bytes_ / (1 << 20):,.1f} MiB"


def _expect(condition: bool, text: str) -> None:
    if not condition:
        raise pytest.UsageError(text)


def _check_tolerance(value: Any, place: str) -> None:
    _expect(isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1,
            f"{place}: tolerance {value!r}, expected a share from 0 to 1, such as 0.01")


def _check_test(name: str, fields: Any, path: str) -> None:
    place = f"{path}: {name}"
    _expect(isinstance(fields, dict) and bool(fields.keys() & VALUES.keys()), f"{place}: expected an object with {' or '.join(VALUES)}")
    unknown = sorted(fields.keys() - VALUES.keys() - {"tolerance"})
    _expect(not unknown, f"{place}: unknown key {unknown and unknown[0]!r}, expected {', '.join(VALUES)} or tolerance")
    for value in fields.keys() & VALUES.keys():
        bytes_ = fields[value]
        _expect(isinstance(bytes_, int) and not isinstance(bytes_, bool) and bytes_ > 0,
                f"{place}: {value} {bytes_!r}, expected a whole number of bytes")
    _check_tolerance(fields.get("tolerance", 0), place)


def _expect_new_pytest() -> None:
    _expect(not IS_OLD, f"golden values need pytest 7, and this is {pytest.__version__}: pip install 'pytest>=7'")


def _expect_writable(path: str) -> None:
    """Makes an empty file."""
    try:
        open(path, "w", encoding="utf-8").close()
    except OSError as error:
        raise pytest.UsageError(f"{path}: {error.strerror}") from None


def read(path: str, may_be_missing: bool = False) -> Dict[str, Any]:
    """Returns the contents of a golden file. Raises pytest.UsageError for a wrong one."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        _expect(may_be_missing, f"{path}: no such file, expected golden values: --tidepool-golden-update writes them")
        return {"tidepool_golden": 1, "tolerance": DEFAULT_TOLERANCE, "tests": {}}
    except (OSError, UnicodeDecodeError) as error:
        raise pytest.UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    try:
        golden = json.loads(text)
    except ValueError as error:
        raise pytest.UsageError(f"{path}: broken JSON ({error}), expected golden values") from None
    _expect(isinstance(golden, dict) and golden.get("tidepool_golden") == 1 and isinstance(golden.get("tests"), dict),
            f"{path}: expected an object with \"tidepool_golden\": 1 and \"tests\"")
    unknown = sorted(golden.keys() - HEAD)
    _expect(not unknown, f"{path}: unknown key {unknown and unknown[0]!r}, expected {', '.join(sorted(HEAD))}")
    _check_tolerance(golden.get("tolerance", DEFAULT_TOLERANCE), path)
    for name, fields in golden["tests"].items():
        _check_test(name, fields, path)
    return dict(golden)


def values_of(measured: Any) -> Dict[str, int]:
    """Returns the values of a dry run, of a trace or of the file of one."""
    import tidepool

    if isinstance(measured, (str, os.PathLike)):
        measured = tidepool.read(measured)
    if isinstance(measured, tidepool.DryRun):
        if measured.so_far:
            raise tidepool.InputError("golden values of a dry run that was stopped before its end, expected a longer time_limit or fewer steps")
        found = {value: measured[value] for value in VALUES}
    elif isinstance(measured, tidepool.Trace):
        info = measured.info()
        found = {"peak_live_bytes": info.trace.peak_live_bytes, "peak_reserved_bytes": info.peak_reserved_bytes}
        if found["peak_live_bytes"] is None:
            raise tidepool.InputError(f"{measured.path} has no history, so its peak is not known: record it with "
                                      "torch.cuda.memory._record_memory_history() before the first request")
    else:
        raise tidepool.InputError(f"golden values of {type(measured).__name__}, expected a DryRun, a Trace or the file of a snapshot")
    return {value: bytes_ for value, bytes_ in found.items() if bytes_}


class Golden:
    """The golden values of a session and those that its tests measured."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.path: str = config.getoption("tidepool_golden")
        self.table: Optional[str] = config.getoption("tidepool_golden_table")
        self.updates: bool = config.getoption("tidepool_golden_update")
        self.golden = read(self.path, self.updates)
        self.now: Dict[str, Dict[str, int]] = {}
        self.collected: Set[str] = set()
        self.deselected: Set[str] = set()
        self.failed: Set[str] = set()
        self.is_worker = hasattr(config, "workerinput")  # of pytest-xdist
        if self.is_worker:
            return
        if self.table:
            _expect_writable(self.table)
        if self.updates and not os.path.exists(self.path):
            _expect_writable(self.path)
            os.remove(self.path)

    def rows_of(self, test: str, values: Dict[str, int]) -> Iterator[Row]:
        """Yields a row for each golden value of a test, or for each that it measured if it is new."""
        golden = self.golden["tests"].get(test, {})
        tolerance = golden.get("tolerance", self.golden.get("tolerance", DEFAULT_TOLERANCE))
        for value in VALUES:
            now, before = values.get(value), golden.get(value)
            if value not in (golden or values):
                continue
            if now is None:
                verdict = NOT_RUN
            elif before is None:
                verdict = NEW
            else:
                verdict = OK if abs(now - before) <= tolerance * before else CHANGED
            yield Row(verdict, test, value, before, now)

    def rows(self) -> List[Row]:
        """Returns all rows, those first that need a look."""
        tests = sorted({*self.now, *self.golden["tests"]})
        found = [row for test in tests for row in self.rows_of(test, self.now.get(test, {}))]
        return sorted(found, key=lambda row: (CHANGED, NEW, NOT_RUN, OK).index(row.verdict))

    def check(self, test: str, values: Dict[str, int], lines: str) -> None:
        """Fails the test where a value has left its tolerance or has no golden one."""
        rows = list(self.rows_of(test, values))
        wrong = [row for row in rows if row.verdict != OK]
        if wrong and not self.updates:
            text = "\n".join(f"{row.verdict}: {' · '.join(filter(None, row.cells()[1:]))}" for row in wrong)
            pytest.fail(f"memory differs from {self.path}; --tidepool-golden-update takes the new values\n{text}\n{lines}".rstrip(), pytrace=False)

    # Reports come from workers of pytest-xdist too.
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)
        # The last one has the measurements of all parts of the test.
        if report.when != "teardown" or (self.updates and report.nodeid in self.failed):
            return
        for name, text in report.user_properties:
            if name == PROPERTY:
                self.now.update(json.loads(str(text)))

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        self.collected.add(item.nodeid)

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        self.deselected.update(item.nodeid for item in items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        found = getattr(node, "workeroutput", {})
        self.collected.update(found.get("tidepool_collected", []))
        self.deselected.update(found.get("tidepool_deselected", []))

    def is_selected(self, test: str) -> bool:
        """Returns whether the command line asked for a test, which may not exist any more."""
        if _node_of(test) in self.deselected:
            return False
        file, _, function = _node_of(test).partition("::")
        place = (self.config.rootpath / file).resolve()
        for argument in self.config.args:
            name, _, rest = argument.partition("::")
            asked = (self.config.invocation_params.dir / name).resolve()
            if (place == asked or asked in place.parents) and (not rest or function == rest or function.startswith((rest + "::", rest + "["))):
                return True
        return False

    def missing(self) -> List[str]:
        """Returns the tests with golden values that should have run."""
        return [test for test in self.golden["tests"] if test not in self.now and self.is_selected(test)]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.is_worker:
            self.config.workeroutput.update(tidepool_collected=sorted(self.collected), tidepool_deselected=sorted(self.deselected))  # type: ignore
            return
        if self.table:
            pathlib.Path(self.table).write_text(markdown(self.rows(), self.path), encoding="utf-8")
        if self.updates:
            self.write()
        elif self.missing() and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def write(self) -> None:
        """Writes the golden file with the new values, and without tests that are gone."""
        tests = self.golden["tests"]
        for test in self.missing():
            if _node_of(test) not in self.collected:
                del tests[test]
        for test, values in self.now.items():
            before = tests.get(test, values)
            tests[test] = {**before, **{value: bytes_ for value, bytes_ in values.items() if value in before}}
        self.golden["tests"] = dict(sorted(tests.items()))
        new = self.path + ".new"
        pathlib.Path(new).write_text(json.dumps(self.golden, indent=2) + "\n", encoding="utf-8")
        os.replace(new, self.path)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.is_worker:
            return
        rows = self.rows()
        if self.updates:
            terminalreporter.write_line(f"{self.path}: golden values of {len(self.now)} tests written")
            return
        missing = set(self.missing())
        shown = [row for row in rows if row.verdict in (CHANGED, NEW) or row.test in missing]
        if shown:
            terminalreporter.section("memory and golden values")
        for row in shown:
            terminalreporter.write_line(f"{row.verdict}: {' · '.join(filter(None, row.cells()))}")
        terminalreporter.write_line(f"{self.path}: {sum(row.verdict == OK for row in rows)} of {len(rows)} golden values within tolerance")


def _node_of(test: str) -> str:
    """Returns the node of pytest of a test, without the name of one of several measurements."""
    return re.sub(r" \([\w.-]+\)$", "", test)


def markdown(rows: List[Row], path: str) -> str:
    """Returns the table of a pull request."""
    marks = {OK: "✅", CHANGED: "❌", NEW: "❌ new", NOT_RUN: "not run"}
    wrong = sum(row.verdict in (CHANGED, NEW) for row in rows)
    head = f"{wrong} of {len(rows)} values differ" if wrong else f"{sum(row.verdict == OK for row in rows)} of {len(rows)} values within tolerance"
    lines = [f"### GPU memory: {head}", "", f"Golden values: `{path}`", "", "| | test | memory | golden | now | drift |",
             "|---|---|---|---:|---:|---:|"]
    for row in rows:
        test, *cells = row.cells()
        escaped = test.replace("|", "\\|")
        lines.append(f"| {marks[row.verdict]} | `{escaped}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tidepool", "memory by dry runs")
    group.addoption("--tidepool-golden", metavar="FILE", help="compare the memory of tests with the golden values of this file")
    group.addoption("--tidepool-golden-update", action="store_true", help="write the values of this run into the file of --tidepool-golden")
    group.addoption("--tidepool-golden-table", metavar="FILE", help="write the comparison into this file as a table in Markdown")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("tidepool_golden"):
        _expect_new_pytest()
        config.pluginmanager.register(Golden(config), "tidepool-golden")
    elif config.getoption("tidepool_golden_update") or config.getoption("tidepool_golden_table"):
        raise pytest.UsageError("--tidepool-golden-update and --tidepool-golden-table need the file: --tidepool-golden FILE")


def _take(item: pytest.Item, measured: Any, name: str = "") -> None:
    """Compares a measurement of a test."""
    import tidepool

    _expect_new_pytest()
    values = values_of(measured)
    if name and not re.fullmatch(r"[\w.-]+", name):
        raise tidepool.InputError(f"the name {name!r} of a measurement, expected letters, digits, '_', '.' and '-'")
    taken = item.stash[_TAKEN]
    test = f"{item.nodeid} ({name})" if name else item.nodeid
    if test in taken:
        raise tidepool.InputError(f"two measurements of {test}, expected a name for each: tidepool_golden(answer, \"decode\")")
    taken[test] = values
    golden = item.config.pluginmanager.getplugin("tidepool-golden")
    if golden is not None:
        item.user_properties[:] = [pair for pair in item.user_properties if pair[0] != PROPERTY] + [(PROPERTY, json.dumps(taken))]
        golden.check(test, values, str(measured) if isinstance(measured, tidepool.DryRun) else "")


@pytest.fixture
def tidepool_golden(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Compares the memory of a dry run, a trace or the file of a snapshot with the golden values of the test:
    `tidepool_golden(tidepool.dryrun(train))`. Several measurements of a test need names: `tidepool_golden(answer, "decode")`.
    Without `--tidepool-golden` it compares nothing."""
    return functools.partial(_take, request.node)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if not IS_OLD:
        item.stash[_TAKEN] = {}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Compares the answers of tests that `tidepool.fits` made."""
    if item.config.pluginmanager.getplugin("tidepool-golden") is None:
        yield
        return
    from tidepool import _dryrun

    _dryrun.of_check = functools.partial(_take, item)
    yield  # raises nothing
    _dryrun.of_check = None
