"""One streamed call of a provider: sent, read line by line, ended when it stays silent, and every way in which it
can fail told as a CallFailure. A provider is a subclass of `StreamingModel`.

Libraries take damaged replies for good ones, so the stream is read from its bytes, by the provider's own reply."""

from __future__ import annotations

import asyncio
import json
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, cast

from infra.keep.ledger.prices import most_image_tokens
from infra.keep.model_door.background import Background
from infra.keep.model_door.booking import Booking, Heard, booking_of, counted
from infra.keep.model_door.connection import (
    MAX_BYTES,
    check_content_type,
    http_client,
    lines_of,
    problem_with_base_url,
    redirected,
)
from infra.keep.model_door.encoding import encoded
from infra.keep.model_door.errors import (
    BrokenReply,
    CallRefused,
    ProviderError,
    retry_after_seconds,
    shortened,
    type_of_failure,
)
from infra.keep.model_door.keys import Key
from infra.keep.model_door.model import Answer, CallFailure
from infra.keep.model_door.tool_calls import known_ids
from infra.keep.model_settings import Choice
from infra.shared.conversation import Completion, Image, Request, Usage

if TYPE_CHECKING:
    import httpx2

TOKENS_BESIDE_BYTES = 4096
"""Tokens that no byte of the request stands for: the provider's own words around tools, a few hundred in all price
lists, and slack."""
THINKING_SILENCE = 5
"""While a model thinks, its stream may stay silent so many times longer: thoughts are withheld."""
MAX_ERROR_BYTES = 64 * 1024
MOST_SHOWN_BYTES = 8 * 1024 * 1024
"""Of text, thoughts and arguments in one reply; no model makes so much, and arguments take many times it in memory."""
NO_KEY = Key(None, None)


class StreamedReply(Protocol):
    """A reply as far as it has come; pure."""

    @property
    def done(self) -> bool: ...

    @property
    def measured(self) -> bool:
        """The provider has said how much it counts in the end."""
        ...

    @property
    def told(self) -> Usage:
        """The highest counts that the provider has told so far."""
        ...

    @property
    def shown_bytes(self) -> int:
        """Of text, thoughts and arguments so far."""
        ...

    @property
    def hides(self) -> bool:
        """The provider may now be making what it does not show."""
        ...

    @property
    def silence(self) -> int:
        """How many times longer than usual the provider may stay silent now."""
        ...

    def take(self, line: bytes) -> bool:
        """Take one line; True when it brought the reply forward. Raises BrokenReply and ProviderError."""
        ...

    def completion(self, known_ids: frozenset[str]) -> Completion:
        """The whole reply; `known_ids`: the tool calls of the conversation so far. Raises BrokenReply when it did not
        end properly or its tool calls cannot be trusted."""
        ...


class PlainReply:
    """What replies of Chat Completions and of Ollama share: the usage comes once, and silence is never expected."""

    silence = 1

    def __init__(self, model: str, most: Usage) -> None:
        """`model`: its name, if the reply has none. `most`: what the call can use at most."""
        self.done = False
        self.usage: Usage | None = None
        self.told = Usage()
        self.shown_bytes = 0
        self._model = model
        self._most = most
        self._texts: list[str] = []

    @property
    def measured(self) -> bool:
        return self.usage is not None

    @property
    def hides(self) -> bool:
        """Some think before they speak, and none after."""
        return self.shown_bytes == 0

    def show(self, *words: str | None) -> None:
        self.shown_bytes += sum(len(each.encode(errors="replace")) for each in words if each)


class Exchange(NamedTuple):
    """What is sent, and what reads the answer."""

    body: dict[str, Any]
    reply: StreamedReply
    fingerprint: str = ""


