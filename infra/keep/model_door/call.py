"""One streamed call of a provider: sent, read line by line, ended when it stays silent, and every way in which it can
fail told as a CallFailure. A provider's format is a `Dialect`.

Libraries take damaged replies for good ones, so the stream is read from its bytes. Nothing comes from the environment;
there are no redirects, no compression, and a bound on what comes back, whatever it is."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TYPE_CHECKING, Any, NamedTuple

from infra.keep.ledger.prices import most_image_tokens
from infra.keep.model_door.errors import BrokenReply, ProviderError, refusal, shortened, type_of_failure
from infra.keep.model_door.keys import NO_KEY, Key
from infra.keep.model_door.model import NOTHING, Answer, CallFailure
from infra.keep.model_door.reply import StreamedReply, heed
from infra.keep.model_door.thoughts import Thoughts
from infra.keep.settings.models import PROVIDERS, Choice, problem_with_base_url
from infra.shared.conversation import TOOL_USE, Completion, Request, ToolUse, Usage, of_kind

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 10.0
IDLE_SECONDS = 120.0
"""In which not a byte comes: models think for a minute without a word."""
CALL_SECONDS = 900.0
"""For a whole call: a provider may say for so long that it lives."""
MAX_BYTES = 64 << 20
"""Of one answer as it comes over the wire; its events take most of that beside the text in them."""
MAX_ERROR_BYTES = 64 << 10
TOKENS_BESIDE_BYTES = 4096
"""Tokens that no byte of the request stands for: the provider's own words around tools, a few hundred in all price
lists, and slack."""
MOST_BYTES_PER_TOKEN = 64
"""No tokenizer makes longer tokens on average: fewer tokens than that cannot have been read or written."""
MOST_TOKENS_PER_SECOND = 1000
"""No provider's model is faster."""
EVENTS, LINES = "text/event-stream", "application/x-ndjson"
_IMPORTING = threading.Lock()
"""Two threads that import what the other one is importing can see half of it."""


class Body(NamedTuple):
    """What is posted, and what a thought of the answer is bound to."""

    content: bytes
    place: bytes = b""


class Dialect(NamedTuple):
    """A provider's format."""

    path: str
    """Below the base URL."""
    content_type: str
    """Of a stream: EVENTS or LINES."""
    body: Callable[[Request, str, int, Thoughts], Body]
    """Of a request to a model, with so many tokens of output."""
    take: Callable[[StreamedReply, bytes], None]
    """What one event means (`reply.heed`)."""
    turn: Callable[[StreamedReply, Completion], tuple[bytes, bytes]] | None = None
    """A turn's JSON without and with its thoughts; None where thoughts do not go back."""


class StreamedModel:
    """Calls of one model of a provider. Over plain HTTP, but for what a subclass says."""

    most_bytes, call_seconds, idle_seconds = MAX_BYTES, CALL_SECONDS, IDLE_SECONDS

    def __init__(self, choice: Choice, dialect: Dialect, key: Key = NO_KEY) -> None:
        self.provider, self.name, self.max_tokens = choice.provider, choice.name, choice.max_tokens
        self.sees, self.base_url = choice.vision, choice.base_url
        self.dialect, self.key = dialect, key
        self.thoughts = Thoughts()
        self._client: Any = None

    @property
    def problem(self) -> str | None:
        known = PROVIDERS[self.provider]
        return self.key.problem or problem_with_base_url(self.base_url, known.base_url, bool(known.key))

    def prepare(self, request: Request) -> StreamedCall:
        """Raises CallFailure when nothing can be sent."""
        if self.problem:
            raise CallFailure("authentication" if self.key.problem else "invalid_request", self.problem)
        return StreamedCall(self, request if self.sees else request.in_words)

    def client(self) -> Any:
        """Made at the first call, not in the loop's thread: an import takes a second or more."""
        with _IMPORTING:
            if self._client is None:
                self._client = self.make_client()
            return self._client

    def make_client(self) -> Any:
        import httpx2

        return httpx2.AsyncClient(
            trust_env=False,
            follow_redirects=False,
            headers={"accept-encoding": "identity"},
            event_hooks={"response": [_check]},
            # A connection that is kept can be closed by the other side just when it is used again, and nobody could
            # tell whether that call is charged for. A new one costs little beside a call.
            limits=httpx2.Limits(max_keepalive_connections=0),
            timeout=httpx2.Timeout(self.idle_seconds, connect=CONNECT_SECONDS),
        )

    def send(self, client: Any, content: bytes) -> AbstractAsyncContextManager[httpx2.Response]:
        headers = {"content-type": "application/json"}
        headers |= {"authorization": f"Bearer {self.key.value}"} if self.key.value else {}
        url = f"{self.base_url.rstrip('/')}{self.dialect.path}"
        return client.stream("POST", url, content=content, headers=headers)  # type: ignore[no-any-return]


