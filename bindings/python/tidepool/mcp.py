# SPDX-License-Identifier: Apache-2.0
"""A server of the Model Context Protocol, by which coding agents ask the questions of the command line.

    python -m tidepool.mcp

It speaks on standard input and output, and needs Python 3.10 and the package mcp: `pip install 'mcp>=2.3'`. Each question runs the
program `tidepool` with --json in a process of its own. Answers have the names of that JSON.
"""
import contextlib
import json
import os
import subprocess
import sys
from typing import Annotated, Any, Optional

try:
    import anyio
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import ToolAnnotations
    from pydantic import Field
except ImportError as error:
    if __name__ != "__main__":
        raise
    sys.exit(f"tidepool.mcp: {error}: the server needs Python 3.10 and the package mcp, pip install 'mcp>=2.3'")

from . import _program
from ._commands import option_arguments, path_text

MOST_ITEMS = 20  # of a list in an answer
SECONDS_TO_END = 30  # a dry run gives its program 20
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
RUNS = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)  # the program may do anything

File = Annotated[str, Field(description="Path of the file.")]
Command = Annotated[list[str], Field(description="The program and its arguments, one item each, such as ['python', 'train.py'].")]
Folder = Annotated[str, Field(description="The folder in which the program runs.")]
Gpu = Annotated[str, Field(description="The GPU to assume, such as h100, a100-40 or rtx-4090.")]
Memory = Annotated[str, Field(description="A size such as 80GiB.")]
MaybeMemory = Annotated[Optional[str], Field(description="The memory of each GPU, such as 16GiB, instead of that of the model.")]

server = MCPServer("tidepool", instructions=(
    "Answers questions about the GPU memory of PyTorch and other programs: why a job ran out of memory (from a snapshot of PyTorch's "
    "allocator, or another trace), how much memory a program needs and whether it fits (by a dry run, without a GPU), which changes make "
    "it fit, and their costs. Sizes in answers are bytes, times are seconds."))


def shorten(value: Any) -> Any:
    """Cuts each list to its first items. A text in place of the rest tells how many were left out."""
    if isinstance(value, dict):
        return {name: shorten(one) for name, one in value.items()}
    if not isinstance(value, list):
        return value
    items = [shorten(one) for one in value[:MOST_ITEMS]]
    return items + [f"{len(value) - MOST_ITEMS} more"] if len(value) > MOST_ITEMS else items


async def _end(process: anyio.abc.Process) -> None:
    """Ends a command, which ends a program that runs dry, and kills it if that takes too long."""
    if process.returncode is not None:
        return
    with anyio.CancelScope(shield=True):
        process.terminate()
        with anyio.move_on_after(SECONDS_TO_END):
            await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()


async def ask(arguments: list[str], folder: str = ".", text: str = "") -> dict[str, Any]:
    """Runs a command of the tool with `text` as its input. A cancelled question ends the command."""
    program = _program.find()
    if program is None:
        raise ToolError(f"no program tidepool belongs to {_program.PACKAGE}, expected an installation with pip")
    if not os.path.isdir(folder):
        raise ToolError(f"{folder}: no such folder")
    if any("\0" in argument for argument in arguments):
        raise ToolError("an argument with a NUL character: remove it")
    # A dry run starts Python, and should find this one.
    environment = {**os.environ, "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])}
    process = await anyio.open_process([program, *arguments], stdin=subprocess.PIPE, cwd=folder, env=environment)
    parts: dict[str, bytes] = {}

    async def read(name: str, stream: Any) -> None:
        parts[name] = b"".join([part async for part in stream])

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, "out", process.stdout)
            tasks.start_soon(read, "error", process.stderr)
            assert process.stdin is not None
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the command has ended: its answer counts
                if text:
                    await process.stdin.send(text.encode(errors="replace"))
                await process.stdin.aclose()
        status = await process.wait()
    finally:
        await _end(process)
    try:
        answer = json.loads(parts["out"])
    except ValueError:
        raise ToolError(parts["error"].decode(errors="replace").strip() or f"tidepool ended with status {status}") from None
    return dict(shorten(answer))


