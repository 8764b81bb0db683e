"""What takes long to load, such as a provider's SDK: in the background, once the door listens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import Any, Generic, TypeVar

from infra.keep.model_door.model import CallFailure

_T = TypeVar("_T")


class Background(Generic[_T]):
    """A value that is being made."""

    def __init__(self, what: str, make: Callable[[], _T]) -> None:
        """`what`: for people, such as `the openai SDK`."""
        self._what = what
        self._make = make
        self._future: Future[_T] = Future()

    @property
    def state(self) -> str:
        """`loading`, `ready` or `failed`, for people."""
        if not self._future.done():
            return "loading"
        return "failed" if self._future.exception() else "ready"

    async def value(self) -> _T:
        """Raises CallFailure when it could not be made."""
        try:
            return await asyncio.wrap_future(self._future)
        except Exception as error:
            raise CallFailure("unavailable", f"{self._what} cannot be loaded: {error!r}") from error

    def promise(self) -> None:
        """From here on it cannot be cancelled: a call that ends early must not take it away from the others."""
        self._future.set_running_or_notify_cancel()

    def load(self) -> None:
        # Whatever the import raises belongs to the first call that needs it, not to this thread.
        try:
            self._future.set_result(self._make())
        except BaseException as error:
            self._future.set_exception(error)


def load_all(things: Sequence[Background[Any]]) -> None:
    """Load them, one after the other: two threads that import what the other one is importing can see half of it."""
    for thing in things:
        thing.promise()
    Thread(target=_load_all, args=(things,), name="load the SDKs", daemon=True).start()


def _load_all(things: Sequence[Background[Any]]) -> None:
    for thing in things:
        thing.load()


def worst_state(states: Sequence[str]) -> str:
    """Of several things that are loaded, for `/health`."""
    return next((state for state in ("failed", "loading") if state in states), "ready")
