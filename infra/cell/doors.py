"""The cell's side of the three doors. Whoever asks gets an answer, `Refused`, or `DoorAway`;
of the model door a completion or `ModelFailure`."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import ValidationError, convert

from infra.shared.conversation import (
    ERROR_TYPES,
    TASK,
    Complete,
    Completion,
    Image,
    Message,
    Request,
    Text,
)
from infra.shared.door import DoorAway, DoorRequest, Failure, ask
from infra.shared.requests import (
    Ask,
    AskTaint,
    Done,
    Examination,
    Examine,
    QuestionState,
    Record,
    Recorded,
    Report,
    TaintedBy,
)

T = TypeVar("T")

WEB_SECONDS = 170.0
"""The web door has bounds of its own; this one is for a door that hangs."""
UNKNOWN_ORIGIN = "unknown: the keep did not say"
KEEP_SECONDS, ANSWER_SECONDS = 70.0, 20.0
"""The git door may wait for git, and for others that move main; its own calls end after a minute."""


_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
"""How the files begin that all providers take."""


def media_type_of(content: bytes) -> str:
    """Of an image that all providers take; nothing for what is none."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((found for start, found in _IMAGES.items() if content.startswith(start)), "")


class Refused(OSError):
    """The door said no, in words for the model."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class ModelFailure(Exception):
    """A conversation that was not completed; `type` is one of `conversation.ERROR_TYPES`."""

    def __init__(self, type: str, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(f"{type}: {message}")
        self.type = type
        self.message = message
        self.retry_after_seconds = retry_after_seconds


def _ask(path: str, request: DoorRequest, shape: type[T], seconds: float) -> T:
    """Once. Raises Refused, DoorAway, and ValueError for what is no JSON."""
    answer = ask(path, request, shape, seconds)
    if isinstance(answer, Failure):
        raise Refused(answer)
    return answer


class Model:
    """Asks once, since a call is paid for: retrying is the caller's. Whatever is odd about the door is a failure of
    type `unavailable`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def complete(self, request: Request, seconds: float, must_see: bool = False) -> Completion:
        """`seconds` bound each silence of the door. Raises ModelFailure."""
        try:
            return _ask(self._path, Complete(request, must_see), Completion, seconds)
        except DoorAway as error:
            raise ModelFailure("unavailable", str(error)) from error
        except ValueError as error:
            raise ModelFailure("invalid_request", str(error)) from None
        except Refused as no:
            kind = no.failure.type if no.failure.type in ERROR_TYPES else "unavailable"
            raise ModelFailure(kind, no.failure.message, no.failure.retry_after_seconds) from None

    def vision(
        self, image_bytes: bytes, prompt: str, seconds: float = KEEP_SECONDS, run: str = "", label: str = TASK
    ) -> Completion:
        """What a model says of an image, its cost, and how it ended. Raises ModelFailure; `tool_unavailable` when no
        model takes images."""
        try:
            image = convert({"media_type": media_type_of(image_bytes), "data": b64encode(image_bytes).decode()}, Image)
        except ValidationError as error:
            raise ModelFailure("invalid_request", f"the bytes are no image that models take: {error}") from None
        asked = Request((), (Message("user", (image, Text(prompt))),), (), run, label)
        return self.complete(asked, seconds, must_see=True)


class Web:
    """Asks once: who connects while the door restarts waits for the next one, and of the rest the model is told."""

    def __init__(self, path: str) -> None:
        self._path = path

    def ask(self, request: DoorRequest, shape: type[T]) -> T:
        """Raises Refused."""
        try:
            return _ask(self._path, request, shape, WEB_SECONDS)
        except DoorAway as error:
            hint = "try again in a while, or say so in your report"
            raise Refused(Failure("tool_unavailable", str(error), True, hint=hint)) from None


class Keep:
    """The git door's answers, to one runner. Asks once: each of those who ask has something else to do before it asks
    again. Raises Refused, DoorAway (also for what may succeed later) and ValueError for what is no JSON."""

    def __init__(self, path: str) -> None:
        self._path = path

    def report(self, report: Report) -> Done:
        return self._asked(report, Done, KEEP_SECONDS)

    def question(self, question: Ask) -> QuestionState:
        """What it has recorded when the time is up is found by the next try."""
        return self._asked(question, QuestionState, ANSWER_SECONDS)

    def examine(self, branch: str, commit: str) -> Examination:
        return self._asked(Examine(branch, commit), Examination, KEEP_SECONDS)

    def taint(self, since: float) -> TaintedBy:
        """Raises nothing: who is not told counts as tainted."""
        try:
            return self._asked(AskTaint(since), TaintedBy, ANSWER_SECONDS)
        except (OSError, ValueError):
            return TaintedBy((UNKNOWN_ORIGIN,), True)

    def record(self, events: Sequence[dict[str, Any]]) -> Recorded:
        return self._asked(Record(tuple(events)), Recorded, ANSWER_SECONDS)

    def _asked(self, request: DoorRequest, shape: type[T], seconds: float) -> T:
        try:
            return _ask(self._path, request, shape, seconds)
        except Refused as no:
            if no.failure.retriable:
                raise DoorAway(str(no)) from None
            raise
