# SPDX-License-Identifier: Apache-2.0
"""Reads the files that the processes of the program wrote, and answers from PyTorch's snapshots."""
import json
import pathlib
import subprocess

from . import by_module, convolutions, no_answer, outside, plain, sharing, stranded, where
from .errors import DryRunError


PREFIX = "tidepool: "  # of errors
# The answer of a run repeats these of the rank that takes most.
OF_LARGEST = ("peak_live_bytes", "peak_reserved_bytes", "max_memory_allocated", "reserved_range", "expandable_bytes", "planned_bytes", "other_bytes",
              "stranded_bytes", "stranded_by", "outside")
CLOSE = 1.01  # PyTorch counts whole blocks, so its own peak may be a little larger


class Tool:
    """The command line of tidepool, which reads snapshots."""

    def __init__(self, path):
        self.path = path

    def ask(self, *arguments):
        """Returns the JSON answer. Status 2 is an answer too: no."""
        done = subprocess.run([self.path, *map(str, arguments), "--json"], capture_output=True, text=True, check=False)
        if done.returncode not in (0, 2):
            said = done.stderr.strip()
            raise DryRunError(said[len(PREFIX):] if said.startswith(PREFIX) else said or f"{self.path} ended with status {done.returncode}")
        return json.loads(done.stdout)

    def report(self, snapshot, file):
        """Writes the report of a snapshot."""
        self.ask("report", snapshot, "-o", file)


def processes(folder):
    """Returns the answers of the processes, by rank."""
    read = []
    for path in sorted(pathlib.Path(folder).glob("process-*.json")):
        process = json.loads(path.read_text())
        (held, _), devices = plain.held(path.with_name(path.stem.replace("process", "memory")))
        communicators = path.with_name(path.stem.replace("process", "communicators"))
        asked = process["pinned"]["peak_bytes"] or held
        read.append({**process, "pinned": {"peak_bytes": min(asked, held), "rounded_bytes": held}, "held": devices,
                     "communicators": communicators, "id": path.stem.partition("-")[2], "host_bytes": host_bytes(process["host"], held)})
    read.sort(key=lambda one: (one["rank"], one["began"]))
    return [{**process, "process": number} for number, process in enumerate(read)]


def host_bytes(host, pinned):
    """Returns the least and the most bytes of the host that a process takes. Of pinned memory only pages that the program wrote are in the
    figures of the system."""
    return max(host["bytes"], pinned), host["peak_bytes"] + pinned


def on_host(read):
    """Returns the memory of the host of all processes, as answers have it. Workers with an answer of their own are such processes."""
    own = {process["id"] for process in read}
    workers = [bytes_ for process in read for child, bytes_ in process["host"]["workers"].items() if child not in own]
    return {"peak_bytes": sum(process["host_bytes"][1] for process in read), "processes": len(read), "workers_bytes": sum(workers),
            "workers": len(workers)}


def largest_of(ranks):
    """Returns the rank that takes most memory: one that ran out of it or does not fit, if there is any."""
    return max(ranks, key=lambda rank: (bool(rank["out_of_memory"]), not rank["fits"],
                                        rank["peak_reserved_bytes"] + rank["other_bytes"], rank["peak_live_bytes"]))


def of_rank(process, tool, around):
    """Returns the memory of each device that a process used on the machine `around` it."""
    held = {number: peak for number, (peak, _) in enumerate(process["held"]) if peak}
    ranks = []
    for device in process["devices"]:
        if device["allocations"]:
            ranks.append(of_device(process, device, held.pop(device["device"], 0), tool))
    ranks += [without_pytorch(process, number, peak) for number, peak in held.items()]
    refused = process["out_of_memory"]
    if refused and not any(rank["out_of_memory"] for rank in ranks):
        ranks.append(without_pytorch(process, refused["device"], 0))
    if not ranks and process["pinned"]["rounded_bytes"]:
        ranks.append(without_pytorch(process, 0, 0))
    ranks.sort(key=lambda rank: rank["device"])
    for rank in ranks:
        rank["outside"] = outside.answer(process["communicators"], rank["device"], around, process["host_bytes"])
        rank.update(process=process["process"], number=sharing.number_of(rank["device"], process["visible_devices"]),
                    stopped_at=process["stopped_at"],
                    lives=(process["began"], process["began"] + process["seconds"]))
    return ranks


