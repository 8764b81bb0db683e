"""What the web door answers: one page or one search a request, recorded before the answer leaves."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from infra.keep.serving import caller_of, left_of
from infra.keep.web_door.fetching import Fetched
from infra.keep.web_door.judge import Tool
from infra.keep.web_door.refusal import WebRefusal, invalid, late, unavailable
from infra.keep.web_door.trace import Trace
from infra.keep.web_door.turns import MOST_AT_ONCE, Turns
from infra.shared.clock import timestamp
from infra.shared.conversation import HEALTH_PATH, Value
from infra.shared.secret_shapes import redacted, redacted_and_cut
from infra.shared.web import (
    FETCH_PATH,
    SEARCH_PATH,
    STATUS_OF,
    FetchRequest,
    Page,
    SearchRequest,
    SearchResults,
    TraceLine,
    WebError,
)

log = structlog.get_logger("web_door")

MOST_BYTES = 64 * 1024
"""Of a request."""
RECEIVING_SECONDS = 10.0
MOST_SHOWN = 500
"""Characters of an address in the trace."""
_Asked = TypeVar("_Asked", FetchRequest, SearchRequest)


class Served(NamedTuple):
    """What is answered, and what the trace says of it."""

    answer: Page | SearchResults
    fetched: Fetched
    flags: tuple[str, ...] = ()


class WebDoor:
    def __init__(
        self,
        fetch: Callable[[FetchRequest], Awaitable[Served]],
        search: Callable[[SearchRequest], Awaitable[Served]],
        trace: Trace,
        waiting_seconds: float,
        most_at_once: int = MOST_AT_ONCE,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`fetch` and `search` do the work and raise WebRefusal; `waiting_seconds`: how long a request waits for its
        turn, of which there are `most_at_once`."""
        self._fetch = fetch
        self._search = search
        self._trace = trace
        self._turns = Turns(most_at_once)
        self._waiting_seconds = waiting_seconds
        self._now = now
        self.app = Starlette(
            routes=[
                Route(HEALTH_PATH, self.health, methods=["GET"]),
                Route(FETCH_PATH, self.fetch, methods=["POST"]),
                Route(SEARCH_PATH, self.search, methods=["POST"]),
            ],
            exception_handlers=ERROR_HANDLERS,
        )

    async def health(self, _: HttpRequest) -> Response:
        return JSONResponse({"status": "ok", "requests": self._trace.lines})

    async def fetch(self, http: HttpRequest) -> Response:
        return await self._answer(http, FetchRequest, "fetch_page", self._fetch)

    async def search(self, http: HttpRequest) -> Response:
        return await self._answer(http, SearchRequest, "web_search", self._search)

    async def _answer(
        self, http: HttpRequest, shape: type[_Asked], tool: Tool, act: Callable[[_Asked], Awaitable[Served]]
    ) -> Response:
        caller, uid = caller_of(http)
        asked = _read(await _received(http), shape)
        began, at = time.monotonic(), timestamp(self._now())
        served: Served | None = None
        error: WebError | None = None
        flags: tuple[str, ...] = ()
        try:
            async with self._turns.turn(caller, self._waiting_seconds):
                served = await _unless_left(http, act(asked))
        except WebRefusal as refusal:
            error, flags = refusal.error, refusal.flags
        except asyncio.CancelledError:  # the door is being stopped
            error = unavailable("the web door is being stopped", "try again in a moment").error
        except Exception as bug:
            log.exception("door.bug")
            error = unavailable(f"the web door has a bug: {type(bug).__name__}; see its log").error
        line = _line(asked, tool, at, round((time.monotonic() - began) * 1000), uid, served, error, flags)
        try:
            await self._trace.record(line)
        except OSError as trouble:
            log.error("trace.write_failed", reason=str(trouble))
            error = unavailable(f"the request cannot be recorded ({trouble.strerror})", "try again later").error
        if error or served is None:
            return _error(error or unavailable("nothing was served").error)
        return Response(msgspec.json.encode(served.answer), media_type="application/json")


