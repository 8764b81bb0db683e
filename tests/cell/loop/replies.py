"""What a model of canned replies says, and a model that says it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from infra.cell.doors import ModelFailure
from infra.shared.conversation import END_TURN, TOOL_USE, Completion, Request, Text, ToolResult, ToolUse


def says(text: str, stop_reason: str = END_TURN) -> Completion:
    return Completion((Text(text),) if text else (), stop_reason, "canned")


def calls(*uses: ToolUse, text: str = "", stop_reason: str = TOOL_USE) -> Completion:
    return Completion((*((Text(text),) if text else ()), *uses), stop_reason, "canned")


def bash(command: str, id: str = "call", **more: object) -> ToolUse:
    return ToolUse(id, "bash", {"command": command, **more})


def results(request: Request) -> list[ToolResult]:
    """The tool results of the last message."""
    return [block for block in request.messages[-1].content if isinstance(block, ToolResult)]


def texts(request: Request) -> list[str]:
    """The words of the last message."""
    return [block.text for block in request.messages[-1].content if isinstance(block, Text)]


Reply = Completion | Callable[[Request], Completion]


def fails(kind: str, retry_after_seconds: float | None = None) -> Callable[[Request], Completion]:
    def fail(request: Request) -> Completion:
        raise ModelFailure(kind, "as the test wants it", retry_after_seconds)

    return fail


class Canned:
    """Gives its replies in order and keeps what it was asked; a reply may be made from the request."""

    def __init__(self, replies: Iterable[Reply]) -> None:
        self._replies = iter(replies)
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Completion:
        self.requests.append(request)
        reply = next(self._replies)
        return reply if isinstance(reply, Completion) else reply(request)
