"""The SDK's own client, talking to ``torch-trace mcp`` over stdio."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import CallToolResult, ImageContent, TextContent

# Variables that choose the code and the cache: the SDK passes only a few others on.
PASSED = ("PYTHONPATH", "TORCH_TRACE_CACHE")


class Agent:
    """A client whose calls wait. The client runs in a loop of its own, on a thread."""

    def __init__(self, client: Client, loop: asyncio.AbstractEventLoop) -> None:
        self._client, self._loop = client, loop

    def result(self, tool: str, **arguments: Any) -> CallToolResult:
        asked = self._client.call_tool(tool, arguments)
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result(300)

    def answer(self, tool: str, **arguments: Any) -> str:
        """The text of an answer without an error."""
        result = self.result(tool, **arguments)
        assert not result.is_error, result.content
        return text_of(result)

    def error(self, tool: str, **arguments: Any) -> str:
        result = self.result(tool, **arguments)
        assert result.is_error
        return text_of(result)

    def tools(self) -> dict[str, Any]:
        listed = asyncio.run_coroutine_threadsafe(self._client.list_tools(), self._loop).result(60)
        return {each.name: each for each in listed.tools}


def text_of(result: CallToolResult) -> str:
    (text,) = (each.text for each in result.content if isinstance(each, TextContent))
    return text


def picture_of(result: CallToolResult) -> ImageContent:
    (picture,) = (each for each in result.content if isinstance(each, ImageContent))
    return picture


@contextmanager
def agent_on(path: Path | str) -> Iterator[Agent]:
    command = ["-m", "tb_plugin", "mcp", str(path)]
    passed = {name: os.environ[name] for name in PASSED if name in os.environ}
    server = StdioServerParameters(command=sys.executable, args=command, env=passed, cwd=Path.cwd())
    loop, ready, done = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    found: list[Client] = []

    async def serve() -> None:
        try:
            async with Client(stdio_client(server)) as client:
                found.append(client)
                ready.set()
                await done.wait()
        finally:
            ready.set()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert ready.wait(60) and found, "The server did not start."
    try:
        yield Agent(found[0], loop)
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(30)
        loop.close()
