"""A model that plays a script, at no cost and with no network: for demonstrations, tests and rehearsals.

A script is YAML: scenes, checked once when they are read, of replies. Which one a conversation gets next depends on the
conversation alone, so a door that was restarted goes on where it was. In every other respect it behaves as a provider's
model does: it stops early and counts tokens (four bytes each)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from infra.keep.model_door.model import Answer
from infra.shared import conversation
from infra.shared.comms import CommsError, open_directives
from infra.shared.conversation import JOB, Completion, Request, Text, ToolUse, Usage, of_kind, to_plain

DEMO = os.path.join(os.path.dirname(__file__), "demo.yaml")
BYTES_PER_TOKEN = 4
NO_SCENE = "The script has no scene for this conversation."


class ScriptError(ValueError):
    """A script that cannot be played; the text names the scene, what was expected and what was found."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object of the script."""


class When(_Part, frozen=True, kw_only=True):
    """Regular expressions that must be found for the scene to be played; an empty one asks nothing."""

    directive: str = ""
    """In the text of the first open directive."""
    comms: str = ""
    """In COMMS.md."""
    job: str = ""
    """In the task of a job."""


class ScriptedCall(_Part, frozen=True, kw_only=True):
    name: str
    input: dict[str, object]


class ScriptedReply(_Part, frozen=True, kw_only=True):
    """One turn of the model."""

    text: str | None = None
    tools: tuple[ScriptedCall, ...] = ()
    stop_reason: Literal["end_turn", "tool_use", "max_tokens", "refusal"] | None = None


class _Scene(_Part, frozen=True, kw_only=True):
    name: str
    when: When = When()
    replies: tuple[ScriptedReply, ...]


class Script(_Part, frozen=True, kw_only=True):
    scenes: tuple[_Scene, ...]


def read_script(path: str) -> Script:
    """Raises ScriptError, also when the file cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ScriptError(f"the script {path} cannot be read ({error}); set model.name in minifram.yaml") from None
    return parse_script(text, path)


def parse_script(text: str, source: str) -> Script:
    """Raises ScriptError."""
    try:
        script = msgspec.yaml.decode(text, type=Script)
    except ValueError as error:  # of YAML, or of a value, which is named
        raise ScriptError(f"{source} cannot be understood: {error}") from None
    for scene in script.scenes:
        _check(scene, source)
    return script


def _check(scene: _Scene, source: str) -> None:
    where = f"{source}: scene {scene.name!r}"
    for key in scene.when.__struct_fields__:
        try:
            re.compile(getattr(scene.when, key))
        except re.error as error:
            raise ScriptError(f"{where}: when.{key} is not a regex: {error}") from None


class Played(NamedTuple):
    """What the script holds for a conversation."""

    scene: str = ""
    """Empty when no scene is for it."""
    turn: int = 0
    """How many replies the model has given in this conversation."""
    reply: ScriptedReply | None = None
    """None past the end of the scene."""


def choose(script: Script, request: Request) -> Played:
    """The part of the script that is next for this conversation, by the first scene that is for it."""
    turn = turns(request)
    scene = next((scene for scene in script.scenes if _is_for(scene.when, request)), None)
    if scene is None:
        return Played(turn=turn)
    return Played(scene.name, turn, scene.replies[turn] if turn < len(scene.replies) else None)


def turns(request: Request) -> int:
    """The replies that the model itself has given; the runner's opening calls are not among them."""
    said = [of_kind(ToolUse, message.content) for message in request.messages if message.role == "assistant"]
    return sum(not any(call.id.startswith(conversation.OPENING_PREFIX) for call in calls) for calls in said)


def _is_for(when: When, request: Request) -> bool:
    comms = request.system[1] if len(request.system) > 1 else ""
    try:
        directives = [found.text for found in open_directives(comms)]
    except CommsError:
        directives = []
    task = "".join(block.text for block in of_kind(Text, request.messages[0].content)) if request.label == JOB else ""
    places = ((when.directive, "".join(directives[:1])), (when.comms, comms), (when.job, task))
    return all(re.search(pattern, text) for pattern, text in places)


class ScriptedModel:
    provider, sees, problem = "scripted", False, None

    def __init__(self, name: str, script: Script, max_tokens: int) -> None:
        self.name, self.script, self.max_tokens = name, script, max_tokens

    def prepare(self, request: Request) -> ScriptedTurn:
        request = request.in_words
        return ScriptedTurn(self, request, Usage(_tokens(to_plain(request)), self.max_tokens))


@dataclass
class ScriptedTurn:
    """One call of the scripted model."""

    model: ScriptedModel
    request: Request
    most: Usage

    async def make(self) -> Answer:
        played = choose(self.model.script, self.request)
        answer = _completion(played, self.model.name)
        output = min(_tokens(to_plain(answer)["content"]), self.most.output_tokens)
        return Answer(answer._replace(usage=self.most._replace(output_tokens=output)))


def _completion(played: Played, model: str) -> Completion:
    """What the model says for this part of the script, its usage not yet counted."""
    reply = played.reply
    if not played.scene:
        # Nothing was done, so nothing may be ticked.
        return Completion((Text(NO_SCENE),), conversation.REFUSAL, model)
    if reply is None:
        words = f"The script has no more replies (scene {played.scene!r}, after {played.turn})."
        return Completion((Text(words),), conversation.END_TURN, model)
    calls = tuple(
        ToolUse(f"scripted-{played.turn}-{place}", call.name, dict(call.input))
        for place, call in enumerate(reply.tools)
    )
    text = (Text(reply.text),) if reply.text else ()
    reason = conversation.TOOL_USE if calls else conversation.END_TURN
    return Completion(text + calls, reply.stop_reason or reason, model)


def _tokens(value: object) -> int:
    return -(-len(msgspec.json.encode(value)) // BYTES_PER_TOKEN)
