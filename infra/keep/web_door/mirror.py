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
from typing import NamedTuple

import httpx2

from infra.keep.web_door.connection import Connections
from infra.keep.web_door.fetching import REDIRECTS
from infra.keep.web_door.judge import Judge
from infra.keep.web_door.outgoing import let_words
from infra.keep.web_door.refusal import WebRefusal, denied, failed, invalid, late, unavailable
from infra.keep.web_door.resolve import Lookup
from infra.keep.web_door.target import PORTS, Target, redirected, target_of
from infra.shared.clock import timestamp
from infra.shared.host_rules import host_matches
from infra.shared.secret_shapes import redacted_and_cut
from infra.shared.text import cut, plain
from infra.shared.web import TraceLine

HEAD_BYTES = 16 << 10
LINE_BYTES = 1 << 20
"""Of an index without a tag or a comma."""
STATUS = {
    "validation_error": 405,
    "policy_denied": 403,
    "tool_timeout": 504,
    "tool_unavailable": 503,
    "execution_error": 502,
}
MOST_SHOWN = 500
_ASKED = re.compile(r"GET (/\S*) HTTP/1\.[01]\r\n")
_ACCEPT = re.compile(r"\r\naccept: ?([\x20-\x7e]{1,1000})\r\n", re.IGNORECASE)
_INDEX = re.compile(r"(?:text/html|(?:application|text)/(?:[\w.+-]+\+)?(?:html|json))\b")


class MirrorLimits(NamedTuple):
    connections: int = 64
    bytes: int = 8 << 30
    """Of one file."""
    seconds: float = 3600.0
    """For one file."""
    idle_seconds: float = 60.0
    head_seconds: float = 10.0


LIMITS = MirrorLimits()


