#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares libtidepool_c.so and its header with the promise of docs/compatibility.md: the name of the library, its
functions and types (declarations.txt), and the layout of its structures and values (layout.txt, for machines of 64 bits).
Programs that were compiled earlier rely on each line of both files.
usage: interface_test.py LIBRARY PROGRAM_OF_LAYOUT SOURCE
"""
import difflib
import pathlib
import re
import subprocess
import sys

library, layout_program, source = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
here = source / "tests/bindings/c"
header = (source / "include/tidepool/c_api.h").read_text()
code = re.sub(r"/\*.*?\*/", " ", header, flags=re.S)
complaints = []


def compare(what, found, file, cure):
    """Complains where the lines `found` are not those of a file."""
    expected = (here / file).read_text().splitlines()
    lines = [line for line in difflib.unified_diff(expected, found, file, what, lineterm="", n=0) if not line.startswith("@@")]
    if lines:
        complaints.append("\n".join(lines) + f"\n{what} and tests/bindings/c/{file} differ: {cure}")


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def declarations():
    """Returns each declaration of the header as a line; a structure or an enumeration has a line for each field or value."""
    text = re.sub(r"#.*(?:\\\n.*)*|extern \"C\" \{|TIDEPOOL_C_(?:API|INT)", "", code)
    text = re.sub(r"\s+", " ", text).replace("( ", "(").strip()
    return re.sub(r"(?<=[;{]) |(?<=,) (?=TIDEPOOL_)| (?=\})", "\n", text).splitlines()[:-1]  # the last one ends extern "C"


functions = ("keep each declaration, because programs were compiled with it; new fields end their structure. List a new function in "
             "declarations.txt, in bindings/c/exports.map and in the table of docs/compatibility.md")
declared = declarations()
compare("the declarations of c_api.h", declared, "declarations.txt", functions)
names = sorted(re.search(r"(tidepool_\w+)\(", line)[1] for line in declared if re.match(r"(?!typedef).*\);", line))
exported = sorted(line.split()[-1] for line in output("nm", "-D", "--defined-only", library).splitlines())
if exported != names:
    complaints.append(f"the library and c_api.h differ in {sorted(set(exported) ^ set(names))}: {functions}")

laid_out = output(layout_program).splitlines()
compare("the compiled structures", laid_out, "layout.txt",
        "keep each line but the size of a structure with struct_size, and print new fields at the end of their structure")
printed = {line.split()[0] for line in laid_out}
for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\}", code, flags=re.S):
    for field in re.findall(r"(\w+);", body):
        if f"{name}.{field}" not in printed:
            complaints.append(f"layout.c does not print {name}.{field}: add a line FIELD({name}, {field})")
for value in re.findall(r"\b(TIDEPOOL_[A-Z_]+) = \d", code):
    if value not in printed:
        complaints.append(f"layout.c does not print {value}: add a line VALUE({value})")

dynamic = output("readelf", "-d", library)
if "soname: [libtidepool_c.so.0]" not in dynamic:
    complaints.append("the library is not called libtidepool_c.so.0: programs that were linked earlier no longer find it")

version = re.search(r"project\(tidepool VERSION (\d+)\.(\d+)\.(\d+)", (source / "CMakeLists.txt").read_text()).groups()
macros = tuple(re.search(rf"#define TIDEPOOL_VERSION_{part} (\d+)", header).group(1) for part in ("MAJOR", "MINOR", "PATCH"))
if macros != version:
    complaints.append(f"c_api.h has version {'.'.join(macros)} and CMakeLists.txt {'.'.join(version)}: make them equal")

page = (source / "docs/compatibility.md").read_text()
for function in exported:
    if f"`{function}`" not in page:
        complaints.append(f"docs/compatibility.md has no `{function}`: add it to the table of names")

if complaints:
    sys.exit("\n\n".join(complaints))
print(f"{len(exported)} functions, {len(laid_out)} lines of layout")
