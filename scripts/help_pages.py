#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the man pages and the completions of shells, from the help texts of the command line, as the build does.

usage: help_pages.py TOOL FOLDER
"""
import pathlib
import re
import subprocess
import sys

MADE = "Made by scripts/help_pages.py from `tidepool --help`."
LICENCE = "SPDX-License-Identifier: Apache-2.0"
COLUMN = 26  # in which descriptions begin
GROUPS = ("Traces", "Training iterations", "This machine", "Programs", "Subjects")


class Option:
    """A row of an options section: its names, the name of its value or "", and its description."""

    def __init__(self, term, description):
        names, _, self.value = term.partition(" ")
        self.names = names.split(",")
        self.description = description

    @property
    def choices(self):
        """The values that are listed, where all are."""
        listed = re.search(r"\{([^}]*)\}", self.value)
        if listed:
            return listed[1].split(",")
        words = self.value.split("|")
        return words if len(words) > 1 and not any(word.isupper() for word in words) else []

    @property
    def takes_file(self):
        return "FILE" in self.value

    @property
    def summary(self):
        """The description up to its first stop, for a line of a menu."""
        return re.split(r"[;:(]|\. ", self.description, maxsplit=1)[0].strip()


class Page:
    """The help of a command: its name, summary, usage, sections of rows, examples and closing text."""

    def __init__(self, tool, command):
        self.command = command
        text = ask(tool, *command, "--help")
        if "--help-all" in text:
            text = ask(tool, *command, "--help-all")
        head, *rest = re.split(r"^(?=Usage: )", text, flags=re.M)
        self.summary = " ".join(head.split())
        self.usage, _, body = rest[0].partition("\n")
        self.usage = self.usage[len("Usage: "):]
        self.sections, self.closing = [], ""
        for part in re.split(r"\n(?=\S)", "\n" + body):
            title, _, lines = part.strip("\n").partition(":\n")
            if lines.startswith("  "):
                self.sections.append((title, lines))
            else:
                self.closing = f"{self.closing}\n{part}".strip("\n")

    @property
    def name(self):
        return " ".join(("tidepool", *self.command))

    def rows(self, title):
        return rows_of(dict(self.sections)[title])

    @property
    def options(self):
        """All options, of every section."""
        return [Option(*row) for title, lines in self.sections if title not in ("Arguments", "Examples")
                for row in rows_of(lines) if row[0].startswith("-")]

    @property
    def runs_a_program(self):
        return self.usage.endswith("-- COMMAND...")

    @property
    def commands(self):
        return [row[0] for title, lines in self.sections if title in GROUPS for row in rows_of(lines)]


def ask(tool, *arguments):
    return subprocess.run([tool, *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout


def rows_of(lines):
    """Returns the rows of a section as pairs of a term and its description."""
    rows = []
    for line in lines.splitlines():
        if line[:3].strip():
            # A term that reaches into the descriptions stands alone: names and at most one value.
            alone = len(line.split()) <= 2
            rows.append([line.strip(), ""] if alone else [line[2:COLUMN - 1].rstrip(), line[COLUMN:]])
        elif line.strip():
            rows[-1][1] += " " + line.strip()
    return [(term, description.strip()) for term, description in rows]


def pages_of(tool):
    """Returns the pages of the tool, its commands, and theirs."""
    pages = [Page(tool, ())]
    for page in pages:
        pages += [Page(tool, (*page.command, command)) for command in page.commands]
    return pages


def roff(text):
    """Returns a text as troff reads it."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return re.sub(r"^\.", r"\\&.", text, flags=re.M)


def man_page(page, version):
    lines = [f'.\\" {LICENCE}', f'.\\" {MADE}',
             f'.TH {page.name.replace(" ", "-").upper()} 1 "" "tidepool {version}" "tidepool"', ".SH NAME",
             f'{roff(page.name.replace(" ", "-"))} \\- {roff(page.summary)}', ".SH SYNOPSIS", f".B {roff(page.usage)}"]
    for title, text in page.sections:
        lines.append(f".SH {title.upper()}")
        if title == "Examples":
            lines += [".nf", *(roff(line[2:]) for line in text.splitlines()), ".fi"]
            continue
        for term, description in rows_of(text):
            lines += [".TP", f".B {roff(term)}", roff(description)]
    if page.closing:
        lines += [".SH NOTES", roff(" ".join(page.closing.split()))]
    others = [f"tidepool\\-{command}" for command in page.commands] if not page.command else ["tidepool"]
    return "\n".join([*lines, ".SH SEE ALSO", *(f".BR {other} (1)" for other in others)]) + "\n"


BASH = r"""_tidepool() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command="" words="" i
  # The value of --option=value is a word of its own, and so is the sign before it.
  if [[ $word == = ]]; then
    word=""
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${COMP_WORDS[i]} in
      --)
        # A program, then its files.
        ((i < COMP_CWORD - 1)) || mapfile -t COMPREPLY < <(compgen -c -- "$word")
        compopt -o default
        return ;;
      =) ((++i)) ;;
      -*) ;;
      *) case $command in "") command=${COMP_WORDS[i]} ;; @PARENTS@) command+=" ${COMP_WORDS[i]}"; break ;; esac ;;
    esac
  done
  case $before in
@VALUES@
  esac
  [[ -n $words ]] || case $command in
@WORDS@
  esac
  if [[ $word == -* || -z $command || $command == @(@PARENTS@) || $before == @(@CHOOSERS@) ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  else
    compopt -o default  # a file
  fi
}
complete -F _tidepool tidepool
"""


