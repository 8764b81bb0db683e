"""OpenAI's models, and those of servers that speak Chat Completions as it does, through the official SDK, which is
imported in the background once the door listens.

The SDK gets its key, its address and its connection from here and nothing from the environment; it follows no
redirect and retries nothing. It is used up to the bytes of the stream (`openai_stream`), because it takes damaged
replies for good ones. Whatever goes wrong comes out as a CallFailure."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from infra.keep.model_door.background import Background
from infra.keep.model_door.connection import (
    MAX_BYTES,
    check_content_type,
    http_client,
    lines_of,
    problem_with_base_url,
    redirected,
)
from infra.keep.model_door.errors import ProviderError, retry_after_seconds, shortened
from infra.keep.model_door.failures import failure_of, unusable
from infra.keep.model_door.keys import Key
from infra.keep.model_door.model import Answer, CallFailure
from infra.keep.model_door.openai_errors import failure_type
from infra.keep.model_door.openai_stream import Reply
from infra.keep.model_door.openai_wire import body, most_input_tokens
from infra.keep.model_door.tool_calls import known_ids
from infra.shared.conversation import Request, Usage
from infra.shared.model_settings import Choice

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from openai import AsyncOpenAI


class OpenAIModel:
    """Calls of one model."""

    provider = "openai"

    def __init__(self, choice: Choice, idle_seconds: float, key: Key, most_bytes: int = MAX_BYTES) -> None:
        self.name = choice.name
        self.max_tokens = choice.max_tokens
        self.idle_seconds = idle_seconds
        self.base_url = choice.base_url
        self.key = key
        self.client = Background(
            "the openai SDK", lambda: _new_client(key.value or "", self.base_url, self.idle_seconds, most_bytes)
        )
        self.loads = (self.client,)

    @property
    def problem(self) -> str | None:
        return self.key.problem or problem_with_base_url(self.base_url, "https://api.openai.com/v1")

    def prepare(self, request: Request) -> OpenAICall:
        if self.problem:
            raise CallFailure("authentication" if self.key.problem else "invalid_request", self.problem)
        return OpenAICall(self, request)


class OpenAICall:
    """One call."""

    def __init__(self, model: OpenAIModel, request: Request) -> None:
        self._model = model
        self._body = body(request, model.name, model.max_tokens)
        self._known_ids = known_ids(request)
        self.most = Usage(input_tokens=most_input_tokens(self._body), output_tokens=model.max_tokens)

    async def make(self) -> Answer:
        client = await self._model.client.value()
        reply = Reply(self._model.name, self.most)
        try:
            await self._read(client, reply)
            return Answer(reply.completion(self._known_ids), reply.measured)
        except Exception as error:
            failure = self._failure(error, reply)
            if failure is None:
                raise
            failure.message = self._model.key.redacted(failure.message)
            raise failure from None

    async def _read(self, client: AsyncOpenAI, reply: Reply) -> None:
        loop = asyncio.get_running_loop()
        idle = self._model.idle_seconds
        async with asyncio.timeout(idle) as patience:
            create = client.chat.completions.with_streaming_response.create
            async with create(**self._body, stream=True) as response:
                check_content_type(response.headers.get("content-type"), "text/event-stream")
                raw = cast("AsyncGenerator[bytes, None]", lines_of(response.http_response))
                # Closed here, not by the garbage collector, when the loop is left early.
                async with aclosing(raw) as lines:
                    async for line in lines:
                        if reply.take(line):
                            patience.reschedule(loop.time() + idle)
                        if reply.done:
                            break

    def _failure(self, error: Exception, reply: Reply) -> CallFailure | None:
        """What an exception of the SDK, of its transport or of our reading means; None for a bug of ours."""
        import openai

        match error:
            case openai.APIStatusError():
                return _refused(error)
            case openai.APIConnectionError():
                cause = error.__cause__ or error
                known = failure_of(cause, reply.usage, reply.measured, self._model.idle_seconds, _type_of)
                return known or unusable(cause, reply.usage, reply.measured)
            case openai.OpenAIError():
                return unusable(error, reply.usage, reply.measured)
        return failure_of(error, reply.usage, reply.measured, self._model.idle_seconds, _type_of)


def _type_of(error: ProviderError) -> str:
    return failure_type(200, error.type, None, error.message)


def _refused(error: Any) -> CallFailure:
    status: int = error.status_code
    if status < 400:
        return redirected(status)
    told = error.body if isinstance(error.body, dict) else {}
    code, type, said = (
        told.get(key) if isinstance(told.get(key), str) else None for key in ("code", "type", "message")
    )
    kind = failure_type(status, code, type, said or "")
    words = f"the provider refused with status {status}, {code or type or 'no type'}: {shortened(said or 'no message')}"
    if error.request_id:
        words += f" (request {shortened(error.request_id)[:80]})"
    return CallFailure(kind, words, retry_after_seconds(error.response.headers, time.time()))


def _new_client(key: str, base_url: str, idle_seconds: float, most_bytes: int) -> AsyncOpenAI:
    import openai

    client = openai.AsyncOpenAI(
        api_key=key or "none",
        admin_api_key="",
        organization="",
        project="",
        webhook_secret="",
        base_url=base_url,
        max_retries=0,
        http_client=http_client(idle_seconds + 1, most_bytes),
    )
    client.chat.completions  # noqa: B018 -- its modules load on first use, which may as well be now
    return client
