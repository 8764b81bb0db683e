"""One streamed call of a provider: sent, read line by line, ended when it stays silent, and every way in which it can
fail told as a CallFailure. A provider's format is a `Dialect`.

Libraries take damaged replies for good ones, so the stream is read from its bytes. Nothing comes from the environment;
there are no redirects, no compression, and a bound on what comes back, whatever it is."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from infra.keep.ledger.prices import most_image_tokens
from infra.keep.model_door.errors import (
    BrokenReply,
    CallRefused,
    ProviderError,
    retry_after_seconds,
    shortened,
    type_of_failure,
)
from infra.keep.model_door.keys import NO_KEY, Key
from infra.keep.model_door.model import NOTHING, Answer, CallFailure
from infra.keep.model_door.reply import StreamedReply, heed
from infra.keep.model_door.thoughts import Thoughts
from infra.keep.model_settings import Choice, problem_with_base_url
from infra.shared.conversation import TOOL_USE, Completion, Image, Request, ToolUse, Usage

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 10.0
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


class Body(NamedTuple):
    """What is posted, and what a thought of the answer is bound to."""

    content: bytes
    place: bytes = b""


class Dialect(NamedTuple):
    """A provider's format."""

    path: str
    """Below the base URL."""
    content_type: str
    """Of a stream: of events, or of lines of JSON."""
    example_url: str
    needs_key: bool
    body: Callable[[Request, str, int, Thoughts], Body]
    """Of a request to a model, with so many tokens of output."""
    take: Callable[[StreamedReply, bytes], None]
    """What one event means. Raises BrokenReply and ProviderError."""
    turn: Callable[[StreamedReply, Completion], tuple[bytes, bytes]] | None = None
    """A turn's JSON without and with its thoughts; None where thoughts do not go back."""


