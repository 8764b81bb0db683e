"""Looking names up, when the container has no room for it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from infra.keep.web_door.resolve import MOST_LOOKUPS, Resolver


def test_look_ups_that_could_not_begin_are_not_counted() -> None:
    """Each is refused as one to try again; when there is room again, names are found."""
    full = True

    def aside(work: Callable[[], None]) -> None:
        if full:
            raise RuntimeError("can't start new thread")
        work()

    async def play() -> None:
        nonlocal full
        resolver = Resolver(aside)
        for _ in range(2 * MOST_LOOKUPS):
            with pytest.raises(OSError, match="can't start new thread") as refused:
                await resolver.found("localhost")
            assert refused.value.errno == socket.EAI_AGAIN
        full = False
        assert all(address.is_loopback for address in await resolver.found("localhost"))

    asyncio.run(play())
