"""The Model Context Protocol for the agents of others: JSON-RPC with `initialize`, `tools/list` and `tools/call`, over
HTTP at `/mcp`, and over standard input and output by `minifram mcp`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, NamedTuple

import click
import msgspec
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from host.cli import command
from host.home import Context
from host.project import version_of
from host.review import review
from host.screen import Say, Shown
from host.serve.acts import ACTS
from host.serve.agents import Agent, Agents
from host.serve.api import answering
from host.serve.bridge import Bridges
from host.serve.calls import Problem, call, problem_of
from host.status import status
from host.talk import reports
from infra.cell.actions import VALIDATION
from infra.shared.conversation import ToolSpec

VERSIONS = ("2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26")
"""Of the protocol, the newest first: what a tool's list and result look like is the same in all."""
NO_METHOD, BAD_REQUEST = -32601, -32600


class _Status(msgspec.Struct):
    """The state of the agent: what runs, what it does, what waits for the PM, money."""


class _Tell(msgspec.Struct):
    """Give the agent a directive: an open item in its COMMS.md."""

    text: Annotated[str, Meta(min_length=1)]


class _Reports(msgspec.Struct):
    """What the agent reported, and under each report what its keep recorded."""

    number: Annotated[int, Meta(ge=1, le=50)] = 5


class _Review(msgspec.Struct):
    """The branches that await the PM's review; with `branch` the change, the keep's verdict and what may be done."""

    branch: str = ""


class _Task(msgspec.Struct):
    """Give the agent a task with a priority; directives come before tasks."""

    text: Annotated[str, Meta(min_length=1)]
    priority: str = "medium"
    deadline: str = ""
    background: str = ""


class Tool(NamedTuple):
    arguments: type[msgspec.Struct]
    call: Callable[[Agent, Any], str]
    """Its words for the model. Raises Problem."""


def _lines(command: click.Command, agent: Agent, **given: Any) -> str:
    done = call(command, agent.context, **given)
    return "\n".join(filter(None, [*done.lines, done.advice]))


def _act(name: str) -> Callable[[Agent, Any], str]:
    def do(agent: Agent, given: Any) -> str:
        act = ACTS[name]
        return _lines(act.command, agent, **act.parameters(msgspec.to_builtins(given)))

    return do


HOST_TOOLS: Mapping[str, Tool] = {
    "status": Tool(_Status, lambda agent, given: _lines(status, agent)),
    "tell": Tool(_Tell, _act("tell")),
    "reports": Tool(_Reports, lambda agent, given: _lines(reports, agent, number=given.number, follow=False)),
    "review": Tool(
        _Review, lambda agent, given: _lines(review, agent, branch=given.branch or None, stat=False, examine=False)
    ),
    "task": Tool(_Task, _act("task")),
}


class Server(NamedTuple):
    """What a connection is about."""

    agent: Agent
    bridges: Bridges
    version: str
    """Of minifram."""


def answer(server: Server, message: Any) -> dict[str, Any] | None:
    """The answer to one message of JSON-RPC; None for a notification."""
    if not isinstance(message, dict) or not isinstance(method := message.get("method"), str):
        return _error(None, BAD_REQUEST, "expected one object of JSON-RPC with a method")
    if "id" not in message:
        return None
    given = message.get("params")
    parameters: Mapping[str, Any] = given if isinstance(given, dict) else {}
    match method:
        case "initialize":
            asked = parameters.get("protocolVersion")
            information = {"name": "minifram", "version": server.version}
            spoken = asked if asked in VERSIONS[1:] else VERSIONS[1]
            result: Any = {"protocolVersion": spoken, "capabilities": {"tools": {}}, "serverInfo": information}
        case "ping":
            result = {}
        case "tools/list":
            result = {"tools": [*map(_listed, HOST_TOOLS.items()), *map(_described, server.bridges.tools())]}
        case "tools/call":
            result = _called(server, str(parameters.get("name", "")), parameters.get("arguments") or {})
        case _:
            return _error(message["id"], NO_METHOD, f"there is no method {method[:60]!r}")
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def _error(id: Any, code: int, words: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": words}}


def _listed(item: tuple[str, Tool]) -> dict[str, Any]:
    name, tool = item
    schema = msgspec.json.schema(tool.arguments)
    return {
        "name": name,
        "description": tool.arguments.__doc__,
        "inputSchema": schema["$defs"][tool.arguments.__name__],
    }


def _described(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}


def _called(server: Server, name: str, given: Any) -> dict[str, Any]:
    """A tool's failure is a result, for the model that asked to read."""
    try:
        if name in HOST_TOOLS:
            tool = HOST_TOOLS[name]
            text = tool.call(server.agent, msgspec.convert(given, tool.arguments))
        else:
            text = server.bridges.of(server.agent).tool(name, given)["content"]
    except Exception as error:
        text = f"arguments of {name}: {error}"
        problem = Problem(VALIDATION, text) if isinstance(error, msgspec.ValidationError) else problem_of(error)
        return {"content": [{"type": "text", "text": json.dumps(problem.as_json())}], "isError": True}
    return {"content": [{"type": "text", "text": text}], "isError": False}


def routes(agents: Agents, bridges: Bridges, default_agent: str, version: str) -> list[Route]:
    """`/mcp` for the default agent, `/mcp/NAME` for another: one message each, answered as JSON, without sessions."""

    async def endpoint(request: Request) -> Response:
        server = Server(agents.get(request.path_params.get("agent", default_agent)), bridges, version)
        try:
            message = msgspec.json.decode(await request.body())
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            message = str(error)
        answered = await run_in_threadpool(answer, server, message)
        if answered is None:
            return Response(status_code=202)
        return Response(msgspec.json.encode(answered), media_type="application/json")

    return [Route(path, answering(endpoint), methods=["POST"]) for path in ("/mcp", "/mcp/{agent}")]


def serve_lines(server: Server, lines: Iterable[str], say: Callable[[str], None]) -> None:
    """The same over standard input and output: a message a line."""
    for line in lines:
        try:
            message = msgspec.json.decode(line)
        except msgspec.MsgspecError as error:
            message = str(error)
        if answered := answer(server, message):
            say(msgspec.json.encode(answered).decode())


@command
def mcp(context: Context, say: Say) -> Shown:
    """Speak MCP on standard input and output, for a program that starts this: the agent's web tools, status, tell,
    reports, review, task."""
    context.initialised()
    server = Server(Agents(context).get(context.agent), Bridges(), version_of(context.root))
    try:
        serve_lines(server, sys.stdin, lambda line: print(line, flush=True))
    finally:
        server.bridges.close()
    return Shown({})
