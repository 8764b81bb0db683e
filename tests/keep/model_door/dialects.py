"""What each provider sends over the wire, for tests that hold for all of them: the pieces of a good reply, and the same
things gone wrong in each provider's own way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from infra.keep.model_door.call import Dialect as Format
from infra.keep.model_door.call import StreamedModel
from infra.keep.model_door.chat import CHAT
from infra.keep.model_door.keys import NO_KEY, Key
from infra.keep.model_door.messages import MESSAGES, ClaudeModel
from infra.keep.model_door.ollama import OLLAMA
from infra.keep.model_door.responses import RESPONSES
from infra.keep.settings.models import Choice
from tests.keep.model_door import wire
from tests.keep.model_door.doors import KEY
from tests.keep.model_door.wire import Counts, Use, cut

MAX_TOKENS = 1000
IDLE_SECONDS = 10.0


def Called(id: str | None, name: str = "bash", input: dict[str, Any] | None = None, raw: str | None = None) -> Use:
    """A tool call as it is sent, of any length in some 500 pieces."""
    given = {"command": "ls"} if input is None else input
    return Use(name, given, id, raw, max(7, len(raw or str(given)) // 500))


Texts = Sequence[str]
Calls = Sequence[Use]
Pieces = tuple[bytes, ...]
COUNTED = Counts()


class Dialect:
    """One provider's format."""

    provider: str
    content_type: str
    dialect: Format
    name: str
    whole: str
    """The reason of a turn that the model ended with words."""
    called: str
    """The same of one with tool calls."""
    cut: str
    """The same of one that was cut at the limit of tokens."""
    alive: bytes
    """What says that the connection lives, and nothing else."""
    path: str
    key = Key(KEY, None)
    made_by: type[StreamedModel] = StreamedModel

    def model(self, url: str = "http://127.0.0.1:9", max_tokens: int = MAX_TOKENS, **limits: float) -> StreamedModel:
        """`limits`: of a StreamedModel, by their names."""
        model = self.made_by(Choice(self.provider, self.name, url, max_tokens, vision=True), self.dialect, self.key)
        for name, value in ({"idle_seconds": IDLE_SECONDS} | limits).items():
            setattr(model, name, value)
        return model

    def reply(self, texts: Texts, calls: Calls = (), reason: str = "", counted: Counts | None = COUNTED) -> Pieces:
        """The pieces of a reply; `counted` None leaves the usage out."""
        raise NotImplementedError

    def error(self, message: str) -> bytes:
        """In the middle of a stream."""
        raise NotImplementedError

    def refusal(self, message: str) -> bytes:
        """The body of an answer that is no 200."""
        return json.dumps({"error": {"message": message, "type": "some_error", "param": None, "code": None}}).encode()


class Anthropic(Dialect):
    provider, content_type, path = "anthropic", "text/event-stream", "/v1/messages"
    dialect, name, made_by = MESSAGES, "claude-opus-5-5", ClaudeModel
    whole, called, cut = "end_turn", "tool_use", "max_tokens"
    alive = wire.sse("ping", {})

    def reply(self, texts: Texts, calls: Calls = (), reason: str = "", counted: Counts | None = COUNTED) -> Pieces:
        blocks: tuple[wire.Block, ...] = (*map(wire.Say, texts), *calls)
        answer = wire.Answer(blocks, reason or (self.called if calls else self.whole), counted or COUNTED)
        made = []
        for name, data in wire.events(answer):
            if name == "content_block_start" and data["content_block"].get("id"):
                data["content_block"]["id"] = calls[data["index"] - len(texts)].id  # also when it has none
            if name == "message_delta" and counted is None:
                data = {"delta": data["delta"], "usage": {}}
            made.append(wire.sse(name, data))
        return tuple(made)

    def error(self, message: str) -> bytes:
        return wire.sse("error", wire.error(message))

    def refusal(self, message: str) -> bytes:
        return json.dumps(wire.error(message, "some_error")).encode()


