"""Models that an Ollama server runs, on this machine or another, over plain HTTP: its API is one request and lines of
JSON, for which its package would bring nothing but a second HTTP library. There is no key, and nothing to pay."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

from infra.keep.model_door.background import Background
from infra.keep.model_door.connection import (
    MAX_BYTES,
    check_content_type,
    http_client,
    lines_of,
    problem_with_base_url,
    redirected,
)
from infra.keep.model_door.errors import BrokenReply, ProviderError, retry_after_seconds, shortened, type_of_failure
from infra.keep.model_door.failures import failure_of
from infra.keep.model_door.model import Answer, CallFailure
from infra.keep.model_door.ollama_stream import Reply
from infra.keep.model_door.ollama_wire import body
from infra.keep.model_door.openai_wire import most_input_tokens
from infra.keep.model_door.tool_calls import known_ids
from infra.shared.conversation import Request, Usage
from infra.shared.model_settings import Choice

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import httpx2

MAX_ERROR_BYTES = 64 * 1024


class OllamaModel:
    """Calls of one model."""

    provider = "ollama"

    def __init__(
        self, choice: Choice, idle_seconds: float, context_tokens: int | None, most_bytes: int = MAX_BYTES
    ) -> None:
        self.name = choice.name
        self.max_tokens = choice.max_tokens
        self.idle_seconds = idle_seconds
        self.base_url = choice.base_url
        self.context_tokens = context_tokens
        self.client = Background("the HTTP client", lambda: http_client(idle_seconds + 1, most_bytes))
        self.loads = (self.client,)

    @property
    def problem(self) -> str | None:
        return problem_with_base_url(self.base_url, "http://127.0.0.1:11434", has_key=False)

    def prepare(self, request: Request) -> OllamaCall:
        if self.problem:
            raise CallFailure("invalid_request", self.problem)
        return OllamaCall(self, request)


class OllamaCall:
    """One call."""

    def __init__(self, model: OllamaModel, request: Request) -> None:
        self._model = model
        self._body = body(request, model.name, model.max_tokens, model.context_tokens)
        self._known_ids = known_ids(request)
        self.most = Usage(input_tokens=most_input_tokens(self._body), output_tokens=model.max_tokens)

    async def make(self) -> Answer:
        client = await self._model.client.value()
        reply = Reply(self._model.name, self.most)
        try:
            await self._read(client, reply)
            return Answer(reply.completion(self._known_ids), reply.measured)
        except Exception as error:
            failure = failure_of(error, reply.usage, reply.measured, self._model.idle_seconds, _type_of)
            if failure is None:
                raise
            raise failure from None

    async def _read(self, client: httpx2.AsyncClient, reply: Reply) -> None:
        loop = asyncio.get_running_loop()
        idle = self._model.idle_seconds
        async with asyncio.timeout(idle) as patience:
            url = f"{self._model.base_url.rstrip('/')}/api/chat"
            async with client.stream("POST", url, json=self._body) as response:
                if response.status_code != 200:
                    raise await _refused(response)
                check_content_type(response.headers.get("content-type"), "application/x-ndjson")
                raw = cast("AsyncGenerator[bytes, None]", lines_of(response))
                # Closed here, not by the garbage collector, when the loop is left early.
                async with aclosing(raw) as lines:
                    async for line in lines:
                        if reply.take(line):
                            patience.reschedule(loop.time() + idle)
                        if reply.done:
                            break


def _type_of(error: ProviderError) -> str:
    return type_of_failure(200, None, error.message)


async def _refused(response: httpx2.Response) -> CallFailure:
    status = response.status_code
    if status < 400:
        return redirected(status)
    said = shortened(_message(await _beginning(response)))
    return CallFailure(
        type_of_failure(status, None, said),
        f"the provider refused with status {status}: {said}",
        retry_after_seconds(response.headers, time.time()),
    )


async def _beginning(response: httpx2.Response) -> bytes:
    content = b""
    try:
        async for part in response.aiter_raw():
            content += part
            if len(content) > MAX_ERROR_BYTES:
                break
    except BrokenReply:
        return b""
    return content[:MAX_ERROR_BYTES]


def _message(content: bytes) -> str:
    import json

    try:
        raw = json.loads(content)
    except (ValueError, RecursionError):
        return "no message"
    error = raw.get("error") if isinstance(raw, dict) else None
    return error if isinstance(error, str) and error else "no message"
