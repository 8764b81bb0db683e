"""The worker that reads bodies: a process apart, so that a parser that fails, hangs or is taken over harms one page.

Here is the door's side of it. One page at a time; a worker that died, or was late, is replaced."""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
from typing import Final

import msgspec

from infra.keep.web_door.content import MOST_LINK_CHARS, MOST_LINKS, MOST_TITLE_CHARS, Content
from infra.keep.web_door.frame import normal, one_line
from infra.keep.web_door.refusal import failed
from infra.shared.programs import keep_command, keep_environment
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
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    @property
    def pid(self) -> int:
        """Of the worker; 0 for none."""
        return self._process.pid if self._process else 0

    @property
    def is_busy(self) -> bool:
        return self._turn.locked()

    async def start(self) -> None:
        """Start a worker unless there is one. It is not waited for until it is ready."""
        async with self._turn:
            await self._start()

    async def _start(self) -> None:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *keep_command(self._module),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=keep_environment(),
                start_new_session=True,
                limit=1 << 20,
            )
            self._is_ready = False

    async def read(self, body: bytes, content_type: str, url: str, raw: bool) -> Content:
        """Normalised. Raises WebRefusal."""
        request = msgspec.msgpack.encode(Body(body, content_type, url, raw))
        async with self._turn:
            try:
                await self._start()
                reply = await self._ask(request)
            except TimeoutError:
                words = f"the page could not be read within {self._seconds:g} s: it is too large or too strange"
                raise failed(words, "look for the same text at another address") from None
            except _Lost:
                words = "the page could not be read: its parser failed, or needed more memory than it may have"
                raise failed(words, "look for the same text at another address") from None
            finally:
                await self._replace_if_gone()
        if isinstance(reply, Unread):
            raise failed(f"the page could not be read: {one_line(reply.why, 200)[0]}")
        return normalised(reply.content)

    async def close(self) -> None:
        if self._process is not None:
            await _ended(self._process)
            self._process = None

    async def _ask(self, request: bytes) -> Read | Unread:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise _Lost
        is_asked = False
        try:
            if not self._is_ready:
                async with asyncio.timeout(START_SECONDS):
                    await process.stdout.readexactly(len(READY))
                self._is_ready = True
            async with asyncio.timeout(self._seconds):
                process.stdin.write(LENGTH.pack(len(request)) + request)
                await process.stdin.drain()
                (length,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
                if length > MOST_REPLY_BYTES:
                    raise _Lost
                reply = msgspec.msgpack.decode(await process.stdout.readexactly(length), type=Read | Unread)
            is_asked = True
            return reply
        except (asyncio.IncompleteReadError, OSError, msgspec.MsgspecError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise _Lost from None
        finally:
            if not is_asked:  # also when the caller went: the answer would be taken for the next page's
                await _ended(process)

    async def _replace_if_gone(self) -> None:
        """So that the next page finds one that is warm."""
        process = self._process
        if process is None:
            return
        is_closed = process.stdout is not None and process.stdout.at_eof()
        if is_closed or _resident_bytes(process.pid) > self._grown_bytes:
            await _ended(process)
        if process.returncode is not None:
            with contextlib.suppress(OSError):
                await self._start()


async def _ended(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    if process.stdin is not None:
        process.stdin.close()
    await process.wait()


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
