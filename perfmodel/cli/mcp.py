"""``perfmodel mcp``: a server of the Model Context Protocol. The tools of the server are commands of
`perfmodel`.

The official SDK (extra ``mcp``) implements the protocol. The parameters of a tool are the arguments of the
command. The result of a tool is the answer of the command, and a JSON Schema describes it.
"""

import json
import signal
import sys
from collections.abc import AsyncIterable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from perfmodel.answers.declaration import Argument
from perfmodel.answers.schema import given_schema, schema
from perfmodel.cli import COMMANDS
from perfmodel.cli.commands import flagged
from perfmodel.cli.grouped_help import command
from perfmodel.cli.tool import TOOLS
from perfmodel.errors import InputError, shortened
from perfmodel.reading import is_folder

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

INSTRUCTIONS = (
    "perfmodel predicts LLM decoding with and without speculative decoding, from a calibrated roofline. "
    "whatif answers one point, advise chooses a draft, traffic answers a request rate, schedule writes draft "
    "lengths by batch size. Counts may be text such as 32k. Give the interval with each speedup, and the "
    "warnings. An error names the argument and what is allowed."
)
"""A description of the server for the model that uses it."""
LIMIT_S = 60.0
"""Seconds after which a call is stopped. The time of waiting for other calls does not count."""
AT_ONCE = 4
"""Largest number of calls that run at the same time. Other calls wait."""
ONE_CALL = [sys.executable, "-m", "perfmodel.cli.tool"]
"""A process for each call, which ends when the call is cancelled or takes too long."""
PARSE_ERROR = -32700
"""JSON-RPC's code for a message that is not JSON."""
Files = Annotated[
    Path | None,
    Argument(
        "Folder of the files that questions may name; without this flag, questions can use only bundled "
        "names.",
        "DIR",
    ),
]


@command(example="--files mine/")
@flagged
def app(files: Files = None) -> None:
    """Answer an LLM assistant's questions over stdin and stdout, with the Model Context Protocol.

    The tools are whatif, advise, traffic and schedule, which take the arguments of the command line. The
    tools can read only files in the folder of --files. File names are relative to this folder. An error
    message never quotes the contents of a file.
    """
    import anyio

    if files is not None and not is_folder(files):
        raise InputError(f"--files: must be a folder, given {shortened(str(files))}")
    # the first Ctrl-C ends the process, also while it waits for a message
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    anyio.run(_serve, files)


async def _serve(files: Path | None) -> None:
    import anyio
    from mcp.server.stdio import stdio_server

    made = server(files)
    async with stdio_server() as (read, write), anyio.create_task_group() as group:
        messages, received = anyio.create_memory_object_stream[Any](0)
        group.start_soon(_forward, read, messages, write)
        await made.run(received, write, made.create_initialization_options())
        group.cancel_scope.cancel()


async def _forward(read: AsyncIterable[Any], messages: Any, write: Any) -> None:
    """Passes messages on to the server, and answers those that cannot be read."""
    from mcp import types
    from mcp.shared.message import SessionMessage

    async with messages:
        async for message in read:
            if not isinstance(message, Exception):
                await messages.send(message)
                continue
            error = types.ErrorData(code=PARSE_ERROR, message="must be one JSON-RPC message on one line")
            await write.send(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=None, error=error)))


def server(files: Path | None = None, limit_s: float = LIMIT_S) -> "Server[Any]":
    """The server, without a transport.

    - files: the folder whose files may be read.
    - limit_s: time limit of a call in seconds.
    """
    import anyio
    from mcp import types
    from mcp.server.lowlevel import Server

    folder = None if files is None else str(files.resolve())
    turns = anyio.CapacityLimiter(AT_ONCE)

    async def listed(context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=name,
                    description=COMMANDS[name],
                    input_schema=given_schema(verb.question),
                    output_schema={"type": "object"} | schema(verb),  # which protocols before 2026 require
                )
                for name, verb in TOOLS.items()
            ]
        )

    async def called(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        text = partial(types.TextContent, type="text")
        call = {"name": params.name, "arguments": params.arguments or {}, "files": folder}
        try:
            async with turns:
                with anyio.fail_after(limit_s):
                    done = await anyio.run_process(ONE_CALL, input=json.dumps(call).encode(), stderr=None)
        except TimeoutError:
            message = f"{params.name}: took more than {limit_s:g} s; ask for fewer values or prompts"
            return types.CallToolResult(content=[text(text=message)], is_error=True)
        result = json.loads(done.stdout)
        if "answer" not in result:
            return types.CallToolResult(content=[text(text=result["text"])], is_error=True)
        content = result["answer"]
        return types.CallToolResult(
            content=[text(text=result["text"]), text(text=json.dumps(content))], structured_content=content
        )

    return Server(
        "perfmodel",
        version=version("perfmodel"),
        instructions=INSTRUCTIONS,
        on_list_tools=listed,
        on_call_tool=called,
    )
