# SPDX-License-Identifier: Apache-2.0
"""The package as a whole: its version, imports, types, and the example of the guide."""
import inspect
import os
import pathlib
import pickle
import re
import subprocess
import sys

import pytest

import tidepool

ROOT = pathlib.Path(__file__).parents[3]


def test_the_version_is_that_of_the_project():
    project = (ROOT / "CMakeLists.txt").read_text()
    assert re.search(r"project\(tidepool VERSION ([0-9.]+)", project)[1] == tidepool.__version__


def test_the_import_brings_no_framework(python):
    heavy = ("numpy", "pandas", "torch", "cupy", "rmm", "numba", "IPython")
    assert python(f"import sys, tidepool; print([name for name in {heavy} if name in sys.modules])") == "[]\n"


def test_the_import_loads_no_compiled_module(python):
    loaded = "print('tidepool._native' in sys.modules, end=' ')"
    script = f"import sys, tidepool, tidepool._c_api; {loaded}; dir(tidepool); {loaded}; tidepool.Error; {loaded}"
    assert python(script) == "False False True "


def test_the_import_loads_one_module_beside_typing(python):
    # Each further module makes programs start later.
    script = "import sys, importlib, typing; before = set(sys.modules); import tidepool; print(sorted(set(sys.modules) - before))"
    assert python(script) == "['tidepool']\n"


def test_metrics_are_those_of_pools_of_the_library(python):
    script = """import sys, tidepool
from tidepool._c_api import Pool
text = tidepool.metrics()
print("tidepool_live_bytes{" in text, "tidepool._native" in sys.modules)
pools = [Pool(device="host", budget="7MiB") for _ in range(40)]
address = pools[6].allocate(1000)
text = tidepool.metrics()
print(text.count("\\ntidepool_max_bytes{"), 'tidepool_live_bytes{pool="7",device="host"} 1024' in text)
"""
    assert python(script) == "False False\n40 True\n"


def test_a_module_that_needs_the_compiled_one_names_its_errors(python):
    assert python("from tidepool import _commands as its; print(its._native.Error.__module__)") == "tidepool\n"
    assert python("import tidepool.cudnn as its; print(its.InputError.__module__)") == "tidepool\n"


def test_integrations_need_no_compiled_module(python, tmp_path):
    package = tmp_path / "tidepool"
    package.mkdir()
    for source in (ROOT / "bindings/python/tidepool").glob("*.py"):
        (package / source.name).symlink_to(source)
    script = f"""import sys; sys.path.insert(0, {str(tmp_path)!r})
import tidepool._c_api, tidepool
for ask in (lambda: tidepool.read, lambda: tidepool.__version__, lambda: __import__("tidepool._graphs")):
    try:
        ask()
    except ImportError as error:
        print(error.name, error)
"""
    version = "%d.%d" % sys.version_info[:2]
    said = f"tidepool._native tidepool._native is not built for this Python {version} in {package}: install the wheel for it."
    assert [line.startswith(said) for line in python(script).splitlines()] == [True, True, True]


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'tidepool' has no attribute 'reed'"):
        tidepool.reed  # noqa: B018


def test_all_names_have_a_module():
    assert {name for name in tidepool.__all__ if hasattr(tidepool, name)} == set(tidepool.__all__) <= set(dir(tidepool))


def test_everything_public_is_documented():
    for name in tidepool.__all__:
        value = getattr(tidepool, name)
        if name.startswith("__"):
            continue
        assert inspect.getdoc(value), name
        if inspect.isclass(value) and not issubclass(value, Exception):
            for method, function in vars(value).items():
                assert method.startswith("_") or inspect.getdoc(function), f"{name}.{method}"


@pytest.mark.parametrize("name", ["Error", "InputError", "OutOfMemoryError", "DeadlineError"])
def test_errors_are_pickled(name):
    error = pickle.loads(pickle.dumps(getattr(tidepool, name)("text")))
    assert repr(error) == f"{name}('text')" and type(error).__module__ == "tidepool"


def test_types_are_there():
    folder = pathlib.Path(tidepool.__file__).parent
    assert (folder / "py.typed").exists()
    stub = (folder / "_native.pyi").read_text()
    assert "class Buffer" in stub and "class InputError(Error" in stub and "def run_command(arguments: Sequence[str]" in stub


def test_the_example_of_the_guide_runs(tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    done = subprocess.run([sys.executable, "examples/from_python.py"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "planned 840280064 1.0\nfits\n" in done.stdout
    assert sorted(os.listdir(tmp_path)) == ["examples", "step.tide", "vgg.schedule.json"]