@server.tool(annotations=READS)
async def why_out_of_memory(
        file: Annotated[str, Field(description="A memory snapshot of PyTorch (torch.cuda.memory._dump_snapshot) or another trace.")]) -> dict[str, Any]:
    """Tells which request was refused, which lines of the program hold the memory, and which free memory is fragmented, from a recorded trace."""
    return await ask(["info", path_text(file), "--json"])


@server.tool(annotations=READS)
async def explain_error(text: Annotated[str, Field(description="The text of PyTorch's OutOfMemoryError.")]) -> dict[str, Any]:
    """Tells from the text of PyTorch's OutOfMemoryError alone how the memory is divided, and whether a setting of the allocator can help."""
    return await ask(["info", "-", "--json"], text=text)


@server.tool(annotations=READS)
async def memory_needed(file: File, fits: Annotated[Optional[str], Field(description="A memory that the trace should fit in, such as 24GiB.")] = None) -> dict[str, Any]:
    """Tells the smallest pool that serves a recorded trace, with each placement policy and with a plan."""
    return await ask(["size", path_text(file), *option_arguments({"fits": fits}), "--json"])


@server.tool(annotations=READS)
async def compare_memory(before: File, after: File) -> dict[str, Any]:
    """Tells which lines, categories and sizes hold more memory or less in the second of two recorded traces."""
    return await ask(["diff", path_text(before), path_text(after), "--json"])


@server.tool(annotations=RUNS)
async def dry_run(command: Command, folder: Folder = ".", gpu: Gpu = "h100", memory: MaybeMemory = None,
                  steps: Annotated[int, Field(description="End after this number of steps of optimizers; 0: at the end of the program.")] = 3,
                  graph: Annotated[Optional[str], Field(description="Write the task graph of a training step into this file, for `schedule` and `front`.")] = None
                  ) -> dict[str, Any]:
    """Runs a PyTorch program without a GPU, and tells how much GPU memory it needs, whether that fits, which lines hold the peak, and where it
    does not fit, which changes make it fit and how much slower it is with each (`remedies`)."""
    # The file is in the folder of the server, as for the tools that read it.
    options = {"gpu": gpu, "memory": memory, "steps": steps, "graph": graph and os.path.abspath(graph)}
    return await ask(["dryrun", *option_arguments(options), "--json", "--", *command], folder)


@server.tool(annotations=RUNS)
async def largest_that_fits(command: Annotated[list[str], Field(description="The program and its arguments, with {NAME} where the number belongs.")],
                            name: Annotated[str, Field(description="The name in braces, such as batch.")], least: int, most: int,
                            folder: Folder = ".", gpu: Gpu = "h100", memory: MaybeMemory = None) -> dict[str, Any]:
    """Finds by dry runs the largest number, such as a batch size, with which a PyTorch program fits into the memory of a GPU."""
    options = option_arguments({"gpu": gpu, "memory": memory, "fit": f"{name}={least}..{most}"})
    return await ask(["dryrun", *options, "--json", "--", *command], folder)


@server.tool(annotations=READS)
async def schedule(graph: File, memory: Memory) -> dict[str, Any]:
    """Tells how long a training step takes in less memory, when tidepool chooses which data leave the GPU and which are computed again. The graph is one
    that `dry_run` wrote."""
    return await ask(["schedule", path_text(graph), "--memory", memory, "--policy", "best", "--json"])


@server.tool(annotations=READS)
async def front(graph: File, memory: Memory) -> dict[str, Any]:
    """Tells the least time of a training step in each memory up to the one given. The graph is one that `dry_run` wrote."""
    return await ask(["front", path_text(graph), "--memory", memory, "--json"])


if __name__ == "__main__":
    server.run()
