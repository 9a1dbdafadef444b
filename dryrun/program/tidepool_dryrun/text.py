# SPDX-License-Identifier: Apache-2.0
"""The answer for people."""
import os

from . import by_module
from .answer import available_bytes, available_range, largest_of

LEAST_STRANDED = 0.05  # of the reserved memory: a small rest of a stream's segment is no news
MOST_STRANDED = 2  # streams or pools with a name
LEAST_HOST = 4 << 30  # bytes of processes, of which people are told
LEAST_PINNED = 1 << 20  # bytes of the host that people are told of: reading one number of a device pins some
OF_DENSITY = ("nonzero", "unique", "unique_consecutive", "coalesce")  # operations of which --density decides the sizes
TABLES = ("line", "module")  # of the peak
MOST_MODULES = 20  # rows of a table
UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def printable(text):
    """Returns the text with escapes in the place of bytes that are no text, and of characters that a terminal obeys."""
    text = os.fsencode(text).decode("utf-8", "backslashreplace")
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def printable_lines(text):
    """Returns a text of several lines, such as an error of the program, as `printable` does with each."""
    return "\n".join(map(printable, text.split("\n")))


def program_name(command):
    return printable(os.path.basename(command))[:100]


def size(bytes_):
    for unit, name in UNITS:
        if abs(bytes_) >= unit:
            return f"{bytes_ / unit:.1f} {name}"
    return f"{bytes_} bytes"


def largest(rank):
    """Returns the largest parts of the peak, by line and by purpose."""
    # Memory that the backward pass makes has no stack of Python; its purpose says more.
    lines_of_program = [one for one in rank["top"] if not one["frame"].startswith("(")]
    parts = [f"{one['frame']} {size(one['bytes'])}{line_below(one)}" for one in lines_of_program[:2]]
    purposes = sorted(((bytes_, name) for name, bytes_ in rank["categories"].items() if name != "unknown"), reverse=True)
    parts += [f"{name} {size(bytes_)}" for bytes_, name in purposes[:2] if bytes_ > 0]
    return " · ".join(parts)


def line_below(one):
    """Returns the line of a library that took most of the memory of a line of the program."""
    return f" (most in {one['below'][0]['frame']})" if one["below"] else ""


def ended(answer):
    stop = "interrupted" if answer["interrupted"] else "stopped at the time limit" if answer["ran_out_of_time"] else ""
    if answer["torch"] is None:
        return stop or "ended"
    steps = f"{answer['steps']} step{'' if answer['steps'] == 1 else 's'}"
    return f"{stop} after {steps}" if stop else steps


def positive(answer):
    """Returns the word for a program that fits: one that was stopped may need more later."""
    return "so far" if answer["so_far"] else "yes"


def size_range(least, most):
    """Returns two sizes, or one where both have the same text."""
    begin, end = size(least), size(most)
    return begin if begin == end else f"{begin} to {end}"


def verdict(answer):
    rank = largest_of(answer["ranks"])
    shared = min(answer["shared"], key=lambda one: (one["fits"], room_of(one, answer, 0)), default=None)
    if shared and rank["fits"]:
        return verdict_of_shared(shared, answer)
    memory = size(rank["memory_bytes"])
    if rank["memory_bytes"] < answer["memory_bytes"]:
        memory += f" (the program's own limit, of {size(answer['memory_bytes'])})"
    refused = answer["out_of_memory"]
    if refused:
        return f"no: out of memory in {memory}, {size(refused['bytes'])} asked for{at_frame(refused)}"
    reserved = answer["reserved_range"][1]
    beside = surroundings(rank["outside"])
    available_least, available_most = available_range(rank, answer["memory_bytes"])
    room = answer["memory_bytes"] - rank["other_bytes"] - reserved  # for all that lies beside PyTorch's allocator
    if not answer["fits"]:
        if reserved <= rank["memory_bytes"] and room >= 0:
            return f"no: {size(reserved)} of {memory} leave no room for {beside}"
        return f"no: this run fit in {memory}, but with rising addresses PyTorch may reserve {size(reserved)} and run out of memory"
    if reserved > available_most:
        return f"{positive(answer)}, but only because PyTorch gives cached memory back, with nothing of {memory} to spare besides {beside}"
    if reserved > available_least:
        return f"{'so far perhaps' if answer['so_far'] else 'perhaps'}: {size(reserved)} of {size(answer['memory_bytes'])} leave {size(room)} for {beside}"
    return f"{positive(answer)}, {size_range(available_least - reserved, available_most - reserved)} of {memory} to spare besides {beside}"


def room_of(shared, answer, end):
    """Returns the memory that the processes of a device leave, beside the least (0) or the most (1) of their contexts and NCCL."""
    return answer["memory_bytes"] - shared["peak_reserved_bytes"] - shared["outside_bytes"][end]


