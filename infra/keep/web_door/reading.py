"""A request, from its address to its answer: what may be sent, what came, what is shown of it."""

from __future__ import annotations

import time

from infra.keep.web_door.fetching import Fetcher
from infra.keep.web_door.judge import Judge
from infra.keep.web_door.outgoing import Outgoing, problem_with_words
from infra.keep.web_door.refusal import WebRefusal, after_an_answer, failed
from infra.keep.web_door.rendering import Rendering
from infra.keep.web_door.search import addresses_found, search_address
from infra.keep.web_door.serving import Served
from infra.keep.web_door.target import target_of
from infra.shared.web import FetchRequest, SearchRequest

OUTGOING = "outgoing"


class Reading:
    def __init__(
        self, judge: Judge, fetcher: Fetcher, rendering: Rendering, outgoing: Outgoing, search_url: str | None
    ) -> None:
        self._judge = judge
        self._fetcher = fetcher
        self._rendering = rendering
        self._outgoing = outgoing
        self._search_url = search_url

    async def fetch(self, asked: FetchRequest) -> Served:
        """Raises WebRefusal."""
        target = target_of(asked.url)
        self._rendering.refuse_raw(asked)
        self._judge.host(target, "fetch_page")
        if problem := self._outgoing.problem(target.url, self._judge.names(target.host), time.monotonic()):
            raise WebRefusal(problem, OUTGOING)
        fetched = await self._fetcher.fetch(target, "fetch_page")
        with after_an_answer():
            page = await self._rendering.page(fetched, asked)
        self._outgoing.served(fetched.url, [link.url for link in page.links])
        return Served(page, fetched)

    async def search(self, asked: SearchRequest) -> Served:
        """Raises WebRefusal."""
        target = target_of(search_address(self._search_url, asked.query))
        if problem := problem_with_words(asked.query):
            raise WebRefusal(problem, OUTGOING)
        fetched = await self._fetcher.fetch(target, "web_search")
        with after_an_answer():
            if fetched.status != 200:
                again = fetched.status == 429 or fetched.status >= 500
                words = f"the search provider {fetched.origin} answered with status {fetched.status}"
                raise failed(words, "try again later" if again else "tell the PM", retriable=again)
            found = self._rendering.found(fetched)
        self._outgoing.served(fetched.url, addresses_found(fetched.body))
        return Served(found, fetched)
