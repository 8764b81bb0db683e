"""How much memory all requests together may take: while they are received, and while they are answered.

Clients may be hostile and numerous, so nobody waits in a queue that others could fill: when memory runs out, the client
that uses the most loses its oldest incomplete request. An honest request is complete within moments."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator

from starlette.requests import ClientDisconnect, Request

from infra.keep.model_door.incoming import MAX_BYTES, too_large
from infra.keep.model_door.model import CallFailure

RECEIVING_SECONDS = 30.0
"""A request is whole by then."""
RECEIVING_BYTES = 4 * MAX_BYTES
"""Of all requests that are not whole yet."""
HELD_BYTES = 256 * 1024 * 1024
"""Of all conversations that are being completed, by `weight_of`."""
MAX_CALLS = 32
_VALUE_BYTES = 200
_RETRY_SECONDS = 1.0


class _Body:
    """One that is being received."""

    def __init__(self, seconds: float, caller: str) -> None:
        self.caller = caller
        self.time = asyncio.timeout(seconds)
        self.content = bytearray()
        self.size = 0
        """Also of what was not kept."""
        self.why = f"the request was not whole after {seconds:g} s; send it at once"
        self.is_out = False

    def put_out(self, why: str) -> None:
        self.is_out, self.why = True, why
        self.content.clear()
        self.time.reschedule(0.0)


class Bodies:
    """Receives requests, many at once."""

    def __init__(self, seconds: float = RECEIVING_SECONDS, most_bytes: int = RECEIVING_BYTES) -> None:
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._coming: list[_Body] = []
        """The oldest first."""

    async def receive(self, http: Request) -> bytes:
        """The whole body. Raises CallFailure; for one over the limit after its end, since a client that is still
        sending would not hear the answer."""
        body = _Body(self._seconds, http.client.host if http.client else "")
        self._coming.append(body)
        try:
            async with body.time:
                async for part in http.stream():
                    self._take(body, part)
            if body.is_out:  # it was whole before it heard of that
                raise TimeoutError
        except TimeoutError:
            raise CallFailure("unavailable", body.why, _RETRY_SECONDS) from None
        except ClientDisconnect:
            raise CallFailure("invalid_request", "the client left in the middle of its request") from None
        finally:
            self._coming.remove(body)
        if body.size > MAX_BYTES:
            raise too_large()
        return bytes(body.content)

    def _take(self, body: _Body, part: bytes) -> None:
        body.size += len(part)
        if body.is_out or body.size > MAX_BYTES:
            body.content.clear()
            return
        body.content += part
        while sum(len(each.content) for each in self._coming) > self._most_bytes:
            taken = Counter[str]()
            for each in self._coming:
                taken[each.caller] += len(each.content)
            greediest = taken.most_common(1)[0][0]
            oldest = next(each for each in self._coming if each.content and each.caller == greediest)
            oldest.put_out(
                f"over {self._most_bytes >> 20} MiB of requests are coming in at once, most of them from {greediest}, "
                "and this one has taken the longest of those; try again"
            )


class Calls:
    """Conversations that are being completed."""

    def __init__(self, most_bytes: int = HELD_BYTES, most: int = MAX_CALLS) -> None:
        self._most_bytes = most_bytes
        self._most = most
        self._weights: list[int] = []

    @contextlib.contextmanager
    def room_for(self, weight: int) -> Iterator[None]:
        """Raises CallFailure when there is none."""
        if weight > self._most_bytes:
            raise CallFailure(
                "context_overflow",
                f"the conversation takes about {weight >> 20} MiB of memory, over the limit of "
                f"{self._most_bytes >> 20}; make it shorter",
            )
        if len(self._weights) >= self._most or sum(self._weights) + weight > self._most_bytes:
            raise CallFailure(
                "unavailable",
                f"{len(self._weights)} calls are under way, and no memory is left for another; try again",
                _RETRY_SECONDS,
            )
        self._weights.append(weight)
        try:
            yield
        finally:
            self._weights.remove(weight)


def weight_of(body: bytes) -> int:
    """How much memory a request may take once it is read: a text of its size, and its values, which are many bytes
    each however short they are written. Never more values than these marks, which a text may hold as well."""
    return len(body) + _VALUE_BYTES * sum(body.count(mark) for mark in (b",", b"[", b"{"))
