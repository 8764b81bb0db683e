"""The routes of `serve`, and what every page of HTML has in common."""

from __future__ import annotations

import functools
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from host.screen import counted, duration, harmless, one_line, seconds_of
from host.serve import acts, api, changes, jobs, mcp
from host.serve.agents import Agents
from host.serve.calls import Problem, problem_of
from host.serve.head import head_of
from host.serve.screens import SCREENS
from infra.cell.actions import VALIDATION
from infra.shared.text import cut

HERE = Path(__file__).parent
FILES = {"style.css": "text/css", "live.js": "text/javascript"}
MOST_CHARS = 20_000
"""Of one value on a page; what may be longer has a page of its own."""


class Served(NamedTuple):
    """What the handlers share."""

    agents: Agents
    done: acts.Results
    stream: changes.Stream


def application(agents: Agents, begun: jobs.Jobs, default_agent: str, version: str) -> Starlette:
    """All routes, without `access.Access` in front of them."""
    stream, results = changes.Stream(), acts.Results()
    served = Served(agents, results, stream)

    async def events(request: Request) -> Response:
        return stream.response(agents.get(request.path_params["agent"]))

    routes = [
        Route("/", _page(served, _agents)),
        Route("/static/{name}", _static),
        Route("/a/{agent}/events", events),
        Route("/a/{agent}/act/{act}", _page(served, _act), methods=["POST"]),
        Route("/a/{agent}", _page(served, _screen)),
        Route("/a/{agent}/{screen}", _page(served, _screen)),
        Route("/a/{agent}/{screen}/{item:path}", _page(served, _screen)),
    ]
    others = (
        *api.routes(agents, results, stream),
        *jobs.routes(begun, default_agent),
        *mcp.routes(agents, begun.bridges, default_agent, version),
    )
    handlers: Mapping[Any, Any] = {Exception: _as_problem, 404: _not_found}
    return Starlette(routes=[*others, *routes], exception_handlers=handlers, lifespan=stream.lifespan)


def _page(served: Served, handler: Callable[[Served, Request, Mapping[str, str]], Response]) -> Any:
    """A handler that runs in a thread: it asks git, and may wait for it. It gets the fields of a form."""

    async def page(request: Request) -> Response:
        fields: dict[str, str] = {}
        if request.method == "POST":
            fields = dict(parse_qsl((await request.body()).decode(errors="replace"), keep_blank_values=True))
        try:
            return await run_in_threadpool(handler, served, request, fields)
        except Exception as error:
            return await run_in_threadpool(_failed, request, problem_of(error))

    return page


def _agents(served: Served, request: Request, fields: Mapping[str, str]) -> Response:
    return render("agents.html", {"agents": [head_of(served.agents.get(name)) for name in served.agents.names()]})


def _screen(served: Served, request: Request, fields: Mapping[str, str]) -> Response:
    agent, name = served.agents.get(request.path_params["agent"]), request.path_params.get("screen", "now")
    if name not in SCREENS:
        raise Problem(VALIDATION, f"there is no screen {name[:40]!r}", 404)
    facts = SCREENS[name](agent, request.path_params.get("item", ""), request.query_params)
    done = served.done.get(request.query_params.get("done", ""))
    return render(facts.get("template", f"{name}.html"), head_of(agent) | facts | {"screen": name, "done": done})


def _act(served: Served, request: Request, fields: Mapping[str, str]) -> Response:
    """Do it, and lead back to the page that the form stood on, which shows how it ended."""
    agent = served.agents.get(request.path_params["agent"])
    key = served.done.act(agent, request.path_params["act"], fields, request.scope)
    back = fields.get("back", "")
    here = f"/a/{agent.name}"
    if not back.startswith(f"{here}/"):
        back = here
    return RedirectResponse(f"{back}?done={key}", 303)


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in FILES:
        raise Problem(VALIDATION, "there is no such file", 404)
    return Response((HERE / name).read_bytes(), media_type=FILES[name], headers={"cache-control": "max-age=3600"})


def _failed(request: Request, problem: Problem) -> Response:
    values = {"problem": problem, "agent": request.path_params.get("agent", "")}
    return render("problem.html", values, problem.status)


async def _as_problem(request: Request, error: Exception) -> Response:
    return _failed(request, problem_of(error))


async def _not_found(request: Request, error: Exception) -> Response:
    return _failed(request, Problem(VALIDATION, "there is no such page", 404))


def render(template: str, values: Mapping[str, Any], status: int = 200) -> Response:
    return HTMLResponse(_templates().get_template(template).render(values, now=time.time()), status)


@functools.cache
def _templates() -> Environment:
    # All that the agent and others wrote passes `finalize`: no character steers, hides or reorders what is shown.
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_harmless,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"line": one_line, "counted": counted, "ago": _ago, "duration": duration}
    environment.globals["new_key"] = lambda: secrets.token_hex(8)
    return environment


def _harmless(value: Any) -> Any:
    return value if isinstance(value, Markup) or not isinstance(value, str) else cut(harmless(value), MOST_CHARS)


def _ago(moment: str, now: float) -> str:
    """How long ago a time was, as it is written in the project's files; empty for what is no time."""
    then = seconds_of(moment)
    return "" if then is None else duration(now - then)
