"""Tokens of a prompt, counted by its provider before it is sent. Providers take nothing for that, but limit how often
they are asked; so does the door, since nothing else would."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import msgspec

from infra.keep.model_door.booking import Booking
from infra.keep.model_door.errors import BrokenReply, shortened
from infra.keep.model_door.model import NOTHING, CallFailure
from infra.keep.model_door.streaming import StreamingModel, beginning, failure_of, refusal
from infra.shared.conversation import Count

if TYPE_CHECKING:
    import httpx2

MOST_PER_MINUTE = 60
_MINUTE = 60.0


class RateLimit:
    """How often the door lets tokens be counted."""

    def __init__(self, most: int = MOST_PER_MINUTE) -> None:
        self._times = deque[float](maxlen=most)

    def take(self, now: float) -> None:
        """Raises CallFailure when that was too often."""
        if len(self._times) == self._times.maxlen and now - self._times[0] < _MINUTE:
            words = f"tokens are counted {self._times.maxlen} times a minute at most; try again later"
            raise CallFailure("rate_limited", words, _MINUTE - (now - self._times[0]))
        self._times.append(now)


class _Counted(msgspec.Struct, frozen=True):
    input_tokens: Count


async def tokens_counted(
    model: StreamingModel, send: Callable[[Any], AbstractAsyncContextManager[httpx2.Response]]
) -> int:
    """What the answer to `send`, which gets the model's client, says. Raises CallFailure."""
    client = await model.client.value()
    try:
        async with asyncio.timeout(model.idle_seconds), send(client) as response:
            content = await beginning(response)
            if not 200 <= response.status_code < 300:
                raise refusal(response.status_code, response.headers, content)
        try:
            return msgspec.json.decode(content, type=_Counted).input_tokens
        except (ValueError, RecursionError) as error:
            raise BrokenReply(f"it is no count of tokens: {error}") from None
    except Exception as error:
        free = Booking(NOTHING, True, True)
        failure = failure_of(model.cause_of(error), model.idle_seconds, lambda is_over: free)
        if failure is None:
            raise
        failure.message = shortened(failure.message, model.key.known)
        raise failure from None