class Mirror:
    """`hosts` are the PM's `web.package_hosts`; `record` returns when the line is on the disk."""

    def __init__(
        self,
        hosts: tuple[str, ...],
        judge: Judge,
        connections: Connections,
        lookup: Lookup,
        record: Callable[[TraceLine], Awaitable[None]],
        limits: MirrorLimits = LIMITS,
        port: int = PORTS["https"],
    ) -> None:
        self._hosts, self._judge, self._connections, self._lookup = hosts, judge, connections, lookup
        self._record, self._limits, self._port = record, limits, port
        self._open = 0
        self._home = ""
        names = "|".join(map(re.escape, hosts))
        self._address = re.compile(rf"https://((?:[a-z0-9_-]+\.)*(?:{names}))(?::443)?/".encode(), re.IGNORECASE)

    async def serve(self, listening: socket.socket) -> asyncio.Server:
        """Answer on this socket from now on."""
        self._home = "http://{}:{}".format(*listening.getsockname())
        return await asyncio.start_server(self._attend, sock=listening, limit=HEAD_BYTES)

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            async with asyncio.timeout(self._limits.seconds), contextlib.AsyncExitStack() as closing:
                await self._answer(reader, writer, closing)
        except (OSError, EOFError, TimeoutError, WebRefusal, httpx2.HTTPError, asyncio.CancelledError):
            writer.transport.abort()  # what has begun must not look whole
        finally:
            self._open -= 1
            writer.close()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, closing: contextlib.AsyncExitStack
    ) -> None:
        at, began, url = timestamp(time.time()), time.monotonic(), ""
        trouble: WebRefusal | None = None
        try:
            url, accept = await self._asked(reader)
            target = target_of(url)._replace(port=self._port)
            response = await self._begun(target, accept)
            closing.push_async_callback(response.stream.aclose)  # type: ignore[union-attr]
            head = self._head(target, response)
        except WebRefusal as refusal:
            trouble = refusal
        await self._record(_line(at, round((time.monotonic() - began) * 1000), url, trouble))
        if trouble:
            words = plain(cut(" ".join(trouble.error.message.split()), 300)).encode("ascii", "replace").decode()
            # The reason is all that these tools show of an answer.
            writer.write(f"HTTP/1.1 {STATUS[trouble.error.type]} {words}\r\ncontent-length: 0\r\n{_CLOSE}\r\n".encode())
        else:
            writer.write(head)
            async for piece in self._pieces(target, response):
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
            writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _asked(self, reader: asyncio.StreamReader) -> tuple[str, str]:
        """The address, and which form of it is wanted. Raises WebRefusal."""
        try:
            async with asyncio.timeout(self._limits.head_seconds):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.LimitOverrunError:
            raise invalid(f"the request has more than {HEAD_BYTES} bytes") from None
        asked = _ASKED.match(head)
        if not asked:
            raise invalid("only GET /<host>/<path> is known here")
        if self._open > self._limits.connections:
            raise unavailable(f"{self._limits.connections} files are under way; try again")
        accept = _ACCEPT.search(head)
        return f"https:/{asked[1]}", accept[1] if accept else "*/*"

    async def _begun(self, target: Target, accept: str) -> httpx2.Response:
        """Raises WebRefusal."""
        self._admit(target)
        let_words(target.url)
        try:
            async with asyncio.timeout(self._limits.idle_seconds):
                found = await self._lookup(target.host)
                self._judge.package(target.host, found)
                wanted = {"accept": accept, "accept-encoding": "identity"}
                return await self._connections.ask(target, found, self._limits.idle_seconds, wanted)
        except TimeoutError:
            raise late(f"{target.origin} did not answer within {self._limits.idle_seconds:g} s") from None

    def _admit(self, target: Target) -> None:
        """Raises WebRefusal."""
        if not host_matches(self._hosts, target.host):
            named = f"it names {', '.join(self._hosts)}" if self._hosts else "it names none"
            raise denied(f"{target.host} is not in web.package_hosts; {named}", "ask the PM for it")
        self._judge.package(target.host, ())

    def _head(self, target: Target, response: httpx2.Response) -> bytes:
        """Raises WebRefusal."""
        coding = response.headers.get("content-encoding", "identity")
        lines = [f"HTTP/1.1 {response.status_code} {response.reason_phrase}"]
        if response.status_code in REDIRECTS:
            to = redirected(target, response.headers.get("location", ""))
            if to.scheme != "https" or to.port != self._port:
                raise denied(f"{target.host} redirects to {to.origin}, which is no package host", "tell the PM")
            self._admit(to)
            lines.append(f"location: {self._home}/{to.host}{to.path}")
        elif coding != "identity":
            if _is_index(response):
                raise failed(f"{target.origin} sends {coding}, which was not asked for")
            lines.append(f"content-encoding: {coding}")
        if kind := response.headers.get("content-type"):
            lines.append(f"content-type: {kind}")
        return "\r\n".join([*lines, "transfer-encoding: chunked", _CLOSE, ""]).encode()

    async def _pieces(self, target: Target, response: httpx2.Response) -> AsyncIterator[bytes]:
        """The body, none of it empty. Raises httpx2.HTTPError, TimeoutError, WebRefusal."""
        left, held = self._limits.bytes, b""
        is_index = _is_index(response)
        if not isinstance(response.stream, httpx2.AsyncByteStream):
            raise AssertionError("unreachable: the transport is asynchronous")
        async for part in response.stream:
            left -= len(part)
            if left < 0 or len(held) > LINE_BYTES:
                raise failed(f"{target.origin} sends too much")
            held += part
            # An address is whole where a tag or a member of an object begins after it.
            end = max(held.rfind(b"<"), held.rfind(b",")) if is_index else len(held)
            if end > 0:
                yield self._mirrored(held[:end], target) if is_index else held
                held = held[end:]
        if held:
            yield self._mirrored(held, target)

    def _mirrored(self, text: bytes, target: Target) -> bytes:
        here = f"{self._home}/".encode()
        text = self._address.sub(lambda found: here + found[1].lower() + b"/", text)
        return _FROM_ROOT.sub(rb"\1" + here + target.host.encode() + b"/", text)


_CLOSE = "connection: close\r\n"
_FROM_ROOT = re.compile(rb"""((?:href=["']|"url": ?"))/(?!/)""", re.IGNORECASE)
"""An address without its host, in an index of HTML or JSON."""


def _is_index(response: httpx2.Response) -> bool:
    return bool(_INDEX.match(response.headers.get("content-type", "").strip().lower()))


def _line(at: str, milliseconds: int, url: str, trouble: WebRefusal | None) -> TraceLine:
    error = trouble.error.type if trouble else ""
    origin = "/".join(url.split("/", 3)[:3])
    return TraceLine(
        at=at,
        run_id="",
        step_id="",
        tool_name="package",
        args_hash=hashlib.sha256(url.encode()).hexdigest(),
        duration_ms=milliseconds,
        status="denied" if error == "policy_denied" else "error" if error else "package",
        error_code=error,
        policy_flags=trouble.flags if trouble else (),
        origin=redacted_and_cut(origin, MOST_SHOWN),
        url=redacted_and_cut(url, MOST_SHOWN),
    )
