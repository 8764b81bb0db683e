"""One streamed reply of Chat Completions, put together from its events, read strictly where this door knows them; pure.

Nothing comes out of a reply that did not end properly: with one finish reason that is known and nothing said behind it,
and `[DONE]`. Usage counts from that reason on: what some servers tell before is what it is so far. Its tool calls
count when the model ended its turn by itself (`tool_calls`; some servers say `stop`), each with its arguments parsed
whole. Fields that are not known are passed over."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from infra.keep.model_door.booking import highest
from infra.keep.model_door.connection import data_of
from infra.keep.model_door.errors import BrokenReply, ProviderError
from infra.keep.model_door.streaming import PlainReply
from infra.keep.model_door.tool_calls import arguments_of, check_ids, plain_id
from infra.shared.conversation import (
    END_TURN,
    MAX_TOKENS,
    REFUSAL,
    TOOL_USE,
    Completion,
    Count,
    Text,
    ToolUse,
    Usage,
)

_REASONS = {"stop": END_TURN, "tool_calls": TOOL_USE, "length": MAX_TOKENS, "content_filter": REFUSAL}
MAX_CALLS = 1000
"""In one reply."""


class _Function(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: str | None = None


class _CallDelta(msgspec.Struct, frozen=True):
    index: Annotated[int, msgspec.Meta(ge=0, lt=MAX_CALLS)]
    id: str | None = None
    function: _Function = _Function()


class _Delta(msgspec.Struct, frozen=True):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_CallDelta] | None = None
    reasoning_content: str | None = None
    """Thoughts, as some servers send them: a sign of life."""


class _Choice(msgspec.Struct, frozen=True):
    delta: _Delta = _Delta()
    index: int = 0
    finish_reason: str | None = None


class _PromptTokens(msgspec.Struct, frozen=True):
    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None


class _Tokens(msgspec.Struct, frozen=True):
    prompt_tokens: Count
    completion_tokens: Count
    prompt_tokens_details: _PromptTokens | None = None


class _Chunk(msgspec.Struct, frozen=True):
    model: str = ""
    choices: list[_Choice] = []
    usage: _Tokens | None = None
    error: Any = None


class _Call:
    """A tool call that grows."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []


class ChatReply(PlainReply):
    """A reply as far as it has come."""

    def __init__(self, model: str, most: Usage) -> None:
        super().__init__(model, most)
        self._refusals: list[str] = []
        self._calls: dict[int, _Call] = {}
        self._reason: str | None = None

    def take(self, line: bytes) -> bool:
        """Take one line of the stream; True when it brought the reply forward, as comments do not.

        Raises BrokenReply and ProviderError."""
        data = data_of(line)
        if data is None:
            return False
        if self.done:
            raise BrokenReply("an event came after [DONE]")
        if data == b"[DONE]":
            self.done = True
            return True
        try:
            chunk = msgspec.json.decode(data, type=_Chunk)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise _error_in(data) or BrokenReply(f"an event cannot be read: {error}") from None
        if chunk.error:
            raise _provider_error(chunk.error)
        return self._apply(chunk)

    def completion(self, known_ids: frozenset[str]) -> Completion:
        """The whole reply. Raises BrokenReply when it did not end properly or its tool calls cannot be trusted.

        `known_ids`: the tool calls of the conversation so far."""
        if not self.done:
            raise BrokenReply("the stream ended before [DONE]")
        reason = _REASONS.get(self._reason or "")
        if reason is None:
            raise BrokenReply(f"finish_reason is {self._reason!r}; known are {', '.join(_REASONS)}")
        text, refusal = "".join(self._texts), "".join(self._refusals)
        parts: list[Text | ToolUse] = [Text(words) for words in (text, refusal) if words.strip()]
        calls = (
            [_tool_use(self._calls[index]) for index in sorted(self._calls)] if reason in (TOOL_USE, END_TURN) else []
        )
        check_ids(calls, frozenset(plain_id(id) for id in known_ids) | known_ids)
        if reason == TOOL_USE and not calls:
            raise BrokenReply("finish_reason is tool_calls, but the reply has no tool call")
        if reason == END_TURN:
            reason = TOOL_USE if calls else REFUSAL if refusal.strip() else END_TURN
        if reason == END_TURN and not parts:
            raise BrokenReply("the reply is empty")
        return Completion((*parts, *calls), reason, self._model, self.usage or self._most)

    def _apply(self, chunk: _Chunk) -> bool:
        self._model = chunk.model or self._model
        came = False
        for choice in chunk.choices:
            if choice.index != 0:
                raise BrokenReply(f"a choice has index {choice.index}; one was asked for")
            delta = choice.delta
            if self._reason and (delta.content or delta.refusal or delta.tool_calls):
                raise BrokenReply(f"more of the reply came after finish_reason {self._reason!r}")
            self.show(delta.content, delta.refusal, delta.reasoning_content)
            self._texts.append(delta.content or "")
            self._refusals.append(delta.refusal or "")
            for part in delta.tool_calls or ():
                self._grow(part)
            if self._reason and choice.finish_reason and choice.finish_reason != self._reason:
                raise BrokenReply(f"finish_reason is {self._reason!r} and then {choice.finish_reason!r}")
            self._reason = choice.finish_reason or self._reason
            came = came or bool(
                delta.content or delta.refusal or delta.tool_calls or delta.reasoning_content or choice.finish_reason
            )
        counted = _usage(chunk.usage) if chunk.usage else None
        if counted:
            self.told = highest(self.told, counted)
        if chunk.usage and self._reason:
            self.usage = counted
            came = True
        return came

    def _grow(self, part: _CallDelta) -> None:
        call = self._calls.setdefault(part.index, _Call())
        for name, value in (("id", part.id), ("name", part.function.name)):
            known = getattr(call, name)
            if value and known and value != known:
                raise BrokenReply(f"tool call {part.index} is {known!r} and then {value!r}")
            setattr(call, name, known or value or "")
        call.pieces.append(part.function.arguments or "")
        self.show(part.function.arguments)


def _tool_use(call: _Call) -> ToolUse:
    if not call.id or not call.name:
        raise BrokenReply("a tool call has no id or no name")
    return ToolUse(plain_id(call.id), call.name, arguments_of("".join(call.pieces), call.name))


def _usage(told: _Tokens) -> Usage | None:
    """OpenAI counts what is cached within the prompt; here each token stands in one class. None for figures that
    contradict each other."""
    details = told.prompt_tokens_details or _PromptTokens()
    read, written = details.cached_tokens or 0, details.cache_write_tokens or 0
    fresh = told.prompt_tokens - read - written
    return Usage(fresh, told.completion_tokens, written, read) if fresh >= 0 else None


def _error_in(data: bytes) -> ProviderError | None:
    """An error event may have any shape beside its error."""
    try:
        raw = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    return _provider_error(raw["error"]) if isinstance(raw, dict) and raw.get("error") else None


def _provider_error(error: Any) -> ProviderError:
    if not isinstance(error, dict):
        return ProviderError("error", str(error))
    named = next((error[key] for key in ("code", "type") if isinstance(error.get(key), str) and error[key]), "error")
    return ProviderError(named, str(error.get("message") or "no message"))
