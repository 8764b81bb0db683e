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
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from types import MappingProxyType
from typing import Any, NamedTuple

import httpx2

from infra.keep.eye.blocked import CHALLENGES
from infra.keep.web_door.judge import Judge
from infra.keep.web_door.refusal import after_an_answer, failed, late
from infra.keep.web_door.robots import AGENT, Robots
from infra.keep.web_door.target import Target, redirected
from infra.keep.web_door.text import Kind, charset_of, kind_of, type_of
from infra.shared.network import Address
from infra.shared.web import WebTool

Lookup = Callable[[str], Awaitable[tuple[Address, ...]]]
"""What a host's name means. Raises WebRefusal when it means nothing."""
SECONDS = 30.0
"""For the whole, with all redirects. With its turn and the reading twice as long and some: the cell waits for three
minutes (`cell/doors`)."""
PAGE_BYTES = 8 << 20
"""Of a longer one the rest is left out, and the result says so."""
CONNECT_SECONDS = 8.0
MOST_REDIRECTS = 10
REDIRECTS = (301, 302, 303, 307, 308)
HEADERS = {
    "user-agent": f"{AGENT}/1 (an agent's reader)",
    "accept": "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.9,application/pdf;q=0.8,*/*;q=0.5",
    "accept-language": "en;q=0.8,*;q=0.5",
    "accept-encoding": "identity",
    "connection": "close",
}


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
    """Empty for a kind that is not read."""
    whole: bool
    """Nothing that is read was cut."""
    sha256: str
    """Empty for a kind that is not read."""
    flags: tuple[str, ...] = ()
    """For the trace."""
    told: Mapping[str, str] = MappingProxyType({})
    """Headers by which a site says that something stands in front of the page."""


async def look_up(host: str) -> tuple[Address, ...]:
    """As `Lookup`, by the system's resolver. getaddrinfo(3) cannot be interrupted, so each has a thread of its own:
    one that hangs keeps nobody waiting, neither other names nor the door's end."""
    with contextlib.suppress(ValueError):
        return (ipaddress.ip_address(host),)
    answer = Future[list[Any]]()
    answer.set_running_or_notify_cancel()

    def ask() -> None:
        try:
            answer.set_result(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))
        except Exception as error:
            answer.set_exception(error)

    try:
        threading.Thread(target=ask, daemon=True).start()
        return tuple(dict.fromkeys(ipaddress.ip_address(each[4][0]) for each in await asyncio.wrap_future(answer)))
    except (OSError, ValueError, RuntimeError) as error:  # the last: there is no room for a thread
        again = isinstance(error, RuntimeError) or getattr(error, "errno", 0) == socket.EAI_AGAIN
        words = f"the name {host} was not found ({getattr(error, 'strerror', '') or error})"
        raise failed(words, "try again later" if again else "check how it is spelled", retriable=again) from None


class Connections:
    """No cookie, password, proxy or redirect, and no connection that is used twice: one that was opened, and proved by
    its certificate, for one name would else serve another name at the same address."""

    def __init__(self, trust: ssl.SSLContext | None = None) -> None:
        """`trust`: instead of the system's certificates."""
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
        trust = trust or ssl.create_default_context()
        self._transport = httpx2.AsyncHTTPTransport(verify=trust, trust_env=False, limits=limits)

    async def ask(self, target: Target, address: Address, seconds: float) -> httpx2.Response:
        """The beginning of an answer, which the caller closes. Raises WebRefusal."""
        waits = {"connect": min(CONNECT_SECONDS, seconds), "read": seconds, "write": seconds, "pool": seconds}
        sent = {"host": target.authority, **HEADERS}
        extensions = {"sni_hostname": target.host, "timeout": waits}
        url = httpx2.URL(scheme=target.scheme, host=str(address), port=target.port, raw_path=target.path.encode())
        with _typed(target):
            try:
                request = httpx2.Request("GET", url, headers=sent, extensions=extensions)
                return await self._transport.handle_async_request(request)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                words = f"{target.origin} cannot be reached, or does not prove who it is ({error})"
                hint = "try again later, or use another source"
                raise failed(words, hint, "certificate" not in str(error)) from None


