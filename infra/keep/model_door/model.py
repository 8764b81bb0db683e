"""What the door asks of a provider's adapter, and the one way in which a call can fail.

A call is prepared first, so that its worst case can be reserved before a byte is sent (`budget`). Adapters
touch no ledger and no budget."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from infra.shared.conversation import ERROR_TYPES, Completion, Request, Usage

NOTHING = Usage()
"""The provider charges nothing: it was not reached, or it refused."""


class CallFailure(Exception):
    """A call that gave no completion; carries what the door answers and what the provider may charge for it."""

    def __init__(
        self,
        type: str,
        message: str,
        retry_after_seconds: float | None = None,
        usage: Usage | None = NOTHING,
    ) -> None:
        """`usage` None: nobody knows, so the worst case counts."""
        if type not in ERROR_TYPES:
            raise ValueError(f"error type is {type!r}; expected one of {', '.join(ERROR_TYPES)}")
        super().__init__(message)
        self.type = type
        self.message = message
        self.retry_after_seconds = retry_after_seconds
        self.usage = usage
        self.measured = usage is not None
        """False: a part of it is assumed."""
        self.has_classes = True
        """False: its prompt is counted at the dearest price."""


class Answer(NamedTuple):
    """What a call came to."""

    completion: Completion
    measured: bool = True
    """False: the provider did not say what it charges, so the completion's usage is the most that it can be."""


class Call(Protocol):
    """One call, ready to be made, once."""

    most: Usage
    """The tokens it can use at most, counted without asking the provider: that is what is reserved."""

    async def make(self) -> Answer:
        """Raises CallFailure, and nothing else that is expected."""
        ...


class Model(Protocol):
    """A provider's model."""

    provider: str
    name: str
    sees: bool
    """It takes images; another is told their kind and size."""

    @property
    def problem(self) -> str | None:
        """Why calls cannot work as things are; None when nothing is known to be wrong."""
        ...

    async def load(self) -> Any:
        """What takes long, such as a provider's library, once the door answers. Raises CallFailure."""
        ...

    def prepare(self, request: Request) -> Call:
        """Raises CallFailure when the request cannot be sent."""
        ...
