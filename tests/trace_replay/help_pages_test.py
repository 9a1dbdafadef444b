#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Man pages and completions: each command has a page, and bash, zsh and fish complete words. Those that are not
installed are left out.
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


SHELLS = {  # their programs, and their start with the completions
    "bash": (["bash", "--norc", "--noprofile", "-i"], f"source {share}/bash-completion/completions/tidepool\n"),
    "zsh": (["zsh", "-f", "-i"], f"PS1=; fpath=({share}/zsh/site-functions $fpath); autoload -U compinit; compinit -u -D\n"),
}


class Terminal:
    """A shell in a terminal, in a folder with files."""

    def __init__(self, shell):
        self.program, self.start = SHELLS[shell]

    def arguments(self, typed):
        """Returns the arguments of the line that the shell makes of keys."""
        keys = f"{self.start}{typed}\x01printf '<%s>\\n' 'typed' \nexit\n\x04\x04"  # ends, even within a quotation
        process, terminal = pty.fork()
        if process == 0:
            os.chdir(work)
            os.execvpe(self.program[0], self.program, {**os.environ, "INPUTRC": "inputrc", "TERM": "dumb", "PS1": ""})
        os.write(terminal, keys.encode())
        output = b""
        try:
            while part := os.read(terminal, 4096):
                output += part
        except OSError:  # the shell has ended
            pass
        os.waitpid(process, 0)
        os.close(terminal)
        *_, answer = output.decode().replace("\r", "").rpartition("\n<typed>\n")
        return re.findall(r"^<(.*)>$", answer, re.M)

    def expect(self, typed, expected, name):
        expect(self.arguments(f"tidepool {typed}"), ["tidepool", *expected], f"{self.program[0]}, {name}")


def offered_by_fish(line):
    """Returns the words that fish offers for the end of a line."""
    script = f"source {share}/fish/vendor_completions.d/tidepool.fish; complete -C {shlex.quote(line)}"
    found = subprocess.run(["fish", "--no-config", "-c", script], stdout=subprocess.PIPE, text=True, check=True, cwd=work).stdout
    return [row.partition("\t")[0] for row in found.splitlines()]


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
expect("python3" in completed("tidepool", "dryrun", "--", "python"), True, "programs after --")

work = share / "work"
(work / "dryrun").mkdir(parents=True)
(work / "folder").mkdir()
(work / "my snap.pickle").touch()
(work / "inputrc").write_text("set bell-style none\nset show-all-if-ambiguous off\n")
bash = Terminal("bash")
bash.expect("dry\t", ["dryrun"], "a command that is a folder's name")
bash.expect("size my\t", ["size", "my snap.pickle"], "a file with a blank in its name")
bash.expect("size 'my s\t", ["size", "my snap.pickle"], "a quoted name")
bash.expect("size fol\t", ["size", "folder/"], "a folder")
bash.expect("dryrun -- tr my\t", ["dryrun", "--", "tr", "my snap.pickle"], "files of a program")

if shutil.which("zsh"):
    zsh = Terminal("zsh")
    zsh.expect("dry\t", ["dryrun"], "a command that is a folder's name")
    zsh.expect("size --pl\t", ["size", "--plan"], "options of a command")
    zsh.expect("plan --pl\t", ["plan", "--pl"], "options of another command")
    zsh.expect("tune comp\t", ["tune", "compression"], "commands of a command")
    zsh.expect("tune compression --dens\t", ["tune", "compression", "--density"], "options of its command")
    zsh.expect("simulate --memory-kind po\t", ["simulate", "--memory-kind", "pool"], "values of an option")
    zsh.expect("simulate --memory-kind=po\t", ["simulate", "--memory-kind=pool"], "values of an option after =")
    zsh.expect("size --json my\t", ["size", "--json", "my snap.pickle"], "a file with a blank in its name")
    zsh.expect("dryrun --gpu=t4 -- python3 m\t", ["dryrun", "--gpu=t4", "--", "python3", "my snap.pickle"], "files of a program")
else:
    print("zsh is not installed: its completion was not tried")

if shutil.which("fish"):
    for line, expected, name in (
            ("si", ["simulate", "size"], "commands"), ("size --pl", ["--plan"], "options of a command"),
            ("plan --pl", [], "options of another command"), ("tune ", ["compression"], "commands of a command"),
            ("tune compression --dens", ["--density"], "options of its command"),
            ("simulate --memory-kind p", ["paged", "pool"], "values of an option"),
            ("simulate --memory-kind=p", ["--memory-kind=paged", "--memory-kind=pool"], "values of an option after ="),
            ("dry", ["dryrun"], "a command that is a folder's name"), ("size m", ["my snap.pickle"], "a file with a blank in its name"),
            ("dryrun --gpu t4 -- python3 m", ["my snap.pickle"], "files of a program"),
            ("dryrun -- tidepool size --pl", ["--plan"], "options of a program")):
        expect(offered_by_fish(f"tidepool {line}"), expected, f"fish, {name}")
    expect("python3" in offered_by_fish("tidepool dryrun -- python"), True, "fish, programs after --")
else:
    print("fish is not installed: its completion was not tried")

# zsh reads the commands as words within a word.
text = (share / "zsh/site-functions/_tidepool").read_text()
line = next(line for line in text.splitlines() if "'1:command:((" in line)
(spec,) = shlex.split(line.rstrip("\\"))
shown = dict(word.replace("\\:", ":").split(":", 1) for word in shlex.split(spec.removeprefix("1:command:((").removesuffix("))")))
summary = "for '-', whether a setting helps against the OutOfMemoryError of PyTorch on standard input"
expect(shown["info"].endswith(summary), True, f"zsh's description of info, {shown['info']}")
dryrun = text.partition("\n    dryrun)\n")[2].partition(";;")[0]
expect("'*:::program:_normal'" in dryrun, True, "zsh's programs after --")

overview = (share / "man/man1/tidepool.1").read_text()
for command in re.findall(r"^  ([a-z]+) {2,}", subprocess.run([tool, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout, re.M):
    expect(command in overview and (share / f"man/man1/tidepool-{command}.1").exists(), True, f"the page of {command}")