def bash(pages):
    words = [(" ".join(page.command), page.commands + [name for option in page.options for name in option.names]) for page in pages]
    choices = {name: option.choices for page in pages for option in page.options if option.choices for name in option.names}
    parents = [" ".join(page.command) for page in pages if page.commands and page.command]
    parts = {
        "@PARENTS@": "|".join(parents),
        "@VALUES@": "\n".join(f'    {name}) words="{" ".join(values)}" ;;' for name, values in sorted(choices.items())),
        "@WORDS@": "\n".join(f'    "{command}") words="{" ".join(offered)}" ;;' for command, offered in words),
        "@CHOOSERS@": "|".join(sorted(choices)),
    }
    return f"# {LICENCE}\n# {MADE}\n" + re.sub("|".join(parts), lambda match: parts[match[0]], BASH)


def zsh_text(text):
    return text.replace("'", "'\\''").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def zsh_command(name, description):
    """Returns a command for the list of them, which zsh reads as words in quotation marks within a word."""
    text = re.sub(r'(["$`\\])', r"\\\1", description).replace("'", "'\\''").replace(":", "\\:")
    return f'{name}\\:"{text}"'


def zsh_rest(page):
    """Returns the line of the other arguments of a command for _arguments."""
    if page.commands:
        commands = " ".join(zsh_command(*row) for title, text in page.sections if title in GROUPS for row in rows_of(text))
        return f"      '1:command:(({commands}))'"
    return "      '*:::program:_normal'" if page.runs_a_program else "      '*:file:_files'"


def zsh_option(option):
    """Returns the lines of an option for _arguments."""
    value = ""
    if option.choices:
        value = f":value:({' '.join(option.choices)})"
    elif option.value:
        value = ":file:_files" if option.takes_file else f":{zsh_text(option.value)}: "
    # The value may stand in the word of the name: --name=value, and -nvalue.
    joint = {name: "" if not value else "=" if name.startswith("--") else "+" for name in option.names}
    return [f"      '*{name}{joint[name]}[{zsh_text(option.summary)}]{value}' \\" for name in option.names]


def zsh(pages):
    lines = ["#compdef tidepool", f"# {LICENCE}", f"# {MADE}", "_tidepool() {", '  local command="${words[2]}"',
             '  (( CURRENT == 2 )) && command=""', "  case $command in"]
    for page in pages:
        if len(page.command) > 1:
            continue
        inner = [other for other in pages if page.command and other.command[:1] == page.command and len(other.command) == 2]
        lines.append(f"""    {page.command[0] if page.command else '""'})""")
        if page.command:
            lines += ["      shift words; (( CURRENT-- ))"]
        lines.append("      _arguments -S \\")
        options = [option for shown in (page, *inner) for option in shown.options]
        lines += dict.fromkeys(line for option in options for line in zsh_option(option))
        lines.append(zsh_rest(page))
        lines.append("      ;;")
    return "\n".join(lines + ["  esac", "}", '_tidepool "$@"', ""])


def fish_text(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_option(option, condition):
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
    value = ""
    if option.choices:
        value = f" -x -a {fish_text(' '.join(option.choices))}"
    elif option.value:
        value = " -r" if option.takes_file else " -x"
    return f"complete -c tidepool -n {fish_text(condition)} {names}{value} -d {fish_text(option.summary)}"


FISH = r"""function __tidepool_program_words
  # The end of the line that follows --, as a line of its own.
  set -l words (commandline -opc)
  set -l at (contains -i -- -- $words)
  set -e words[1..$at]
  complete -C (string join " " -- (string escape -- $words) (commandline -ct))
end
"""


def fish(pages):
    lines = [f"# {LICENCE}", f"# {MADE}", FISH.rstrip()]
    for page in pages:
        condition = "__fish_use_subcommand" if not page.command else "; and ".join(
            f"__fish_seen_subcommand_from {word}" for word in page.command)
        for title, text in page.sections:
            if title in GROUPS:
                lines += [f"complete -c tidepool -n {fish_text(condition)} -f -a {name} -d {fish_text(Option(name, said).summary)}"
                          for name, said in rows_of(text)]
        if page.runs_a_program:
            lines.append(f"complete -c tidepool -n {fish_text(condition + '; and contains -- -- (commandline -opc)')} -f -a '(__tidepool_program_words)'")
        lines += [fish_option(option, condition) for option in page.options]
    return "\n".join(lines) + "\n"


def files_of(tool):
    """Returns the contents of all files by their paths."""
    version = ask(tool, "--version").split()[1]
    pages = pages_of(tool)
    files = {f"man/man1/{page.name.replace(' ', '-')}.1": man_page(page, version) for page in pages}
    files["bash-completion/completions/tidepool"] = bash(pages)
    files["zsh/site-functions/_tidepool"] = zsh(pages)
    files["fish/vendor_completions.d/tidepool.fish"] = fish(pages)
    return files


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    for path, text in files_of(sys.argv[1]).items():
        file = pathlib.Path(sys.argv[2], path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
