"""Models that an Ollama server runs, on this machine or another. There is no key, and nothing to pay."""

from __future__ import annotations

from typing import Any

from infra.keep.model_door.chat import functions, images_beside, result_text, texts_of
from infra.keep.model_door.connection import MAX_BYTES
from infra.keep.model_door.ollama_stream import OllamaReply
from infra.keep.model_door.streaming import NO_KEY, Exchange, StreamingModel, most_usage
from infra.keep.model_settings import Choice
from infra.shared.conversation import Image, Message, Request, Text, ToolResult, ToolUse


class OllamaModel(StreamingModel):
    """Calls of one model."""

    provider = "ollama"
    content_type = "application/x-ndjson"
    example_url = "http://127.0.0.1:11434"
    path = "/api/chat"
    needs_key = False

    def __init__(self, choice: Choice, idle_seconds: float, most_bytes: int = MAX_BYTES) -> None:
        super().__init__(choice, idle_seconds, NO_KEY, most_bytes)

    def exchange(self, request: Request) -> Exchange:
        made = body(request, self.name, self.max_tokens)
        return Exchange(made, OllamaReply(self.name, most_usage(made, self.max_tokens, request.images)))


def body(request: Request, model: str, max_tokens: int) -> dict[str, Any]:
    """What is posted. A conversation that is too long is refused there, never quietly cut."""
    system = "\n\n".join(text for text in request.system if text.strip())
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    names: dict[str, str] = {}
    for message in request.messages:
        names |= {block.id: block.name for block in message.content if isinstance(block, ToolUse)}
        messages += _assistant(message) if message.role == "assistant" else _user(message, names)
    options = {"num_predict": max_tokens}
    return {
        "model": model,
        "messages": messages,
        **({"tools": functions(request)} if request.tools else {}),
        "options": options,
        "stream": True,
        "truncate": False,
        "shift": False,
    }


def _user(message: Message, names: dict[str, str]) -> list[dict[str, Any]]:
    """Each result is a message of its own and comes first; its images follow in a message with all of them."""
    made: list[dict[str, Any]] = [
        {
            "role": "tool",
            "tool_name": names.get(block.tool_use_id, ""),
            "tool_call_id": block.tool_use_id,
            "content": result_text(block),
        }
        for block in message.content
        if isinstance(block, ToolResult)
    ]
    beside = images_beside(message)
    texts = [part.text for part in beside if isinstance(part, Text)] + texts_of(message)
    images = [part.data for part in beside if isinstance(part, Image)]
    said = {"role": "user", "content": "\n\n".join(texts)} | ({"images": images} if images else {})
    return made + ([said] if texts or images else [])


def _assistant(message: Message) -> list[dict[str, Any]]:
    calls = [
        {"id": block.id, "function": {"index": place, "name": block.name, "arguments": block.input}}
        for place, block in enumerate(block for block in message.content if isinstance(block, ToolUse))
    ]
    texts = texts_of(message)
    if not calls and not texts:
        return []
    return [{"role": "assistant", "content": "\n\n".join(texts)} | ({"tool_calls": calls} if calls else {})]
