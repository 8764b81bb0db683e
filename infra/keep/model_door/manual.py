"""A person answers: the conversation is put where `minifram answer` finds it, and the door waits for the file with the
answer. Free of cost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import uuid

import msgspec

from infra.keep.model_door.model import Answer, CallFailure, counts_no_tokens, takes_no_images
from infra.shared.clock import timestamp
from infra.shared.conversation import END_TURN, TOOL_USE, Completion, Image, Request, Usage, to_plain
from infra.shared.files import write_whole
from infra.shared.manual import ANSWER, FOLDER, MAX_ANSWER_BYTES, REQUEST, SCHEMA, is_id, parse_answer
from infra.shared.model_settings import Choice
from infra.shared.paths import Paths
from infra.shared.safe_files import whole_file

LOOK_SECONDS = 0.25


class ManualModel:
    """Whoever sits at the terminal."""

    provider = "manual"
    problem = None
    loads = ()

    def __init__(self, choice: Choice, answer_seconds: float, places: Paths) -> None:
        self.name = choice.name
        self.answer_seconds = answer_seconds
        self.folder = f"{places.var}/{FOLDER}"
        _clear(self.folder)

    def prepare(self, request: Request) -> ManualCall:
        return ManualCall(self, request.in_words)

    def vision(self, image: Image, prompt: str) -> ManualCall:
        raise takes_no_images(self)

    async def count_tokens(self, request: Request) -> int:
        raise counts_no_tokens(self)


class ManualCall:
    """One question."""

    most = Usage()

    def __init__(self, model: ManualModel, request: Request) -> None:
        self._model = model
        self._request = request
        self._id = uuid.uuid4().hex

    async def make(self) -> Answer:
        asked, answered = (f"{self._model.folder}/{self._id}{end}" for end in (REQUEST, ANSWER))
        told = {
            "schema": SCHEMA,
            "id": self._id,
            "at": timestamp(time.time()),
            "request": to_plain(self._request),
        }
        try:
            os.makedirs(self._model.folder, mode=0o700, exist_ok=True)
            write_whole(asked, msgspec.json.encode(told), mode=0o600)
        except OSError as error:
            raise CallFailure("unavailable", f"the question cannot be put into {self._model.folder}: {error}") from None
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._model.answer_seconds):
                    while not os.path.lexists(answered):
                        await asyncio.sleep(LOOK_SECONDS)
            if not os.path.lexists(answered):  # it may have come since the last look
                words = (
                    f"nobody answered within {self._model.answer_seconds:g} s; 'minifram answer' shows what is asked"
                )
                raise CallFailure("unavailable", words)
            return Answer(self._completion(_read(answered)))
        finally:
            # The question goes last: an answer that is there without one was taken by nobody (`host.agent.answering`).
            for path in (answered, asked):
                with contextlib.suppress(OSError):
                    os.unlink(path)

    def _completion(self, text: str) -> Completion:
        try:
            answer = parse_answer(text, self._request.tools)
        except ValueError as error:
            raise CallFailure("provider_error", f"the answer cannot be used: {error}") from None
        reason = TOOL_USE if answer.calls else END_TURN
        return Completion(answer.content(self._id), reason, self._model.name)


def _read(path: str) -> str:
    """Raises CallFailure for a file that is not text of a bearable size."""
    try:
        return whole_file(path, MAX_ANSWER_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise CallFailure("provider_error", f"the answer in {path} cannot be read: {error}") from None


def _clear(folder: str) -> None:
    """What a door of before was asked, nobody waits for any more."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if is_id(name.partition(".")[0]):
                os.unlink(f"{folder}/{name}")
