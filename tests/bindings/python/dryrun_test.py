# SPDX-License-Identifier: Apache-2.0
"""Dry runs of functions, as far as they need no PyTorch: the call in a new process, and the errors before it."""
import inspect
import os
import pathlib
import pickle
import subprocess
import sys

import pytest

import tidepool
from tidepool import _dryrun


def place():
    try:
        return _dryrun.folder()
    except tidepool.Error as error:
        pytest.skip(str(error))


def fails(words):
    raise KeyError(words)


class Unpicklable(Exception):
    def __reduce__(self):
        raise TypeError("not this one")


def fails_without_a_trace():
    raise Unpicklable()


def writes(path, words):
    pathlib.Path(path).write_text(words)


def call(folder, function, *arguments):
    """Calls the function as a dry run does, without the stand-in."""
    _dryrun._write_call(folder / "call.pickle", function, arguments)
    return subprocess.run([sys.executable, str(place() / "tidepool_dryrun" / "call.py"), str(folder)], capture_output=True,
                          text=True, check=False)


def test_calls_a_function_in_a_new_process(tmp_path):
    done = call(tmp_path, writes, tmp_path / "out", "written")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out").read_text() == "written"
    assert not (tmp_path / "error.pickle").exists()


def test_keeps_the_error_of_the_function_with_its_traceback(tmp_path):
    assert call(tmp_path, fails, "far away").returncode == 1
    error = _dryrun._error_of_call(tmp_path / "error.pickle")
    assert type(error) is KeyError and error.args == ("far away",)
    assert "in fails" in str(error.__cause__)


def test_an_error_that_cannot_be_pickled_is_left_to_the_text(tmp_path):
    done = call(tmp_path, fails_without_a_trace)
    assert "Unpicklable" in done.stderr
    assert _dryrun._error_of_call(tmp_path / "error.pickle") is None


def test_a_script_without_cloudpickle_is_run_again(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import importlib.util, pathlib, sys\n"
        "def write(): pathlib.Path(sys.argv[1], 'out').write_text(__name__)\n"
        "if __name__ == '__main__':\n"
        "    from tidepool import _dryrun\n"
        "    importlib.util.find_spec = lambda name: None\n"
        "    _dryrun._write_call(pathlib.Path(sys.argv[1], 'call.pickle'), write, ())\n")
    own = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    for program in (script, place() / "tidepool_dryrun" / "call.py"):
        subprocess.run([sys.executable, program, tmp_path], env=own, check=True)
    assert (tmp_path / "out").read_text() == "__mp_main__"


def test_a_script_from_standard_input_needs_cloudpickle():
    lines = ("import importlib.util, pathlib, tidepool\n"
             "from tidepool import _dryrun\n"
             "def own(): pass\n"
             "importlib.util.find_spec = lambda name: None\n"
             "try: _dryrun._write_call(pathlib.Path('/dev/null'), own, ())\n"
             "except tidepool.InputError as error: print(error)\n")
    done = subprocess.run([sys.executable, "-"], input=lines, capture_output=True, text=True, check=False)
    assert done.stdout == "functions of a notebook need the package cloudpickle: pip install cloudpickle\n", done.stderr


def test_wrong_arguments():
    place()
    with pytest.raises(tidepool.InputError, match="cannot be sent to a new process"):
        tidepool.dryrun(lambda: None)
    with pytest.raises(tidepool.InputError, match="no GPU 'h10' is known, expected one of h100"):
        tidepool.dryrun(writes, gpu="h10")
    with pytest.raises(tidepool.InputError, match="24 apples"):
        tidepool.dryrun(writes, memory="24 apples")


def test_an_environment_without_pytorch(python):
    place()
    if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
        pytest.skip("this environment has PyTorch")
    with pytest.raises(tidepool.Error, match="has no PyTorch, expected an environment"):
        tidepool.dryrun(writes, "x", "y")


def test_refuses_a_dry_run_inside_of_a_dry_run(monkeypatch):
    monkeypatch.setenv("TIDEPOOL_DRYRUN_FOLDER", "/tmp")
    with pytest.raises(tidepool.Error, match="under if __name__ == '__main__'"):
        tidepool.dryrun(writes)


@tidepool.fits("1GiB", gpu="t4")
def a_checked_function(first, second=2):
    """Adds."""
    return first + second


def test_a_check_looks_like_its_function_and_runs_it_inside(monkeypatch):
    assert a_checked_function.__doc__ == "Adds."
    assert list(inspect.signature(a_checked_function).parameters) == ["first", "second"]
    monkeypatch.setenv("TIDEPOOL_DRYRUN_FOLDER", "/tmp")
    assert a_checked_function(1) == 3
    assert pickle.loads(pickle.dumps(a_checked_function)) is a_checked_function


def test_a_check_fails_with_the_explanation(monkeypatch):
    answers = [tidepool.DryRun(fits=True, so_far=False, _lines=[]), tidepool.DryRun(fits=False, _lines=["no: out of memory at a.py:3"]),
               tidepool.DryRun(fits=True, so_far=True, _lines=["stopped in a.py:4"])]
    asked = []
    monkeypatch.setattr(_dryrun, "dryrun", lambda call, **options: asked.append(options) or answers.pop(0))
    assert a_checked_function(1) is None
    with pytest.raises(AssertionError, match="a_checked_function does not fit\nno: out of memory at a.py:3"):
        a_checked_function(1)
    with pytest.raises(AssertionError, match="a_checked_function was stopped before its end, .*\nstopped in a.py:4"):
        a_checked_function(1)
    assert asked[0] == {"memory": "1GiB", "gpu": "t4"}


def test_an_answer_shows_its_lines():
    answer = tidepool.DryRun(fits=True, _lines=["a < b", "c"])
    assert str(answer) == "a < b\nc"
    assert answer._repr_html_() == "<pre>a &lt; b\nc</pre>"
    assert answer.to_dict() == {"fits": True}


def test_the_command_is_a_module_too(python):
    place()
    done = subprocess.run([sys.executable, "-m", "tidepool.dryrun", "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "--gpu NAME" in done.stdout, done.stderr
    assert "RuntimeWarning" not in done.stderr
    assert python("import tidepool, tidepool.dryrun; print(callable(tidepool.dryrun))") == "True\n"
