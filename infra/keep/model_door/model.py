"""What a call of a model comes to, and the one way in which it can fail.

A model prepares a call first, so that its worst case (`most`) can be reserved before a byte is sent; then it is made,
once. Models touch no ledger and no budget."""

from __future__ import annotations

from typing import NamedTuple

from infra.shared.conversation import ERROR_TYPES, Completion, Usage

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