def verdict_of_shared(shared, answer):
    """Returns the verdict on several processes of one device, of which the peaks are added up."""
    memory = size(answer["memory_bytes"])
    share = f"{shared['processes']} processes share device {shared['device']}"
    most, least = (room_of(shared, answer, end) for end in (0, 1))
    beside = f" besides {size_range(*shared['outside_bytes'])} of contexts and NCCL" if any(shared["outside_bytes"]) else ""
    if least >= 0:
        return f"{positive(answer)}, {share}: {size_range(least, most)} of {memory} to spare{beside}, where their peaks meet"
    takes = size_range(shared["peak_live_bytes"], shared["peak_reserved_bytes"])
    word = ("so far perhaps" if answer["so_far"] else "perhaps") if shared["fits"] else "no"
    return f"{word}: {share}, and take {takes} of {memory}{beside}, where their peaks meet"


def surroundings(found):
    """Returns the memory outside of PyTorch's allocator, as measurements had it, and the process on the host where the GPU shares it."""
    parts = [f"{size_range(*found['context_bytes'])} of context"]
    if found["communicators"]:
        count = "1 communicator" if found["communicators"] == 1 else f"{found['communicators']} communicators"
        parts.append(f"{size_range(*found['nccl_bytes'])} of NCCL ({count})")
    if found["host_bytes"][1]:
        parts.append(f"{size_range(*found['host_bytes'])} of the process on the host")
    return " and ".join(parts)


def stranded(parts):
    """Returns the streams and pools with the most free memory that no request reaches, and the lines that asked there last."""
    words = []
    for one in parts[:MOST_STRANDED]:
        pool = "" if one["pool"] == "default" else f" of private pool {one['pool']}"
        line = f", last asked for at {one['frame']}" if one["frame"] else ""
        words.append(f"{size(one['bytes'])} of stream {one['stream']}{pool}{line}")
    rest = parts[MOST_STRANDED:]
    return " · ".join(words + ([f"{size(sum(one['bytes'] for one in rest))} in {len(rest)} more"] if rest else []))


def assumptions(places):
    first = next((place for place in places if place["operation"] not in OF_DENSITY), places[0])  # no option decides it
    others = f" and {len(places) - 1} more" if len(places) > 1 else ""
    hint = " (see --density)" if any(place["operation"] in OF_DENSITY for place in places) else ""
    return f"sizes that depend on data: {first['operation']} at {first['frame']}{others}{hint}"


def at_frame(refused):
    """Returns the place of a refused request after a blank, or "" where it is not known, as without PyTorch."""
    return f" at {refused['frame']}" if refused["frame"] else ""


def refusals(caught):
    largest_one = max(caught, key=lambda refused: refused["bytes"])
    count = "1 request" if len(caught) == 1 else f"{len(caught)} requests"
    return f"{count} for which the program went on without the memory, the largest {size(largest_one['bytes'])}{at_frame(largest_one)}"


def sensitivity(convolutions):
    def change(peak):
        return abs(100 * (peak / convolutions["peak_live_bytes"] - 1))

    least, most = convolutions["no_workspace_peak_live_bytes"], convolutions["large_peak_live_bytes"]
    return (f"cuDNN is assumed to take up to {size(convolutions['workspace_bytes'])} each: {change(least):.1f} % less "
            f"without, {change(most):.1f} % more with up to {size(convolutions['large_workspace_bytes'])}")


def table(answer):
    """Returns a line for each rank, and none for a single one."""
    ranks = answer["ranks"]
    if len(ranks) < 2:
        return []
    rows = [("rank", "device", "peak live", "reserved", "fits")]
    rows += [(str(one["rank"]), str(one["device"]), size(one["peak_live_bytes"]), size(one["peak_reserved_bytes"]),
              fits_of(one, answer)) for one in ranks]
    if len({row[:2] for row in rows}) < len(rows):  # processes that are ranks of no job
        rows = [(row[0], process, *row[1:]) for row, process in zip(rows, ["process", *(str(one["process"]) for one in ranks)])]
    *widths, _ = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  " + "  ".join([*(cell.rjust(width) for cell, width in zip(row, widths)), row[-1]]) for row in rows]


def by(kind, answer):
    """Returns the table of the peak by line or by module, and none without a kind."""
    rank = largest_of(answer["ranks"])
    if kind == "module" and rank["modules"]:
        return modules(rank["modules"])
    return lines_of_code(rank["top"]) if kind else []


