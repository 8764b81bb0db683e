"""`/api/v1`: what the page shows and does, as JSON; `/api/v1/openapi.json` says how, by the types themselves."""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple, Union, get_args, get_origin

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from host.mind import WhyLink, why
from host.review import Branch, review
from host.runs import named, runs, steps_of
from host.screen import plain
from host.serve.acts import ACTS, Results
from host.serve.agents import PARTS, Agent, Agents, Part
from host.serve.calls import Problem, call, problem_of
from host.serve.changes import Stream
from host.serve.head import status_of
from host.serve.screens import Evidenced, reports_of
from host.serve.timeline import Version, timeline_of
from host.skills import listed
from host.status import Status
from host.tasks import ListedTask, tasks
from infra.cell.actions import VALIDATION

ROOT = "/api/v1"
JSON = "application/json"
RUNS_SHOWN = 100


class AgentList(msgspec.Struct):
    agents: list[str]


class Run(msgspec.Struct):
    run: str
    branch: str
    directives: list[str]
    at: str
    seconds: int
    end: str
    """Empty while it goes on, or when it was cut short."""
    steps: int
    failure: str
    tokens: int
    usd: float


class RunStep(msgspec.Struct):
    at: str
    kind: str
    facts: dict[str, Any]


class Skill(msgspec.Struct):
    name: str
    state: str
    version: str
    description: str
    confidence: float
    successor: str


class ActDone(msgspec.Struct):
    """`value` is what the command's `--json` prints."""

    act: str
    value: dict[str, Any]
    advice: str


class Error(msgspec.Struct):
    error: str
    """One of validation_error, policy_denied, tool_timeout, tool_unavailable, execution_error."""
    message: str
    retriable: bool
    hint: str


class Read(NamedTuple):
    """What can be asked about an agent; with `item`, about one thing of it."""

    name: str
    answer: Any
    """The type of what is answered."""
    read: Callable[[Agent, str], Any]
    parts: tuple[Part, ...]
    summary: str
    item: str = ""
    """What `item` is, where the address goes on."""


READS = (
    Read("status", Status, lambda agent, item: status_of(agent), PARTS, "The state of the agent"),
    Read(
        "reports",
        list[Evidenced],
        lambda agent, item: reports_of(agent),
        ("repository",),
        "Reports with their evidence",
    ),
    Read("timeline", list[Version], lambda agent, item: timeline_of(agent), PARTS, "Versions of main"),
    Read("review", list[Branch], lambda agent, item: _review(agent, ""), PARTS, "Branches that await the PM"),
    Read("review", dict[str, Any], lambda agent, item: _review(agent, item), PARTS, "One branch", "branch"),
    Read("runs", list[Run], lambda agent, item: _runs(agent), ("runs", "money"), "The last runs"),
    Read("runs", list[RunStep], lambda agent, item: _steps(agent, item), ("runs",), "The steps of one run", "run"),
    Read(
        "mind", list[WhyLink], lambda agent, item: _why(agent, item), ("repository", "mind"), "Why it holds that", "id"
    ),
    Read("skills", list[Skill], lambda agent, item: _skills(agent), ("repository", "mind"), "Its skills"),
    Read("tasks", list[ListedTask], lambda agent, item: _tasks(agent), ("repository", "mind"), "Its tasks"),
)


def _review(agent: Agent, item: str) -> Any:
    found = call(review, agent.context, branch=item or None, stat=False, examine=False).value
    return found if item else found["branches"]


def _runs(agent: Agent) -> Any:
    return call(runs, agent.context, run=None, number=RUNS_SHOWN, replays=False).value["runs"]


def _steps(agent: Agent, item: str) -> Any:
    return list(steps_of(agent.home, *named(agent.home, item)))


def _why(agent: Agent, item: str) -> Any:
    return call(why, agent.context, id=item).value["links"]


def _skills(agent: Agent) -> Any:
    return call(listed, agent.context).value["skills"]


def _tasks(agent: Agent) -> Any:
    return call(tasks, agent.context, number=RUNS_SHOWN).value["tasks"]


