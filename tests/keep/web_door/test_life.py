"""The web door as a program: started when somebody waits, on record before it answers, replaced under its callers."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from infra.keep.cut_logs import OLDER
from infra.keep.services.doors import Services, doors, outage
from infra.shared.door import connect
from infra.shared.paths import Paths
from infra.shared.web import Fetch
from tests.keep.supervision.agents import within

SECONDS = 30.0
BODY = b"<title>A page</title><p>words of the page"
WEBHOOK = "https://example.org/a-key-by-itself"


class _Handler(http.server.BaseHTTPRequestHandler):
    asked: list[str] = []  # noqa: RUF012 - of one test
    go_on = threading.Event()

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path.startswith("/slow"):
            self.go_on.wait(SECONDS)
        self.send_response(404 if self.path == "/robots.txt" else 200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_: object) -> None:
        pass


class World:
    """An agent's doors as a watcher has them, of which only the web door runs, and a site."""

    def __init__(self, folder: Path, site: str) -> None:
        self.site = site
        places = [str(folder / name) for name in ("bot", "remote", "run", "var")]
        self.places = Paths(*places)
        for place in places:
            os.mkdir(place)
        settings = folder / "minifram.yaml"
        settings.write_text(
            f"policy: {{rules: [{{do: allow, domains: [127.0.0.1]}}]}}\nnotify: {{command: 'curl {WEBHOOK}'}}\n"
        )
        settings.chmod(0o600)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.package_port: int = free.getsockname()[1]
        self.service = doors(str(settings), self.places, package_port=self.package_port)[2]
        self._events = (folder / "events").open("w")
        log = structlog.wrap_logger(structlog.PrintLogger(self._events))
        self.services = Services([self.service], self.places, 1 << 20, log)
        self._stops = False
        self._tending = threading.Thread(target=self._tend)

    def begin(self) -> None:
        self._tending.start()
        self.listens()

    def listens(self) -> None:
        """Wait until somebody does at its socket, which is there a moment before; its mode is set last."""

        def is_open() -> bool | None:
            path = self.places.web_socket
            return (os.path.exists(path) and os.stat(path).st_mode & 0o777 == 0o666) or None

        within(SECONDS, is_open, "the socket")

    def end(self) -> None:
        self._stops = True
        self._tending.join()
        self.services.end(5.0)
        self._events.close()

    def _tend(self) -> None:
        while not self._stops:
            self.services.tend(time.monotonic())
            time.sleep(0.005)

    @property
    def pid(self) -> int:
        return self.service.process.pid if self.service.process else 0

    def ask(self, path: str) -> socket.socket:
        """A request whose answer nobody has read yet."""
        wire = connect(self.places.web_socket, SECONDS)
        wire.sendall(msgspec.json.encode(Fetch(self.site + path, run="R1", step="3")) + b"\n")
        return wire

    def trace(self) -> list[dict[str, Any]]:
        try:
            return [json.loads(line) for line in Path(self.places.web_trace).read_text().splitlines()]
        except FileNotFoundError:  # it was never started
            return []


def answer(wire: socket.socket) -> Any:
    """A page, or a failure."""
    with wire:
        said = json.loads(b"".join(iter(lambda: wire.recv(65536), b"")))
    return said.get("answer") or said["failure"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    _Handler.asked, _Handler.go_on = [], threading.Event()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        made = World(tmp_path, f"http://127.0.0.1:{server.server_port}")
        made.begin()
        try:
            yield made
        finally:
            _Handler.go_on.set()
            made.end()
            server.shutdown()


@pytest.mark.attack("S60")
def test_a_life(world: World) -> None:
    """No process before the first request; a line before the answer; slow pages of one caller keep out no other's;
    killed in the middle of a request, another stands in its place, and who waits in the queue meets that one; none of
    it is an outage."""
    now = time.monotonic()
    assert (world.pid, outage(world.services, world.places, now, now)) == (0, "")
    page = answer(world.ask("/a"))
    assert "Title: A page" in page["text"]
    (line,) = world.trace()
    assert (line["status"], line["run_id"], line["step_id"], line["tool_name"]) == ("ok", "R1", "3", "fetch_page")
    assert (line["url"], line["origin"], line["uid"]) == (f"{world.site}/a", world.site, os.getuid())
    assert line["artifacts"] == [f"sha256:{hashlib.sha256(BODY).hexdigest()}"]
    first = world.pid
    given = Path(f"/proc/{first}/fd/0").read_text()
    assert "127.0.0.1" in given
    assert WEBHOOK not in given, "an address that is a key"

    caught = [world.ask(f"/slow{number}") for number in range(5)]
    within(SECONDS, lambda: sum(path.startswith("/slow") for path in _Handler.asked) == 5 or None, "the slow ones")
    assert answer(world.ask("/a"))["status"] == 200
    os.kill(first, signal.SIGKILL)
    waiting = world.ask("/b")  # before or after the next one is there, as it comes
    for each in caught:
        with each:
            assert each.recv(100) == b""
    assert answer(waiting)["status"] == 200
    assert world.pid not in (0, first)
    assert outage(world.services, world.places, time.monotonic(), now) == ""
    assert [each["url"].removeprefix(world.site) for each in world.trace()] == ["/a", "/a", "/b"]

    assert answer(world.ask("@10.0.0.1/"))["type"] == "validation_error"
    assert [each["status"] for each in world.trace()] == ["ok", "ok", "ok", "error"]


@pytest.mark.attack("S60")
def test_nothing_is_served_without_its_line(world: World) -> None:
    """The trace on a full disk: the answer is an error that says so."""
    os.symlink("/dev/full", world.places.web_trace)
    failure = answer(world.ask("/a"))
    assert (failure["type"], failure["retriable"]) == ("tool_unavailable", True)
    assert "cannot be recorded" in failure["message"]


def test_pip_wakes_it_too(world: World) -> None:
    """At the port for packages, which the watcher holds as well."""
    assert world.pid == 0
    with socket.create_connection(("127.0.0.1", world.package_port), SECONDS) as wire:
        wire.sendall(b"GET /elsewhere.example/simple/ HTTP/1.1\r\n\r\n")
        assert wire.recv(100).startswith(b"HTTP/1.1 403 ")
    assert [(line["status"], line["tool_name"]) for line in world.trace()] == [("denied", "package")]


def test_a_long_trace_is_moved_before_the_next_door_starts(world: World) -> None:
    """Never under one that writes, so no line is lost."""
    assert answer(world.ask("/a"))["status"] == 200
    trace = Path(world.places.web_trace)
    with trace.open("ab") as file:
        file.write(b"\n" * (2 << 20))
    assert answer(world.ask("/b"))["status"] == 200
    os.kill(world.pid, signal.SIGKILL)
    assert answer(world.ask("/c"))["status"] == 200
    assert [line["url"] for line in world.trace()] == [f"{world.site}/c"]
    assert Path(f"{trace}{OLDER}").read_bytes().count(b"}\n") == 2


def test_what_is_given_up_is_on_record(world: World) -> None:
    """The page of a caller who leaves, and all that a door that is stopped had under way, whose callers are told."""
    world.ask("/slow").close()
    line = within(SECONDS, lambda: next(iter(world.trace()), None), "a line")
    assert (line["status"], line["policy_flags"]) == ("error", ["caller_gone"])
    with world.ask("/slower") as caught:
        within(SECONDS, lambda: "/slower" in _Handler.asked or None, "the request at the site")
        os.kill(world.pid, signal.SIGTERM)
        assert "is being stopped" in answer(caught)["message"]
    assert [each["error_code"] for each in world.trace()] == ["execution_error", "tool_unavailable"]