def lines_of_code(top):
    """Returns a line for each line of the program, with those of libraries that it called below."""
    rows = [(prefix + printable(one["frame"]), size(one["bytes"])) for line in top
            for prefix, one in [("", line), *(("  ", below) for below in line["below"])]]
    width = max((len(row[0]) for row in rows), default=0)
    return ["  by line"] + [f"    {name:<{width}}  {bytes_:>9}" for name, bytes_ in rows]


def modules(table_):
    """Returns a line for each kind of modules, which have equal paths but for numbers."""
    columns = {"bytes": "all", "weights_bytes": "weights", "gradients_bytes": "gradients", "optimizer_bytes": "optimizer",
               "activations_bytes": "activations"}
    rows = [("by module", "", *columns.values())]
    joined = by_module.alike(table_)
    for row in joined[:MOST_MODULES]:
        count = f"x {row['count']}" if row["count"] > 1 else ""
        rows.append(("  " + printable(row["module"]), count, *(size(row[key]) if row[key] else "" for key in columns)))
    if len(joined) > MOST_MODULES:
        rest = sum(row["bytes"] for row in joined[MOST_MODULES:])
        rows.append((f"  {len(joined) - MOST_MODULES} more", "", size(rest), "", "", "", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  " + "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]).rstrip()
            for row in rows]


def fits_of(rank, answer):
    refused = rank["out_of_memory"]
    if not refused and rank["fits"]:
        is_too_much = any(one["device"] == rank["number"] and not one["fits"] for one in answer["shared"])
        return "alone" if is_too_much else positive(answer)
    if not refused:
        return "no"
    return f"no, {size(refused['bytes'])} asked for{at_frame(refused)}"


def program(answer):
    """Returns the kind of program that an answer is of."""
    return f"torch {answer['torch']}" if answer["torch"] else "without PyTorch"


def lines(answer, command):
    """Returns the lines of an answer to the command of that name."""
    rows = rows_of_pytorch(answer) if largest_of(answer["ranks"])["allocations"] else rows_of_runtime(answer)
    head = (f"{program_name(command)}: {ended(answer)} in {answer['seconds']:.1f} s, no GPU used "
            f"({program(answer)}, {answer['gpu']} assumed)")
    rows = world_of(answer) + stop_of(answer) + rows
    return [head] + [f"  {name:<17} {printable(value)}" for name, value in rows] + table(answer)


def world_of(answer):
    """Returns the row of the ranks that ran of a larger job."""
    world = answer["world"]
    if world is None:
        return []
    ranks = sorted({one["rank"] for one in answer["ranks"]})
    named = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
    stages = ", first and last: the program made no pipeline stages of PyTorch" if world["representative"] and not world["stages"] else ""
    return [("ran", f"{named} of {world['size']}{stages}; peers are taken to hold the same data")]


def stop_of(answer):
    """Returns the row of the place where a program was stopped."""
    place = largest_of(answer["ranks"])["stopped_at"]
    if place is None:
        return []
    return [("stopped in", place["frame"] + (f" (in {place['innermost']})" if place["innermost"] != place["frame"] else ""))]


def rows_of_runtime(answer):
    beside = ", none of it by PyTorch's caching allocator" if answer["torch"] else ""
    rows = [("peak", f"{size(answer['peak_live_bytes'])} taken from the CUDA runtime{beside}"), ("fits", verdict(answer))]
    return rows + pinned(answer)


def pinned(answer):
    held, asked = answer["pinned"]["rounded_bytes"], answer["pinned"]["peak_bytes"]
    if held < LEAST_PINNED:
        return []
    rounding = f" for {size(asked)}, in powers of two" if asked < held else ""
    return [("pinned", f"{size(held)} of the host's memory{rounding}")]


def host(found):
    """Returns the row of the memory of the host, which small programs do not have."""
    if found["peak_bytes"] + found["workers_bytes"] < LEAST_HOST:
        return []
    of = "the process" if found["processes"] == 1 else f"{found['processes']} processes"
    workers = "1 worker" if found["workers"] == 1 else f"{found['workers']} workers"
    beside = f", and {size(found['workers_bytes'])} of {workers}" if found["workers"] else ""
    return [("host", f"{size(found['peak_bytes'])} of the host's memory at most by {of}{beside}")]