def routes(agents: Agents, results: Results, stream: Stream) -> list[Route]:
    async def names(request: Request) -> Response:
        return as_response({"agents": agents.names()})

    async def events(request: Request) -> Response:
        return stream.response(agents.get(request.path_params["agent"]))

    async def act(request: Request) -> Response:
        fields = _fields(await request.body())
        agent = agents.get(request.path_params["agent"])
        key = await run_in_threadpool(results.act, agent, request.path_params["act"], fields, request.scope)
        ended = results.get(key)
        if ended is None or ended.done is None:
            raise (ended and ended.problem) or Problem(VALIDATION, "the result is not kept any more", 410)
        return as_response({"act": ended.act, "value": ended.done.value, "advice": ended.done.advice})

    def reader(each: Read) -> Any:
        async def read(request: Request) -> Response:
            agent, item = agents.get(request.path_params["agent"]), request.path_params.get("item", "")
            key = ("json", each.name, item)
            content = agent.kept(key, each.parts)
            if content is None:
                content = await run_in_threadpool(
                    agent.known, key, each.parts, lambda: msgspec.json.encode(plain(each.read(agent, item)))
                )
            return Response(content, media_type=JSON)

        return read

    async def openapi(request: Request) -> Response:
        return as_response(document())

    at = f"{ROOT}/agents"
    return [
        Route(f"{ROOT}/openapi.json", answering(openapi)),
        Route(at, answering(names)),
        Route(f"{at}/{{agent}}/events", answering(events)),
        Route(f"{at}/{{agent}}/acts/{{act}}", answering(act), methods=["POST"]),
        *(Route(_path(each, ":path"), answering(reader(each))) for each in READS),
    ]


def answering(handler: Callable[[Request], typing.Awaitable[Response]]) -> Any:
    """`handler`, with errors as an API tells them."""

    @functools.wraps(handler)
    async def answered(request: Request) -> Response:
        try:
            return await handler(request)
        except Exception as error:
            problem = problem_of(error)
            return as_response(problem.as_json(), problem.status)

    return answered


def _path(each: Read, convertor: str = "") -> str:
    return f"{ROOT}/agents/{{agent}}/{each.name}" + (f"/{{item{convertor}}}" if each.item else "")


def as_response(value: Any, status: int = 200) -> Response:
    """`value` as JSON."""
    return Response(msgspec.json.encode(value), status, media_type=JSON)


def _fields(body: bytes) -> dict[str, str]:
    try:
        return msgspec.json.decode(body or b"{}", type=dict[str, str])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Problem(VALIDATION, f"the body is no object of texts: {error}") from None


@functools.cache
def document() -> dict[str, Any]:
    """The OpenAPI document."""
    answers = [as_objects(each.answer) for each in READS]
    schemas, components = msgspec.json.schema_components(
        [AgentList, ActDone, Error, *answers], ref_template="#/components/schemas/{name}"
    )
    names, done, error, *others = schemas
    errors = {"default": {"description": "One of the five kinds of error", "content": {JSON: {"schema": error}}}}

    def operation(summary: str, schema: Any, *parameters: str, **more: Any) -> dict[str, Any]:
        where = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in parameters]
        answer = {"200": {"description": summary, "content": {JSON: {"schema": schema}}}, **errors}
        return {"summary": summary, "parameters": where, "responses": answer, **more}

    paths: dict[str, Any] = {f"{ROOT}/agents": {"get": operation("All agents", names)}}
    for each, schema in zip(READS, others, strict=True):
        parameters = ("agent", "item") if each.item else ("agent",)
        paths[_path(each)] = {"get": operation(each.summary, schema, *parameters)}
    body = {
        "required": True,
        "content": {JSON: {"schema": {"type": "object", "additionalProperties": {"type": "string"}}}},
    }
    for name, act in ACTS.items():
        summary = act.command.get_short_help_str(200)
        paths[f"{ROOT}/agents/{{agent}}/acts/{name}"] = {"post": operation(summary, done, "agent", requestBody=body)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "minifram", "version": "1"},
        "security": [{"token": []}],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


@functools.cache
def as_objects(kind: Any) -> Any:
    """The type of what `plain` makes of values of `kind`: a struct in place of each named tuple."""
    origin, inner = get_origin(kind), tuple(map(as_objects, get_args(kind)))
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        hints = typing.get_type_hints(kind)
        return msgspec.defstruct(kind.__name__, [(name, as_objects(hints[name])) for name in kind._fields])
    if origin is tuple and len(inner) == 2 and inner[1] is Ellipsis:
        return list[inner[0]]  # type: ignore[valid-type]
    if origin in (types.UnionType, Union):
        return Union[inner]  # noqa: UP007 - of parts that are known when this runs
    return origin[inner] if origin in (list, dict, tuple) else kind
