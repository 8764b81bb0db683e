"""From what was fetched to what is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from infra.keep.web_door.fetching import Fetched, Fetcher
from infra.keep.web_door.refusal import failed, unavailable
from infra.keep.web_door.serving import Served
from infra.shared.secret_shapes import redacted, redacted_and_cut
from infra.shared.web import FetchRequest, Page, SearchRequest

Render = Callable[[Fetched, FetchRequest], Awaitable[Page]]
"""Raises WebRefusal."""


class Reading:
    def __init__(self, fetcher: Fetcher, render: Render) -> None:
        self._fetcher = fetcher
        self._render = render

    async def fetch(self, asked: FetchRequest) -> Served:
        """Raises WebRefusal."""
        fetched = await self._fetcher.fetch(asked.url)
        return Served(await self._render(fetched, asked), fetched)

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
