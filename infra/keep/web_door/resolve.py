"""What a host's name means: looked up once for each connection, by the resolver that everything here uses."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Awaitable, Callable

from infra.keep.web_door.refusal import failed, unavailable
from infra.shared.addresses import Address

Lookup = Callable[[str], Awaitable[tuple[Address, ...]]]
"""Raises WebRefusal when there is none."""
MOST_LOOKUPS = 32
"""At once. One that was given up ends in its own time, as getaddrinfo(3) cannot be interrupted."""


class Resolver:
    def __init__(self) -> None:
        self._under_way = 0

    async def addresses(self, host: str) -> tuple[Address, ...]:
        """As `Lookup`."""
        try:
            return (ipaddress.ip_address(host),)
        except ValueError:
            pass
        if self._under_way >= MOST_LOOKUPS:
            raise unavailable("too many names are being looked up", "try again in a moment")
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        found: list[Address] = []
        trouble: list[OSError] = []

        def look() -> None:
            try:
                answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
                found.extend(ipaddress.ip_address(answer[4][0]) for answer in answers)
            except (OSError, UnicodeError) as error:
                trouble.append(error if isinstance(error, OSError) else OSError(str(error)))
            loop.call_soon_threadsafe(over)

        def over() -> None:
            self._under_way -= 1
            done.set()

        self._under_way += 1
        threading.Thread(target=look, daemon=True).start()  # not of a pool, whose threads an exit would wait for
        await done.wait()
        if not found:
            again = any(getattr(error, "errno", 0) == socket.EAI_AGAIN for error in trouble)
            why = trouble[0].strerror or str(trouble[0]) if trouble else "no address"
            raise failed(f"the name {host} was not found ({why})", "check how it is spelled", retriable=again)
        return tuple(dict.fromkeys(found))