def without_pytorch(process, device, peak):
    """Returns the memory of a device of which PyTorch's allocator has none: another one took it, the first request was refused, or the
    process pinned memory of the host."""
    record = {"rank": process["rank"], "device": device, "peak": peak, "refused": 0}
    return {**plain.rank_answer(record, None), "steps": process["steps"], "allocations": 0,
            "out_of_memory": refused_by(process, device), "limit_bytes": None}


def of_device(process, device, held, tool):
    """Returns the memory of a device of which a process held `held` bytes, by PyTorch's allocator and other code."""
    number = device["device"]
    info = tool.ask("info", process["snapshot"], "--device", number)
    here = next(one for one in info["per_device"] if one["device"] == number)
    model = here["pytorch"] or {}
    reserved = device["peak_reserved_bytes"]
    # Null without recorded events of the device. Then it is the memory that is live at the end.
    live = here["peak_live_bytes"] or here["live_bytes"]
    most = device["max_memory_allocated"]
    has_lost_peak = device["lost_events"] > 0 and most > CLOSE * live
    # The model serves each request, so its answers would be larger than the memory that there is where one was refused. Without the
    # events of the peak they would be smaller.
    if process["out_of_memory"] or process["caught_out_of_memory"] or not device["is_modelled"] or has_lost_peak:
        model = {}
    # PyTorch chooses between free blocks of one size by address. The model has the answers for both orders of addresses.
    orders = [] if device["is_expandable"] else ["reserved_bytes", "falling_reserved_bytes"]
    modelled = [model[key] for key in orders if model.get(key)]
    return {"rank": process["rank"], "device": number, "steps": process["steps"],
            "peak_live_bytes": most if has_lost_peak else live,
            "lost_events": device["lost_events"], "peak_reserved_bytes": reserved,
            "max_memory_allocated": device["max_memory_allocated"],
            "reserved_range": [min([reserved, *modelled]), max([reserved, *modelled])],
            "expandable_bytes": model.get("expandable_reserved_bytes"),
            "planned_bytes": None, "other_bytes": max(0, held - reserved),
            "stranded_bytes": here["stranded_bytes"] or 0, "stranded_by": stranded.parts(here["free_by"]),
            "retries": device["retries"], "allocations": device["allocations"],
            "top": [{"frame": one["frame"], "bytes": one["bytes"], "below": []} for one in here["top"]], "modules": None,
            "convolutions": convolutions.answer(process["snapshot"], number, process["convolution_workspaces"]),
            "categories": here["categories"], "out_of_memory": refused_by(process, number),
            "caught_out_of_memory": caught_by(process, number), "limit_bytes": device["limit_bytes"],
            "snapshot": process["snapshot"]}


def refusal_of(refused):
    """Returns the refused request as answers have it."""
    return {"bytes": refused["bytes"], "frame": refused["frame"]}


def refused_by(process, device):
    """Returns the request that ended a process, if it was one for the device, or None."""
    refused = process["out_of_memory"]
    return refusal_of(refused) if refused and refused["device"] == device else None


def caught_by(process, device):
    """Returns the requests for a device of which the program caught the OutOfMemoryError."""
    return [refusal_of(refused) for refused in process["caught_out_of_memory"] if refused["device"] == device]


def text_of_error(process, folder):
    """Returns the program's own error, and the lines before it with sizes that depend on data. That of a launcher is the end of a rank."""
    error, rank = process["error"], process["failed_rank"]
    if rank:
        return f"rank {rank['rank']} {no_answer.ended(rank['status'])}{no_answer.words_of(folder) if rank['status'] > 0 else ''}"
    if not process["assumed"]:
        return error
    places = ", ".join(f"{place['operation']} at {place['frame']}" for place in process["assumed"][:3])
    return f"{error} (a dry run has no data: sizes were assumed for {places})"


def planned_bytes(rank, tool):
    """Returns the pool of a rank with a plan; 0 where nothing was allocated, and None where the record has no plan, or lacks the peak."""
    size = tool.ask("size", rank["snapshot"], "--device", rank["device"], "--policy", "planned", "--time-limit", "2s")
    planned = max((one["exact_pool_bytes"] or one["pool_bytes"] for one in size["policies"]),
                  default=None if rank["peak_live_bytes"] else 0)
    return None if rank["lost_events"] and planned is not None and planned < rank["peak_live_bytes"] else planned


def add_lines_below(rank):
    """Adds the lines of libraries to the lines of the program that called them."""
    found = where.below(rank["snapshot"], rank["device"])
    for one in rank["top"]:
        one["below"] = found.get(one["frame"], [])


def available_bytes(rank, memory_bytes):
    """Returns the memory of a device for PyTorch's allocator, where the context and NCCL need the least that was measured."""
    return available_range(rank, memory_bytes)[1]


