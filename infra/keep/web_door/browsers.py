"""The browsers of one web door: started when one is needed, kept warm while they are used, ended when idle, and given
up at the first doubt: what has crashed, is late or says nonsense is killed, and the next look begins a new one."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from infra.keep.eye import parent
from infra.keep.eye.messages import HEAD_BYTES, SAID, Blank, Failed, Frame, Look, Said, Seen, length_in, packed
from infra.keep.programs import keep_command, keep_environment
from infra.keep.web_door.proxy import Errand, Proxy
from infra.keep.web_door.refusal import failed, late, unavailable

START_SECONDS, READY_SECONDS, SPARE_SECONDS, IDLE_SECONDS = 10.0, 3.0, 5.0, 60.0
MOST_LOOKS = 200
"""Of one browser: what leaks in it ends with it."""
OnFrame = Callable[[bytes], None]


@dataclass
class Instance:
    proxy: Proxy
    server: asyncio.Server
    driver: subprocess.Popen[bytes]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    looks: int = 0
    used: float = 0.0

    def close(self) -> None:
        """The eye ends the browser when its connection ends, which the driver alone holds."""
        self.proxy.over()
        self.server.close()
        self.writer.transport.abort()
        with contextlib.suppress(OSError), self.driver:
            self.driver.kill()


class Pool:
    def __init__(self, eye: Callable[[], socket.socket], proxy: Callable[[], Proxy], size: int = 1) -> None:
        """`eye` gives a connection to it, and raises OSError."""
        self._eye, self._proxy = eye, proxy
        self._places = asyncio.Semaphore(size)
        self._warm: list[Instance] = []

    async def look(self, asked: Look, errand: Errand, on_frame: OnFrame = lambda jpeg: None) -> Seen:
        """Raises WebRefusal."""
        async with self._places:
            instance = await self._instance()
            is_sound = False
            try:
                instance.proxy.errand = errand
                async with asyncio.timeout(asked.seconds + SPARE_SECONDS):
                    said = await _told(instance, asked, on_frame)
                is_sound = instance.looks < MOST_LOOKS and not (isinstance(said, Failed) and said.is_broken)
            except TimeoutError:
                raise late("the browser does not answer", "try again, or use another source") from None
            except (OSError, EOFError, ValueError, msgspec.MsgspecError):
                raise failed("the browser has ended over this page", "use another source", retriable=True) from None
            finally:
                instance.proxy.over()
                if is_sound:
                    instance.used = time.monotonic()
                    self._warm.append(instance)
                    asyncio.get_running_loop().call_later(IDLE_SECONDS, self.sweep)
                else:
                    instance.close()
        if isinstance(said, Failed):
            raise errand.refused or (late if said.is_late else failed)(f"the page was not shown ({said.why})")
        return said

    def sweep(self, idle: float = IDLE_SECONDS) -> None:
        """End the browsers that nobody has used for so long."""
        for instance in [each for each in self._warm if time.monotonic() - each.used >= idle]:
            self._warm.remove(instance)
            instance.close()

    def close(self) -> None:
        self.sweep(0.0)

    async def _instance(self) -> Instance:
        """One that says it is ready: the last one that was used, or a new one. Raises WebRefusal."""
        while self._warm:
            instance = self._warm.pop()
            with contextlib.suppress(OSError, EOFError, ValueError, msgspec.MsgspecError):
                await _ready(instance, READY_SECONDS)
                return instance
        try:
            async with asyncio.timeout(START_SECONDS):
                instance = await self._started()
            await _ready(instance, START_SECONDS)
            return instance
        except (OSError, EOFError, ValueError, msgspec.MsgspecError) as error:
            raise unavailable(
                f"there is no browser: {error or type(error).__name__}", "read it without render"
            ) from None

    async def _started(self) -> Instance:
        """Raises OSError, ValueError."""
        wire = await asyncio.to_thread(self._eye)
        ours, drivers = socket.socketpair()
        with wire, drivers, contextlib.ExitStack() as undone:
            undone.callback(ours.close)
            _, descriptors, _, _ = await asyncio.to_thread(socket.recv_fds, wire, 1, 1)
            if len(descriptors) != 1:
                raise OSError("the eye gave no socket for its proxy")
            proxy, listening = self._proxy(), socket.socket(fileno=descriptors[0])
            undone.callback(listening.close)
            server = await proxy.serve(listening)
            driver = subprocess.Popen(
                keep_command("infra.keep.eye.driver", str(wire.fileno()), str(drivers.fileno())),
                stdin=subprocess.DEVNULL,
                env=keep_environment(),
                pass_fds=(wire.fileno(), drivers.fileno()),
                start_new_session=True,
            )
            undone.pop_all()
        reader, writer = await asyncio.open_connection(sock=ours)
        return Instance(proxy, server, driver, reader, writer)


def beside() -> socket.socket:
    """A browser beside the door, where there is no eye in a container of its own. Raises OSError."""
    ours, theirs = socket.socketpair()
    with theirs:
        words = [sys.executable, "-I", "-S", parent.__file__, f"fd:{theirs.fileno()}"]
        subprocess.Popen(words, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),), start_new_session=True)
    return ours


async def _ready(instance: Instance, seconds: float) -> None:
    """Raises what `_heard` does, and TimeoutError; it is closed then."""
    try:
        async with asyncio.timeout(seconds):
            if not isinstance(await _heard(instance), Blank):
                raise ValueError("it is not ready")
    except BaseException:
        instance.close()
        raise


async def _told(instance: Instance, asked: Look, on_frame: OnFrame) -> Seen | Failed:
    """Raises what `_heard` does."""
    instance.looks += 1
    instance.writer.write(packed(asked))
    while isinstance(said := await _heard(instance), Frame):
        on_frame(said.jpeg)
    if isinstance(said, Blank):
        raise ValueError("it has shown nothing")
    return said


async def _heard(instance: Instance) -> Said:
    """Raises OSError, EOFError, ValueError, MsgspecError."""
    length = length_in(await instance.reader.readexactly(HEAD_BYTES))
    return SAID.decode(await instance.reader.readexactly(length))
