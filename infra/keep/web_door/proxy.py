"""The only network of a browser: a proxy on the socket that came with it. Each request of each page is judged as a page
that is fetched is, and what is connected to is the address that was judged.

What a secure connection carries is not read: its name is judged, its certificate is the browser's to check, and its
bytes are counted. A plain request has the name that was judged in `Host`, and nothing behind it on its connection."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import Iterable

from infra.keep.web_door.fetch import CONNECT_SECONDS, Lookup
from infra.keep.web_door.judge import Judge, Tool
from infra.keep.web_door.refusal import WebRefusal, denied, invalid
from infra.keep.web_door.target import Target, target_of

HEAD_BYTES, PIECE = 64 << 10, 64 << 10
HEAD_SECONDS, IDLE_SECONDS = 10.0, 30.0
DOWN_BYTES, UP_BYTES = 32 << 20, 1 << 20
"""Of one look at a page, with all that it asks for."""
MOST_CONNECTIONS = 64
MOST_FLAGS, MOST_ORIGINS = 20, 500
_ASKED = re.compile(r"([A-Z]{1,20}) (\S+) HTTP/1\.[01]")
_DROPPED = ("host", "connection", "keep-alive", "te", "trailer", "upgrade")


class Errand:
    """What the look that is under way may still do, and what was refused to it."""

    def __init__(self, asked: str, tool: Tool = "fetch_page", down: int = DOWN_BYTES, up: int = UP_BYTES) -> None:
        """`asked`: the host that the agent named; `tool`: what it called."""
        self.asked, self.tool, self.down, self.up = asked, tool, down, up
        self.flags = dict[str, None]()
        self.refused: WebRefusal | None = None
        """The first, of whatever the page asked for."""
        self.loaded = 0
        self.origins = dict[str, None]()
        """All that were connected to."""

    def refuse(self, refusal: WebRefusal) -> None:
        self.refused = self.refused or refusal
        for flag in refusal.flags:
            if len(self.flags) < MOST_FLAGS:
                self.flags[flag] = None


class Proxy:
    """Of one browser; it serves nothing but the `errand` that is set."""

    def __init__(self, judge: Judge, lookup: Lookup) -> None:
        self._judge, self._lookup = judge, lookup
        self.errand: Errand | None = None
        self._open = set[asyncio.Task[None]]()

    async def serve(self, listening: socket.socket) -> asyncio.Server:
        return await asyncio.start_server(self._accept, sock=listening, limit=HEAD_BYTES)

    def over(self) -> None:
        """No byte for a look that has ended."""
        self.errand = None
        for task in self._open:
            task.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.errand is None or len(self._open) >= MOST_CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._attend(self.errand, reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        task.add_done_callback(lambda _: writer.transport.abort())

    async def _attend(self, errand: Errand, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_SECONDS + CONNECT_SECONDS):
                method, target, head = await self._asked(reader)
                address = await self._admitted(target, errand)
                there, out = await asyncio.open_connection(address, target.port, limit=PIECE)
        except WebRefusal as refusal:
            errand.refuse(refusal)
            await _say(writer, "403 Refused")
        except (OSError, TimeoutError, EOFError, asyncio.LimitOverrunError):
            await _say(writer, "502 Unreachable")
        else:
            try:
                if method == "CONNECT":
                    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                else:
                    out.write(head)
                await _both(_pump(reader, out, errand, "up"), _pump(there, writer, errand, "down"))
            finally:
                out.transport.abort()

    async def _asked(self, reader: asyncio.StreamReader) -> tuple[str, Target, bytes]:
        """Raises WebRefusal, EOFError, LimitOverrunError."""
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
        found = _ASKED.fullmatch(lines[0])
        if not found:
            raise invalid("that is no request to a proxy")
        method, address = found[1], found[2]
        if method == "CONNECT":
            scheme = "http" if address.endswith(":80") else "https"
            return method, target_of(f"{scheme}://{address}/"), b""
        target = target_of(address)
        if target.scheme != "http":
            raise invalid("that is no plain request")
        kept = (line for line in lines[1:] if line.partition(":")[0].strip().lower() not in _DROPPED)
        sent = [
            f"{method} {target.path} HTTP/1.1",
            f"Host: {target.authority}",
            *_without_proxy(kept),
            "Connection: close",
        ]
        return method, target, "\r\n".join([*sent, "", ""]).encode("latin-1")

    async def _admitted(self, target: Target, errand: Errand) -> str:
        """The address to connect to. Raises WebRefusal."""
        if errand.down <= 0:
            raise denied("the page has had all the bytes that it may", "", "cut")
        self._judge.let(target, errand.tool, asked=errand.asked)
        found = await self._lookup(target.host)
        self._judge.let(target, errand.tool, found, errand.asked)
        if len(errand.origins) < MOST_ORIGINS:
            errand.origins[target.origin] = None
        return str(found[0])


def _without_proxy(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if not line.lower().startswith("proxy-")]


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, errand: Errand, way: str) -> None:
    """Until the end, or until the errand's bytes are used up."""
    while True:
        async with asyncio.timeout(IDLE_SECONDS):
            piece = await reader.read(PIECE)
        left = getattr(errand, way) - len(piece)
        setattr(errand, way, left)
        if left < 0:
            errand.refuse(denied("the page has had all the bytes that it may", "", "cut"))
            raise OSError("too many bytes")
        if not piece:
            if writer.can_write_eof():
                writer.write_eof()
            return
        errand.loaded += len(piece) * (way == "down")
        writer.write(piece)
        await writer.drain()


async def _both(*pumps: asyncio._CoroutineLike[None]) -> None:
    with contextlib.suppress(OSError, TimeoutError, ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            for pump in pumps:
                group.create_task(pump)


async def _say(writer: asyncio.StreamWriter, status: str) -> None:
    with contextlib.suppress(OSError):
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
        await writer.drain()