def available_range(rank, memory_bytes):
    """Returns the least and the most memory of a device for PyTorch's allocator, for which alone the limit holds that a program sets."""
    least_beside, most_beside = outside.counted_bytes(rank["outside"])
    least, most = (memory_bytes - rank["other_bytes"] - beside for beside in (most_beside, least_beside))
    return min(rank["memory_bytes"], least), min(rank["memory_bytes"], most)


def fits(rank, memory_bytes, tool):
    """Returns whether a device served the rank, and does so with both orders of addresses. The run had falling ones."""
    return not rank["out_of_memory"] and serves(rank, available_bytes(rank, memory_bytes), tool)


def serves(rank, available, tool):
    """Returns whether PyTorch's allocator serves the requests of a rank in that memory. Where it would reserve more, the model tells whether
    PyTorch, which gives cached memory back, gets through."""
    if rank["reserved_range"][1] <= available:
        return True
    if rank["snapshot"] is None or rank["peak_live_bytes"] > available:  # no allocator gives memory back
        return False
    replay = tool.ask("replay", rank["snapshot"], "--trace-device", rank["device"], "--policy", "pytorch", "--pool", available)
    return replay["served"]


def refused_outside(process):
    """Returns the request that ended a process where other code than PyTorch's caching allocator was refused it, or None."""
    refused, device = max(((bytes_, device) for device, (_, bytes_) in enumerate(process["held"])), default=(0, 0))
    if not refused or not process["error"] or "out of memory" not in process["error"].lower():
        return None
    return {"device": device, "bytes": refused, "frame": process["error_frame"]}


def error_of(read, was_ended, folder):
    """Returns the error of the process that failed first, or None. Launchers, which use no GPU, fail after their ranks, and
    where the run was ended."""
    failed = [process for process in read if process["error"] and (process["devices"] or not was_ended)]
    first = min(failed, key=lambda process: process["began"] + process["seconds"], default=None)
    return first and text_of_error(first, folder)


def give_up(read):
    """Takes the last caught refusal of a process for the end of a program that ended with an error status, but without an error."""
    for process in read:
        if process["caught_out_of_memory"]:
            process["out_of_memory"] = process["caught_out_of_memory"].pop()


def ended_themselves(read, world):
    """Returns the processes that ended of their own accord. Those of a program of which one was ended after its steps may fail for want of its
    work, but each rank of a world has to get there."""
    ended = [process for process in read if process["reason"] != "steps"]
    return ended if world is not None or len(ended) == len(read) else []


def check_world(read, world, finished):
    """Raises DryRunError where a rank of a world took no part in one, or left no answer."""
    if world is None or any(process["out_of_memory"] or process["error"] for process in read):
        return
    missing = sorted(set(world.ranks) - {process["rank"] for process in read})
    if missing and (finished.failed or read and not finished.was_stopped):
        raise DryRunError(f"rank {missing[0]} left no answer: it {no_answer.ended(finished.status)}")
    if read and not any(process["has_group"] for process in read):
        raise DryRunError(f"--world {world.size}, but the program made no process group, expected torch.distributed.init_process_group")


def check_notes(folder, read, finished, world):
    """Raises DryRunError where the dry run itself, or the stand-in, noted an end of the program without an answer."""
    failure = no_answer.text_of(folder, "failure")
    if failure:
        raise DryRunError(f"the dry run itself failed, not the program: {failure}")
    refusal = no_answer.text_of(folder, "refusal")
    if refusal:
        raise DryRunError(refusal)
    check_world(read, world, finished)
    waits = no_answer.text_of(folder, "waits")
    if waits and finished.ran_out_of_time:
        raise DryRunError(f"the program ran out of time: {waits}, expected a longer --time-limit, or a program in which it comes")


def ranks_of(folder, read, finished, around, tool, world):
    """Returns the ranks of the processes, at least one, or raises DryRunError for a program that failed otherwise than for want of memory."""
    for process in read:
        process["out_of_memory"] = process["out_of_memory"] or refused_outside(process)
    if finished.failed and not any(process["error"] or process["out_of_memory"] for process in read):
        give_up(read)
    ranks = [rank for process in read for rank in of_rank(process, tool, around)]
    if not any(rank["out_of_memory"] for rank in ranks):
        check_end(folder, read, finished, world)
    if not ranks:
        raise DryRunError(no_answer.reason_without_gpu(finished, [record["peak"] for record in plain.records(folder)]))
    return ranks