class Fetcher:
    def __init__(
        self,
        judge: Judge,
        connections: Connections,
        lookup: Lookup,
        robots: Robots | None,
        seconds: float = SECONDS,
        page_bytes: int = PAGE_BYTES,
    ) -> None:
        """`robots` None: nobody's robots.txt is asked for."""
        self._judge, self._connections, self._lookup, self._robots = judge, connections, lookup, robots
        self._seconds, self._page_bytes = seconds, page_bytes

    async def fetch(self, target: Target, tool: WebTool) -> Fetched:
        """Raises WebRefusal."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._fetch(target, tool, self._robots if tool == "fetch_page" else None)
        except TimeoutError:
            words = f"{target.origin} did not give the page within {self._seconds:g} s"
            raise late(words, "try again later, or use another source") from None

    async def admit(self, target: Target, tool: WebTool) -> tuple[str, ...]:
        """Whether a browser may be sent there, which asks for it by itself: the flags of that. Raises WebRefusal."""
        flags = dict[str, None]()
        await self._admitted(target, tool, self._robots, target.host, flags)
        return tuple(flags)

    async def _admitted(
        self, target: Target, tool: WebTool, robots: Robots | None, asked: str, flags: dict[str, None]
    ) -> tuple[Address, ...]:
        """The addresses that it may be asked at. Raises WebRefusal."""
        flags.update(dict.fromkeys(self._judge.let(target, tool, asked=asked)))
        if robots:
            await robots.check(target, lambda where: self._fetch(where, tool, None))
        found = await self._lookup(target.host)
        self._judge.let(target, tool, found, asked)
        return found

    async def _fetch(self, target: Target, tool: WebTool, robots: Robots | None) -> Fetched:
        asked, flags = target.host, dict[str, None]()
        for redirects in range(MOST_REDIRECTS + 1):
            with after_an_answer(redirects > 0):
                found = await self._admitted(target, tool, robots, asked, flags)
            with after_an_answer():  # or in the middle of one
                response = await self._connections.ask(target, found[0], self._seconds)
                try:
                    location = response.headers.get("location", "")
                    if response.status_code not in REDIRECTS or not location:
                        told = (*flags, f"redirects {redirects}") if redirects else tuple(flags)
                        return await self._read(target, response, told)
                    target = redirected(target, location)
                finally:
                    await response.aclose()
        raise failed(f"{target.host} redirects more than {MOST_REDIRECTS} times", "use another source")

    async def _read(self, target: Target, response: httpx2.Response, flags: tuple[str, ...]) -> Fetched:
        """Raises WebRefusal."""
        header, body, whole = response.headers.get("content-type", ""), b"", True
        if kind_of(header, b"") != "other":
            body, whole = await self._body(target, response)
        kind, digest = kind_of(header, body), hashlib.sha256(body).hexdigest()
        if kind == "other":
            body, whole, digest, flags = b"", True, "", (*flags, "not_read")
        elif not whole:
            flags = (*flags, "cut")
        site, types = (target.url, target.origin, response.status_code), (type_of(header), charset_of(header))
        told = {name: response.headers[name][:200] for name in CHALLENGES if name in response.headers}
        return Fetched(*site, *types, kind, body, whole, digest, flags, told)

    async def _body(self, target: Target, response: httpx2.Response) -> tuple[bytes, bool]:
        """And whether that is all of it. Raises WebRefusal."""
        if response.headers.get("content-encoding", "").strip().lower() not in ("", "identity"):
            raise failed("the page is packed, which was not asked for", "use another source")
        came = bytearray()
        with _typed(target):
            async for part in response.aiter_raw():
                came += part
                if len(came) > self._page_bytes:
                    break
        return bytes(came[: self._page_bytes]), len(came) <= self._page_bytes


@contextlib.contextmanager
def _typed(target: Target) -> Iterator[None]:
    """What goes wrong at the site, as a WebRefusal without its words."""
    try:
        yield
    except httpx2.TimeoutException:
        raise late(f"{target.origin} has stopped sending", "try again later") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        words = f"{target.origin} gave an answer that cannot be read ({type(error).__name__})"
        raise failed(words, "try again, or use another source", retriable=True) from None
