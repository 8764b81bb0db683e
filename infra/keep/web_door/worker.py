"""The worker that reads bodies: a process apart, so that a parser that fails, hangs or is taken over harms one page.

Here is the door's side of it. One page at a time; a worker that died, or was late, is replaced."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import subprocess
from typing import Final

import msgspec

from infra.keep.programs import keep_command, keep_environment
from infra.keep.web_door.content import MOST_LINK_CHARS, MOST_LINKS, MOST_TITLE_CHARS, Content
from infra.keep.web_door.frame import normal, one_line
from infra.keep.web_door.refusal import failed
from infra.shared.web import MOST_CHARS, MOST_URL_CHARS, Link

SECONDS: Final = 20.0
START_SECONDS: Final = 30.0
MOST_REPLY_BYTES: Final = 16 << 20
LENGTH: Final = struct.Struct(">I")
GROWN_BYTES: Final = 200 << 20
"""A worker that has so much resident memory after a page makes room for a new one."""
READY: Final = b"r"


class Body(msgspec.Struct, frozen=True):
    """What the worker is sent."""

    body: bytes
    content_type: str
    url: str
    raw: bool


class Unread(msgspec.Struct, frozen=True, tag=True):
    """It could not be read; in our words."""

    why: str


class Read(msgspec.Struct, frozen=True, tag=True):
    content: Content


class _Lost(Exception):
    """The worker ended, or said what it must not."""


class _Worker:
    """One process, with one socket to it. Not asyncio's subprocess: that one waits for ever for a child whose end was
    noticed elsewhere."""

    def __init__(self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.process, self.reader, self.writer = process, reader, writer
        self.is_ready = False

    @classmethod
    async def started(cls, module: str) -> _Worker:
        """It is not waited for until it is ready. Raises OSError."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = subprocess.Popen(
                    keep_command(module),
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=subprocess.DEVNULL,
                    env=keep_environment(),
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        return cls(process, *await asyncio.open_connection(sock=ours))

    @property
    def is_gone(self) -> bool:
        return self.reader.at_eof() or self.process.poll() is not None

    def end(self) -> None:
        self.process.kill()
        self.process.wait()  # it was killed, so this takes no time
        self.writer.transport.abort()

    async def ask(self, request: bytes, seconds: float) -> Read | Unread:
        """Raises TimeoutError, _Lost."""
        is_answered = False
        try:
            if not self.is_ready:
                async with asyncio.timeout(START_SECONDS):
                    await self.reader.readexactly(len(READY))
                self.is_ready = True
            async with asyncio.timeout(seconds):
                self.writer.write(LENGTH.pack(len(request)) + request)
                await self.writer.drain()
                (length,) = LENGTH.unpack(await self.reader.readexactly(LENGTH.size))
                if length > MOST_REPLY_BYTES:
                    raise _Lost
                reply = msgspec.msgpack.decode(await self.reader.readexactly(length), type=Read | Unread)
            is_answered = True
            return reply
        except TimeoutError:
            raise
        except (asyncio.IncompleteReadError, OSError, msgspec.MsgspecError):
            raise _Lost from None
        finally:
            if not is_answered:  # also when the caller went: the answer would be taken for the next page's
                self.end()


class Readers:
    """The worker of one door, which is started before it is needed."""

    def __init__(
        self,
        seconds: float = SECONDS,
        module: str = "infra.keep.web_door.worker_process",
        grown_bytes: int = GROWN_BYTES,
    ) -> None:
        self._seconds = seconds
        self._grown_bytes = grown_bytes
        self._module = module
        self._worker: _Worker | None = None
        self._turn = asyncio.Lock()

    @property
    def pid(self) -> int:
        """Of the worker; 0 for none."""
        return self._worker.process.pid if self._worker else 0

    @property
    def is_busy(self) -> bool:
        return self._turn.locked()

    async def start(self) -> None:
        """Start a worker unless there is one. Raises OSError."""
        async with self._turn:
            await self._there()

    async def _there(self) -> _Worker:
        if self._worker is not None and self._worker.is_gone:
            await self.close()
        if self._worker is None:
            self._worker = await _Worker.started(self._module)
        return self._worker

    async def read(self, body: bytes, content_type: str, url: str, raw: bool) -> Content:
        """Normalised. Raises WebRefusal."""
        async with self._turn:
            try:
                worker = await self._there()
                request = msgspec.msgpack.encode(Body(body, content_type, url, raw))  # a copy: of one page at a time
                reply = await worker.ask(request, self._seconds)
            except TimeoutError:
                words = f"the page could not be read within {self._seconds:g} s: it is too large or too strange"
                raise failed(words, "look for the same text at another address") from None
            except (_Lost, OSError):
                words = "the page could not be read: its parser failed, or needed more memory than it may have"
                raise failed(words, "look for the same text at another address") from None
            finally:
                if _resident_bytes(self.pid) > self._grown_bytes:
                    await self.close()
                with contextlib.suppress(OSError):  # so that the next page finds one that is warm
                    await self._there()
        if isinstance(reply, Unread):
            raise failed(f"the page could not be read: {one_line(reply.why, 200)[0]}")
        return normalised(reply.content)

    async def close(self) -> None:
        if self._worker is not None:
            self._worker.end()
            self._worker = None


def _resident_bytes(pid: int) -> int:
    """Now, as the kernel counts it (proc(5), statm). The most that getrusage(2) tells is no measure: a program that is
    started begins with that of the one that started it."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    return 0


def normalised(content: Content) -> Content:
    """Whatever the worker says it made of the page: it is a stranger's from here on."""
    count = 0

    def line(text: str, most: int) -> str:
        nonlocal count
        text, taken = one_line(text, most)
        count += taken
        return text

    title = line(content.title, MOST_TITLE_CHARS)
    links = tuple(
        Link(line(link.text, MOST_LINK_CHARS), link.url)
        for link in content.links[:MOST_LINKS]
        if link.url.startswith(("http://", "https://")) and line(link.url, MOST_URL_CHARS) == link.url
    )
    notes = tuple(line(note, MOST_TITLE_CHARS) for note in content.notes[:10])
    markdown, taken = normal(content.markdown[:MOST_CHARS])
    hidden = max(0, min(content.hidden_chars, 1 << 40))
    return Content(title, markdown, links, notes, hidden, count + taken)