class StreamingModel(ABC):
    """Calls of one model of a provider. Over plain HTTP, but for what a subclass says."""

    provider: ClassVar[str]
    content_type: ClassVar[str] = "text/event-stream"
    example_url: ClassVar[str]
    path: ClassVar[str] = ""
    """Below the base URL."""
    needs_key: ClassVar[bool] = True
    longest_silence: ClassVar[int] = 1
    """The most that a reply's `silence` can be."""

    def __init__(self, choice: Choice, idle_seconds: float, key: Key = NO_KEY, most_bytes: int = MAX_BYTES) -> None:
        """`idle_seconds`: how long the provider may bring nothing new; `most_bytes`: of one answer."""
        self.name = choice.name
        self.max_tokens = choice.max_tokens
        self.sees = choice.vision
        self.base_url = choice.base_url
        self.idle_seconds = idle_seconds
        self.key = key
        self.client: Background[Any] = Background(self.client_name(), lambda: self.make_client(most_bytes))
        self.loads = (self.client,)

    @property
    def problem(self) -> str | None:
        return self.key.problem or problem_with_base_url(self.base_url, self.example_url, self.needs_key)

    def check(self) -> None:
        """Raises CallFailure when nothing can be sent."""
        if self.problem:
            raise CallFailure("authentication" if self.key.problem else "invalid_request", self.problem)

    def prepare(self, request: Request) -> StreamingCall:
        self.check()
        request = request if self.sees else request.in_words
        return StreamingCall(self, self.exchange(request), known_ids(request), request.images)

    @abstractmethod
    def exchange(self, request: Request) -> Exchange: ...

    def client_name(self) -> str:
        return "the HTTP client"

    def make_client(self, most_bytes: int) -> Any:
        """Called in the background, once the door listens."""
        return http_client(self.idle_seconds * self.longest_silence + 1, most_bytes)

    def send(self, client: Any, body: dict[str, Any]) -> AbstractAsyncContextManager[httpx2.Response]:
        return self.post(client, self.path, body)

    def post(self, client: Any, path: str, body: dict[str, Any]) -> AbstractAsyncContextManager[httpx2.Response]:
        url = f"{self.base_url.rstrip('/')}{path}"
        headers = {"content-type": "application/json"}
        headers |= {"authorization": f"Bearer {self.key.value}"} if self.key.value else {}
        return cast("httpx2.AsyncClient", client).stream("POST", url, content=encoded(body), headers=headers)

    def cause_of(self, error: Exception) -> Exception:
        """What an exception of the provider's library stands for."""
        return error

    def completed(self, exchange: Exchange, completion: Completion) -> None:  # noqa: B027 -- most have nothing to do
        """Called with each reply that was taken whole."""


class StreamingCall:
    """One call."""

    def __init__(
        self, model: StreamingModel, exchange: Exchange, known: frozenset[str], images: Sequence[Image]
    ) -> None:
        self._model = model
        self._exchange = exchange
        self._known = known
        self.most = most_usage(exchange.body, model.max_tokens, images)
        self._body_bytes = text_bytes(exchange.body, images)
        self._unseen = 0.0
        self._last = 0.0

    async def make(self) -> Answer:
        client = await self._model.client.value()
        reply = self._exchange.reply
        self._last = time.monotonic()
        try:
            await self._read(client, reply)
            completion = reply.completion(self._known)
            self._model.completed(self._exchange, completion)
            usage = counted(self._heard(is_over=True), completion.usage, self._body_bytes)
            return Answer(completion._replace(usage=usage or self.most), usage is not None)
        except Exception as error:
            failure = failure_of(self._model.cause_of(error), self._model.idle_seconds, self._booking)
            if failure is None:
                raise
            failure.message = shortened(failure.message, self._model.key.known)
            raise failure from None

    def _booking(self, is_over: bool) -> Booking:
        return booking_of(self._heard(is_over), self.most, self._body_bytes)

    def _heard(self, is_over: bool) -> Heard:
        reply = self._exchange.reply
        unseen = self._unseen + time.monotonic() - self._last
        return Heard(reply.told, reply.measured, reply.shown_bytes, unseen, is_over)

    async def _read(self, client: Any, reply: StreamedReply) -> None:
        loop = asyncio.get_running_loop()
        idle = self._model.idle_seconds
        async with asyncio.timeout(idle) as patience, self._model.send(client, self._exchange.body) as response:
            # A reply that began is charged for, whatever status a proxy gives it.
            if not 200 <= response.status_code < 300:
                raise refusal(response.status_code, response.headers, await beginning(response))
            check_content_type(response.headers.get("content-type"), self._model.content_type)
            raw = cast("AsyncGenerator[bytes, None]", lines_of(response))
            # Closed here, not by the garbage collector, when the loop is left early.
            async with aclosing(raw) as lines:
                async for line in lines:
                    now, hidden = time.monotonic(), reply.hides
                    came = reply.take(line)
                    if reply.shown_bytes > MOST_SHOWN_BYTES:
                        raise BrokenReply(f"it holds over {MOST_SHOWN_BYTES} bytes of text and arguments")
                    self._unseen += now - self._last if hidden else 0.0
                    if came or hidden:  # a sign of life alone does not say that nothing was made since the last words
                        self._last = now
                    if came:
                        patience.reschedule(loop.time() + idle * reply.silence)
                    if reply.done:
                        break


