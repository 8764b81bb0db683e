"""Packages where the cell reaches nothing but the doors: `GET /<host>/<path>` at a port on loopback brings
`https://<host>/<path>`, for hosts that the PM named. Only addresses leave, and no other method is known.

Each address is judged and pinned as a page's is. In indexes the addresses of package hosts become the mirror's own, so
that pip, uv and npm come back for the files. A line is on record before the first byte passes."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx2

from infra.keep.web_door.fetch import REDIRECTS, Connections, Lookup
from infra.keep.web_door.judge import Judge
from infra.keep.web_door.outgoing import let_words
from infra.keep.web_door.refusal import WebRefusal, denied, failed, invalid, late
from infra.keep.web_door.target import PORTS, Target, redirected, target_of
from infra.shared.clock import timestamp
from infra.shared.host_rules import host_matches
from infra.shared.secret_shapes import redacted_and_cut
from infra.shared.text import cut, plain
from infra.shared.web import TraceLine

HEAD_BYTES, HEAD_SECONDS, IDLE_SECONDS, FILE_SECONDS = 16 << 10, 10.0, 60.0, 3600.0
LINE_BYTES = 1 << 20
"""Of an index without a tag or a comma."""
MOST_SHOWN = 500
STATUS = {"policy_denied": 403, "validation_error": 405, "execution_error": 502, "tool_unavailable": 503}
_ASKED = re.compile(r"GET (/\S*) HTTP/1\.[01]\r\n")
_ACCEPT = re.compile(r"\r\naccept: ?([\x20-\x7e]{1,1000})\r\n", re.IGNORECASE)
_INDEX = re.compile(r"\s*(?:text/html|application/(?:[\w.+-]+\+)?(?:html|json))\b", re.IGNORECASE)
_FROM_ROOT = re.compile(rb"""((?:href=["']|"url": ?"))/(?!/)""", re.IGNORECASE)
"""An address without its host, in an index of HTML or JSON."""


class Mirror:
    """`hosts` are the PM's `web.package_hosts`; `record` returns when the line is on the disk."""

    def __init__(
        self,
        hosts: tuple[str, ...],
        judge: Judge,
        connections: Connections,
        lookup: Lookup,
        record: Callable[[TraceLine], Awaitable[None]],
        port: int = PORTS["https"],
        at_once: int = 64,
        file_bytes: int = 8 << 30,
    ) -> None:
        self._hosts, self._judge, self._connections, self._lookup = hosts, judge, connections, lookup
        self._record, self._port, self._file_bytes = record, port, file_bytes
        self._places = asyncio.Semaphore(at_once)
        names = "|".join(map(re.escape, hosts))
        self._address = re.compile(rf"https://((?:[a-z0-9_-]+\.)*(?:{names}))(?::443)?/".encode(), re.IGNORECASE)

    async def serve(self, listening: socket.socket) -> asyncio.Server:
        """Answer on this socket from now on."""
        self._home = "http://{}:{}".format(*listening.getsockname())
        return await asyncio.start_server(self._attend, sock=listening, limit=HEAD_BYTES)

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with self._places, asyncio.timeout(FILE_SECONDS), contextlib.AsyncExitStack() as closing:
                async for piece in self._answer(reader, closing):
                    writer.write(piece)
                    await writer.drain()
        except (OSError, EOFError, WebRefusal, httpx2.HTTPError, asyncio.CancelledError):
            writer.transport.abort()  # what has begun must not look whole
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, closing: contextlib.AsyncExitStack) -> AsyncIterator[bytes]:
        """Raises what cannot be told any more, as the answer has begun."""
        at, began, url = timestamp(time.time()), time.monotonic(), ""
        trouble: WebRefusal | None = None
        try:
            url, accept = await self._asked(reader)
            target = target_of(url)._replace(port=self._port)
            response = await self._response(target, accept)
            closing.push_async_callback(response.aclose)
            lines = self._head(target, response)
        except WebRefusal as refusal:
            trouble = refusal
            # The reason is all that these tools show of an answer.
            words = plain(cut(" ".join(refusal.error.message.split()), 300)).encode("ascii", "replace").decode()
            lines = [f"HTTP/1.1 {STATUS.get(refusal.error.type, 504)} {words}", "content-length: 0"]
        await self._record(_line(at, began, url, trouble))
        yield "\r\n".join([*lines, "connection: close", "", ""]).encode()
        if not trouble:
            async for piece in self._pieces(target, response):
                yield b"%x\r\n%b\r\n" % (len(piece), piece)
            yield b"0\r\n\r\n"

    async def _asked(self, reader: asyncio.StreamReader) -> tuple[str, str]:
        """The address, and which form of it is wanted. Raises WebRefusal, TimeoutError."""
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.LimitOverrunError:
            raise invalid(f"the request has more than {HEAD_BYTES} bytes") from None
        asked, accept = _ASKED.match(head), _ACCEPT.search(head)
        if not asked:
            raise invalid("only GET /<host>/<path> is known here")
        return f"https:/{asked[1]}", accept[1] if accept else "*/*"

    async def _response(self, target: Target, accept: str) -> httpx2.Response:
        self._admit(target)
        let_words(target.url)
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                found = await self._lookup(target.host)
                self._judge.package(target.host, found)
                headers = {"accept": accept, "accept-encoding": "identity"}
                return await self._connections.ask(target, found, IDLE_SECONDS, headers)
        except TimeoutError:
            raise late(f"{target.origin} did not answer within {IDLE_SECONDS:g} s") from None

    def _admit(self, target: Target) -> None:
        if not host_matches(self._hosts, target.host):
            named = f"it names {', '.join(self._hosts) or 'none'}"
            raise denied(f"{target.host} is not in web.package_hosts; {named}", "ask the PM for it")
        self._judge.package(target.host, ())

    def _head(self, target: Target, response: httpx2.Response) -> list[str]:
        shown = {name: each for name, each in response.headers.items() if name in ("content-type", "content-encoding")}
        if response.status_code in REDIRECTS:  # the client asks for it, and it is judged, as for any other
            to = redirected(target, response.headers.get("location", ""))
            if (to.scheme, to.port) != ("https", self._port):
                raise denied(f"{target.host} redirects to {to.origin}, which is no package host", "tell the PM")
            self._admit(to)
            shown = {"location": f"{self._home}/{to.host}{to.path}"}
        lines = (f"{name}: {each}" for name, each in shown.items())
        return [f"HTTP/1.1 {response.status_code} {response.reason_phrase}", *lines, "transfer-encoding: chunked"]

    async def _pieces(self, target: Target, response: httpx2.Response) -> AsyncIterator[bytes]:
        """The body, none of it empty. Raises httpx2.HTTPError, WebRefusal."""
        is_index = bool(_INDEX.match(response.headers.get("content-type", "")))
        left, held = self._file_bytes, b""
        async for part in response.aiter_raw():
            left -= len(part)
            held += part
            # An address is whole where a tag or a member of an object begins after it.
            end = max(held.rfind(b"<"), held.rfind(b","), 0) if is_index else len(held)
            if left < 0 or len(held) - end > LINE_BYTES:
                raise failed(f"{target.origin} sends too much")
            if end:
                yield self._mirrored(held[:end], target) if is_index else held
                held = held[end:]
        if held:
            yield self._mirrored(held, target)

    def _mirrored(self, text: bytes, target: Target) -> bytes:
        here = f"{self._home}/".encode()
        text = self._address.sub(lambda found: here + found[1].lower() + b"/", text)
        return _FROM_ROOT.sub(rb"\1" + here + target.host.encode() + b"/", text)


def _line(at: str, began: float, url: str, trouble: WebRefusal | None) -> TraceLine:
    error, milliseconds = trouble.error.type if trouble else "", round((time.monotonic() - began) * 1000)
    return TraceLine(
        *(at, "", "", "package", hashlib.sha256(url.encode()).hexdigest(), milliseconds),
        status="denied" if error == "policy_denied" else "error" if error else "package",
        error_code=error,
        policy_flags=trouble.flags if trouble else (),
        origin=redacted_and_cut("/".join(url.split("/")[:3]), MOST_SHOWN),
        url=redacted_and_cut(url, MOST_SHOWN),
    )
