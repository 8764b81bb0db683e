"""The browsers of one web door: started when one is needed, kept warm while they are used, ended when idle, and given
up at the first doubt: what has crashed, is late or says nonsense is killed, and the next look begins a new one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from infra.keep.eye import messages, parent
from infra.keep.eye.messages import HEAD, SAID, Frame, Look, Seen, packed
from infra.keep.programs import keep_command, keep_environment
from infra.keep.web_door.proxy import Errand, Proxy
from infra.keep.web_door.refusal import failed, late, unavailable

OFFER_SECONDS, SPARE_SECONDS, IDLE_SECONDS = 3.0, 15.0, 60.0
"""Beyond a look's own: its browser may have to start."""
MOST_LOOKS, MOST_FRAMES = 200, 500
"""Of one browser: what leaks in it ends with it. Of one look."""
GONE = (OSError, EOFError, ValueError)
"""What is raised where a browser, or its driver, is late, has ended, or says nonsense."""
HINT = "fetch_page without render may read it"


@dataclass
class Instance:
    proxy: Proxy
    serving: asyncio.Task[None]
    driver: subprocess.Popen[bytes]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    looks: int = 0
    used: float = 0.0

    def close(self) -> None:
        """The eye ends the browser when its connection ends, which the driver alone holds."""
        self.proxy.over()
        self.serving.cancel()
        self.writer.transport.abort()
        with contextlib.suppress(OSError), self.driver:
            self.driver.kill()

    async def told(self, asked: Look, on_frame: Callable[[bytes], None]) -> Seen:
        """Raises GONE."""
        self.looks += 1
        self.writer.write(packed(asked))
        for _ in range(MOST_FRAMES):
            [length] = HEAD.unpack(await self.reader.readexactly(HEAD.size))
            if length > messages.MOST_MESSAGE_BYTES:
                raise ValueError(f"a message of {length} bytes")
            said = SAID.decode(await self.reader.readexactly(length))
            if not isinstance(said, Frame):
                return said
            on_frame(said.jpeg)
        raise ValueError("it shows no page")


class Pool:
    def __init__(
        self,
        eye: Callable[[], socket.socket],
        proxy: Callable[[], Proxy],
        size: int = 1,
        on_frame: Callable[[bytes], None] = lambda jpeg: None,
    ) -> None:
        """`eye` gives a connection to it, and raises OSError; `on_frame` gets what they show."""
        self._eye, self._proxy, self._on_frame = eye, proxy, on_frame
        self._places = asyncio.Semaphore(size)
        self._warm: list[Instance] = []

    async def look(self, asked: Look, errand: Errand) -> Seen:
        """Raises WebRefusal."""
        async with self._places:
            said: Seen | None = None
            while said is None:
                try:
                    instance = self._warm.pop() if self._warm else await self._started()
                except OSError as error:
                    words = f"there is no browser ({error.strerror or 'it does not start'})"
                    raise unavailable(words, HINT) from None
                said = await self._told(instance, asked, errand)
        if said.why:
            refusal = (late if said.why == messages.LATE else failed)(f"the page was not shown ({said.why})", HINT)
            raise errand.refused or refusal
        return said

    async def _told(self, instance: Instance, asked: Look, errand: Errand) -> Seen | None:
        """None: it had ended, or fallen silent, before this. Raises WebRefusal."""
        with contextlib.ExitStack() as given_up:
            given_up.callback(instance.close)
            instance.proxy.errand = errand
            try:
                async with asyncio.timeout(asked.seconds + SPARE_SECONDS):
                    said = await instance.told(asked, self._on_frame)
            except GONE as error:
                if not errand.origins and not errand.refused:
                    if instance.looks > 1:
                        return None
                    raise unavailable("there is no browser (it does not start)", HINT) from None
                if isinstance(error, TimeoutError):
                    raise late("the browser does not answer", "try again, or use another source") from None
                raise failed("the browser has ended over this page", "use another source", retriable=True) from None
            if said.why not in messages.BROKEN and instance.looks < MOST_LOOKS:
                given_up.pop_all()
                instance.proxy.over()
                instance.used = time.monotonic()
                self._warm.append(instance)
                asyncio.get_running_loop().call_later(IDLE_SECONDS, self.sweep)
        return said

    def sweep(self, idle: float = IDLE_SECONDS) -> None:
        """End the browsers that nobody has used for so long."""
        for instance in [each for each in self._warm if time.monotonic() - each.used >= idle]:
            self._warm.remove(instance)
            instance.close()

    async def _started(self) -> Instance:
        """Raises OSError."""
        wire, listening = await asyncio.to_thread(_offered, self._eye)
        ours, drivers = socket.socketpair()
        with wire, drivers:
            numbers = (wire.fileno(), drivers.fileno())
            driver = subprocess.Popen(
                keep_command("infra.keep.eye.driver", *map(str, numbers)),
                stdin=subprocess.DEVNULL,
                env=keep_environment(),
                pass_fds=numbers,
                start_new_session=True,
            )
        proxy, streams = self._proxy(), await asyncio.open_connection(sock=ours)
        return Instance(proxy, asyncio.create_task(proxy.serve(listening)), driver, *streams)


def _offered(eye: Callable[[], socket.socket]) -> tuple[socket.socket, socket.socket]:
    """A connection to a browser, and the socket of its proxy; a thread waits for them. Raises OSError."""
    with contextlib.ExitStack() as undone:
        wire = undone.enter_context(eye())
        wire.settimeout(OFFER_SECONDS)
        _, descriptors, _, _ = socket.recv_fds(wire, 1, 1)
        if not descriptors:
            raise OSError("the eye gave no socket for its proxy")
        undone.callback(os.close, descriptors[0])
        listening = socket.socket(fileno=descriptors[0])  # raises for what is no socket
        wire.settimeout(None)
        undone.pop_all()
    return wire, listening


def beside() -> socket.socket:
    """A browser beside the door, where there is no eye in a container of its own. Raises OSError."""
    ours, theirs = socket.socketpair()
    with theirs:
        subprocess.Popen([sys.executable, "-I", "-S", parent.__file__], stdin=theirs.fileno(), start_new_session=True)
    return ours
