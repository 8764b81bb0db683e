"""Clients that disconnect before they have their answer."""

from __future__ import annotations

import asyncio

from infra.keep.model_door.model import Answer, Call, CallFailure


async def unless(left: asyncio.Future[None], call: Call) -> Answer:
    """Raises CallFailure, also when `left` is done before the call is."""
    making = asyncio.ensure_future(call.make())
    try:
        await asyncio.wait((making, left), return_when=asyncio.FIRST_COMPLETED)
        if making.done():
            return making.result()
    finally:
        making.cancel()
        await asyncio.wait((making,))  # until it has tidied up
    raise CallFailure("invalid_request", "the client has disconnected")
