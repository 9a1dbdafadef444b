# SPDX-License-Identifier: Apache-2.0
"""The server for agents: its tools, their errors, and a question that is cancelled."""
import json
import os
import signal
import subprocess
import sys

import pytest

anyio = pytest.importorskip("anyio")
mcp = pytest.importorskip("mcp")

import tidepool  # noqa: E402
from mcp.server.mcpserver.exceptions import ToolError  # noqa: E402
from tidepool import mcp as served  # noqa: E402

VGG = "examples/traces/vgg16-b4-sgd.rmm.csv.gz"
ERROR = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 23.64 GiB of which 11.88 MiB "
         "is free. Including non-PyTorch memory, this process has 23.62 GiB memory in use. Of the allocated memory 22.83 GiB is allocated by "
         "PyTorch, and 338.10 MiB is reserved by PyTorch but unallocated.")


def call(tool, target=served.server, **arguments):
    """Returns the result of a tool as a client sees it."""
    async def ask():
        async with mcp.Client(target) as client:
            return await client.call_tool(tool, arguments)
    return anyio.run(ask)


def answer(tool, **arguments):
    result = call(tool, **arguments)
    assert not result.is_error, result.content
    return result.structured_content


def error(tool, **arguments):
    result = call(tool, **arguments)
    assert result.is_error
    return result.content[0].text


def test_tools_describe_themselves_and_their_arguments():
    async def ask():
        async with mcp.Client(served.server) as client:
            return (await client.list_tools()).tools
    tools = {tool.name: tool for tool in anyio.run(ask)}
    assert set(tools) == {"why_out_of_memory", "explain_error", "memory_needed", "compare_memory", "dry_run", "largest_that_fits", "schedule", "front"}
    assert all(tool.description for tool in tools.values())
    assert not tools["dry_run"].annotations.read_only_hint
    assert tools["why_out_of_memory"].annotations.read_only_hint


def test_says_what_to_install(tmp_path):
    (tmp_path / "anyio.py").write_text("raise ImportError('No module named anyio')\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run([sys.executable, "-m", "tidepool.mcp"], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "tidepool.mcp: No module named anyio: the server needs Python 3.10 and the package mcp, pip install 'mcp>=2.3'\n"


def test_answers_are_those_of_the_command_line():
    trace = tidepool.read(VGG)
    size = answer("memory_needed", file=VGG, fits="1GiB")
    assert size["policies"] == [policy.to_dict() for policy in trace.size(fits="1GiB").policies]
    assert size["fits"]["fits"] is True
    assert answer("memory_needed", file=VGG, fits="1MiB")["fits"]["fits"] is False
    assert answer("why_out_of_memory", file=VGG)["trace"]["allocations"] == 1564
    assert answer("compare_memory", before=VGG, after=VGG)
    assert answer("explain_error", text=ERROR)["out_of_memory"]["requested_bytes"] == 20 << 20


def test_graphs_are_scheduled(tmp_path):
    graph = tmp_path / "graph.json"
    tidepool.model("alexnet", batch=8).write(graph)
    assert answer("schedule", graph=str(graph), memory="8GiB")["fits"]
    assert answer("front", graph=str(graph), memory="8GiB")


@pytest.mark.parametrize("tool, arguments, words", [
    ("why_out_of_memory", {"file": "nowhere"}, "nowhere: cannot be opened"),
    ("why_out_of_memory", {"file": "--help"}, "./--help: cannot be opened"),
    ("memory_needed", {"file": VGG, "fits": "much"}, "much"),
    ("why_out_of_memory", {"file": "a\0b"}, "NUL"),
    ("explain_error", {"text": "not enough"}, "expected"),
    ("schedule", {"graph": VGG, "memory": "1GiB"}, VGG),
    ("dry_run", {"command": ["python3", "x.py"], "folder": "/nowhere"}, "/nowhere: no such folder"),
    ("dry_run", {"command": ["python3", "x.py"], "gpu": "abacus"}, "abacus"),
])
def test_errors_are_those_of_the_command_line(tool, arguments, words):
    assert words in error(tool, **arguments)


def test_any_text_is_answered():
    # A client over a pipe could not send the second one.
    for text in ("x" * (20 << 20), "\ud800"):
        with pytest.raises(ToolError, match="expected"):
            anyio.run(served.ask, ["info", "-", "--json"], ".", text)


def test_errors_of_commands_that_read_no_input_are_told():
    """The input may be closed before or after the command has ended."""
    for _ in range(20):
        assert "cannot be opened" in error("why_out_of_memory", file="nowhere")


def test_long_lists_are_cut():
    assert served.shorten({"a": [[0] * 20, *range(25)], "b": "text"}) == {"a": [[0] * 20, *range(19), "6 more"], "b": "text"}


def test_it_speaks_on_standard_input_and_output():
    own = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    server = mcp.StdioServerParameters(command=sys.executable, args=["-m", "tidepool.mcp"], env=own)
    result = call("memory_needed", mcp.stdio_client(server), file=VGG)
    assert result.structured_content["needs_bytes"] == 840280064


def test_it_goes_on_after_what_is_no_question():
    """A client that is broken, or hostile, sends lines that are no JSON, no message or too long, and asks for what is not there."""
    own = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    with subprocess.Popen([sys.executable, "-m", "tidepool.mcp"], env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        def send(line):
            server.stdin.write(line + b"\n")
            server.stdin.flush()

        def result_of(number, method, **parameters):
            send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}).encode())
            for line in server.stdout:
                message = json.loads(line)
                if message.get("id") == number:
                    return message
            return None

        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}
        assert "result" in result_of(1, "initialize", **client)
        send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        for line in (b"", b"not JSON", b"\xff\xfe\x00", b"{}", b"[]", b'{"jsonrpc": "2.0"}', b"[" * 100_000, b"x" * (20 << 20)):
            send(line)
        assert "error" in result_of(2, "no/such/method")
        for number, (tool, arguments) in enumerate([("no_such_tool", {}), ("memory_needed", {}), ("memory_needed", {"file": 7}),
                                                    ("memory_needed", {"file": "nowhere"}), ("memory_needed", {"file": "x" * 100_000})], 3):
            assert result_of(number, "tools/call", name=tool, arguments=arguments)["result"]["isError"], tool
        answer = result_of(9, "tools/call", name="memory_needed", arguments={"file": VGG})
        assert answer["result"]["structuredContent"]["needs_bytes"] == 840280064
        server.stdin.close()
        assert server.wait() == 0


def test_a_cancelled_question_ends_its_command(monkeypatch):
    """A command ends a program that runs dry, when it is told to end (parts_test.py)."""
    started = []
    start = anyio.open_process

    async def open_process(*arguments, **options):
        started.append(await start(*arguments, **options))
        tasks.cancel_scope.cancel()
        return started[0]

    async def cancel():
        nonlocal tasks
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(served.ask, ["info", "-", "--json"], ".", ERROR)

    tasks = None
    monkeypatch.setattr(served.anyio, "open_process", open_process)
    anyio.run(cancel)
    assert started[0].returncode == -signal.SIGTERM