def remedies(answer):
    """Returns the rows of the memory that the program needs, and of changes that would make it fit: memory and time, and how to do it."""
    if answer["needed_bytes"] is None:
        return []
    missing = answer["needed_bytes"] - available_bytes(largest_of(answer["ranks"]), answer["memory_bytes"])
    follows = ": it takes more where more is free, so this is the line through dry runs with more memory" if answer["follows_memory"] else ""
    rows = [("needs", f"{size(answer['needed_bytes'])}, {size(missing)} too much{follows}")]
    cells = [(one["name"], memory_of(one), time_of(one), one["how"] if one["fits"] else "") for one in answer["remedies"]]
    widths = [max(len(cell[column]) for cell in cells) for column in range(3)] if cells else []
    for number, cell in enumerate(cells):
        padded = [f"{cell[0]:<{widths[0]}}", f"{cell[1]:>{widths[1]}}", f"{cell[2]:<{widths[2]}}", cell[3]]
        rows.append(("" if number else "to make it fit", "   ".join(padded).rstrip()))
    if answer["no_graph"] and not answer["follows_memory"]:
        rows.append(("" if cells else "to make it fit", f"no {'other ' if cells else ''}change is computed: {answer['no_graph']}"))
    if answer["integrated"] and not answer["follows_memory"]:
        rows.append(("", f"no change moves data to the host: the {answer['gpu']} shares its memory, so that would leave no more room"))
    return rows


def larger_batch(found):
    """Returns the row of the largest batch that fits, or none where it is not known or not larger."""
    if found is None or found["times"] == 1:
        return []
    most = "at least " if found["is_least"] else "" if found["checked"] else "about "
    batch = f"{found['batch']} in place of {found['in_place_of']}" if found["batch"] else f"{found['times']:.1f} times as large"
    cure = "" if found["checked"] and not found["is_least"] else " (--fit finds the largest)"
    return [("larger batch", f"{most}{batch}, {found['how']}{cure}")]


def memory_of(remedy):
    return "no schedule" if remedy["peak_bytes"] is None else f"{size(remedy['peak_bytes'])} live"


def time_of(remedy):
    """Returns the time of a remedy, and whether it was computed alone."""
    origin = "checked" if remedy["checked"] else "computed"
    if not remedy["fits"]:
        return f"does not suffice alone, {origin}"
    of_sample = " a sample" if remedy["name"].startswith("batch ") else ""
    time = "time not known" if remedy["slowdown"] is None else f"{remedy['slowdown']:.2f} x the time{of_sample}"
    return f"{time}, {origin}"


def graph(found):
    """Returns the rows of the task graph, which is null without the option."""
    if found is None:
        return []
    head = f"{found['file']}: step {found['step']}, {found['tasks']} tasks, {size(found['peak_bytes'])} live at its peak"
    return [("graph", head), *(("", note) for note in found["notes"])]


def front(found):
    """Returns the rows of the front, which is null without the option."""
    if found is None:
        return []
    points = found["points"]
    ends = [f"{size(one['memory_bytes'])} at {one['slowdown']:.2f} x the time" for one in (*points[:1], *points[-1:])]
    return [("front", f"{found['file']}: from {ends[0]} to {ends[1]}" if points else "no picture: no schedule with addresses fits"),
            *(("" if at else "trains on", line) for at, line in enumerate(found["gpu_lines"]))]


def rows_of_pytorch(answer):
    rank = largest_of(answer["ranks"])
    reserved = size_range(*answer["reserved_range"])
    others = [f"{size(answer[key])} {name}" for key, name in (("expandable_bytes", "with expandable_segments"),
                                                              ("planned_bytes", "planned by tidepool")) if answer[key]]
    rows = [("peak live", f"{size(answer['peak_live_bytes'])}   {largest(rank)}"),
            ("PyTorch reserves", f"{reserved}   {', '.join(others)}".rstrip())]
    if rank["lost_events"]:
        rows.append(("record", f"the last part of the run: {rank['lost_events']} requests and frees came before, of which no lines are known"))
    if answer["waiting_optimizers"]:
        rows.append(("not reached", f"the first step of {', '.join(answer['waiting_optimizers'])}, which may take more memory: more --steps"))
    if answer["stranded_bytes"] >= LEAST_STRANDED * answer["peak_reserved_bytes"] > 0:
        rows.append(("stranded", f"{size(answer['stranded_bytes'])} of it are free, but belong to streams or pools that do not ask for more: "
                                 f"{stranded(answer['stranded_by'])}"))
    if answer["other_bytes"]:
        rows.append(("other code", f"{size(answer['other_bytes'])} taken from the CUDA runtime beside PyTorch's allocator"))
    rows.append(("fits", verdict(answer)))
    rows += larger_batch(answer["larger_batch"]) + remedies(answer)
    if answer["caught_out_of_memory"]:
        rows.append(("refused", refusals(answer["caught_out_of_memory"])))
    rows += pinned(answer) + host(answer["host"])
    if rank["convolutions"]:
        rows.append(("convolutions", sensitivity(rank["convolutions"])))
    rows += graph(answer["graph"]) + front(answer["front"])
    if answer["assumed"]:
        rows.append(("assumes", assumptions(answer["assumed"])))
    return rows
