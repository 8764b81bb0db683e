"""Who may use the page: whoever has the token. It stands in front of every route, and keeps other pages in the same
browser, and names that were made to lead here, from acting in the PM's name."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request, cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from infra.shared.clock import timestamp
from infra.shared.files import write_whole
from infra.shared.secret_shapes import redacted_value

COOKIE = "minifram"
COOKIE_SECONDS = 365 * 86_400
ENTER = "/enter"
MOST_BODY = 2 << 20
"""Bytes of one request: a directive has at most half."""
WHAT = "minifram.what"
"""The key of a request's scope under which a handler leaves what it did, for the audit."""
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with none at all, a browser sends its own forms as if from nowhere
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Token:
    """The secret in a file that only this user can read; whoever replaces the file ends all sessions."""

    def __init__(self, path: str) -> None:
        self._path, self._token = path, ""
        self._seen: tuple[int, int] | None = None

    def renew(self) -> str:
        """Raises OSError."""
        write_whole(self._path, secrets.token_urlsafe(32).encode() + b"\n", mode=0o600)
        return self.read()

    def read(self) -> str:
        """The token as the file has it now. Raises OSError."""
        status = os.stat(self._path)
        if self._seen != (seen := (status.st_ino, status.st_mtime_ns)):
            with open(self._path, encoding="ascii") as file:
                self._token, self._seen = file.read().strip(), seen
        return self._token

    def cookie(self) -> str:
        """What a browser holds: it opens the page, and is not the token."""
        return hashlib.sha256(f"cookie of {self.read()}".encode()).hexdigest()


class Access:
    """ASGI middleware. `names` gives the host names that lead here, besides those of loopback."""

    def __init__(self, app: ASGIApp, token: Token, names: Callable[[], Collection[str]], audit: str) -> None:
        self._app, self._token, self._names, self._audit = app, token, names, audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, who = 0, ""

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        answer = self._problem(scope["method"], headers) or self._entered(Request(scope))
        if answer is None:
            who = self._who(headers)
            answer = self._refusal(who, scope, headers)
        try:
            await (answer or self._app)(scope, _bounded(receive), sent)
        finally:
            if scope["method"] not in SAFE_METHODS:
                self._note(who, scope, status)

    def _problem(self, method: str, headers: Headers) -> Response | None:
        """A name that an attacker had point here (DNS rebinding), or too much to read."""
        if not self._is_ours(headers.get("host", "")):
            return _told(HTTPStatus.BAD_REQUEST, "this name is not one of this page's: see 'page' in the settings")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MOST_BODY:
            return _told(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request has at most {MOST_BODY:,} bytes")
        return None

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in ("localhost", "127.0.0.1", "::1") or name in self._names()

    def _entered(self, request: Request) -> Response | None:
        """The link that `serve` printed: it leaves a cookie, and no token in the address bar."""
        if request.url.path != ENTER:
            return None
        if not hmac.compare_digest(request.query_params.get("token", ""), self._token.read()):
            return _told(HTTPStatus.UNAUTHORIZED, "this link is not valid any more: 'minifram serve --link' prints one")
        answer = RedirectResponse("/", HTTPStatus.SEE_OTHER)
        secure = request.headers.get("x-forwarded-proto") == "https"
        cookie = self._token.cookie()
        answer.set_cookie(COOKIE, cookie, COOKIE_SECONDS, secure=secure, httponly=True, samesite="strict")
        return answer

    def _who(self, headers: Headers) -> str:
        """`token`, `cookie`, or empty for a stranger."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token.read().encode()):
            return "token"
        cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        return "cookie" if hmac.compare_digest(cookie.encode(), self._token.cookie().encode()) else ""

    def _refusal(self, who: str, scope: Scope, headers: Headers) -> Response | None:
        if not who:
            how = "open the link that 'minifram serve' printed, or send 'Authorization: Bearer TOKEN'"
            return _told(HTTPStatus.UNAUTHORIZED, how)
        if scope["method"] in SAFE_METHODS or who == "token":
            return None
        origin = headers.get("origin", "")
        if urlsplit(origin).netloc != headers.get("host"):
            return _told(HTTPStatus.FORBIDDEN, f"a form of {origin or 'an unknown page'} does not act here")
        return None

    def _note(self, who: str, scope: Scope, status: int) -> None:
        """One line for each change that somebody asked for: nothing of it can be undone by losing the line."""
        what: Any = redacted_value(scope.get(WHAT, {}))
        line = {
            "at": timestamp(time.time()),
            "who": who or "nobody",
            "path": scope["path"],
            "status": status,
            "what": what,
        }
        descriptor = os.open(self._audit, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, json.dumps(line).encode() + b"\n")
        finally:
            os.close(descriptor)


def _bounded(receive: Receive) -> Receive:
    """The same, for a body whose length is not told."""
    read = 0

    async def bounded() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > MOST_BODY:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request has at most {MOST_BODY:,} bytes")
        return message

    return bounded


def _told(status: HTTPStatus, words: str) -> Response:
    return PlainTextResponse(f"minifram: {words}\n", status)
