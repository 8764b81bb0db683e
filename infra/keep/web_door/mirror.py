"""Packages where the cell reaches nothing but the doors: `GET /<host>/<path>` at a port on loopback brings
`https://<host>/<path>`, for hosts that the PM named. Only addresses leave, and no other method is known.

Each address is judged and pinned as a page's is. In indexes the addresses of package hosts become the mirror's own, so
that pip, uv and npm come back for the files. A line is on record before the first byte passes."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx2
import msgspec

from infra.keep.web_door.fetch import REDIRECTS, Connections, Lookup
from infra.keep.web_door.judge import Judge
from infra.keep.web_door.outgoing import let_words
from infra.keep.web_door.refusal import WebRefusal, denied, failed, invalid, late
from infra.keep.web_door.target import PORTS, Target, redirected, target_of
from infra.keep.web_door.trace import TraceLine, begun_line
from infra.shared.network import host_matches
from infra.shared.text import cut, plain

HEAD_BYTES, IDLE_SECONDS, FILE_SECONDS = 16 << 10, 60.0, 3600.0
AT_ONCE = 64
LINE_BYTES = 1 << 20
"""Of an index without a tag or a comma."""
STATUS = {"policy_denied": 403, "validation_error": 405}
_ASKED = re.compile(r"GET (/\S*) HTTP/1\.[01]\r\n")
_INDEX = re.compile(r"\s*(?:text/html|application/(?:[\w.+-]+\+)?(?:html|json))\b", re.IGNORECASE)
_FROM_ROOT = re.compile(rb"""(href=["'])/(?!/)""", re.IGNORECASE)
"""An address without its host."""


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
    ) -> None:
        self._hosts, self._judge, self._connections, self._lookup = hosts, judge, connections, lookup
        self._record, self._port = record, port
        self._places = asyncio.Semaphore(AT_ONCE)
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
        at, began, url = time.time(), time.monotonic(), ""
        trouble: WebRefusal | None = None
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                url = await self._asked(reader)
                target = target_of(url)._replace(port=self._port)
                response = await self._response(target)
            closing.push_async_callback(response.aclose)
            lines = self._head(target, response)
        except (WebRefusal, TimeoutError) as error:
            trouble = error if isinstance(error, WebRefusal) else late(f"no answer came within {IDLE_SECONDS:g} s")
            # The reason is all that these tools show of an answer.
            words = plain(cut(" ".join(trouble.error.message.split()), 300)).encode("ascii", "replace").decode()
            lines = [f"HTTP/1.1 {STATUS.get(trouble.error.type, 502)} {words}", "content-length: 0"]
        line = begun_line("package", url.encode(), url, at, time.monotonic() - began, trouble)
        origin, status = "/".join(line.url.split("/")[:3]), line.status if trouble else "package"
        await self._record(msgspec.structs.replace(line, origin=origin, status=status))
        yield "\r\n".join([*lines, "connection: close", "", ""]).encode()
        if not trouble:
            async for piece in self._pieces(target, response):
                yield b"%x\r\n%b\r\n" % (len(piece), piece)
            yield b"0\r\n\r\n"

    async def _asked(self, reader: asyncio.StreamReader) -> str:
        """The address. Raises WebRefusal, EOFError."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.LimitOverrunError:
            raise invalid(f"the request has more than {HEAD_BYTES} bytes") from None
        if not (asked := _ASKED.match(head)):
            raise invalid("only GET /<host>/<path> is known here")
        return f"https:/{asked[1]}"

    async def _response(self, target: Target) -> httpx2.Response:
        self._admit(target)
        let_words(target.url)
        found = await self._lookup(target.host)
        self._judge.package(target.host, found)
        return await self._connections.ask(target, found[0], IDLE_SECONDS)

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
        held = b""
        async for part in response.aiter_raw():
            held += part
            # An address is whole where a tag or a member of an object begins after it.
            end = max(held.rfind(b"<"), held.rfind(b","), 0) if is_index else len(held)
            if len(held) - end > LINE_BYTES:
                raise failed(f"{target.origin} sends an index without an end")
            if end:
                yield self._mirrored(held[:end], target) if is_index else held
                held = held[end:]
        if held:
            yield self._mirrored(held, target)

    def _mirrored(self, text: bytes, target: Target) -> bytes:
        here = f"{self._home}/".encode()
        text = self._address.sub(lambda found: here + found[1].lower() + b"/", text)
        return _FROM_ROOT.sub(rb"\1" + here + target.host.encode() + b"/", text)
