"""How all three doors are asked: a connection is one request and one answer, a line of JSON each (`shared.door`).

The kernel says who asks (unix(7), SO_PEERCRED). All of the cell is one user, who could as well end its own runner: no
place is kept for one of its processes against another. What the keep's own users ask is always let in."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

import msgspec
import structlog

from infra.keep.sockets import SocketTaken
from infra.shared.door import Answer, Failure
from infra.shared.exit_codes import Exit
from infra.shared.heart import Heart

_T = TypeVar("_T")
BEAT_SECONDS, SILENT_SECONDS = 3.0, 25.0
"""How often a door is heard of, and how long it may be silent."""


class Limits(NamedTuple):
    line_bytes: int
    """Of one request."""
    too_long: str = "invalid_request"
    """The failure's type for more."""
    held_bytes: int = 128 << 20
    """Of all requests that have not been answered."""
    at_once: int = 32
    """Requests that are worked on; the others wait in order."""
    connections: int = 64
    asking_seconds: float = 10.0
    """To send the request, and to take the answer."""


class Caller(NamedTuple):
    pid: int
    uid: int
    left: asyncio.Future[None]
    """Done once the other end is closed."""


class ClientLeft(Exception):
    """Nobody is left to hear the answer."""


class Refusal(Exception):
    """Ends a request with this failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


async def unless_left(caller: Caller, work: Awaitable[_T]) -> _T:
    """The result of `work`, which is cancelled when the client leaves first. Raises ClientLeft, and what it raises."""
    working = asyncio.ensure_future(work)
    try:
        await asyncio.wait((working, caller.left), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientLeft
        return working.result()
    finally:
        if not working.done():
            working.cancel()
            await asyncio.wait((working,))


def not_opened(error: Exception) -> Exit:
    """For a program that cannot open its door; the log has why."""
    structlog.get_logger().error("door.not_opened", reason=str(error))
    if isinstance(error, SocketTaken):
        return Exit.CONFLICT
    return Exit.CONFIG if isinstance(error, ValueError) else Exit.FAILURE


def keep_beating(heart: Heart) -> None:
    """From the loop that runs, as long as it does: one that is blocked falls silent (spec/SPEC_HEALTH.md)."""
    heart.beat("serving", SILENT_SECONDS)
    asyncio.get_running_loop().call_later(BEAT_SECONDS, keep_beating, heart)


def asked_to_leave() -> asyncio.Event:
    """Set at SIGTERM or SIGINT, by the loop that runs."""
    leave = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, leave.set)
    return leave


class DoorServer:
    """`shape`: the union of this door's requests. `answer` raises `Refusal` for what it does not do; `failed` puts any
    other exception, a request that cannot be read among them (msgspec.ValidationError), in the door's own terms.
    `keep`: the user who is let in beyond `connections`; by default the door's own."""

    def __init__(
        self,
        shape: Any,
        answer: Callable[[Any, Caller], Awaitable[msgspec.Struct]],
        failed: Callable[[Exception], Failure],
        limits: Limits,
        keep: int | None = None,
    ) -> None:
        self._decoder = msgspec.json.Decoder(shape)
        self._answer, self._failed, self._limits = answer, failed, limits
        self._keep = os.geteuid() if keep is None else keep
        self._places = asyncio.Semaphore(limits.at_once)
        self._open = set[asyncio.Task[None]]()
        self._held = 0

    async def serve(
        self,
        listening: socket.socket,
        ready: Callable[[], None] = lambda: None,
        leave: asyncio.Event | None = None,
    ) -> None:
        """Until `leave`, which by default is SIGTERM or SIGINT. `asyncio.run` cancels what is under way then."""
        leave = leave or asked_to_leave()
        with contextlib.closing(await asyncio.start_unix_server(self._accept, sock=listening)):
            ready()
            await leave.wait()
            await asyncio.sleep(0)  # who was let in by then is known, and so can be let go

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_late = len(self._open) >= self._limits.connections
        task = asyncio.create_task(self._attend(reader, writer, is_late))
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        task.add_done_callback(lambda _: writer.close())  # also when it is cancelled before it has begun

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_late: bool) -> None:
        """`is_late`: there were as many connections as there may be."""
        pid, uid = peer_of(writer.get_extra_info("socket"))
        line = bytearray()
        try:
            try:
                if is_late and uid != self._keep:
                    raise Refusal(_busy(f"{self._limits.connections} connections are open"))
                async with asyncio.timeout(self._limits.asking_seconds):  # wait_for may swallow being cancelled
                    await self._read(reader, line)
                said = await self._said(line, Caller(pid, uid, asyncio.ensure_future(_end_of(reader))))
            except Refusal as refusal:
                said = Answer(failure=refusal.failure)
            async with asyncio.timeout(self._limits.asking_seconds):
                writer.write(msgspec.json.encode(said) + b"\n")
                await writer.drain()
        except (OSError, EOFError, ClientLeft):
            pass  # it does not say all, takes no answer, or has left
        finally:
            self._held -= len(line)

    async def _said(self, line: bytearray, caller: Caller) -> Answer:
        """Raises Refusal, ClientLeft."""
        try:
            async with self._places:
                if caller.left.done():
                    raise ClientLeft
                done = await self._answer(self._decoder.decode(line), caller)
            return Answer(answer=msgspec.Raw(msgspec.json.encode(done)))
        except (Refusal, ClientLeft):
            raise
        except Exception as error:
            return Answer(failure=self._failed(error))
        finally:
            caller.left.cancel()

    async def _read(self, reader: asyncio.StreamReader, line: bytearray) -> None:
        """Raises EOFError, and Refusal for more than there is room for."""
        while not line.endswith(b"\n"):
            piece = await reader.read(1 << 18)
            if not piece:
                raise EOFError
            line += piece
            self._held += len(piece)
            if len(line) > self._limits.line_bytes:
                raise Refusal(Failure(self._limits.too_long, f"the request is over {self._limits.line_bytes} bytes"))
            if self._held > self._limits.held_bytes:
                raise Refusal(_busy(f"requests of over {self._limits.held_bytes} bytes are held already"))


def _busy(why: str) -> Failure:
    return Failure("unavailable", f"the door is busy: {why}; try again in a moment", retriable=True)


def peer_of(wire: socket.socket) -> tuple[int, int]:
    """Process and user at the other end; of a socket that is listened at, who listens."""
    pid, uid, _ = struct.unpack("3i", wire.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid


async def _end_of(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(OSError):
        while await reader.read(1 << 16):
            pass
