"""Jobs, tools and MCP over `minifram serve`, with a whole agent beneath: real watcher, doors and processes."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import itertools
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from host.serve.bridge import MOST_CALLS
from infra.cell.bridge import MOST_KEPT
from infra.keep.programs import keep_command
from tests.whole.owner import Owner

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]

SCRIPT = """\
scenes:
  - name: writes
    when: {job: "write a file"}
    replies:
      - tools: [{name: write_file, input: {path: a.txt, content: hello}}, {name: bash, input: {command: "cat a.txt"}}]
      - text: a.txt holds hello.
  - name: reads
    when: {job: "read the page"}
    replies:
      - tools: [{name: fetch_page, input: {url: "SITE/page"}}]
      - tools: [{name: fetch_page, input: {url: "http://elsewhere.example/"}}]
      - text: I read it.
  - name: sleeps
    when: {job: "sleep"}
    replies:
      - tools: [{name: bash, input: {command: "setsid -f sleep 600; sleep 600"}}]
  - name: forbidden
    when: {job: "push"}
    replies:
      - tools: [{name: bash, input: {command: "git push origin main"}}]
      - text: It is forbidden.
"""
SETTINGS = """\
sandbox: process
model: {provider: scripted, name: SCRIPT}
policy: {private_networks: allow, rules: [{do: deny, commands: ["git push *"], why: nobody pushes}]}
agent:
  internal:
    enabled: ENABLED
    allowed_tools: [bash, write_file, fetch_page]
    allowed_domains: [DOMAINS]
    max_steps: 6
    max_wall_time_ms: 60000
"""


@contextlib.contextmanager
def a_site(page: Callable[[str], tuple[int, str]]) -> Iterator[str]:
    """What it gives for a path is a status and a text; a 403 is a wall's."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = page(self.path)
            self.send_response(status)
            self.send_header("content-type", "text/html; charset=utf-8")
            if status == 403:
                self.send_header("cf-mitigated", "challenge")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Station:
    """An agent that is up, and the server beside it."""

    def __init__(self, directory: Path, site: str) -> None:
        self.owner, self.site = Owner(directory), site
        self.owner.minifram("init", "--sandbox", "process")
        script = self.owner.settings.parent / "script.yaml"
        script.write_text(SCRIPT.replace("SITE", site))
        self.enable(True)
        self.owner.minifram("up")
        self.begin()

    def enable(self, is_on: bool, domains: str = "") -> None:
        text = SETTINGS.replace("SCRIPT", "script.yaml").replace("ENABLED", str(is_on).lower())
        text = text.replace("DOMAINS", domains)
        self.owner.settings.write_text(text)

    def begin(self) -> None:
        words = keep_command("host", "serve", "--listen", "127.0.0.1:0")
        self.process = subprocess.Popen(words, env=self.owner.env, cwd="/", stderr=subprocess.PIPE, text=True)
        assert self.process.stderr
        while "token=" not in (line := self.process.stderr.readline()):
            assert line, self.process.wait(10)
        self.base, _, self.token = line.strip().replace("/enter?token=", " ").partition(" ")
        headers = {"authorization": f"Bearer {self.token}"}
        self.client = httpx2.Client(base_url=self.base, headers=headers, timeout=60)

    def end(self, number: int = signal.SIGTERM) -> None:
        self.client.close()
        self.process.send_signal(number)
        self.process.communicate(timeout=30)

    def submit(self, task: str, **more: Any) -> str:
        answer = self.client.post("/api/wraith", json={"task": task, **more})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def job(self, id: str) -> Any:
        return self.client.get(f"/api/jobs/{id}").json()

    def until(self, look: Callable[[], Any], what: str) -> Any:
        return self.owner.until(60, look, what)

    def ended(self, id: str) -> Any:
        return self.until(lambda: (job := self.job(id))["state"] not in ("queued", "running") and job, "the end")

    def acted(self, job: Any) -> list[Any]:
        return [each["line"] for each in job["trace"] if each["line"]["kind"] == "acted"]

    def bridge(self) -> psutil.Process:
        children = psutil.Process(self.process.pid).children()
        return next(each for each in children if "infra.cell.bridge" in each.cmdline())


