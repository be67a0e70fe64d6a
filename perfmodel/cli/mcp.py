"""``perfmodel mcp``: a server of the Model Context Protocol whose tools are verbs of the command line.

The official SDK (extra ``mcp``) speaks the protocol. The parameters of a tool are the declared arguments of
its question. Its result is the answer, with the JSON Schema of its type.
"""

import json
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.schedule import schedule
from perfmodel.answers.declaration import Verb
from perfmodel.answers.load.traffic import traffic
from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.schema import given_schema, schema
from perfmodel.cli import COMMANDS
from perfmodel.cli.commands import command
from perfmodel.errors import InputError

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

TOOLS: dict[str, Verb[..., Any]] = {verb.__name__: verb for verb in (whatif, advise, traffic, schedule)}
"""The verbs that an assistant may use."""
INSTRUCTIONS = (
    "perfmodel predicts LLM decoding with and without speculative decoding, from a calibrated roofline. "
    "whatif answers one point, advise chooses a draft, traffic answers a request rate, schedule writes draft "
    "lengths by batch size. Counts may be text such as 32k. Give the interval with each speedup, and the "
    "warnings. An error names the argument and what is allowed."
)


@command(example="")
def app() -> None:
    """Answer an assistant's questions over stdin and stdout, by the Model Context Protocol.

    Its tools are whatif, advise, traffic and schedule, with the arguments of the command line.
    """
    import anyio

    anyio.run(_serve)


async def _serve() -> None:
    from mcp.server.stdio import stdio_server

    made = server()
    async with stdio_server() as (read, write):
        await made.run(read, write, made.create_initialization_options())


def server() -> "Server[Any]":
    """The server, for any transport."""
    from anyio import to_thread
    from mcp import types
    from mcp.server.lowlevel import Server

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
        try:
            answer = await to_thread.run_sync(partial(_answer, params.name, params.arguments or {}))
        except InputError as error:
            return types.CallToolResult(content=[text(text=str(error))], is_error=True)
        content = answer.as_dict()
        return types.CallToolResult(
            content=[text(text=answer.headline()), text(text=json.dumps(content))], structured_content=content
        )

    return Server(
        "perfmodel",
        version=version("perfmodel"),
        instructions=INSTRUCTIONS,
        on_list_tools=listed,
        on_call_tool=called,
    )


def _answer(name: str, given: dict[str, Any]) -> Any:
    """The answer of a tool. Raises InputError for an unknown tool, and for a question that is refused."""
    if name not in TOOLS:
        raise InputError(f"tool: must be one of {', '.join(TOOLS)}, given {name}")
    return TOOLS[name](**given)
