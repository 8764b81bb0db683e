"""The cell's side of the web door: one request and one answer over its unix socket (`shared.web`).

There are two outcomes, an answer or a WebFailure. All words of an answer that a page wrote stand in a frame; an error's
are the door's own, and are kept to one short line all the same."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from infra.shared.late import load_when_used
from infra.shared.sockets import connect
from infra.shared.text import cut
from infra.shared.visible import spelled
from infra.shared.web import FETCH_PATH, SEARCH_PATH, FetchRequest, Page, SearchRequest, SearchResults, WebError

load_when_used("ssl")  # by http.client, which here talks to a socket on this machine
import http.client  # noqa: E402

SECONDS = 170.0
"""The door has bounds of its own, which the PM sets; this one is for a door that hangs."""
MOST_ANSWER_BYTES = 16 << 20
MOST_WORDS = 400
_Answer = TypeVar("_Answer", Page, SearchResults)


class WebFailure(Exception):
    def __init__(self, error: WebError) -> None:
        super().__init__(error.message)
        self.error = error


class _Refused(msgspec.Struct, frozen=True):
    error: WebError


def fetch(socket_path: str, asked: FetchRequest, seconds: float = SECONDS) -> Page:
    """Raises WebFailure."""
    return _asked(socket_path, FETCH_PATH, asked, Page, seconds)


def search(socket_path: str, asked: SearchRequest, seconds: float = SECONDS) -> SearchResults:
    """Raises WebFailure."""
    return _asked(socket_path, SEARCH_PATH, asked, SearchResults, seconds)


def _asked(
    socket_path: str, path: str, asked: FetchRequest | SearchRequest, shape: type[_Answer], seconds: float
) -> _Answer:
    connection = _Connection(socket_path, seconds)
    try:
        body = msgspec.json.encode(asked)
        connection.request("POST", path, body, {"content-type": "application/json", "connection": "close"})
        response = connection.getresponse()
        content = response.read(MOST_ANSWER_BYTES + 1)
    except TimeoutError:
        words = f"the web door did not answer within {seconds:g} s"
        raise WebFailure(WebError("tool_timeout", words, True, "try again later")) from None
    except (FileNotFoundError, ConnectionRefusedError):
        raise _unavailable("there is no web door here: it is down, or this keep has none") from None
    except (OSError, http.client.HTTPException) as error:
        raise _unavailable(f"the web door did not answer ({type(error).__name__})") from None
    finally:
        connection.close()
    try:
        if response.status == http.HTTPStatus.OK:
            return msgspec.json.decode(content, type=shape)
        refused = msgspec.json.decode(content, type=_Refused).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise _unavailable(f"the web door answered {response.status} in words that cannot be read") from None
    raise WebFailure(refused._replace(message=_one_line(refused.message), hint=_one_line(refused.hint)))


class _Connection(http.client.HTTPConnection):
    def __init__(self, socket_path: str, seconds: float) -> None:
        super().__init__("web-door", timeout=seconds)
        self._socket_path = socket_path
        self._seconds = seconds

    def connect(self) -> None:
        self.sock = connect(self._socket_path, self._seconds)


def _unavailable(words: str) -> WebFailure:
    return WebFailure(WebError("tool_unavailable", words, True, "try again in a while, or say so in your report"))


def _one_line(words: str) -> str:
    return cut(spelled(" ".join(words[: 4 * MOST_WORDS].split())), MOST_WORDS)
