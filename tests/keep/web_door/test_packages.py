"""The way to package indexes: to named hosts alone, judged by every address of theirs, bounded, on record."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from ipaddress import ip_address
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from infra.keep.web_door import client_hello
from infra.keep.web_door.packages import HEAD_BYTES, LIMITS, PackageLimits, Packages
from infra.shared.addresses import Address
from infra.shared.web import TraceLine
from tests.egress.index import certificate
from tests.shared.rows import each_row

ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
HOME, DENIED = ip_address("127.0.0.1"), ip_address("203.0.113.9")


@functools.cache
def hello(name: str) -> bytes:
    """What a client of this name's server sends first."""
    out = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(
            ssl.MemoryBIO(), out, server_hostname=name.rstrip(".")
        ).do_handshake()
    return out.read()


def with_extension(begin: bytes, kind: int, content: bytes) -> bytes:
    """One more, at the end; the counts of the record, the message and the extensions say so."""
    extra = kind.to_bytes(2) + len(content).to_bytes(2) + content
    at = 43 + 1 + begin[43]  # behind the session
    at += 2 + int.from_bytes(begin[at : at + 2])  # behind the ciphers
    at += 1 + begin[at]  # behind the compression
    counts = {3: 2, 6: 3, at: 2}
    changed = bytearray(begin + extra)
    for where, size in counts.items():
        changed[where : where + size] = (int.from_bytes(changed[where : where + size]) + len(extra)).to_bytes(size)
    return bytes(changed)


