#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collects the pages of the site: the pages of the sources at their own paths, so that links between them stay as they are,
the files to which they lead, and a page for each public header and each module of Python.

pages.py SOURCES FOLDER
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests" / "house"))
import links_test  # noqa: E402

MODULES = {  # and their uses
    "tidepool": "traces, sizes, plans, graphs, schedules, pools on the host",
    "tidepool.torch": "pools, graphs, regions and budgets in PyTorch",
    "tidepool.memory_saver": "regions in the place of torch_memory_saver, and vLLM's levels of sleep",
    "tidepool.pytest": "golden values of memory in tests",
    "tidepool.cupy": "pools in CuPy",
    "tidepool.numba": "pools in Numba",
    "tidepool.rmm": "pools in RMM",
    "tidepool.cuda_core": "pools in cuda.core",
    "tidepool.cudnn": "micro-batches under cuDNN",
    "tidepool.mcp": "questions of agents",
}
SHADOWED = {"tidepool": "tidepool._dryrun.dryrun"}  # functions whose names are those of folders, too
# Installed headers, by their path below the folder that programs include from.
HEADER = re.compile(r"(?:bindings/\w+/)?include/(.*\.h)")
LANGUAGES = {".cmake": "cmake", ".sh": "bash", ".py": "python", ".cc": "cpp", ".h": "cpp", ".c": "c"}


def purpose(header):
    """Returns the first sentence of the comment at the top of a header, below the licence."""
    lines = [re.match(r"(?://|/\*| \*|  )\s?(.*?)\s*(?:\*/)?$", line) for line in header.split("\n")[1:]]
    words = []
    for line in lines:
        if line is None or (words and not line[1]):
            break
        words.append(line[1])
    return re.split(r"(?<=\.)\s", " ".join(words).strip())[0].rstrip(".").replace("|", "\\|")


def links_of(page):
    for _, target in links_test.links(page):
        if not links_test.OUTSIDE.match(target):
            yield target.partition("#")[0]


def page_of_code(name, text):
    language = LANGUAGES.get(pathlib.Path(name).suffix, "text")
    return f"# {name}\n\n~~~{language}\n{text.rstrip()}\n~~~\n"


def write(place, text):
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


def files_of(sources):
    """Returns the names of the files that git tracks, or, without git, of all files, as in an unpacked source distribution."""
    if (sources / ".git").exists():
        return set(subprocess.run(["git", "-C", str(sources), "ls-files"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines())
    names = set()
    for folder, folders, files in os.walk(sources):
        folders[:] = [name for name in folders if not re.match(r"build(-|$)|__pycache__$", name)]
        names.update(os.path.relpath(os.path.join(folder, name), sources) for name in files)
    return names


class Pages:
    def __init__(self, sources, folder):
        self.sources, self.folder, self.names = sources, folder, files_of(sources)

    def target(self, page, link):
        """Makes a page of the file or folder that a page links to: its text, or the names in it. Returns the link to that page; pages and
        pictures keep theirs."""
        name = os.path.normpath(os.path.join(os.path.dirname(page), link))
        if (self.sources / name).is_dir():
            files = sorted(one for one in self.names if one.startswith(name + "/"))
            write(self.folder / f"{name}/files.md", f"# {name}\n\n" + "".join(f"- `{one}`\n" for one in files))
            return link.rstrip("/") + "/files.md"
        if name.endswith(".md") or pathlib.Path(name).suffix in (".svg", ".png"):
            return link
        try:
            text = (self.sources / name).read_text()
        except UnicodeDecodeError:
            shutil.copy(self.sources / name, self.folder / name)
            return link
        write(self.folder / f"{name}.md", page_of_code(name, text))
        return link + ".md"

    def copy_page(self, name):
        text = (self.sources / name).read_text()
        changed = {link: self.target(name, link) for link in set(links_of(text)) if link}
        for link, to in changed.items():
            if link != to:
                text = re.sub(rf"\]\({re.escape(link)}(?=[)#])", f"]({to}", text)
        write(self.folder / name, text)

    def collect(self):
        for name in sorted(self.names):
            if name.endswith(".md"):
                self.copy_page(name)
            elif name.startswith("docs/images/"):
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self.sources / name, self.folder / name)
        self.reference()

    def reference(self):
        headers = sorted(filter(HEADER.fullmatch, self.names), key=lambda name: HEADER.fullmatch(name)[1])
        rows = ["# Reference", "", "## C and C++", "", "| header | |", "|---|---|"]
        for name in headers:
            text = (self.sources / name).read_text()
            write(self.folder / f"{name}.md", page_of_code(name, text))
            rows.append(f"| [{HEADER.fullmatch(name)[1]}]({name}.md) | {purpose(text)} |")
        rows += ["", "## Python", "", "| module | |", "|---|---|"]
        for module, use in MODULES.items():
            shadowed = f"\n::: {SHADOWED[module]}\n    options: {{show_root_heading: true, show_root_full_path: false}}\n" if module in SHADOWED else ""
            write(self.folder / f"python/{module}.md", f"# {module}\n\n::: {module}\n{shadowed}")
            rows.append(f"| [{module}](python/{module}.md) | {use} |")
        write(self.folder / "reference.md", "\n".join(rows) + "\n")


if __name__ == "__main__":
    Pages(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])).collect()
