# SPDX-License-Identifier: Apache-2.0
"""Commands that start another one: env, nice, nohup, and a shell with one simple command."""
import os
import re
import shlex

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
SHELLS = ("sh", "bash", "dash", "zsh")
OF_SHELLS = re.compile(r"[;&|<>()$`*?\\\n]")  # characters that more than one simple command may have
WITH_VALUE = {"env": ("-u", "-C"), "nice": ("-n",), "nohup": ()}  # options that a word follows
ALONE = {"env": ("-i", "-"), "nice": (), "nohup": ()}  # options that none follows


def unwrapped(command):
    """Returns the words of wrappers, which may stand before another command, and the command that they start."""
    prefix = []
    while command:
        words = words_of_shell(command)
        count = 0 if words else words_of_wrapper(command)
        if not words and (count is None or not command[count:]):
            break
        prefix, command = ([*prefix, *command[:count]], words or command[count:])
    return prefix, command


def words_of_shell(command):
    """Returns the words of `sh -c "WORDS"`, or None for another command."""
    if os.path.basename(command[0]) not in SHELLS or command[1:2] != ["-c"] or len(command) != 3 or OF_SHELLS.search(command[2]):
        return None
    try:
        words = shlex.split(command[2])
    except ValueError:  # a quote without its end
        return None
    words = words[1:] if words[:1] == ["exec"] else words
    return ["env", *words] if words and ASSIGNMENT.match(words[0]) else words or None


def words_of_wrapper(command):
    """Returns how many words belong to a wrapper, or None for another command, or an option that is not known."""
    name = os.path.basename(command[0])
    if name not in WITH_VALUE:
        return None
    at = 1
    while command[at:]:
        word = command[at]
        if name == "env" and ASSIGNMENT.match(word):
            at += 1
        elif word in WITH_VALUE[name]:
            at += 2
        elif word in ALONE[name] or word.startswith("--") and "=" in word or name == "nice" and re.fullmatch(r"-n?-?[0-9]+", word):
            at += 1
        else:
            return None if word.startswith("-") else at
    return at
