"""Anthropic's models through the official SDK, which is imported in the background once the door listens: its
import takes a second or more.

The SDK gets its key, its address and its connection from here and nothing from the environment; it follows no
redirect and retries nothing. It is used up to the raw events of the stream (`anthropic_stream`), because it takes
damaged replies for good ones. Whatever goes wrong comes out as a CallFailure."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from contextlib import aclosing
from threading import Thread
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from infra.contract.conversation import TOOL_USE, Completion, Request, ToolUse, Usage
from infra.contract.settings import ModelSettings
from infra.models.anthropic_errors import failure_type, retry_after_seconds, shortened
from infra.models.anthropic_stream import ProviderError, Reply
from infra.models.anthropic_wire import body, most_input_tokens
from infra.models.keys import Key
from infra.models.model import NOTHING, CallFailure
from infra.models.thinking import Thoughts

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

BASE_URL = "https://api.anthropic.com"
CONNECT_SECONDS = 10.0
THINKING_PATIENCE = 5
"""An open block of thoughts may stay silent so many times longer: its text is withheld, only pings come."""


class AnthropicModel:
    """Calls of one of Anthropic's models."""

    provider = "anthropic"

    def __init__(self, settings: ModelSettings, key: Key) -> None:
        self.name = settings.name
        self.max_tokens = settings.max_tokens
        self.idle_seconds = settings.idle_seconds
        self.base_url = settings.base_url or BASE_URL
        self.key = key
        self.thoughts = Thoughts()
        self._client: Future[AsyncAnthropic] = Future()

    @property
    def problem(self) -> str | None:
        return self.key.problem or problem_with_base_url(self.base_url)

    @property
    def sdk(self) -> str:
        """`loading`, `ready` or `failed`, for people."""
        if not self._client.done():
            return "loading"
        return "failed" if self._client.exception() else "ready"

    def warm_up(self) -> None:
        """Load the SDK in the background. Called once, when the door already answers."""
        # From here on the future cannot be cancelled: a call that ends early must not take the others' client away.
        self._client.set_running_or_notify_cancel()
        Thread(target=self._load, name="load the SDK", daemon=True).start()

    def prepare(self, request: Request) -> AnthropicCall:
        if self.problem:
            raise CallFailure("authentication" if self.key.problem else "invalid_request", self.problem)
        return AnthropicCall(self, request)

    async def client(self) -> AsyncAnthropic:
        """Raises CallFailure when the SDK cannot be loaded."""
        try:
            return await asyncio.wrap_future(self._client)
        except Exception as error:
            raise CallFailure("unavailable", f"the anthropic SDK cannot be loaded: {error!r}") from error

    def _load(self) -> None:
        # Whatever the import raises belongs to the first call that needs it, not to this thread.
        try:
            self._client.set_result(_new_client(self.key.value or "", self.base_url, self.idle_seconds))
        except BaseException as error:
            self._client.set_exception(error)


