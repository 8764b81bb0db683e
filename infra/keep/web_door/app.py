"""The web door's answers: a page or what a search found, each request on record before its answer leaves."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time

import msgspec
import structlog

from infra.keep.door_server import Caller, ClientLeft, Limits, Refusal, unless_left
from infra.keep.settings import WebSettings
from infra.keep.web_door.fetch import Fetched, Fetcher
from infra.keep.web_door.judge import Judge
from infra.keep.web_door.outgoing import Outgoing, addresses_in, let_words
from infra.keep.web_door.page import page_of
from infra.keep.web_door.refusal import WebRefusal, after_an_answer, denied, failed, invalid, unavailable
from infra.keep.web_door.search import search_address, search_results
from infra.keep.web_door.target import target_of
from infra.keep.web_door.trace import Trace
from infra.keep.web_door.worker import Readers
from infra.shared.clock import timestamp
from infra.shared.door import Failure, Health, Healthy
from infra.shared.secret_shapes import redacted, redacted_and_cut
from infra.shared.web import Fetch, Page, Search, SearchResults, TraceLine

log = structlog.get_logger("web_door")

REQUESTS = Fetch | Search | Health
LIMITS = Limits(line_bytes=64 << 10, at_once=16)
"""So many pages are in memory at once."""
MOST_SHOWN = 500
"""Characters of an address in the trace."""
Served = tuple[Page | SearchResults, Fetched]
"""What is answered, and what it was made of."""
_TOOLS = {Fetch: "fetch_page", Search: "web_search"}


class WebDoor:
    def __init__(self, web: WebSettings, judge: Judge, fetcher: Fetcher, readers: Readers, trace: Trace) -> None:
        self._web, self._judge, self._fetcher, self._readers, self._trace = web, judge, fetcher, readers, trace
        self._outgoing = Outgoing()
        self._secret = secrets.token_bytes(32)

    async def answer(self, request: Fetch | Search | Health, caller: Caller) -> msgspec.Struct:
        """Raises Refusal, ClientLeft."""
        if isinstance(request, Health):
            return Healthy()
        at, began = timestamp(time.time()), time.monotonic()
        served, refusal = None, None
        try:
            work = self._page(request) if isinstance(request, Fetch) else self._found(request)
            served = await unless_left(caller, work)
        except WebRefusal as error:
            refusal = error
        except ClientLeft:
            refusal = WebRefusal(Failure("execution_error", "the caller has disconnected", True), "caller_gone")
        except asyncio.CancelledError:  # the door is being stopped
            refusal = unavailable("the web door is being stopped", "try again in a moment")
        except Exception as bug:
            log.exception("door.bug")
            refusal = unavailable(f"the web door has a bug: {type(bug).__name__}; see its log")
        milliseconds = round((time.monotonic() - began) * 1000)
        try:
            await self._trace.record(line_of(request, at, milliseconds, caller.uid, served or refusal))
        except OSError as trouble:
            log.error("trace.write_failed", reason=str(trouble))
            refusal = unavailable(f"the request cannot be recorded ({trouble.strerror})", "try again later")
        if refusal or not served:
            raise Refusal(shown((refusal or unavailable("nothing was served")).error))
        return served[0]

    async def _page(self, request: Fetch) -> Served:
        """Raises WebRefusal."""
        target = target_of(request.url)
        if request.raw and not self._web.keep_raw_html:
            words = "raw pages are not given out (web.keep_raw_html is false)"
            raise denied(words, "ask for the page without raw", "raw_html")
        self._judge.let(target, "fetch_page")
        self._outgoing.let(target, self._judge.names(target.host), time.monotonic())
        fetched = await self._fetcher.fetch(target, "fetch_page")
        with after_an_answer():
            content = await self._readers.read(fetched, request.raw)
            page = page_of(fetched, content, request.max_chars, self.nonce(fetched))
        self._outgoing.served(fetched.url, (*(link.url for link in page.links), *addresses_in(page.whole or page.text)))
        return page, fetched

    async def _found(self, request: Search) -> Served:
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
        return found, fetched

    def nonce(self, fetched: Fetched) -> str:
        """Nobody outside knows it before; the same page gets the same, so that a run that reads one again and again is
        seen to get nowhere."""
        said = f"{fetched.url}\0{fetched.sha256}".encode(errors="replace")
        return hashlib.blake2b(said, key=self._secret, digest_size=8).hexdigest()


def failure_of(error: Exception) -> Failure:
    """For what is no request, and what the server itself cannot do."""
    if isinstance(error, msgspec.MsgspecError | UnicodeDecodeError | RecursionError):
        return shown(invalid(f"that is no request: {error}", "ask with do: fetch, search or health").error)
    log.error("door.bug", error=repr(error))
    return shown(unavailable(f"the web door has a bug: {type(error).__name__}; see its log").error)


def shown(failure: Failure) -> Failure:
    return msgspec.structs.replace(failure, message=redacted(failure.message), hint=redacted(failure.hint))


def line_of(
    request: Fetch | Search, at: str, milliseconds: int, uid: int, outcome: Served | WebRefusal | None
) -> TraceLine:
    given = msgspec.to_builtins(msgspec.structs.replace(request, run="", step=""))
    refusal = outcome if isinstance(outcome, WebRefusal) else None
    line = TraceLine(
        at=at,
        run_id=redacted_and_cut(request.run, MOST_SHOWN),
        step_id=redacted_and_cut(request.step, MOST_SHOWN),
        tool_name=_TOOLS[type(request)],
        args_hash=hashlib.sha256(msgspec.json.encode(given, order="sorted")).hexdigest(),
        duration_ms=milliseconds,
        status="denied" if refusal and refusal.error.type == "policy_denied" else "error" if refusal else "ok",
        error_code=refusal.error.type if refusal else "",
        policy_flags=refusal.flags if refusal else (),
        url=redacted_and_cut(request.url, MOST_SHOWN) if isinstance(request, Fetch) else "",
        uid=uid,
    )
    if not isinstance(outcome, tuple):
        return line
    page, fetched = outcome
    return msgspec.structs.replace(
        line,
        artifacts=(f"sha256:{fetched.sha256}",) if fetched.sha256 else (),
        policy_flags=fetched.flags,
        origin=redacted_and_cut(fetched.origin, MOST_SHOWN),
        url=redacted_and_cut(fetched.url, MOST_SHOWN),
        size=max(0, fetched.size),
        hidden_chars=page.hidden_chars if isinstance(page, Page) else 0,
        invisible_chars=page.invisible_chars if isinstance(page, Page) else 0,
    )
