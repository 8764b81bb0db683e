"""Where the cell reaches nothing but the doors: the way to the package indexes that the PM named, for pip, uv and npm.
An HTTP proxy that knows CONNECT alone. What passes is TLS between them and the index, which has to begin by asking for
the very host; nobody looks further into it.

The name is looked up once, every address found is judged, and one of these is connected to. A connection is on record
before its first byte passes."""

from __future__ import annotations

import asyncio
import hashlib
import re
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, NamedTuple

from infra.keep.web_door import client_hello
from infra.shared.addresses import Address, is_inner
from infra.shared.clock import timestamp
from infra.shared.host_names import problem_with_host_name
from infra.shared.text import cut, plain
from infra.shared.web import TraceLine, WebErrorType

TLS_PORT = 443
HEAD_BYTES = 8192
PIECE_BYTES = 1 << 16
MOST_ADDRESSES = 4
"""Of one name, that are tried one after another."""
_CONNECT = re.compile(r"CONNECT ([^\s:]{1,300}):([0-9]{1,5}) HTTP/1\.[01]")

Resolve = Callable[[str], Awaitable[Sequence[Address]]]
"""Every address of a name. Raises OSError."""
Denied = Callable[[str, Sequence[Address]], str]
"""Why the PM's rules deny a host that was found at these addresses; empty when they do not."""


class PackageLimits(NamedTuple):
    connections: int = 64
    """At once; as many again are told that there are too many."""
    bytes_up: int = 8 << 20
    """Of one connection: questions for packages are short, what is carried out is not."""
    bytes_down: int = 8 << 30
    seconds: float = 3600.0
    """Of one connection."""
    idle_seconds: float = 120.0
    head_seconds: float = 10.0
    """For the request, the look-up, and each connection that is tried."""


LIMITS = PackageLimits()