class AnthropicCall:
    """One call."""

    def __init__(self, model: AnthropicModel, request: Request) -> None:
        self._model = model
        self._body, self._fingerprint = body(request, model.name, model.max_tokens, model.thoughts)
        self._known_ids = frozenset(
            block.id for message in request.messages for block in message.content if isinstance(block, ToolUse)
        )
        self.most = Usage(input_tokens=most_input_tokens(self._body), output_tokens=model.max_tokens)

    async def make(self) -> Completion:
        client = await self._model.client()
        reply = Reply()
        try:
            await self._read(client, reply)
            completion = reply.completion(self._known_ids)
            if completion.stop_reason == TOOL_USE:
                self._model.thoughts.remember(reply.wire_blocks(), self._fingerprint)
            return completion
        except Exception as error:
            failure = self._failure(error, reply)
            if failure is None:
                raise
            failure.message = self._model.key.redacted(failure.message)
            raise failure from None

    async def _read(self, client: AsyncAnthropic, reply: Reply) -> None:
        from anthropic import AsyncStream

        loop = asyncio.get_running_loop()
        idle = self._model.idle_seconds
        async with asyncio.timeout(idle) as patience:
            create = client.messages.with_streaming_response.create
            async with create(**self._body, stream=True) as response:
                content_type = response.headers.get("content-type", "none")
                if not content_type.startswith("text/event-stream"):
                    raise _no_stream(content_type)
                raw = AsyncStream.raw_events(response.http_response)
                # Closed here, not by the garbage collector, when the loop is left early.
                async with aclosing(cast("AsyncGenerator[Any, None]", raw)) as events:
                    async for event in events:
                        if event.data and reply.take(event.data):
                            patience.reschedule(loop.time() + idle * (THINKING_PATIENCE if reply.thinking else 1))
                        if reply.done:
                            break

    def _failure(self, error: Exception, reply: Reply) -> CallFailure | None:
        """What an exception of the SDK, of its transport or of our reading means; None for a bug of ours."""
        import anthropic
        import httpx2

        most = reply.usage_at_most(self._model.max_tokens)
        match error:
            case CallFailure():
                return error
            case TimeoutError():
                words = f"no new content from the provider for {self._model.idle_seconds:g} s; given up"
                return CallFailure("unavailable", words, None, most, reply.measured)
            case ProviderError():
                type = failure_type(200, error.type, error.message)
                words = f"the provider broke off its reply: {error.type}: {shortened(error.message)}"
                return CallFailure(type, words, None, most, reply.measured)
            case anthropic.APIStatusError():
                return _refused(error)
            case anthropic.APIConnectionError() | httpx2.TransportError():
                cause = error.__cause__ or error
                unsent = isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.UnsupportedProtocol)
                words = f"the connection to the provider failed: {shortened(f'{type_name(cause)} {cause}')}"
                if unsent:
                    return CallFailure("unavailable", words)
                return CallFailure("unavailable", words, None, most, reply.measured)
            case anthropic.AnthropicError() | httpx2.HTTPError() | ValueError() | AssertionError():
                words = f"the provider's reply cannot be used: {shortened(str(error)) or type_name(error)}"
                return CallFailure("provider_error", words, None, most, reply.measured)
        return None


def problem_with_base_url(url: str) -> str | None:
    """Why the key may not be sent there."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        return f"model.base_url {url!r} is no address: {error}"
    if not host or parts.scheme not in ("https", "http"):
        return f"model.base_url {url!r} is no address; expected something like {BASE_URL}"
    if parts.username is not None or parts.query or parts.fragment:
        return "model.base_url holds a user, a query or a fragment; expected an address and nothing else"
    if parts.scheme == "http" and host not in ("127.0.0.1", "::1", "localhost"):
        return f"model.base_url {url!r} would send the key unencrypted; use https"
    return None


def type_name(error: BaseException) -> str:
    return type(error).__name__


def _no_stream(content_type: str) -> CallFailure:
    """A page is something between here and the provider speaking; JSON may be a reply that is charged for."""
    words = (
        f"the provider's reply cannot be used: its content type is {content_type[:80]!r}; expected text/event-stream"
    )
    return CallFailure("provider_error", words, usage=None if content_type.startswith("application/json") else NOTHING)


def _refused(error: Any) -> CallFailure:
    status: int = error.status_code
    if status < 400:
        words = f"the provider answered with status {status}; redirects are not followed, see model.base_url"
        return CallFailure("provider_error", words)
    said = shortened(str(error.api_message or "no message"))
    kind = failure_type(status, error.type, f"{error.api_message} {error.error_code}")
    words = f"the provider refused with status {status}, {error.type or 'no type'}: {said}"
    if error.request_id:
        words += f" (request {shortened(error.request_id)[:80]})"
    return CallFailure(kind, words, retry_after_seconds(error.response.headers, time.time()))


def _new_client(key: str, base_url: str, idle_seconds: float) -> AsyncAnthropic:
    import anthropic
    import httpx2

    http = httpx2.AsyncClient(
        trust_env=False,
        follow_redirects=False,
        # A connection that is kept can be closed by the other side just when it is used again, and nobody could tell
        # whether that call is charged for. A new one costs little beside a call.
        limits=httpx2.Limits(max_keepalive_connections=0),
        timeout=httpx2.Timeout(idle_seconds * THINKING_PATIENCE + 1, connect=CONNECT_SECONDS),
    )
    client = anthropic.AsyncAnthropic(
        api_key=key or "none",
        base_url=base_url,
        webhook_key="",
        max_retries=0,
        http_client=http,
        open_telemetry=False,
    )
    client.messages  # noqa: B018 -- its modules load on first use, which may as well be now
    return client
