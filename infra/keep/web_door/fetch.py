"""One page: judged, looked up, judged again, asked for, read, all within one bound on time; each redirect anew.

What is connected to is the address that was judged: it stands in the URL, so no name is looked up again; the name
stands in `Host` and is what the certificate must be of."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ipaddress
import socket
import ssl
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import httpx2

from infra.keep.web_door.judge import Judge, Tool
from infra.keep.web_door.refusal import WebRefusal, after_an_answer, failed, late
from infra.keep.web_door.robots import AGENT, Robots
from infra.keep.web_door.target import Target, redirected
from infra.keep.web_door.text import HEAD_BYTES, Kind, charset_of, kind_of, type_of
from infra.shared.addresses import Address

Lookup = Callable[[str], Awaitable[tuple[Address, ...]]]
"""What a host's name means. Raises WebRefusal when it means nothing."""
CONNECT_SECONDS = 8.0
MOST_ADDRESSES = 4
"""Of one host that are tried."""
MOST_REDIRECTS = 10
MOST_PARTS, PARTS_AT_ONCE = 50_000, 100
"""Of a body: a part of one byte costs as much as one of many, and others are served in between."""
SPARE_BYTES = 64 * 1024
"""Packed, a page may be so much longer than it is."""
REDIRECTS = (301, 302, 303, 307, 308)
HEADERS = {
    "user-agent": f"{AGENT}/1 (an agent's reader)",
    "accept": "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.9,application/pdf;q=0.8,*/*;q=0.5",
    "accept-language": "en;q=0.8,*;q=0.5",
    "accept-encoding": "gzip",
    "connection": "close",
}


class FetchLimits(NamedTuple):
    seconds: float = 30.0
    """For the whole, with all redirects. With its turn and the reading twice as long and some: the cell waits for three
    minutes (`cell/doors`)."""
    page_bytes: int = 8 << 20
    """Unpacked; of a longer one the rest is left out, and the result says so."""


class Fetched(NamedTuple):
    url: str
    """The final address."""
    origin: str
    status: int
    content_type: str
    """In small letters, without parameters; empty when none was given."""
    charset: str
    """As the head has it; empty when it has none."""
    kind: Kind
    body: bytes
    """Unpacked; empty for a kind that is not read."""
    whole: bool
    sha256: str
    redirects: int
    size: int
    """In bytes: of the body, or, where that was not read, what the head says; -1 when it does not."""
    flags: tuple[str, ...] = ()
    """For the trace."""


async def look_up(host: str) -> tuple[Address, ...]:
    """As `Lookup`, by the system's resolver. One that was given up ends in its own time, as getaddrinfo(3) cannot be
    interrupted."""
    with contextlib.suppress(ValueError):
        return (ipaddress.ip_address(host),)
    try:
        answers = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return tuple(dict.fromkeys(ipaddress.ip_address(each[4][0]) for each in answers))
    except (OSError, ValueError, RuntimeError) as error:  # the last: there is no room for a thread
        again = isinstance(error, RuntimeError) or getattr(error, "errno", 0) == socket.EAI_AGAIN
        words = f"the name {host} was not found ({getattr(error, 'strerror', '') or error})"
        raise failed(words, "try again later" if again else "check how it is spelled", retriable=again) from None


