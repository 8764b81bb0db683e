"""The worker that reads a body: a process apart, so that a parser that fails, hangs or is taken over harms one page.

Here is the door's side of it. One is started ahead, used once, and killed."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from typing import Final

import msgspec

from infra.keep.programs import keep_command, keep_environment
from infra.keep.web_door.fetch import Fetched
from infra.keep.web_door.refusal import failed
from infra.keep.web_door.text import MOST_LINKS, Content, Link, PageBody
from infra.shared.frame import normal, one_line
from infra.shared.web import MOST_CHARS, MOST_URL_CHARS

SECONDS: Final = 10.0
"""With its start, where it has not been started ahead."""
MOST_REPLY_BYTES: Final = 16 << 20
MOST_LINE_CHARS: Final = 300
"""Of a title, a note, or the text of a link."""


class Readers:
    """Of one door: a page at a time, as each may take much memory."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._next: subprocess.Popen[bytes] | None = None
        self._turn = asyncio.Lock()

    def start(self) -> subprocess.Popen[bytes]:
        """The next page's worker, which is not waited for. Raises OSError."""
        if self._next and self._next.poll() is not None:
            self.close()
        if self._next is None:
            # Not asyncio's: that one waits for ever for a child whose end was noticed elsewhere.
            self._next = subprocess.Popen(
                keep_command("infra.keep.web_door.worker_process"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=keep_environment(),
                start_new_session=True,
            )
        return self._next

    async def read(self, fetched: Fetched, raw: bool) -> Content:
        """Normalised. Raises WebRefusal."""
        if fetched.kind == "other":
            return Content("", "", notes=(f"the body, which is no text: {fetched.content_type or 'no type'}",))
        body = PageBody(fetched.kind, fetched.body, fetched.charset, fetched.url, raw)
        async with self._turn:
            try:
                async with asyncio.timeout(self._seconds):
                    content = await asyncio.to_thread(_asked, self.start(), msgspec.msgpack.encode(body))
            except (OSError, msgspec.MsgspecError):  # the first: it is late, too
                words = "the page could not be read: it is damaged, needs a password, or takes more time or memory"
                raise failed(f"{words} than it may", "look for the same text at another address") from None
            finally:
                self.close()  # which ends the thread, too
                with contextlib.suppress(OSError):
                    self.start()
        return normalised(content)

    def close(self) -> None:
        if self._next:
            # Waited for, too: it was killed, so this takes no time. A thread amid a write closes that pipe itself.
            with contextlib.suppress(OSError, ValueError), self._next:
                self._next.kill()
            self._next = None


def _asked(worker: subprocess.Popen[bytes], request: bytes) -> Content:
    """Raises OSError, msgspec.MsgspecError."""
    if not worker.stdin or not worker.stdout:
        raise AssertionError("unreachable: it was started with both")
    with worker.stdin:
        worker.stdin.write(request)
    return msgspec.msgpack.decode(worker.stdout.read(MOST_REPLY_BYTES), type=Content)


def normalised(content: Content) -> Content:
    """Whatever the worker says it made of the page: it is a stranger's from here on."""
    links = tuple(
        Link(one_line(link.text, MOST_LINE_CHARS), link.url)
        for link in content.links[:MOST_LINKS]
        if link.url.startswith(("http://", "https://")) and one_line(link.url, MOST_URL_CHARS) == link.url
    )
    notes = tuple(one_line(note, MOST_LINE_CHARS) for note in content.notes[:10])
    title, markdown = one_line(content.title, MOST_LINE_CHARS), normal(content.markdown[:MOST_CHARS])
    return Content(title, markdown, links, notes, content.signals)