class _Refused(Exception):
    def __init__(self, status: int, error: WebErrorType, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.error = error


class Packages:
    """The proxy. `hosts` are the PM's `web.package_hosts`; `record` returns when the line is on the disk."""

    def __init__(
        self,
        hosts: tuple[str, ...],
        resolve: Resolve,
        record: Callable[[TraceLine], Awaitable[None]],
        limits: PackageLimits = LIMITS,
        *,
        denied: Denied = lambda host, found: "",
        is_private_allowed: bool = False,
        port: int = TLS_PORT,
    ) -> None:
        self._hosts = hosts
        self._resolve = resolve
        self._record = record
        self._limits = limits
        self._denied = denied
        self._is_private_allowed = is_private_allowed
        self._port = port
        self._open = 0

    async def serve(self, listening: socket.socket) -> asyncio.Server:
        """Answer on this socket from now on."""
        return await asyncio.start_server(self._answer, sock=listening, limit=HEAD_BYTES)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= 2 * self._limits.connections:
                await self._pass_on(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # who asked has gone, or did not ask in time; or the door leaves
        finally:
            self._open -= 1
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        began, host = time.time(), ""
        try:
            head = await self._head(reader)
            if self._open > self._limits.connections:
                raise _Refused(503, "tool_unavailable", f"{self._limits.connections} connections are open; try again")
            host, port = _asked(head)
            self._judge(host, port)
            theirs = await self._connect(host)
        except _Refused as refused:
            await self._record(
                _line(began, host, "denied" if refused.error == "policy_denied" else "error", refused.error)
            )
            # The reason is all that pip and npm show of an answer.
            writer.write(f"HTTP/1.1 {refused.status} {_one_line(str(refused))}\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
            return
        try:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            if await self._is_greeted(reader, writer, *theirs, began, host):
                await self._relay(reader, writer, *theirs)
                return
            await self._record(_line(began, host, "denied", "policy_denied"))
        finally:
            theirs[1].close()

    async def _head(self, reader: asyncio.StreamReader) -> bytes:
        try:
            async with asyncio.timeout(self._limits.head_seconds):
                return await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise _Refused(431, "validation_error", f"the request has more than {HEAD_BYTES} bytes") from None

    async def _is_greeted(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
        began: float,
        host: str,
    ) -> bool:
        """Passes on what TLS begins with, for as long as no other than `host` is asked for; gives whether none was, and
        none can be any more. Raises OSError, IncompleteReadError."""
        hello = await self._hello(reader, host)
        if not hello:
            return False
        await self._record(_line(began, host, "package"))
        far_writer.write(hello)
        # Nothing more is taken from the client before it is known what the index says to that.
        answer = await self._answer_of(far_reader)
        writer.write(answer)
        if client_hello.asks_again(answer):
            hello = await self._hello(reader, host, is_second=True)
            far_writer.write(hello)
        return bool(hello)

    async def _hello(self, reader: asyncio.StreamReader, host: str, is_second: bool = False) -> bytes:
        """What TLS begins with; empty when it asks for another than `host`. Raises OSError, IncompleteReadError."""
        before = b""
        async with asyncio.timeout(self._limits.head_seconds):
            try:
                header = await reader.readexactly(client_hello.HEADER_BYTES)
                if is_second and client_hello.says_nothing(header):
                    before = header + await reader.readexactly(1)
                    header = await reader.readexactly(client_hello.HEADER_BYTES)
                record = await reader.readexactly(client_hello.length_of(header))
                name = client_hello.server_name(record)
            except client_hello.NoHello:
                return b""
        return before + header + record if name.removesuffix(".") == host else b""

    async def _answer_of(self, far_reader: asyncio.StreamReader) -> bytes:
        """How it begins. Raises OSError when there is none in time."""
        begin = b""
        async with asyncio.timeout(self._limits.head_seconds):
            while len(begin) < client_hello.ANSWER_BYTES and client_hello.is_answer(begin):
                piece = await far_reader.read(PIECE_BYTES)
                if not piece:
                    break
                begin += piece
        return begin

    def _judge(self, host: str, port: int) -> None:
        """Raises _Refused."""
        if not any(f".{host}".endswith(f".{listed}") for listed in self._hosts):
            listed = f"it names {', '.join(self._hosts)}" if self._hosts else "it names none"
            raise _Refused(403, "policy_denied", f"{host} is not in web.package_hosts; {listed}")
        if port != TLS_PORT:
            why = f"port {port} of {host} is closed; packages come from {TLS_PORT} alone"
            raise _Refused(403, "policy_denied", why)
        self._obey(host, ())

    def _obey(self, host: str, found: Sequence[Address]) -> None:
        """Raises _Refused."""
        if why := self._denied(host, found):
            raise _Refused(403, "policy_denied", f"the PM's policy denies {host} ({why})")

    async def _connect(self, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Raises _Refused."""
        try:
            async with asyncio.timeout(self._limits.head_seconds):
                found = await self._resolve(host)
        except OSError as error:
            raise _Refused(502, "execution_error", f"{host} is not found: {_words(error)}") from None
        self._obey(host, found)
        for address in found:
            if is_inner(address) and not self._is_private_allowed:
                raise _Refused(403, "policy_denied", f"{host} is at {address}, an address of a private network")
        why = "it has no address"
        for address in found[:MOST_ADDRESSES]:
            try:
                async with asyncio.timeout(self._limits.head_seconds):
                    return await asyncio.open_connection(str(address), self._port, limit=PIECE_BYTES)
            except OSError as error:
                why = _words(error)
        raise _Refused(502, "execution_error", f"{host} is not reached: {why}")

    async def _relay(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
    ) -> None:
        """Until both sides have ended and heard it all, one has gone, or a bound is reached. Nothing is left then, also
        of what one of them never read: closing alone would wait for that, for ever."""
        limits, loop = self._limits, asyncio.get_running_loop()
        end = loop.time() + limits.seconds

        def patient() -> float:
            return min(end, loop.time() + limits.idle_seconds)

        try:
            async with asyncio.timeout_at(patient()) as waiting:

                async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter, most: int) -> None:
                    while piece := await source.read(PIECE_BYTES):
                        if waiting.expired():
                            return
                        waiting.reschedule(patient())
                        most -= len(piece)
                        if most < 0:
                            raise ConnectionAbortedError
                        sink.write(piece)
                        await sink.drain()
                    sink.write_eof()

                async with asyncio.TaskGroup() as both:
                    both.create_task(copy(reader, far_writer, limits.bytes_up))
                    both.create_task(copy(far_reader, writer, limits.bytes_down))
                for each in (writer, far_writer):
                    each.close()
                    await each.wait_closed()
        except* OSError:
            pass
        finally:
            for each in (writer, far_writer):
                each.transport.abort()


def _asked(head: bytes) -> tuple[str, int]:
    """The host and the port that are asked for. Raises _Refused."""
    first = head.partition(b"\r\n")[0].decode("ascii", "replace")
    asked = _CONNECT.fullmatch(first)
    if not asked:
        why = f"only CONNECT host:{TLS_PORT} is known here: packages come by https"
        raise _Refused(405, "validation_error", why)
    host = asked[1].lower().removesuffix(".")
    if problem := problem_with_host_name(host):
        raise _Refused(403, "validation_error", problem)
    return host, int(asked[2])


def _line(began: float, host: str, status: Literal["error", "denied", "package"], error: str = "") -> TraceLine:
    return TraceLine(
        at=timestamp(began),
        run_id="",
        step_id="",
        tool_name="package",
        args_hash=hashlib.sha256(host.encode()).hexdigest(),
        duration_ms=round((time.time() - began) * 1000),
        status=status,
        error_code=error,
        origin=f"https://{host}" if host else "",
    )


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def _one_line(text: str) -> str:
    return plain(cut(" ".join(text.split()), 300)).encode("ascii", "replace").decode()