@pytest.fixture(scope="module")
def station(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Station]:
    kettles = "<h1>Kettles</h1><p>A kettle boils water.</p>"
    with a_site(lambda path: (200 if path == "/page" else 404, kettles)) as site, contextlib.ExitStack() as closing:
        made = Station(tmp_path_factory.mktemp("station"), site)
        closing.callback(made.owner.close)
        yield made
        made.end()


def test_a_job_is_a_bounded_run_with_its_trace(station: Station) -> None:
    """Its files lie in a directory of its own; the trace has the fields of every trace; the money has its label."""
    job = station.ended(station.submit("write a file"))
    assert (job["state"], job["result"]["stop_reason"]) == ("completed", "completed")
    assert job["result"]["text"] == "a.txt holds hello."
    wrote, ran = station.acted(job)
    assert (wrote["tool_name"], wrote["status"]) == ("write_file", "ok")
    assert "hello" in ran["content"]
    fields = {"run_id", "step_id", "tool_name", "args_hash", "duration_ms", "status", "error_code", "artifacts"}
    assert fields | {"policy_flags"} <= set(wrote)
    assert (station.owner.bot / ".jobs" / job["id"] / "a.txt").read_text() == "hello"
    ledger = (station.owner.directory / "state/minifram/agent/ledger.jsonl").read_text()
    assert f'"run":"job-{job["id"]}","label":"job"' in ledger


def test_what_the_policy_forbids_is_not_done(station: Station) -> None:
    """By the PM's rules, and by the domains of jobs; it is in the trace, with its reason."""
    (pushed,) = station.acted(station.ended(station.submit("push")))
    assert (pushed["status"], pushed["error_code"]) == ("denied", "policy_denied")
    assert "nobody pushes" in pushed["content"]
    station.enable(True, "example.org")
    try:
        read, elsewhere = station.acted(station.ended(station.submit("read the page")))
    finally:
        station.enable(True)
    assert (read["status"], elsewhere["status"]) == ("denied", "denied")
    assert "allowed_domains does not hold 'elsewhere.example'" in elsewhere["content"]


def test_more_than_the_pm_allows_is_refused(station: Station) -> None:
    """What is too much is decided in `tests/host/serve/test_bridge.py`."""
    for more, status, words in (
        ({"max_steps": 7}, 403, "agent.internal.max_steps allows 6"),
        ({"max_steps": 0}, 422, "max_steps"),
        ({"agent": "nobody"}, 404, "no agent"),
        ({"other": 1}, 422, "other"),
    ):
        answer = station.client.post("/api/wraith", json={"task": "x"} | more)
        assert (answer.status_code, words in answer.json()["message"]) == (status, True), answer.text


def test_a_job_ends_at_its_bounds(station: Station) -> None:
    """Of its steps and of its tools: one that it may not use is none."""
    job = station.ended(station.submit("write a file", allowed_tools=["bash"], max_steps=1))
    assert (job["result"]["stop_reason"], job["result"]["steps"]) == ("max_steps", 1)
    wrote, ran = station.acted(job)
    assert (wrote["error_code"], "no such tool" in wrote["content"]) == ("validation_error", True)
    assert ran["status"] == "ok"


def test_a_job_is_cancelled_with_all_that_it_started(station: Station) -> None:
    """Until then its directory is there, and what it started runs, however many calls come and end beside it."""
    id = station.submit("sleep")
    station.until(lambda: station.job(id)["trace"], "it began")
    station.until(lambda: len(_sleepers(station)) >= 2, "its commands run")
    for _ in range(MOST_KEPT + 1):
        station.client.post("/api/tools/fetch_page", json={"url": "nowhere"})
    assert (station.owner.bot / ".jobs" / id).is_dir()
    assert len(_sleepers(station)) >= 2
    assert station.client.post(f"/api/jobs/{id}/cancel").json()["state"] == "cancelled"
    station.until(lambda: not _sleepers(station), "its commands have ended")
    assert station.job(id)["state"] == "cancelled"
    assert station.client.post(f"/api/jobs/{id}/cancel").json()["state"] == "cancelled"