class Site:
    """An index that says back what it hears, or `first` instead of what comes first, and a proxy in front of it."""

    def __init__(self, limits: PackageLimits, found: tuple[Address, ...], is_private_allowed: bool) -> None:
        self.lines: list[TraceLine] = []
        self.asked: list[str] = []
        self.reached = self.heard = 0
        self.first = b""
        self._held: list[asyncio.StreamWriter] = []
        self._limits, self._found, self._is_private_allowed = limits, found, is_private_allowed

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        index = await asyncio.start_server(self._echo, "127.0.0.1")
        listening = socket.create_server(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        proxy = Packages(
            ("pypi.org", "files.example"),
            self._resolve,
            self._record,
            self._limits,
            denied=lambda host, found: "rule 1" if host == "bad.pypi.org" or DENIED in found else "",
            is_private_allowed=self._is_private_allowed,
            port=index.sockets[0].getsockname()[1],
        )
        async with index, await proxy.serve(listening):
            try:
                yield
            finally:
                for writer in self._held:
                    writer.transport.abort()
                    with contextlib.suppress(OSError):
                        await writer.wait_closed()

    async def _record(self, line: TraceLine) -> None:
        self.lines.append(line)

    async def _resolve(self, host: str) -> tuple[Address, ...]:
        self.asked.append(host)
        if host == "gone.pypi.org":
            raise OSError("no such name")
        return self._found

    async def _echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reached += 1
        self._held.append(writer)
        with contextlib.suppress(OSError):
            while heard := await reader.read(1 << 16):
                self.heard += len(heard)
                writer.write(self.first or heard)
                self.first = b""
                await writer.drain()
            writer.write(b"bye")
            writer.close()

    async def ask(self, head: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._held.append(writer)
        writer.write(head.encode())
        return reader, writer

    async def told(self, head: str) -> str:
        """The first line of what comes back, until it hangs up."""
        reader, writer = await self.ask(head)
        told = (await reader.read()).decode()
        writer.close()
        return told.partition("\r\n")[0]

    async def tunnel(
        self, host: str = "pypi.org", begin: bytes | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Begun as TLS is, which the index says back."""
        reader, writer = await self.ask(f"CONNECT {host}:443 HTTP/1.1\r\n\r\n")
        assert await reader.readexactly(len(ESTABLISHED)) == ESTABLISHED
        begin = hello(host) if begin is None else begin
        writer.write(begin)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionResetError):
            assert await reader.readexactly(len(begin)) == begin
        return reader, writer


async def rest(reader: asyncio.StreamReader) -> int:
    """How many bytes come until it is over, whichever way."""
    count = 0
    with contextlib.suppress(ConnectionResetError):
        while piece := await reader.read(1 << 16):
            count += len(piece)
    return count


def with_site(
    play: Callable[[Site], Awaitable[None]],
    limits: PackageLimits = LIMITS,
    found: tuple[Address, ...] = (HOME,),
    is_private_allowed: bool = True,
) -> Site:
    site = Site(limits, found, is_private_allowed)

    async def whole() -> None:
        async with asyncio.timeout(20), site.running():
            await play(site)

    asyncio.run(whole())
    return site


def test_what_passes_is_left_as_it_is() -> None:
    """Both ways, to the end that either side makes; on record before the first byte."""

    async def play(site: Site) -> None:
        reader, writer = await site.tunnel("FILES.example.")
        assert [line.origin for line in site.lines] == ["https://files.example"]
        sent = bytes(range(256)) * 4000
        heard = asyncio.create_task(reader.read(-1))
        writer.write(sent)
        await writer.drain()
        writer.write_eof()
        assert await heard == sent + b"bye"
        writer.close()

    site = with_site(play)
    (line,) = site.lines
    assert (line.status, line.tool_name, line.error_code, line.at[-1]) == ("package", "package", "", "Z")
    assert site.asked == ["files.example"]


OTHERWISE = {
    "another name": hello("evil.example"),
    "a name below": hello("x.pypi.org"),
    "no name": hello("127.0.0.1"),
    "no TLS": b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "an encrypted name": with_extension(hello("pypi.org"), 0xFE0D, b"x"),
    "two names": with_extension(hello("pypi.org"), 0, b"\0\x0f\0\0\x0cevil.example"),
    "in pieces": hello("pypi.org")[:3] + b"\0\x10" + hello("pypi.org")[5:21],
}


@each_row("begin", OTHERWISE.values())
def test_tls_that_asks_for_another_host_does_not_pass(begin: bytes) -> None:
    """A server that answers for many names would take it there. Not a byte reaches it, and it is on record."""

    async def play(site: Site) -> None:
        reader, _ = await site.tunnel(begin=begin)
        assert await rest(reader) == 0

    site = with_site(play)
    assert [line.status for line in site.lines] == ["denied"]
    assert site.heard == 0


def retried(folder: Path) -> tuple[bytes, bytes, bytes]:
    """A client's hello for pypi.org, the answer of a server that asks for another one, and that one."""
    key, shown = certificate(folder)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(key)
    server.set_ecdh_curve("secp384r1")  # of which a client shows no share at first
    client = ssl.create_default_context(cafile=shown)
    there, back, asks, answers = (ssl.MemoryBIO() for _ in range(4))
    asking = client.wrap_bio(back, there, server_hostname="pypi.org")
    answering = server.wrap_bio(asks, answers, server_side=True)

    def said(by: ssl.SSLObject, out: ssl.MemoryBIO) -> bytes:
        with contextlib.suppress(ssl.SSLWantReadError):
            by.do_handshake()
        return out.read()

    first = said(asking, there)
    asks.write(first)
    answer = said(answering, answers)
    back.write(answer)
    return first, answer, said(asking, there)


def test_a_second_hello_asks_for_the_same_host(tmp_path: Path) -> None:
    """When the index asks for another one (HelloRetryRequest), a server would go by the name in that."""
    first, answer, second = retried(tmp_path)
    assert b"pypi.org" in second

    def met(second: bytes, at_once: bool) -> Site:
        async def play(site: Site) -> None:
            site.first = answer
            reader, writer = await site.ask("CONNECT pypi.org:443 HTTP/1.1\r\n\r\n")
            writer.write(first + second if at_once else first)
            assert await reader.readexactly(len(ESTABLISHED + answer)) == ESTABLISHED + answer
            if not at_once:
                writer.write(second)
            writer.write_eof()
            await rest(reader)

        return with_site(play)

    for at_once in (True, False):
        site = met(second, at_once)
        assert [line.status for line in site.lines] == ["package"]
        assert site.heard == len(first + second)
        for other in (second.replace(b"pypi.org", b"evil.org"), second[:-40], b"\x14\x03\x03\0\1\1" * 2 + second):
            site = met(other, at_once)
            assert site.heard == len(first)
            assert site.lines[0].status == "package"
    assert [line.status for line in met(second.replace(b"pypi.org", b"evil.org"), True).lines] == ["package", "denied"]


@given(st.binary(max_size=100), st.integers(0, 600))
def test_any_beginning_is_read_or_refused(noise: bytes, at: int) -> None:
    """Cut, filled or damaged: there is a name or a NoHello."""
    whole = hello("pypi.org")[client_hello.HEADER_BYTES :]
    assert client_hello.server_name(with_extension(hello("PyPI.org"), 0x1234, noise)[5:]) == "pypi.org"
    for record in (noise, whole[:at] + noise + whole[at:], whole[:at]):
        with contextlib.suppress(client_hello.NoHello):
            assert isinstance(client_hello.server_name(record), str)


REFUSED = (
    ("CONNECT evil.example:443", "403 evil.example is not in web.package_hosts; it names"),
    ("CONNECT xpypi.org:443", "403 xpypi.org is not in web.package_hosts"),
    ("CONNECT example.com:443", "403 example.com is not in"),
    ("CONNECT pypi.org:22", "403 port 22 of pypi.org is closed"),
    ("CONNECT 10.0.0.1:443", "403 '10.0.0.1' is an address"),
    ("CONNECT 2130706433:443", "403 '2130706433' is"),
    ("GET http://pypi.org/simple/", "405 only CONNECT host:443 is known here"),
    ("CONNECT me@pypi.org:443", "403 'me@pypi.org' is not a name of a host"),
    ("CONNECT bad.pypi.org:443", "403 the PM's policy denies bad.pypi.org (rule 1)"),
    ("CONNECT gone.pypi.org:443", "502 gone.pypi.org is not found: no such name"),
)


@each_row("asked, told", REFUSED)
def test_what_is_refused(asked: str, told: str) -> None:
    """In the reason, which is all that pip shows; each on record, and nothing reaches the index."""

    async def play(site: Site) -> None:
        assert (await site.told(f"{asked} HTTP/1.1\r\nHost: pypi.org\r\n\r\n")).startswith(f"HTTP/1.1 {told}")

    site = with_site(play)
    assert [line.status in {"denied", "error"} for line in site.lines] == [True]
    assert site.reached == 0


@each_row(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "169.254.169.254",
        "::1",
        "::ffff:10.1.2.3",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "fd00::1",
        "0.0.0.0",
        "100.64.0.1",
    ],
)
def test_one_private_address_among_several_is_enough(address: str) -> None:
    """Wherever it stands; nothing is connected to."""

    async def play(site: Site) -> None:
        assert f"pypi.org is at {ip_address(address)}" in await site.told("CONNECT pypi.org:443 HTTP/1.1\r\n\r\n")

    site = with_site(play, found=(ip_address("93.184.216.34"), ip_address(address)), is_private_allowed=False)
    assert [(line.status, line.error_code) for line in site.lines] == [("denied", "policy_denied")]


def test_an_address_that_the_pm_denies() -> None:
    async def play(site: Site) -> None:
        assert "the PM's policy denies pypi.org (rule 1)" in await site.told("CONNECT pypi.org:443 HTTP/1.1\r\n\r\n")

    assert with_site(play, found=(HOME, DENIED)).reached == 0


def test_bytes_time_and_connections_are_bounded() -> None:
    """Too much sent or fetched, silence, a request that never ends or is too long, one connection more: each ends, and
    the next one is served."""

    async def play(site: Site) -> None:
        reader, writer = await site.tunnel()
        writer.write(b"x" * 200_000)
        assert await rest(reader) <= 100_000  # more than it may send
        reader, writer = await site.tunnel()
        assert await reader.read() == b""  # nobody says a word
        reader, writer = await site.ask("CONNECT pypi.org:443 HT")
        assert await reader.read() == b""
        assert (await site.told("CONNECT pypi.org:443 HTTP/1.1\r\nX: " + "x" * HEAD_BYTES)).startswith("HTTP/1.1 431")
        held = [await site.tunnel() for _ in range(3)]
        assert (await site.told("CONNECT pypi.org:443 HTTP/1.1\r\n\r\n")).startswith("HTTP/1.1 503 3 connections")
        for _, each in held:
            each.close()
        while (await site.told("CONNECT evil.example:443 HTTP/1.1\r\n\r\n")).startswith("HTTP/1.1 503"):
            await asyncio.sleep(0.01)
        await site.tunnel()

    bounded = PackageLimits(connections=3, bytes_up=100_000, idle_seconds=0.3, head_seconds=0.3)
    with_site(play, bounded)
    with_site(_too_long, PackageLimits(seconds=0.5, idle_seconds=5.0))
    with_site(_too_large, PackageLimits(bytes_down=50_000))


def test_what_nobody_reads_is_dropped() -> None:
    """A tunnel whose client reads nothing leaves no connection behind, nor what was kept for it."""

    async def play(site: Site) -> None:
        before = len(os.listdir("/proc/self/fd"))
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, ("127.0.0.1", site.port))
            with contextlib.suppress(OSError):  # it is hung up on in the middle
                await loop.sock_sendall(client, b"CONNECT pypi.org:443 HTTP/1.1\r\n\r\n" + b"x" * (64 << 20))
            while len(os.listdir("/proc/self/fd")) > before + 1:  # the client's own
                await asyncio.sleep(0.01)
        assert site.reached == 1

    with_site(play, PackageLimits(bytes_up=1 << 30, idle_seconds=0.3))


async def _too_long(site: Site) -> None:
    reader, writer = await site.tunnel()
    heard = b""
    while True:
        writer.write(b"x")
        piece = await reader.read(10)
        if not piece:
            break
        heard += piece
        await asyncio.sleep(0.01)
    assert heard


async def _too_large(site: Site) -> None:
    reader, writer = await site.tunnel()
    writer.write(b"x" * 100_000)
    assert await rest(reader) <= 50_000
