#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Man pages and completions: each command has a page, and bash completes words.
usage: help_pages_test.py TOOL SOURCE
"""
import atexit
import os
import pathlib
import pty
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
compopt() {{ :; }}  # bash has it within completions alone
COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}
_tidepool
printf '%s\\n' "${{COMPREPLY[@]}}" """
    return subprocess.run(["bash", "--norc", "-c", script], stdout=subprocess.PIPE, text=True, check=True, cwd=source).stdout.split()


class Terminal:
    """A bash in a terminal, in a folder of its own."""

    def __init__(self):
        self.folder = share / "work"
        self.folder.mkdir()
        (self.folder / "inputrc").write_text("set bell-style none\nset show-all-if-ambiguous off\n")

    def arguments(self, typed):
        """Returns the arguments of the line that bash makes of keys."""
        keys = f"source {share}/bash-completion/completions/tidepool\n{typed}\x01printf '<%s>\\n' 'typed' \nexit\n\x04\x04"  # ends, even within a quotation
        process, terminal = pty.fork()
        if process == 0:
            os.chdir(self.folder)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], {**os.environ, "INPUTRC": "inputrc", "TERM": "dumb", "PS1": ""})
        os.write(terminal, keys.encode())
        output = b""
        try:
            while part := os.read(terminal, 4096):
                output += part
        except OSError:  # the shell has ended
            pass
        os.waitpid(process, 0)
        os.close(terminal)
        *_, answer = output.decode().replace("\r", "").partition("\n<typed>\n")
        return re.findall(r"^<(.*)>$", answer, re.M)


def expect(found, expected, name):
    if found != expected:
        sys.exit(f"{name}: {found}, expected {expected}")


expect(completed("tidepool", "si"), ["size", "simulate"], "commands")
expect(completed("tidepool", "size", "--pl"), ["--plan"], "options of a command")
expect(completed("tidepool", "plan", "--pl"), [], "options of another command")
expect(completed("tidepool", "tune", ""), ["compression", "-h", "--help"], "commands of a command")
expect(completed("tidepool", "tune", "compression", "--dens"), ["--density"], "options of its command")
expect(completed("tidepool", "simulate", "--memory-kind", "p"), ["paged", "pool"], "values of an option")
expect(completed("tidepool", "simulate", "--memory-kind", "=", "p"), ["paged", "pool"], "values of an option after =")
expect(completed("tidepool", "simulate", "--memory-kind", "="), ["fixed", "paged", "pool"], "all values of an option after =")
expect(completed("tidepool", "tune", "--density", "=", "0.5", "comp"), ["compression"], "commands after a value")
terminal = Terminal()
(terminal.folder / "dryrun").mkdir()
(terminal.folder / "folder").mkdir()
(terminal.folder / "my snap.pickle").touch()
expect(terminal.arguments("tidepool dry\t"), ["tidepool", "dryrun"], "a command that is a folder's name")
expect(terminal.arguments("tidepool size my\t"), ["tidepool", "size", "my snap.pickle"], "a file with a blank in its name")
expect(terminal.arguments("tidepool size 'my s\t"), ["tidepool", "size", "my snap.pickle"], "a quoted name")
expect(terminal.arguments("tidepool size fol\t"), ["tidepool", "size", "folder/"], "a folder")
expect(terminal.arguments("tidepool dryrun -- tr my\t"), ["tidepool", "dryrun", "--", "tr", "my snap.pickle"], "files of a program")
expect("python3" in completed("tidepool", "dryrun", "--", "python"), True, "programs after --")

# zsh reads the commands as words within a word.
zsh = (share / "zsh/site-functions/_tidepool").read_text()
line = next(line for line in zsh.splitlines() if "'1:command:((" in line)
(spec,) = shlex.split(line.rstrip("\\"))
shown = dict(word.replace("\\:", ":").split(":", 1) for word in shlex.split(spec.removeprefix("1:command:((").removesuffix("))")))
summary = "of '-', the text of PyTorch's OutOfMemoryError on standard input, whether a setting can help"
expect(shown["info"].endswith(summary), True, f"zsh's description of info, {shown['info']}")
dryrun = zsh.partition("\n    dryrun)\n")[2].partition(";;")[0]
expect("'*:::program:_normal'" in dryrun, True, "zsh's programs after --")

overview = (share / "man/man1/tidepool.1").read_text()
for command in re.findall(r"^  ([a-z]+) {2,}", subprocess.run([tool, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout, re.M):
    expect(command in overview and (share / f"man/man1/tidepool-{command}.1").exists(), True, f"the page of {command}")
