"""One streamed reply of Ollama's `/api/chat`, put together from its lines of JSON, read strictly where this door knows
them; pure.

Nothing comes out of a reply whose last line, with `done` and a reason, did not come. Tool calls come whole in one line,
and count when the model ended its turn by itself. Older servers give them no ids: they get new ones here."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from infra.keep.model_door.errors import BrokenReply, ProviderError
from infra.keep.model_door.streaming import PlainReply
from infra.keep.model_door.tool_calls import check_ids, checked_arguments, plain_id, strict_json
from infra.shared.conversation import END_TURN, MAX_TOKENS, MOST_TOKENS, TOOL_USE, Completion, Text, ToolUse, Usage

_REASONS = {"stop": END_TURN, "length": MAX_TOKENS}

Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]


class _Function(msgspec.Struct, frozen=True):
    name: str = ""
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class _ToolCall(msgspec.Struct, frozen=True):
    function: _Function
    id: str = ""


class _Message(msgspec.Struct, frozen=True):
    content: str = ""
    thinking: str = ""
    tool_calls: list[_ToolCall] | None = None


class _Line(msgspec.Struct, frozen=True):
    model: str = ""
    message: _Message = _Message()
    done: bool = False
    done_reason: str = ""
    prompt_eval_count: Count | None = None
    eval_count: Count | None = None
    error: Any = None


def new_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"


class OllamaReply(PlainReply):
    """A reply as far as it has come."""

    def __init__(self, model: str, most: Usage, make_id: Callable[[], str] = new_id) -> None:
        """`model`: its name, if the reply has none. `most`: what the call can use at most."""
        super().__init__(model, most)
        self._make_id = make_id
        self._calls: list[_ToolCall] = []
        self._reason = ""

    def take(self, line: bytes) -> bool:
        """Take one line; True when it brought the reply forward. Raises BrokenReply and ProviderError."""
        if not line.strip():
            return False
        if self.done:
            raise BrokenReply("a line came after the last one")
        try:
            told = msgspec.json.decode(line, type=_Line)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise BrokenReply(f"a line cannot be read: {error}") from None
        if told.error:
            raise ProviderError("error", str(told.error))
        self._model = told.model or self._model
        self.show(told.message.content, told.message.thinking)
        self._texts.append(told.message.content)
        for call in told.message.tool_calls or []:
            self._calls.append(call)
            self.show(call.function.name, bytes(call.function.arguments).decode(errors="replace"))
        if told.done:
            self.done, self._reason = True, told.done_reason
            if told.prompt_eval_count is not None and told.eval_count is not None:
                self.usage = self.told = Usage(told.prompt_eval_count, told.eval_count)
        return told.done or bool(told.message.content or told.message.thinking or told.message.tool_calls)

    def completion(self, known_ids: frozenset[str]) -> Completion:
        """The whole reply. Raises BrokenReply when it did not end properly or its tool calls cannot be trusted.

        `known_ids`: the tool calls of the conversation so far."""
        if not self.done:
            raise BrokenReply("the stream ended before its last line")
        reason = _REASONS.get(self._reason)
        if reason is None:
            raise BrokenReply(f"done_reason is {self._reason!r}; known are {', '.join(_REASONS)}")
        text = "".join(self._texts)
        parts: list[Text | ToolUse] = [Text(text)] if text.strip() else []
        calls = [self._tool_use(call) for call in self._calls] if reason == END_TURN else []
        check_ids(calls, known_ids)
        if reason == END_TURN and not calls and not parts:
            raise BrokenReply("the reply is empty")
        reason = TOOL_USE if calls else reason
        return Completion((*parts, *calls), reason, self._model, self.usage or self._most)

    def _tool_use(self, call: _ToolCall) -> ToolUse:
        name = call.function.name
        if not name:
            raise BrokenReply("a tool call has no name")
        try:
            arguments = strict_json(bytes(call.function.arguments).decode(), name)
        except UnicodeDecodeError as error:
            raise BrokenReply(f"the arguments of a call of {name!r} are not JSON: {error}") from None
        id = plain_id(call.id) if call.id else self._make_id()
        return ToolUse(id, name, checked_arguments(arguments, name))
