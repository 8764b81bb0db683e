"""One model after the other is asked, as `rotation` says, until one answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from infra.keep.model_door.model import CallFailure, Model
from infra.keep.model_door.rotation import FailedTry, decisive, next_try

_T = TypeVar("_T")
MAX_OTHERS_CHARACTERS = 2000


async def first_answer(
    models: Sequence[Model],
    attempt: Callable[[Model], Awaitable[_T]],
    note: Callable[[Model, CallFailure | None], None],
) -> _T:
    """The first answer that an `attempt` gives. `note` is told how each try ended. Raises CallFailure."""
    began = time.monotonic()
    failed: list[FailedTry] = []
    failures: list[CallFailure] = []
    while following := next_try(failed, len(models), time.monotonic() - began):
        await asyncio.sleep(following.wait_seconds)
        model = models[following.model]
        try:
            answer = await attempt(model)
        except CallFailure as failure:
            failed.append(FailedTry(following.model, failure.type, failure.retry_after_seconds))
            failures.append(failure)
            note(model, failure)
        else:
            note(model, None)
            return answer
    raise told(models, failed, failures)


def asked_first(models: Sequence[Model], name: str) -> Sequence[Model]:
    """The models in the PM's order, but first the one of this name, if one is given. Raises CallFailure."""
    wished = [model for model in models if model.name == name]
    if name and not wished:
        known = ", ".join(model.name for model in models)
        raise CallFailure("invalid_request", f"no such model: {name[:200]!r}; the PM's settings have {known}")
    return (*wished, *(model for model in models if model not in wished))


def told(models: Sequence[Model], failed: Sequence[FailedTry], failures: Sequence[CallFailure]) -> CallFailure:
    """The failure of a call that several models could not answer: one of theirs, with what the others said."""
    place = decisive(failed)
    chosen = failures[place]
    others = {
        f"{models[one.model].provider} {models[one.model].name}: {why.type}: {why.message}": None
        for one, why in zip(failed, failures, strict=True)
        if why is not chosen and one.model != failed[place].model
    }
    if others:
        chosen.message += f" (and of the other models: {'; '.join(others)})"[:MAX_OTHERS_CHARACTERS]
    return chosen
