# SPDX-License-Identifier: Apache-2.0
"""Makes the package for conda by rattler-build, and runs its test. Empty packages stand in the place of those of conda-forge: the
compiler and the libraries are those of this machine.

usage: conda.py RECIPE FOLDER
"""
import pathlib
import re
import sys

import rattler_build

TOOL = rattler_build.ToolConfiguration(test_strategy="native")
# Programs and libraries of this machine are used, too.
HOST = rattler_build.EnvironmentIsolation.NONE


def empty_package(requirement, channel):
    """Makes an empty package that meets a requirement."""
    name, version = re.fullmatch(r"(\S+)(?: >=(\S+))?", requirement).groups()
    recipe = rattler_build.Stage0Recipe.from_dict({"package": {"name": name, "version": version or "1"}})
    recipe.run_build(output_dir=channel, channels=[])


def main(recipe, folder):
    channel = pathlib.Path(folder).resolve()
    made = rattler_build.Stage0Recipe.from_file(recipe)
    needed = made.render()[0].recipe.requirements.to_dict()
    for requirement in {*needed["build"], *needed["host"], *needed["run"]}:
        empty_package(requirement, channel)
    result, = made.run_build(output_dir=channel, channels=[channel.as_uri()], tool_config=TOOL, env_isolation=HOST)
    print(f"{result.name} {result.version}: {result.packages[0]}")


main(*sys.argv[1:])
