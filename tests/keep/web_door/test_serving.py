"""What the door answers to its callers: errors with a type, nothing that has the shape of a secret, fair turns."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from infra.keep.web_door.fetching import Fetched
from infra.keep.web_door.refusal import WebRefusal, denied, failed, late, unavailable
from infra.keep.web_door.serving import Served, WebDoor
from infra.keep.web_door.trace import Trace
from infra.keep.web_door.turns import Turns
from infra.shared.web import FETCH_PATH, SEARCH_PATH, STATUS_OF, FetchRequest, SearchRequest, SearchResults, TraceLine

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"  # has the shape of a secret, and is none


async def no_search(_: SearchRequest) -> Served:
    found = Fetched("https://s.example/?q=x", "https://s.example", 200, "application/json", "", b"{}", True, "ab", 0, 2)
    return Served(SearchResults("https://s.example", "text", 1), found)


class Asked:
    """A door of which each fetch does `act`."""

    def __init__(self, folder: Path, act: Callable[[FetchRequest], Awaitable[Served]]) -> None:
        self._path = folder / "trace"
        self._descriptor = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        door = WebDoor(act, no_search, Trace(self._descriptor), 1.0, now=lambda: 0.0)
        self.client = TestClient(door.app, raise_server_exceptions=False)

    def close(self) -> None:
        os.close(self._descriptor)

    def lines(self) -> list[TraceLine]:
        return [msgspec.json.decode(line, type=TraceLine) for line in self._path.read_bytes().splitlines()]


def test_each_error_has_its_status_and_its_line(tmp_path: Path) -> None:
    refusals: list[WebRefusal | Exception] = [
        denied(f"no {KEY}", f"hint {KEY}", "rule 1"),
        failed("f", retriable=True),
        late("l"),
        unavailable("u"),
        RuntimeError(KEY),
    ]

    async def act(asked: FetchRequest) -> Served:
        raise refusals[int(asked.url)]

    asked = Asked(tmp_path, act)
    answers = [asked.client.post(FETCH_PATH, json={"url": str(number)}) for number in range(len(refusals))]
    asked.close()
    errors = [answer.json()["error"] for answer in answers]
    kinds = ["policy_denied", "execution_error", "tool_timeout", "tool_unavailable", "tool_unavailable"]
    assert [error["type"] for error in errors] == kinds
    assert [answer.status_code for answer in answers] == [STATUS_OF[kind] for kind in kinds]  # type: ignore[index]
    assert errors[0]["message"] == "no [secret]"
    assert KEY not in "".join(answer.text for answer in answers)
    assert [(line.status, line.error_code) for line in asked.lines()] == [
        ("denied", kinds[0]),
        *(("error", kind) for kind in kinds[1:]),
    ]
    assert asked.lines()[0].policy_flags == ("rule 1",)


def test_requests_that_are_none(tmp_path: Path) -> None:
    async def act(_: FetchRequest) -> Served:
        raise AssertionError("unreachable: it is no request")

    asked = Asked(tmp_path, act)
    post = asked.client.post
    for answer in (
        *(post(FETCH_PATH, json={}), post(FETCH_PATH, content=b"\xff"), post(FETCH_PATH, json={"url": "x", "more": 1})),
        *(post(FETCH_PATH, json={"url": "x", "max_chars": 1}), post(SEARCH_PATH, json={"query": ""})),
        post(FETCH_PATH, content=b"[" * 70_000),
    ):
        assert (answer.status_code, answer.json()["error"]["type"]) == (400, "validation_error")
    assert post("/v1/other", json={}).status_code == 404
    assert "answers GET /health, POST /v1/fetch" in post("/v1/other", json={}).json()["error"]["message"]
    asked.close()
    assert asked.lines() == []


def test_addresses_are_redacted_in_the_trace(tmp_path: Path) -> None:
    """The one that was asked for and the final one; the same arguments have the same hash."""

    async def act(asked: FetchRequest) -> Served:
        raise failed("it is down")

    asked = Asked(tmp_path, act)
    for run in ("a", "b"):
        asked.client.post(FETCH_PATH, json={"url": f"https://a.example/?token={KEY}", "run": run})
    asked.client.post(SEARCH_PATH, json={"query": f"{KEY}"})
    asked.close()
    first, second, search = asked.lines()
    assert first.url == "https://a.example/?token=[secret]"
    assert first.args_hash == second.args_hash != search.args_hash
    assert (search.status, search.tool_name, search.artifacts) == ("ok", "web_search", ("sha256:ab",))
    assert KEY not in json.dumps(msgspec.to_builtins([first, second, search]))


def test_turns_are_fair() -> None:
    """With all places taken by one caller that waits for more, the next place is another's; who gives up has none."""

    async def run() -> list[str]:
        turns, order, gate = Turns(2), list[str](), asyncio.Event()

        async def one(caller: str, seconds: float = 5.0) -> None:
            async with turns.turn(caller, seconds):
                order.append(caller)
                await gate.wait()

        greedy = [asyncio.ensure_future(one("greedy")) for _ in range(5)]
        await asyncio.sleep(0)
        with pytest.raises(WebRefusal) as refusal:
            await one("hasty", 0.01)
        assert refusal.value.error.type == "tool_unavailable"
        left = asyncio.ensure_future(one("gone"))
        await asyncio.sleep(0)
        left.cancel()
        modest = asyncio.ensure_future(one("modest"))
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(*greedy, modest)
        return order

    assert asyncio.run(run()) == ["greedy", "greedy", "modest", "greedy", "greedy", "greedy"]


def test_a_torn_line_harms_no_other(tmp_path: Path) -> None:
    """A write that fails in the middle: the next line stands by itself."""
    line = TraceLine("at", "", "", "fetch_page", "", 1, "ok")
    read, write = os.pipe()
    os.set_blocking(write, False)
    os.write(write, b"x" * 65500)
    trace: Any = Trace(write)
    with pytest.raises(BlockingIOError):
        trace.write(line)
    os.read(read, 1 << 20)
    with pytest.raises(OSError, match="Invalid argument"):  # a pipe cannot be synced
        trace.write(line)
    assert os.read(read, 1 << 20) == b"\n" + msgspec.json.encode(line) + b"\n"
    for each in (read, write):
        os.close(each)
