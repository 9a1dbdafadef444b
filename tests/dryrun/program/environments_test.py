#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Environments of comparisons, and the lines of a comparison, without PyTorch and without a network.

environments_test.py SOURCE
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import zipfile

SOURCE = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(SOURCE / "dryrun" / "program"))

from tidepool_dryrun import compare, environments, main  # noqa: E402
from tidepool_dryrun.errors import DryRunError  # noqa: E402


def wheel(folder, version):
    """Writes a package of one module that knows its version."""
    path = folder / f"tide_demo-{version}-py3-none-any.whl"
    info = f"tide_demo-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("tide_demo.py", f"version = {version!r}\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tide_demo\nVersion: {version}\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    return path


def rank(**fields):
    return {"rank": 0, "device": 0, "steps": 3, "out_of_memory": None, "fits": True, "peak_reserved_bytes": 0, "other_bytes": 0, "peak_live_bytes": 0,
            "snapshot": "a.pickle", "top": [], **fields}


class EnvironmentsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        cache = unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"))
        cache.start()
        self.addCleanup(cache.stop)

    def test_pip_makes_an_environment_on_top_of_another(self):
        base = self.folder / "base"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(base)], check=True)
        packages = next(base.glob("lib/python3*/site-packages"))
        (packages / "only_base.py").write_text("")
        (packages / "tide_demo.py").write_text("version = 'of the base'\n")
        command = [str(base / "bin" / "python")]
        found = environments.find(f"pip:--no-index {wheel(self.folder, '1.0')}", command)
        line = "import only_base, tide_demo; print(tide_demo.version)"
        done = subprocess.run([*found.command(command), "-c", line], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "1.0\n")
        # It is kept, and another version is another environment.
        with unittest.mock.patch.object(environments, "make", side_effect=AssertionError):
            self.assertEqual(environments.find(f"pip:--no-index {self.folder / 'tide_demo-1.0-py3-none-any.whl'}", command).python, found.python)
        with unittest.mock.patch.object(environments, "make"):
            other = environments.find(f"pip:--no-index {wheel(self.folder, '2.0')}", command)
        self.assertNotEqual(other.python, found.python)

    def test_what_pip_refuses(self):
        with self.assertRaisesRegex(DryRunError, r"pip:--no-index tide_demo==9: pip failed: .*tide_demo==9"):
            environments.find("pip:--no-index tide_demo==9", [sys.executable])
        self.assertEqual([path for path in (self.folder / "cache" / "tidepool" / "dryrun" / "environments").iterdir() if path.is_dir()], [])
        for name in ("pip:", "pip:--no-index"):
            with self.assertRaisesRegex(DryRunError, "no package, expected one such as pip:torch==2.10.0"):
                environments.find(name, [sys.executable])
        with self.assertRaisesRegex(DryRunError, "pip:'a: No closing quotation"):
            environments.find("pip:'a", [sys.executable])

    def test_names_of_environments_that_are_there(self):
        programs = self.folder / "bin"
        programs.mkdir()
        for name in ("python", "tool"):
            (programs / name).write_text("#!/nowhere/python\n")
            (programs / name).chmod(0o755)
        for name in (self.folder, programs / "python"):
            found = environments.find(str(name), [sys.executable])
            self.assertEqual(found.command([sys.executable, "a.py"]), [str(programs / "python"), "a.py"])
        self.assertEqual(found.command([str(programs / "tool"), "-x"]), [str(programs / "tool"), "-x"])
        self.assertEqual(found.command(["/bin/sh", "-c", "x"]), ["/bin/sh", "-c", "x"])
        own = self.folder / "train.py"  # of the user: its interpreter is that of PATH
        own.write_text("#!/usr/bin/env python3\n")
        own.chmod(0o755)
        self.assertEqual(found.command([str(own)]), [str(own)])
        own.write_text("#!/usr/bin/python3\n")
        with unittest.mock.patch.object(environments.target, "interpreter_of", return_value="/usr/bin/python3"), \
                self.assertRaisesRegex(DryRunError, "has no program train.py in .*/bin, expected `python ...` as the command"):
            found.command([str(own)])
        for name in ("nowhere", str(self.folder / "cache"), str(programs)):
            with self.assertRaisesRegex(DryRunError, "no environment, expected pip:PACKAGE==VERSION, an interpreter, or a folder"):
                environments.find(name, [sys.executable])


class CompareTest(unittest.TestCase):
    def test_options_of_one_run_are_refused(self):
        for name in ("fit", "snapshot", "report", "graph", "front", "by"):
            with self.assertRaisesRegex(ValueError, f"--compare with --{name}"):
                compare.check(main.Options(command=["a"], stand_in="", **{name: "x"}))
        compare.check(main.Options(command=["a"], stand_in=""))

    def test_an_interrupt_ends_the_comparison(self):
        ran = []

        def make_run(options):
            return unittest.mock.Mock(answer=lambda command, folder: ran.append(command) or {"interrupted": True, "ranks": []})

        with self.assertRaises(KeyboardInterrupt):
            compare.run(make_run, main.Options(command=[sys.executable], stand_in="", compare=(sys.executable, sys.executable)))
        self.assertEqual(len(ran), 1)

    def test_lines_that_grew_come_first(self):
        class Tool:
            def ask(self, *arguments):
                assert arguments == ("diff", "a.pickle", "b.pickle", "--device", 0), arguments
                return {"by_frame": [{"frame": "a.py:1 f", "before": 5 << 20, "after": 5 << 20}, {"frame": "a.py:2 f", "before": 4 << 20, "after": 1 << 20},
                                     {"frame": "a.py:3 f", "before": 0, "after": 3 << 20}], "by_category": []}

        below = [{"frame": "m.py:1 g", "bytes": 1}]
        found = compare.difference_of(Tool(), [rank(), rank(snapshot="b.pickle", top=[{"frame": "a.py:3 f", "bytes": 1, "below": below}])])
        self.assertEqual([(line["frame"], line["below"]) for line in found["lines"]], [("a.py:3 f", below), ("a.py:2 f", [])])
        answers = [{"environment": name, "torch": "2.9", "gpu": "GPU", "peak_live_bytes": peak << 20, "peak_reserved_bytes": 20 << 20, "fits": fits, "so_far": False}
                   for name, peak, fits in (("one", 10, True), ("other", 12, False))]
        self.assertEqual(compare.lines({"compared": answers, **found}, "a.py"), [
            "a.py compared, no GPU used (GPU assumed)",
            "  before  one, torch 2.9",
            "  after   other, torch 2.9",
            "                                   before     after  change",
            "  peak live                      10.0 MiB  12.0 MiB  +2.0 MiB (+20.0 %)",
            "  PyTorch reserves               20.0 MiB  20.0 MiB",
            "  fits                                yes        no",
            "  by line",
            "    a.py:3 f (most in m.py:1 g)   0 bytes   3.0 MiB  +3.0 MiB",
            "    a.py:2 f                      4.0 MiB   1.0 MiB  -3.0 MiB (-75.0 %)"])


if __name__ == "__main__":
    unittest.main()
