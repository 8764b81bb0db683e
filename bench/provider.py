"""A provider on the loopback device: replies that are written down beforehand, in Anthropic's streamed format and in
OpenAI's, and when and how many bytes came and went at its wire."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from bench.decisions import Answer, BrokenOff, Busy, ModelReply
from bench.stamps import PATIENCE_SECONDS, now

PIECE = 1 << 20
ANTHROPIC, OPENAI = "/v1/messages", "/chat/completions"
BYTES_PER_TOKEN = 4


class Turn(NamedTuple):
    """One call of a model."""

    arrived: float
    """The last byte of the request."""
    answered: float
    """The last byte of the reply."""
    received_bytes: int
    """With the head of the request."""
    sent_bytes: int
    body: bytes


class Provider:
    """Answers one conversation at a time: `play` says with what, `finished` gives its turns."""

    def __init__(self, keeps_bodies: bool = False) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._keeps_bodies = keeps_bodies
        self._answers: list[Answer] = []
        self._turns: list[Turn] = []
        self._done: queue.Queue[list[Turn]] = queue.Queue()
        self._lock = threading.Condition()
        self._begun = 0
        """Answers of this conversation, those that are under way included."""
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, name="provider", daemon=True)
        self._thread.start()

    def play(self, answers: Sequence[Answer]) -> None:
        with self._lock:
            self._answers, self._turns, self._begun = list(answers)[::-1], [], 0
            self._done = queue.Queue()

    def finished(self, seconds: float) -> list[Turn]:
        """The turns, once the last answer was given. Raises TimeoutError."""
        try:
            return self._done.get(timeout=seconds)
        except queue.Empty:
            left = len(self._answers)
            raise TimeoutError(f"the conversation did not end within {seconds:g} s; {left} replies are left") from None

    @property
    def turns(self) -> list[Turn]:
        """Of the conversation so far. A client may have read an answer to its end before it is written down here."""
        with self._lock:
            self._lock.wait_for(lambda: len(self._turns) == self._begun, PATIENCE_SECONDS)
            return list(self._turns)

    def close(self) -> None:
        # Wakes the thread that waits for a connection; closing the socket alone does not.
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()
        with self._lock:
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), name="provider's client", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.add(connection)
        rest = bytearray()
        with connection, contextlib.suppress(OSError):
            while self._exchange(connection, rest):
                pass
        with self._lock:
            self._open.discard(connection)

    def _exchange(self, connection: socket.socket, rest: bytearray) -> bool:
        """One request and its answer; False when the connection is at its end."""
        while b"\r\n\r\n" not in rest:
            piece = connection.recv(PIECE)
            if not piece:
                return False
            rest += piece
        head, _, _ = bytes(rest).partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        whole = len(head) + 4 + int(headers.get("content-length", "0"))
        while len(rest) < whole:
            piece = connection.recv(PIECE)
            if not piece:
                return False
            rest += piece
        arrived = now()
        body = bytes(rest[len(head) + 4 : whole])
        del rest[:whole]
        with self._lock:
            answer: Answer = self._answers.pop() if self._answers else ModelReply("Nothing is left to be said.")
            is_last, turns, self._begun = not self._answers, self._turns, self._begun + 1
        made = _made(first.split(" ")[1], answer, len(body))
        connection.sendall(made)
        turn = Turn(arrived, now(), whole, len(made), body if self._keeps_bodies else b"")
        with self._lock:
            turns.append(turn)
            self._lock.notify_all()
            if is_last and turns is self._turns:
                self._done.put(list(turns))
        return "close" not in headers.get("connection", "").lower() and not isinstance(answer, BrokenOff)


def _made(path: str, answer: Answer, asked_bytes: int) -> bytes:
    """The whole answer, as bytes on the wire."""
    tokens = max(1, asked_bytes // BYTES_PER_TOKEN)
    if isinstance(answer, Busy):
        error = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "too busy"}})
        return _http("503 Service Unavailable", "application/json", error.encode())
    reply = answer if isinstance(answer, ModelReply) else ModelReply("Breaks off.")
    if path.endswith(OPENAI):
        return _http("200 OK", "application/json", json.dumps(_openai(reply, tokens)).encode())
    whole = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in _anthropic(reply, tokens))
    made = _http("200 OK", "text/event-stream", whole.encode())
    return made[: -len(whole) // 2] if isinstance(answer, BrokenOff) else made


def _http(status: str, kind: str, body: bytes) -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def _anthropic(reply: ModelReply, tokens: int) -> list[dict[str, Any]]:
    usage = {"input_tokens": tokens, "output_tokens": 1}
    head = {"id": "msg", "type": "message", "role": "assistant", "model": "claude-bench", "content": []}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": head | {"usage": usage}}]
    blocks: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"type": "text", "text": ""}, {"type": "text_delta", "text": reply.text})
    ]
    for id, name, given in reply.calls:
        call = {"type": "tool_use", "id": id, "name": name, "input": {}}
        blocks.append((call, {"type": "input_json_delta", "partial_json": json.dumps(given)}))
    for at, (block, delta) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": at, "content_block": block})
        events.append({"type": "content_block_delta", "index": at, "delta": delta})
        events.append({"type": "content_block_stop", "index": at})
    made = {"output_tokens": max(1, sum(len(json.dumps(delta)) for _, delta in blocks) // BYTES_PER_TOKEN)}
    reason = "tool_use" if reply.calls else "end_turn"
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": made})
    return [*events, {"type": "message_stop"}]


def _openai(reply: ModelReply, tokens: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    calls = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for id, name, given in reply.calls
    ]
    message |= {"tool_calls": calls} if calls else {}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    usage = {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1}
    return {"id": "c", "object": "chat.completion", "created": 0, "model": "bench", "choices": [choice], "usage": usage}
