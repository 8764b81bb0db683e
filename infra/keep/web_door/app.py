"""The web door's answers: a page or what a search found, each request on record before its answer leaves."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
import time
from typing import NamedTuple

import msgspec
import structlog
from msgspec.structs import replace

from infra.keep.door_server import Caller, ClientLeft, Limits, Refusal, unless_left
from infra.keep.eye.blocked import blocked
from infra.keep.eye.messages import Look, Seen
from infra.keep.settings.schema import WebSettings
from infra.keep.web_door.browsers import Pool
from infra.keep.web_door.fetch import Fetched, Fetcher
from infra.keep.web_door.judge import Judge
from infra.keep.web_door.outgoing import Outgoing, addresses_in, let_words
from infra.keep.web_door.page import page_of
from infra.keep.web_door.proxy import Errand
from infra.keep.web_door.refusal import WebRefusal, after_an_answer, denied, failed, invalid, late, unavailable
from infra.keep.web_door.search import search_address, search_results
from infra.keep.web_door.target import Target, redirected, target_of
from infra.keep.web_door.text import Content
from infra.keep.web_door.trace import Trace, TraceLine, begun_line, in_line
from infra.keep.web_door.worker import Readers
from infra.shared.door import Failure, Health, Healthy
from infra.shared.frame import one_line
from infra.shared.secret_shapes import redacted
from infra.shared.web import Fetch, Mode, Page, Search, SearchResults, WebTool

log = structlog.get_logger("web_door")

Asked = Fetch | Search
REQUESTS = Asked | Health
LIMITS = Limits(line_bytes=64 << 10, at_once=16)
"""So many pages are in memory at once."""
MOST_SECONDS = 120.0
"""Of a look, with the wait for a browser."""
TOOLS: dict[Mode, WebTool] = {
    "": "fetch_page",
    "rendered": "fetch_page",
    "screenshot": "screenshot",
    "ghost": "ghost_extract",
}
"""What is on record as called, and judged."""


class _Served(NamedTuple):
    answer: Page | SearchResults
    fetched: Fetched
    """What it was made of."""


class WebDoor:
    """`pool`: the browsers, where `web.browser` is on."""

    def __init__(
        self,
        web: WebSettings,
        judge: Judge,
        fetcher: Fetcher,
        readers: Readers,
        trace: Trace,
        pool: Pool | None = None,
    ) -> None:
        self._web, self._judge, self._fetcher, self._readers, self._trace = web, judge, fetcher, readers, trace
        self._pool = pool
        self._outgoing = Outgoing()
        self._secret = secrets.token_bytes(32)

    async def answer(self, request: Asked | Health, caller: Caller) -> msgspec.Struct:
        """Raises Refusal, ClientLeft."""
        if isinstance(request, Health):
            return Healthy()
        at, began = time.time(), time.monotonic()
        outcome: _Served | WebRefusal
        try:
            outcome = await unless_left(caller, self._served(request))
        except WebRefusal as refusal:
            outcome = refusal
        except ClientLeft:
            outcome = WebRefusal(Failure("execution_error", "the caller has disconnected", True), "caller_gone")
        except asyncio.CancelledError:  # the door is being stopped
            outcome = unavailable("the web door is being stopped", "try again in a moment")
        except Exception as error:
            outcome = _bug(error)
        try:
            await self._record(line_of(request, at, time.monotonic() - began, caller.uid, outcome))
        except WebRefusal as refusal:
            outcome = refusal
        if isinstance(outcome, WebRefusal):
            raise Refusal(shown(outcome.error))
        return outcome.answer

    async def _record(self, line: TraceLine) -> None:
        """Raises WebRefusal."""
        try:
            await self._trace.record(line)
        except OSError as trouble:
            log.error("trace.write_failed", reason=str(trouble))
            raise unavailable(f"the request cannot be recorded ({trouble.strerror})", "try again later") from None

    async def _served(self, request: Asked) -> _Served:
        """Raises WebRefusal."""
        return await (self._page(request) if isinstance(request, Fetch) else self._found(request))

    async def _page(self, request: Fetch) -> _Served:
        """Raises WebRefusal."""
        if request.raw and not self._web.keep_raw_html:
            words = "raw pages are not given out (web.keep_raw_html is false)"
            raise denied(words, "ask for the page without raw", "raw_html")
        if request.mode == "ghost" and not self._web.ghost.enabled:
            words = "pages are not read from their pictures (web.ghost.enabled is false)"
            raise denied(words, "use fetch_page, or ask the PM in your report", "ghost")
        seen = None
        if request.mode:
            fetched, seen = await self._shown(request, TOOLS[request.mode])
        else:
            fetched = await self._fetcher.fetch(self._let(request.url, "fetch_page"), "fetch_page")
        nonce, content, image = self.nonce(fetched), Content("", ""), seen.image if seen else b""
        with after_an_answer():
            if not image:
                content = await self._readers.read(fetched, request.raw)
            if seen:
                notes = tuple(one_line(each, 100) for each in seen.notes)
                content = replace(content, notes=(*content.notes, *notes), signals=seen.signals)
            page = page_of(fetched, content, request.max_chars, nonce)
        self._outgoing.served(fetched.url, (*(link.url for link in content.links), *addresses_in(content.markdown)))
        why = blocked(fetched.status, fetched.told, content.signals) if self._pool else ""
        page = replace(page, blocked=why, then=self._next(request.mode) if why else "")
        return _Served(
            replace(page, image=base64.b64encode(image).decode(), origin=fetched.origin, nonce=nonce), fetched
        )

    def _next(self, mode: Mode) -> Mode:
        ghost = self._web.ghost
        if mode == "rendered" and ghost.enabled and ghost.auto_trigger:
            return "ghost"
        return "rendered" if mode == "" and ghost.auto_trigger else ""

    async def _shown(self, request: Fetch, tool: WebTool) -> tuple[Fetched, Seen]:
        """What the browser makes of it. Raises WebRefusal."""
        if not self._pool:
            raise unavailable("there is no browser (web.browser is off)", "read it without render", retriable=False)
        target, stream = self._let(request.url, tool), self._web.stream
        errand, look = Errand(target.host, tool), Look(target.url)
        if request.mode != "rendered":
            look = Look(target.url, True, request.full_page, self._web.ghost.max_image_width)
        try:
            async with asyncio.timeout(MOST_SECONDS):
                flags = await self._fetcher.admit(target, tool)
                if stream.enabled:
                    look = replace(look, stream_quality=stream.quality, stream_width=stream.max_width)
                seen = await self._pool.look(look, errand)
        except (TimeoutError, WebRefusal) as error:
            with after_an_answer(errand.loaded > 0):
                raise error if isinstance(error, WebRefusal) else late("all browsers are busy", "try again") from None
        with after_an_answer():
            shown = redirected(target, seen.url)
            if shown.origin not in errand.origins:  # who says so may have been taken over
                raise failed("the page says that it is from where nothing was asked for", "use another source")
        body, kind = seen.image or seen.html.encode(), "image/jpeg" if seen.image else "text/html"
        made = (body, True, hashlib.sha256(body).hexdigest(), (*flags, *errand.flags), seen.headers)
        return Fetched(shown.url, shown.origin, seen.status, kind, "utf-8", "html", *made), seen

    def _let(self, url: str, tool: WebTool) -> Target:
        """Raises WebRefusal."""
        target = target_of(url)
        self._judge.let(target, tool)
        self._outgoing.let(target, self._judge.names(target.host), time.monotonic())
        return target

    async def _found(self, request: Search) -> _Served:
        """Raises WebRefusal."""
        target = target_of(search_address(self._web.search_url, request.query))
        let_words(request.query)
        fetched = await self._fetcher.fetch(target, "web_search")
        with after_an_answer():
            if fetched.status != 200:
                again = fetched.status == 429 or fetched.status >= 500
                words = f"the search provider {fetched.origin} answered with status {fetched.status}"
                raise failed(words, "try again later" if again else "tell the PM", retriable=again)
            found, addresses = search_results(fetched.body, fetched.origin, self.nonce(fetched))
        self._outgoing.served(fetched.url, addresses)
        return _Served(found, fetched)

    def nonce(self, fetched: Fetched) -> str:
        """Nobody outside knows it before; the same page gets the same, so that a run that reads one again and again is
        seen to get nowhere."""
        said = f"{fetched.url}\0{fetched.sha256}".encode(errors="replace")
        return hashlib.blake2b(said, key=self._secret, digest_size=8).hexdigest()


def failure_of(error: Exception) -> Failure:
    """For what is no request, and what the server itself cannot do."""
    if isinstance(error, msgspec.MsgspecError | UnicodeDecodeError | RecursionError):
        return shown(invalid(f"that is no request: {error}", "ask with do: fetch, search or health").error)
    return shown(_bug(error).error)


def _bug(error: Exception) -> WebRefusal:
    log.error("door.bug", exc_info=error)
    return unavailable(f"the web door has a bug: {type(error).__name__}; see its log")


def shown(failure: Failure) -> Failure:
    return replace(failure, message=redacted(failure.message), hint=redacted(failure.hint))


def line_of(request: Asked, at: float, seconds: float, uid: int, outcome: _Served | WebRefusal) -> TraceLine:
    refusal = outcome if isinstance(outcome, WebRefusal) else None
    url, mode = (request.url, request.mode) if isinstance(request, Fetch) else ("", "")
    tool = TOOLS[mode] if isinstance(request, Fetch) else "web_search"
    line = begun_line(tool, msgspec.json.encode(replace(request, run="", step="")), url, at, seconds, refusal)
    line = replace(line, run_id=in_line(request.run), step_id=in_line(request.step), uid=uid, render_mode=mode)
    if isinstance(outcome, WebRefusal):
        return line
    fetched = outcome.fetched
    return replace(
        line,
        artifacts=(f"sha256:{fetched.sha256}",) if fetched.sha256 else (),
        policy_flags=fetched.flags,
        origin=in_line(fetched.origin),
        url=in_line(fetched.url),
        size=len(fetched.body),
    )
