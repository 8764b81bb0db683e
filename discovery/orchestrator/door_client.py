"""A model door, asked over its unix socket: HTTP with JSON.

There are two outcomes, a `Completion` or a `DoorFailure`. A failure that may pass is tried again with patience:
`Outage` has the waits."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Callable
from typing import Any, NamedTuple

COMPLETE_PATH, HEALTH_PATH = "/v1/complete", "/health"
SILENCE_SECONDS = 1800.0
"""The longest that the door may say nothing. A person who is the model takes many minutes."""
MAX_ANSWER_BYTES = 64 << 20

PASSING = frozenset(["rate_limited", "unavailable", "provider_error"])
"""Types of failure that may be gone at the next try."""
NO_DOOR = "no_door"
"""Nobody listens at the socket: the door has ended, and nobody starts it again."""
BUDGETS = frozenset(["budget_exhausted", "unit_budget_exhausted"])
TOO_LONG = "context_overflow"
PAUSES_SECONDS = (0.0, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Before each further try; the last of them repeats."""
MOST_WAIT_SECONDS = 300.0
"""Whatever the provider asks for."""
OUTAGE_SECONDS = 900.0
"""After so much waiting in a row the run ends."""

Message = dict[str, Any]
"""`{"role": "user" | "assistant", "content": [{"type": "text", "text": …}]}`."""


class DoorFailure(Exception):
    """A call that gave no completion. `type` is the door's: "unavailable", "budget_exhausted", …"""

    def __init__(self, type: str, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(f"{type}: {message}")
        self.type = type
        self.message = message
        self.retry_after_seconds = retry_after_seconds


class Completion(NamedTuple):
    text: str
    stop_reason: str
    """end_turn, max_tokens, refusal."""
    usd: float
    """What this call cost, as the door books it."""
    tokens: int
    """Of all kinds; 0 when the provider did not say."""


class Outage(NamedTuple):
    """Calls that failed in a row; pure."""

    failures: int = 0
    waited: float = 0.0

    def wait_after(self, failure: DoorFailure) -> float | None:
        """Seconds until the call is made again; None: not by this run."""
        if failure.type not in PASSING:
            return None
        pause = PAUSES_SECONDS[min(self.failures, len(PAUSES_SECONDS) - 1)]
        wait = min(max(pause, failure.retry_after_seconds or 0.0), MOST_WAIT_SECONDS)
        return wait if self.waited + wait <= OUTAGE_SECONDS else None

    def after(self, seconds: float) -> Outage:
        return Outage(self.failures + 1, self.waited + seconds)


def completed(
    socket_path: str,
    system: str,
    messages: list[Message],
    run: str = "",
    sleep: Callable[[float], None] = time.sleep,
    say: Callable[[str], None] = lambda line: None,
) -> Completion:
    """One completion, tried again while the failure may pass. `run` names the run in the door's ledger; `say` is told
    of each wait. Raises DoorFailure."""
    request = {"system": [system], "messages": messages, "tools": [], "unit": run}
    outage = Outage()
    while True:
        try:
            return _completion(_asked(socket_path, "POST", COMPLETE_PATH, request))
        except DoorFailure as failure:
            wait = outage.wait_after(failure)
            if wait is None:
                raise
            say(f"the model did not answer ({failure}); asked again in {wait:g} s")
            sleep(wait)
            outage = outage.after(wait)


def model_of(socket_path: str) -> str:
    """Who answers there: provider and name. Raises DoorFailure, also when the door says that its calls cannot work."""
    health = _asked(socket_path, "GET", HEALTH_PATH)
    if problem := health.get("problem"):
        raise DoorFailure("unavailable", str(problem))
    return f"{health.get('provider', '')} {health.get('model', '')}".strip()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, socket_path: str) -> None:
        super().__init__("model-door", timeout=SILENCE_SECONDS)
        self._socket_path = socket_path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._socket_path)


def _asked(socket_path: str, method: str, path: str, asked: dict[str, Any] | None = None) -> dict[str, Any]:
    """The door's answer when it is no failure. Raises DoorFailure."""
    # Outputs may hold what is no text; JSON in UTF-8 cannot.
    body = json.dumps(asked, ensure_ascii=False).encode(errors="replace") if asked else None
    connection = _UnixConnection(socket_path)
    try:
        connection.request(method, path, body, {"content-type": "application/json", "connection": "close"})
        response = connection.getresponse()
        content = response.read(MAX_ANSWER_BYTES + 1)
        missing = response.length
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise DoorFailure(NO_DOOR, f"nobody listens at {socket_path} ({error.strerror}); the door has ended") from error
    except (OSError, http.client.HTTPException) as error:
        why = f"the model door at {socket_path} did not answer ({type(error).__name__}: {error})"
        raise DoorFailure("unavailable", why) from error
    finally:
        connection.close()
    if missing or len(content) > MAX_ANSWER_BYTES:
        raise DoorFailure("unavailable", f"the model door's answer is not whole, or over {MAX_ANSWER_BYTES} bytes")
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise DoorFailure("unavailable", f"the model door answered {response.status} with something that is no JSON")
    if response.status != http.HTTPStatus.OK:
        raise _failure(response.status, answer)
    return answer


def _failure(status: int, answer: dict[str, Any]) -> DoorFailure:
    error = answer.get("error")
    if not isinstance(error, dict) or not isinstance(error.get("type"), str):
        return DoorFailure("unavailable", f"the model door answered {status} without a reason that can be read")
    wait = error.get("retry_after_seconds")
    seconds = float(wait) if isinstance(wait, (int, float)) and not isinstance(wait, bool) else None
    return DoorFailure(error["type"], str(error.get("message", "")), seconds)


def _completion(answer: dict[str, Any]) -> Completion:
    try:
        texts = [block["text"] for block in answer["content"] if block["type"] == "text"]
        usage = answer.get("usage") or {}
        tokens = sum(usage.get(f"{kind}_tokens", 0) for kind in ("input", "output", "cache_write", "cache_read"))
        text = "\n\n".join(texts).strip()
        return Completion(text, answer["stop_reason"], float(answer.get("usd", 0.0)), int(tokens))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DoorFailure("unavailable", f"the model door's answer is no completion: {error!r}") from None
