# SPDX-License-Identifier: Apache-2.0
"""Explains why a run has no answer."""
import pathlib
import shutil
import signal


def reason(folder, finished):
    """Returns a sentence about a run of which no process wrote its answer."""
    folder = pathlib.Path(folder)
    room = text_of(folder, "room")
    # A process writes the snapshot and a new file, which it then renames.
    if any(folder.glob("process-*")) or room:
        free = shutil.disk_usage(folder).free
        if not room and finished.ran_out_of_time:
            return "the program ran out of time, and its memory was not written in time, expected a longer --time-limit"
        cause = room or "the program was ended before, or there is no room"
        return (f"{folder}: the memory of the program was not written whole ({free >> 20} MiB free): {cause} (TMPDIR names another "
                "folder)")
    if finished.was_interrupted:
        return "the program was interrupted before it used PyTorch, or was too busy to answer"
    if finished.ran_out_of_time:
        return "the program ran out of time before it used PyTorch, or was too busy to answer, expected a longer --time-limit"
    if finished.status != 0:
        return f"the program {ended(finished.status)} and left no answer{words_of(folder)}"
    return "the program never imported torch and took no memory of a GPU, or ended at once (os._exit)"


def reason_without_gpu(finished, taken):
    """Returns a sentence about a run in which no process that wrote its answer took memory of a GPU. `taken` is the memory of those that left
    none."""
    if taken:
        return (f"a process that took {max(taken) >> 20} MiB of a GPU was killed before it could write its answer: its parent may wait a few "
                "seconds for it only, and this machine be too busy")
    if finished.was_interrupted:
        return "the program was interrupted before it used a GPU"
    if finished.ran_out_of_time:
        return "the program ran out of time before it used a GPU, expected a longer --time-limit"
    return "the program never asked for a GPU"


def reason_of_status(folder, finished, read, world):
    """Returns a sentence about a program that ended with an error status, but without an error and with memory to spare. `read` are its processes
    that made no end of their steps."""
    name = f"rank {read[0]['rank']}" if world is not None and len(read) == 1 else "the program"
    steps = max(process["steps"] for process in read)
    if steps:
        count = "1 step" if steps == 1 else f"{steps} steps"
        return f"{name} {ended(finished.status)} after {count}{words_of(folder)} (--steps {steps} ends it there, with its memory)"
    place = "a step of an optimizer" if any(process["devices"] for process in read) else "it used a GPU"
    return f"{name} {ended(finished.status)} before {place}{words_of(folder)}"


def words_of(folder):
    """Returns the texts with which a program called sys.exit, or the place where it may have said why it ended."""
    said = text_of(folder, "exit")
    return f": {said}" if said else ", its own output may tell why"


def text_of(folder, kind):
    """Returns the notes of that kind of all processes, each once: "failure" of the dry run itself, "refusal" of a program, no
    "room" for the answer, or the text of its "exit"."""
    return " ".join(dict.fromkeys(path.read_text() for path in sorted(pathlib.Path(folder).glob(f"{kind}-*"))))


def ended(status):
    return f"was ended by {name_of(-status)}" if status < 0 else f"ended with status {status}"


def name_of(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
