"""From what was fetched to what is answered."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from infra.keep.web_door.fetching import Fetched, Fetcher
from infra.keep.web_door.judge import Judge
from infra.keep.web_door.outgoing import Outgoing
from infra.keep.web_door.refusal import WebRefusal, failed, unavailable
from infra.keep.web_door.serving import Served
from infra.keep.web_door.target import target_of
from infra.shared.secret_shapes import redacted, redacted_and_cut
from infra.shared.web import FetchRequest, Page, SearchRequest

Render = Callable[[Fetched, FetchRequest], Awaitable[Page]]
"""Raises WebRefusal."""


class Reading:
    def __init__(self, judge: Judge, fetcher: Fetcher, render: Render, outgoing: Outgoing) -> None:
        self._judge = judge
        self._fetcher = fetcher
        self._render = render
        self._outgoing = outgoing

    async def fetch(self, asked: FetchRequest) -> Served:
        """Raises WebRefusal."""
        target = target_of(asked.url)
        self._judge.host(target, "fetch_page")
        if problem := self._outgoing.problem(target.url, self._judge.names(target.host), time.monotonic()):
            raise WebRefusal(problem, "outgoing")
        fetched = await self._fetcher.fetch(target, "fetch_page")
        page = await self._render(fetched, asked)
        self._outgoing.served(fetched.url, [link.url for link in page.links])
        return Served(page, fetched)

    async def search(self, asked: SearchRequest) -> Served:
        """Raises WebRefusal."""
        raise unavailable("no provider of web searches is set", "the PM names one in web.search_url", retriable=False)


async def plainly(fetched: Fetched, asked: FetchRequest) -> Page:
    """A stand-in: the bytes as text."""
    if not fetched.is_read:
        raise failed(f"{fetched.origin} sent {fetched.content_type}, which is not read")
    text = redacted(fetched.body.decode(errors="replace"))
    return Page(
        url=redacted_and_cut(fetched.url, 8192),
        origin=fetched.origin,
        status=fetched.status,
        content_type=fetched.content_type,
        title="",
        text=text[: asked.max_chars],
        whole=text if len(text) > asked.max_chars else "",
        links=(),
        cut="" if fetched.whole else "the rest of a long page",
        hidden_chars=0,
        invisible_chars=0,
        size=fetched.size,
        sha256=fetched.sha256,
    )