async def _received(http: HttpRequest) -> bytes:
    """The request's body. Raises WebRefusal."""
    body = bytearray()
    try:
        async with asyncio.timeout(RECEIVING_SECONDS):
            async for part in http.stream():
                body += part
                if len(body) > MOST_BYTES:
                    raise invalid(f"the request is over {MOST_BYTES} bytes")
    except TimeoutError:
        raise late(f"the request was not whole after {RECEIVING_SECONDS:g} s; send it at once") from None
    except ClientDisconnect:
        raise invalid("the client left in the middle of its request") from None
    return bytes(body)


def _read(body: bytes, shape: type[_Asked]) -> _Asked:
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise invalid(f"the request is no {shape.__name__}: {error}") from None


async def _unless_left(http: HttpRequest, work: Awaitable[Served]) -> Served:
    """Raises WebRefusal when the caller leaves before the end, also that of the work."""
    working, left = asyncio.ensure_future(work), asyncio.ensure_future(left_of(http))
    try:
        await asyncio.wait((working, left), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise WebRefusal(WebError("execution_error", "the caller has disconnected", True), "caller_gone")
        return working.result()
    finally:
        working.cancel()
        left.cancel()
        await asyncio.wait((working, left))


def _line(
    asked: FetchRequest | SearchRequest,
    tool: Tool,
    at: str,
    duration_ms: int,
    uid: int,
    served: Served | None,
    error: WebError | None,
    flags: tuple[str, ...],
) -> TraceLine:
    given = {name: value for name, value in msgspec.to_builtins(asked).items() if name not in ("run", "step")}
    digest = hashlib.sha256(msgspec.json.encode(given, order="sorted")).hexdigest()
    denied = error is not None and error.type == "policy_denied"
    line = TraceLine(
        at=at,
        run_id=redacted_and_cut(asked.run, MOST_SHOWN),
        step_id=redacted_and_cut(asked.step, MOST_SHOWN),
        tool_name=tool,
        args_hash=digest,
        duration_ms=duration_ms,
        status="denied" if denied else "error" if error else "ok",
        error_code=error.type if error else "",
        policy_flags=flags,
        url=redacted_and_cut(asked.url, MOST_SHOWN) if isinstance(asked, FetchRequest) else "",
        uid=uid,
    )
    if served is None:
        return line
    fetched, page = served.fetched, served.answer if isinstance(served.answer, Page) else None
    return msgspec.structs.replace(
        line,
        artifacts=(f"sha256:{fetched.sha256}",) if fetched.sha256 else (),
        policy_flags=(*fetched.flags, *served.flags),
        origin=redacted_and_cut(fetched.origin, MOST_SHOWN),
        url=redacted_and_cut(fetched.url, MOST_SHOWN),
        size=max(0, fetched.size),
        hidden_chars=page.hidden_chars if page else 0,
        invisible_chars=page.invisible_chars if page else 0,
    )


def _error(error: WebError, status: int | None = None) -> Response:
    shown: Value = error._replace(message=redacted(error.message), hint=redacted(error.hint))
    body = msgspec.json.encode({"error": shown})
    return Response(body, status or STATUS_OF[error.type], media_type="application/json")


async def _refused(_: HttpRequest, error: Exception) -> Response:
    if not isinstance(error, WebRefusal):
        raise AssertionError("unreachable: the handler of WebRefusal")
    return _error(error.error)


async def _not_ours(_: HttpRequest, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise AssertionError("unreachable: the handler of HTTPException")
    words = f"{error.detail}; this door answers GET {HEALTH_PATH}, POST {FETCH_PATH} and POST {SEARCH_PATH}"
    return _error(invalid(words).error, error.status_code)


async def _bug(_: HttpRequest, error: Exception) -> Response:
    """The exception goes on to the server after this, which logs it."""
    return _error(unavailable(f"the web door has a bug: {type(error).__name__}; see its log").error, 500)


ERROR_HANDLERS: dict[Any, Any] = {WebRefusal: _refused, HTTPException: _not_ours, Exception: _bug}
