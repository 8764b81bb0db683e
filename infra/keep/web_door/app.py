"""The web door's answers: a page or what a search found, each request on record before its answer leaves."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time

import msgspec
import structlog

from infra.keep.door_server import Caller, ClientLeft, Limits, Refusal, unless_left
from infra.keep.settings.schema import WebSettings
from infra.keep.web_door.fetch import Fetched, Fetcher
from infra.keep.web_door.judge import Judge
from infra.keep.web_door.outgoing import Outgoing, addresses_in, let_words
from infra.keep.web_door.page import page_of
from infra.keep.web_door.refusal import WebRefusal, after_an_answer, denied, failed, invalid, unavailable
from infra.keep.web_door.search import search_address, search_results
from infra.keep.web_door.target import target_of
from infra.keep.web_door.trace import Trace, TraceLine, begun_line, in_line
from infra.keep.web_door.worker import Readers
from infra.shared.door import Failure, Health, Healthy
from infra.shared.secret_shapes import redacted
from infra.shared.web import Fetch, Page, Search, SearchResults

log = structlog.get_logger("web_door")

REQUESTS = Fetch | Search | Health
LIMITS = Limits(line_bytes=64 << 10, at_once=16)
"""So many pages are in memory at once."""
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
        at, began = time.time(), time.monotonic()
        outcome: Served | WebRefusal
        try:
            work = self._page(request) if isinstance(request, Fetch) else self._found(request)
            outcome = await unless_left(caller, work)
        except WebRefusal as refusal:
            outcome = refusal
        except ClientLeft:
            outcome = WebRefusal(Failure("execution_error", "the caller has disconnected", True), "caller_gone")
        except asyncio.CancelledError:  # the door is being stopped
            outcome = unavailable("the web door is being stopped", "try again in a moment")
        except Exception as error:
            outcome = _bug(error)
        try:
            await self._trace.record(line_of(request, at, time.monotonic() - began, caller.uid, outcome))
        except OSError as trouble:
            log.error("trace.write_failed", reason=str(trouble))
            outcome = unavailable(f"the request cannot be recorded ({trouble.strerror})", "try again later")
        if isinstance(outcome, WebRefusal):
            raise Refusal(shown(outcome.error))
        return outcome[0]

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
        self._outgoing.served(fetched.url, (*(link.url for link in content.links), *addresses_in(content.markdown)))
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
    return shown(_bug(error).error)


def _bug(error: Exception) -> WebRefusal:
    log.error("door.bug", exc_info=error)
    return unavailable(f"the web door has a bug: {type(error).__name__}; see its log")


def shown(failure: Failure) -> Failure:
    return msgspec.structs.replace(failure, message=redacted(failure.message), hint=redacted(failure.hint))


def line_of(request: Fetch | Search, at: float, seconds: float, uid: int, outcome: Served | WebRefusal) -> TraceLine:
    given = msgspec.json.encode(msgspec.structs.replace(request, run="", step=""))
    refusal = outcome if isinstance(outcome, WebRefusal) else None
    url = request.url if isinstance(request, Fetch) else ""
    line = msgspec.structs.replace(
        begun_line(_TOOLS[type(request)], given, url, at, seconds, refusal),
        run_id=in_line(request.run),
        step_id=in_line(request.step),
        uid=uid,
    )
    if isinstance(outcome, WebRefusal):
        return line
    fetched = outcome[1]
    return msgspec.structs.replace(
        line,
        artifacts=(f"sha256:{fetched.sha256}",) if fetched.sha256 else (),
        policy_flags=fetched.flags,
        origin=in_line(fetched.origin),
        url=in_line(fetched.url),
        size=len(fetched.body),
    )
