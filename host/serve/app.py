"""The routes of `serve`, and what every page of HTML has in common."""

from __future__ import annotations

import functools
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from host.screen import counted, duration, harmless, one_line, seconds_of
from host.serve import acts, api, jobs, mcp, stream
from host.serve.agents import Agent, Agents
from host.serve.calls import Problem, problem_of
from host.serve.screens import SCREENS
from infra.cell.actions import VALIDATION
from infra.shared.text import cut

HERE = Path(__file__).parent
MOST_CHARS = 20_000
"""Of one value on a page; what may be longer has a page of its own."""


Handler = Callable[[Request, Mapping[str, str]], Response]


def application(agents: Agents, begun: jobs.Jobs, default_agent: str) -> Starlette:
    """All routes, without `access.Access` in front of them."""
    results = acts.Results()

    def index(request: Request, fields: Mapping[str, str]) -> Response:
        return render("agents.html", {"agents": [_head(agents.get(name)) for name in agents.names()]})

    def screen(request: Request, fields: Mapping[str, str]) -> Response:
        agent, name = agents.get(request.path_params["agent"]), request.path_params.get("screen", "now")
        if name not in SCREENS:
            raise Problem(VALIDATION, f"there is no screen {name[:40]!r}", 404)
        facts = SCREENS[name](agent, request.path_params.get("item", ""), request.query_params)
        more = {"screen": name, "done": results.get(request.query_params.get("done", ""))}
        return render(facts.get("template", f"{name}.html"), _head(agent) | facts | more)

    def act(request: Request, fields: Mapping[str, str]) -> Response:
        """Do it, and lead back to the page that the form stood on, which shows how it ended."""
        agent = agents.get(request.path_params["agent"])
        key, _ = results.act(agent, request.path_params["act"], fields, request.scope)
        here, back = f"/a/{agent.name}", fields.get("back", "")
        return RedirectResponse(f"{back if back.startswith(f'{here}/') else here}?done={key}", 303)

    routes = [
        *api.routes(agents, results),
        *jobs.routes(begun, default_agent),
        *mcp.routes(agents, default_agent),
        *stream.routes(agents),
        Route("/", _page(index)),
        Mount("/static", StaticFiles(directory=HERE / "static")),
        Route("/a/{agent}/act/{act}", _page(act), methods=["POST"]),
        Route("/a/{agent}", _page(screen)),
        Route("/a/{agent}/{screen}", _page(screen)),
        Route("/a/{agent}/{screen}/{item:path}", _page(screen)),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _refused, Problem: _refused})


def _page(handler: Handler) -> Any:
    """A handler that runs in a thread: it asks git, and may wait for it. It gets the fields of a form."""

    async def page(request: Request) -> Response:
        try:
            fields: dict[str, str] = {}
            if request.method == "POST":
                body = (await request.body()).decode(errors="replace")
                fields = dict(parse_qsl(body, keep_blank_values=True))
            return await run_in_threadpool(handler, request, fields)
        except Exception as error:
            return _failed(request, problem_of(error))

    return page


def _head(agent: Agent) -> dict[str, Any]:
    """What stands at the top of every screen."""
    status = agent.status()
    reviews = len(status.awaiting_review or ())
    waiting = len(status.awaiting_approval) + reviews
    return {"agent": agent.name, "status": status, "waiting": waiting, "reviews": reviews}


def _failed(request: Request, problem: Problem) -> Response:
    values = {"problem": problem, "agent": request.path_params.get("agent", "")}
    return render("problem.html", values, problem.status)


async def _refused(request: Request, error: Any) -> Response:
    is_ours = isinstance(error, Problem)
    return _failed(request, error if is_ours else Problem(VALIDATION, error.detail, error.status_code))


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
