"""A loopback server that speaks Anthropic's streaming Messages format over real HTTP, for driving the real SDK.

`Wire(reply)` asks the callable `reply(request_json)` what to do with each request: a list of blocks, an `Answer`, or
a fault. It records every request and adds up the usage that it billed. Faults are made from the events of a good
answer, so that each differs from a reply that works in one thing only."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


@dataclass(frozen=True)
class Say:
    text: str
    pieces: int = 3
    """In how many deltas it comes."""


@dataclass(frozen=True)
class Use:
    """A tool call."""

    name: str
    input: dict[str, Any]
    id: str | None = None
    """None: the server makes one."""
    raw: str | None = None
    """Sent instead of the input's own JSON."""
    piece_length: int = 7


@dataclass(frozen=True)
class Think:
    """Thoughts as they come by default: the text withheld, a signature alone."""

    signature: str
    thinking: str = ""


@dataclass(frozen=True)
class Other:
    """Any block, for kinds that nobody knows yet."""

    block: dict[str, Any]


Block = Say | Use | Think | Other


@dataclass(frozen=True)
class Counts:
    input: int
    output: int
    cache_write: int = 0
    cache_read: int = 0


@dataclass(frozen=True)
class Answer:
    """A good reply."""

    blocks: tuple[Block, ...] = ()
    stop_reason: str | None = None
    """None: `tool_use` when there is a tool call, else `end_turn`."""
    usage: Counts | None = None
    """None: made up from the size of the request, with cache fields."""
    pings: int = 1
    """Sent after the first event."""


@dataclass(frozen=True)
class Broken:
    """A reply that is good up to an event and then goes wrong."""

    answer: Answer
    events: int | None = None
    """So many events are sent; None: all of them."""
    extra: bytes = b""
    """Sent after the events, as they are."""
    drop: tuple[str, ...] = ()
    """Types of events that are left out."""


@dataclass(frozen=True)
class Status:
    """An answer that is no 200, in Anthropic's error format."""

    code: int
    type: str = "api_error"
    message: str = "something went wrong"
    headers: tuple[tuple[str, str], ...] = ()
    details: dict[str, Any] | None = None


@dataclass(frozen=True)
class Whole:
    """A 200 with a body of any other kind."""

    content_type: str
    body: bytes


Reaction = list[Block] | Answer | Broken | Status | Whole


@dataclass(frozen=True)
class Recorded:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    arrived: float = 0.0
    """When its last byte did, by time.monotonic()."""
    size: int = 0
    """Of the body, in bytes."""


def error_event(type: str, message: str) -> bytes:
    """For `Broken.extra`: an error in the middle of a reply that began with 200."""
    return sse("error", {"type": "error", "error": {"type": type, "message": message}})


