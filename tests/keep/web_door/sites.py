"""Sites on loopback for the web door's tests: each path answers as its function writes, which may be no HTTP at all."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from infra.keep.web_door.fetch import Connections, Fetcher
from infra.keep.web_door.judge import Judge
from infra.keep.web_door.refusal import failed
from infra.keep.web_door.robots import Robots
from infra.shared.network import Address
from infra.shared.policy import ALLOW, Policy, Rule

HOME = "127.0.0.1"
NAMED = Policy(rules=(Rule(ALLOW, domains=("site.example", HOME)),))
"""The one name that may be at home, and the address itself."""


class Wire(NamedTuple):
    host: str
    path: str
    headers: str
    writer: asyncio.StreamWriter
    left: asyncio.Event
    """Set when the site ends."""

    async def say(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()


Act = Callable[[Wire], Awaitable[None]]
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def page(body: bytes = b"a page", status: str = "200 OK", *headers: str, kind: str = "text/html") -> Act:
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", f"content-length: {len(body)}", *headers]

    async def act(wire: Wire) -> None:
        await wire.say("\r\n".join([*lines, "", ""]).encode() + body)

    return act


def words(*parts: bytes) -> Act:
    async def act(wire: Wire) -> None:
        await wire.say(*parts)

    return act


def redirect(to: str, status: str = "302 Found") -> Act:
    return page(b"", status, f"location: {to}")


class _Caller(asyncio.StreamReaderProtocol):
    """Known from the connection on: its task may be cancelled before it has begun, and would close nothing."""

    def __init__(self, open_: set[asyncio.BaseTransport], answer: Answer) -> None:
        super().__init__(asyncio.StreamReader(), answer)
        self._open = open_

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._kept = transport
        self._open.add(transport)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self._kept)
        super().connection_lost(exc)


class Site:
    def __init__(self, pages: Mapping[str, Act], trust: ssl.SSLContext | None = None) -> None:
        self.pages = dict(pages)
        self.asked: list[tuple[str, str]] = []
        """Host header and path, in order."""
        self._trust = trust
        self._left = asyncio.Event()
        self._open: set[asyncio.BaseTransport] = set()

    @contextlib.asynccontextmanager
    async def running(self, host: str = HOME, port: int = 0) -> AsyncIterator[Site]:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Caller(self._open, self._answer), host, port, ssl=self._trust)
        self.port: int = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            self._left.set()
            server.close()
            for _ in range(4):  # as many turns of the loop as accepting takes: nobody is left between
                await asyncio.sleep(0)
            for transport in self._open:
                transport.abort()  # type: ignore[attr-defined]
            while self._open:
                await asyncio.sleep(0.001)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split(" ")[1]
            host = head.lower().partition("\r\nhost: ")[2].partition("\r\n")[0]
            self.asked.append((host, path))
            act = self.pages.get(path.partition("?")[0], page(b"", "404 Not Found"))
            await act(Wire(host, path, head, writer, self._left))
        except (OSError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(OSError, ssl.SSLError):
                await writer.wait_closed()


class Names:
    """What names mean, one answer after the other; the last one stays."""

    def __init__(self, **answers: str) -> None:
        self._answers = {name.replace("_", "."): told.split() for name, told in answers.items()}
        self.asked: list[str] = []

    async def look_up(self, host: str) -> tuple[Address, ...]:
        self.asked.append(host)
        with contextlib.suppress(ValueError):
            return (ip_address(host),)
        left = self._answers.get(host, [])
        if not left:
            raise failed(f"the name {host} was not found")
        return tuple(map(ip_address, (left.pop(0) if len(left) > 1 else left[0]).split(",")))


def fetcher(
    names: Names | None = None,
    policy: Policy = NAMED,
    seconds: float = 20.0,
    trust: ssl.SSLContext | None = None,
    robots: Robots | None = None,
    allowed_domains: tuple[str, ...] = (),
) -> Fetcher:
    names = names or Names(site_example=HOME, other_example=HOME)
    return Fetcher(Judge(policy, allowed_domains), Connections(trust), names.look_up, robots, seconds, 1 << 20)


def certificate(folder: Path, name: str) -> ssl.SSLContext:
    """Of a site of that name, signed by itself; `folder` takes `name.crt` for those who trust it."""
    words = f"req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -days 2 -subj /CN={name}"
    files = ["-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.crt"]
    more = ["-addext", "basicConstraints=critical,CA:FALSE", "-addext", f"subjectAltName=DNS:{name}"]
    subprocess.run(["openssl", *words.split(), *files, *more], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{folder}/{name}.crt", f"{folder}/{name}.key")
    return context
