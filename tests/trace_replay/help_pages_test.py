#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Man pages and completions: each command has a page, and bash completes words.
usage: help_pages_test.py TOOL SOURCE
"""
import atexit
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

tool, source = sys.argv[1], pathlib.Path(sys.argv[2])
share = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, share)
subprocess.run([sys.executable, source / "scripts/help_pages.py", tool, share], check=True)


def completed(*words):
    """Returns the words that bash offers for the last word."""
    line = " ".join(shlex.quote(word) for word in words)
    script = f"""source {shlex.quote(str(share / "bash-completion/completions/tidepool"))}
COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}
_tidepool
printf '%s\\n' "${{COMPREPLY[@]}}" """
    return subprocess.run(["bash", "--norc", "-c", script], stdout=subprocess.PIPE, text=True, check=True, cwd=source).stdout.split()


def expect(found, expected, name):
    if found != expected:
        sys.exit(f"{name}: {found}, expected {expected}")


expect(completed("tidepool", "si"), ["size", "simulate"], "commands")
expect(completed("tidepool", "size", "--pl"), ["--plan"], "options of a command")
expect(completed("tidepool", "plan", "--pl"), [], "options of another command")
expect(completed("tidepool", "tune", ""), ["compression", "-h", "--help"], "commands of a command")
expect(completed("tidepool", "tune", "compression", "--dens"), ["--density"], "options of its command")
expect(completed("tidepool", "simulate", "--memory-kind", "p"), ["paged", "pool"], "values of an option")
expect(completed("tidepool", "size", "READ"), ["README.md"], "files")
expect("python3" in completed("tidepool", "dryrun", "--", "python"), True, "programs after --")
overview = (share / "man/man1/tidepool.1").read_text()
for command in re.findall(r"^  ([a-z]+) {2,}", subprocess.run([tool, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout, re.M):
    expect(command in overview and (share / f"man/man1/tidepool-{command}.1").exists(), True, f"the page of {command}")