class Connections:
    """No cookie, password, proxy or redirect, and no connection that is used twice: one that was opened, and proved by
    its certificate, for one name would else serve another name at the same address."""

    def __init__(self, trust: ssl.SSLContext | None = None) -> None:
        """`trust`: instead of the system's certificates."""
        self._trust = trust
        self._encrypted: httpx2.AsyncHTTPTransport | None = None
        self._plain = _transport(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    async def ask(
        self, target: Target, addresses: tuple[Address, ...], seconds: float, headers: Mapping[str, str] | None = None
    ) -> httpx2.Response:
        """The beginning of an answer; its body is in `stream`, and the caller closes it. Raises WebRefusal."""
        trouble: WebRefusal | None = None
        for address in addresses[:MOST_ADDRESSES]:
            try:
                return await self._ask(target, address, seconds, headers or {})
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                trouble = _unreached(target, error)
            except httpx2.TimeoutException:
                raise late(f"{target.origin} sent nothing for {seconds:g} s", "try again later") from None
            except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
                raise _broken(target, error) from None
        raise trouble or failed(f"{target.host} has no address")

    async def _ask(
        self, target: Target, address: Address, seconds: float, headers: Mapping[str, str]
    ) -> httpx2.Response:
        url = httpx2.URL(scheme=target.scheme, host=str(address), port=target.port, raw_path=target.path.encode())
        waits = {"connect": min(CONNECT_SECONDS, seconds), "read": seconds, "write": seconds, "pool": seconds}
        request = httpx2.Request(
            "GET",
            url,
            headers={"host": target.authority, **HEADERS, **headers},
            extensions={"sni_hostname": target.host, "timeout": waits},
        )
        return await self._transport(target.scheme).handle_async_request(request)

    def _transport(self, scheme: str) -> httpx2.AsyncHTTPTransport:
        if scheme == "http":
            return self._plain
        if self._encrypted is None:  # reading the system's certificates takes a moment, and some memory
            self._encrypted = _transport(self._trust or ssl.create_default_context())
        return self._encrypted


class Fetcher:
    def __init__(
        self, judge: Judge, limits: FetchLimits, connections: Connections, lookup: Lookup, robots: Robots | None
    ) -> None:
        """`robots` None: nobody's robots.txt is asked for."""
        self._judge, self._limits, self._connections = judge, limits, connections
        self._lookup, self._robots = lookup, robots

    async def fetch(self, target: Target, tool: Tool) -> Fetched:
        """Raises WebRefusal."""
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await self._fetch(target, tool, self._robots if tool == "fetch_page" else None)
        except TimeoutError:
            words = f"{target.origin} did not give the page within {self._limits.seconds:g} s"
            raise late(words, "try again later, or use another source") from None

    async def _fetch(self, target: Target, tool: Tool, robots: Robots | None) -> Fetched:
        asked, flags = target.host, dict[str, None]()
        for redirects in range(MOST_REDIRECTS + 1):
            with after_an_answer(redirects > 0):
                permit = self._judge.host(target, tool, asked if redirects else "")
                flags.update(dict.fromkeys(permit.flags))
                if robots:
                    await robots.check(target, lambda where: self._fetch(where, tool, None))
                found = await self._lookup(target.host)
                self._judge.addresses(target, found, tool, permit)
            with after_an_answer():  # or in the middle of one
                response = await self._connections.ask(target, found, self._limits.seconds)
                try:
                    location = response.headers.get("location", "")
                    if response.status_code not in REDIRECTS or not location:
                        flags.update({f"redirects {redirects}": None} if redirects else {})
                        return await _read(target, response, redirects, tuple(flags), self._limits.page_bytes)
                    target = redirected(target, location)
                finally:
                    await response.stream.aclose()  # type: ignore[union-attr]
        raise failed(f"{target.host} redirects more than {MOST_REDIRECTS} times", "use another source")


class Unpacking:
    """A body as it comes over the wire, unpacked and bounded: a few packed bytes stand for any number."""

    def __init__(self, coding: str, most: int) -> None:
        """Raises WebRefusal for a coding that was not asked for."""
        if coding not in ("", "identity", "gzip", "x-gzip"):
            raise failed("the page is packed in another way than gzip, which was asked for")
        self._unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16) if "gzip" in coding else None
        self._most, self._taken = most, 0
        self.body = bytearray()
        self.is_full = False
        """Something was left out."""

    def take(self, part: bytes) -> None:
        """Raises WebRefusal for damage."""
        self._taken += len(part)
        room = self._most - len(self.body)
        if self._unpack:
            try:
                part = self._unpack.decompress(part, room + 1)
            except zlib.error as error:
                raise failed(f"the page's packed body is damaged ({error})", "try again", retriable=True) from None
            self.is_full = bool(self._unpack.unused_data or self._unpack.unconsumed_tail)
        self.is_full = self.is_full or len(part) > room or self._taken > self._most + SPARE_BYTES
        self.body += part[:room]

    def finish(self) -> bytes:
        """Raises WebRefusal for a body that breaks off."""
        if self._unpack and self._taken and not self.is_full and not self._unpack.eof:
            raise failed("the page breaks off in the middle of its packed body", "try again", retriable=True)
        return bytes(self.body)


async def _read(
    target: Target, response: httpx2.Response, redirects: int, flags: tuple[str, ...], most: int
) -> Fetched:
    """Of a body that is no text no more than its beginning. Raises WebRefusal."""
    header = response.headers.get("content-type", "")
    body, whole, kind = b"", False, kind_of(header, b"")
    if kind != "other":
        body, whole = await _body(target, response, header, most)
        kind = kind_of(header, body)
    if kind == "other":
        body, whole = b"", False
    return Fetched(
        url=target.url,
        origin=target.origin,
        status=response.status_code,
        content_type=type_of(header),
        charset=charset_of(header),
        kind=kind,
        body=body,
        whole=whole,
        sha256="" if kind == "other" else hashlib.sha256(body).hexdigest(),
        redirects=redirects,
        size=_length_of(response) if kind == "other" else len(body),
        flags=(*flags, *(("not_read",) if kind == "other" else () if whole else ("cut",))),
    )


async def _body(target: Target, response: httpx2.Response, header: str, most: int) -> tuple[bytes, bool]:
    """And whether that is all of it."""
    unpacking = Unpacking(response.headers.get("content-encoding", "").strip().lower(), most)
    if not isinstance(response.stream, httpx2.AsyncByteStream):
        raise AssertionError("unreachable: the transport is asynchronous")
    parts, is_known = 0, False
    try:
        async for part in response.stream:
            parts += 1
            if parts > MOST_PARTS:
                raise failed(f"{target.origin} sends its page in over {MOST_PARTS:,} parts", "use another source")
            if parts % PARTS_AT_ONCE == 0:
                await asyncio.sleep(0)
            unpacking.take(part)
            if not is_known and len(unpacking.body) >= HEAD_BYTES:
                is_known = True
                unpacking.is_full |= kind_of(header, bytes(unpacking.body[:HEAD_BYTES])) == "other"
            if unpacking.is_full:
                break
    except httpx2.TimeoutException:
        raise late(f"{target.origin} stopped in the middle of the page", "try again later") from None
    except (httpx2.HTTPError, ValueError) as error:
        raise _broken(target, error) from None
    return unpacking.finish(), not unpacking.is_full


def _length_of(response: httpx2.Response) -> int:
    length = response.headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 16 else -1


def _transport(trust: ssl.SSLContext) -> httpx2.AsyncHTTPTransport:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx2.AsyncHTTPTransport(verify=trust, trust_env=False, limits=limits)


def _unreached(target: Target, error: Exception) -> WebRefusal:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            why = getattr(cause, "verify_message", "") or cause.reason or "the handshake failed"
            return failed(f"{target.origin} does not prove who it is, or does not encrypt: {why}", "use another source")
        cause = cause.__cause__ or cause.__context__
    return failed(f"{target.origin} cannot be reached ({error})", "try again later", retriable=True)


def _broken(target: Target, error: Exception) -> WebRefusal:
    words = f"{target.origin} gave an answer that cannot be read ({type(error).__name__})"
    return failed(words, "try again, or use another source", retriable=True)
