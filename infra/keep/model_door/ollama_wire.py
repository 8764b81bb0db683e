"""Our conversation as the body of Ollama's `/api/chat`; pure. A failed tool's result begins with `ERROR: `."""

from __future__ import annotations

from typing import Any

from infra.keep.model_door.openai_wire import functions, result_text, texts_of
from infra.shared.conversation import Message, Request, ToolResult, ToolUse


def body(request: Request, model: str, max_tokens: int, context_tokens: int | None) -> dict[str, Any]:
    """What is posted. A conversation that is too long is refused there, never quietly cut."""
    system = "\n\n".join(text for text in request.system if text.strip())
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    names: dict[str, str] = {}
    for message in request.messages:
        names |= {block.id: block.name for block in message.content if isinstance(block, ToolUse)}
        messages += _assistant(message) if message.role == "assistant" else _user(message, names)
    options = {"num_predict": max_tokens} | ({"num_ctx": context_tokens} if context_tokens else {})
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
    """Each result is a message of its own and comes first."""
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
    texts = texts_of(message)
    return made + ([{"role": "user", "content": "\n\n".join(texts)}] if texts else [])


def _assistant(message: Message) -> list[dict[str, Any]]:
    calls = [
        {"id": block.id, "function": {"index": place, "name": block.name, "arguments": block.input}}
        for place, block in enumerate(block for block in message.content if isinstance(block, ToolUse))
    ]
    texts = texts_of(message)
    if not calls and not texts:
        return []
    return [{"role": "assistant", "content": "\n\n".join(texts)} | ({"tool_calls": calls} if calls else {})]