class Responses(Dialect):
    """OpenAI's Responses API: a response is announced, its items grow one by one, and its end tells all of it."""

    provider, content_type, path = "openai", "text/event-stream", "/responses"
    dialect, name = RESPONSES, "gpt-6.1-terra"
    whole, called, cut = "completed", "completed", "max_output_tokens"
    alive = b": keep-alive\n\n"

    def reply(
        self, texts: Texts, calls: Calls = (), reason: str = "", counted: Counts | None = COUNTED, reasoning: Texts = ()
    ) -> Pieces:
        """`reasoning`: the encrypted content of items of it, at the beginning."""
        made = [("response.created", {"response": self._response("in_progress", [])})]
        output: list[dict[str, Any]] = []
        for secret in reasoning:
            item: dict[str, Any] = {"type": "reasoning", "id": f"rs_{len(output)}", "summary": []}
            done = item | {"encrypted_content": secret}
            self._item(made, output, item | {"encrypted_content": secret[:3]}, [], done | {"status": "completed"})
        for text in texts:
            item = {"type": "message", "id": f"msg_{len(output)}", "role": "assistant", "status": "in_progress"}
            part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            deltas = [("response.output_text.delta", {"content_index": 0, "delta": part}) for part in cut(text, 7)]
            done = item | {"content": [part], "status": "completed"}
            self._item(made, output, item | {"content": []}, deltas, done)
        for call in calls:
            item = {"type": "function_call", "id": f"fc_{len(output)}", "call_id": call.id or "", "name": call.name}
            deltas = [("response.function_call_arguments.delta", {"delta": part}) for part in call.pieces]
            done = item | {"arguments": "".join(call.pieces), "status": "completed"}
            self._item(made, output, item | {"arguments": "", "status": "in_progress"}, deltas, done)
        is_whole = reason in ("", "completed")
        status = "completed" if is_whole else "incomplete"
        usage = counted and _usage(counted, "input", "output") | {"output_tokens_details": {"reasoning_tokens": 0}}
        why = None if is_whole else {"reason": reason}
        end = self._response(status, output) | {"usage": usage, "incomplete_details": why}
        made.append((f"response.{status}", {"response": end}))
        return tuple(wire.sse(kind, {"sequence_number": n} | data) for n, (kind, data) in enumerate(made))

    def _item(
        self,
        made: list[tuple[str, dict[str, Any]]],
        output: list[dict[str, Any]],
        first: dict[str, Any],
        deltas: list[tuple[str, dict[str, Any]]],
        done: dict[str, Any],
    ) -> None:
        place = {"output_index": len(output)}
        made.append(("response.output_item.added", place | {"item": first}))
        made += [(kind, {"item_id": first["id"]} | place | data) for kind, data in deltas]
        made.append(("response.output_item.done", place | {"item": done}))
        output.append(done)

    def _response(self, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        told = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-6.1-terra", "error": None}
        return told | {"status": status, "output": output, "incomplete_details": None}

    def error(self, message: str) -> bytes:
        return wire.sse("error", {"code": "server_error", "message": message, "param": None, "sequence_number": 9})


class Chat(Dialect):
    """OpenAI's Chat Completions."""

    provider, content_type, path = "openai", "text/event-stream", "/chat/completions"
    dialect, name = CHAT, "gpt-6.1-terra"
    whole, called, cut = "stop", "tool_calls", "length"
    alive = b": keep-alive\n\n"

    def reply(self, texts: Texts, calls: Calls = (), reason: str = "", counted: Counts | None = COUNTED) -> Pieces:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": part} for text in texts for part in cut(text, 7)]
        for index, call in enumerate(calls):
            head = {"index": index, "id": call.id, "type": "function"}
            deltas.append({"tool_calls": [{**head, "function": {"name": call.name, "arguments": ""}}]})
            deltas += [{"tool_calls": [{"index": index, "function": {"arguments": part}}]} for part in call.pieces]
        chunks = [self._chunk([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
        end = reason or (self.called if calls else self.whole)
        chunks.append(self._chunk([{"index": 0, "delta": {}, "finish_reason": end}]))
        chunks += [self._chunk([], _usage(counted, "prompt", "completion"))] if counted else []
        return (*chunks, b"data: [DONE]\n\n")

    def _chunk(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None = None) -> bytes:
        told = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-6.1-terra"}
        return b"data: " + json.dumps(told | {"choices": choices, "usage": usage}).encode() + b"\n\n"

    def error(self, message: str) -> bytes:
        return b"data: " + json.dumps({"error": {"message": message, "type": "server_error"}}).encode() + b"\n\n"


class Ollama(Dialect):
    provider, content_type, path = "ollama", "application/x-ndjson", "/api/chat"
    dialect, name, key = OLLAMA, "qwen3", NO_KEY
    whole, called, cut = "stop", "stop", "length"
    alive = b"\n"

    def reply(self, texts: Texts, calls: Calls = (), reason: str = "", counted: Counts | None = COUNTED) -> Pieces:
        lines = [self._line({"content": part}) for text in texts for part in cut(text, 7)]
        for index, call in enumerate(calls):
            function = {"index": index, "name": call.name, "arguments": "HERE"}
            line = self._line({"content": "", "tool_calls": [{"id": call.id or "", "function": function}]})
            lines.append(line.replace(b'"HERE"', "".join(call.pieces).encode()))
        counts = {"prompt_eval_count": counted.input, "eval_count": counted.output} if counted else {}
        lines.append(self._line({"content": ""}, done=True, done_reason=reason or self.whole, **counts))
        return tuple(lines)

    def _line(self, message: dict[str, Any], done: bool = False, **more: Any) -> bytes:
        told = {"model": "qwen3", "created_at": "2026-11-01T00:00:00Z", "message": {"role": "assistant", **message}}
        return json.dumps(told | {"done": done} | more).encode() + b"\n"

    def error(self, message: str) -> bytes:
        return json.dumps({"error": message}).encode() + b"\n"

    def refusal(self, message: str) -> bytes:
        return json.dumps({"error": message}).encode()


def _usage(counted: Counts, prompt: str, completion: str) -> dict[str, Any]:
    """As OpenAI tells it."""
    details = {"cached_tokens": counted.cache_read, "cache_write_tokens": counted.cache_write}
    counts = {f"{prompt}_tokens": counted.input + sum(details.values()), f"{completion}_tokens": counted.output}
    return counts | {f"{prompt}_tokens_details": details, "total_tokens": 1}


DIALECTS: tuple[Dialect, ...] = (Anthropic(), Responses(), Chat(), Ollama())