def sse(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def events(answer: Answer, request: dict[str, Any], number: int) -> list[tuple[str, dict[str, Any]]]:
    """The events of a good reply, in order, without pings."""
    counts = answer.usage or made_up_counts(request)
    calls = any(isinstance(block, Use) for block in answer.blocks)
    reason = answer.stop_reason or ("tool_use" if calls else "end_turn")
    usage = {
        "input_tokens": counts.input,
        "cache_creation_input_tokens": counts.cache_write,
        "cache_read_input_tokens": counts.cache_read,
        "output_tokens": 1,
        "service_tier": "standard",
    }
    message = {
        "id": f"msg_{number:04}",
        "type": "message",
        "role": "assistant",
        "model": request.get("model"),
        "content": list[object](),
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    made: list[tuple[str, dict[str, Any]]] = [("message_start", {"message": message})]
    for index, block in enumerate(answer.blocks):
        start, deltas = _block(block, f"toolu_{number:04}_{index:02}")
        made.append(("content_block_start", {"index": index, "content_block": start}))
        made += [("content_block_delta", {"index": index, "delta": delta}) for delta in deltas]
        made.append(("content_block_stop", {"index": index}))
    delta = {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": counts.output}}
    return [*made, ("message_delta", delta), ("message_stop", {})]


def made_up_counts(request: dict[str, Any]) -> Counts:
    """Plausible counts, in all four classes, that depend on the request."""
    size = len(json.dumps(request)) // 4
    return Counts(input=size // 3, output=20 + size % 7, cache_write=size // 4, cache_read=size // 5)


def _block(block: Block, id: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block:
        case Say(text, pieces):
            return {"type": "text", "text": ""}, [
                {"type": "text_delta", "text": piece} for piece in _cut(text, -(-len(text) // max(pieces, 1)) or 1)
            ]
        case Use():
            arguments = json.dumps(block.input) if block.raw is None else block.raw
            pieces_of_json = ["", *_cut(arguments, block.piece_length)] if arguments != "{}" else []
            return {"type": "tool_use", "id": block.id or id, "name": block.name, "input": {}}, [
                {"type": "input_json_delta", "partial_json": piece} for piece in pieces_of_json
            ]
        case Think(signature, thinking):
            thoughts = [{"type": "thinking_delta", "thinking": thinking}] if thinking else []
            start = {"type": "thinking", "thinking": "", "signature": ""}
            return start, [*thoughts, {"type": "signature_delta", "signature": signature}]
        case Other(raw):
            return raw, [{"type": "some_future_delta", "anything": [1, 2]}]


def _cut(text: str, length: int) -> list[str]:
    return [text[place : place + length] for place in range(0, len(text), length)]


@dataclass
class Wire:
    """The server; `with Wire(reply) as wire` runs it on a free port of 127.0.0.1."""

    reply: Callable[[dict[str, Any]], Reaction]
    requests: list[Recorded] = field(default_factory=list)
    billed: list[Counts] = field(default_factory=list)
    """Usage of every answer that was sent to its end, noted before the end is sent: who has it may ask at once."""
    answered: list[float] = field(default_factory=list)
    """When the last byte of each answer to a POST was sent."""
    failures: list[BaseException] = field(default_factory=list)
    """What `reply` itself raised; leaving the `with` block raises the first one again."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        wire = self

        class Handler(_Handler):
            owner = wire

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="wire")

    def __enter__(self) -> Wire:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        if self.failures and error is None:
            raise self.failures[0]

    def total(self) -> Counts:
        return Counts(
            sum(counts.input for counts in self.billed),
            sum(counts.output for counts in self.billed),
            sum(counts.cache_write for counts in self.billed),
            sum(counts.cache_read for counts in self.billed),
        )

    def _record(self, request: Recorded) -> int:
        with self._lock:
            self.requests.append(request)
            return len(self.requests)

    def _bill(self, counts: Counts) -> None:
        with self._lock:
            self.billed.append(counts)


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves early is what many of these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    owner: Wire

    def do_GET(self) -> None:
        self.owner._record(Recorded(self.path, _headers(self), {}))
        self._plain(404, "text/plain", b"only POST /v1/messages is here")

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length", "0")))
        arrived = time.monotonic()
        body = json.loads(content)
        number = self.owner._record(Recorded(self.path, _headers(self), body, arrived, len(content)))
        try:
            reaction = self.owner.reply(body)
        except Exception as error:
            self.owner.failures.append(error)
            reaction = Status(500, message=f"the test's own reply failed: {error!r}")
        match reaction:
            case list():
                self._stream(Broken(Answer(tuple(reaction))), body, number)
            case Answer():
                self._stream(Broken(reaction), body, number)
            case Broken():
                self._stream(reaction, body, number)
            case Status():
                self._status(reaction)
            case Whole():
                self._plain(200, reaction.content_type, reaction.body)
        self.owner.answered.append(time.monotonic())

    def log_message(self, format: str, *args: object) -> None:
        """Tests look at `requests`."""

    def _status(self, status: Status) -> None:
        error: dict[str, Any] = {"type": status.type, "message": status.message}
        if status.details:
            error["details"] = status.details
        body = json.dumps({"type": "error", "error": error, "request_id": "req_wire"}).encode()
        headers = (("request-id", "req_wire"), *status.headers)
        self._plain(status.code, "application/json", body, headers)

    def _plain(self, code: int, content_type: str, body: bytes, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self.send_response(code)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, broken: Broken, request: dict[str, Any], number: int) -> None:
        answer = broken.answer
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("request-id", f"req_{number:04}")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        every = events(answer, request, number)
        is_whole = broken.events is None and not broken.drop and not broken.extra
        for place, (name, data) in enumerate(every[: broken.events]):
            if name in broken.drop:
                continue
            if is_whole and place + 1 == len(every):
                self.owner._bill(answer.usage or made_up_counts(request))
            self._chunk(sse(name, {"type": name, **data}))
            for _ in range(answer.pings if place == 0 else 0):
                self._chunk(sse("ping", {"type": "ping"}))
        if broken.extra:
            self._chunk(broken.extra)
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content))
        self.wfile.flush()


def _headers(handler: BaseHTTPRequestHandler) -> dict[str, str]:
    return {name.lower(): value for name, value in handler.headers.items()}
