"""Anthropic's models through the official SDK, which is imported in the background once the door listens: its
import takes a second or more.

The SDK gets its key, its address and its connection from here and nothing from the environment; it follows no
redirect and retries nothing. It is used up to the bytes of the stream (`anthropic_stream`), because it takes damaged
replies for good ones. Whatever goes wrong comes out as a CallFailure."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from infra.keep.model_door.anthropic_errors import failure_type
from infra.keep.model_door.anthropic_stream import Reply
from infra.keep.model_door.anthropic_wire import body, most_input_tokens
from infra.keep.model_door.background import Background
from infra.keep.model_door.connection import (
    MAX_BYTES,
    check_content_type,
    data_of,
    http_client,
    lines_of,
    problem_with_base_url,
    redirected,
)
from infra.keep.model_door.errors import ProviderError, retry_after_seconds, shortened
from infra.keep.model_door.failures import failure_of, unusable
from infra.keep.model_door.keys import Key
from infra.keep.model_door.model import Answer, CallFailure
from infra.keep.model_door.thinking import Thoughts
from infra.keep.model_door.tool_calls import known_ids
from infra.shared.conversation import TOOL_USE, Request, Usage
from infra.shared.model_settings import Choice

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

THINKING_PATIENCE = 5
"""An open block of thoughts may stay silent so many times longer: its text is withheld, only pings come."""


class AnthropicModel:
    """Calls of one of Anthropic's models."""

    provider = "anthropic"

    def __init__(self, choice: Choice, idle_seconds: float, key: Key, most_bytes: int = MAX_BYTES) -> None:
        self.name = choice.name
        self.max_tokens = choice.max_tokens
        self.idle_seconds = idle_seconds
        self.base_url = choice.base_url
        self.key = key
        self.thoughts = Thoughts()
        self.client = Background(
            "the anthropic SDK", lambda: _new_client(key.value or "", self.base_url, self.idle_seconds, most_bytes)
        )
        self.loads = (self.client,)

    @property
    def problem(self) -> str | None:
        return self.key.problem or problem_with_base_url(self.base_url)

    def prepare(self, request: Request) -> AnthropicCall:
        if self.problem:
            raise CallFailure("authentication" if self.key.problem else "invalid_request", self.problem)
        return AnthropicCall(self, request)


class AnthropicCall:
    """One call."""

    def __init__(self, model: AnthropicModel, request: Request) -> None:
        self._model = model
        self._body, self._fingerprint = body(request, model.name, model.max_tokens, model.thoughts)
        self._known_ids = known_ids(request)
        self.most = Usage(input_tokens=most_input_tokens(self._body), output_tokens=model.max_tokens)

    async def make(self) -> Answer:
        client = await self._model.client.value()
        reply = Reply()
        try:
            await self._read(client, reply)
            completion = reply.completion(self._known_ids)
            if completion.stop_reason == TOOL_USE:
                self._model.thoughts.remember(reply.wire_blocks(), self._fingerprint)
            return Answer(completion, reply.measured)
        except Exception as error:
            failure = self._failure(error, reply)
            if failure is None:
                raise
            failure.message = self._model.key.redacted(failure.message)
            raise failure from None

    async def _read(self, client: AsyncAnthropic, reply: Reply) -> None:
        loop = asyncio.get_running_loop()
        idle = self._model.idle_seconds
        async with asyncio.timeout(idle) as patience:
            create = client.messages.with_streaming_response.create
            async with create(**self._body, stream=True) as response:
                check_content_type(response.headers.get("content-type"), "text/event-stream")
                raw = cast("AsyncGenerator[bytes, None]", lines_of(response.http_response))
                # Closed here, not by the garbage collector, when the loop is left early.
                async with aclosing(raw) as lines:
                    async for line in lines:
                        if (data := data_of(line)) and reply.take(data):
                            patience.reschedule(loop.time() + idle * (THINKING_PATIENCE if reply.thinking else 1))
                        if reply.done:
                            break

    def _failure(self, error: Exception, reply: Reply) -> CallFailure | None:
        """What an exception of the SDK, of its transport or of our reading means; None for a bug of ours."""
        import anthropic

        most = reply.usage_at_most(self._model.max_tokens)
        match error:
            case anthropic.APIStatusError():
                return _refused(error)
            case anthropic.APIConnectionError():
                cause = error.__cause__ or error
                known = failure_of(cause, most, reply.measured, self._model.idle_seconds, _type_of)
                return known or unusable(cause, most, reply.measured)
            case anthropic.AnthropicError():
                return unusable(error, most, reply.measured)
        return failure_of(error, most, reply.measured, self._model.idle_seconds, _type_of)


def _type_of(error: ProviderError) -> str:
    return failure_type(200, error.type, error.message)


def _refused(error: Any) -> CallFailure:
    status: int = error.status_code
    if status < 400:
        return redirected(status)
    said = shortened(str(error.api_message or "no message"))
    kind = failure_type(status, error.type, f"{error.api_message} {error.error_code}")
    words = f"the provider refused with status {status}, {error.type or 'no type'}: {said}"
    if error.request_id:
        words += f" (request {shortened(error.request_id)[:80]})"
    return CallFailure(kind, words, retry_after_seconds(error.response.headers, time.time()))


def _new_client(key: str, base_url: str, idle_seconds: float, most_bytes: int) -> AsyncAnthropic:
    import anthropic

    client = anthropic.AsyncAnthropic(
        api_key=key or "none",
        base_url=base_url,
        webhook_key="",
        max_retries=0,
        http_client=http_client(idle_seconds * THINKING_PATIENCE + 1, most_bytes),
        open_telemetry=False,
    )
    client.messages  # noqa: B018 -- its modules load on first use, which may as well be now
    return client