def _sleepers(station: Station) -> list[psutil.Process]:
    with contextlib.suppress(StopIteration, psutil.Error):
        return [each for each in station.bridge().children(recursive=True) if each.name() == "sleep"]
    return []


@pytest.mark.parametrize("killed", ["serve", "bridge", "child"])
def test_a_kill_loses_no_job(station: Station, killed: str) -> None:
    """It begins again, which its trace shows, and has one result; the child's end is its own."""
    id = station.submit("sleep")
    station.until(lambda: _sleepers(station), "it runs")
    match killed:
        case "serve":
            station.end(signal.SIGKILL)
            station.begin()
        case "bridge":
            station.bridge().kill()
        case _:
            os.kill(station.bridge().children()[0].pid, signal.SIGKILL)
            job = station.ended(id)
            assert (job["state"], job["result"]["error"]) == ("failed", "execution_error")
            return
    again = station.until(lambda: (job := station.job(id))["tries"] == 2 and job["trace"] and job, "it began again")
    assert again["state"] == "running"
    station.until(lambda: {each["try"] for each in station.job(id)["trace"]} == {1, 2}, "the trace shows it")
    assert station.client.post(f"/api/jobs/{id}/cancel").json()["state"] == "cancelled"
    station.until(lambda: not _sleepers(station), "it has ended")


def test_a_job_is_followed_to_its_end_and_from_where_one_was(station: Station) -> None:
    id = station.submit("write a file")
    with station.client.stream("GET", f"/api/jobs/{id}/events") as stream:
        text = "".join(stream.iter_text())
    assert text.count('"kind": "acted"') == 2
    assert text.rstrip().split("\n\n")[-1].startswith("event: end")
    last = [line.removeprefix("id: ") for line in text.splitlines() if line.startswith("id: ")][-1]
    rest = station.client.get(f"/api/jobs/{id}/events", headers={"last-event-id": last}).text
    assert "event: step" not in rest
    assert "event: end" in rest


def test_three_ways_to_a_tool_say_the_same(station: Station) -> None:
    """The loop, HTTP and MCP: the page, and the refusal of an address that is none."""
    (read, _) = station.acted(station.ended(station.submit("read the page")))
    by_http = station.client.post("/api/tools/fetch_page", json={"url": f"{station.site}/page"}).json()
    by_mcp = _mcp(station, "fetch_page", {"url": f"{station.site}/page"})
    frames = [text.split("\n") for text in (read["content"], by_http["content"], by_mcp["content"][0]["text"])]
    assert frames[0][1:-1] == frames[1][1:-1] == frames[2][1:-1]  # the mark of a frame is new each time
    assert by_http["args_hash"] == read["args_hash"]
    assert {"tool_name", "duration_ms", "status", "artifacts", "policy_flags"} <= set(by_http)
    bad = station.client.post("/api/tools/fetch_page", json={"url": "nowhere"})
    assert (bad.status_code, bad.json()["error"]) == (422, "validation_error")
    refused = _mcp(station, "fetch_page", {"url": "nowhere"})
    assert refused["isError"]
    assert json.loads(refused["content"][0]["text"])["message"] == bad.json()["message"]


def _mcp(station: Station, name: str, given: dict[str, Any]) -> Any:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": given}}
    return station.client.post("/mcp", json=message).json()["result"]


def test_while_jobs_are_off_tools_are_not(station: Station) -> None:
    station.enable(False)
    try:
        answer = station.client.post("/api/wraith", json={"task": "x"})
        assert (answer.status_code, answer.json()["error"]) == (403, "policy_denied")
        assert "agent.internal.enabled" in answer.json()["message"]
        assert station.client.post("/api/tools/fetch_page", json={"url": f"{station.site}/page"}).status_code == 200
        station.owner.settings.write_text("agent: {internal: {max_steps: none}}")
        assert "no job runs" in station.client.post("/api/wraith", json={"task": "x"}).json()["message"]
    finally:
        station.enable(True)


