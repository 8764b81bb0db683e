"""The worker that reads a body: a process apart, so that a parser that fails, hangs or is taken over harms one page.

Here is the door's side of it. One is started ahead, used once, and killed."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
from typing import Final, NamedTuple

import msgspec

from infra.keep.programs import keep_command, keep_environment
from infra.keep.web_door.fetch import Fetched
from infra.keep.web_door.frame import normal, one_line
from infra.keep.web_door.refusal import failed
from infra.keep.web_door.text import MOST_LINK_CHARS, MOST_LINKS, MOST_TITLE_CHARS, Content, PageBody, no_text
from infra.shared.web import MOST_CHARS, MOST_URL_CHARS, Link

SECONDS: Final = 30.0
"""With its start, where it has not been started ahead."""
MOST_REPLY_BYTES: Final = 16 << 20


class _Worker(NamedTuple):
    """Not asyncio's subprocess: that one waits for ever for a child whose end was noticed elsewhere."""

    process: subprocess.Popen[bytes]
    ours: socket.socket
    """Its standard input and output."""

    def end(self) -> None:
        self.ours.close()
        self.process.kill()
        self.process.wait()  # it was killed, so this takes no time

    async def ask(self, request: bytes) -> Content | str:
        """Raises OSError, msgspec.MsgspecError."""
        reader, writer = await asyncio.open_connection(sock=self.ours)
        try:
            writer.write(request)
            writer.write_eof()
            reply = bytearray()
            while len(reply) <= MOST_REPLY_BYTES and (part := await reader.read(1 << 16)):
                reply += part
            return msgspec.msgpack.decode(reply[: MOST_REPLY_BYTES + 1], type=Content | str)
        finally:
            writer.transport.abort()


class Readers:
    """Of one door: a page at a time, as each may take much memory."""

    def __init__(self, seconds: float = SECONDS, module: str = "infra.keep.web_door.worker_process") -> None:
        self._seconds, self._module = seconds, module
        self._next: _Worker | None = None
        self._turn = asyncio.Lock()

    @property
    def pid(self) -> int:
        """Of the worker that is started ahead; 0 for none."""
        return self._next.process.pid if self._next else 0

    def start(self) -> None:
        """Start the next page's worker unless there is one; it is not waited for. Raises OSError."""
        if self._next and self._next.process.poll() is not None:
            self.close()
        if self._next is None:
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    process = subprocess.Popen(
                        keep_command(self._module),
                        stdin=theirs.fileno(),
                        stdout=theirs.fileno(),
                        stderr=subprocess.DEVNULL,
                        env=keep_environment(),
                        start_new_session=True,
                    )
                except BaseException:
                    ours.close()
                    raise
            self._next = _Worker(process, ours)

    async def read(self, fetched: Fetched, raw: bool) -> Content:
        """Normalised. Raises WebRefusal."""
        if fetched.kind == "other":
            return no_text(fetched.content_type, fetched.size)
        async with self._turn:
            try:
                self.start()
                async with asyncio.timeout(self._seconds):
                    reply = await self._asked(PageBody(fetched.kind, fetched.body, fetched.charset, fetched.url, raw))
            except TimeoutError:
                words = f"the page could not be read within {self._seconds:g} s: it is too large or too strange"
                raise failed(words, "look for the same text at another address") from None
            except (OSError, msgspec.MsgspecError):
                words = "the page could not be read: its parser failed, or needed more memory than it may have"
                raise failed(words, "look for the same text at another address") from None
            finally:
                self.close()
                with contextlib.suppress(OSError):
                    self.start()
        if isinstance(reply, str):
            raise failed(f"the page could not be read: {one_line(reply, 200)[0]}")
        return normalised(reply)

    async def _asked(self, body: PageBody) -> Content | str:
        if self._next is None:
            raise OSError("no worker")
        return await self._next.ask(msgspec.msgpack.encode(body))

    def close(self) -> None:
        if self._next:
            self._next.end()
            self._next = None


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
