#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the code in the pages with the examples that it comes from.

Each block of C++ in a Markdown file follows a line that names its source, a file and a region of the file:

    <!-- examples/use_a_pool.cc use-the-pool -->

A region lies between the comments `[use-the-pool]` and `[/use-the-pool]`. A source line may stand before blocks of other
languages too. With `--tool FILE` the test also runs the commands in blocks that follow `<!-- output -->`, and compares
their output; so it does with pictures that a page says how to draw, `tidepool report TRACE -o docs/images/PICTURE.svg` and
`scripts/..._picture.py RESULTS -o docs/images/PICTURE.svg`.
`--write` puts regions, outputs and pictures right.
usage: snippets_test.py ROOT [--tool FILE] [--write]
"""
import argparse
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap

BLOCK = re.compile(r"(?P<head>(?:<!-- (?:(?P<output>output)|(?P<file>\S+) (?P<region>[\w-]+)) -->\n)?)"
                   r"(?P<fence>```(?P<language>\w*)\n)(?P<code>.*?)^```$", re.M | re.S)
DRAWING = re.compile(r"`(tidepool report|scripts/\w+_picture\.py)\s(\S+)\s-o\s(docs/images/\S+\.svg)`")
MARK = r"^\s*(?://|#) \[{}\]\n"


class Fault(Exception):
    pass


def region_of(root, name, region):
    path = root / name
    if not path.is_file():
        raise Fault(f"no file {name}")
    begins, ends = (list(re.finditer(MARK.format(mark + re.escape(region)), path.read_text(encoding="utf-8"), re.M))
                    for mark in ("", "/"))
    if len(begins) != 1 or len(ends) != 1 or ends[0].start() < begins[0].end():
        raise Fault(f"no region '{region}' in {name}, expected one begin and one end")
    text = textwrap.dedent(begins[0].string[begins[0].end():ends[0].start()])
    return re.sub(r"^\s*(?://|#) \[/?[\w-]+\]\n", "", text, flags=re.M)


def output_of(root, code, tool):
    """Returns a block of commands, which begin with `$`, with the output that they have now."""
    commands = re.findall(r"^\$ (.*)$", code, re.M)
    answer = ""
    for command in commands:
        words = shlex.split(command)
        if words[0] != "tidepool":
            raise Fault(f"'{command}' cannot be run, expected a command of tidepool")
        done = subprocess.run([tool] + words[1:], cwd=root, capture_output=True, text=True, check=False)
        answer += f"$ {command}\n{done.stdout}{done.stderr}"
    return answer


def pages(root):
    folders = [path for path in root.iterdir() if path.is_dir() and path.name in ("docs", "examples", "bindings", "tests")]
    return sorted(list(root.glob("*.md")) + [page for folder in folders for page in folder.rglob("*.md")])


def code_of(root, block, tool):
    """Returns the code that a block has to hold."""
    if block["file"]:
        return region_of(root, block["file"], block["region"])
    if block["output"]:
        return output_of(root, block["code"], tool) if tool else block["code"]
    if block["language"] == "cpp":
        raise Fault("C++ without a source, expected '<!-- FILE REGION -->' on the line before")
    return block["code"]


def check_page(root, page, tool, faults):
    """Returns the page as it has to be, and adds each other fault to `faults`."""
    text = page.read_text(encoding="utf-8")

    def replace(block):
        try:
            code = code_of(root, block, tool)
        except Fault as fault:
            line = text.count("\n", 0, block.start("fence")) + 1
            faults.append(f"{page.relative_to(root)}:{line}: {fault}")
            return block[0]
        return f"{block['head']}{block['fence']}{code}```"

    return text, BLOCK.sub(replace, text)


def check_pictures(root, page, tool, is_writing):
    """Yields a fault for each picture of a page that the tool draws in another way now."""
    for command, source, picture in DRAWING.findall(page.read_text(encoding="utf-8")) if tool else []:
        with tempfile.TemporaryDirectory() as folder:
            drawn = pathlib.Path(folder) / "drawn.svg"
            program = [tool, "report"] if command == "tidepool report" else [sys.executable, command]
            subprocess.run([*program, source, "-o", drawn], cwd=root, capture_output=True, check=True)
            if drawn.read_bytes() == (root / picture).read_bytes():
                continue
            if is_writing:
                shutil.copyfile(drawn, root / picture)
            else:
                yield f"{picture}: another picture of {source} is drawn now; snippets_test.py --write puts it right"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--tool", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    root, tool = options.root.resolve(), options.tool and options.tool.resolve()
    faults, count = [], 0
    for page in pages(root):
        text, right = check_page(root, page, tool, faults)
        faults += check_pictures(root, page, tool, options.write)
        count += text.count("\n```cpp\n")
        if text == right:
            continue
        if options.write:
            page.write_text(right, encoding="utf-8")
        else:
            faults += difference(page.relative_to(root), text, right)
    print("\n".join(faults + [f"{count} blocks of C++, {len(faults)} faults"]))
    return 1 if faults else 0


def difference(name, text, right):
    """Returns the first line that differs."""
    pairs = zip((text + "\n").split("\n"), (right + "\n").split("\n"))
    line, (is_now, has_to_be) = next((i, pair) for i, pair in enumerate(pairs, 1) if pair[0] != pair[1])
    return [f"{name}:{line}: '{is_now}', expected '{has_to_be}'; snippets_test.py --write puts it right"]


if __name__ == "__main__":
    sys.exit(main())
