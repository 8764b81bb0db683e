"""Jobs (`AGENT_RUN`): bounded runs of the loop in an agent's sandbox, beside its work. They lie in SQLite, so that a
kill of any part loses none: a job that was cut short begins again, and its trace shows that."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Iterable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from host.serve.access import WHAT
from host.serve.agents import Agent, Agents
from host.serve.api import answering, as_response, body_of
from host.serve.bridge import BridgeGone
from host.serve.calls import Problem, problem_of
from infra.cell.actions import POLICY, UNAVAILABLE, VALIDATION
from infra.cell.bridge import Bounds, BridgeAnswer
from infra.keep.settings.check import SettingsError, read_settings
from infra.keep.settings.schema import InternalSettings, WebSettings
from infra.shared.clock import timestamp

MOST_WAITING, MOST_LISTED, MOST_TRIES = 100, 200, 3
MOST_LINES, MOST_TRACE_CHARS = 2000, 16 << 20
"""Of the trace of one try; the cell may send any number."""
QUEUED, RUNNING, COMPLETED, FAILED, CANCELLED = "queued", "running", "completed", "failed", "cancelled"
FOLLOW_SECONDS = 0.25
AWAY_SECONDS = 2.0
"""Between looks for an agent that is not up."""
_TABLES = """
CREATE TABLE IF NOT EXISTS jobs (
    id TEXT PRIMARY KEY, agent TEXT NOT NULL, asked TEXT NOT NULL, state TEXT NOT NULL, created_at TEXT NOT NULL,
    ended_at TEXT NOT NULL DEFAULT '', tries INTEGER NOT NULL DEFAULT 0, result TEXT NOT NULL DEFAULT 'null'
);
CREATE TABLE IF NOT EXISTS trace (
    job TEXT NOT NULL, number INTEGER NOT NULL, line TEXT NOT NULL, PRIMARY KEY (job, number)
);
"""


class JobRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /api/wraith`. What is not given is as `agent.internal` says; more is refused."""

    task: Annotated[str, Meta(min_length=1, max_length=100_000)]
    agent: str = ""
    type: Literal["AGENT_RUN"] = "AGENT_RUN"
    allowed_tools: tuple[str, ...] | None = None
    max_steps: Annotated[int, Meta(ge=1)] | None = None
    max_wall_time_ms: Annotated[int, Meta(ge=1)] | None = None
    allow_ghost: bool = False


class Job(msgspec.Struct, frozen=True):
    id: str
    agent: str
    state: str
    created_at: str
    ended_at: str
    tries: int
    """How often it was begun."""
    asked: JobRequest
    result: dict[str, Any] | None
    """`stop_reason`, `text`, `steps`; for a failure `error`, `message`, `retriable`."""


def bounds_of(asked: JobRequest, settings: InternalSettings, web: WebSettings) -> Bounds:
    """Raises Problem for more than the settings allow, and when jobs are off. Pure."""
    if not settings.enabled:
        raise Problem(POLICY, "agent.internal.enabled is false", hint="the PM may set it in minifram.yaml")
    tools = settings.allowed_tools if asked.allowed_tools is None else asked.allowed_tools
    if refused := sorted(set(tools) - set(settings.allowed_tools)):
        raise Problem(POLICY, f"agent.internal.allowed_tools does not hold {', '.join(refused)[:200]}")
    for name in ("max_steps", "max_wall_time_ms"):
        if (given := getattr(asked, name) or 1) > (most := getattr(settings, name)):
            raise Problem(POLICY, f"{name} is {given}; agent.internal.{name} allows {most}")
    if asked.allow_ghost and web.browser == "off":
        raise Problem(UNAVAILABLE, "this agent has no browser (web.browser is off), so allow_ghost cannot be true")
    if asked.allow_ghost and not web.ghost.enabled:
        raise Problem(POLICY, "web.ghost.enabled is false, so allow_ghost cannot be true")
    steps, wall = asked.max_steps or settings.max_steps, asked.max_wall_time_ms or settings.max_wall_time_ms
    return Bounds(tools, steps, wall, settings.max_failures, settings.allowed_domains, asked.allow_ghost)


