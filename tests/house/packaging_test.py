#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares packaging/ with CMake and the sources: the version in recipes, the C header, the changelog and tags of this commit; in recipes the options that they
set, and the packages that a build needs; that the recipe for Spack runs; for the reader in the browser the list of its sources, and the functions of std::ranges that it lacks. No text asks pip for the name of the package alone: on PyPI it is that of another project.
usage: packaging_test.py SOURCE
"""
import ast
import json
import pathlib
import re
import subprocess
import sys
import types

root = pathlib.Path(sys.argv[1])
packaging = root / "packaging"
RECIPES = {name: packaging / name for name in (
    "conan/conanfile.py", "vcpkg/tidepool/vcpkg.json", "vcpkg/tidepool/portfile.cmake", "spack/packages/tidepool/package.py",
    "conda/recipe.yaml")}
texts = {name: path.read_text() for name, path in RECIPES.items()}
build = "\n".join(path.read_text() for path in [root / "CMakeLists.txt", *sorted((root / "cmake").glob("*.cmake")),
                                                *sorted((root / "trace_replay").glob("CMakeLists.txt"))])
complaints = []

version = re.search(r"project\(tidepool VERSION ([0-9.]+)", build)[1]
macros = re.findall(r"define TIDEPOOL_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", (root / "include/tidepool/c_api.h").read_text())
for name, found in (("include/tidepool/c_api.h", ".".join(macros)),
                    ("CHANGELOG.md", re.search(r"^## (\S+) \(", (root / "CHANGELOG.md").read_text(), re.M)[1]),
                    ("vcpkg/tidepool/vcpkg.json", json.loads(texts["vcpkg/tidepool/vcpkg.json"])["version"]),
                    ("conda/recipe.yaml", re.search(r'version: "([^"]*)"', texts["conda/recipe.yaml"])[1])):
    if found != version:
        complaints.append(f"{name}: version {found}, expected {version}, that of CMakeLists.txt")

tags = subprocess.run(["git", "-C", root, "tag", "--points-at", "HEAD", "v*"], stdout=subprocess.PIPE, text=True, check=False).stdout.split()
complaints += [f"tag {tag} of a commit of version {version}" for tag in tags if tag != f"v{version}"]

known = set(re.findall(r"(?:option\(|set\()(TIDEPOOL_\w+)", build))
for name, text in texts.items():
    parts = re.findall(r"TIDEPOOL_[A-Z]+", text) + [
        f"TIDEPOOL_{part}" for group in re.findall(r'in \(("[A-Z]+"(?:, "[A-Z]+")*)\)', text) for part in re.findall("[A-Z]+", group)]
    complaints += [f"{name}: no option {part} in CMake" for part in sorted(set(parts) - known)]

# The names in the collections of the packages that find_package looks for.
PACKAGES = {"absl": "abseil|libabseil|abseil-cpp", "ZLIB": "zlib|zlib-api", "RapidJSON": "rapidjson", "SQLite3": "sqlite3?",
            "CLI11": "cli11", "nlohmann_json": "nlohmann[-_]json"}
CHOSEN = {"CUDAToolkit", "Threads", "Python", "Python3", "PkgConfig", "nanobind", "GTest"}  # optional, of the system, or of tests
needed = set(re.findall(r"^ *find_package\((\w+)", build, re.M)) - CHOSEN
complaints += [f"CMake looks for {package}: name it in the recipes and in this test" for package in sorted(needed - set(PACKAGES))]
for name, text in texts.items():
    if name.endswith("portfile.cmake"):
        continue  # vcpkg.json has them
    complaints += [f"{name}: no {package}, which CMake looks for" for package, names in PACKAGES.items()
                   if package in needed and not re.search(rf"(?<![\w-])(?:{names})(?![\w-])", text)]

ast.parse(texts["conan/conanfile.py"])


def options_of_spack(recipe, of_module):
    """Runs the recipe for Spack, and returns the options that it gives CMake. The class CMakePackage is a name `of_module` spack.package, as
    before Spack 1.0, or Spack puts it into the recipe."""
    variants = []

    class CMakePackage:
        def define(self, option, _):
            return option

        def define_from_variant(self, option, name):
            return option if name in variants else f"{option} by no variant {name}"

    package = types.ModuleType("spack.package")
    vars(package).update(dict.fromkeys(("depends_on", "license", "version"), lambda *_, **__: None), variant=lambda name, **_: variants.append(name))
    names = {}
    (vars(package) if of_module else names)["CMakePackage"] = CMakePackage
    sys.modules.update({"spack": types.ModuleType("spack"), "spack.package": package})
    exec(recipe, names)
    return names["Tidepool"]().cmake_args()


for of_module in (True, False):
    try:
        found = options_of_spack(texts["spack/packages/tidepool/package.py"], of_module)
    except ImportError as error:
        found = [str(error)]
    complaints += [f"spack/packages/tidepool/package.py: {option}" for option in found if option not in known | {"BUILD_SHARED_LIBS"}]
copied = re.search(r"for pattern in \((.*?)\):", texts["conan/conanfile.py"], re.S)[1]
for pattern in re.findall(r'"([^"]*)"', copied):
    if not (root / pattern.rstrip("/*")).exists():
        complaints.append(f"conan/conanfile.py: no {pattern} in the sources")

# The reader links all that its sources include.
tool = root / "trace_replay"
listed = re.search(r"foreach\(name (.*?)\)", (packaging / "browser/CMakeLists.txt").read_text(), re.S)[1].split()
files = [*(tool / f"{name}.cc" for name in listed), *tool.glob("report/*.cc")]
for file in files:  # grows by the headers
    for name in re.findall(r'#include "trace_replay/([\w/]+)\.h"', file.read_text()):
        files += [header for header in (tool / f"{name}.h",) if header.exists() and header not in files]
        if (tool / f"{name}.cc").exists() and name not in listed and not name.startswith("report/"):
            complaints.append(f"{file.relative_to(root)} needs trace_replay/{name}.cc, which packaging/browser/CMakeLists.txt does not list")

# Its standard library lacks most of std::ranges.
supplied = set(re.findall(r"(\w+)\(Range&& range", (packaging / "browser/standard/cpp20.h").read_text()))
for file in [*files, *(path for room in ("memory/plan", "trace") for path in (root / "lib" / room).rglob("*.cc"))]:
    complaints += [f"{file.relative_to(root)} needs std::ranges::{name}, which packaging/browser/standard/cpp20.h does not supply"
                   for name in sorted(set(re.findall(r"std::ranges::(\w+)\(", file.read_text())) - supplied)]

found = subprocess.run(["git", "-C", root, "grep", "-nIE", r"pip install (-\S+ )*['\"]?tidepool([^-_[:alnum:]]|$)"], stdout=subprocess.PIPE, text=True, check=False)
for line in found.stdout.splitlines():
    place = ":".join(line.split(":")[:2])
    complaints.append(f"{place}: on PyPI tidepool is another project, expected the file of a wheel: ./tidepool-*.whl")

print("\n".join(complaints + [f"{len(RECIPES)} recipes, {len(complaints)} faults"]))
sys.exit(1 if complaints else 0)
