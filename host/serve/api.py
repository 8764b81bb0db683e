"""`/api/v1`: what the page shows and does, as JSON; `/api/v1/openapi.json` says how, by the types themselves."""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin

import click
import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from host.mind import WhyLink, why
from host.review import Branch, review
from host.runs import Step, last_runs, named, steps_of
from host.screen import plain
from host.serve.acts import ACTS, Results
from host.serve.agents import PARTS, Agent, Agents, Part
from host.serve.calls import Problem, call, problem_of
from host.serve.screens import Evidenced, reports_of
from host.serve.timeline import Version, timeline_of
from host.skills import listed
from host.status import Status
from host.tasks import ListedTask, tasks
from infra.cell.actions import VALIDATION

ROOT = "/api/v1"
JSON = "application/json"
T = TypeVar("T")
MOST = 100


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


def _found(what: click.Command, field: str, item: str = "", **given: Any) -> Callable[[Agent, str], Any]:
    """What a command's `--json` has in a field, or in all; `item` names the parameter that the address gives."""

    def read(agent: Agent, id: str) -> Any:
        value = call(what, agent.context, **given, **({item: id} if item else {})).value
        return value[field] if field else value

    return read


SEEN: Mapping[str, Any] = {"stat": False, "examine": False}
READS = (
    Read("status", Status, lambda agent, item: agent.status(), PARTS, "The state of the agent"),
    Read("reports", list[Evidenced], lambda agent, item: reports_of(agent), ("repository",), "With their evidence"),
    Read("timeline", list[Version], lambda agent, item: timeline_of(agent), PARTS, "Versions of main"),
    Read("review", list[Branch], _found(review, "branches", branch=None, **SEEN), PARTS, "What awaits the PM"),
    Read("review", dict[str, Any], _found(review, "", "branch", **SEEN), PARTS, "One branch", "branch"),
    Read("runs", list[Run], lambda agent, item: last_runs(agent.home, MOST), ("runs", "money"), "The last runs"),
    Read("runs", list[Step], lambda agent, item: _steps(agent, item), ("runs",), "The steps of one run", "run"),
    Read("mind", list[WhyLink], _found(why, "links", "id"), ("repository", "mind"), "Why it holds that", "id"),
    Read("skills", list[Skill], _found(listed, "skills"), ("repository", "mind"), "Its skills"),
    Read("tasks", list[ListedTask], _found(tasks, "tasks", number=MOST), ("repository", "mind"), "Its tasks"),
)


def _steps(agent: Agent, item: str) -> list[Step]:
    return list(steps_of(agent.home, *named(agent.home, item)))


def routes(agents: Agents, results: Results) -> list[Route]:
    async def names(request: Request) -> Response:
        return as_response({"agents": agents.names()})

    async def events(request: Request) -> Response:
        lines = agents.get(request.path_params["agent"]).changes()
        return StreamingResponse(lines, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def act(request: Request) -> Response:
        fields = await body_of(request, dict[str, str])
        agent = agents.get(request.path_params["agent"])
        _, ended = await run_in_threadpool(results.act, agent, request.path_params["act"], fields, request.scope)
        if ended.done is None:
            raise ended.problem or AssertionError("unreachable: what is not done has a problem")
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


async def body_of(request: Request, kind: type[T]) -> T:
    """What a request sent, of such a type. Raises Problem."""
    try:
        return msgspec.json.decode(await request.body() or b"{}", type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Problem(VALIDATION, f"the body is not as expected: {error}") from None


@functools.cache
def document() -> dict[str, Any]:
    """The OpenAPI document."""
    answers = [as_objects(each.answer) for each in READS]
    schemas, components = msgspec.json.schema_components(
        [dict[str, list[str]], ActDone, Error, *answers], ref_template="#/components/schemas/{name}"
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