def check_end(folder, read, finished, world):
    """Raises DryRunError where a program that was refused no memory failed."""
    error = error_of(read, finished.ran_out_of_time or finished.was_interrupted, folder)
    if error:
        raise DryRunError(f"the program failed: {error}")
    ended = ended_themselves(read, world)
    if finished.failed and ended:
        raise DryRunError(no_answer.reason_of_status(folder, finished, ended, world))


def judge(ranks, memory_bytes, tool):
    """Adds to each rank whether it fits in its memory."""
    for rank in ranks:
        rank["memory_bytes"] = min(memory_bytes, rank.pop("limit_bytes") or memory_bytes)
        rank["fits"] = fits(rank, memory_bytes, tool)


def explain_largest(largest, tool):
    """Adds to the rank that takes most memory the answers that take a look at its requests."""
    if largest["allocations"] == 0:
        return
    largest["planned_bytes"] = planned_bytes(largest, tool)
    add_lines_below(largest)
    stranded.add_lines(largest["stranded_by"], largest["snapshot"], largest["device"])
    largest["modules"] = by_module.answer(largest["snapshot"], largest["device"])


def with_pytorch(folder, read, finished, around, memory_bytes, tool, world):
    """Returns the ranks of processes with PyTorch, and their part of the answer."""
    ranks = ranks_of(folder, read, finished, around, tool, world)
    judge(ranks, memory_bytes, tool)
    explain_largest(largest_of(ranks), tool)
    return ranks, of_processes(read, ranks)


def without(folder, finished, around, memory_bytes):
    """Returns the same of a program without PyTorch."""
    found = plain.collect(folder, finished, around, memory_bytes)
    if found is None:
        raise DryRunError(no_answer.reason(folder, finished))
    return found


def of_processes(read, ranks):
    """Returns the part of the answer that the processes and their ranks tell."""
    largest = largest_of(ranks)
    return {"torch": read[0]["torch"], "steps": max(rank["steps"] for rank in ranks),
            **{name: largest[name] for name in OF_LARGEST},
            "caught_out_of_memory": [refused for rank in ranks for refused in rank["caught_out_of_memory"]],
            "pinned": {name: sum(process["pinned"][name] for process in read) for name in ("peak_bytes", "rounded_bytes")},
            "host": on_host(read), "waiting_optimizers": sorted({name for process in read for name in process["waiting"]}),
            "assumed": [place for process in read for place in process["assumed"]],
            "seconds": max(process["seconds"] for process in read)}


def of_run(ranks, shared, finished, around, memory_bytes):
    """Returns the answer as far as the ranks of any program, the devices that several of them share and the end of the run tell it."""
    refused = [rank["out_of_memory"] for rank in ranks if rank["out_of_memory"]]
    return {"dry_run": True, "torch": None, "gpu": around.gpu.title, "integrated": around.gpu.is_integrated, "memory_bytes": memory_bytes,
            "world": None, "steps": 0, "peak_live_bytes": 0, "peak_reserved_bytes": 0, "max_memory_allocated": None, "reserved_range": [0, 0],
            "expandable_bytes": None, "planned_bytes": None, "other_bytes": 0, "stranded_bytes": 0, "stranded_by": [], "outside": None,
            "fits": all(one["fits"] for one in (*ranks, *shared)), "shared": shared, "so_far": finished.was_stopped,
            "out_of_memory": refused[0] if refused else None, "caught_out_of_memory": [], "pinned": None, "host": None,
            "waiting_optimizers": [], "assumed": [], "ran_out_of_time": finished.ran_out_of_time, "interrupted": finished.was_interrupted,
            "seconds": 0, "needed_bytes": None, "follows_memory": False, "remedies": [], "no_graph": None, "larger_batch": None, "graph": None, "front": None,
            "ranks": ranks}


def collect(folder, finished, around, memory_bytes, tool, world=None):
    """Returns the answer of a run on the machine `around` it, or raises DryRunError where it has none. `world` is that of the ranks, if
    they are some of many."""
    read = processes(folder)
    check_notes(folder, read, finished, world)
    ranks, told = with_pytorch(folder, read, finished, around, memory_bytes, tool, world) if read else without(folder, finished, around, memory_bytes)
    # Each rank of a world has a device of its own.
    shared = [] if world else sharing.find(ranks, memory_bytes)
    for rank in ranks:
        del rank["lives"]
    # Without PyTorch the ranks are not known by their numbers in the world.
    return {**of_run(ranks, shared, finished, around, memory_bytes), "world": world.answer(folder) if world and read else None, **told}
