"""A model that plays a script: for demonstrations, tests and rehearsals, at no cost and with no network.

It behaves as a provider's model does in every other respect: it takes time, fails, stops early and counts tokens
(four bytes each)."""

from __future__ import annotations

import asyncio
import os

import msgspec

from infra.keep.model_door.model import Answer, CallFailure
from infra.keep.model_door.script import Played, Script, choose
from infra.shared.conversation import (
    END_TURN,
    REFUSAL,
    TOOL_USE,
    Completion,
    Request,
    Text,
    ToolUse,
    Usage,
    to_plain,
)

DEMO = os.path.join(os.path.dirname(__file__), "demo.yaml")
BYTES_PER_TOKEN = 4
NO_SCENE = "The script has no scene for this conversation."


class ScriptedModel:
    """Remembers how often each failure of the script was shown, and nothing else."""

    provider = "scripted"
    problem = None
    loads = ()

    def __init__(self, name: str, script: Script, max_tokens: int) -> None:
        self.name = name
        self._script = script
        self._max_tokens = max_tokens
        self._shown: dict[tuple[str, int], int] = {}

    def prepare(self, request: Request) -> ScriptedTurn:
        return ScriptedTurn(self, request.in_words, self._max_tokens)

    def next(self, request: Request) -> Played:
        """Raises CallFailure where the script says so."""
        played = choose(self._script, request)
        for place, error in played.errors:
            key = (played.scene, place)
            if self._shown.get(key, 0) < error.times:
                self._shown[key] = self._shown.get(key, 0) + 1
                raise CallFailure(error.type, error.message, error.retry_after_seconds)
        return played


class ScriptedTurn:
    """One call of the scripted model."""

    def __init__(self, model: ScriptedModel, request: Request, max_tokens: int) -> None:
        self._model = model
        self._request = request
        self._input_tokens = _tokens(to_plain(request))
        self.most = Usage(input_tokens=self._input_tokens, output_tokens=max_tokens)

    async def make(self) -> Answer:
        played = self._model.next(self._request)
        if played.reply:
            await asyncio.sleep(played.reply.delay_seconds)
        answer = completion(played, self._model.name)
        output = min(_tokens(to_plain(answer)["content"]), self.most.output_tokens)
        return Answer(answer._replace(usage=Usage(input_tokens=self._input_tokens, output_tokens=output)))


def completion(played: Played, model: str) -> Completion:
    """What the model says for this part of the script, its usage not yet counted."""
    reply = played.reply
    if not played.scene:
        # Nothing was done, so nothing may be ticked.
        return Completion((Text(NO_SCENE),), REFUSAL, model)
    if reply is None:
        words = f"The script has no more replies (scene {played.scene!r}, after {played.turn})."
        return _only_text(words, model)
    calls = tuple(
        ToolUse(f"scripted-{played.turn}-{place}", call.name, dict(call.input))
        for place, call in enumerate(reply.tools)
    )
    text = (Text(reply.text),) if reply.text else ()
    return Completion(text + calls, reply.stop_reason or (TOOL_USE if calls else END_TURN), model)


def _only_text(words: str, model: str) -> Completion:
    return Completion((Text(words),), END_TURN, model)


def _tokens(value: object) -> int:
    return -(-len(msgspec.json.encode(value)) // BYTES_PER_TOKEN)