def most_usage(body: dict[str, Any], max_tokens: int, images: Sequence[Image] = ()) -> Usage:
    """No token of text stands for less than one byte, and the JSON around the text covers the frames of messages."""
    tokens = text_bytes(body, images) + TOKENS_BESIDE_BYTES + len(images) * most_image_tokens(body["model"])
    return Usage(input_tokens=tokens, output_tokens=max_tokens)


def text_bytes(body: dict[str, Any], images: Sequence[Image]) -> int:
    """Of what is sent, all but the images: what those cost does not follow from their bytes."""
    return len(encoded(body)) - sum(len(image.data) for image in images)


def refusal(status: int, headers: Mapping[str, str], content: bytes) -> CallRefused:
    """An answer that is no reply: its error may be `{"error": "words"}` or `{"error": {"type", "code", "message"}}`;
    some servers leave the frame out."""
    try:
        raw = json.loads(content)
    except (ValueError, RecursionError):
        raw = None
    error = raw.get("error", raw) if isinstance(raw, dict) else None
    told = {"message": error} if isinstance(error, str) else error if isinstance(error, dict) else {}
    code, type, said = (
        told.get(key) if isinstance(told.get(key), str) else None for key in ("code", "type", "message")
    )
    return CallRefused(status, tuple(filter(None, (code, type))), said or "no message", headers)


def failure_of(error: Exception, idle_seconds: float, booking: Callable[[bool], Booking]) -> CallFailure | None:
    """What an exception of the library, of its transport or of our reading means; None for a bug of ours. `booking`
    says what the reply costs, given whether the provider has ended it."""
    import httpx2

    def broke_off(type: str, words: str, is_over: bool = False) -> CallFailure:
        usage, has_classes, measured = booking(is_over)
        return CallFailure(type, words, None, usage, measured, has_classes)

    match error:
        case CallFailure():
            return error
        case CallRefused():
            return _refused(error)
        case TimeoutError():
            return broke_off("unavailable", f"no new content from the provider for {idle_seconds:g} s; given up")
        case ProviderError():
            words = f"the provider broke off its reply: {error.type}: {error.message}"
            return broke_off(type_of_failure(200, (error.type,), error.message), words, is_over=True)
        case httpx2.InvalidURL():
            words = f"model.base_url is not an address that can be asked: {error}"
            return CallFailure("unavailable", words)  # nothing was sent
        case httpx2.ConnectError() | httpx2.ConnectTimeout() | httpx2.UnsupportedProtocol():
            return CallFailure("unavailable", _lost(error))  # nothing was sent
        case httpx2.TransportError() | OSError():
            return broke_off("unavailable", _lost(error))
        case httpx2.HTTPError() | ValueError() | AssertionError() | RecursionError():
            words = f"the provider's reply cannot be used: {str(error).strip() or type(error).__name__}"
            return broke_off("provider_error", words)
    return None


def _refused(error: CallRefused) -> CallFailure:
    if error.status < 400:
        return redirected(error.status)
    name = error.names[0] if error.names else "no type"
    request_id = error.headers.get("request-id") or error.headers.get("x-request-id")
    request = f" (request {request_id})" if request_id else ""
    words = f"the provider refused with status {error.status}{request}, {name}: {error.message}"
    kind = type_of_failure(error.status, error.names, error.message)
    return CallFailure(kind, words, retry_after_seconds(error.headers, time.time()))


async def beginning(response: httpx2.Response) -> bytes:
    content = b""
    async for part in response.aiter_raw():
        content += part
        if len(content) > MAX_ERROR_BYTES:
            break
    return content[:MAX_ERROR_BYTES]


def _lost(error: BaseException) -> str:
    return f"the connection to the provider failed: {type(error).__name__} {error}"