def test_a_program_in_the_sandbox_that_hangs_takes_no_thread_of_the_page(station: Station) -> None:
    """The cell can stop it. So many calls wait, the rest are told to come again, and the page is there."""

    def call(_: int) -> int:
        answer = station.client.post("/api/tools/fetch_page", json={"url": f"{station.site}/page"})
        assert answer.status_code == 200 or answer.json()["retriable"]
        return answer.status_code

    assert call(0) == 200
    stopped = station.bridge()
    stopped.suspend()
    with ThreadPoolExecutor(5 * MOST_CALLS) as threads:
        calls = [threads.submit(call, number) for number in range(5 * MOST_CALLS)]
        try:
            refused = list(itertools.islice(as_completed(calls, timeout=60), 4 * MOST_CALLS))
            assert {each.result() for each in refused} == {503}
            assert station.client.get("/a/agent/now").status_code == 200
        finally:
            stopped.resume()
        assert sorted(each.result() for each in calls) == [200] * MOST_CALLS + [503] * 4 * MOST_CALLS


@pytest.mark.parametrize("way", ["http", "stdio"])
def test_the_official_client_speaks_mcp(station: Station, way: str) -> None:
    """It finds the tools, reads the status, gives a directive, and is told of an error as a result."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client

    async def talk() -> None:
        async with contextlib.AsyncExitStack() as closing:
            if way == "http":
                client = await closing.enter_async_context(_async_client(station))
                streams = await closing.enter_async_context(
                    streamable_http_client(f"{station.base}/mcp", http_client=client)
                )
            else:
                command, *words = keep_command("host", "mcp")
                program = StdioServerParameters(command=command, args=words, env=station.owner.env, cwd="/")
                streams = await closing.enter_async_context(stdio_client(program))
            session = await closing.enter_async_context(ClientSession(streams[0], streams[1]))
            await session.initialize()
            names = {tool.name for tool in (await session.list_tools()).tools}
            assert {"fetch_page", "web_search", "status", "tell", "reports", "review", "task"} == names
            status = await session.call_tool("status", {})
            assert "running" in status.content[0].text  # type: ignore[union-attr]
            told = await session.call_tool("tell", {"text": f"say hello by {way}"})
            assert not told.is_error
            assert (await session.call_tool("tell", {"text": ""})).is_error

    asyncio.run(talk())
    assert f"say hello by {way}" in station.owner.page()


def _async_client(station: Station) -> Any:
    import httpx2 as httpx

    return httpx.AsyncClient(headers={"authorization": f"Bearer {station.token}"}, timeout=60)


def test_the_agent_is_stopped_and_started_from_the_page(station: Station) -> None:
    """While it is down, a tool says so and the page goes on."""

    def act(name: str) -> Any:
        return station.client.post(f"/api/v1/agents/agent/acts/{name}", json={})

    assert act("down").status_code == 200
    down = station.client.post("/api/tools/fetch_page", json={"url": f"{station.site}/page"})
    assert (down.status_code, down.json()["error"]) == (503, "tool_unavailable")
    assert station.client.get("/api/v1/agents/agent/status").json()["running"] is False
    assert act("up").status_code == 200
    text = station.owner.settings.read_text()
    station.owner.settings.write_text(text.replace("private_networks: allow", "private_networks: deny"))
    assert act("restart").status_code == 200
    denied = station.client.post("/api/tools/fetch_page", json={"url": f"{station.site}/page"})
    assert (denied.status_code, denied.json()["error"]) == (403, "policy_denied")  # the bridge begins anew, too
    station.enable(True)
    assert act("restart").status_code == 200
    assert station.client.post("/api/tools/fetch_page", json={"url": f"{station.site}/page"}).status_code == 200
