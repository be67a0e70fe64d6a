"""Calls of a server's tools by the client of the MCP SDK."""

from typing import Any, NamedTuple

import anyio
import pytest

mcp = pytest.importorskip("mcp")


class Session(NamedTuple):
    """What a client was given: the tools of the server, and the result of each call."""

    tools: list[Any]
    results: list[Any]


def session(server: Any, *calls: tuple[str, dict[str, Any]]) -> Session:
    """Calls tools by name with arguments. The client checks results by their schema."""

    async def ask() -> Session:
        async with mcp.Client(server, mode="auto") as client:
            tools = (await client.list_tools()).tools
            return Session(tools, [await client.call_tool(name, given) for name, given in calls])

    return anyio.run(ask)
