"""What a host's name means: looked up once for each connection, by the resolver that everything here uses."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import threading
from collections.abc import Awaitable, Callable

from infra.keep.web_door.refusal import failed
from infra.shared.addresses import Address

Lookup = Callable[[str], Awaitable[tuple[Address, ...]]]
"""Raises WebRefusal when there is none."""
MOST_LOOKUPS = 32
"""At once. One that was given up ends in its own time, as getaddrinfo(3) cannot be interrupted."""


def _aside(work: Callable[[], None]) -> None:
    """Raises RuntimeError when the container has no room for a thread."""
    threading.Thread(target=work, daemon=True).start()  # not of a pool, whose threads an exit would wait for


class Resolver:
    def __init__(self, aside: Callable[[Callable[[], None]], None] = _aside) -> None:
        self._aside = aside
        self._under_way = 0

    async def addresses(self, host: str) -> tuple[Address, ...]:
        """As `Lookup`."""
        try:
            return await self.found(host)
        except OSError as error:
            again = error.errno == socket.EAI_AGAIN
            words = f"the name {host} was not found ({error.strerror or error})"
            raise failed(words, "try again later" if again else "check how it is spelled", retriable=again) from None

    async def found(self, host: str) -> tuple[Address, ...]:
        """At least one. Raises OSError."""
        try:
            return (ipaddress.ip_address(host),)
        except ValueError:
            pass
        if self._under_way >= MOST_LOOKUPS:
            raise OSError(socket.EAI_AGAIN, f"{MOST_LOOKUPS} names are being looked up already")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[Address, ...]] = loop.create_future()

        def over(found: tuple[Address, ...], trouble: OSError | None) -> None:
            self._under_way -= 1
            if answer.done():  # nobody waits any more
                return
            if trouble:
                answer.set_exception(trouble)
            else:
                answer.set_result(found)

        def look() -> None:
            found: tuple[Address, ...] = ()
            trouble: OSError | None = OSError(socket.EAI_NONAME, "it has no address")
            try:
                answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
                found = tuple(dict.fromkeys(ipaddress.ip_address(each[4][0]) for each in answers))
                trouble = None if found else trouble
            except OSError as error:
                trouble = error
            except (UnicodeError, ValueError) as error:
                trouble = OSError(socket.EAI_NONAME, str(error))
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(over, found, trouble)

        try:
            self._aside(look)
        except RuntimeError as error:
            raise OSError(socket.EAI_AGAIN, str(error)) from None
        self._under_way += 1
        return await answer