class Store:
    """The jobs in the database at `path`; may be used from any thread."""

    def __init__(self, path: str) -> None:
        """What ran when the last process ended is queued again."""
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.executescript(_TABLES)
        self._run("UPDATE jobs SET state = ? WHERE state = ?", QUEUED, RUNNING)

    def add(self, agent: str, asked: JobRequest) -> Job:
        """Raises Problem when too many wait."""
        waiting = self._run("SELECT count(*) FROM jobs WHERE agent = ? AND state IN (?, ?)", agent, QUEUED, RUNNING)
        if waiting[0][0] >= MOST_WAITING:
            raise Problem(UNAVAILABLE, f"{MOST_WAITING} jobs wait already", retriable=True)
        id = secrets.token_hex(8)
        words = msgspec.json.encode(asked).decode()
        values = (id, agent, words, QUEUED, timestamp(time.time()))
        self._run("INSERT INTO jobs (id, agent, asked, state, created_at) VALUES (?, ?, ?, ?, ?)", *values)
        return self.get(id)

    def get(self, id: str) -> Job:
        """Raises Problem for an id that is none."""
        found = self.listed("id = ?", id)
        if not found:
            raise Problem(VALIDATION, f"there is no job {id[:40]!r}", 404)
        return found[0]

    def listed(self, where: str = "1", *values: Any) -> list[Job]:
        """The newest first."""
        columns = "id, agent, state, created_at, ended_at, tries, asked, result"
        rows = self._run(f"SELECT {columns} FROM jobs WHERE {where} ORDER BY rowid DESC LIMIT ?", *values, MOST_LISTED)  # noqa: S608 - `where` is ours
        return [_job(*row) for row in rows]

    def next(self, agent: str) -> Job | None:
        """The job that waits longest, which runs from now on."""
        words = (
            "UPDATE jobs SET state = ?, tries = tries + 1 WHERE id = "
            "(SELECT id FROM jobs WHERE agent = ? AND state = ? ORDER BY rowid LIMIT 1) RETURNING id"
        )
        return next((self.get(id) for (id,) in self._run(words, RUNNING, agent, QUEUED)), None)

    def queue_again(self, id: str) -> None:
        self._run("UPDATE jobs SET state = ? WHERE id = ? AND state = ?", QUEUED, id, RUNNING)

    def end(self, id: str, state: str, result: dict[str, Any]) -> bool:
        """The first end of a job is its end; False for another."""
        words = "UPDATE jobs SET state = ?, ended_at = ?, result = ? WHERE id = ? AND ended_at = '' RETURNING id"
        return bool(self._run(words, state, timestamp(time.time()), json.dumps(result), id))

    def record(self, job: Job, answers: Iterable[BridgeAnswer]) -> bool:
        """The trace of a try, as far as there is room, and the end; False when it was cancelled before it began."""
        words = (
            "INSERT INTO trace SELECT id, (SELECT coalesce(max(number), 0) + 1 FROM trace WHERE job = id), ? "
            "FROM jobs WHERE id = ? AND state = ? RETURNING number"
        )
        chars = 0
        for number, answer in enumerate(answers):
            if answer.end is not None:
                self.end(job.id, FAILED if "error" in answer.end else COMPLETED, answer.end)
                return True
            line = json.dumps({"try": job.tries, "line": answer.line})
            chars += len(line)
            if number < MOST_LINES and chars < MOST_TRACE_CHARS and not self._run(words, line, job.id, RUNNING):
                return False
        return True

    def trace(self, id: str, behind: int = 0) -> list[tuple[int, dict[str, Any]]]:
        rows = self._run("SELECT number, line FROM trace WHERE job = ? AND number > ? ORDER BY number", id, behind)
        return [(number, json.loads(line)) for number, line in rows]

    def agents(self) -> list[str]:
        """Those that have work to do."""
        return [name for (name,) in self._run("SELECT DISTINCT agent FROM jobs WHERE state = ?", QUEUED)]

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def _run(self, words: str, *values: Any) -> list[Any]:
        with self._lock:
            return self._database.execute(words, values).fetchall()


def _job(id: str, agent: str, state: str, created: str, ended: str, tries: int, asked: str, result: str) -> Job:
    words = msgspec.json.decode(asked, type=JobRequest)
    return Job(id, agent, state, created, ended, tries, words, json.loads(result))


