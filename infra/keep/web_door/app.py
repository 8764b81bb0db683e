"""The web door's answers: a page or what a search found, each request on record before its answer leaves."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
import time
from typing import Literal, NamedTuple

import msgspec
import structlog
from msgspec.structs import replace

from infra.keep.door_server import Caller, ClientLeft, Limits, Refusal, unless_left
from infra.keep.eye.blocked import blocked
from infra.keep.eye.messages import Look, Seen
from infra.keep.settings.schema import WebSettings
from infra.keep.web_door.browsers import Pool
from infra.keep.web_door.fetch import Fetched, Fetcher
from infra.keep.web_door.judge import Judge, Tool
from infra.keep.web_door.live import Live
from infra.keep.web_door.outgoing import Outgoing, addresses_in, let_words
from infra.keep.web_door.page import MOST_ADDRESS_CHARS, page_of
from infra.keep.web_door.proxy import Errand
from infra.keep.web_door.refusal import WebRefusal, after_an_answer, denied, failed, invalid, late, unavailable
from infra.keep.web_door.search import search_address, search_results
from infra.keep.web_door.target import Target, target_of
from infra.keep.web_door.trace import Trace, TraceLine, begun_line, in_line
from infra.keep.web_door.worker import Readers
from infra.shared.door import Failure, Health, Healthy
from infra.shared.frame import framed, one_line
from infra.shared.secret_shapes import redacted, redacted_and_cut
from infra.shared.web import Fetch, Page, Picture, Pictured, Search, SearchResults, Watch, Watched

log = structlog.get_logger("web_door")

Asked = Fetch | Search | Picture | Watch
REQUESTS = Asked | Health
LIMITS = Limits(line_bytes=64 << 10, at_once=16)
"""So many pages are in memory at once."""
Mode = Literal["", "rendered", "screenshot", "ghost"]
MOST_SECONDS = 120.0
"""With the wait for a browser."""
NO_PAGE = Fetched("", "", 0, "", "", "other", b"", True, "")


class _Served(NamedTuple):
    answer: Page | SearchResults | Pictured | Watched
    fetched: Fetched
    """What it was made of."""
    mode: Mode = ""


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
        self._pool, self._live = pool, Live()
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
        if isinstance(outcome, _Served) and isinstance(request, Watch):
            if self._live.is_told or not outcome.answer.jpeg:  # type: ignore[union-attr]
                return outcome.answer
            self._live.is_told = True
        try:
            await self._trace.record(line_of(request, at, time.monotonic() - began, caller.uid, outcome))
        except OSError as trouble:
            log.error("trace.write_failed", reason=str(trouble))
            outcome = unavailable(f"the request cannot be recorded ({trouble.strerror})", "try again later")
        if isinstance(outcome, WebRefusal):
            raise Refusal(shown(outcome.error))
        return outcome.answer

    async def _served(self, request: Asked) -> _Served:
        """Raises WebRefusal."""
        match request:
            case Fetch():
                return await self._page(request)
            case Picture():
                return await self._picture(request)
            case Watch():
                return await self._watched(request)
        return await self._found(request)

    async def _page(self, request: Fetch) -> _Served:
        """Raises WebRefusal."""
        target = target_of(request.url)
        if request.raw and not self._web.keep_raw_html:
            words = "raw pages are not given out (web.keep_raw_html is false)"
            raise denied(words, "ask for the page without raw", "raw_html")
        if request.render:
            fetched, seen = await self._shown(target, Look(target.url), "fetch_page", request.run, "rendered")
        else:
            self._let(target, "fetch_page")
            fetched, seen = await self._fetcher.fetch(target, "fetch_page"), None
        with after_an_answer():
            content = await self._readers.read(fetched, request.raw)
            if seen:
                content = replace(content, notes=(*content.notes, *(one_line(each, 100) for each in seen.notes)))
            page = page_of(fetched, content, request.max_chars, self.nonce(fetched))
        why = blocked(fetched.status, fetched.told, seen.signals if seen else content.signals) if self._pool else ""
        page = replace(page, blocked=why, then=self._next(request.render) if why else "")
        self._outgoing.served(fetched.url, (*(link.url for link in content.links), *addresses_in(content.markdown)))
        return _Served(page, fetched, "rendered" if seen else "")

    def _next(self, was_rendered: bool) -> Literal["", "render", "ghost"]:
        ghost = self._web.ghost
        if not self._pool or not ghost.auto_trigger:
            return ""
        return "render" if not was_rendered else "ghost" if ghost.enabled else ""

    async def _picture(self, request: Picture) -> _Served:
        """Raises WebRefusal."""
        target, tool = target_of(request.url), tool_of(request)
        if request.is_ghost and not self._web.ghost.enabled:
            words = "pages are not read from their pictures (web.ghost.enabled is false)"
            raise denied(words, "use fetch_page, or ask the PM in your report", "ghost")
        look = Look(target.url, picture=True, full_page=request.full_page, width=self._web.ghost.max_image_width)
        mode: Mode = "ghost" if request.is_ghost else "screenshot"
        fetched, seen = await self._shown(target, look, tool, request.run, mode)
        shown = redacted_and_cut(fetched.url, MOST_ADDRESS_CHARS)
        words = "\n".join([f"Picture of {shown}", *(f"Left out: {one_line(each, 100)}" for each in seen.notes)])
        nonce, image = self.nonce(fetched), base64.b64encode(seen.image).decode()
        made = Pictured(seen.status, framed(words, fetched.origin, nonce), fetched.origin, nonce, image)
        return _Served(made, fetched, mode)

    async def _watched(self, request: Watch) -> _Served:
        """Raises WebRefusal."""
        if not self._web.stream.enabled:
            raise denied("what the browser shows is not streamed (web.stream.enabled is false)", "", "stream")
        return _Served(await self._live.after(request.since), NO_PAGE)

    async def _shown(self, target: Target, look: Look, tool: Tool, run: str, mode: Mode) -> tuple[Fetched, Seen]:
        """What the browser makes of it. Raises WebRefusal."""
        if not self._pool:
            raise unavailable("there is no browser (web.browser is off)", "read it without render", retriable=False)
        self._let(target, tool)
        flags = await self._fetcher.admit(target, tool)
        stream, errand = self._web.stream, Errand(target.host, tool)
        if stream.enabled:
            look = replace(look, stream_quality=stream.quality, stream_width=stream.max_width)
            self._live.is_told = False
        try:
            async with asyncio.timeout(MOST_SECONDS):
                seen = await self._pool.look(look, errand, lambda jpeg: self._live.put(jpeg, run))
        except (TimeoutError, WebRefusal) as error:
            with after_an_answer(errand.loaded > 0):
                raise error if isinstance(error, WebRefusal) else late("all browsers are busy", "try again") from None
        with after_an_answer():
            shown = target_of(seen.url)
            if shown.origin not in errand.origins:  # who says so may have been taken over
                raise failed("the page says that it is from where nothing was asked for", "use another source")
        body, flags = seen.image or seen.html.encode(), (*flags, *errand.flags, mode)
        made = (body, True, hashlib.sha256(body).hexdigest(), flags, seen.headers)
        return Fetched(shown.url, shown.origin, seen.status, "text/html", "utf-8", "html", *made), seen

    def _let(self, target: Target, tool: Tool) -> None:
        """Raises WebRefusal."""
        self._judge.let(target, tool)
        self._outgoing.let(target, self._judge.names(target.host), time.monotonic())

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
    run, step = ("", "") if isinstance(request, Watch) else (request.run, request.step)
    given = request if isinstance(request, Watch) else replace(request, run="", step="")
    refusal = outcome if isinstance(outcome, WebRefusal) else None
    url = request.url if isinstance(request, Fetch | Picture) else ""
    tool = "watch" if isinstance(request, Watch) else tool_of(request)
    line = begun_line(tool, msgspec.json.encode(given), url, at, seconds, refusal)
    line = replace(line, run_id=in_line(run), step_id=in_line(step), uid=uid)
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
        render_mode=outcome.mode,
    )


def tool_of(request: Fetch | Search | Picture) -> Tool:
    match request:
        case Fetch():
            return "fetch_page"
        case Picture(is_ghost=True):
            return "ghost_extract"
        case Picture():
            return "screenshot"
    return "web_search"
