#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every example in the help of every command, and gives every option an empty value: help_examples_test.py TOOL SOURCE.

Examples name step.tide, snapshots and files under examples/, which the test provides; a snapshot has two devices.
"""
import os
import pickle
import re
import shlex
import subprocess
import sys
import tempfile

COMMAND_ROW = re.compile(r"^  ([a-z]+)  ", re.M)
OPTION_WITH_VALUE = re.compile(r"^  (?:-\w,)?(--[\w-]+)\S* [A-Z]", re.M)  # a flag has two spaces or more behind it
EXAMPLE = re.compile(r"^  (tidepool .*?)(?:  .*)?$", re.M)
# Options that make examples short: figures of measurements do not matter here.
SHORTER = {"tune": ["--bytes", "64KiB", "--max-threads", "1", "--force"], "run": ["--scale", "0.001"]}


DOWNLOADS = "pip:"  # examples that download packages are not run
# Commands that cannot do their work here, with the errors that come after all options were understood.
CANNOT = {"dryrun": re.compile("has no PyTorch|has no stand-in for the CUDA runtime")}


# The snapshots that examples name, with the bytes that are live in each.
SNAPSHOTS = {"snapshot": 100, "rank0": 100, "rank1": 1000, "before": 100, "after": 1000, "batch16": 512, "batch32": 1024}


def write_snapshot(path, size):
    def device(number):
        address = 4096 * (number + 1)
        block = {"size": (size + 511) // 512 * 512, "requested_size": size, "state": "active_allocated"}
        return ({"device": number, "address": address, "total_size": 2048, "blocks": [block]},
                [{"action": "segment_alloc", "addr": address, "size": 2048, "stream": 0},
                 {"action": "alloc", "addr": address, "size": size, "stream": 0}])

    devices = [device(0), device(1)]
    with open(path, "wb") as file:
        pickle.dump({"segments": [segment for segment, _ in devices], "device_traces": [events for _, events in devices]},
                    file, protocol=4)


def write_python_without_packages(path):
    """Writes the program `python` that examples name: it finds no PyTorch, also where this machine has one."""
    with open(path, "w") as file:
        file.write(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -S "$@"\n')
    os.chmod(path, 0o755)


def help_of(tool, command):
    return subprocess.run([tool, *command, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout


def commands_of(tool):
    """Returns every command as a list of words, with its subcommands."""
    commands, new = [], [[]]
    while new:
        command = new.pop()
        commands.append(command)
        text = help_of(tool, command)
        if f"Usage: {' '.join(['tidepool', *command])} COMMAND" in text:
            new += [[*command, name] for name in COMMAND_ROW.findall(text)]
    return commands


def examples_of(tool, command):
    text = help_of(tool, command)
    lines = EXAMPLE.findall(text[text.find("\nExamples:\n"):]) if "\nExamples:\n" in text else []
    return [line for line in lines if "COMMAND" not in line and DOWNLOADS not in line]


def taken_empty_values(tool, command):
    """Returns complaints about options that take an empty value, as an unset variable of a script gives it."""
    text = help_of(tool, command)
    usage = re.search(r"^Usage: (.*)", text, re.M).group(1)
    if " COMMAND" in usage:
        return []
    arguments = ["missing"] * len(re.findall(r" [A-Z]+", usage.split(" [OPTIONS]")[0]))
    complaints = []
    for option in OPTION_WITH_VALUE.findall(text):
        done = subprocess.run([tool, *command, *arguments, option, ""], capture_output=True, text=True)
        is_refused = done.returncode == 1 and done.stderr.startswith(f"tidepool: {option}: ")
        if is_refused == (option == "--pytorch-settings"):
            complaints.append(f"tidepool {' '.join(command)} {option} '': exit status {done.returncode}: {done.stderr}")
    return complaints


def main(tool, source):
    commands = commands_of(tool)
    assert len(commands) > 10, commands
    failures = [complaint for command in commands for complaint in taken_empty_values(tool, command)]
    count = 0
    for command in commands:
        examples = examples_of(tool, command)
        if not examples:
            failures.append(f"tidepool {' '.join(command)}: no examples in its help")
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(os.path.join(source, "examples"), os.path.join(folder, "examples"))
            for name, size in SNAPSHOTS.items():
                write_snapshot(os.path.join(folder, name + ".pickle"), size)
            write_python_without_packages(os.path.join(folder, "python"))
            environment = dict(os.environ, PATH=folder + os.pathsep + os.environ["PATH"])
            subprocess.run([tool, "convert", "examples/traces/vgg16-b4-sgd.rmm.csv.gz", "step.tide"], cwd=folder,
                           stderr=subprocess.DEVNULL, check=True)
            for line in examples:
                count += 1
                arguments = shlex.split(line)[1:]
                done = subprocess.run([tool, *arguments, *SHORTER.get(arguments[0], [])], cwd=folder, env=environment,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                cannot = arguments[0] in CANNOT and CANNOT[arguments[0]].search(done.stderr)
                if done.returncode != 0 and not cannot:
                    failures.append(f"{line}: exit status {done.returncode}: {done.stderr}")
    print("\n".join(failures) or f"{count} examples run")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])))