class StreamedCall:
    """One call."""

    def __init__(self, model: StreamedModel, request: Request) -> None:
        self._model = model
        self._body = model.dialect.body(request, model.name, model.max_tokens, model.thoughts)
        self._known = [call.id for message in request.messages for call in of_kind(ToolUse, message.content)]
        # No token of text stands for less than one byte, and the JSON around it covers the frames of messages. What
        # an image costs does not follow from its bytes.
        sent = len(self._body.content) - sum(len(image.data) for image in request.images)
        self._least_prompt = max(1, sent // MOST_BYTES_PER_TOKEN)
        tokens = sent + TOKENS_BESIDE_BYTES + len(request.images) * most_image_tokens(model.name)
        self.most = Usage(input_tokens=tokens, output_tokens=model.max_tokens)

    async def make(self) -> Answer:
        model, reply = self._model, StreamedReply(self._model.name)
        began = time.monotonic()
        try:
            client = await asyncio.to_thread(model.client)
            async with asyncio.timeout(model.call_seconds):
                await self._read(client, reply)
            completion = reply.completion(self._known)
        except Exception as error:
            failure = failure_of(error, model.idle_seconds)
            if failure is None:
                raise
            if failure.usage is None:
                self._book(failure, reply, time.monotonic() - began)
            failure.message = shortened(failure.message, model.key.known)
            raise failure from None
        if model.dialect.turn and completion.stop_reason == TOOL_USE:
            model.thoughts.remember(self._body.place, *model.dialect.turn(reply, completion))
        # Of the provider's last word more is believed than could be: it may have added words of its own.
        measured = reply.is_counted and _prompt(reply) >= self._least_prompt
        usage = reply.told._replace(output_tokens=_output(reply)) if measured else self.most
        return Answer(completion._replace(usage=usage), measured)

    async def _read(self, client: Any, reply: StreamedReply) -> None:
        model, wanted = self._model, self._model.dialect.content_type
        async with model.send(client, self._body.content) as response:
            found = response.headers.get("content-type", "none")
            if not found.startswith(wanted):
                # A page is something between here and the provider speaking; JSON may be a reply that is charged for.
                words = f"the provider's reply cannot be used: its content type is {found!r}; expected {wanted}"
                usage = None if found.startswith("application/json") else NOTHING
                raise CallFailure("provider_error", words, usage=usage)
            # Closed here, not by the garbage collector, when the loop is left early.
            async with aclosing(_lines(response, model.most_bytes)) as lines:
                async for line in lines:
                    # Each event has one line of data; of the others nothing is needed.
                    data = line if wanted == LINES else line[5:] if line.startswith(b"data:") else b""
                    if data := data.strip():
                        heed(model.dialect.take, reply, data)
                    if reply.done:
                        return

    def _book(self, failure: CallFailure, reply: StreamedReply, seconds: float) -> None:
        """A reply that broke off: what was told, else what came and can have been made meanwhile."""
        output = _output(reply)
        if not reply.is_counted:
            made = reply.bytes + round(MOST_TOKENS_PER_SECOND * seconds)
            output = max(output, min(self.most.output_tokens, made))
        failure.has_classes = self._least_prompt <= _prompt(reply) <= self.most.input_tokens
        failure.measured = failure.has_classes and reply.is_counted
        told = reply.told if failure.has_classes else Usage(self.most.input_tokens)
        failure.usage = told._replace(output_tokens=output)


def _prompt(reply: StreamedReply) -> int:
    return sum(reply.told) - reply.told.output_tokens


def _output(reply: StreamedReply) -> int:
    """What was shown was made, whatever is counted."""
    return max(reply.told.output_tokens, reply.bytes // MOST_BYTES_PER_TOKEN)


async def _check(response: httpx2.Response) -> None:
    """Before a library reads any of it. Raises BrokenReply and CallFailure."""
    coding = response.headers.get("content-encoding", "identity")
    if coding.strip().lower() not in ("", "identity"):  # a few bytes of it can stand for any number
        raise BrokenReply(f"the answer is compressed ({coding}), which was not asked for")
    # A reply that began is charged for, whatever status a proxy gives it.
    if not 200 <= response.status_code < 300:
        content = b""
        async for part in response.aiter_raw():
            content += part
            if len(content) > MAX_ERROR_BYTES:
                break
        raise refusal(response.status_code, response.headers, content[:MAX_ERROR_BYTES], time.time())


async def _lines(response: httpx2.Response, most_bytes: int) -> AsyncGenerator[bytes, None]:
    """Of a body, the last one also when nothing ends it. Raises BrokenReply."""
    rest, size = bytearray(), 0
    async for part in response.aiter_raw():
        size += len(part)
        if size > most_bytes:
            raise BrokenReply(f"the answer is over {most_bytes} bytes")
        *whole, left = part.split(b"\n")
        for line in whole:
            yield bytes(rest + line)
            rest.clear()
        rest += left
    yield bytes(rest)


def failure_of(error: Exception, idle_seconds: float) -> CallFailure | None:
    """What an exception of the library, of its transport or of our reading means; None for a bug of ours. Without usage
    where the reply may have begun."""
    import httpx2

    lost = f"the connection to the provider failed: {type(error).__name__} {error}"
    match error:
        case CallFailure():
            return error
        case httpx2.InvalidURL() | httpx2.ConnectError() | httpx2.ConnectTimeout() | httpx2.UnsupportedProtocol():
            return CallFailure("unavailable", lost)  # nothing was sent
        case httpx2.ReadTimeout():
            words = f"no new content from the provider for {idle_seconds:g} s; given up"
            return CallFailure("unavailable", words, usage=None)
        case TimeoutError():
            return CallFailure("unavailable", "the provider's reply took too long; given up", usage=None)
        case ProviderError():
            words = f"the provider broke off its reply: {error.type}: {error.message}"
            return CallFailure(type_of_failure(200, (error.type,), error.message), words, usage=None)
        case httpx2.TransportError() | OSError():
            return CallFailure("unavailable", lost, usage=None)
        case httpx2.HTTPError() | ValueError() | AssertionError() | RecursionError():
            words = f"the provider's reply cannot be used: {str(error).strip() or type(error).__name__}"
            return CallFailure("provider_error", words, usage=None)
    return None
