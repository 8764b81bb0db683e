"""Who may use the page: whoever has the token. It stands in front of every route, and keeps other pages in the same
browser, and names that were made to lead here, from acting in the PM's name."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Callable, Collection
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from infra.shared.clock import timestamp
from infra.shared.files import write_whole
from infra.shared.safe_files import opened_file
from infra.shared.secret_shapes import redacted_value
from infra.shared.text import cut

COOKIE = "minifram"
COOKIE_SECONDS = 365 * 86_400
ENTER = "/enter"
MOST_BODY = 2 << 20
"""Bytes of one request: a directive has at most half."""
TOO_LARGE = f"a request has at most {MOST_BODY:,} bytes"
MOST_NOTED = 4000
NOBODY = "nobody"
WHAT = "minifram.what"
"""The key of a request's scope under which a handler leaves what it did, for the audit."""
OVER: dict[str, Message] = {
    "http": {"type": "http.response.body"},
    "websocket": {"type": "websocket.close", "code": 1008},
}
"""The last message of a session that has ended."""
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
        self._path = path

    def renew(self) -> str:
        """Raises OSError."""
        write_whole(self._path, secrets.token_urlsafe(32).encode() + b"\n", mode=0o600)
        return self.read()

    def read(self) -> str:
        """The token as the file has it now. Raises OSError, also when others can read it, or it is a link."""
        with opened_file(self._path) as file:
            status = os.fstat(file.fileno())
            if status.st_mode & 0o077 or status.st_uid != os.geteuid():
                raise PermissionError(
                    f"{self._path} is not this user's alone; 'minifram serve --new-token' makes another"
                )
            token = file.read(200).decode("ascii", "replace").strip()
        if len(token) < 32:
            raise PermissionError(f"{self._path} holds no token; 'minifram serve --new-token' makes another")
        return token

    def cookie(self) -> str:
        """What a browser holds: it opens the page, and is not the token."""
        return hashlib.sha256(f"cookie of {self.read()}".encode()).hexdigest()


class SessionOver(Exception):
    """There is another token by now: what is told piece by piece goes on no more."""


class Access:
    """ASGI middleware. `names` gives the host names that lead here, besides those of loopback."""

    def __init__(self, app: ASGIApp, token: Token, names: Callable[[], Collection[str]], audit: str) -> None:
        self._app, self._token, self._names, self._audit = app, token, names, audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        who, answer = self._judged(HTTPConnection(scope))

        async def sent(message: Message) -> None:
            is_piece = message["type"] == "websocket.send" or message.get("more_body")
            if is_piece and not self._is_still(who, scope):
                await send(OVER[scope["type"]])
                raise SessionOver
            if message["type"] == "http.response.start":
                if scope["method"] not in SAFE_METHODS:  # before the answer: what was answered is on record
                    self._note(who, scope, message["status"])
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        with contextlib.suppress(SessionOver):
            await (answer or self._app)(scope, _bounded(receive), sent)

    def _is_still(self, who: str, scope: Scope) -> bool:
        with contextlib.suppress(OSError):
            return self._who(Headers(scope=scope)) == who
        return False

    def _judged(self, request: HTTPConnection) -> tuple[str, Response | None]:
        """Who asks: `token`, `cookie` or `nobody`; and the answer, where the page is not asked at all."""
        who = NOBODY
        try:
            self._examine(request.headers)
            if request.url.path == ENTER:
                return who, self._entered(request)
            who = self._who(request.headers)
            if who == NOBODY:
                how = "open the link that 'minifram serve' printed, or send 'Authorization: Bearer TOKEN'"
                raise HTTPException(HTTPStatus.UNAUTHORIZED, how)
            origin = request.headers.get("origin", "")
            is_ours = who == "token" or urlsplit(origin).netloc == request.headers.get("host")
            # Any page may open a WebSocket to anywhere, and read what comes.
            if request.scope.get("method") not in SAFE_METHODS and not is_ours:
                raise HTTPException(HTTPStatus.FORBIDDEN, f"{origin or 'an unknown page'} neither acts nor looks here")
        except HTTPException as refusal:
            return who, PlainTextResponse(f"minifram: {refusal.detail}\n", refusal.status_code)
        except OSError as error:
            return who, PlainTextResponse(f"minifram: {error}\n", HTTPStatus.SERVICE_UNAVAILABLE)
        return who, None

    def _examine(self, headers: Headers) -> None:
        """Raises HTTPException for a name that an attacker had point here (DNS rebinding), and for too much to read."""
        if not self._is_ours(headers.get("host", "")):
            words = "this name is not one of this page's: see 'notify.page' in the settings"
            raise HTTPException(HTTPStatus.BAD_REQUEST, words)
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MOST_BODY:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, TOO_LARGE)

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in ("localhost", "127.0.0.1", "::1") or name in self._names()

    def _entered(self, request: HTTPConnection) -> Response:
        """The link that `serve` printed: it leaves a cookie, and no token in the address bar."""
        if not hmac.compare_digest(request.query_params.get("token", "").encode(), self._token.read().encode()):
            words = "this link is not valid any more: 'minifram serve --link' prints one"
            raise HTTPException(HTTPStatus.UNAUTHORIZED, words)
        answer = RedirectResponse("/", HTTPStatus.SEE_OTHER)
        secure = request.headers.get("x-forwarded-proto") == "https"
        cookie = self._token.cookie()
        answer.set_cookie(COOKIE, cookie, COOKIE_SECONDS, secure=secure, httponly=True, samesite="strict")
        return answer

    def _who(self, headers: Headers) -> str:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token.read().encode()):
            return "token"
        cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        return "cookie" if hmac.compare_digest(cookie.encode(), self._token.cookie().encode()) else NOBODY

    def _note(self, who: str, scope: Scope, status: int) -> None:
        """One line for each change that somebody asked for, of at most `MOST_NOTED` characters of what it holds."""
        words = json.dumps(redacted_value(scope.get(WHAT, {})))
        what = json.loads(words) if len(words) <= MOST_NOTED else cut(words, MOST_NOTED)
        facts = {"at": timestamp(time.time()), "who": who, "path": cut(scope["path"], MOST_NOTED), "status": status}
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self._audit, flags, 0o600), "wb") as audit:
            audit.write(json.dumps(facts | {"what": what}).encode() + b"\n")


def _bounded(receive: Receive) -> Receive:
    """The same, for a body whose length is not told."""
    read = 0

    async def bounded() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > MOST_BODY:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, TOO_LARGE)
        return message

    return bounded
