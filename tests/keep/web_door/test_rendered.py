"""Pages that a browser shows: framed, judged, recorded and held against the proxy as pages that come are."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from infra.keep.door_server import Caller, Refusal
from infra.keep.eye.blocked import Signals
from infra.keep.eye.messages import Look, Seen
from infra.keep.settings.schema import GhostSettings, StreamSettings, WebSettings
from infra.keep.web_door.app import WebDoor
from infra.keep.web_door.browsers import Pool
from infra.keep.web_door.judge import Judge
from infra.keep.web_door.proxy import Errand
from infra.keep.web_door.trace import Trace
from infra.keep.web_door.worker import Readers
from infra.shared.door import Failure
from infra.shared.web import Fetch, Page
from tests.keep.web_door.sites import NAMED, Site, fetcher, page

HERE = "http://here/p"
"""Stands for the address of the site, whose port is not known before."""
SHELL = page(b"<div id=root></div><script src=/app.js></script>")
JPEG = b"\xff\xd8\xff a picture"
ON = WebSettings(browser="on", ghost=GhostSettings(enabled=True))
STREAMED = WebSettings(browser="on", stream=StreamSettings(enabled=True))


class Shown(Pool):
    """A browser that shows this, and has asked for nothing but what it was sent to."""

    def __init__(self, seen: Seen) -> None:
        self.seen, self.looks = seen, list[Look]()

    async def look(self, asked: Look, errand: Errand) -> Seen:
        self.looks.append(asked)
        errand.origins.add(asked.url.rpartition("/")[0])
        errand.loaded = 100
        return replace(self.seen, url=asked.url) if self.seen.url == HERE else self.seen


FILLED = Seen(HERE, 200, {}, "<title>T</title><p>words of the page, and a <a href=/next>link</a>", notes=("a dialog",))
EMPTY = Seen(HERE, 200, {}, "<p></p>", signals=Signals(0, 2, 0, True))


def asked(folder: Path, shown: Shown | None, *requests: Fetch, web: WebSettings = ON) -> tuple[list[Any], list[Any]]:
    """The answers or failures, and the lines of the trace."""
    with (folder / "trace").open("ab") as file:
        trace = Trace(file.fileno(), lambda: None)

        async def run() -> list[Any]:
            readers, answers = Readers(), list[Any]()
            door = WebDoor(web, Judge(NAMED), fetcher(), readers, trace, shown)
            async with Site({"/p": SHELL}).running() as site:
                for request in requests:
                    at = f"http://site.example:{site.port}/p"
                    try:
                        left = asyncio.get_running_loop().create_future()
                        answers.append(await door.answer(replace(request, url=at), Caller(1, 7, left)))
                    except Refusal as refusal:
                        answers.append(refusal.failure)
            readers.close()
            return answers

        answers = asyncio.run(run())
    return answers, [json.loads(line) for line in (folder / "trace").read_text().splitlines()]


def test_a_rendered_page_stands_in_the_frame_and_on_record(tmp_path: Path) -> None:
    [found], [line] = asked(tmp_path, Shown(FILLED), Fetch(HERE, mode="rendered", run="r1"))
    assert isinstance(found, Page)
    assert "text from http://site.example" in found.text
    assert "words of the page" in found.text
    assert "a dialog" in found.text
    assert (line["status"], line["render_mode"], line["tool_name"]) == ("ok", "rendered", "fetch_page")


def test_what_is_to_be_tried_next_is_told(tmp_path: Path) -> None:
    shown = Shown(EMPTY)
    [came, rendered], _ = asked(tmp_path, shown, Fetch(HERE), Fetch(HERE, mode="rendered"))
    assert (came.blocked, came.then) == ("shell", "rendered")
    assert (rendered.blocked, rendered.then) == ("shell", "ghost")


def test_without_a_browser_nothing_is_tried(tmp_path: Path) -> None:
    [came, refused, picture], _ = asked(
        tmp_path, None, Fetch(HERE), Fetch(HERE, mode="rendered"), Fetch(HERE, mode="screenshot"), web=WebSettings()
    )
    assert came.then == ""
    assert isinstance(refused, Failure)
    assert (refused.type, picture.type) == ("tool_unavailable", "tool_unavailable")


@pytest.mark.parametrize("other", ["https://b.example/", "file:///etc/passwd", "chrome://version"])
@pytest.mark.attack("S69")
def test_a_browser_is_not_believed_where_it_was(tmp_path: Path, other: str) -> None:
    lying = Seen(other, 200, {}, "<p>of a bank")
    [refused], [line] = asked(tmp_path, Shown(lying), Fetch(HERE, mode="rendered"))
    assert isinstance(refused, Failure)
    assert other not in refused.message
    assert line["status"] == "error"
    assert "answered" in line["policy_flags"]  # it taints


def test_a_picture_comes_with_a_frame(tmp_path: Path) -> None:
    shown = Shown(Seen(HERE, 200, {}, "", JPEG))
    [made], [line] = asked(tmp_path, shown, Fetch(HERE, mode="ghost"))
    assert isinstance(made, Page)
    assert "text from http://site.example" in made.text
    assert made.nonce in made.text
    assert (line["tool_name"], line["render_mode"]) == ("ghost_extract", "ghost")
    assert shown.looks[0].width == 1280


def test_ghost_is_the_pm_s_to_allow(tmp_path: Path) -> None:
    [refused], [line] = asked(tmp_path, Shown(FILLED), Fetch(HERE, mode="ghost"), web=WebSettings(browser="on"))
    assert isinstance(refused, Failure)
    assert refused.type == "policy_denied"
    assert line["status"] == "denied"


def test_what_it_shows_meanwhile_is_asked_for_where_the_pm_says_so(tmp_path: Path) -> None:
    shown = Shown(FILLED)
    for web in (STREAMED, ON):
        asked(tmp_path, shown, Fetch(HERE, mode="rendered"), web=web)
    assert [look.stream_quality for look in shown.looks] == [25, 0]
