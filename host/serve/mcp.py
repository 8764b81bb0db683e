"""The Model Context Protocol for the agents of others: JSON-RPC with `initialize`, `tools/list` and `tools/call`, over
HTTP at `/mcp`, and over standard input and output by `minifram mcp`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from host.cli import command
from host.fleet import status
from host.home import Context
from host.project import version_of
from host.review import review
from host.screen import Say, Shown
from host.serve.access import WHAT
from host.serve.acts import ACTS, Act
from host.serve.agents import Agent, Agents
from host.serve.api import SEEN, answering, as_response
from host.serve.calls import Problem, call, problem_of
from host.talk import reports
from infra.cell.actions import VALIDATION
from infra.cell.tools.tool import Args, fitting, schema_of

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
"""Of the protocol, the newest first: what a tool's list and result look like is the same in all."""
ERROR = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "expected one object with a method"}}


Words, Number = Annotated[str, Meta(min_length=1)], Annotated[int, Meta(ge=1, le=50)]
TASK = ("text", Words), ("priority", str, "medium"), ("deadline", str, ""), ("background", str, "")


def _tool(doc: str, act: Act, *fields: Any) -> tuple[type[Args], Act]:
    made: Any = msgspec.defstruct("Arguments", fields, bases=(Args,), namespace={"__doc__": doc})
    return made, act


HOST_TOOLS: Mapping[str, tuple[type[Args], Act]] = {
    "status": _tool(
        "The state of the agent: what runs, what waits for the PM, money.", Act(status, lambda given: {"every": False})
    ),
    "tell": _tool("Give the agent a directive: an open item in its COMMS.md.", ACTS["tell"], ("text", Words)),
    "reports": _tool(
        "What the agent reported, and under each report what its keep recorded.",
        Act(reports, lambda given: {**given, "follow": False}),
        ("number", Number, 5),
    ),
    "review": _tool(
        "The branches that await the PM's review; with `branch` the change and the keep's verdict.",
        Act(review, lambda given: {"branch": given["branch"] or None, **SEEN}),
        ("branch", str, ""),
    ),
    "task": _tool("Give the agent a task with a priority; directives come before tasks.", ACTS["task"], *TASK),
}


def answer(agent: Agent, message: Any) -> dict[str, Any] | None:
    """The answer to one message of JSON-RPC; None for a notification."""
    if not isinstance(message, dict) or not isinstance(method := message.get("method"), str):
        return ERROR
    if "id" not in message:
        return None
    answered = {"jsonrpc": "2.0", "id": message["id"]}
    parameters = _object(message.get("params"))
    match method:
        case "initialize":
            asked = parameters.get("protocolVersion")
            us = {"name": "minifram", "version": version_of(agent.context.root)}
            spoken = asked if asked in VERSIONS else VERSIONS[0]
            result: Any = {"protocolVersion": spoken, "capabilities": {"tools": {}}, "serverInfo": us}
        case "ping":
            result = {}
        case "tools/list":
            own = [(name, args.__doc__ or "", schema_of(args)) for name, (args, _) in HOST_TOOLS.items()]
            every = [*own, *((each.name, each.description, each.input_schema) for each in agent.bridge.specs())]
            result = {"tools": [{"name": name, "description": doc, "inputSchema": args} for name, doc, args in every]}
        case "tools/call":
            result = _called(agent, str(parameters.get("name", "")), _object(parameters.get("arguments")))
        case _:
            return answered | {"error": {"code": -32601, "message": f"there is no method {method[:60]!r}"}}
    return answered | {"result": result}


def _called(agent: Agent, name: str, given: dict[str, Any]) -> dict[str, Any]:
    """A tool's failure is a result, for the model that asked to read."""
    try:
        host_tool = HOST_TOOLS.get(name)
        found = {"content": _done(agent, *host_tool, given)} if host_tool else agent.bridge.tool(name, given)
    except Exception as error:
        text = json.dumps(problem_of(error).as_json())
        return {"content": [{"type": "text", "text": text}], "isError": True}
    content = [{"type": "text", "text": found["content"]}]
    match found.get("image"):
        case {"media_type": str(kind), "data": str(data)}:
            content.append({"type": "image", "data": data, "mimeType": kind})
    return {"content": content, "isError": False}


def _done(agent: Agent, args: type[Args], act: Act, given: dict[str, Any]) -> str:
    try:
        fields = msgspec.to_builtins(fitting(args, given))
    except ValueError as error:
        raise Problem(VALIDATION, str(error)) from None
    done = call(act.command, agent.context, **act.parameters(fields))
    return "\n".join(filter(None, [*done.lines, done.advice]))


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _parsed(text: str | bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return str(error)


def routes(agents: Agents, default_agent: str) -> list[Route]:
    """`/mcp` for the default agent, `/mcp/NAME` for another: one message each, answered as JSON, without sessions."""

    async def endpoint(request: Request) -> Response:
        agent, message = agents.get(request.path_params.get("agent", default_agent)), _parsed(await request.body())
        request.scope[WHAT] = {"agent": agent.name, "mcp": message}
        answered = await run_in_threadpool(answer, agent, message)
        return Response(status_code=202) if answered is None else as_response(answered)

    return [Route(path, answering(endpoint), methods=["POST"]) for path in ("/mcp", "/mcp/{agent}")]


@command
def mcp(context: Context, say: Say) -> Shown:
    """Speak MCP on standard input and output, for a program that starts this: the agent's web tools, status, tell,
    reports, review, task."""
    context.initialised()
    agents = Agents(context)
    try:
        for line in sys.stdin:
            if answered := answer(agents.get(context.agent), _parsed(line)):
                print(msgspec.json.encode(answered).decode(), flush=True)
    finally:
        agents.close()
    return Shown({})
