"""The only network of a browser: a proxy on the socket that came with it. Each request of each page is judged as a page
that is fetched is, and what is connected to is the address that was judged.

What a secure connection carries is not read: its name is judged, its certificate is the browser's to check, and its
bytes are counted. A plain request has the name that was judged in `Host`, and nothing but its body follows it: another
one behind it would reach the server without having been judged."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from typing import Literal

from infra.keep.web_door.fetch import CONNECT_SECONDS, Lookup
from infra.keep.web_door.judge import Judge
from infra.keep.web_door.refusal import WebRefusal, denied, failed, invalid
from infra.keep.web_door.target import Target, target_of
from infra.shared.web import WebTool

HEAD_BYTES, PIECE = 64 << 10, 64 << 10
HEAD_SECONDS, IDLE_SECONDS = 10.0, 30.0
DOWN_BYTES, UP_BYTES, LEAST_UP = 32 << 20, 1 << 20, 1000
"""Of one look at a page, with all that it asks for; what a connection costs at least, which bounds their number."""
MOST_CONNECTIONS = 64
_ENDLESS = 1 << 40
"""What the errand alone bounds."""
_ASKED = re.compile(r"([A-Z]{1,20}) (\S+) HTTP/1\.[01]")
_FIELD = re.compile(r"[!-9;-~]+:[^\r\n\0]*")
"""Other lines a server may read as more than one, or as the end of the one before."""
_DROPPED = re.compile(
    r"(host|connection|content-length|keep-alive|te|trailer|transfer-encoding|upgrade|proxy-[^:]*):", re.IGNORECASE
)
_LENGTH = re.compile(r"content-length: *([0-9]{1,9}) *", re.IGNORECASE)
TLS = b"\x16\x03"
"""How each secure connection begins."""
Way = Literal["down", "up"]
_NO_BODY = b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Errand:
    """What the look that is under way may still do, and what was refused to it."""

    def __init__(self, asked: str, tool: WebTool = "fetch_page", down: int = DOWN_BYTES, up: int = UP_BYTES) -> None:
        """`asked`: the host that the agent named; `tool`: what it called."""
        self.asked, self.tool, self._left = asked, tool, {"down": down, "up": up}
        self.flags = dict[str, None]()
        self.refused: WebRefusal | None = None
        """The first, of whatever the page asked for."""
        self.loaded = 0
        self.origins = set[str]()
        """All that were connected to."""

    def take(self, way: Way, size: int) -> None:
        """So many bytes go that way. Raises WebRefusal when they may not."""
        self._left[way] -= size
        if self._left[way] < 0:
            raise self.refuse(denied("the page has had all the bytes that it may", "", "cut"))
        self.loaded += size * (way == "down")

    def refuse(self, refusal: WebRefusal) -> WebRefusal:
        self.refused = self.refused or refusal
        self.flags |= dict.fromkeys(refusal.flags)
        return refusal


class Proxy:
    """Of one browser; it serves nothing but the `errand` that is set."""

    def __init__(self, judge: Judge, lookup: Lookup) -> None:
        self._judge, self._lookup = judge, lookup
        self.errand: Errand | None = None
        self._open = set[asyncio.Task[None]]()

    async def serve(self, listening: socket.socket) -> None:
        """Until it is cancelled, or until the socket, which whoever made it may have kept, is none any more."""
        listening.setblocking(False)
        with listening, contextlib.suppress(OSError):
            while True:
                wire, _ = await asyncio.get_running_loop().sock_accept(listening)
                if self.errand is None or len(self._open) >= MOST_CONNECTIONS:
                    wire.close()
                    continue
                task = asyncio.create_task(self._attend(self.errand, wire))
                self._open.add(task)
                task.add_done_callback(self._open.discard)

    def over(self) -> None:
        """No byte for a look that has ended."""
        self.errand = None
        for task in self._open:
            task.cancel()

    async def _attend(self, errand: Errand, wire: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=wire, limit=HEAD_BYTES)
        try:
            async with asyncio.timeout(HEAD_SECONDS + CONNECT_SECONDS):
                target, head, body = _asked(await reader.readuntil(b"\r\n\r\n"))
                errand.take("up", max(len(head), LEAST_UP))
                there, out = await asyncio.open_connection(await self._admitted(target, errand), target.port)
            errand.origins.add(target.origin)
        except WebRefusal as refusal:
            errand.refuse(refusal)
            writer.write(b"HTTP/1.1 403 Refused" + _NO_BODY)
        except (OSError, EOFError, asyncio.LimitOverrunError):
            writer.write(b"HTTP/1.1 502 Unreachable" + _NO_BODY)
        else:
            try:
                if not head:
                    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                    async with asyncio.timeout(HEAD_SECONDS):
                        head = await reader.readexactly(len(TLS))
                    if head != TLS:
                        raise errand.refuse(invalid("a connection that is not secure is asked for plainly"))
                out.write(head)
                async with asyncio.TaskGroup() as both:
                    both.create_task(_pump(reader, out, errand, "up", body))
                    both.create_task(_pump(there, writer, errand, "down"))
            except* (OSError, EOFError, WebRefusal):
                pass  # what was refused is in the errand
            finally:
                out.transport.abort()
        finally:
            writer.transport.abort()

    async def _admitted(self, target: Target, errand: Errand) -> str:
        """The address to connect to. Raises WebRefusal."""
        errand.take("down", 0)
        self._judge.let(target, errand.tool, asked=errand.asked)
        found = await self._lookup(target.host)
        self._judge.let(target, errand.tool, found, errand.asked)
        return str(found[0])


def _asked(whole: bytes) -> tuple[Target, bytes, int]:
    """The target; the head to send to it, empty for a tunnel; and how many bytes of body may follow. Raises
    WebRefusal."""
    asked, *lines = whole.decode("latin-1").split("\r\n")[:-2]
    found = _ASKED.fullmatch(asked)
    if not found or not all(map(_FIELD.fullmatch, lines)):
        raise invalid("that is no request to a proxy")
    method, address = found[1], found[2]
    try:
        target = target_of(f"https://{address}/" if method == "CONNECT" else address)
    except WebRefusal:  # what it says may hold words of the page's
        raise failed("the page asks for what is no address", "use another source") from None
    if method == "CONNECT":
        return target, b"", _ENDLESS
    if target.scheme != "http":
        raise invalid("that is no plain request")
    # Its end is told in words of ours, so that the server sees it where we do.
    lengths = [told[1] for line in lines if (told := _LENGTH.fullmatch(line))][:1]
    kept = [line for line in lines if not _DROPPED.match(line)] + [f"Content-Length: {each}" for each in lengths]
    sent = [f"{method} {target.path} HTTP/1.1", f"Host: {target.authority}", *kept, "Connection: close", "", ""]
    return target, "\r\n".join(sent).encode("latin-1"), sum(map(int, lengths))


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, errand: Errand, way: Way, most: int = _ENDLESS
) -> None:
    """Until the end; what comes beyond so much is not passed on. Raises WebRefusal when the errand's bytes are used up,
    OSError."""
    while True:
        async with asyncio.timeout(IDLE_SECONDS):
            piece = await reader.read(PIECE)
        errand.take(way, len(piece))
        if not piece:
            writer.write_eof()
            return
        writer.write(piece[:most])
        most = max(0, most - len(piece))
        await writer.drain()