class Jobs:
    """Takes jobs, and runs them one after the other in a thread for each agent."""

    def __init__(self, store: Store, agents: Agents) -> None:
        """Goes on with what was left."""
        self.store, self.agents = store, agents
        self._workers = dict[str, tuple[threading.Thread, threading.Event]]()
        self._is_over = False
        for name in store.agents():
            self._wake(name)

    def end(self) -> None:
        self._is_over = True
        self.agents.close()
        for thread, more in self._workers.values():
            more.set()
            thread.join(5.0)
        self.store.close()

    def submit(self, asked: JobRequest, default_agent: str) -> Job:
        """Raises Problem."""
        agent = self.agents.get(asked.agent or default_agent)
        bounds_of(asked, *settings_of(agent))
        job = self.store.add(agent.name, asked)
        self._wake(agent.name)
        return job

    def cancel(self, id: str) -> Job:
        job = self.store.get(id)
        if self.store.end(id, CANCELLED, {"stop_reason": CANCELLED, "text": "", "steps": 0}):
            self.agents.get(job.agent).bridge.cancel(id)
        return self.store.get(id)

    def _wake(self, name: str) -> None:
        if name not in self._workers:
            more = threading.Event()
            self._workers[name] = threading.Thread(target=self._work, args=(name, more), daemon=True), more
            self._workers[name][0].start()
        self._workers[name][1].set()

    def _work(self, name: str, more: threading.Event) -> None:
        while not self._is_over:
            more.clear()
            job = self.store.next(name)
            if job is None or not self._is_ended(job):
                more.wait(AWAY_SECONDS if job else None)

    def _is_ended(self, job: Job) -> bool:
        """Do it; False when it waits for its agent, or for the next process."""
        try:
            agent = self.agents.get(job.agent)
            bounds = bounds_of(job.asked, *settings_of(agent))
            if not self.store.record(job, agent.bridge.run(job.id, job.asked.task, bounds)):
                agent.bridge.cancel(job.id)
        except BridgeGone as gone:
            if self._is_over:
                return False
            if not gone.was_begun or job.tries < MOST_TRIES:
                self.store.queue_again(job.id)
                return False
            self.store.end(job.id, FAILED, Problem(UNAVAILABLE, str(gone), retriable=True).as_json())
        except Exception as error:
            self.store.end(job.id, FAILED, problem_of(error).as_json())
        return True


def settings_of(agent: Agent) -> tuple[InternalSettings, WebSettings]:
    """Raises Problem when the settings cannot be read: then no job runs."""
    with contextlib.suppress(SettingsError):
        settings = read_settings(agent.home.settings)
        return settings.agent.internal, settings.web
    raise Problem(POLICY, "minifram.yaml cannot be read, so no job runs", hint="'minifram config' names what is wrong")


def routes(jobs: Jobs, default_agent: str) -> list[Route]:
    """The document's addresses: a job is submitted, looked at, followed and cancelled; a tool is called."""

    async def submit(request: Request) -> Response:
        job = await run_in_threadpool(jobs.submit, await body_of(request, JobRequest), default_agent)
        request.scope[WHAT] = {"job": job.id, "agent": job.agent}
        return as_response({"id": job.id, "state": job.state}, 202)

    async def listed(request: Request) -> Response:
        return as_response({"jobs": await run_in_threadpool(jobs.store.listed)})

    async def shown(request: Request) -> Response:
        job = await run_in_threadpool(jobs.store.get, request.path_params["id"])
        trace = await run_in_threadpool(jobs.store.trace, job.id)
        return as_response(msgspec.to_builtins(job) | {"trace": [line for _, line in trace]})

    async def cancel(request: Request) -> Response:
        request.scope[WHAT] = {"cancel": request.path_params["id"]}
        return as_response(await run_in_threadpool(jobs.cancel, request.path_params["id"]))

    async def events(request: Request) -> Response:
        job = await run_in_threadpool(jobs.store.get, request.path_params["id"])
        behind = request.headers.get("last-event-id", "")
        lines = followed(jobs.store, job.id, int(behind) if behind.isdecimal() else 0)
        return StreamingResponse(lines, media_type="text/event-stream")

    async def tool(request: Request) -> Response:
        name = request.path_params["name"]
        given = await body_of(request, dict[str, Any])
        request.scope[WHAT] = {"tool": name, "args": given}
        agent = jobs.agents.get(request.query_params.get("agent", default_agent))
        return as_response(await run_in_threadpool(agent.bridge.tool, name, given))

    return [
        Route("/api/wraith", answering(submit), methods=["POST"]),
        Route("/api/jobs", answering(listed)),
        Route("/api/jobs/{id}", answering(shown)),
        Route("/api/jobs/{id}/events", answering(events)),
        Route("/api/jobs/{id}/cancel", answering(cancel), methods=["POST"]),
        Route("/api/tools/{name}", answering(tool), methods=["POST"]),
    ]


async def followed(store: Store, id: str, behind: int) -> AsyncIterator[str]:
    """Each line of the trace as it comes, and the job itself when it is over."""
    while True:
        job = await run_in_threadpool(store.get, id)
        for number, line in await run_in_threadpool(store.trace, id, behind):
            behind = number
            yield f"id: {number}\nevent: step\ndata: {json.dumps(line)}\n\n"
        if job.ended_at:
            yield f"event: end\ndata: {msgspec.json.encode(job).decode()}\n\n"
            return
        await asyncio.sleep(FOLLOW_SECONDS)
