"""One page: judged, looked up, judged again, asked for, read, all within one bound on time; each redirect anew."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

import httpx2

from infra.keep.web_door.connection import Connections, broken
from infra.keep.web_door.judge import Judge, Permit, Tool
from infra.keep.web_door.refusal import WebRefusal, after_an_answer, failed, late
from infra.keep.web_door.resolve import Lookup
from infra.keep.web_door.robots import Robots
from infra.keep.web_door.target import Target, redirected
from infra.keep.web_door.unpacking import Unpacking

Answer = TypeVar("Answer")
MOST_REDIRECTS = 10
MOST_PARTS, PARTS_AT_ONCE = 50_000, 100
"""Of a body: a part of one byte costs as much as one of many, and others are served in between."""
REDIRECTS = (301, 302, 303, 307, 308)
READ_TYPES = frozenset(
    (
        *("application/json", "application/xml", "application/xhtml+xml", "application/pdf", "application/javascript"),
        *("application/x-ndjson", "application/yaml", "application/x-yaml", "application/toml"),
    )
)
"""Beside text/* and what ends with +json or +xml. Of others the head is read and no more."""


class FetchLimits(NamedTuple):
    seconds: float = 30.0
    """For the whole, with all redirects. With its turn and the reading twice as long and some: the cell waits for three
    minutes (`cell/web_client`)."""
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
    body: bytes
    """Unpacked; empty for a type that is not read."""
    whole: bool
    sha256: str
    redirects: int
    size: int
    """In bytes: of the body, or, where that was not read, what the head says; -1 when it does not."""
    is_read: bool = True
    """False: the type is not one that is read."""
    flags: tuple[str, ...] = ()
    """For the trace."""


class Fetcher:
    def __init__(
        self, judge: Judge, limits: FetchLimits, connections: Connections, lookup: Lookup, robots: Robots | None
    ):
        """`robots` None: nobody's robots.txt is asked for."""
        self._judge = judge
        self._limits = limits
        self._connections = connections
        self._lookup = lookup
        self._robots = robots

    async def fetch(self, target: Target, tool: Tool) -> Fetched:
        """Raises WebRefusal."""
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await self._page(target, tool)
        except TimeoutError:
            words = f"{target.origin} did not give the page within {self._limits.seconds:g} s"
            raise late(words, "try again later, or use another source") from None

    async def _page(self, target: Target, tool: Tool) -> Fetched:
        flags = dict[str, None]()

        async def admit(target: Target, permit: Permit) -> None:
            flags.update(dict.fromkeys(permit.flags))
            if self._robots and tool == "fetch_page":
                await self._robots.check(target, lambda where, most: self._of_site(where, tool, most))

        async def read(target: Target, response: httpx2.Response, redirects: int) -> Fetched:
            flags.update({f"redirects {redirects}": None} if redirects else {})
            return await self._read(target, response, redirects, tuple(flags))

        if page := await self._follow(target, tool, MOST_REDIRECTS, admit, read):
            return page
        raise failed(f"{target.host} redirects more than {MOST_REDIRECTS} times", "use another source")

    async def _of_site(self, target: Target, tool: Tool, most: int) -> tuple[int, bytes]:
        """Status and body of a small file, by the same judge. Raises WebRefusal."""

        async def admit(target: Target, permit: Permit) -> None:
            pass

        async def read(target: Target, response: httpx2.Response, redirects: int) -> tuple[int, bytes]:
            return response.status_code, (await _body(target, response, most))[0]

        return await self._follow(target, tool, MOST_REDIRECTS // 2, admit, read) or (404, b"")

    async def _follow(
        self,
        target: Target,
        tool: Tool,
        most: int,
        admit: Callable[[Target, Permit], Awaitable[None]],
        read: Callable[[Target, httpx2.Response, int], Awaitable[Answer]],
    ) -> Answer | None:
        """What `read` makes of the first answer that is no redirect; None after too many. Each address is judged."""
        asked = target.host
        for redirects in range(most + 1):
            with after_an_answer(redirects > 0):
                permit = self._judge.host(target, tool, asked if redirects else "")
                await admit(target, permit)
                response = await self._ask(target, tool, permit)
            try:
                with after_an_answer():
                    location = response.headers.get("location", "")
                    if response.status_code not in REDIRECTS or not location:
                        return await read(target, response, redirects)
                    target = redirected(target, location)
            finally:
                await response.stream.aclose()  # type: ignore[union-attr]
        return None

    async def _ask(self, target: Target, tool: Tool, permit: Permit) -> httpx2.Response:
        found = await self._lookup(target.host)
        self._judge.addresses(target, found, tool, permit)
        with after_an_answer():  # or in the middle of one
            return await self._connections.ask(target, found, self._limits.seconds)

    async def _read(self, target: Target, response: httpx2.Response, redirects: int, flags: tuple[str, ...]) -> Fetched:
        content_type, charset = _type_of(response.headers.get("content-type", ""))
        is_read = content_type == "" or is_text(content_type) or content_type in READ_TYPES
        if is_read:
            body, whole, digest = await _body(target, response, self._limits.page_bytes)
            size = len(body)
        else:
            body, whole, digest, size = b"", False, "", _length_of(response)
        return Fetched(
            target.url,
            target.origin,
            response.status_code,
            content_type,
            charset,
            body,
            whole,
            digest,
            redirects,
            size,
            is_read,
            (*flags, *(() if whole else ("cut",) if is_read else ("not_read",))),
        )


def is_text(content_type: str) -> bool:
    return content_type.startswith("text/") or content_type.endswith(("+json", "+xml"))


async def _body(target: Target, response: httpx2.Response, most: int) -> tuple[bytes, bool, str]:
    unpacking = Unpacking(response.headers.get("content-encoding", "").strip().lower(), most)
    if not isinstance(response.stream, httpx2.AsyncByteStream):
        raise AssertionError("unreachable: the transport is asynchronous")
    parts = 0
    try:
        async for part in response.stream:
            parts += 1
            if parts > MOST_PARTS:
                raise failed(f"{target.origin} sends its page in over {MOST_PARTS:,} parts", "use another source")
            if parts % PARTS_AT_ONCE == 0:
                await asyncio.sleep(0)
            unpacking.take(part)
            if unpacking.is_full:
                break
    except WebRefusal:
        raise
    except httpx2.TimeoutException:
        raise late(f"{target.origin} stopped in the middle of the page", "try again later") from None
    except (httpx2.HTTPError, ValueError) as error:
        raise broken(target, error) from None
    return unpacking.finish()


def _type_of(header: str) -> tuple[str, str]:
    kind, *others = header.split(";")
    for each in others:
        name, _, value = each.partition("=")
        if name.strip().lower() == "charset":
            return kind.strip().lower()[:100], value.strip().strip("\"'").lower()[:40]
    return kind.strip().lower()[:100], ""


def _length_of(response: httpx2.Response) -> int:
    length = response.headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 16 else -1