class StreamedModel:
    """Calls of one model of a provider. Over plain HTTP, but for what a subclass says."""

    def __init__(
        self,
        choice: Choice,
        dialect: Dialect,
        idle_seconds: float,
        key: Key = NO_KEY,
        most_bytes: int = MAX_BYTES,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        """`idle_seconds`: how long not a byte may come; `most_bytes`: of one answer."""
        self.provider, self.name = choice.provider, choice.name
        self.max_tokens = choice.max_tokens
        self.sees = choice.vision
        self.base_url = choice.base_url
        self.dialect = dialect
        self.idle_seconds = idle_seconds
        self.call_seconds = call_seconds
        self.most_bytes = most_bytes
        self.key = key
        self.thoughts = Thoughts()
        self._client: asyncio.Future[Any] | None = None

    @property
    def problem(self) -> str | None:
        return self.key.problem or problem_with_base_url(
            self.base_url, self.dialect.example_url, self.dialect.needs_key
        )

    def prepare(self, request: Request) -> StreamedCall:
        """Raises CallFailure when nothing can be sent."""
        if self.problem:
            raise CallFailure("authentication" if self.key.problem else "invalid_request", self.problem)
        images = request.images
        if images and not self.sees:
            request, images = request.in_words, ()
        return StreamedCall(self, request, images)

    async def load(self) -> Any:
        """The client, made in a thread the first time: an import takes a second or more. Raises CallFailure."""
        if self._client is None:
            self._client = asyncio.ensure_future(asyncio.to_thread(self.make_client))
        try:
            return await asyncio.shield(self._client)  # a call that ends early must not take it away from the others
        except Exception as error:
            self._client = None
            raise CallFailure("unavailable", f"the client of {self.provider} cannot be loaded: {error!r}") from error

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
        url = f"{self.base_url.rstrip('/')}{self.dialect.path}"
        headers = {"content-type": "application/json"}
        headers |= {"authorization": f"Bearer {self.key.value}"} if self.key.value else {}
        return cast("httpx2.AsyncClient", client).stream("POST", url, content=content, headers=headers)

    def cause_of(self, error: Exception) -> Exception:
        """What an exception of the provider's library stands for."""
        return error


class StreamedCall:
    """One call."""

    def __init__(self, model: StreamedModel, request: Request, images: tuple[Image, ...]) -> None:
        self._model = model
        self._body = model.dialect.body(request, model.name, model.max_tokens, model.thoughts)
        self._known = [
            block.id for message in request.messages for block in message.content if isinstance(block, ToolUse)
        ]
        # No token of text stands for less than one byte, and the JSON around it covers the frames of messages. What
        # an image costs does not follow from its bytes.
        self._sent = len(self._body.content) - sum(len(image.data) for image in images)
        tokens = self._sent + TOKENS_BESIDE_BYTES + len(images) * most_image_tokens(model.name)
        self.most = Usage(input_tokens=tokens, output_tokens=model.max_tokens)

    async def make(self) -> Answer:
        model, reply = self._model, StreamedReply(self._model.name)
        client = await model.load()
        began = time.monotonic()
        try:
            async with asyncio.timeout(model.call_seconds):
                await self._read(client, reply)
            completion = reply.completion(self._known)
        except Exception as error:
            booked = self._booked(reply, time.monotonic() - began)
            failure = failure_of(model.cause_of(error), model.idle_seconds, booked)
            if failure is None:
                raise
            failure.message = shortened(failure.message, model.key.known)
            raise failure from None
        if model.dialect.turn and completion.stop_reason == TOOL_USE:
            model.thoughts.remember(self._body.place, *model.dialect.turn(reply, completion))
        usage = self._counted(reply)
        return Answer(completion._replace(usage=usage or self.most), usage is not None)

    async def _read(self, client: Any, reply: StreamedReply) -> None:
        model = self._model
        is_events = model.dialect.content_type == "text/event-stream"
        async with model.send(client, self._body.content) as response:
            _check_content_type(response.headers.get("content-type"), model.dialect.content_type)
            # Closed here, not by the garbage collector, when the loop is left early.
            async with aclosing(cast("AsyncGenerator[bytes, None]", _lines(response, model.most_bytes))) as lines:
                async for line in lines:
                    # Each event has one line of data; of the others nothing is needed.
                    data = line if not is_events else line[5:].strip() if line.startswith(b"data:") else b""
                    if data.strip():
                        heed(model.dialect.take, reply, data)
                    if reply.done:
                        return

    def _counted(self, reply: StreamedReply) -> Usage | None:
        """What a whole reply is booked at; None when the provider's last word is no count, and its worst case is
        booked. More than that is believed: the provider may have added words of its own."""
        prompt = sum(reply.told) - reply.told.output_tokens
        if not reply.is_counted or prompt < self._least_prompt:
            return None
        made = max(reply.told.output_tokens, reply.bytes // MOST_BYTES_PER_TOKEN)
        return reply.told._replace(output_tokens=made)

    def _booked(self, reply: StreamedReply, seconds: float) -> Booked:
        """What a reply that broke off is booked at: what was told, else what came and can have been made meanwhile."""
        output = max(reply.told.output_tokens, reply.bytes // MOST_BYTES_PER_TOKEN)
        if not reply.is_counted:
            made = reply.bytes + round(MOST_TOKENS_PER_SECOND * seconds)
            output = max(output, min(self.most.output_tokens, made))
        prompt = sum(reply.told) - reply.told.output_tokens
        if not self._least_prompt <= prompt <= self.most.input_tokens:
            return Booked(Usage(self.most.input_tokens, output), False, False)
        return Booked(reply.told._replace(output_tokens=output), reply.is_counted, True)

    @property
    def _least_prompt(self) -> int:
        return max(1, self._sent // MOST_BYTES_PER_TOKEN)


class Booked(NamedTuple):
    """What a reply that broke off is taken to have cost."""

    usage: Usage
    measured: bool
    has_classes: bool
    """False: the prompt's price class is not known, so the dearest counts."""


async def _check(response: httpx2.Response) -> None:
    """Before a library reads any of it. Raises BrokenReply and CallRefused."""
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
        raise _refusal(response.status_code, response.headers, content[:MAX_ERROR_BYTES])


def _refusal(status: int, headers: Mapping[str, str], content: bytes) -> CallRefused:
    """An answer that is no reply: its error may be `{"error": "words"}` or `{"error": {"type", "code", "message"}}`;
    some servers leave the frame out."""
    try:
        raw = json.loads(content)
    except (ValueError, RecursionError):
        raw = None
    error = raw.get("error", raw) if isinstance(raw, dict) else None
    told = {"message": error} if isinstance(error, str) else error if isinstance(error, dict) else {}
    details = told.get("details")
    exact = details.get("error_code") if isinstance(details, dict) else None
    names = [name for name in (exact, told.get("code"), told.get("type")) if isinstance(name, str) and name]
    said = told.get("message")
    return CallRefused(status, names, said if isinstance(said, str) and said else "no message", headers)


def _check_content_type(found: str | None, wanted: str) -> None:
    """Raises CallFailure. A page is something between here and the provider speaking; JSON may be a reply that is
    charged for."""
    content_type = found or "none"
    if content_type.startswith(wanted):
        return
    words = f"the provider's reply cannot be used: its content type is {content_type!r}; expected {wanted}"
    is_page = not content_type.startswith("application/json")
    raise CallFailure("provider_error", words, usage=NOTHING if is_page else None)


async def _lines(response: httpx2.Response, most_bytes: int) -> AsyncIterator[bytes]:
    """The lines of a body without their ends (`\\n`, `\\r\\n`), the last one also when nothing ends it. Empty ones are
    left out. Raises BrokenReply."""
    rest = bytearray()
    size = 0
    async for part in response.aiter_raw():
        size += len(part)
        if size > most_bytes:
            raise BrokenReply(f"the answer is over {most_bytes} bytes")
        *whole, left = part.split(b"\n")
        for line in whole:
            if line or rest:
                rest += line
                yield bytes(rest).removesuffix(b"\r")
                rest.clear()
        rest += left
    if rest:
        yield bytes(rest)


def failure_of(error: Exception, idle_seconds: float, booked: Booked) -> CallFailure | None:
    """What an exception of the library, of its transport or of our reading means; None for a bug of ours. `booked`:
    what the reply costs, had it begun."""
    import httpx2

    def broke_off(type: str, words: str) -> CallFailure:
        return CallFailure(type, words, None, booked.usage, booked.measured, booked.has_classes)

    match error:
        case CallFailure():
            return error
        case CallRefused():
            return _refused(error)
        case httpx2.InvalidURL():
            words = f"model.base_url is not an address that can be asked: {error}"
            return CallFailure("unavailable", words)  # nothing was sent
        case httpx2.ConnectError() | httpx2.ConnectTimeout() | httpx2.UnsupportedProtocol():
            return CallFailure("unavailable", _lost(error))  # nothing was sent
        case httpx2.ReadTimeout():
            return broke_off("unavailable", f"no new content from the provider for {idle_seconds:g} s; given up")
        case TimeoutError():
            return broke_off("unavailable", "the provider's reply took too long; given up")
        case ProviderError():
            words = f"the provider broke off its reply: {error.type}: {error.message}"
            return broke_off(type_of_failure(200, (error.type,), error.message), words)
        case httpx2.TransportError() | OSError():
            return broke_off("unavailable", _lost(error))
        case httpx2.HTTPError() | ValueError() | AssertionError() | RecursionError():
            words = f"the provider's reply cannot be used: {str(error).strip() or type(error).__name__}"
            return broke_off("provider_error", words)
    return None


def _refused(error: CallRefused) -> CallFailure:
    if error.status < 400:
        words = f"the provider answered with status {error.status}; redirects are not followed, see model.base_url"
        return CallFailure("provider_error", words)
    name = error.names[0] if error.names else "no type"
    request_id = error.headers.get("request-id") or error.headers.get("x-request-id")
    request = f" (request {request_id})" if request_id else ""
    words = f"the provider refused with status {error.status}{request}, {name}: {error.message}"
    kind = type_of_failure(error.status, error.names, error.message)
    return CallFailure(kind, words, retry_after_seconds(error.headers, time.time()))


def _lost(error: BaseException) -> str:
    return f"the connection to the provider failed: {type(error).__name__} {error}"
